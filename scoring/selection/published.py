"""The two published selections: `paper`, the literal one of PAPERS N3, and `pack`, KOD2's placement (PAPERS K6).

`paper` makes results comparable with the publication. Our reading, where that is silent: the list is the candidate
nodes in order of name; the reference is its first node that can hold a member, it starts excluded and counts as chosen.
In each round the score of every node that is not excluded against the node chosen *last* is added to its running total;
the highest total is chosen and excluded, ties by list order. Roles play no part. Members that are placed already need
no reference: their gain starts the totals. Nodes with room for several: one member per node while nodes last, then it
starts over.

`pack`: where the network between nodes is unknown, even or busy, staying inside a node is worth more than any choice
between nodes, and large rooms stay free for others. Rule: fewest nodes first, network second; among nodes that take
equally many members and are equally well connected the most idle first, and on each ps and workers together.
"""

import numpy as np

from scoring.model import Role
from scoring.network.matrix import Floats, Ints
from scoring.selection.demand import Demand, at_rows, back, links, rooms, value_of, values_of
from scoring.selection.greedy import choose_starts, different, fit, grow, improve

GROW_BUDGET = 1_000_000  # Start × node × round steps of the search for one class
MIXED_STARTS = 3  # First nodes that are tried for several classes
KEPT = 2
MOST_MOVES = 24


def paper(demand: Demand, free: Ints, rank: Floats) -> Ints | None:
    """Members per class and node (classes, n), classes in the demand's order; `None`: it came to no end.

    Several classes may fail here although they fit: the paper's jobs have equal members. `rank` is on the grid.
    Cost: O(members·n).
    """
    counts = np.zeros((len(demand.classes), len(free)), np.int64)
    left = free.copy()
    room = [rooms(one, left) for one in demand.classes]
    asked = [[(r, int(need)) for r, need in enumerate(one.request) if need > 0] for one in demand.classes]
    excluded = np.zeros(len(free))  # 0, or −∞ where this lap has chosen
    totals = np.zeros(len(free))
    last: int | None = None
    for c, one in enumerate(demand.classes):
        base = np.zeros(len(free)) if demand.placed is None else demand.placed[c]
        closed = np.where(room[c] > 0, 0.0, -np.inf)
        for _ in range(one.count):
            if last is not None:
                totals += rank[last]
            key = totals + base + excluded + closed
            at = int(key.argmax())
            if key[at] == -np.inf:  # this lap is over: all room that is left is open again
                excluded[:] = 0.0
                totals[:] = 0.0
                key = base + closed
                at = int(key.argmax())
                if key[at] == -np.inf:
                    return None
            counts[c, at] += 1
            excluded[at] = -np.inf
            last = at
            left[at] -= one.request
            for d, other in enumerate(demand.classes):
                if room[d][at]:
                    room[d][at] = min((int(left[at, r]) // need for r, need in asked[d]), default=other.count)
            if room[c][at] <= 0:
                closed[at] = -np.inf
    return counts


def pack(demand: Demand, free: Ints, rank: Floats) -> Ints | None:
    """Members per class and node (classes, n) on the fewest nodes; `None`: `fit` finds no place either.

    For one class the number of nodes is the least possible; for several it is the least of several greedy fills (least
    possible would be bin packing). `rank` is on the grid. Cost: O(starts·nodes used·n·r) and the moves of `improve`.
    """
    order, n = _idle_first(demand, free), len(free)
    demand, free, rank = at_rows(demand, order), free[order], rank.take(order, axis=0).take(order, axis=1)
    if len(demand.classes) == 1:
        plans = _grown(demand, free, rank)
    else:  # of several classes node after node, which may come to no end
        firsts = (None, *range(min(MIXED_STARTS, len(free))))
        found = [plan for first in firsts if (plan := _fill_nodes(demand, free, rank, first=first)) is not None]
        plans = np.array(found, np.int64).reshape(len(found), len(demand.classes), len(free))
    if not len(plans):
        plain = fit(demand, free)
        return None if plain is None else back(plain, order, n)
    used = np.count_nonzero(plans.any(axis=1), axis=1)
    by_value = np.lexsort((-values_of(demand, plans, rank), used))
    kept = different(plans, by_value[used[by_value] == used.min()], most=KEPT)
    better = [improve(demand, plans[at], free, rank, most=MOST_MOVES, keep_nodes=True) for at in kept]
    best = min(better, key=lambda plan: (np.count_nonzero(plan.any(axis=0)), -value_of(demand, plan, rank)))
    return back(best, order, n)


def pack_idle(demand: Demand, free: Ints) -> Ints | None:
    """Without any network: the nodes that take most members, then the most idle, each filled ps first."""
    order = _idle_first(demand, free)
    found = _fill_nodes(at_rows(demand, order), free[order], None, first=None)
    return fit(demand, free) if found is None else back(found, order, len(free))


def _idle_first(demand: Demand, free: Ints) -> Ints:
    """Rows with room for some member, by the idle share of the resources asked for, most first, then by row."""
    asked = np.any([one.request > 0 for one in demand.classes], axis=0)
    share = free[:, asked] / np.maximum(free[:, asked].max(axis=0, initial=0), 1)
    order = np.argsort(-share.sum(axis=1), kind="stable")
    return np.array(order[np.any([rooms(one, free) for one in demand.classes], axis=0)[order]])


def _grown(demand: Demand, free: Ints, rank: Floats) -> Ints:
    """Placements of one class, (starts, 1, n), each from one of the largest rooms; none: there is too little room."""
    one, placed = demand.classes[0], None if demand.placed is None else demand.placed[0]
    room = rooms(one, free)
    if int(room.sum()) < one.count:
        return np.zeros((0, 1, len(free)), np.int64)
    if not links(demand)[0, 0]:  # only the gain from placed members distinguishes nodes
        rank = np.zeros_like(rank)
    large = np.flatnonzero(room == room.max())  # starting with a largest room needs the fewest nodes
    starts = large[choose_starts(rank[large][:, large], room[large], budget=GROW_BUDGET // one.count)]
    return grow(rank, room, one.count, starts=starts, gain=placed, fewest=True)[:, None]


def _fill_nodes(demand: Demand, free: Ints, rank: Floats | None, *, first: int | None) -> Ints | None:
    """Fill node after node: the one that takes most members, then best network, then first; `first` leads."""
    left = [one.count for one in demand.classes]
    by_role = sorted(range(len(left)), key=lambda c: demand.classes[c].role is not Role.PS)
    counts = np.zeros((len(left), len(free)), np.int64)
    usable = np.ones(len(free), np.bool_)
    near = np.zeros(len(free)) if demand.placed is None or rank is None else demand.placed.sum(axis=0)
    alone = [rooms(one, free) for one in demand.classes]
    at = first
    while any(left):
        takes, rest = np.zeros_like(counts), free  # of each class, as many as an empty node would take, ps first
        waiting = [c for c in by_role if left[c]]
        for c in waiting:
            takes[c] = np.minimum(alone[c] if rest is free else rooms(demand.classes[c], rest), left[c])
            if c != waiting[-1]:
                rest = rest - takes[c][:, None] * demand.classes[c].request
        takes[:, ~usable] = 0
        members = takes.sum(axis=0)
        if at is None:
            at = int(np.where(members == members.max(initial=0), near, -np.inf).argmax()) if len(near) else 0
        if not len(near) or not members[at]:
            return None
        counts[:, at] = takes[:, at]
        left = [still - int(took) for still, took in zip(left, takes[:, at], strict=True)]
        usable[at] = False
        if rank is not None:
            near = near + members[at] * rank[at]
        at = None
    return counts
