"""A place for each node that stays its own while other nodes come and go.

Why: rows of the node table move when a node comes or goes. What was counted for a thousand classes on a thousand nodes
would have to be counted again, or copied, though one node changed. Rule: a node keeps its slot for as long as it is
there and in its zone; the slot of one that is gone goes to the next node of the same zone, so that a slot never changes
its zone. Zones have columns in the same way.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from scoring.feasibility.room import Counts
from scoring.ids import NodeName, ZoneName
from scoring.network.matrix import Ints

T = TypeVar("T", bound=np.generic)
_SPARE = 64


@dataclass(frozen=True, slots=True)
class Places:
    """The nodes of a run."""

    layout: Hashable
    """Stands for names and zones"""
    axis: tuple[object, ...]
    """The resources that room has columns for"""
    names: tuple[NodeName, ...]
    zones: tuple[ZoneName, ...]
    zone_of: Ints
    """(nodes,): number of each node's zone"""


class Slots:
    """Slots of nodes and columns of zones. Not shared between threads."""

    def __init__(self) -> None:
        self.of_rows: Ints = np.zeros(0, np.int64)
        """(nodes,): each row's slot"""
        self.zone_of: Ints = np.zeros(0, np.int64)
        """(slots,): column of each slot's zone, whether or not a node has the slot"""
        self.columns: Ints = np.zeros(0, np.int64)
        """(zones,): each zone's column"""
        self._slot: dict[NodeName, int] = {}
        self._column: dict[ZoneName, int] = {}
        self._unused: dict[int, list[int]] = {}
        """column → slots of its zone that no node has"""

    @property
    def zones(self) -> int:
        """Columns there are, those of zones that are gone included."""
        return len(self._column)

    def wasteful(self, nodes: int) -> bool:
        """Whether most slots stand for nodes that are gone."""
        return len(self.zone_of) > 2 * nodes + _SPARE or len(self._column) > 2 * nodes + _SPARE

    def adopt(self, places: Places) -> Ints:
        """Stand for these nodes from now on; gives the slots that got, or lost, a node, ascending. Cost: O(nodes)."""
        names = places.names
        for zone in places.zones:
            self._column.setdefault(zone, len(self._column))
        self.columns = np.array([self._column[zone] for zone in places.zones], np.int64)
        wanted = self.columns[places.zone_of]
        before, zone_of = self._slot, self.zone_of
        if not len(zone_of):
            self.zone_of, self.of_rows = wanted, np.arange(len(names))
            self._slot = dict(zip(names, range(len(names)), strict=True))
            return self.of_rows
        of_rows = np.array([before.get(name, -1) for name in names], np.int64)
        stays = of_rows >= 0
        stays[stays] = zone_of[of_rows[stays]] == wanted[stays]
        moved = np.zeros(len(zone_of), np.bool_)
        moved[list(before.values())] = True
        moved[of_rows[stays]] = False
        for slot in np.flatnonzero(moved).tolist():
            self._unused.setdefault(int(zone_of[slot]), []).append(slot)
        more: list[int] = []
        for row in np.flatnonzero(~stays).tolist():
            column = int(wanted[row])
            unused = self._unused.get(column)
            if unused:
                of_rows[row] = unused.pop()
            else:
                of_rows[row] = len(zone_of) + len(more)
                more.append(column)
        self.zone_of = np.concatenate((zone_of, np.array(more, np.int64)))
        self.of_rows = of_rows
        self._slot = dict(zip(names, of_rows.tolist(), strict=True))
        moved = grown(moved, (len(self.zone_of),))
        moved[of_rows[~stays]] = True
        return np.flatnonzero(moved)

    def add_by_zone(self, sums: Ints, slots: Ints, more: Counts) -> None:
        """Add (rows, slots) to `sums` (rows, columns of zones), each slot where its zone is."""
        zones = self.zone_of[slots]
        order = np.argsort(zones, kind="stable")
        present, begins = np.unique(zones[order], return_index=True)
        if len(present):
            sums[:, present] += np.add.reduceat(more[:, order], begins, axis=1, dtype=np.int64)


def grown(array: NDArray[T], shape: tuple[int, ...]) -> NDArray[T]:
    """The same with more rows or columns, which hold 0.

    >>> grown(np.array([[1, 2]]), (2, 3)).tolist()
    [[1, 2, 0], [0, 0, 0]]
    """
    if array.shape == shape:
        return array
    made = np.zeros(shape, array.dtype)
    made[tuple([slice(length) for length in array.shape])] = array
    return made
