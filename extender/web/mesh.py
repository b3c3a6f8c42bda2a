"""The heat-map of the mesh: one metric, either zone by zone or node by node in one zone.

Why two sizes: 5,000 nodes have 25 million pairs; people look at which zones are bad, and then into one. Rule: a cell of
two zones shows the **worst** value measured between them, because one bad link is what slows a job down, and how many
pairs it stands for; everything comes from one snapshot. Units as everywhere: ratio, ms, bit/s, seconds.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from extender.web.grades import Bounds, Grade, bounds_of
from scoring.ids import NodeName, ZoneName
from scoring.model.policy import ScorePolicy
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import Floats, Ints, Metric

Document = dict[str, Any]

MOST_ENDS: Final = 130  # Rows of a heat-map: 16,900 cells are about 200 KiB, still two pixels each on a small screen
_WORST: Final = 8


def mesh_document(
    snapshot: Snapshot, policy: ScorePolicy, *, metric: Metric, zone: str | None = None
) -> Document | None:
    """One metric as a matrix [from][to]; `zone`: the nodes of that zone, else the zones; `None`: no such zone.

    `grades` has a letter a cell (see Grade; a space where nothing can be measured), `stale` a 1 where the value is
    older than the soft TTL. Cost: O(pairs of the metric), or O(nodes²) of the zone, at most 130 of them.
    """
    if zone is None:
        return _of_zones(snapshot, policy, metric)
    rows = snapshot.table.zones.get(ZoneName(zone))
    return None if rows is None else _of_nodes(snapshot, policy, metric, zone, rows)


def _of_nodes(snapshot: Snapshot, policy: ScorePolicy, metric: Metric, zone: str, rows: Ints) -> Document:
    names = [snapshot.table.names[row] for row in rows[:MOST_ENDS]]
    block = snapshot.network.block(names, names)
    values, ages = {
        Metric.LOSS: (block.loss_ratio, block.loss_age_s),
        Metric.DELAY: (block.delay_ms, block.delay_age_s),
        Metric.THROUGHPUT: (block.throughput_bps, block.throughput_age_s),
    }[metric]
    mapped = np.array([snapshot.network.endpoint(name, metric) is not None for name in names], np.bool_)
    checked = mapped[:, None] & mapped[None, :]
    return _document(
        snapshot, policy, metric, zone=zone, ends=names, of=len(rows), cells=(values, ages), own=block.same,
        checked=checked, counts=None,
    )  # fmt: skip


def _of_zones(snapshot: Snapshot, policy: ScorePolicy, metric: Metric) -> Document:
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
    size = len(zones) ** 2
    worst, oldest = np.full(size, np.nan), np.full(size, np.nan)
    worse = np.fmin if metric is Metric.THROUGHPUT else np.fmax
    worse.at(worst, cell[known], values[known])
    np.fmax.at(oldest, cell[known], ages[known])
    counts = np.bincount(cell[known], minlength=size) if size else np.zeros(0, np.int64)
    shape = (len(zones), len(zones))
    return _document(
        snapshot, policy, metric, zone=None, ends=[str(zone) for zone in zones], of=len(table.zones),
        cells=(worst.reshape(shape), oldest.reshape(shape)), own=np.zeros(shape, np.bool_),
        checked=(counts > 0).reshape(shape), counts=counts.reshape(shape),
    )  # fmt: skip


def _document(
    snapshot: Snapshot,
    policy: ScorePolicy,
    metric: Metric,
    *,
    zone: str | None,
    ends: Sequence[NodeName] | Sequence[str],
    of: int,
    cells: tuple[Floats, Floats],
    own: np.typing.NDArray[np.bool_],
    checked: np.typing.NDArray[np.bool_],
    counts: Ints | None,
) -> Document:
    values, ages = cells
    rates = values[~np.isnan(values)] if metric is Metric.THROUGHPUT else np.empty(0)
    bounds = bounds_of(metric, best=float(rates.max(initial=0.0)))
    soft_s, hard_s = policy.soft_ttl_s.of(metric), policy.hard_ttl_s.of(metric)
    stale = ages > (np.inf if soft_s is None else soft_s)
    return {
        "version": snapshot.network.version,
        "metric": metric.value,
        "zone": zone,
        "ends": list(ends),
        "of": of,
        "good": bounds.good,
        "poor": bounds.poor,
        "highest_is_best": bounds.highest_is_best,
        "soft_ttl_s": soft_s,
        "hard_ttl_s": hard_s,
        "grades": _letters(values, bounds, own=own, checked=checked),
        "stale": ["".join("1" if one else "0" for one in row) for row in stale.tolist()],
        "values": [[_short(value) for value in row] for row in values.tolist()],
        "ages_s": [[None if age != age else round(age) for age in row] for row in ages.tolist()],
        "pairs": None if counts is None else counts.tolist(),
        "worst": _worst(values, own, metric),
    }


def _letters(
    values: Floats, bounds: Bounds, *, own: np.typing.NDArray[np.bool_], checked: np.typing.NDArray[np.bool_]
) -> list[str]:
    if bounds.highest_is_best:
        good, poor = values >= bounds.good, values < bounds.poor
    else:
        good, poor = values <= bounds.good, values >= bounds.poor
    letters = np.select(
        [own, np.isnan(values) & ~checked, np.isnan(values), good, poor],
        [" ", Grade.UNCHECKED.value, Grade.UNKNOWN.value, Grade.GOOD.value, Grade.POOR.value],
        Grade.FAIR.value,
    )
    return ["".join(row) for row in letters.tolist()]


def _worst(values: Floats, own: np.typing.NDArray[np.bool_], metric: Metric) -> list[list[int]]:
    """(row, column) of the worst cells, worst first; of equal ones the first."""
    order = values if metric is Metric.THROUGHPUT else -values
    flat = np.where(own | np.isnan(values), np.inf, order).ravel()
    first = np.argsort(flat, kind="stable")[:_WORST]
    return [list(divmod(int(at), values.shape[1])) for at in first if np.isfinite(flat[at])]


def _short(value: float) -> float | None:
    """Three digits are what a tooltip shows; NaN is null."""
    return None if value != value else float(f"{value:.3g}")
