"""The smallest set of gangs without which a waiting gang has a place.

Exact within `SearchLimits`: sets of one gang, then of two, and so on; of each size those that suffice by counting, in
the order of `set_key`, until one suffices by real placement. Beyond that: gangs are added, the one that frees most
members' places first, until the rest has a place, and then every gang that turns out not to be needed stays. That set
is sufficient and none of it can stay, but there may be a smaller one.

Cost: a count is O(nodes of the set); a placement is as planning one gang. Beyond the limits: O(candidates) counts for
each zone, and about one placement for each gang that leaves.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import combinations
from math import comb
from operator import itemgetter
from typing import TypeAlias

import msgspec
import numpy as np

from scoring.feasibility.room import scatter_add
from scoring.plan.result import Placed
from scoring.preempt.candidates import Candidate, SetKey, set_key
from scoring.preempt.cluster_without import Group, Without

Some: TypeAlias = tuple[Candidate, ...]
_Groups: TypeAlias = Sequence[tuple[Group, list[Candidate]]]


class SearchLimits(msgspec.Struct, frozen=True):
    """How much is spent on one waiting gang before a set need not be the smallest any more."""

    sets: int = 4096
    placed: int = 64


class Chosen(msgspec.Struct, frozen=True):
    """The gangs that leave, and where the waiting gang then goes."""

    some: Some
    placed: Placed


def smallest(without: Without, candidates: Sequence[Candidate], limits: SearchLimits) -> Chosen | None:
    """The gangs that leave; `None`: not even all together would suffice, or none has to."""
    if without.may_fit(()) and without.place(()) is not None:
        return None
    groups: list[tuple[Group, list[Candidate]]] = []
    for group in without.groups[-1:] if without.spread else without.groups:
        reached = without.reached & np.isin(without.zone_of, group)
        able = [one for one in candidates if reached[one.rows].any()]
        if able and not _missing(without, group, able):
            groups.append((group, able))
    all_able = {one.gang: one for _, able in groups for one in able}
    if not groups or _place(without, tuple(all_able.values())) is None:
        return None
    sets, placed = limits.sets, limits.placed
    for size in range(1, max(len(able) for _, able in groups) + 1):
        sets -= sum(comb(len(able), size) for _, able in groups)
        if sets < 0 or placed <= 0:
            break
        chosen, tried = _of_size(without, groups, size, most=placed)
        if chosen is not None:
            return chosen
        placed -= tried
    ways = ((group, _added(without, group, able)) for group, able in groups)
    found = [(group, enough) for group, enough in ways if enough is not None]
    best = min(found, key=lambda one: set_key(one[1].some), default=None)
    return None if best is None else _reduced(without, *best)


def _of_size(without: Without, groups: _Groups, size: int, *, most: int) -> tuple[Chosen | None, int]:
    """The best sufficient set of this size by at most `most` placements, and how many were tried."""
    enough: dict[SetKey, Some] = {}  # a gang that is in two zones may be counted in both
    for group, candidates in groups:
        for some in combinations(candidates, size):
            if not _missing(without, group, some):
                ordered = tuple(sorted(some, key=lambda one: one.gang))
                enough[set_key(ordered)] = ordered
    best = sorted(enough.items(), key=itemgetter(0))[:most]
    for _, some in best:
        placed = _place(without, some)
        if placed is not None:
            return Chosen(some, placed), 0
    return None, len(best)


def _added(without: Without, group: Group, candidates: Sequence[Candidate]) -> Chosen | None:
    """Gangs are added, those first that alone leave the fewest members without a place, until all have one.

    While counting says "perhaps" and no place is found the number of gangs is doubled, so that few are tried.
    """
    order = sorted(candidates, key=lambda one: _missing(without, group, (one,)))
    sizes = range(1, len(order) + 1)  # more gangs free more: the first size that counting allows is looked up
    most: int | None = 1 + bisect_left(sizes, True, key=lambda size: not _missing(without, group, order[:size]))
    while most is not None:
        some = tuple(order[:most])
        placed = _place(without, some)
        if placed is not None:
            return Chosen(some, placed)
        most = min(2 * most, len(order)) if most < len(order) else None
    return None


def _reduced(without: Without, group: Group, enough: Chosen) -> Chosen:
    """The same without those that can stay, the least preferred to leave tried first."""
    chosen = enough
    for one in sorted(enough.some, key=lambda one: set_key((one,)), reverse=True):
        rest = tuple(other for other in chosen.some if other.gang != one.gang)
        if not rest or _missing(without, group, rest):
            continue
        placed = _place(without, rest)
        if placed is not None:
            chosen = Chosen(rest, placed)
    return chosen


def _missing(without: Without, group: Group, some: Sequence[Candidate]) -> int:
    """How many members would have no place in the group without these, at least. Cost: O(nodes of theirs)."""
    rows, amounts = (np.concatenate([getattr(one, what) for one in some]) for what in ("rows", "amounts"))
    if len(some) > 1:
        rows, at = np.unique(rows, return_inverse=True)
        apart, amounts = amounts, np.zeros((len(rows), amounts.shape[1]), np.int64)
        scatter_add(amounts, at, apart)
    return without.missing(group, without.sums(rows, amounts))


def _place(without: Without, some: Sequence[Candidate]) -> Placed | None:
    return without.place([pod for one in some for pod in one.pods])
