"""What is typical of a node's links to a zone, and between two zones, for links without a measurement.

Why: sites measure between some nodes of each zone; a link between two others is better guessed from those than from the
whole mesh. And a node with a bad interface is bad to all, so what its measured links have in common says most. Rules:
- The worse of what is typical of both ends: the median of an end's measured links to the other's zone, of an even count
  the better middle one, because the bad one of two links may be bad by its other end. An end with fewer than `LEAST`
  such links has the median over the measured pairs of the two zones.
- An estimate is a hundredth worse than that (`CAUTION`): of two links that look alike the measured one goes first.
- Per metric and direction; values past the hard TTL do not count, and an endpoint that serves nodes of several zones
  belongs to none.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from scoring.ids import NodeName, ZoneName
from scoring.network.measurement import METRICS, Floats, Ints, Metric


class Zones(msgspec.Struct, frozen=True):
    """What the fallback to zones needs to know: each node's zone, and from which age a value counts as unknown."""

    of: Mapping[NodeName, ZoneName]
    hard_ttl_s: Mapping[Metric, float | None]


CAUTION: Final = 0.01  # By how much an estimated delay is longer, and an estimated rate lower, than what is typical
LEAST: Final = 2
"""Links of a node to a zone from which on they say more of its other links there than those of all nodes do."""


class Medians(msgspec.Struct, frozen=True):
    """Medians over the measured pairs, per metric, NaN if there are none."""

    zone_of: Mapping[NodeName, int]
    values: Mapping[Metric, Floats]  # (zones, zones)
    measured_at_s: Mapping[Metric, Floats]
    hard_ttl_s: Mapping[Metric, float]
    from_end: Mapping[Metric, Floats]  # (endpoints, zones): from this endpoint to nodes of the zone
    to_end: Mapping[Metric, Floats]

    def typical(self, metric: Metric, ends: tuple[Ints, Ints], zones: tuple[Ints, Ints]) -> Floats:
        """What links from `ends[0]` (n) to `ends[1]` (m), with their zones, −1 where none, are taken for: (n, m)."""
        (rows, cols), (from_zone, to_zone) = ends, zones
        worse_by = {Metric.LOSS: 1.0, Metric.DELAY: 1.0 + CAUTION, Metric.THROUGHPUT: 1.0 - CAUTION}[metric]
        of_zones = self.values[metric][from_zone[:, None], to_zone[None, :]]
        if metric not in self.from_end:
            return of_zones * worse_by
        there = self.from_end[metric][rows[:, None], to_zone[None, :]]
        back = self.to_end[metric][cols[None, :], from_zone[:, None]]
        worse = np.minimum if metric is Metric.THROUGHPUT else np.maximum
        there = np.where((rows[:, None] >= 0) & ~np.isnan(there), there, of_zones)
        back = np.where((cols[None, :] >= 0) & ~np.isnan(back), back, of_zones)
        return worse(there, back) * worse_by

    def rows(self, nodes: Sequence[NodeName]) -> Ints:
        """Zone number of each node, −1 where it has none."""
        return np.array([self.zone_of.get(node, -1) for node in nodes], np.int64)


def medians_of(
    columns: Mapping[Metric, tuple[Ints, Floats, Floats]],
    end_of: Mapping[Metric, Mapping[NodeName, int]],
    zones: Zones,
    *,
    size: int,
    now_s: float,
) -> Medians:
    """Medians of all zone pairs. `columns`: keys from · `size` + to, values, times. Cost: O(m log m + zones²)."""
    number = {zone: i for i, zone in enumerate(sorted(set(zones.of.values())))}
    zone_of = {node: number[zone] for node, zone in zones.of.items()}
    ttl_s = {metric: zones.hard_ttl_s.get(metric) for metric in METRICS}
    hard_ttl_s = {metric: np.inf if age_s is None else age_s for metric, age_s in ttl_s.items()}
    values, times = ({m: np.full((len(number), len(number)), np.nan) for m in METRICS} for _ in range(2))
    from_end: dict[Metric, Floats] = {}
    to_end: dict[Metric, Floats] = {}
    for metric, (keys, known, measured_at_s) in columns.items():
        zone_of_end = _zones_of_ends(end_of.get(metric, {}), zone_of, size=size)
        rows, cols = zone_of_end[keys // max(size, 1)], zone_of_end[keys % max(size, 1)]
        counts = (rows >= 0) & (cols >= 0) & (now_s - measured_at_s < hard_ttl_s[metric])
        if not counts.any():
            continue
        groups = (rows * len(number) + cols)[counts]
        good_first = -known[counts] if metric is Metric.THROUGHPUT else known[counts]
        for book, ends, zone in ((from_end, keys // size, cols), (to_end, keys % size, rows)):
            book[metric] = _of_ends(ends[counts], zone[counts], good_first, shape=(size, len(number)))
            if metric is Metric.THROUGHPUT:
                book[metric] = -book[metric]
        order = np.argsort(groups, kind="stable")
        found, starts = np.unique(groups[order], return_index=True)
        parts = (np.split(column[counts][order], starts[1:]) for column in (known, measured_at_s))
        for group, its_values, its_times in zip(found.tolist(), *parts, strict=True):
            values[metric][divmod(group, len(number))] = np.median(its_values)
            times[metric][divmod(group, len(number))] = np.median(its_times)
    return Medians(zone_of, values, times, hard_ttl_s, from_end, to_end)


def group_medians(group: Ints, value: Floats) -> tuple[Ints, Floats, Ints]:
    """The groups there are, ascending, the lower median of each one's values, and their number. Cost: O(m log m).

    >>> [column.tolist() for column in group_medians(np.array([0, 2, 0, 0]), np.array([3.0, 5.0, 1.0, 2.0]))]
    [[0, 2], [2.0, 5.0], [3, 1]]
    """
    order = np.lexsort((value, group))
    groups, starts, counts = np.unique(group[order], return_index=True, return_counts=True)
    return groups, value[order][starts + (counts - 1) // 2], counts


def _of_ends(ends: Ints, zones: Ints, values: Floats, *, shape: tuple[int, int]) -> Floats:
    """The lower median by endpoint and zone, NaN where there are fewer than `LEAST` values. Cost: O(m log m)."""
    found = np.full(shape, np.nan)
    at, medians, counts = group_medians(ends * shape[1] + zones, values)
    found.flat[at[counts >= LEAST]] = medians[counts >= LEAST]
    return found


def _zones_of_ends(end_of: Mapping[NodeName, int], zone_of: Mapping[NodeName, int], *, size: int) -> Ints:
    """Zone number of each endpoint, −1 where its nodes have none or several."""
    found = np.full(size, -1, np.int64)
    shared: set[int] = set()
    for node, end in end_of.items():
        zone = zone_of.get(node, -1)
        if found[end] not in (-1, zone):
            shared.add(end)
        found[end] = zone
    found[sorted(shared)] = -1
    return found
