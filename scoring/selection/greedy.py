"""Fill nodes with members greedily, from many starts at once or from one; improve that; whether they fit at all.

Why in batches: from one start the greedy choice is often poor (PAPERS N3 names it a weakness), and from every start a
loop over nodes in Python costs seconds; one matrix of starts × nodes costs microseconds a step. Why from one as well: a
run compares every zone for every gang, while a search is only worth its time in the zone that wins. Rules: a chosen
node takes as many members as it can hold (its own pairs are perfect), so it is never chosen twice; a gang that first
fit can place is never refused; the estimate is the value of a real placement.

Improving takes the one move that adds most (ties: first class, first row) until none helps; each raises the value, so
it ends. Moves: one member, or as many of a class as the target holds; all members of a node; two members of different
classes trade places. Looked at are the `NEIGHBOURS` nodes that give least and those that promise most. With
`keep_nodes` no move may use one node more than before (for `pack`).
"""

import numpy as np
from numpy.typing import NDArray

from scoring.model import Role
from scoring.network.matrix import Floats, Ints
from scoring.selection.demand import Demand, links, rooms, value_of


def fill_by_gain(gain: Floats, room: Ints, count: int) -> Ints:
    """Give `count` members to the nodes with the highest gain, ties by row; the best placement when gains are fixed.

    Shapes: gain and room (starts, n), result (starts, n); rows with too little room get fewer. Cost: O(s·n·log n).

    >>> fill_by_gain(np.array([[1.0, 3.0, 3.0]]), np.array([[5, 1, 2]]), 4).tolist()
    [[1, 1, 2]]
    """
    order, each = (-gain).argsort(axis=1, kind="stable"), np.arange(len(gain))[:, None]
    sorted_room = room[each, order]
    before = sorted_room.cumsum(axis=1) - sorted_room
    counts: Ints = np.empty_like(room)
    counts[each, order] = np.minimum(np.maximum(count - before, 0), sorted_room)
    return counts


MOST_SEARCHED = 8  # Classes for which places are searched; members of more are placed as they fit
MOST_STEPS = 4_000_000  # Member × class × node steps of a fill that looks at all classes for each member: about 0.3 s
_CLOSED = -1e300  # Gain of a node that has been filled: below any other, and nothing when multiplied by no members


def grow(
    rank: Floats, room: Ints, count: int, *, starts: Ints | None, gain: Floats | None, fewest: bool = False
) -> Ints:
    """Grow one class from each start node, always by the node that adds most per member; every pair counts.

    `room` and `gain`, from members that are there, are (n,) or (starts, n); without `starts` the best node is the first
    one. m members add a node's gain plus (m − 1)/2 of its own rank, each. With `fewest`, always by one of the nodes
    that take most members. Returns counts (starts, n), fewer than `count` where there is too little room. Cost:
    O(rounds·starts·n), rounds = nodes used.
    """
    size = len(room) if starts is None else len(starts)
    each, half = np.arange(size), rank.diagonal() / 2.0
    limit = np.broadcast_to(room, (size, len(rank))).astype(np.float64)
    gain = np.where(limit > 0.0, 0.0 if gain is None else gain, _CLOSED)
    counts, left = np.zeros(limit.shape, np.int64), np.full(size, float(count))
    several, at = int(room.max(initial=0)) > 1, starts
    while True:
        if at is None:
            key = gain
            if several:
                members = np.minimum(limit, left[:, None])
                key = gain + half * (members - 1.0)
                if fewest:
                    key[members < members.max(axis=1, keepdims=True)] = -np.inf
            at = key.argmax(axis=1)
        taken = np.minimum(limit[each, at], left)  # where nothing is left to place, nothing is taken, wherever that is
        if not taken.any() and at is not starts:
            return counts
        counts[each, at] += taken.astype(np.int64)
        left -= taken
        if not left.any():
            return counts
        limit[each, at] = 0.0
        toward = rank.take(at, axis=0)
        toward *= taken[:, None]
        gain += toward
        gain[each, at] = _CLOSED
        at = None


def grow_mixed(demand: Demand, free: Ints, rank: Floats, *, starts: Ints) -> Ints:
    """Several classes whose pairs count, one after the other, largest first: whole counts (starts, classes, n)."""
    by_request = order_by_request(demand, free)
    by_count = sorted(by_request, key=lambda c: -demand.classes[c].count)
    orders = [by_request] if by_count == by_request else [by_request, by_count]
    grown = np.zeros((len(orders), len(starts), len(demand.classes), len(free)), np.int64)
    for order, counts in zip(orders, grown, strict=True):
        gain = np.zeros((len(starts), len(free)))  # towards all members so far: the same for each class
        for c in order:
            room = batch_rooms(demand, counts, c, free)
            own = gain if demand.placed is None else gain + demand.placed[c]
            at = starts if c == order[0] else None
            counts[:, c] = grow(rank, room, demand.classes[c].count, starts=at, gain=own)
            if c != order[-1]:
                gain = gain + counts[:, c] @ rank
    plans = grown.reshape(-1, *grown.shape[2:])
    return plans[whole(demand, plans)]


def whole(demand: Demand, counts: Ints) -> NDArray[np.bool_]:
    """Which of the placements (s, classes, n) hold all members; (s,)."""
    return np.array(np.all(counts.sum(axis=2) == [part.count for part in demand.classes], axis=1))


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
    part = demand.classes[c]
    room = np.where(part.allowed, part.count, 0) + np.zeros((len(counts), 1), np.int64)
    for r in np.flatnonzero(part.request > 0):
        left = np.broadcast_to(free[:, r], room.shape)
        for d, other in enumerate(demand.classes):
            if d != c and other.request[r]:
                left = left - counts[:, d] * other.request[r]
        np.minimum(room, left // part.request[r], out=room)
    return np.asarray(np.maximum(room, 0))


def order_by_request(demand: Demand, free: Ints) -> list[int]:
    """Classes by the share of the largest node that one member takes, largest first: the hardest to place first."""
    largest = np.maximum(free.max(axis=0, initial=0), 1)
    share = [float((part.request / largest).max(initial=0.0)) for part in demand.classes]
    return sorted(range(len(share)), key=lambda c: (-share[c], c))


def choose_starts(rank: Floats, room: Ints, *, budget: int) -> Ints:
    """Start nodes, ascending: as many as `budget` steps of n allow; the best connected, and `paper`'s own first."""
    n = len(room)
    most = max(2, budget // max(1, n))
    if n <= most:
        return np.arange(n)
    best = np.argsort(-(rank @ np.minimum(room, 1)), kind="stable")[: most - 1]
    return np.unique(np.append(best, 0))


def quick_value(demand: Demand, free: Ints, rank: Floats) -> float | None:
    """Value of one greedy placement, built from the best connected node; `None`: the members do not fit.

    `rank` need not be on the grid, but only then equal sets have equal values. Cost: O(n²) once, O(n) per node used.
    """
    if not len(free):
        return None
    if len(demand.classes) == 1:
        return _quick_single(demand, free, rank)
    if len(demand.classes) > MOST_SEARCHED:
        plan = None
    elif demand.all_reduce:
        start = int(np.where(rooms(demand.classes[0], free) > 0, rank.mean(axis=0), -np.inf).argmax())
        plans = grow_mixed(demand, free, rank, starts=np.array([start]))
        plan = max(plans, key=lambda plan: value_of(demand, plan, rank), default=None)
    else:
        plan = _around_ps(demand, free, rank)
    if plan is None:
        plan = fit(demand, free)
    return None if plan is None else value_of(demand, plan, rank)


def _quick_single(demand: Demand, free: Ints, rank: Floats) -> float | None:
    room, left = rooms(demand.classes[0], free), demand.classes[0].count
    placed = None if demand.placed is None else demand.placed[0]
    if int(room.sum()) < left:
        return None
    if not demand.all_reduce:
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


def _around_ps(demand: Demand, free: Ints, rank: Floats) -> Ints | None:
    """The ps near the best connected node, everything else around them; `None`: no end this way, or no ps."""
    order = sorted(range(len(demand.classes)), key=lambda c: demand.classes[c].role is not Role.PS)
    if demand.classes[order[0]].role is not Role.PS:
        return None
    left, counts = free.copy(), np.zeros((len(order), len(free)), np.int64)
    gain: Floats | None = None
    for c in order:
        part = demand.classes[c]
        room = rooms(part, left)
        if int(room.sum()) < part.count:
            return None
        placed = 0.0 if demand.placed is None else demand.placed[c]
        if gain is None:
            # what the other members would gain from each node: perfect for those beside it, else its mean rank
            others = demand.classes[order[-1]]
            beside = np.minimum(rooms(others, left - part.request), others.count)
            promise = beside * rank.diagonal() + (others.count - beside) * rank.mean(axis=0)
            gain = rank[int(np.where(room > 0, promise + placed, -np.inf).argmax())]
        counts[c] = fill_by_gain((gain + placed)[None], room[None], part.count)[0]
        left = left - counts[c][:, None] * part.request
        if part.role is Role.PS and demand.classes[order[-1]].role is not Role.PS:
            used = counts[c].nonzero()[0]
            gain = counts[c][used] @ rank[used] + (gain if c != order[0] else 0.0)
    return counts


def fit(demand: Demand, free: Ints) -> Ints | None:
    """Members per class and node (classes, n) by first or careful fit; `None`. Cost: O(members·classes·n·r)."""
    own, largest_first = list(range(len(demand.classes))), order_by_request(demand, free)
    for order in (largest_first, own):  # class after class, each on the first nodes with room
        left, counts = free.copy(), np.zeros((len(order), len(free)), np.int64)
        for c in order:
            room, count = rooms(demand.classes[c], left), demand.classes[c].count
            counts[c] = np.minimum(np.maximum(count - (np.cumsum(room) - room), 0), room)
            if int(counts[c].sum()) < count:
                break
            left -= counts[c][:, None] * demand.classes[c].request
        else:
            return counts
    careful = len(own) > 1 and demand.size * len(own) * len(free) <= MOST_STEPS
    return _careful_fit(demand, free, largest_first) if careful else None


def _careful_fit(demand: Demand, free: Ints, order: list[int]) -> Ints | None:
    """Member after member, each where the classes still to come lose the smallest share of their room."""
    left, counts = free.copy(), np.zeros((len(order), len(free)), np.int64)
    for position, c in enumerate(order):
        part, later = demand.classes[c], [demand.classes[d] for d in order[position + 1 :]]
        for _ in range(part.count):
            room = rooms(part, left)
            if not room.any():
                return None
            lost: Floats = np.zeros(len(free))
            for other in later:
                lost += (rooms(other, left) - rooms(other, left - part.request)) / other.count
            at = int(np.where(room > 0, lost, np.inf).argmin())
            counts[c, at] += 1
            left[at] -= part.request
    return counts


LEAST_GAIN = 1e-7  # Points; below this a move is rounding, not improvement
NEIGHBOURS = 96  # Nodes looked at as source and target of a move: all in usual zones, a bound in large ones


def improve(demand: Demand, counts: Ints, free: Ints, rank: Floats, *, most: int, keep_nodes: bool = False) -> Ints:
    """Improve a placement of any demand, (classes, n): at most `most` moves. Cost: O(moves·classes·n²)."""
    link, counts = links(demand), counts.copy()
    requests = np.array([part.request for part in demand.classes])
    for _ in range(most if len(counts) <= MOST_SEARCHED else 0):
        gain = link @ (counts @ rank)
        if demand.placed is not None:
            gain = gain + demand.placed
        left = free - counts.T @ requests
        moves = [_best_class_move(demand, counts, free, rank, gain[c], c, keep_nodes) for c in range(len(counts))]
        if len(counts) > 1:
            moves.append(_best_relocation(demand, counts, left, rank, gain, link))
            moves.extend(
                _best_trade(demand, counts, left, rank, gain, link, (c, d))
                for c in range(len(counts))
                for d in range(c + 1, len(counts))
            )
        value, change = max(moves, key=lambda move: move[0])  # the first of equals
        if not value > LEAST_GAIN:
            break
        for c, node, members in change:
            counts[c, node] += members
    return counts


_Move = tuple[float, tuple[tuple[int, int, int], ...]]  # Value added; (class, node, members more or fewer)


def _most(rows: Ints, key: Floats) -> Ints:
    """Up to `NEIGHBOURS` of the rows, ascending: those with the highest key."""
    return rows if len(rows) <= NEIGHBOURS else np.sort(rows[np.argsort(-key[rows], kind="stable")[:NEIGHBOURS]])


def _best_class_move(
    demand: Demand, counts: Ints, free: Ints, rank: Floats, gain: Floats, c: int, keep_nodes: bool
) -> _Move:
    """One member of class c, or as many as the target holds, from node i to node j."""
    room = batch_rooms(demand, counts[None], c, free)[0] - counts[c]
    own = rank.diagonal()
    source, target = _most(counts[c].nonzero()[0], own - gain), _most((room > 0).nonzero()[0], gain)
    if not len(source) or not len(target):
        return 0.0, ()
    across, held = rank.take(source, axis=0).take(target, axis=1), counts[c][source][:, None]
    size = np.minimum(held, room[target])
    rise, before, after = gain[target] - gain[source][:, None], own[source][:, None], own[target]
    single, block = rise, size * rise
    if demand.all_reduce:  # pairs among those that move at once go from one diagonal to another
        single = rise - (across - before)
        block = block + ((size * size) * (before + after - 2.0 * across) - size * (after - before)) / 2.0
    if keep_nodes:
        every, unused = counts.sum(axis=0)[source][:, None], ~np.any(counts[:, target], axis=0)
        single = np.where(unused & (every > 1), -np.inf, single)
        block = np.where(unused & (every > size), -np.inf, block)
    delta = np.where(source[:, None] == target, -np.inf, np.maximum(single, block))
    i, j = divmod(int(delta.argmax()), len(target))
    moved = int(size[i, j]) if block[i, j] > single[i, j] else 1
    return float(delta[i, j]), ((c, int(source[i]), -moved), (c, int(target[j]), moved))


def _best_relocation(demand: Demand, counts: Ints, left: Ints, rank: Floats, gain: Floats, link: Floats) -> _Move:
    requests = np.array([part.request for part in demand.classes])
    forbidden = np.array([~part.allowed for part in demand.classes])
    everything = counts.sum(axis=0)
    source = _most(everything.nonzero()[0], -gain.sum(axis=0))
    target = _most(np.arange(len(left)), gain.sum(axis=0))
    content = counts[:, source].T  # (used, classes)
    load = (content @ requests)[:, None, :]
    fit = np.all((load <= left[target]) | (load == 0), axis=2) & (source[:, None] != target)
    fit = fit & ~np.any((content[:, :, None] > 0) & forbidden[:, target], axis=1)
    own, across = rank.diagonal(), rank.take(source, axis=0).take(target, axis=1)
    before, after = own[source][:, None], own[target]
    inner = np.einsum("uc,cd,ud->u", content, link, content)[:, None]
    single = (content @ np.diag(link))[:, None]
    toward = content @ gain  # (used, n)
    delta = toward[:, target] - toward[np.arange(len(source)), source][:, None]
    delta = delta + inner / 2.0 * (before + after - 2.0 * across) - single / 2.0 * (after - before)
    delta = np.where(fit, delta, -np.inf)
    i, j = divmod(int(delta.argmax()), len(target))
    at, to = int(source[i]), int(target[j])
    held = [(c, int(members)) for c, members in enumerate(content[i]) if members]
    return float(delta[i, j]), (*((c, at, -m) for c, m in held), *((c, to, m) for c, m in held))


def _best_trade(
    demand: Demand, counts: Ints, left: Ints, rank: Floats, gain: Floats, link: Floats, pair: tuple[int, int]
) -> _Move:
    """A member of class c on node i and one of class d on node j change places."""
    c, d = pair
    part, other = demand.classes[c], demand.classes[d]
    here, there = _most(counts[c].nonzero()[0], -gain[c]), _most(counts[d].nonzero()[0], -gain[d])
    if not len(here) or not len(there):
        return 0.0, ()
    swap = other.request - part.request
    fit = _holds(left[here], swap)[:, None] & _holds(left[there], -swap) & (here[:, None] != there)
    fit = fit & other.allowed[here][:, None] & part.allowed[there]
    own, across = rank.diagonal(), rank.take(here, axis=0).take(there, axis=1)
    at_i, at_j = own[here][:, None], own[there]
    delta = (gain[c][there] - gain[c][here][:, None]) + (gain[d][here][:, None] - gain[d][there])
    delta = delta - link[c, c] * (across - at_i) - link[d, d] * (across - at_j)
    delta = np.where(fit, delta + link[c, d] * (2.0 * across - at_i - at_j), -np.inf)
    i, j = divmod(int(delta.argmax()), len(there))
    at, to = int(here[i]), int(there[j])
    return float(delta[i, j]), ((c, at, -1), (c, to, 1), (d, to, -1), (d, at, 1))


def _holds(left: Ints, more: Ints) -> NDArray[np.bool_]:
    return np.array(np.all((left >= more) | (more <= 0), axis=1))
