"""Quick placements: whether the members fit at all, and an estimate of what a candidate set is worth.

Why: the searches aim at good placements and may come to no end where only an awkward one exists; and a round of
planning compares every zone for every gang, while a search is only worth its time in the zone that wins. Rules: a gang
that first fit can place is never refused; the estimate is the value of a real placement, never more than that.
"""

import numpy as np

from scoring.model import Role
from scoring.network.matrix import Floats, Ints
from scoring.selection.demand import Demand, Single, rooms, value_of
from scoring.selection.greedy import fill_by_gain, grow_mixed, order_by_request


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


def quick_single(wanted: Single, rank: Floats) -> float | None:
    """`quick_value` for one class; `rank` is on the grid. `None`: there is no room."""
    room, placed, left = wanted.room, wanted.placed, wanted.count
    if int(room.sum()) < left:
        return None
    if not wanted.paired:
        return 0.0 if placed is None else float(fill_by_gain(placed[None], room[None], left)[0] @ placed)
    open_nodes = room > 0
    gain = np.where(open_nodes, 0.0 if placed is None else placed, -np.inf)
    at = int((rank @ open_nodes.astype(np.float64) + gain).argmax())
    value, several, limit = 0.0, int(room.max()) > 1, room.astype(np.float64)
    half = rank.diagonal() / 2.0
    while True:
        took = min(int(room[at]), left) if several else 1
        value += took * float(gain[at]) + (took * (took - 1) * float(half[at]) if several else 0.0)
        left -= took
        if not left:
            return value
        gain += took * rank[at] if several else rank[at]
        gain[at] = -np.inf
        if several:
            key = np.minimum(limit, left)
            key -= 1.0
            key *= half
            key += gain
            at = int(key.argmax())
        else:
            at = int(gain.argmax())


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


def fit(demand: Demand, free: Ints) -> Ints | None:
    """Members per class and node (classes, n) by first or careful fit; `None`. Cost: O(members·classes·n·r)."""
    own, largest_first = list(range(len(demand.classes))), list(order_by_request(demand, free))
    for order in (largest_first, own):
        if (found := _first_fit(demand, free, order)) is not None:
            return found
    return _careful_fit(demand, free, largest_first) if len(own) > 1 else None


def _first_fit(demand: Demand, free: Ints, order: list[int]) -> Ints | None:
    """Class after class in `order`, each on the first nodes with room."""
    left, counts = free.copy(), np.zeros((len(order), len(free)), np.int64)
    for c in order:
        room, count = rooms(demand.classes[c], left), demand.classes[c].count
        counts[c] = np.minimum(np.maximum(count - (np.cumsum(room) - room), 0), room)
        if int(counts[c].sum()) < count:
            return None
        left -= counts[c][:, None] * demand.classes[c].request
    return counts


def _careful_fit(demand: Demand, free: Ints, order: list[int]) -> Ints | None:
    """Member after member, each where the classes still to come lose the smallest share of their room."""
    left, counts = free.copy(), np.zeros((len(order), len(free)), np.int64)
    for position, c in enumerate(order):
        one, later = demand.classes[c], [demand.classes[d] for d in order[position + 1 :]]
        for _ in range(one.count):
            room = rooms(one, left)
            if not room.any():
                return None
            lost: Floats = np.zeros(len(free))
            for other in later:
                lost += (rooms(other, left) - rooms(other, left - one.request)) / other.count
            at = int(np.where(room > 0, lost, np.inf).argmin())
            counts[c, at] += 1
            left[at] -= one.request
    return counts
