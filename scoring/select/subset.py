"""The default selection: the placement with the highest sum of pair scores that can be found in a millisecond or few.

Why not the paper's own: from one reference node the greedy choice depends on the order of the list and on that node
(PAPERS N3). Steps: 1 leave out nodes without room; 2 no network data: pack; 3 few placements: try all; 4 greedy from
every start; 5 improve the best by moves; 6 compare with `paper` where it could differ, so as never to be worse.
"""

import numpy as np

from scoring.network import Floats, Ints
from scoring.select.demand import Demand, at_rows, links, on_grid, rooms, value_of, values_of
from scoring.select.exact import exact_mixed, exact_one
from scoring.select.fit import fit
from scoring.select.greedy import choose_starts, different, fill_by_gain, grow, grow_mixed
from scoring.select.improve import improve, improve_one
from scoring.select.pack import pack_idle
from scoring.select.paper import paper
from scoring.select.star import star

GROW_BUDGET = 1_500_000
"""Start × node × round steps of one greedy search: about 3 ms."""
STAR_BUDGET = 20_000
"""Centre × node steps of a search around ps."""
KEPT = 2
"""Different greedy results that are improved."""
MOST_MOVES = 32


def subset(demand: Demand, free: Ints, rank: Floats, *, exact_size: int) -> Ints | None:
    """Members per class and node (classes, n); `None`: no place found, nor by `fit`. Ties by row order."""
    open_rows = np.flatnonzero(np.any([rooms(one, free) for one in demand.classes], axis=0))
    if not len(open_rows):
        return None
    if len(open_rows) == len(free):
        return _search(demand, free, on_grid(rank), exact_size)
    inner, block = at_rows(demand, open_rows), on_grid(rank[open_rows][:, open_rows])
    found = _search(inner, free[open_rows], block, exact_size)
    if found is None:
        return None
    counts = np.zeros((len(demand.classes), len(free)), np.int64)
    counts[:, open_rows] = found
    return counts


def is_uniform(rank: Floats, placed: Floats | None) -> bool:
    """Whether no node is better connected than another: all links equal, and nobody placed to be near to."""
    n = len(rank)
    if placed is not None and placed.size and not (placed == placed.flat[0]).all():
        return False
    if n < 3:
        return True
    between = rank.ravel()[1:].reshape(n - 1, n + 1)[:, :-1]  # all but the diagonal
    return bool((between == between[0, 0]).all())


def _search(demand: Demand, free: Ints, rank: Floats, exact_size: int) -> Ints | None:
    room = [rooms(one, free) for one in demand.classes]
    if any(int(there.sum()) < one.count for there, one in zip(room, demand.classes, strict=True)):
        return None
    if len(room) == 1:
        return np.array(_one_class(demand, free, room[0], rank, exact_size)[None])
    if is_uniform(rank, demand.placed):
        found = [pack_idle(demand, free)]
    elif demand.all_reduce:
        found = _around_all(demand, free, rank, exact_size)
    else:
        plans, optimal = star(demand, free, rank, budget=STAR_BUDGET)
        if optimal and len(plans):
            return np.array(plans[0])
        found = _improved(demand, free, rank, plans)
    known = [plan for plan in (*found, paper(demand, free, rank)) if plan is not None]
    if not known:
        return fit(demand, free)
    return max(known, key=lambda plan: value_of(demand, plan, rank))  # the first of equals


def _around_all(demand: Demand, free: Ints, rank: Floats, exact_size: int) -> list[Ints | None]:
    """Several classes of which all pairs count."""
    small = exact_mixed(demand, free, rank) if len(free) <= exact_size else None
    if small is not None:
        return [small]
    starts = choose_starts(rank, rooms(demand.classes[0], free), budget=GROW_BUDGET // (8 * demand.size))
    grown = grow_mixed(demand, free, rank, starts=starts)
    return _improved(demand, free, rank, grown[np.argsort(-values_of(demand, grown, rank), kind="stable")])


def _improved(demand: Demand, free: Ints, rank: Floats, plans: Ints) -> list[Ints | None]:
    """The first few different plans, improved; when there is none, a plain fit is what is improved."""
    kept = [plans[at] for at in different(plans, np.arange(len(plans)), most=KEPT)]
    if not kept:
        plain = fit(demand, free)
        kept = [] if plain is None else [plain]
    return [improve(demand, plan, free, rank, most=MOST_MOVES) for plan in kept]


def _one_class(demand: Demand, free: Ints, room: Ints, rank: Floats, exact_size: int) -> Ints:
    count, placed = demand.classes[0].count, None if demand.placed is None else demand.placed[0]
    if not links(demand)[0, 0]:  # only members that are placed already count: the gains are fixed
        return np.array(fill_by_gain((np.zeros(len(room)) if placed is None else placed)[None], room[None], count)[0])
    if is_uniform(rank, placed):
        return np.array(fill_by_gain(room[None].astype(np.float64), room[None], count)[0])
    if len(room) <= exact_size:
        small = exact_one(rank, room, count, placed=placed)
        if small is not None:
            return small
    starts = choose_starts(rank, room, budget=GROW_BUDGET // count)
    grown, values = grow(rank, room, count, starts=starts, placed=placed)
    best, best_value = np.array(grown[0]), -np.inf
    for at in different(grown, np.argsort(-values, kind="stable"), most=KEPT):
        better, added = improve_one(grown[at], room, rank, placed=placed, most=MOST_MOVES)
        if values[at] + added > best_value:
            best, best_value = better, float(values[at]) + added
    if int(room.max()) > 1 or placed is not None:  # else one of the starts was the paper's reference
        literal = paper(demand, free, rank)
        if literal is not None and value_of(demand, literal, rank) > best_value:
            best = np.array(literal[0])
    return best
