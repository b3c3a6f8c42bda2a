"""Place a gang over several zones: the fewest that hold it together, of equally few the best connected ones."""

from collections.abc import Sequence
from itertools import combinations, islice

from scoring.ids import ZoneName
from scoring.model.policy import ScorePolicy
from scoring.network.matrix import Ints
from scoring.plan.ask import Ask
from scoring.plan.outcome import Placed
from scoring.plan.put import place_in
from scoring.plan.run import Run, Wish, with_ratios
from scoring.plan.steps import Steps
from scoring.score.between_zones import mean_between
from scoring.score.zone_distance import fewest_zones

_SPREADS_TRIED = 16
"""Sets of zones that are searched for one gang; classes rarely compete so that the first one fails."""
_MOST_TOGETHER = 4_000
"""Nodes of all allowed zones up to which they are tried together as the last resort."""


def spread(run: Run, ask: Ask, wish: Wish, allowed: Sequence[ZoneName]) -> Steps[Placed | None]:
    """Place the gang's minimum set over some of the `allowed` zones; `None`: it finds no place."""
    score = with_ratios(run.policy, ask)
    fits = run.zone_fits(wish)
    rooms = {zone: fits[:, run.zones.index(zone)].tolist() for zone in allowed}
    counts = [count for _, count in wish.classes]
    home = run.zones_of(node for _, node in ask.siblings)
    between = yield from _between(run, [zone for zone in allowed if any(rooms[zone]) or zone in home], score)
    found = fewest_zones(rooms, counts, between=lambda a, b: between[min(a, b), max(a, b)], home=home)
    sets = list(islice(found, _SPREADS_TRIED))
    yield from run.pause()
    # Counts per class do not see that classes compete for the same nodes: all zones together are the last try.
    for zones in (*sets, _together(run, allowed, fits)) if sets else ():
        for _ in run.scored.links_in_steps(zones, score):
            yield from run.pause()
        placed = place_in(run, ask, ask.need, wish, zones, score=score)
        if placed is not None:
            return placed
        yield from run.pause()
    return None


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
    network, memo = run.snapshot.network, run.memo
    known = None if network.estimates else run.scored.crossings()
    yield from run.pause()
    means: dict[tuple[ZoneName, ZoneName], float] = {}
    number = {zone: run.scored.number((zone,), score) for zone in zones}
    place = {zone: i for i, zone in enumerate(run.zones)}
    unknown: float | None = None
    for pair in combinations(sorted(zones), 2):
        at = (place[pair[0]], place[pair[1]])
        one, other = ((zone,) for zone in pair)
        if known is not None and at not in known:
            if unknown is None:
                unknown = mean_between(network, run.names(one)[:1], run.names(other)[:1], score, across={})
            means[pair] = unknown
            continue
        key = (number[pair[0]], number[pair[1]])
        mean = memo.means.get(key)
        if mean is None:
            across = known.ends[at] if known is not None else None
            mean = mean_between(network, run.names(one), run.names(other), score, across=across)
            memo.means[key] = mean
            yield from run.pause()
        means[pair] = mean
    return means
