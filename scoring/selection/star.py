"""Place a job whose pairs all lead to its ps: parameter servers in the centre, everything else around them.

Why a method of its own: once the ps have nodes, the gain of each node is fixed and the best nodes for the workers are
simply the best ones; so only the places of the ps need a search. Rule: with one class of ps and one of workers, and no
more places for the ps than the budget, the answer is the optimum and says so; else ps and workers of the best few are
placed again around each other until nothing changes.
"""

import numpy as np
from numpy.typing import NDArray

from scoring.model import Role
from scoring.network.matrix import Floats, Ints
from scoring.selection.demand import Demand, links, rooms, values_of
from scoring.selection.exact import placements, placements_of
from scoring.selection.greedy import batch_rooms, choose_starts, different, fill_by_gain, order_by_request

KEPT = 6  # Different placements whose ps are placed again around their workers
ROUNDS = 4  # Times that this is done at most; it rarely changes anything after two


def star(demand: Demand, free: Ints, rank: Floats, *, budget: int) -> tuple[Ints, bool]:
    """Whole placements, (k, classes, n), best first; and whether the first is the optimum. Cost: O(budget·log n)."""
    order = order_by_request(demand, free)
    centre = [c for c in order if demand.classes[c].role is Role.PS]
    rim = [c for c in order if demand.classes[c].role is not Role.PS]
    places, complete = _centres(demand, free, rank, centre, budget=budget)
    tried = [_around(demand, places, one, free, rank) for one in ((rim,) if len(rim) < 2 else (rim, rim[::-1]))]
    counts = np.concatenate([plans for plans, _ in tried])
    values = np.concatenate([sums for _, sums in tried])
    optimal = complete and len(rim) == 1
    kept = different(counts, np.argsort(-values, kind="stable"), most=1 if optimal else KEPT)
    counts, values = counts[kept], values[kept]
    for _ in range(0 if optimal else ROUNDS):
        again = counts.copy()
        for c in (*centre, *rim):
            again[:, c] = 0
            _place(demand, again, c, free, rank)
        new_values = np.where(_whole(demand, again), values_of(demand, again, rank), -np.inf)
        better = new_values > values
        if not better.any():
            break
        counts = np.where(better[:, None, None], again, counts)
        values = np.where(better, new_values, values)
    best_first = np.argsort(-values, kind="stable")
    return counts[best_first[values[best_first] > -np.inf]], optimal


def _around(demand: Demand, places: Ints, rim: list[int], free: Ints, rank: Floats) -> tuple[Ints, Floats]:
    """Everything else around these places of the ps, class after class; and the values, −∞ where it does not fit."""
    counts = places.copy()
    values = np.zeros(len(counts)) if demand.placed is None else (counts * demand.placed).sum(axis=(1, 2))
    for c in rim:
        values = values + _place(demand, counts, c, free, rank)
    return counts, np.where(_whole(demand, counts), values, -np.inf)


def _whole(demand: Demand, counts: Ints) -> NDArray[np.bool_]:
    return np.array(np.all(counts.sum(axis=2) == [one.count for one in demand.classes], axis=1))


def _place(demand: Demand, counts: Ints, c: int, free: Ints, rank: Floats) -> Floats:
    """Put all members of class `c` on the best nodes beside what is there, in place; the value that adds."""
    gain = np.tensordot(links(demand)[c], counts, axes=(0, 1)) @ rank
    if demand.placed is not None:
        gain = gain + demand.placed[c]
    counts[:, c] = fill_by_gain(gain, batch_rooms(demand, counts, c, free), demand.classes[c].count)
    return np.asarray((counts[:, c] * gain).sum(axis=1))


def _centres(demand: Demand, free: Ints, rank: Floats, centre: list[int], *, budget: int) -> tuple[Ints, bool]:
    """Places for the ps, (starts, classes, n), and whether these are all there are."""
    shape = (len(demand.classes), len(free))
    if not centre:
        return np.zeros((1, *shape), np.int64), True
    room = rooms(demand.classes[centre[0]], free)
    if len(centre) == 1:
        every = _every_place(room, demand.classes[centre[0]].count, most=max(2, budget // len(free)))
        if every is not None:
            counts = np.zeros((len(every), *shape), np.int64)
            counts[:, centre[0]] = every
            return counts, True
    starts = np.flatnonzero(room)
    starts = starts[choose_starts(rank[starts][:, starts], room[starts], budget=budget // 2)]
    counts = np.zeros((2 * len(starts), *shape), np.int64)
    near = np.concatenate((rank[starts], rank[starts]))
    for c in centre:  # the first half packs the ps around each start, the second half spreads them, one per node
        packed = batch_rooms(demand, counts, c, free)
        spread = np.minimum(packed, 1)
        enough = spread.sum(axis=1) >= demand.classes[c].count
        enough[: len(starts)] = False
        counts[:, c] = fill_by_gain(near, np.where(enough[:, None], spread, packed), demand.classes[c].count)
    return counts, False


def _every_place(room: Ints, count: int, *, most: int) -> Ints | None:
    """All places of one or two ps, or of more on few nodes; `None`: more than `most`, or not looked for."""
    n = len(room)
    if count > 2:
        few = n <= 12 and placements_of(tuple(room.tolist()), count) <= most
        return placements(tuple(room.tolist()), count) if few else None
    if n**count > 2 * most:
        return None
    one = two = np.flatnonzero(room)
    if count == 2:
        one, two = np.nonzero(np.triu((room > 0)[:, None] & (room > 0), k=1) | np.diag(room > 1))
    places = np.zeros((len(one), n), np.int64)
    places[np.arange(len(one)), one] = 1
    if count == 2:
        places[np.arange(len(one)), two] += 1
    return places
