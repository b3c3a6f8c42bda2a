"""Choose nodes for the members of one gang inside one set of candidates, usually a zone (PAPERS N3, K6).

Rule: all or nothing, never beyond what is free, only on allowed nodes, and the same input always gives the same answer.
Rows are in the order of node names, so ties are decided by name.
"""

import numpy as np

from scoring.model.policy import Selection
from scoring.network.matrix import Floats, Ints
from scoring.selection.demand import ClassDemand, Demand, Selected, Single, on_grid, placed_gain, selected, value_of
from scoring.selection.pack import pack
from scoring.selection.paper import paper
from scoring.selection.quick import quick_single, quick_value
from scoring.selection.subset import subset

__all__ = [
    "ClassDemand", "Demand", "Selected", "Single", "on_grid", "placed_gain", "quick_single", "quick_value",
    "select_on_grid", "select_single",
]  # fmt: skip


def select_on_grid(method: Selection, demand: Demand, free: Ints, rank: Floats, *, exact_size: int) -> Selected | None:
    """Nodes for all members by `method`; `None`: they do not fit by it.

    `free` is (n, r) and may be negative; `rank` (n, n) is symmetric with a perfect diagonal (`PairScores.rank`), and is
    `on_grid`. `subset` and `pack` find a place whenever first fit finds one, and for a single class whenever there is
    one; `subset` tries all placements of sets up to `exact_size` nodes when these are few. Inputs are not written.
    """
    wanted = tuple(c for c, one in enumerate(demand.classes) if one.count)
    if not wanted:
        return Selected(tuple(() for _ in demand.classes), 0.0)
    if not len(free):
        return None
    asked = Demand(
        tuple(demand.classes[c] for c in wanted),
        demand.all_reduce,
        None if demand.placed is None else on_grid(demand.placed[list(wanted)]),
    )
    if len(wanted) == 1 and method is not Selection.PACK:
        single = select_single(method, Single.of(asked, free), rank, exact_size=exact_size)
        if single is None or len(demand.classes) == 1:
            return single
        return Selected(tuple(single.rows[0] if one.count else () for one in demand.classes), single.value)
    match method:
        case Selection.SUBSET:
            counts = subset(asked, free, rank, exact_size=exact_size)
        case Selection.PAPER:
            counts = paper(asked, free, rank)
        case Selection.PACK:
            counts = pack(asked, free, rank)
    if counts is None:
        return None
    full = np.zeros((len(demand.classes), len(free)), np.int64)
    full[list(wanted)] = counts
    return selected(full, value_of(asked, counts, rank))


def select_single(method: Selection, wanted: Single, rank: Floats, *, exact_size: int) -> Selected | None:
    """`select_on_grid` for one class by `subset` or `paper`; `rank` is on the grid. `None`: there is no room."""
    demand, free = wanted.as_demand()
    if method is Selection.PAPER:
        counts = paper(demand, free, rank)
    else:
        counts = subset(demand, free, rank, exact_size=exact_size)
    return None if counts is None else selected(counts, value_of(demand, counts, rank))
