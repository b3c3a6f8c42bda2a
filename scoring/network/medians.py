"""What is typical between two zones, for links without a measurement.

Why: sites measure between some nodes of each zone; a link between two others is better guessed from those than from the
whole mesh. Rule: the median over the measured pairs of the two zones, per metric and direction; values past the hard
TTL do not count, and an endpoint that serves nodes of several zones belongs to none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scoring.ids import NodeName, ZoneName
from scoring.network.measurement import METRICS, Floats, Ints, Metric


@dataclass(frozen=True, slots=True)
class Zones:
    """What the fallback to zones needs to know: each node's zone, and from which age a value counts as unknown."""

    of: Mapping[NodeName, ZoneName]
    hard_ttl_s: Mapping[Metric, float | None]


@dataclass(frozen=True, slots=True)
class Medians:
    """What is typical between two zones: medians over the measured pairs, (zones, zones) per metric, NaN if none."""

    zone_of: Mapping[NodeName, int]
    values: Mapping[Metric, Floats]
    measured_at_s: Mapping[Metric, Floats]
    hard_ttl_s: Mapping[Metric, float]

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
    for metric, (keys, known, measured_at_s) in columns.items():
        zone_of_end = _zones_of_ends(end_of.get(metric, {}), zone_of, size=size)
        rows, cols = zone_of_end[keys // max(size, 1)], zone_of_end[keys % max(size, 1)]
        counts = (rows >= 0) & (cols >= 0) & (now_s - measured_at_s < hard_ttl_s[metric])
        if not counts.any():
            continue
        groups = (rows * len(number) + cols)[counts]
        order = np.argsort(groups, kind="stable")
        found, starts = np.unique(groups[order], return_index=True)
        parts = (np.split(column[counts][order], starts[1:]) for column in (known, measured_at_s))
        for group, its_values, its_times in zip(found.tolist(), *parts, strict=True):
            values[metric][divmod(group, len(number))] = np.median(its_values)
            times[metric][divmod(group, len(number))] = np.median(its_times)
    return Medians(zone_of, values, times, hard_ttl_s)


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
