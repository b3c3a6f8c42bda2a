"""In which order one kind of gang tries the zones that have room for it (PAPERS N1), and which zones it is spread over.

Order: where placed members are, nearest to the users, the gang's own order, best achievable network, least
fragmentation, name. Found zone by zone, because mostly the first one is the answer. A gang is spread over the fewest
zones that hold it together, of equally few the best connected ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice

import numpy as np

from scoring.ids import ZoneName
from scoring.model.policy import ScorePolicy
from scoring.network.matrix import Ints
from scoring.plan.cache import remember
from scoring.plan.demand import GangDemand, Kind, MemberSet, Tiers
from scoring.plan.run import Run
from scoring.score.between_zones import mean_between
from scoring.score.zone_distance import fewest_zones, rank_zones, zone_distances

_SPREADS_TRIED = 16
"""Sets of zones that are searched for one gang; classes rarely compete so that the first one fails."""
_MOST_TOGETHER = 4_000
"""Nodes of all allowed zones up to which they are tried together as the last resort."""


def kind_of(run: Run, demand: GangDemand) -> Kind:
    """The kind of the gang's minimum set, made when it is asked for first."""
    seen = run.kinds.by_demand.get(id(demand))
    if seen is not None:
        return seen[1]
    classes = tuple([(member_class, len(pods)) for member_class, pods in demand.need])
    key = (classes, demand.siblings, demand.all_reduce, demand.options)
    known = run.kinds.by_content.get(key)
    if known is None:
        home = frozenset(run.view.zones_of(node for _, node in demand.siblings))
        members, allowed = run.view.member_set(demand.need, demand), run.view.candidate_zones(demand)
        known = run.kinds.by_content[key] = Kind(
            members, run.view.score(demand), allowed, run.view.columns(allowed), home
        )
    run.kinds.by_demand[id(demand)] = (demand, known)
    return known


def in_order(
    run: Run, demand: GangDemand, kind: Kind, zones: tuple[ZoneName, ...], room: Mapping[ZoneName, int]
) -> Iterator[ZoneName]:
    """`zones`, which all have `room`, in the order they are tried."""
    if kind.home:
        yield from _ordered(run, demand, kind, tuple(zone for zone in zones if zone in kind.home), room)
        zones = tuple(zone for zone in zones if zone not in kind.home)
    yield from _ordered(run, demand, kind, zones, room)


def _ordered(
    run: Run, demand: GangDemand, kind: Kind, zones: tuple[ZoneName, ...], room: Mapping[ZoneName, int]
) -> Iterator[ZoneName]:
    if len(zones) < 2:
        yield from zones
        return
    tiers = kind.tiers.get(zones)
    if tiers is None:
        tiers = kind.tiers[zones] = _tiers(run, demand, kind, zones)
    if len(tiers.best) > 1:
        estimates = run.search.estimates(kind.members, tiers.best, score=tiers.common)
        keys = [(np.inf if (value := estimates[zone]) is None else -value, room[zone], zone) for zone in tiers.best]
        yield from (zone for _, _, zone in sorted(keys))
    else:
        yield from tiers.best
    yield from tiers.others


def _tiers(run: Run, demand: GangDemand, kind: Kind, zones: tuple[ZoneName, ...]) -> Tiers:
    near = demand.options.near
    distances = None
    if near is not None:
        network = run.snapshot.network
        configured = tuple((zone, *row.items()) for zone, row in run.policy.zone_distance_ms.items())
        distances = remember(
            run.cache.distances,
            (network.version, run.table.version, near, configured),
            lambda: zone_distances(near, run.table, network, run.policy),
        )
    ranks = rank_zones(zones, options=demand.options, distances=distances)
    best = [zone for *rank, zone in ranks if rank == [*ranks[0][:2]]]
    common = kind.score
    if len(best) > 1:
        for zone in best if kind.score.reference_bps is None else ():
            if not run.scores.knows((zone,), kind.score):
                run.scores.links((zone,), kind.score)
        common = run.scores.common_reference(best, kind.score)
    return Tiers(common, best, [zone for _, _, zone in ranks[len(best) :]])


def sets_to_try(
    run: Run, demand: GangDemand, members: MemberSet, allowed: Sequence[ZoneName]
) -> list[tuple[ZoneName, ...]]:
    """Sets of the `allowed` zones that may hold the gang's minimum set together, in the order they are tried."""
    score = run.view.score(demand)
    fits = run.capacity.zone_fits(members)
    rooms = {zone: fits[:, run.zones.index(zone)].tolist() for zone in allowed}
    counts = [count for _, count in members.classes]
    home = run.view.zones_of(node for _, node in demand.siblings)
    between = _between(run, [zone for zone in allowed if any(rooms[zone]) or zone in home], score)
    found = fewest_zones(rooms, counts, between=lambda a, b: between[min(a, b), max(a, b)], home=home)
    sets = list(islice(found, _SPREADS_TRIED))
    # Counts per class do not see that classes compete for the same nodes: all zones together are the last try.
    return [*sets, _together(run, allowed, fits)] if sets else []


def _together(run: Run, allowed: Sequence[ZoneName], fits: Ints) -> tuple[ZoneName, ...]:
    """All allowed zones; of more than `_MOST_TOGETHER` nodes those with most room, as many as stay below that."""
    size = {zone: len(run.table.zones[zone]) for zone in allowed}
    if sum(size.values()) <= _MOST_TOGETHER:
        return tuple(allowed)
    room = dict(zip(run.zones, fits.sum(axis=0).tolist(), strict=True))
    chosen: list[ZoneName] = []
    for zone in sorted(allowed, key=lambda zone: (-room[zone], zone)):
        if room[zone] and sum(size[one] for one in chosen) + size[zone] <= _MOST_TOGETHER:
            chosen.append(zone)
    return tuple(zone for zone in allowed if zone in chosen)


def _between(run: Run, zones: Sequence[ZoneName], score: ScorePolicy) -> dict[tuple[ZoneName, ZoneName], float]:
    """Mean points between each two of `zones`, the smaller name first."""
    network, cache = run.snapshot.network, run.cache
    known = None if network.estimates else run.scores.crossings()
    means: dict[tuple[ZoneName, ZoneName], float] = {}
    place = {zone: i for i, zone in enumerate(run.zones)}
    unknown: float | None = None
    for pair in combinations(sorted(zones), 2):
        at = (place[pair[0]], place[pair[1]])
        one, other = ((zone,) for zone in pair)
        if known is not None and at not in known:
            if unknown is None:
                unknown = mean_between(network, run.view.names(one)[:1], run.view.names(other)[:1], score, across={})
            means[pair] = unknown
            continue
        key = (network.version, run.view.names(one), run.view.names(other), score)
        mean = cache.means.get(key)
        if mean is None:
            across = known[at] if known is not None else None
            mean = mean_between(network, run.view.names(one), run.view.names(other), score, across=across)
            cache.means[key] = mean
        means[pair] = mean
    return means
