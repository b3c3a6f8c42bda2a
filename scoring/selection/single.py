"""One class of interchangeable members: what most gangs are, and what a round of planning asks for most often.

Why apart from several classes: all that matters of a node then is how many members it can hold, so a caller that keeps
those numbers (`scoring.feasibility.room`) need not count them again, and each step is one operation on one row of
numbers. Rule: ranks come on the grid (`on_grid`), so that sums are exact in whichever order they are added up.
"""

from dataclasses import dataclass

import numpy as np

from scoring.model.policy import Selection
from scoring.network.matrix import Floats, Ints
from scoring.selection.demand import Demand, Selected, pairs_count, rooms
from scoring.selection.exact import exact_one
from scoring.selection.greedy import choose_starts, different, fill_by_gain, grow
from scoring.selection.improve import improvable, improve_one
from scoring.selection.paper import paper_one

GROW_BUDGET = 1_500_000  # Start × node × round steps of one greedy search: about 3 ms
KEPT = 2  # Different greedy results that are improved
MOST_MOVES = 32


@dataclass(frozen=True, slots=True)
class Single:
    """`count` members of one class; `room` (n,) says how many of them each node can hold, at most `count`."""

    room: Ints
    count: int
    paired: bool  # Whether pairs of these members count; else only the gain from members that are placed already does
    placed: Floats | None = None  # (n,), on the grid; see `Demand.placed`

    @classmethod
    def of(cls, demand: Demand, free: Ints) -> "Single":
        """The demand's only class; its `placed` must be on the grid."""
        one = demand.classes[0]
        paired = pairs_count(one.role, one.role, all_reduce=demand.all_reduce)
        return cls(rooms(one, free), one.count, paired, None if demand.placed is None else demand.placed[0])


def select_single(method: Selection, wanted: Single, rank: Floats, *, exact_size: int) -> Selected | None:
    """`select_on_grid` for one class by `subset` or `paper`; `rank` is on the grid. `None`: there is no room."""
    if method is Selection.PAPER:
        counts = paper_one(wanted.room, wanted.count, rank, placed=wanted.placed)
    else:
        counts = subset_single(wanted, rank, exact_size=exact_size)
    if counts is None:
        return None
    used = counts.nonzero()[0]
    return Selected((tuple(used.repeat(counts[used]).tolist()),), _value(wanted, counts, rank))


def subset_single(wanted: Single, rank: Floats, *, exact_size: int) -> Ints | None:
    """Members per node (n,) by `subset`, see there; `None`: there is no room."""
    room = wanted.room
    if int(room.sum()) < wanted.count:
        return None
    open_rows = room.nonzero()[0]
    if len(open_rows) == len(room):
        return _subset_open(wanted, rank, exact_size)
    placed = None if wanted.placed is None else wanted.placed[open_rows]
    inner = Single(room[open_rows], wanted.count, wanted.paired, placed)
    counts = np.zeros_like(room)
    counts[open_rows] = _subset_open(inner, rank.take(open_rows, axis=0).take(open_rows, axis=1), exact_size)
    return counts


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


def is_uniform(rank: Floats, placed: Floats | None) -> bool:
    """Whether no node is better connected than another: all links equal, and no member placed to be near to."""
    if placed is not None and placed.size and not (placed == placed.flat[0]).all():
        return False
    if len(rank) < 3:
        return True
    first = rank[0, 1:]  # one row decides nearly always, and costs a tenth
    return bool((first == first[0]).all()) and bool((_between(rank) == first[0]).all())


def _subset_open(wanted: Single, rank: Floats, exact_size: int) -> Ints:
    """Members per node; all nodes have room, and enough of it."""
    room, count, placed = wanted.room, wanted.count, wanted.placed
    if not wanted.paired:  # only members that are placed already count: the gains are fixed
        gain = np.zeros(len(room)) if placed is None else placed
        return np.array(fill_by_gain(gain[None], room[None], count)[0])
    if is_uniform(rank, placed):
        return np.array(fill_by_gain(room[None].astype(np.float64), room[None], count)[0])
    if len(room) <= exact_size and (small := exact_one(rank, room, count, placed=placed)) is not None:
        return small
    starts = choose_starts(rank, room, budget=GROW_BUDGET // count)
    grown, values = grow(rank, room, count, starts=starts, placed=placed)
    best, best_value = room, -np.inf
    kept = different(grown, np.argsort(-values, kind="stable"), most=KEPT)
    for at, movable in zip(kept, improvable(grown.take(kept, axis=0), room, rank, placed=placed), strict=True):
        better, added = grown[at], 0.0
        if movable:
            better, added = improve_one(better, room, rank, placed=placed, most=MOST_MOVES)
        if values[at] + added > best_value:
            best, best_value = np.array(better), float(values[at]) + added
    # With one member per node and none placed, one of the starts was the paper's reference.
    if (int(room.max()) > 1 or placed is not None) and _paper_at_most(wanted, rank) > best_value:
        literal = paper_one(room, count, rank, placed=placed)
        if literal is not None and _value(wanted, literal, rank) > best_value:
            best = literal
    return best


def _paper_at_most(wanted: Single, rank: Floats) -> float:
    """A bound on the value of `paper`: while nodes last it gives each one member, so all its pairs are of two nodes."""
    n, count = len(rank), wanted.count
    if n < max(count, 2):
        return np.inf
    gain = 0.0 if wanted.placed is None else count * float(wanted.placed.max())
    return count * (count - 1) / 2.0 * float(_between(rank).max()) + gain


def _between(rank: Floats) -> Floats:
    """All ranks but the diagonal, as a view (n − 1, n); n is at least 2."""
    n = len(rank)
    return np.ascontiguousarray(rank).reshape(-1)[1:].reshape(n - 1, n + 1)[:, :-1]


def _value(wanted: Single, counts: Ints, rank: Floats) -> float:
    used = counts.nonzero()[0]
    x = counts[used].astype(np.float64)
    value = 0.0
    if wanted.paired:
        block = rank.take(used, axis=0).take(used, axis=1)
        value = float((x @ block - block.diagonal()) @ x) / 2.0
    return value if wanted.placed is None else value + float(x @ wanted.placed[used])
