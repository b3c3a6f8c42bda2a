"""The default selection: the placement with the highest sum of pair scores that can be found in a millisecond or few.

Why not the paper's own: from one reference node the greedy choice depends on the order of the list and on that node
(PAPERS N3). Steps: 1 leave out nodes without room; 2 no network data: pack; 3 few placements: try all; 4 greedy from
every start; 5 improve the best by moves; 6 compare with `paper`, so as never to be worse.
"""

import numpy as np

from scoring.network.matrix import Floats, Ints
from scoring.selection.demand import Demand, at_rows, rooms, value_of, values_of
from scoring.selection.exact import exact_mixed
from scoring.selection.greedy import choose_starts, different, fill_by_gain, grow_mixed
from scoring.selection.improve import improve
from scoring.selection.pack import pack_idle
from scoring.selection.paper import paper
from scoring.selection.quick import fit
from scoring.selection.star import star

GROW_BUDGET = 1_500_000  # Start × node × round steps of one greedy search: about 3 ms
KEPT = 2  # Different greedy results that are improved
MOST_MOVES = 32
STAR_BUDGET = 20_000  # Centre × node steps of a search around ps


def subset(demand: Demand, free: Ints, rank: Floats, *, exact_size: int) -> Ints | None:
    """Members per class and node (classes, n); `None`: no place, nor by `fit`. Ties by row order."""
    open_rows = np.flatnonzero(np.any([rooms(one, free) for one in demand.classes], axis=0))
    if not len(open_rows):
        return None
    if len(open_rows) == len(free):
        return _search(demand, free, rank, exact_size)
    inner, block = at_rows(demand, open_rows), rank.take(open_rows, axis=0).take(open_rows, axis=1)
    found = _search(inner, free[open_rows], block, exact_size)
    if found is None:
        return None
    counts = np.zeros((len(demand.classes), len(free)), np.int64)
    counts[:, open_rows] = found
    return counts


def _search(demand: Demand, free: Ints, rank: Floats, exact_size: int) -> Ints | None:
    room = [rooms(one, free) for one in demand.classes]
    if any(int(there.sum()) < one.count for there, one in zip(room, demand.classes, strict=True)):
        return None
    if len(room) == 1 and not demand.all_reduce:  # only members that are placed already count: the gains are fixed
        gain = np.zeros((1, len(free))) if demand.placed is None else demand.placed
        return fill_by_gain(gain, room[0][None], demand.size)
    if _is_uniform(rank, demand.placed):
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
    small = exact_mixed(demand, free, rank) if len(free) <= exact_size else None
    if small is not None:
        return [small]
    steps = demand.size if len(demand.classes) == 1 else 8 * demand.size
    starts = choose_starts(rank, rooms(demand.classes[0], free), budget=GROW_BUDGET // steps)
    grown = grow_mixed(demand, free, rank, starts=starts)
    return _improved(demand, free, rank, grown[np.argsort(-values_of(demand, grown, rank), kind="stable")])


def _improved(demand: Demand, free: Ints, rank: Floats, plans: Ints) -> list[Ints | None]:
    """The first few different plans, improved; when there is none, a plain fit is what is improved."""
    kept = [plans[at] for at in different(plans, np.arange(len(plans)), most=KEPT)]
    if not kept:
        plain = fit(demand, free)
        kept = [] if plain is None else [plain]
    return [improve(demand, plan, free, rank, most=MOST_MOVES) for plan in kept]


def _is_uniform(rank: Floats, placed: Floats | None) -> bool:
    """Whether no node is better connected than another: all links equal, and no member placed to be near to."""
    if placed is not None and placed.size and not (placed == placed.flat[0]).all():
        return False
    return bool(((rank == rank[0, -1]) | np.eye(len(rank), dtype=np.bool_)).all())
