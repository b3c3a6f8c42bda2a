"""Fill nodes with members greedily, from many starts at once.

Why in batches: from one start the greedy choice is often poor (PAPERS N3 names it a weakness), and from every start a
loop over nodes in Python costs seconds per round of planning; one matrix of starts × nodes costs microseconds a step.
Rule: a chosen node takes as many members as it can hold (its own pairs are perfect), so it is never chosen twice.
"""

import numpy as np

from scoring.network.matrix import Floats, Ints
from scoring.selection.demand import Demand


def fill_by_gain(gain: Floats, room: Ints, count: int) -> Ints:
    """Give `count` members to the nodes with the highest gain, ties by row; the best placement when gains are fixed.

    Shapes: gain and room (starts, n), result (starts, n); rows with too little room get fewer. Cost: O(s·n·log n).

    >>> fill_by_gain(np.array([[1.0, 3.0, 3.0]]), np.array([[5, 1, 2]]), 4).tolist()
    [[1, 1, 2]]
    """
    order = np.argsort(-gain, axis=1, kind="stable")
    sorted_room = np.take_along_axis(room, order, axis=1)
    before = np.cumsum(sorted_room, axis=1) - sorted_room
    counts: Ints = np.empty_like(room)
    np.put_along_axis(counts, order, np.minimum(np.maximum(count - before, 0), sorted_room), axis=1)
    return counts


def grow(
    rank: Floats, room: Ints, count: int, *, starts: Ints, placed: Floats | None, fewest: bool = False
) -> tuple[Ints, Floats]:
    """Grow one class from each start node, always by the node that adds most per member; every pair counts.

    With `fewest`, always by one of the nodes that take most members (for `pack`).

    `room` (n,) is positive everywhere and holds `count` in total. Returns counts (starts, n) and values (starts,).
    Cost: O(rounds·starts·n), rounds = nodes used.
    """
    if int(room.max()) == 1:
        return _grow_single(rank, count, starts=starts, placed=placed)
    return _grow_several(rank, room, count, starts=starts, placed=placed, fewest=fewest)


_CLOSED = -1e300  # Gain of a node that has been filled: below any other, and nothing when multiplied by no members


def _grow_several(
    rank: Floats, room: Ints, count: int, *, starts: Ints, placed: Floats | None, fewest: bool
) -> tuple[Ints, Floats]:
    """`grow` where some node takes several members; all in floats, and filled nodes carry `_CLOSED` in the gain."""
    each, half, limit = np.arange(len(starts)), rank.diagonal() / 2.0, room.astype(np.float64)
    counts = np.zeros((len(starts), len(room)), np.int64)
    at, left = starts, np.full(len(starts), float(count))
    taken = np.minimum(limit[at], left)
    values = half[at] * (taken * (taken - 1.0))
    if placed is not None:
        values += taken * placed[at]
    counts[each, at] = taken
    left -= taken
    gain = rank.take(at, axis=0)
    gain *= taken[:, None]
    if placed is not None:
        gain += placed
    while np.count_nonzero(left):
        gain[each, at] = _CLOSED
        key = np.minimum(limit, left[:, None])
        if fewest:
            key[gain == _CLOSED] = 0.0
            fewer = key < key.max(axis=1, keepdims=True)
        key -= 1.0
        key *= half
        key += gain
        if fewest:
            key[fewer] = -np.inf
        at = key.argmax(axis=1)
        taken = np.minimum(limit[at], left)  # where nothing is left to place, nothing is taken, wherever that is
        values += taken * gain[each, at] + half[at] * (taken * (taken - 1.0))
        counts[each, at] += taken.astype(np.int64)
        left -= taken
        if np.count_nonzero(left):
            gain += taken[:, None] * rank.take(at, axis=0)
    return counts, values


def _grow_single(rank: Floats, count: int, *, starts: Ints, placed: Floats | None) -> tuple[Ints, Floats]:
    """`grow` where each node takes one member: taken nodes carry −∞ in the gain itself, which saves the masks."""
    each = np.arange(len(starts))
    gain = rank.take(starts, axis=0)
    if placed is not None:
        gain += placed
    values = np.zeros(len(starts)) if placed is None else placed[starts].copy()
    gain[each, starts] = -np.inf
    for step in range(1, count):
        at = gain.argmax(axis=1)
        values += gain[each, at]
        if step < count - 1:
            gain += rank.take(at, axis=0)
        gain[each, at] = -np.inf
    return np.isneginf(gain).astype(np.int64), values


def grow_mixed(demand: Demand, free: Ints, rank: Floats, *, starts: Ints) -> Ints:
    """Several classes whose pairs count, one after the other, largest first: whole counts (starts, classes, n)."""
    by_request = order_by_request(demand, free)
    by_count = sorted(by_request, key=lambda c: -demand.classes[c].count)
    orders = [by_request] if by_count == by_request else [by_request, by_count]
    counts = np.concatenate([_grow_in_order(demand, free, rank, order, starts=starts) for order in orders])
    return counts[np.all(counts.sum(axis=2) == [one.count for one in demand.classes], axis=1)]


def _grow_in_order(demand: Demand, free: Ints, rank: Floats, order: list[int], *, starts: Ints) -> Ints:
    size, n = len(starts), len(free)
    counts = np.zeros((size, len(demand.classes), n), np.int64)
    gain = np.zeros((size, n))  # towards all members so far: the same for each class
    for position, c in enumerate(order):
        one = demand.classes[c]
        room = batch_rooms(demand, counts, c, free)
        own = gain if demand.placed is None else gain + demand.placed[c]
        first = starts if position == 0 else None
        counts[:, c] = _fill(rank, room, own, np.full(size, one.count, np.int64), starts=first)
        gain = gain + counts[:, c] @ rank
    return counts


def _fill(rank: Floats, room: Ints, gain: Floats, left: Ints, *, starts: Ints | None) -> Ints:
    """Place `left` per start: counts (starts, n); m members gain a node's gain plus (m − 1)/2 of its own rank, each."""
    each, half = np.arange(len(room)), np.diag(rank) / 2.0
    room, gain, left = room.copy(), gain.copy(), left.copy()
    counts = np.zeros_like(room)
    at = starts
    while True:
        if at is None:
            size = np.minimum(room, left[:, None])
            key = gain + half * (size - 1)
            key[room <= 0] = -np.inf
            at = key.argmax(axis=1)
        taken = np.minimum(room[each, at], left)
        if not taken.any() and starts is None:
            return counts
        counts[each, at] += taken
        left -= taken
        if not left.any():
            return counts
        room[each, at] = 0
        gain += taken[:, None] * rank.take(at, axis=0)
        at = starts = None


def different(plans: Ints, order: Ints, *, most: int) -> list[int]:
    """The first `most` indexes of `order` whose plans are not equal to one before."""
    seen: dict[bytes, int] = {}
    for at in order.tolist():
        seen.setdefault(plans[at].tobytes(), at)
        if len(seen) == most:
            break
    return list(seen.values())


def batch_rooms(demand: Demand, counts: Ints, c: int, free: Ints) -> Ints:
    """Room for class `c` beside the members of the other classes: counts (s, classes, n) → (s, n). Cost: O(s·n·r)."""
    one = demand.classes[c]
    room = np.where(one.allowed, one.count, 0) + np.zeros((len(counts), 1), np.int64)
    for r in np.flatnonzero(one.request > 0):
        left = np.broadcast_to(free[:, r], room.shape)
        for d, other in enumerate(demand.classes):
            if d != c and other.request[r]:
                left = left - counts[:, d] * other.request[r]
        np.minimum(room, left // one.request[r], out=room)
    return np.asarray(np.maximum(room, 0))


def order_by_request(demand: Demand, free: Ints) -> list[int]:
    """Classes by the share of the largest node that one member takes, largest first: the hardest to place first."""
    largest = np.maximum(free.max(axis=0, initial=0), 1)
    share = [float((one.request / largest).max(initial=0.0)) for one in demand.classes]
    return sorted(range(len(share)), key=lambda c: (-share[c], c))


def choose_starts(rank: Floats, room: Ints, *, budget: int) -> Ints:
    """Start nodes, ascending: as many as `budget` steps of n allow; the best connected, and `paper`'s own first."""
    n = len(room)
    most = max(2, budget // max(1, n))
    if n <= most:
        return np.arange(n)
    best = np.argsort(-(rank @ np.minimum(room, 1)), kind="stable")[: most - 1]
    return np.unique(np.append(best, 0))
