"""Choose nodes for the members of one gang inside one set of candidates, usually a zone (PAPERS N3, K6).

Rule: all or nothing, never beyond what is free, only on allowed nodes, and the same input always gives the same answer.
Rows are in the order of node names, so ties are decided by name.
"""

from scoring.model.policy import Selection
from scoring.network.matrix import Floats, Ints
from scoring.selection.demand import Demand, in_places, rooms
from scoring.selection.published import pack, paper
from scoring.selection.subset import subset


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
