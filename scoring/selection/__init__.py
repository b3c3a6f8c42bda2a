"""Choose nodes for the members of one gang inside one set of candidates, usually a zone (PAPERS N3, K6).

Rule: all or nothing, never beyond what is free, only on allowed nodes, and the same input always gives the same answer.
Rows are in the order of node names, so ties are decided by name.
"""

import numpy as np

from scoring.model.policy import Selection
from scoring.network.matrix import Floats, Ints
from scoring.selection.demand import Demand, Selected, in_places, on_grid, rooms, value_of
from scoring.selection.published import pack, paper
from scoring.selection.subset import subset


def select_on_grid(method: Selection, demand: Demand, free: Ints, rank: Floats, *, exact_size: int) -> Selected | None:
    """Nodes for all members by `method`; `None`: they do not fit by it.

    `free` is (n, r) and may be negative; `rank` (n, n) is symmetric with a perfect diagonal (`PairScores.rank`), and is
    `on_grid`. `subset` and `pack` find a place whenever first fit finds one, and for a single class whenever there is
    one; `subset` tries all placements of sets up to `exact_size` nodes when these are few.
    """
    wanted = tuple(c for c, one in enumerate(demand.classes) if one.count)
    if not wanted:
        return Selected(tuple(() for _ in demand.classes), 0.0)
    if not len(free):
        return None
    placed = None if demand.placed is None else on_grid(demand.placed[list(wanted)])
    asked = Demand(tuple(demand.classes[c] for c in wanted), demand.all_reduce, placed)
    if len(wanted) == 1 and method is not Selection.PACK:
        room, count = rooms(asked.classes[0], free), asked.size
        asked, free = in_places(room, count, all_reduce=asked.all_reduce, placed=placed)
    match method:
        case Selection.SUBSET:
            counts = subset(asked, free, rank, exact_size=exact_size)
        case Selection.PAPER:
            counts = paper(asked, free, rank)
        case Selection.PACK:
            counts = pack(asked, free, rank)
    if counts is None:
        return None
    nodes = np.arange(len(free))
    rows = dict(zip(wanted, (tuple(np.repeat(nodes, line).tolist()) for line in counts), strict=True))
    return Selected(tuple(rows.get(c, ()) for c in range(len(demand.classes))), value_of(asked, counts, rank))
