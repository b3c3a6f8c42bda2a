"""The heat-map of the mesh: one metric, either zone by zone or node by node in one zone.

Why two sizes: 5,000 nodes have 25 million pairs; people look at which zones are bad, and then into one. Rule: a cell of
two zones shows the **median** of what is measured between them, and beside it how many of its pairs are bad, the worst
value and the node with most bad pairs: one bad node among nine must be seen, and must not look like a bad zone.
Everything comes from one snapshot. Units as everywhere: ratio, ms, bit/s, seconds.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from scoring.ids import ZoneName
from scoring.model.policy import ScorePolicy
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import Floats, Ints, Metric, group_medians
from scoring.network.node_links import Grade, GradeBounds, bounds_of, rows_of_ends

Document = dict[str, Any]
Bools: TypeAlias = np.typing.NDArray[np.bool_]

MOST_ENDS: Final = 130  # Rows of a heat-map: 16,900 cells are about 200 KiB, still two pixels each on a small screen
_WORST: Final = 8


class _Cells(NamedTuple):
    ends: Sequence[str]
    of: int  # Ends there are, shown or not
    values: Floats
    ages_s: Floats
    own: Bools  # From an end to itself
    checked: Bools
    worst: Floats  # Of what is behind each cell
    behind: Document  # More of that, for people


def mesh_document(
    snapshot: Snapshot, policy: ScorePolicy, *, metric: Metric, zone: str | None = None
) -> Document | None:
    """One metric as a matrix [from][to]; `zone`: the nodes of that zone, else the zones; `None`: no such zone.

    `grades` has a letter a cell (see Grade; a space where nothing can be measured), `stale` a 1 where the value is
    older than the soft TTL. Cost: O(pairs of the metric), or O(nodes²) of the zone, at most 130 of them.
    """
    if zone is None:
        cells = _of_zones(snapshot, metric)
    elif (rows := snapshot.table.zones.get(ZoneName(zone))) is not None:
        cells = _of_nodes(snapshot, metric, rows)
    else:
        return None
    values, ages = cells.values, cells.ages_s
    bounds = _bounds(snapshot, metric)
    soft_s, hard_s = policy.soft_ttl_s.of(metric), policy.hard_ttl_s.of(metric)
    stale = ages > (np.inf if soft_s is None else soft_s)
    return {
        "version": snapshot.network.version,
        "metric": metric.value,
        "zone": zone,
        "ends": list(cells.ends),
        "of": cells.of,
        "good": bounds.good,
        "poor": bounds.poor,
        "highest_is_best": bounds.highest_is_best,
        "soft_ttl_s": soft_s,
        "hard_ttl_s": hard_s,
        "grades": _letters(cells, bounds),
        "stale": ["".join("1" if one else "0" for one in row) for row in stale.tolist()],
        "values": _shortened(values),
        "ages_s": [[None if age != age else round(age) for age in row] for row in ages.tolist()],
        "worst": _worst(cells, metric),
        **cells.behind,
    }


def _bounds(snapshot: Snapshot, metric: Metric) -> GradeBounds:
    if metric is not Metric.THROUGHPUT:
        return bounds_of(metric)
    return bounds_of(metric, best=float(snapshot.network.measured_values(metric)[2].max(initial=0.0)))


def _of_nodes(snapshot: Snapshot, metric: Metric, rows: Ints) -> _Cells:
    names = [snapshot.table.names[row] for row in rows[:MOST_ENDS]]
    block = snapshot.network.block(names, names)
    values, ages_s = {
        Metric.LOSS: (block.loss_ratio, block.loss_age_s),
        Metric.DELAY: (block.delay_ms, block.delay_age_s),
        Metric.THROUGHPUT: (block.throughput_bps, block.throughput_age_s),
    }[metric]
    mapped = np.array([snapshot.network.endpoint(name, metric) is not None for name in names], np.bool_)
    checked = mapped[:, None] & mapped[None, :]
    return _Cells(names, len(rows), values, ages_s, block.same, checked, values, {"pairs": None})


def _of_zones(snapshot: Snapshot, metric: Metric) -> _Cells:
    table, network = snapshot.table, snapshot.network
    zones = list(table.zones)[:MOST_ENDS]
    number = {zone: i for i, zone in enumerate(zones)}
    row_of = rows_of_ends(network, table.index, metric)
    zone_of = np.array([*(number.get(node.zone, -1) for node in table.nodes), -1], np.int64)
    sources, targets, values, ages_s = network.measured_values(metric)
    a, b = row_of[sources], row_of[targets]
    known = (zone_of[a] >= 0) & (zone_of[b] >= 0)
    a, b, values, ages_s = a[known], b[known], values[known], ages_s[known]
    shape, size = (len(zones), len(zones)), len(zones) ** 2
    cell = zone_of[a] * len(zones) + zone_of[b]
    counts = np.bincount(cell, minlength=size) if size else np.zeros(0, np.int64)
    bounds = _bounds(snapshot, metric)
    poor = values < bounds.poor if bounds.highest_is_best else values >= bounds.poor
    worst, oldest, median = np.full(size, np.nan), np.full(size, np.nan), np.full(size, np.nan)
    (np.fmin if bounds.highest_is_best else np.fmax).at(worst, cell, values)
    np.fmax.at(oldest, cell, ages_s)
    measured, medians, _ = group_medians(cell, values)
    median[measured] = medians
    bad = np.bincount(cell[poor], minlength=size) if size else counts
    worst, counts = worst.reshape(shape), counts.reshape(shape)
    behind = {
        "pairs": counts.tolist(),  # With a value
        "bad": bad.reshape(shape).tolist(),
        "worst_values": _shortened(worst),
        "worst_at": _worst_nodes(snapshot, cell, a, b, poor, shape),
    }
    values, ages_s, own = median.reshape(shape), oldest.reshape(shape), np.zeros(shape, np.bool_)
    return _Cells(zones, len(table.zones), values, ages_s, own, counts > 0, worst, behind)


def _worst_nodes(
    snapshot: Snapshot, cell: Ints, a: Ints, b: Ints, poor: Bools, shape: tuple[int, int]
) -> list[list[str | None]]:
    """Per cell the node with most bad pairs, of equal ones the first; None: there is none. Cost: O(bad pairs)."""
    found: list[list[str | None]] = [[None] * shape[1] for _ in range(shape[0])]
    nodes = max(len(snapshot.table.names), 1)
    keys, counts = np.unique(np.concatenate([cell[poor] * nodes + ends[poor] for ends in (a, b)]), return_counts=True)
    for at in np.argsort(counts, kind="stable").tolist():  # the last that is written has most
        of_cell, row = divmod(int(keys[at]), nodes)
        found[of_cell // shape[1]][of_cell % shape[1]] = snapshot.table.names[row]
    return found


def _letters(cells: _Cells, bounds: GradeBounds) -> list[str]:
    values, unknown = cells.values, np.isnan(cells.values)
    if bounds.highest_is_best:
        good, poor = values >= bounds.good, values < bounds.poor
    else:
        good, poor = values <= bounds.good, values >= bounds.poor
    letters = np.select(
        [cells.own, unknown & ~cells.checked, unknown, good, poor],
        [" ", Grade.UNCHECKED.value, Grade.UNKNOWN.value, Grade.GOOD.value, Grade.POOR.value],
        Grade.FAIR.value,
    )
    return ["".join(row) for row in letters.tolist()]


def _worst(cells: _Cells, metric: Metric) -> list[list[int]]:
    """(row, column) of the worst cells, worst first; of equal ones the first."""
    order = cells.worst if metric is Metric.THROUGHPUT else -cells.worst
    flat = np.where(cells.own | np.isnan(order), np.inf, order).ravel()
    first = np.argsort(flat, kind="stable")[:_WORST]
    return [list(divmod(int(at), len(cells.ends))) for at in first if np.isfinite(flat[at])]


def _shortened(values: Floats) -> list[list[float | None]]:
    """Three digits are what a tooltip shows; NaN is null."""
    return [[None if value != value else float(f"{value:.3g}") for value in row] for row in values.tolist()]
