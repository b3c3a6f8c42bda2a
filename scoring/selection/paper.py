"""The published selection, literally (PAPERS N3), so that results can be compared with the paper.

Our reading, where the paper is silent: the list is the candidate nodes in order of name; the reference is its first
node that can hold a member, it starts excluded and counts as chosen. In each round the score of every node that is not
excluded against the node chosen *last* is added to its running total; the highest total is chosen and excluded, ties by
list order. Roles play no part. Members that are placed already need no reference: their gain
starts the totals. Nodes with room for several: one member per node while nodes last, then it starts over.
"""

import numpy as np

from scoring.network.matrix import Floats, Ints
from scoring.selection.demand import Demand, rooms


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
