"""How many members of each class fit each node and each zone, for all classes at once, kept from run to run.

Why: a queue of a thousand gangs may ask for a thousand different things. Counting the nodes for each of them anew costs
each run a fifth of a second, though an event changed one node. Rule: the counts are those of the room that was shown
last (`show`); rows that changed are counted again for a block of classes together when one of them is asked about.
Every number follows from room, masks and requests alone, so a run with a board and one without say the same.
"""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring.network import Ints
from scoring.room import Room, fit_counts

_LARGEST = np.iinfo(np.int64).max
_BLOCK = 64
"""Classes that are counted together."""
_MOST_CELLS = 6_000_000
"""Classes times nodes that are kept: 8 bytes each. Whoever comes beyond is counted in the run that asks."""
_FORGOTTEN_AFTER = 64
"""A class that so many runs did not ask about may leave."""
_MOST_SUPPOSED = 8
"""Suppositions whose sums are kept."""


@dataclass(frozen=True, slots=True)
class Places:
    """The nodes of a run."""

    layout: Hashable
    """Stands for names and zones"""
    axis: tuple[object, ...]
    """The resources that room has columns for"""
    zone_of: Ints
    """(nodes,): number of each node's zone"""
    zones: int
    """How many there are"""


class Board:
    """Counts and sums of classes, by the number that stands for each. Not shared between threads."""

    def __init__(self) -> None:
        self._runs = 0
        self._forget(Places(None, (), np.zeros(0, np.int64), 0))

    def _forget(self, places: Places) -> None:
        """Begin anew on other nodes."""
        self._places = (places.layout, places.axis)
        self._zone_of, self._zones = places.zone_of, places.zones
        self._free: Ints = np.zeros((0, 0), np.int64)
        self._shown: tuple[Room | None, object] = (None, None)
        self._version = 0
        self._changed_at: Ints = np.zeros(0, np.int64)
        """(nodes,): version at which the node's room changed last"""
        self._row: dict[int, int] = {}
        """class number → row in the following"""
        self._mask_of: list[NDArray[np.bool_]] = []
        self._requests: list[Ints] = []
        """Per block: (classes, resources); these arrays have `_BLOCK` rows, of which the first are in use"""
        self._masks: list[NDArray[np.bool_]] = []
        """Per block: (classes, nodes)"""
        self._counts: list[Ints] = []
        """Per block: (classes, nodes), members that fit; 0 where the mask forbids"""
        self._sums: list[Ints] = []
        """Per block: (classes, zones)"""
        self._counted: list[int] = []
        """block → version that its counts belong to"""
        self._used: list[int] = []
        """row → run that asked last"""
        self._number_of: list[int] = []
        """row → number of its class"""
        self._leavers: list[int] = []
        """Rows of classes that nobody asks about any more"""
        nothing = np.zeros(0, np.bool_)
        self._masks_compared: tuple[NDArray[np.bool_], NDArray[np.bool_], Ints] = (
            nothing,
            nothing,
            np.zeros(0, np.int64),
        )
        """The mask that a class had, the one it has instead, and the nodes in which they differ"""
        self._supposed: dict[Hashable, dict[int, Ints]] = {}
        """supposition → block → sums (classes, zones)"""

    def show(self, room: Room, places: Places) -> None:
        """Count for this room from now on. Cost: O(nodes) if it changed since, else nothing.

        What belongs to other nodes is forgotten; runs may take turns.
        """
        moment = room.moment
        if self._shown[0] is room and self._shown[1] == moment:
            return
        if self._shown[0] is not room:
            self._runs += 1
        if self._places != (places.layout, places.axis):
            self._forget(places)
        self._shown = (room, moment)
        self._supposed.clear()
        self._version += 1
        if self._free.shape != room.free.shape:
            self._free = room.free.copy()
            self._changed_at = np.full(len(self._free), self._version, np.int64)
            return
        rows = np.flatnonzero((self._free != room.free).any(axis=1))
        self._free[rows] = room.free[rows]
        self._changed_at[rows] = self._version

    def sums(self, number: int, request: Ints, mask: NDArray[np.bool_]) -> Ints | None:
        """Members of the class that fit each zone, (zones,), not to be written; `None`: there is no place for it here.

        Cost: next to nothing while the room stays; O(changed nodes · classes of the block) after a change.
        """
        row = self._up_to_date(number, request, mask)
        return None if row is None else np.asarray(self._sums[row // _BLOCK][row % _BLOCK])

    def sums_if(
        self, number: int, request: Ints, mask: NDArray[np.bool_], rows: Ints, free: Ints, key: Hashable
    ) -> Ints | None:
        """The same, supposed that `rows` had the room `free`; `key` stands for both as long as the room shown stays."""
        row = self._up_to_date(number, request, mask)
        if row is None:
            return None
        known = self._supposed.get(key)
        if known is None:
            if len(self._supposed) >= _MOST_SUPPOSED:
                self._supposed.clear()
            known = self._supposed[key] = {}
        block = row // _BLOCK
        found, place = known.get(block), row % _BLOCK
        if found is None or place >= len(found):
            some = slice(len(found) if found is not None else 0, self._size(block))  # classes may have been added since
            more = self._sums[block][some].copy()
            counts = self._fits(block, some, rows, free)
            self._add_by_zone(more, rows, counts - self._counts[block][some][:, rows])
            found = known[block] = more if found is None else np.concatenate((found, more))
        return np.asarray(found[place])

    # -- inside -------------------------------------------------------------------------------------------------------

    def _up_to_date(self, number: int, request: Ints, mask: NDArray[np.bool_]) -> int | None:
        row = self._row.get(number)
        if row is None:
            return self._add(number, request, mask)
        self._used[row] = self._runs
        block = row // _BLOCK
        if self._counted[block] < self._version:
            self._renew(block)
        if self._mask_of[row] is not mask:
            self._change_mask(row, mask)
        return row

    def _size(self, block: int) -> int:
        """How many classes are in it."""
        return min(len(self._used) - block * _BLOCK, _BLOCK)

    def _renew(self, block: int) -> None:
        """Count what changed since the block was counted."""
        rows = np.flatnonzero(self._changed_at > self._counted[block])
        self._counted[block] = self._version
        if len(rows):
            self._recount(block, rows)

    def _recount(self, block: int, rows: Ints) -> None:
        some = slice(0, self._size(block))
        counts = self._fits(block, some, rows, self._free[rows])
        self._add_by_zone(self._sums[block][some], rows, counts - self._counts[block][some][:, rows])
        self._counts[block][some, rows] = counts

    def _fits(self, block: int, some: slice, rows: Ints, free: Ints) -> Ints:
        """Members of some classes of a block that fit `rows` with the room `free`; (classes, rows)."""
        requests = self._requests[block][some]
        least = np.full((len(requests), len(rows)), _LARGEST)
        for column in range(requests.shape[1]):
            asked = requests[:, column]
            if asked.any():
                fits = free[:, column] // np.maximum(asked, 1)[:, None]
                np.minimum(least, fits, where=(asked > 0)[:, None], out=least)
        return np.where(self._masks[block][some][:, rows], np.maximum(least, 0), 0)

    def _add_by_zone(self, sums: Ints, rows: Ints, more: Ints) -> None:
        """Add (classes, rows) to `sums` (classes, zones), each row where its node is."""
        zones = self._zone_of[rows]
        order = np.argsort(zones, kind="stable")
        present, begins = np.unique(zones[order], return_index=True)
        if len(present):
            sums[:, present] += np.add.reduceat(more[:, order], begins, axis=1)

    def _change_mask(self, row: int, mask: NDArray[np.bool_]) -> None:
        """Nodes refused the class, or take it again; most classes share their masks, and change them together."""
        before, block = self._mask_of[row], row // _BLOCK
        if self._masks_compared[0] is before and self._masks_compared[1] is mask:
            rows = [one for one in range(self._size(block)) if self._mask_of[block * _BLOCK + one] is before]
        else:
            self._masks_compared = (before, mask, np.flatnonzero(before != mask))
            rows = [row % _BLOCK]
        for one in rows:
            self._mask_of[block * _BLOCK + one] = mask
        nodes = self._masks_compared[2]
        if not len(nodes):
            return
        self._masks[block][np.array(rows)[:, None], nodes] = mask[nodes]
        for known in self._supposed.values():
            known.pop(block, None)
        self._recount(block, nodes)

    def _add(self, number: int, request: Ints, mask: NDArray[np.bool_]) -> int | None:
        """A class that was not here; one that asks for nothing fits without limit, and is left to others."""
        if not (request > 0).any():
            return None
        row = self._place()
        if row is None:
            return None
        block, place = divmod(row, _BLOCK)
        self._renew(block)
        if row == len(self._used):
            self._used.append(self._runs)
            self._mask_of.append(mask)
            self._number_of.append(number)
        else:
            self._used[row], self._mask_of[row], self._number_of[row] = self._runs, mask, number
            for known in self._supposed.values():
                known.pop(block, None)
        self._row[number] = row
        self._requests[block][place], self._masks[block][place] = request, mask
        counts = np.where(mask, fit_counts(self._free, request), 0)
        self._counts[block][place] = counts
        self._sums[block][place] = np.bincount(self._zone_of, weights=counts, minlength=self._zones)
        return row

    def _place(self) -> int | None:
        """A row for one more class: of one that nobody asks about, else a new one; `None`: there is none."""
        if self._leavers:
            return self._leavers.pop()
        if len(self._used) < _BLOCK * len(self._requests):
            return len(self._used)
        oldest = self._runs - _FORGOTTEN_AFTER
        self._leavers = [row for row, run in enumerate(self._used) if run < oldest]
        for row in self._leavers:
            del self._row[self._number_of[row]]
        if self._leavers:
            return self._leavers.pop()
        if (len(self._requests) + 1) * _BLOCK * max(len(self._free), 1) > _MOST_CELLS:
            return None
        nodes, resources = self._free.shape
        self._requests.append(np.zeros((_BLOCK, resources), np.int64))
        self._masks.append(np.zeros((_BLOCK, nodes), np.bool_))
        self._counts.append(np.zeros((_BLOCK, nodes), np.int64))
        self._sums.append(np.zeros((_BLOCK, self._zones), np.int64))
        self._counted.append(self._version)
        return len(self._used)
