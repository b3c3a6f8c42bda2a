"""Make a placement better by moving members, until no single move helps.

Why after a greedy choice: what looked best when few members were placed need not be when all are. Rule: each step takes
the one move that adds most (ties: first class, first row), so only the input decides; each raises the value: it ends.

Moves: one member, or as many of a class as the target holds; all members of a node; two members of different classes
trade places. Looked at are the `NEIGHBOURS` nodes that give least and those that promise most. With `keep_nodes` no
move may use one node more than before (for `pack`).
"""

import numpy as np
from numpy.typing import NDArray

from scoring.network.matrix import Floats, Ints
from scoring.selection.demand import Demand, links
from scoring.selection.greedy import batch_rooms

LEAST_GAIN = 1e-7  # Points; below this a move is rounding, not improvement
NEIGHBOURS = 96  # Nodes looked at as source and target of a move: all in usual zones, a bound in large ones


def improve(demand: Demand, counts: Ints, free: Ints, rank: Floats, *, most: int, keep_nodes: bool = False) -> Ints:
    """Improve a placement of any demand, (classes, n): at most `most` moves. Cost: O(moves·classes·n²)."""
    link, counts = links(demand), counts.copy()
    requests = np.array([one.request for one in demand.classes])
    for _ in range(most):
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
_NO_MOVE: _Move = (0.0, ())


def _most(rows: Ints, key: Floats) -> Ints:
    """Up to `NEIGHBOURS` of the rows, ascending: those with the highest key."""
    if len(rows) <= NEIGHBOURS:
        return rows
    return np.sort(rows[np.argsort(-key[rows], kind="stable")[:NEIGHBOURS]])


def _block(gain: Floats, own: Floats, across: Floats, source: Ints, target: Ints, size: Ints) -> Floats:
    """Value added by moving `size` members at once; pairs among themselves go from one diagonal to another."""
    before, after = own[source][:, None], own[target]
    pairs = (size * size) * (before + after - 2.0 * across) - size * (after - before)
    return size * (gain[target] - gain[source][:, None]) + pairs / 2.0


def _best_class_move(
    demand: Demand, counts: Ints, free: Ints, rank: Floats, gain: Floats, c: int, keep_nodes: bool
) -> _Move:
    """One member of class c, or as many as the target holds, from node i to node j."""
    room = batch_rooms(demand, counts[None], c, free)[0] - counts[c]
    itself, own = (1.0 if demand.all_reduce else 0.0), rank.diagonal()
    source, target = _most(counts[c].nonzero()[0], own - gain), _most((room > 0).nonzero()[0], gain)
    if not len(source) or not len(target):
        return _NO_MOVE
    across, held = rank.take(source, axis=0).take(target, axis=1), counts[c][source][:, None]
    size = np.minimum(held, room[target])
    rise = gain[target] - gain[source][:, None]
    single = rise - itself * (across - own[source][:, None])
    block = _block(gain, own, across, source, target, size) if itself else size * rise
    if keep_nodes:
        every, unused = counts.sum(axis=0)[source][:, None], ~np.any(counts[:, target], axis=0)
        single = np.where(unused & (every > 1), -np.inf, single)
        block = np.where(unused & (every > size), -np.inf, block)
    delta = np.where(source[:, None] == target, -np.inf, np.maximum(single, block))
    i, j = divmod(int(delta.argmax()), len(target))
    moved = int(size[i, j]) if block[i, j] > single[i, j] else 1
    return float(delta[i, j]), ((c, int(source[i]), -moved), (c, int(target[j]), moved))


def _best_relocation(demand: Demand, counts: Ints, left: Ints, rank: Floats, gain: Floats, link: Floats) -> _Move:
    requests = np.array([one.request for one in demand.classes])
    forbidden = np.array([~one.allowed for one in demand.classes])
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
    one, other = demand.classes[c], demand.classes[d]
    here, there = _most(counts[c].nonzero()[0], -gain[c]), _most(counts[d].nonzero()[0], -gain[d])
    if not len(here) or not len(there):
        return _NO_MOVE
    swap = other.request - one.request
    fit = _holds(left[here], swap)[:, None] & _holds(left[there], -swap) & (here[:, None] != there)
    fit = fit & other.allowed[here][:, None] & one.allowed[there]
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
