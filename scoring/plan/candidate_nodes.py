"""Leave out nodes that cannot be chosen: those without room, and in large sets those that are like others.

Why: pairs grow with the square of the nodes, and of a thousand nodes that are measured nowhere and hold equally many
members only the first few by name can ever be taken. Rule: up to `_FEW` nodes with room all of them stay, so that
the result is that of a search over all; above, where no search tries every start anyway, of nodes that are alike as
many stay as there are members, and `_SPARE` more.
"""

import numpy as np
from numpy.typing import NDArray

from scoring.network.matrix import Floats, Ints
from scoring.score.links import Links
from scoring.selection import Demand, Single
from scoring.selection.demand import rooms

_FEW = 512
_SPARE = 2


def open_nodes(one: Single, links: Links, placed: Floats | None) -> Ints:
    """Indexes of nodes with room for one class, ascending, without those that others stand for. Cost: O(n log n)."""
    rows = one.room.nonzero()[0]
    if len(rows) <= _FEW:
        return rows
    columns = [one.room[rows]]
    if placed is not None:
        columns.append(placed[rows].view(np.int64))  # equal bits: the gain from placed members is equal
    return rows[_kept(links.kind[rows] == links.alike, np.column_stack(columns), one.count + _SPARE)]


def thinned(demand: Demand, free: Ints, links: Links) -> Ints:
    """The same for several classes, of which nodes are alike that have the same room and allow the same."""
    rows = np.flatnonzero(np.any([rooms(one, free) for one in demand.classes], axis=0))
    if len(rows) <= _FEW:
        return rows
    columns = [free[rows], *(one.allowed[rows][:, None].astype(np.int64) for one in demand.classes)]
    if demand.placed is not None:
        columns.append(np.ascontiguousarray(demand.placed[:, rows].T).view(np.int64))
    return rows[_kept(links.kind[rows] == links.alike, np.hstack(columns), demand.size + _SPARE)]


def _kept(alike: NDArray[np.bool_], features: Ints, most: int) -> Ints:
    """Indexes of those that are not `alike`, and of the others the first `most` with the same features.

    >>> _kept(np.array([True, True, False, True]), np.array([[4], [4], [4], [2]]), 1).tolist()
    [0, 2, 3]
    """
    _, group = np.unique(features, axis=0, return_inverse=True)
    group = np.where(alike, group.reshape(-1), -1)
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    place_in_group = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    return np.array(np.sort(order[(ordered < 0) | (place_in_group < most)]))
