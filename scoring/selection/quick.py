"""An estimate of what a candidate set is worth, to compare zones before searching one of them.

Why: a round of planning compares every zone for every gang; the search is only worth its time in the zone that wins.
Rule: the estimate is the value of one real placement, so it never promises more than the zone can give.
"""

import numpy as np

from scoring.model import Role
from scoring.network.matrix import Floats, Ints
from scoring.selection.demand import Demand, rooms, value_of
from scoring.selection.fit import fit
from scoring.selection.greedy import fill_by_gain, grow_mixed
from scoring.selection.single import Single, quick_single


def quick_value(demand: Demand, free: Ints, rank: Floats) -> float | None:
    """Value of one greedy placement, built from the best connected node; `None`: the members do not fit.

    Comparable between candidate sets, as the number of pairs is the same. `rank` need not be on the grid, but only then
    equal sets have equal values. Cost: O(n²) once, O(n) per node used.
    """
    wanted = [one for one in demand.classes if one.count]
    if not wanted:
        return 0.0
    if not len(free):
        return None
    if len(demand.classes) == 1:
        return quick_single(Single.of(demand, free), rank)
    plan = _grow_mixed(demand, free, rank) if demand.all_reduce else _around_ps(demand, free, rank)
    if plan is None:
        plan = fit(demand, free)
    return None if plan is None else value_of(demand, plan, rank)


def _grow_mixed(demand: Demand, free: Ints, rank: Floats) -> Ints | None:
    room = rooms(demand.classes[0], free)
    start = int(np.where(room > 0, rank.mean(axis=0), -np.inf).argmax())
    plans = grow_mixed(demand, free, rank, starts=np.array([start]))
    return max(plans, key=lambda plan: value_of(demand, plan, rank), default=None)


def _around_ps(demand: Demand, free: Ints, rank: Floats) -> Ints | None:
    """The ps near the best connected node, everything else around them; `None`: no end this way, or no ps."""
    order = sorted(range(len(demand.classes)), key=lambda c: demand.classes[c].role is not Role.PS)
    if demand.classes[order[0]].role is not Role.PS:
        return None
    left, counts = free.copy(), np.zeros((len(order), len(free)), np.int64)
    gain: Floats | None = None
    for c in order:
        one = demand.classes[c]
        room = rooms(one, left)
        if int(room.sum()) < one.count:
            return None
        placed = 0.0 if demand.placed is None else demand.placed[c]
        if gain is None:
            # what the other members would gain from each node: perfect for those beside it, else its mean rank
            others = demand.classes[order[-1]]
            beside = np.minimum(rooms(others, left - one.request), others.count)
            promise = beside * rank.diagonal() + (others.count - beside) * rank.mean(axis=0)
            gain = rank[int(np.where(room > 0, promise + placed, -np.inf).argmax())]
        counts[c] = fill_by_gain((gain + placed)[None], room[None], one.count)[0]
        left = left - counts[c][:, None] * one.request
        if one.role is Role.PS and demand.classes[order[-1]].role is not Role.PS:
            used = counts[c].nonzero()[0]
            gain = counts[c][used] @ rank[used] + (gain if c != order[0] else 0.0)
    return counts
