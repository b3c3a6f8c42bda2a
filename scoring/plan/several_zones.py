"""Which zones a gang is spread over: the fewest that hold it together, of equally few the best connected ones."""

from collections.abc import Sequence
from itertools import combinations, islice

from scoring.ids import ZoneName
from scoring.model.policy import ScorePolicy
from scoring.network.matrix import Ints
from scoring.plan.demand import GangDemand, MemberSet, with_ratios
from scoring.plan.run import Run
from scoring.plan.steps import Steps
from scoring.score.between_zones import mean_between
from scoring.score.zone_distance import fewest_zones

_SPREADS_TRIED = 16
"""Sets of zones that are searched for one gang; classes rarely compete so that the first one fails."""
_MOST_TOGETHER = 4_000
"""Nodes of all allowed zones up to which they are tried together as the last resort."""


def sets_to_try(
    run: Run, demand: GangDemand, members: MemberSet, allowed: Sequence[ZoneName]
) -> Steps[list[tuple[ZoneName, ...]]]:
    """Sets of the `allowed` zones that may hold the gang's minimum set together, in the order they are tried."""
    score = with_ratios(run.policy, demand)
    fits = run.capacity.zone_fits(members)
    rooms = {zone: fits[:, run.zones.index(zone)].tolist() for zone in allowed}
    counts = [count for _, count in members.classes]
    home = run.view.zones_of(node for _, node in demand.siblings)
    between = yield from _between(run, [zone for zone in allowed if any(rooms[zone]) or zone in home], score)
    found = fewest_zones(rooms, counts, between=lambda a, b: between[min(a, b), max(a, b)], home=home)
    sets = list(islice(found, _SPREADS_TRIED))
    yield from run.view.pause()
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


def _between(run: Run, zones: Sequence[ZoneName], score: ScorePolicy) -> Steps[dict[tuple[ZoneName, ZoneName], float]]:
    """Mean points between each two of `zones`, the smaller name first."""
    network, cache = run.snapshot.network, run.cache
    known = None if network.estimates else run.scores.crossings()
    yield from run.view.pause()
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
        key = (run.view.names(one), run.view.names(other), score)
        mean = cache.means.get(key)
        if mean is None:
            across = known.ends[at] if known is not None else None
            mean = mean_between(network, run.view.names(one), run.view.names(other), score, across=across)
            cache.means[key] = mean
            yield from run.view.pause()
        means[pair] = mean
    return means
