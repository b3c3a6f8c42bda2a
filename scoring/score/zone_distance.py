"""Zones: their distances and the order in which they are tried (PAPERS N1), and the network between whole zones.

Rule: room first, then nearness to the job's users, then the best achievable network, then the least fragmentation, then
the name. `near` names a zone or a measurement endpoint and is at distance 0; other zones are at the median over the
pairs of ends of the worse direction's measured delay, else at the configured one, else after all known ones.

Most pairs of zones have no measurement. Two zones between which nothing is measured are worth what any unknown link
is worth; between others only links of nodes that have one across are looked at. Means are rounded to `_GRID`: equal
links give equal means however many nodes the zones have, and a tie is decided by name.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from math import comb
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from scoring import EndpointId, NodeName, ZoneName
from scoring.model import NodeTable, Policy
from scoring.model.policy import GangOptions, ScorePolicy, nearest
from scoring.network.matrix import METRICS, Ints, Metric, NetworkMatrix
from scoring.score.pairs import BAD_PAIR, Names, measured, pair_scores, representatives

Rooms: TypeAlias = Mapping[ZoneName, Sequence[int]]  # zone → members of each class that it holds
Between: TypeAlias = Callable[[ZoneName, ZoneName], float]
Zones: TypeAlias = Sequence[ZoneName]
UNKNOWN_DISTANCE_MS = math.inf  # A zone of unknown distance comes after all zones that are known
MOST_SETS = 2000  # Sets of equally many zones that are compared: all of twelve zones, all pairs of sixty
Ends: TypeAlias = Mapping[Metric, frozenset[int]]  # metric → indexes of endpoints
Crossings: TypeAlias = Mapping[tuple[int, int], Ends]
"""(number of a set of nodes, of a later one) → endpoints that lead across, by measured pairs or as nodes share them"""
_GRID = 2.0**34


def rank_zones(
    zones: Sequence[ZoneName], *, options: GangOptions, distances: Mapping[ZoneName, float] | None
) -> list[tuple[float, int, ZoneName]]:
    """(distance in ms, place in the gang's own list, zone), first tried first; `distances` is `None` without `near`."""
    listed = {zone: i for i, zone in enumerate(options.zones or ())}
    far = {} if distances is None else {zone: distances.get(zone, UNKNOWN_DISTANCE_MS) for zone in zones}
    return sorted((far.get(zone, 0.0), listed.get(zone, 0), zone) for zone in zones)


def zone_distances(near: str, table: NodeTable, network: NetworkMatrix, policy: Policy) -> dict[ZoneName, float]:
    """Distance in ms of every zone from `near`. Cost: O(endpoints of near's zone × endpoints measured)."""
    ends_of: dict[ZoneName, list[EndpointId]] = {}
    for zone, rows in table.zones.items():
        ends = {network.endpoint(table.names[row], Metric.DELAY) for row in rows}
        ends_of[zone] = sorted(end for end in ends if end is not None)
    at_zone = ZoneName(near) in table.zones
    mine = ends_of[ZoneName(near)] if at_zone else [EndpointId(near)]
    configured = policy.zone_distance_ms
    distances: dict[ZoneName, float] = {}
    for zone, theirs in ends_of.items():
        if (zone == near) if at_zone else (EndpointId(near) in theirs):
            distances[zone] = 0.0
            continue
        worse = np.fmax(network.endpoint_delays_ms(mine, theirs), network.endpoint_delays_ms(theirs, mine).T)
        if np.isnan(worse).all():
            back_ms = configured.get(zone, {}).get(ZoneName(near), UNKNOWN_DISTANCE_MS)
            distances[zone] = configured.get(ZoneName(near), {}).get(zone, back_ms)
        else:
            distances[zone] = float(np.nanmedian(worse))
    return distances


def near_problem(near: str | None, table: NodeTable, network: NetworkMatrix, policy: Policy) -> tuple[str, ...]:
    """A sentence when `netgang.io/near` decides nothing because no zone's distance from it is known."""
    if near is None or ZoneName(near) in table.zones:
        return ()
    distances = zone_distances(near, table, network, policy)
    if any(distance < UNKNOWN_DISTANCE_MS for distance in distances.values()):
        return ()
    if (row := table.index.get(NodeName(near))) is not None:
        return (f"netgang.io/near: {near!r} is a node of zone {table.nodes[row].zone}: name the zone",)
    meant = nearest(near, [zone for zone in table.zones if zone])
    asked = f"; did you mean zone {meant}?" if meant is not None else "; it is ignored"
    return (f"netgang.io/near: {near!r} is no zone of the cluster and no endpoint with a known delay{asked}",)


def fewest_zones(
    rooms: Rooms, counts: Sequence[int], *, between: Between, home: Zones = ()
) -> Iterator[tuple[ZoneName, ...]]:
    """Sets of zones that together hold all members: the fewest zones first, then the best mean score `between` them.

    `counts`: members wanted of each class; `home`: zones that the gang is in already, part of every set. Classes may
    compete for the same nodes, so the caller may need the next set. Where one number of zones has more than `MOST_SETS`
    sets, it ends with one set that is grown zone by zone. Cost: O(sets · zones²). Source: PAPERS N1, our spill rule.
    """
    fixed = tuple(sorted(zone for zone in home if zone in rooms))
    others = sorted(zone for zone, room in rooms.items() if any(room) and zone not in fixed)
    if not _hold(rooms, (*fixed, *others), counts):
        return
    for extra in range(len(others) + 1):
        if comb(len(others), extra) > MOST_SETS:
            yield _grown(rooms, counts, fixed, others, between)
            return
        if not all(
            sum(rooms[z][c] for z in fixed) + sum(sorted((rooms[z][c] for z in others), reverse=True)[:extra]) >= count
            for c, count in enumerate(counts)
        ):
            continue  # not even with those that have most room for each class by itself
        sets = [tuple(sorted((*fixed, *some))) for some in combinations(others, extra)]
        holding = [some for some in sets if some and _hold(rooms, some, counts)]
        yield from sorted(holding, key=lambda some: (-_mean(between(a, b) for a, b in combinations(some, 2)), some))


def _hold(rooms: Rooms, zones: Zones, counts: Sequence[int]) -> bool:
    return all(sum(rooms[zone][c] for zone in zones) >= count for c, count in enumerate(counts))


def _grown(rooms: Rooms, counts: Sequence[int], fixed: Zones, others: Zones, between: Between) -> tuple[ZoneName, ...]:
    """Add the zone that holds most of what is still missing, of equals the best connected one, until all is held."""
    chosen, rest = list(fixed), list(others)
    while not _hold(rooms, chosen, counts):
        missing = [max(count - sum(rooms[z][c] for z in chosen), 0) for c, count in enumerate(counts)]

        def gain(zone: ZoneName, missing: Sequence[int] = missing) -> tuple[int, float]:
            held = sum(min(room, short) for room, short in zip(rooms[zone], missing, strict=True))
            return held, _mean(between(zone, other) for other in chosen)

        best = max(rest, key=gain)
        chosen.append(best)
        rest.remove(best)
    return tuple(sorted(chosen))


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0


def crossings(network: NetworkMatrix, index: Mapping[NodeName, int], group: Ints) -> Crossings:
    """What leads from set to set; `index`: node → row, `group`: row → set. Cost: O(p log p) for p such pairs."""
    ends_of: dict[tuple[int, int], dict[Metric, frozenset[int]]] = defaultdict(dict)
    for metric in METRICS:
        rows = [(end, group[index[node]]) for node, end in network.ends(metric) if node in index]
        at, sets = np.unique(np.array(rows, np.int64).reshape(-1, 2), axis=0).T
        counts = np.bincount(at, minlength=len(network.endpoints))
        first = np.cumsum(counts) - counts
        sources, targets = network.measured_values(metric)[:2]
        set_of = np.full(len(counts), -1)
        set_of[at] = sets
        some = (set_of[sources] != set_of[targets]) | (np.maximum(counts[sources], counts[targets]) > 1)
        sources, targets = sources[some], targets[some]
        each = counts[sources] * counts[targets]  # as many pairs of sets does a pair of endpoints connect
        nth = np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each)
        sources, targets = np.repeat(sources, each), np.repeat(targets, each)
        left, right = sets[first[sources] + nth // counts[targets]], sets[first[targets] + nth % counts[targets]]
        apart = left != right
        pairs = np.column_stack((np.minimum(left, right), np.maximum(left, right)))[apart]
        both = np.concatenate([np.column_stack((pairs, ends[apart])) for ends in (sources, targets)])
        across: dict[tuple[int, int], set[int]] = defaultdict(set)
        for a, b, end in np.unique(both, axis=0).tolist():
            across[a, b].add(end)
        for pair, leading in across.items():
            ends_of[pair][metric] = frozenset(leading)
    return dict(ends_of)


def mean_between(
    network: NetworkMatrix, names: Names, ends: Names, score: ScorePolicy, *, across: Ends | None = None
) -> float:
    """Mean points between two sets of nodes, less `BAD_PAIR` for bad pairs.

    `across`: endpoints that lead from one to the other; `None`: any may.
    Cost: O(m² log pairs) for m measured nodes, or those at endpoints `across`.
    """
    rows, row_of = representatives(_own(network, names, ends, across))
    columns, column_of = representatives(_own(network, ends, names, across))
    some, others = [names[i] for i in rows], [ends[i] for i in columns]
    scores = pair_scores(network.block(some, others), network.block(others, some), score)
    left, right = np.bincount(row_of, minlength=len(rows)), np.bincount(column_of, minlength=len(columns))
    points = scores.points - BAD_PAIR * (scores.bad & score.bad_pairs_first)
    return round(float(left @ points @ right / (len(names) * len(ends))) * _GRID) / _GRID


def _own(network: NetworkMatrix, names: Names, ends: Names, across: Ends | None) -> NDArray[np.bool_]:
    """Which of `names` may be connected with `ends` otherwise than any node that is measured nowhere."""
    if across is None or network.estimates:
        return measured(network, names, ends)
    near = frozenset(ends)
    own = np.fromiter((name in near for name in names), np.bool_, len(names))
    for metric, indexes in across.items():
        for ends_of in (network.endpoint_indexes(names, metric), network.numbers(names)):
            own |= np.isin(ends_of, list(indexes))
    return own
