"""In which order one kind of gang tries the zones that have room for it (PAPERS N1).

Order: where placed members are, nearest to the users, the gang's own order, best achievable network, least
fragmentation, name. Found zone by zone, because mostly the first one is the answer.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from scoring.ids import ZoneName
from scoring.model.policy import ScorePolicy
from scoring.network.matrix import Ints
from scoring.plan.cache import remember
from scoring.plan.demand import GangDemand, MemberSet, with_ratios
from scoring.plan.result import Refused
from scoring.plan.run import Run
from scoring.plan.steps import Steps
from scoring.score.zone_distance import rank_zones, zone_distances


@dataclass(frozen=True, slots=True)
class Tiers:
    """Feasible zones, as far as their order does not depend on the room."""

    common: ScorePolicy
    """What the best are compared by."""
    best: list[ZoneName]
    """Those that only the network decides between."""
    others: list[ZoneName]
    """Those that come after them in any case."""


@dataclass(slots=True)
class Kind:
    """What gangs that ask for the same share in one run. Not shared between runs."""

    members: MemberSet
    score: ScorePolicy
    allowed: tuple[ZoneName, ...]
    columns: Ints
    """Of the allowed zones, among all of the run's, ascending"""
    home: frozenset[ZoneName]
    """Zones of members that have a node."""
    refused: tuple[object, Refused] | None = None
    """The answer to the first of them that was refused, and a moment of the room that it is about; `None`: room only
    shrinks during a run, so it holds for all of them in the same words"""
    could_fit: bool | None = None
    """Whether it would fit the empty cluster, once that was looked at"""
    tiers: dict[tuple[ZoneName, ...], Tiers] = field(default_factory=dict)
    """feasible zones → their order"""


def kind_of(run: Run, demand: GangDemand) -> Kind:
    """The kind of the gang's minimum set, made when it is asked for first."""
    seen = run.kinds.get(id(demand))
    if isinstance(seen, tuple) and seen[0] is demand and isinstance(seen[1], Kind):
        return seen[1]
    number = run.cache.number
    key = (
        tuple([(number(mc), len(pods)) for mc, pods in demand.need]),
        demand.siblings,
        demand.all_reduce,
        demand.options,
    )
    known = run.kinds.get(key)
    if not isinstance(known, Kind):
        home = frozenset(run.view.zones_of(node for _, node in demand.siblings))
        members, allowed = run.view.member_set(demand.need, demand), run.view.candidate_zones(demand)
        known = run.kinds[key] = Kind(
            members, with_ratios(run.policy, demand), allowed, run.view.columns(allowed), home
        )
    run.kinds[id(demand)] = (demand, known)
    return known


def in_order(
    run: Run, demand: GangDemand, kind: Kind, zones: tuple[ZoneName, ...], room: Mapping[ZoneName, int]
) -> Iterator[ZoneName | None]:
    """`zones`, which all have `room`, in the order they are tried; `None` between them: a moment to pause."""
    if kind.home:
        yield from _ordered(run, demand, kind, tuple(zone for zone in zones if zone in kind.home), room)
        zones = tuple(zone for zone in zones if zone not in kind.home)
    yield from _ordered(run, demand, kind, zones, room)


def common_reference(run: Run, zones: Sequence[ZoneName], score: ScorePolicy) -> ScorePolicy:
    """One reference rate for all zones compared: by its own best, a slow zone would look as good as a fast one."""
    if score.reference_bps is not None:
        return score
    key = (tuple(zones), score)
    if key not in run.common_scores:
        rates = [run.scores.links((zone,), score).reference_bps for zone in zones]
        known = [rate for rate in rates if rate]  # 0 where all tests failed: nothing compares with that
        run.common_scores[key] = replace(score, reference_bps=max(known)) if known else score
    return run.common_scores[key]


def _ordered(
    run: Run, demand: GangDemand, kind: Kind, zones: tuple[ZoneName, ...], room: Mapping[ZoneName, int]
) -> Generator[ZoneName | None, None, None]:
    if len(zones) < 2:
        yield from zones
        return
    tiers = kind.tiers.get(zones)
    if tiers is None:
        tiers = kind.tiers[zones] = yield from _tiers(run, demand, kind, zones)
    if len(tiers.best) > 1:
        estimates = yield from run.search.estimates(kind.members, tiers.best, score=tiers.common)
        keys = [
            (np.inf if value is None else -value, room[zone], zone)
            for zone, value in zip(tiers.best, estimates, strict=True)
        ]
        first = min(keys)
        yield first[2]
        yield from (zone for _, _, zone in sorted(keys)[1:])
    else:
        yield from tiers.best
    yield from tiers.others


def _tiers(run: Run, demand: GangDemand, kind: Kind, zones: tuple[ZoneName, ...]) -> Steps[Tiers]:
    near = demand.options.near
    distances = None
    if near is not None:
        network = run.snapshot.network
        distances = remember(
            run.cache.distances,
            (run.table.version, near, run.policy.zone_distance_ms),
            lambda: zone_distances(near, run.table, network, run.policy),
        )
        yield from run.view.pause()
    ranks = rank_zones(zones, options=demand.options, distances=distances)
    tier = (ranks[0].distance_ms, ranks[0].preference)
    best = [rank.zone for rank in ranks if (rank.distance_ms, rank.preference) == tier]
    common = kind.score
    if len(best) > 1:
        for zone in best if kind.score.reference_bps is None else ():
            if not run.scores.knows((zone,), kind.score):
                run.scores.links((zone,), kind.score)
                yield from run.view.pause()
        common = common_reference(run, best, kind.score)
    return Tiers(common, best, [rank.zone for rank in ranks[len(best) :]])
