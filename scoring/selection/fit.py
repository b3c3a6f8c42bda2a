"""Whether the members fit at all: plain ways to place them without looking at the network.

Why: the searches aim at good placements and may come to no end where only an awkward one exists. Rule: a gang that
first fit can place is never refused; where first fit fails, a careful fit that wastes least room is tried as well.
"""

import numpy as np

from scoring.network.matrix import Floats, Ints
from scoring.selection.demand import Demand, rooms
from scoring.selection.greedy import order_by_request


def fit(demand: Demand, free: Ints) -> Ints | None:
    """Members per class and node (classes, n); `None`: first fit in two orders and the careful fit all failed.

    Cost: O(classes·n·r); the careful fit, when it is needed, O(members·classes·n·r).
    """
    own, largest_first = list(range(len(demand.classes))), list(order_by_request(demand, free))
    for order in (largest_first, own):
        found = _first_fit(demand, free, order)
        if found is not None:
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
