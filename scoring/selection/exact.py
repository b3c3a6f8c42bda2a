"""The best placement by trying all, for candidate sets that are small enough.

Why: zones of a dozen nodes are common, all their placements are a few hundred, and then nothing is left to argue about.
Rule: enumerate only when the number of placements is known beforehand to be small.
"""

from functools import lru_cache
from itertools import pairwise
from math import prod

import numpy as np

from scoring.network.matrix import Floats, Ints
from scoring.selection.demand import Demand, rooms, values_of
from scoring.selection.greedy import batch_rooms

MOST_PLACEMENTS = 4000  # Placements that are tried at most: about a millisecond
MOST_TABLES = 64  # Placements of all but the last class, for each of which the last one's are listed


@lru_cache(maxsize=4096)
def placements_of(room: tuple[int, ...], count: int) -> int:
    """How many ways there are to put `count` equal members into the rooms. Cost: O(n·count).

    >>> placements_of((1, 1, 1, 1), 2), placements_of((2, 1), 2)
    (6, 2)
    """
    ways = np.zeros(count + 1)
    ways[0] = 1.0
    for one in room:
        sums = np.concatenate(([0.0], np.cumsum(ways)))
        ways = np.array([sums[c + 1] - sums[max(0, c - one)] for c in range(count + 1)])
    return int(min(ways[count], 1e18))


@lru_cache(maxsize=256)
def placements(room: tuple[int, ...], count: int) -> Ints:
    """All of them, (placements, n), fuller first rows first. Not to be written.

    >>> placements((2, 1, 1), 2).tolist()
    [[2, 0, 0], [1, 1, 0], [1, 0, 1], [0, 1, 1]]
    """
    if sum(room) < count:
        return np.zeros((0, len(room)), np.int64)
    after = [sum(room[i:]) for i in range(len(room) + 1)]
    done, left = np.zeros((1, 0), np.int64), np.array([count])
    for one, (_, rest) in zip(room, pairwise(after), strict=True):
        parts = [
            (np.column_stack((done, np.full(len(done), m)))[keep], (left - m)[keep], keep.nonzero()[0])
            for m in range(one, -1, -1)
            if (keep := (left >= m) & (left - m <= rest)).any()
        ]
        order = np.argsort(np.concatenate([at for _, _, at in parts]), kind="stable")
        done = np.concatenate([part for part, _, _ in parts])[order]
        left = np.concatenate([still for _, still, _ in parts])[order]
    return np.array(done[left == 0])


def exact_mixed(demand: Demand, free: Ints, rank: Floats) -> Ints | None:
    """The best placement where all pairs count, (classes, n); `None`: too many to try, or none fits.

    Ties: fuller first rows.
    """
    bounds = [placements_of(tuple(rooms(one, free).tolist()), one.count) for one in demand.classes]
    if prod(bounds) > MOST_PLACEMENTS or prod(bounds[:-1]) > MOST_TABLES:
        return None
    found = np.zeros((1, len(demand.classes), len(free)), np.int64)
    for c, one in enumerate(demand.classes):
        room = batch_rooms(demand, found, c, free)
        grown = []
        for counts, limits in zip(found, room, strict=True):
            if limits.sum() >= one.count:
                ways = placements(tuple(limits.tolist()), one.count)
                more = np.repeat(counts[None], len(ways), axis=0)
                more[:, c] = ways
                grown.append(more)
        if not grown:
            return None
        found = np.concatenate(grown)
    return np.array(found[int(values_of(demand, found, rank).argmax())])
