"""Choose nodes for the members of one gang inside one set of candidates, usually a zone (PAPERS N3, K6).

Rule: all or nothing, never beyond what is free, only on allowed nodes, and the same input always gives the same answer.
Rows are in the order of node names, so ties are decided by name.
"""

import numpy as np

from scoring.network import Floats, Ints
from scoring.policy import Selection
from scoring.select.demand import ClassDemand, Demand, Selected, on_grid, placed_gain, selected, value_of
from scoring.select.pack import pack
from scoring.select.paper import paper
from scoring.select.quick import quick_value
from scoring.select.subset import subset

__all__ = ["ClassDemand", "Demand", "Selected", "placed_gain", "quick_value", "select"]


def select(method: Selection, demand: Demand, free: Ints, rank: Floats, *, exact_size: int) -> Selected | None:
    """Nodes for all members by `method`; `None`: they do not fit by it.

    `free` is (n, r) and may be negative; `rank` (n, n) is symmetric with a perfect diagonal (`PairScores.rank`).
    `subset` and `pack` find a place whenever first fit finds one, and for a single class whenever there is one;
    `subset` tries all placements of sets up to `exact_size` nodes when these are few. Inputs are not written.
    Raises ValueError when shapes do not match or a count is negative.
    """
    n = len(free)
    if rank.shape != (n, n) or any(one.allowed.shape != (n,) or one.count < 0 for one in demand.classes):
        raise ValueError("free (n, r), rank (n, n) and allowed (n,) must agree, and counts must not be negative")
    wanted = tuple(c for c, one in enumerate(demand.classes) if one.count)
    if not wanted:
        return Selected(tuple(() for _ in demand.classes), 0.0)
    if not n:
        return None
    asked = Demand(
        tuple(demand.classes[c] for c in wanted),
        demand.all_reduce,
        None if demand.placed is None else on_grid(demand.placed[list(wanted)]),
    )
    match method:
        case Selection.SUBSET:
            counts = subset(asked, free, rank, exact_size=exact_size)
        case Selection.PAPER:
            counts = paper(asked, free, rank)
        case Selection.PACK:
            counts = pack(asked, free, rank)
    if counts is None:
        return None
    full = np.zeros((len(demand.classes), n), np.int64)
    full[list(wanted)] = counts
    return selected(full, value_of(asked, counts, rank))
