"""An estimate of what a candidate set is worth, to compare zones before searching one of them.

Why: a round of planning compares every zone for every gang; the search is only worth its time in the zone that wins.
Rule: the estimate is the value of a real placement, so it never promises more than `subset` can give.
"""

import numpy as np

from scoring.model import Role
from scoring.network import Floats, Ints
from scoring.select.demand import Demand, first_fit, pairs_count, rooms, value_of
from scoring.select.star import star


def quick_value(demand: Demand, free: Ints, rank: Floats) -> float | None:
    """Value of a greedy placement from the best connected node; `None`: the members do not fit.

    Comparable between candidate sets, as the number of pairs is the same. Cost: O(nodes used·n).
    """
    if len(demand.classes) == 1:
        one = demand.classes[0]
        room = rooms(one, free)
        if int(room.sum()) < one.count:
            return None
        placed = None if demand.placed is None else demand.placed[0]
        if pairs_count(one.role, one.role, all_reduce=demand.all_reduce):
            return _grow_one(room, one.count, rank, placed)
        return 0.0 if placed is None else _best_sum(placed, room, one.count)
    plan: Ints | None = None
    if not demand.all_reduce and any(one.role is Role.PS for one in demand.classes):
        plans, _ = star(demand, free, rank, budget=2 * len(free))
        plan = plans[0] if len(plans) else None
    if plan is None:
        plan = first_fit(demand, free)
    return None if plan is None else value_of(demand, plan, rank)


def _grow_one(room: Ints, count: int, rank: Floats, placed: Floats | None) -> float:
    own = rank.diagonal()
    closed = np.where(room > 0, 0.0, -np.inf)
    base = closed if placed is None else closed + placed
    at = int((rank @ np.minimum(room, 1) + base).argmax())
    value, left, gain, several = 0.0, count, base.copy(), int(room.max()) > 1
    while True:
        took = min(int(room[at]), left) if several else 1
        value += took * float(gain[at]) + (0.5 * took * (took - 1) * float(own[at]) if several else 0.0)
        left -= took
        if not left:
            return value
        gain += took * rank[at] if several else rank[at]
        gain[at] = -np.inf
        at = int((gain + 0.5 * own * (np.minimum(room, left) - 1) if several else gain).argmax())


def _best_sum(gain: Floats, room: Ints, count: int) -> float:
    order = np.argsort(-gain, kind="stable")
    before = np.cumsum(room[order]) - room[order]
    return float(np.clip(count - before, 0, room[order]) @ gain[order])
