"""An estimate of what a candidate set is worth, to compare zones before searching one of them.

Why: a round of planning compares every zone for every gang; the search is only worth its time in the zone that wins.
Rule: the estimate is the value of one real placement, so it never promises more than the zone can give.
"""

import numpy as np

from scoring.model import Role
from scoring.network import Floats, Ints
from scoring.select.demand import Demand, pairs_count, rooms, value_of
from scoring.select.fit import fit
from scoring.select.greedy import grow_mixed


def quick_value(demand: Demand, free: Ints, rank: Floats) -> float | None:
    """Value of one greedy placement, built from the best connected node; `None`: the members do not fit.

    Comparable between candidate sets, as the number of pairs is the same. Cost: O(n²) once, O(n) per node used.
    """
    wanted = [one for one in demand.classes if one.count]
    if not wanted:
        return 0.0
    if not len(free):
        return None
    if len(demand.classes) == 1:
        one = wanted[0]
        room = rooms(one, free)
        if int(room.sum()) < one.count:
            return None
        placed = None if demand.placed is None else demand.placed[0]
        if pairs_count(one.role, one.role, all_reduce=demand.all_reduce):
            return _grow_one(room, one.count, rank, placed)
        return 0.0 if placed is None else float(_best(placed, room, one.count) @ placed)
    plan = _grow_mixed(demand, free, rank) if demand.all_reduce else _around_ps(demand, free, rank)
    if plan is None:
        plan = fit(demand, free)
    return None if plan is None else value_of(demand, plan, rank)


def _grow_one(room: Ints, count: int, rank: Floats, placed: Floats | None) -> float:
    own = rank.diagonal()
    gain = np.where(room > 0, 0.0 if placed is None else placed, -np.inf)
    at = int((rank @ np.minimum(room, 1) + gain).argmax())
    value, left, several = 0.0, count, int(room.max()) > 1
    while True:
        took = min(int(room[at]), left) if several else 1
        value += took * float(gain[at]) + (0.5 * took * (took - 1) * float(own[at]) if several else 0.0)
        left -= took
        if not left:
            return value
        gain += took * rank[at] if several else rank[at]
        gain[at] = -np.inf
        at = int((gain + 0.5 * own * (np.minimum(room, left) - 1) if several else gain).argmax())


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
        counts[c] = _best(gain + placed, room, one.count)
        left = left - counts[c][:, None] * one.request
        if one.role is Role.PS and demand.classes[order[-1]].role is not Role.PS:
            used = counts[c].nonzero()[0]
            gain = counts[c][used] @ rank[used] + (gain if c != order[0] else 0.0)
    return counts


def _best(gain: Floats, room: Ints, count: int) -> Ints:
    """Members per node when gains are fixed: the highest first, ties by row."""
    order = np.argsort(-gain, kind="stable")
    there = room[order]
    counts = np.empty_like(room)
    counts[order] = np.minimum(np.maximum(count - (np.cumsum(there) - there), 0), there)
    return counts
