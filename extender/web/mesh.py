"""The heat-map of the mesh: one metric, either zone by zone or node by node in one zone.

Why two sizes: 5,000 nodes have 25 million pairs; people look at which zones are bad, and then into one. Rule: a cell of
two zones shows the **worst** value measured between them, because one bad link is what slows a job down, and how many
pairs it stands for; everything comes from one snapshot. Units as everywhere: ratio, ms, bit/s, seconds.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from extender.web.grades import Bounds, Grade, bounds_of
from scoring.ids import ZoneName
from scoring.model.policy import ScorePolicy
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import Floats, Ints, Metric

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
    counts: Ints | None = None  # Pairs that a cell stands for; `None`: one


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
    rates = values[~np.isnan(values)] if metric is Metric.THROUGHPUT else np.empty(0)
    bounds = bounds_of(metric, best=float(rates.max(initial=0.0)))
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
        "values": [[_short(value) for value in row] for row in values.tolist()],
        "ages_s": [[None if age != age else round(age) for age in row] for row in ages.tolist()],
        "pairs": None if cells.counts is None else cells.counts.tolist(),
        "worst": _worst(cells, metric),
    }


def _of_nodes(snapshot: Snapshot, metric: Metric, rows: Ints) -> _Cells:
    names = [snapshot.table.names[row] for row in rows[:MOST_ENDS]]
    block = snapshot.network.block(names, names)
    values, ages_s = {
        Metric.LOSS: (block.loss_ratio, block.loss_age_s),
        Metric.DELAY: (block.delay_ms, block.delay_age_s),
        Metric.THROUGHPUT: (block.throughput_bps, block.throughput_age_s),
    }[metric]
    mapped = np.array([snapshot.network.endpoint(name, metric) is not None for name in names], np.bool_)
    return _Cells(names, len(rows), values, ages_s, own=block.same, checked=mapped[:, None] & mapped[None, :])


def _of_zones(snapshot: Snapshot, metric: Metric) -> _Cells:
    table, network = snapshot.table, snapshot.network
    zones = list(table.zones)[:MOST_ENDS]
    number = {zone: i for i, zone in enumerate(zones)}
    of_end = np.full(len(network.endpoints), -1, np.int64)
    index = {end: i for i, end in enumerate(network.endpoints)}
    for node, end in sorted(network.endpoint_of.get(metric, {}).items()):
        row = table.index.get(node)
        if row is not None and end in index:
            of_end[index[end]] = number.get(table.nodes[row].zone, -1)
    sources, targets, values, ages = network.measured_values(metric)
    cell = of_end[sources] * len(zones) + of_end[targets]
    known = (of_end[sources] >= 0) & (of_end[targets] >= 0)
    shape = (len(zones), len(zones))
    size = len(zones) ** 2
    worst, oldest = np.full(size, np.nan), np.full(size, np.nan)
    worse = np.fmin if metric is Metric.THROUGHPUT else np.fmax
    worse.at(worst, cell[known], values[known])
    np.fmax.at(oldest, cell[known], ages[known])
    counts = (np.bincount(cell[known], minlength=size) if size else np.zeros(0, np.int64)).reshape(shape)
    own = np.zeros(shape, np.bool_)
    return _Cells(
        zones, len(table.zones), worst.reshape(shape), oldest.reshape(shape), own, checked=counts > 0, counts=counts
    )


def _letters(cells: _Cells, bounds: Bounds) -> list[str]:
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
    order = cells.values if metric is Metric.THROUGHPUT else -cells.values
    flat = np.where(cells.own | np.isnan(order), np.inf, order).ravel()
    first = np.argsort(flat, kind="stable")[:_WORST]
    return [list(divmod(int(at), len(cells.ends))) for at in first if np.isfinite(flat[at])]


def _short(value: float) -> float | None:
    """Three digits are what a tooltip shows; NaN is null."""
    return None if value != value else float(f"{value:.3g}")
