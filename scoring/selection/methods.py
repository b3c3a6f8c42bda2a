"""The selections by name: `subset`, the default, and those that were published, `paper` (PAPERS N3) and `pack` (K6).

Rule for all: all members or none, never beyond what is free, only on allowed nodes, the same input always gives the
same answer. Rows are in the order of node names, so ties are decided by name.

`subset`: the highest sum of pair scores found in a millisecond or few. Steps: 1 leave out nodes without room; 2 no
network data: pack; 3 few placements: try all (zones of a dozen nodes are common); 4 greedy from every start, or around
the ps; 5 improve the best by moves; 6 compare with `paper`, whose greedy choice depends on one reference node, so as
never to be worse. In a job with ps all pairs lead to these: once they have nodes, the gain of each node is fixed and
the best nodes for the workers are simply the best ones, so only the places of the ps need a search. With one class of
ps and one of workers, and no more places for the ps than the budget, the answer is the optimum and says so; else ps and
workers of the best few are placed again around each other until nothing changes.

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

from functools import lru_cache
from itertools import pairwise
from math import prod

import numpy as np

from scoring.model import Role
from scoring.model.gang import MOST_KINDS
from scoring.model.policy import Selection
from scoring.network.matrix import Floats, Ints
from scoring.selection.demand import Demand, at_rows, back, in_places, links, rooms, value_of, values_of
from scoring.selection.greedy import (
    MOST_SEARCHED,
    MOST_STEPS,
    batch_rooms,
    choose_starts,
    different,
    fill_by_gain,
    fit,
    grow,
    grow_mixed,
    improve,
    order_by_request,
    whole,
)

PACK_BUDGET = 1_000_000  # Start × node × round steps of the search for one class
MIXED_STARTS = 3  # First nodes that are tried for several classes
PACK_MOVES = 24


def paper(demand: Demand, free: Ints, rank: Floats) -> Ints | None:
    """Members per class and node (classes, n), classes in the demand's order; `None`: it came to no end.

    Several classes may fail here although they fit: the paper's jobs have equal members. `rank` is on the grid.
    Cost: O(members·n).
    """
    counts = np.zeros((len(demand.classes), len(free)), np.int64)
    left, requests = free.copy(), np.array([part.request for part in demand.classes])
    able = np.array([rooms(part, left) > 0 for part in demand.classes])  # (classes, n): nodes with room for one more
    totals = np.zeros(len(free))
    last: int | None = None
    chosen: list[int] = []  # In this lap
    for c, part in enumerate(demand.classes):
        base = np.zeros(len(free)) if demand.placed is None else demand.placed[c]
        closed = np.where(able[c], 0.0, -np.inf)  # 0, or −∞ where there is no room or this lap has chosen
        closed[chosen] = -np.inf
        for _ in range(part.count):
            if last is not None:
                totals += rank[last]
            key = totals + base + closed
            at = int(key.argmax())
            if key[at] == -np.inf:  # this lap is over: all room that is left is open again
                closed = np.where(able[c], 0.0, -np.inf)
                totals[:] = 0.0
                chosen.clear()
                key = base + closed
                at = int(key.argmax())
                if key[at] == -np.inf:
                    return None
            counts[c, at] += 1
            closed[at] = -np.inf
            chosen.append(at)
            last = at
            left[at] -= part.request
            able[:, at] &= ((left[at] >= requests) | (requests <= 0)).all(axis=1)
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
        filled = [plan for first in firsts if (plan := _fill_nodes(demand, free, rank, first=first)) is not None]
        plans = np.array(filled, np.int64).reshape(len(filled), len(demand.classes), len(free))
    if not len(plans):
        plain = fit(demand, free)
        return None if plain is None else back(plain, order, n)
    used = np.count_nonzero(plans.any(axis=1), axis=1)
    by_value = np.lexsort((-values_of(demand, plans, rank), used))
    chosen = different(plans, by_value[used[by_value] == used.min()], most=KEPT)
    better = [improve(demand, plans[at], free, rank, most=PACK_MOVES, keep_nodes=True) for at in chosen]
    best = min(better, key=lambda plan: (np.count_nonzero(plan.any(axis=0)), -value_of(demand, plan, rank)))
    return back(best, order, n)


def pack_idle(demand: Demand, free: Ints) -> Ints | None:
    """Without any network: the nodes that take most members, then the most idle, each filled ps first."""
    order = _idle_first(demand, free)
    plan = _fill_nodes(at_rows(demand, order), free[order], None, first=None)
    return fit(demand, free) if plan is None else back(plan, order, len(free))


def _idle_first(demand: Demand, free: Ints) -> Ints:
    """Rows with room for some member, by the idle share of the resources asked for, most first, then by row."""
    asked = np.any([part.request > 0 for part in demand.classes], axis=0)
    share = free[:, asked] / np.maximum(free[:, asked].max(axis=0, initial=0), 1)
    order = np.argsort(-share.sum(axis=1), kind="stable")
    return np.array(order[np.any([rooms(part, free) for part in demand.classes], axis=0)[order]])


def _grown(demand: Demand, free: Ints, rank: Floats) -> Ints:
    """Placements of one class, (starts, 1, n), each from one of the largest rooms; none: there is too little room."""
    part, placed = demand.classes[0], None if demand.placed is None else demand.placed[0]
    room = rooms(part, free)
    if int(room.sum()) < part.count:
        return np.zeros((0, 1, len(free)), np.int64)
    if not links(demand)[0, 0]:  # only the gain from placed members distinguishes nodes
        rank = np.zeros_like(rank)
    large = np.flatnonzero(room == room.max())  # starting with a largest room needs the fewest nodes
    starts = large[choose_starts(rank[large][:, large], room[large], budget=PACK_BUDGET // part.count)]
    return grow(rank, room, part.count, starts=starts, gain=placed, fewest=True)[:, None]


def _fill_nodes(demand: Demand, free: Ints, rank: Floats | None, *, first: int | None) -> Ints | None:
    """Fill node after node: the one that takes most members, then best network, then first; `first` leads."""
    left = [part.count for part in demand.classes]
    if len(left) > 1 and demand.size * len(left) * len(free) > MOST_STEPS:
        return None
    by_role = sorted(range(len(left)), key=lambda c: demand.classes[c].role is not Role.PS)
    counts = np.zeros((len(left), len(free)), np.int64)
    usable = np.ones(len(free), np.bool_)
    near = np.zeros(len(free)) if demand.placed is None or rank is None else demand.placed.sum(axis=0)
    alone = [rooms(part, free) for part in demand.classes]
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


GROW_BUDGET = 1_500_000  # Start × node × round steps of one greedy search: about 3 ms
KEPT = 2  # Different greedy results that are improved
MOST_MOVES = 32
MOST_PLACEMENTS = 4000  # Placements that are tried at most: about a millisecond
MOST_TABLES = 64  # Placements of all but the last class, for each of which the last one's are listed
STAR_BUDGET = 20_000  # Centre × node steps of a search around ps
STAR_KEPT = 6  # Different placements whose ps are placed again around their workers
STAR_ROUNDS = 4  # Times that this is done at most; it rarely changes anything after two


def select_on_grid(method: Selection, demand: Demand, free: Ints, rank: Floats, *, exact_size: int) -> Ints | None:
    """Members per class and node (classes, n) by `method`; `None`: they do not fit by it.

    `free` is (n, r) and may be negative; `rank` (n, n) is symmetric with a perfect diagonal (`PairScores.rank`), and is
    `on_grid`, as is `demand.placed`. `subset` and `pack` find a place whenever first fit finds one, and for a single
    class whenever there is one; `subset` tries all placements of sets up to `exact_size` nodes when these are few.
    """
    if not len(free):
        return None
    if method is Selection.PACK:
        return pack(demand, free, rank)
    if len(demand.classes) == 1:
        room = rooms(demand.classes[0], free)
        demand, free = in_places(room, demand.size, all_reduce=demand.all_reduce, placed=demand.placed)
    return paper(demand, free, rank) if method is Selection.PAPER else subset(demand, free, rank, exact_size=exact_size)


def subset(demand: Demand, free: Ints, rank: Floats, *, exact_size: int) -> Ints | None:
    """Members per class and node (classes, n); `None`: no place, nor by `fit`. Ties by row order."""
    open_rows = np.flatnonzero(np.any([rooms(part, free) for part in demand.classes], axis=0))
    if not len(open_rows):
        return None
    if len(open_rows) == len(free):
        return _search(demand, free, rank, exact_size)
    inner, block = at_rows(demand, open_rows), rank.take(open_rows, axis=0).take(open_rows, axis=1)
    plan = _search(inner, free[open_rows], block, exact_size)
    return None if plan is None else back(plan, open_rows, len(free))


def _search(demand: Demand, free: Ints, rank: Floats, exact_size: int) -> Ints | None:
    room = [rooms(part, free) for part in demand.classes]
    if any(int(there.sum()) < part.count for there, part in zip(room, demand.classes, strict=True)):
        return None
    if len(room) == 1 and not demand.all_reduce:  # only members that are placed already count: the gains are fixed
        gain = np.zeros((1, len(free))) if demand.placed is None else demand.placed
        return fill_by_gain(gain, room[0][None], demand.size)
    near = np.zeros(1) if demand.placed is None else demand.placed
    alike = (near == near.flat[:1]).all() and ((rank == rank[0, -1]) | np.eye(len(rank), dtype=np.bool_)).all()
    if alike and len(room) == 1:  # then most pairs inside of nodes are best
        return fill_by_gain(room[0][None].astype(np.float64), room[0][None], demand.size)
    if alike or len(room) > MOST_SEARCHED:  # no node is better connected to the others or to members that are placed
        candidates = [pack_idle(demand, free)]
    elif demand.all_reduce and len(free) <= exact_size and (small := exact_mixed(demand, free, rank)) is not None:
        candidates = [small]
    elif demand.all_reduce:
        steps = demand.size if len(room) == 1 else 8 * demand.size
        grown = grow_mixed(demand, free, rank, starts=choose_starts(rank, room[0], budget=GROW_BUDGET // steps))
        by_value = np.argsort(-values_of(demand, grown, rank), kind="stable")
        candidates = _improved(demand, free, rank, grown[by_value])
    else:
        plans, optimal = star(demand, free, rank, budget=STAR_BUDGET)
        if optimal and len(plans):
            return np.array(plans[0])
        candidates = _improved(demand, free, rank, plans)
    if len(room) <= MOST_KINDS:
        candidates.append(paper(demand, free, rank))
    complete = [plan for plan in candidates if plan is not None]
    if not complete:
        return fit(demand, free)
    return max(complete, key=lambda plan: value_of(demand, plan, rank))  # the first of equals


def _improved(demand: Demand, free: Ints, rank: Floats, plans: Ints) -> list[Ints | None]:
    """The first few different plans, improved; when there is none, a plain fit is what is improved."""
    chosen = [plans[at] for at in different(plans, np.arange(len(plans)), most=KEPT)] or [fit(demand, free)]
    return [improve(demand, plan, free, rank, most=MOST_MOVES) for plan in chosen if plan is not None]


@lru_cache(maxsize=4096)
def placements_of(room: tuple[int, ...], count: int) -> int:
    """How many ways there are to put `count` equal members into the rooms. Cost: O(n·count).

    >>> placements_of((1, 1, 1, 1), 2), placements_of((2, 1), 2)
    (6, 2)
    """
    ways = np.zeros(count + 1)
    ways[0] = 1.0
    for node_room in room:
        sums = np.concatenate(([0.0], np.cumsum(ways)))
        ways = np.array([sums[c + 1] - sums[max(0, c - node_room)] for c in range(count + 1)])
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
    for node_room, (_, rest) in zip(room, pairwise(after), strict=True):
        parts = [
            (np.column_stack((done, np.full(len(done), m)))[keep], (left - m)[keep], keep.nonzero()[0])
            for m in range(node_room, -1, -1)
            if (keep := (left >= m) & (left - m <= rest)).any()
        ]
        order = np.argsort(np.concatenate([at for _, _, at in parts]), kind="stable")
        done = np.concatenate([part for part, _, _ in parts])[order]
        left = np.concatenate([still for _, still, _ in parts])[order]
    return np.array(done[left == 0])


def exact_mixed(demand: Demand, free: Ints, rank: Floats) -> Ints | None:
    """The best placement where all pairs count, (classes, n), ties to fuller first rows; `None`: too many, or none."""
    bounds = [placements_of(tuple(rooms(part, free).tolist()), part.count) for part in demand.classes]
    if prod(bounds) > MOST_PLACEMENTS or prod(bounds[:-1]) > MOST_TABLES:
        return None
    plans = np.zeros((1, len(demand.classes), len(free)), np.int64)
    for c, part in enumerate(demand.classes):
        room = batch_rooms(demand, plans, c, free)
        grown = []
        for counts, limits in zip(plans, room, strict=True):
            if limits.sum() >= part.count:
                ways = placements(tuple(limits.tolist()), part.count)
                more = np.repeat(counts[None], len(ways), axis=0)
                more[:, c] = ways
                grown.append(more)
        if not grown:
            return None
        plans = np.concatenate(grown)
    return np.array(plans[int(values_of(demand, plans, rank).argmax())])


def star(demand: Demand, free: Ints, rank: Floats, *, budget: int) -> tuple[Ints, bool]:
    """Whole placements, (k, classes, n), best first; and whether the first is the optimum. Cost: O(budget·log n)."""
    order = order_by_request(demand, free)
    centre = [c for c in order if demand.classes[c].role is Role.PS]
    rim = [c for c in order if demand.classes[c].role is not Role.PS]
    places, complete = _centres(demand, free, rank, centre, budget=budget)
    ways = [rim] if len(rim) < 2 else [rim, rim[::-1]]  # everything else around these places, class after class
    counts = np.concatenate([places] * len(ways))
    values = np.zeros(len(counts)) if demand.placed is None else (counts * demand.placed).sum(axis=(1, 2))
    for way, plans, sums in zip(ways, np.split(counts, len(ways)), np.split(values, len(ways)), strict=True):
        for c in way:
            sums += _place(demand, plans, c, free, rank)
    values[~whole(demand, counts)] = -np.inf
    optimal = complete and len(rim) == 1
    best = different(counts, np.argsort(-values, kind="stable"), most=1 if optimal else STAR_KEPT)
    counts, values = counts[best], values[best]
    for _ in range(0 if optimal else STAR_ROUNDS):
        again = counts.copy()
        for c in (*centre, *rim):
            again[:, c] = 0
            _place(demand, again, c, free, rank)
        new_values = np.where(whole(demand, again), values_of(demand, again, rank), -np.inf)
        better = new_values > values
        if not better.any():
            break
        counts = np.where(better[:, None, None], again, counts)
        values = np.where(better, new_values, values)
    best_first = np.argsort(-values, kind="stable")
    return counts[best_first[values[best_first] > -np.inf]], optimal


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
    at = [np.flatnonzero(room)]
    if count == 2:
        at = [*np.nonzero(np.triu((room > 0)[:, None] & (room > 0), k=1) | np.diag(room > 1))]
    places = np.zeros((len(at[0]), n), np.int64)
    for nodes in at:
        places[np.arange(len(nodes)), nodes] += 1
    return places
