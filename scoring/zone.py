"""Distances between zones, and the order in which zones are tried (PAPERS N1).

Rule: room first (the caller drops zones that cannot hold the gang), then nearness to the job's users, then the best
achievable network, then the least fragmentation, then the name. `near` names a zone or a measurement endpoint and is at
distance 0; other zones are at the median measured one-way delay, else at the configured one, else after all known ones.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scoring.ids import EndpointId, ZoneName
from scoring.network import Metric, NetworkMatrix
from scoring.policy import GangOptions, Policy
from scoring.snapshot import NodeTable

UNKNOWN_DISTANCE_MS = math.inf
"""A zone nobody knows the distance of comes after all zones that are known."""


@dataclass(frozen=True, slots=True)
class ZoneRank:
    """The parts by which a zone was ordered; smaller is tried first."""

    zone: ZoneName
    distance_ms: float
    preference: int
    """Place in the gang's own list of zones."""


def rank_zones(
    zones: Sequence[ZoneName], *, options: GangOptions, distances: Mapping[ZoneName, float] | None
) -> tuple[ZoneRank, ...]:
    """Order zones by distance, then by the gang's own list; `distances` is `None` without `near`.

    >>> options = GangOptions(zones=(ZoneName("B"), ZoneName("A")))
    >>> [r.zone for r in rank_zones([ZoneName("A"), ZoneName("B")], options=options, distances=None)]
    ['B', 'A']
    """
    listed = {zone: i for i, zone in enumerate(options.zones or ())}
    ranks = [
        ZoneRank(zone, 0.0 if distances is None else distances.get(zone, UNKNOWN_DISTANCE_MS), listed.get(zone, 0))
        for zone in zones
    ]
    return tuple(sorted(ranks, key=lambda rank: (rank.distance_ms, rank.preference, rank.zone)))


def zone_distances(near: str, table: NodeTable, network: NetworkMatrix, policy: Policy) -> dict[ZoneName, float]:
    """Distance in ms of every zone from `near`. Cost: O(endpoints of near's zone × endpoints measured).

    An endpoint that some node is measured at stands for its zone only for the value 0; otherwise its own links count.
    """
    ends_of = _endpoints_by_zone(table, network)
    at_zone = ZoneName(near) in table.zones
    mine = ends_of.get(ZoneName(near), ()) if at_zone else (EndpointId(near),)
    configured = dict(policy.zone_distance_ms)
    distances: dict[ZoneName, float] = {}
    for zone in table.zones:
        if (at_zone and zone == near) or (not at_zone and EndpointId(near) in ends_of[zone]):
            distances[zone] = 0.0
            continue
        measured = _median_delay(network, mine, ends_of[zone])
        if measured is None:
            table_value = configured.get((ZoneName(near), zone), configured.get((zone, ZoneName(near))))
            measured = UNKNOWN_DISTANCE_MS if table_value is None else table_value
        distances[zone] = measured
    return distances


def _endpoints_by_zone(table: NodeTable, network: NetworkMatrix) -> dict[ZoneName, tuple[EndpointId, ...]]:
    found: dict[ZoneName, tuple[EndpointId, ...]] = {}
    for zone, rows in table.zones.items():
        ends = {network.endpoint(table.names[row], Metric.DELAY) for row in rows}
        found[zone] = tuple(sorted(end for end in ends if end is not None))
    return found


def _median_delay(network: NetworkMatrix, mine: Sequence[EndpointId], theirs: Sequence[EndpointId]) -> float | None:
    """Median over the pairs of the worse direction's delay; `None` when no pair is measured."""
    delays = network.endpoint_delays_ms(mine, theirs)
    back = network.endpoint_delays_ms(theirs, mine).T
    worst = np.fmax(delays, back)
    known = worst[~np.isnan(worst)]
    return float(np.median(known)) if known.size else None


def fewest_zones(
    room_of: Mapping[ZoneName, int],
    count: int,
    *,
    between: Callable[[ZoneName, ZoneName], float],
) -> tuple[ZoneName, ...] | None:
    """Zones that together hold `count` members: as few as possible, then the best mean score `between` them.

    From every start zone the zone with the best links to those chosen is added until there is room. `None`: no room in
    all zones together. Cost: O(zones³). Source: PAPERS N1, our spill rule.

    >>> rooms = {ZoneName("A"): 2, ZoneName("B"): 2, ZoneName("C"): 2}
    >>> fewest_zones(rooms, 4, between=lambda a, b: 9.0 if {a, b} == {"A", "C"} else 1.0)
    ('A', 'C')
    >>> fewest_zones(rooms, 7, between=lambda a, b: 1.0) is None
    True
    """
    usable = sorted(zone for zone, room in room_of.items() if room > 0)
    if sum(room_of[zone] for zone in usable) < count:
        return None
    best: tuple[int, float, tuple[ZoneName, ...]] | None = None
    fewest = _least_number(sorted((room_of[zone] for zone in usable), reverse=True), count)
    for start in usable:
        chosen = [start]
        links: list[float] = []
        while sum(room_of[zone] for zone in chosen) < count:
            rest = [zone for zone in usable if zone not in chosen]
            missing = count - sum(room_of[zone] for zone in chosen)
            left = fewest - len(chosen) - 1
            # Only a zone that still lets the rest finish with the fewest zones, while there is one.
            closing = [z for z in rest if room_of[z] + _largest(room_of, rest, z, left) >= missing] or rest
            score, added = max((_mean(between(z, c) for c in chosen), z) for z in reversed(closing))
            chosen.append(added)
            links.append(score)
        key = (len(chosen), -_mean(links), tuple(sorted(chosen)))
        if best is None or key < best:
            best = key
    return None if best is None else best[2]


def _least_number(rooms: Sequence[int], count: int) -> int:
    total = 0
    for number, room in enumerate(rooms, start=1):
        total += room
        if total >= count:
            return number
    return len(rooms)


def _largest(room_of: Mapping[ZoneName, int], rest: Sequence[ZoneName], without: ZoneName, number: int) -> int:
    return sum(sorted((room_of[z] for z in rest if z != without), reverse=True)[: max(number, 0)])


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0
