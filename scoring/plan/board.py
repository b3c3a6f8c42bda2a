"""How many members of each class fit each node and each zone, for all classes at once, kept from run to run.

Why: a queue of a thousand gangs may ask for a thousand different things. Counting the nodes for each of them anew costs
each run a fifth of a second, though an event changed one node. Rule: the counts are those of the room that was shown
last (`show`) under the filters that were told last; what changed is counted again for a block of classes together when
one of them is asked about. A node that comes or goes changes its own slot only (`scoring.plan.slots`). Every number
follows from room, filters and requests alone, so a run with a board and one without say the same.
"""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from scoring.feasibility.room import MOST_ON_A_NODE, Counts, Room
from scoring.network.matrix import Ints
from scoring.plan.filters import Filters
from scoring.plan.recent import Recent
from scoring.plan.slots import Places, Slots, grown

_BLOCK = 128
"""Classes that are counted together."""
_MOST_CELLS = 6_000_000
"""Classes times nodes that are kept: 4 bytes each. Whoever comes beyond is counted in the run that asks."""
_FORGOTTEN_AFTER = 64
"""A class that so many runs did not ask about may leave."""
_SPARE = 16
"""One slot more for so many nodes, so that few nodes that come are not room for all to be moved."""
_MANY = 64
"""Where more slots changed, counting a block of classes anew is a step of its own."""
_MOST_SUPPOSED = 8
"""Suppositions whose sums are kept."""


class Board:
    """Counts and sums of classes. Not shared between threads."""

    def __init__(self) -> None:
        self._runs = 0
        self.epoch = 0
        """As long as it stays, a class keeps its row"""
        self._forget(())

    def _forget(self, axis: tuple[object, ...]) -> None:
        """Begin anew."""
        self.epoch += 1
        self._axis = axis
        self._layout: Hashable = None
        self._slots = Slots()
        self._filters = Filters()
        self._free: Ints = np.zeros((0, len(axis)), np.int64)
        """(slots, resources)"""
        self._shown: tuple[Room | None, object] = (None, None)
        self._version = 0
        self._changed_at: Ints = np.zeros(0, np.int64)
        """(slots,): version at which the slot's room, or a filter's word on it, changed last"""
        self._row: dict[int, int] = {}
        """class number → row in the following"""
        self._number_of: list[int] = []
        """row → number of its class"""
        self._leavers: list[int] = []
        """Rows of classes that nobody asks about any more"""
        self._used: Ints = np.zeros(0, np.int64)
        """(rows,): run that asked last"""
        self._filter_of: Ints = np.zeros(0, np.int64)
        """(rows,): which filter decides about nodes"""
        self._requests: Ints = np.zeros((0, len(axis)), np.int64)
        """(rows, resources)"""
        self._sums: Ints = np.zeros((0, 0), np.int64)
        """(rows, columns of zones)"""
        self._counts: list[Counts] = []
        """Per block: (rows, slots), members that fit; 0 where the filter forbids"""
        self._counted: list[int] = []
        """block → version that its counts belong to"""
        self._recent: dict[int, Recent] = {}
        """block → counts for room that may come back; from the first time on that nodes had none at all"""
        self._fresh: dict[int, list[int]] = {}
        """block → rows whose class was never counted"""
        self._supposed: dict[Hashable, tuple[Ints, dict[int, int]]] = {}
        """supposition → sums (rows, columns of zones), and of each block how many of its rows they are right for"""

    @property
    def version(self) -> int:
        """Changes whenever a count may have."""
        return self._version

    @property
    def classes(self) -> int:
        """Rows there are."""
        return len(self._number_of)

    def show(self, room: Room, places: Places) -> None:
        """Count for this room from now on. Cost: O(nodes) if it changed since, else nothing. Runs may take turns."""
        moment = room.moment
        if self._shown[0] is room and self._shown[1] == moment:
            return
        if self._shown[0] is not room:
            self._runs += 1
        nodes = len(places.names)
        if self._axis != places.axis or self._slots.wasteful(nodes):
            self._forget(places.axis)
        self._shown = (room, moment)
        self._next_version()
        if places.layout != self._layout:
            self._layout = places.layout
            moved = self._slots.adopt(places)
            self._widen()
            self._changed_at[moved] = self._version
        fresh = np.zeros_like(self._free)
        fresh[self._slots.of_rows] = room.free
        self._changed_at[(self._free != fresh).any(axis=1)] = self._version
        self._free = fresh

    def row(self, number: int, request: Ints, key: Hashable, mask: NDArray[np.bool_]) -> int | None:
        """What stands for the class in the following, until another room is shown; `None`: there is no place for it.

        `key` stands for the filter that says `mask` (nodes,) of the nodes: many classes share theirs.
        """
        filtered = self.put(key, mask)
        row = self._row.get(number)
        if row is None:
            return self._add(number, request, filtered)
        self._used[row] = self._runs
        if self._filter_of[row] != filtered:
            before, self._filter_of[row] = int(self._filter_of[row]), filtered
            self._touch(self._filters.differing(before, filtered))
        return row

    def row_of(self, number: int) -> int | None:
        """The row of a class that is here."""
        return self._row.get(number)

    def put(self, key: Hashable, mask: NDArray[np.bool_]) -> int:
        """The number of the filter that `key` stands for, which says `mask` of the nodes now."""
        filtered, differs = self._filters.put(key, mask, self._slots.of_rows)
        if len(differs):
            self._touch(differs)
        return filtered

    def rows(self, numbers: Sequence[int], filters: Sequence[int]) -> list[int | None]:
        """`row` of many classes whose filters were `put`; `None`: the class is not here, or had another filter."""
        known = [self._row.get(number) for number in numbers]
        at = np.array([-1 if row is None else row for row in known], np.int64)
        here = np.flatnonzero(at >= 0)
        differs = here[self._filter_of[at[here]] != np.array(filters, np.int64)[here]]
        for place in differs.tolist():
            known[place] = None
        self._used[at[here]] = self._runs
        return known

    def use(self, rows: Ints, filters: Ints) -> NDArray[np.bool_]:
        """Ask about classes by rows that `row` gave in this epoch; tells which of them still have these filters."""
        self._used[rows] = self._runs
        return np.asarray(self._filter_of[rows] == filters)

    def sums(self, rows: Ints) -> Ints:
        """Members of these classes that fit each zone, (classes, zones), not to be written.

        Cost: next to nothing while the room stays; O(changed nodes · classes of their blocks) after a change.
        """
        for block in set((rows // _BLOCK).tolist()):
            self._renew(block)
        return np.asarray(self._sums[rows][:, self._slots.columns])

    def behind(self, rows: Ints) -> list[int]:
        """Blocks of these rows for which much has to be counted before there are `sums`."""
        blocks = [block for block in np.unique(rows // _BLOCK).tolist() if block < len(self._counted)]
        return [block for block in blocks if np.count_nonzero(self._changed_at > self._counted[block]) > _MANY]

    def catch_up(self, block: int) -> None:
        """Count for one block what `sums` would have to count. Cost: O(changed nodes · classes of the block)."""
        if block < len(self._counted):  # else it was forgotten since
            self._renew(block)

    def sums_if(self, rows: Ints, nodes: Ints, free: Ints, key: Hashable) -> Ints:
        """The same, supposed that `nodes` (rows of the table) had the room `free`.

        `key` stands for both as long as the room shown stays.
        """
        known = self._supposed.get(key)
        if known is None or len(known[0]) < len(self._sums):
            if len(self._supposed) >= _MOST_SUPPOSED:
                self._supposed.clear()
            known = self._supposed[key] = (np.zeros_like(self._sums), {})
        sums, done = known
        slots = self._slots.of_rows[nodes]
        for block in set((rows // _BLOCK).tolist()):
            begin, end = block * _BLOCK, min((block + 1) * _BLOCK, len(self._number_of))
            if done.get(block, 0) == end - begin:
                continue
            self._renew(block)
            counts = self._block(block, slots, free)
            sums[begin:end] = self._sums[begin:end]
            known_counts = self._counts[block][: end - begin, slots]
            self._slots.add_by_zone(sums[begin:end], slots, counts - known_counts)
            done[block] = end - begin
        return np.asarray(sums[rows][:, self._slots.columns])

    # -- inside -------------------------------------------------------------------------------------------------------

    def _next_version(self) -> None:
        self._version += 1
        self._supposed.clear()

    def _touch(self, slots: Ints) -> None:
        """A filter says otherwise of these slots than it did."""
        self._next_version()
        self._changed_at[slots] = self._version
        for recent in self._recent.values():
            recent.forget(slots)

    def _widen(self) -> None:
        """Make place for more slots and zones."""
        slots, zones = len(self._slots.zone_of), self._slots.zones
        if slots > len(self._free):
            wide = slots + slots // _SPARE
            self._free = grown(self._free, (wide, self._free.shape[1]))
            self._changed_at = grown(self._changed_at, (wide,))
            self._counts = [grown(counts, (_BLOCK, wide)) for counts in self._counts]
            self._filters.widen(wide)
            self._recent.clear()
        self._sums = grown(self._sums, (len(self._sums), zones))

    def _renew(self, block: int) -> None:
        """Count what changed since the block was counted, and classes that were added since."""
        begin, end = block * _BLOCK, min((block + 1) * _BLOCK, len(self._number_of))
        if self._counted[block] != self._version:
            slots = np.flatnonzero(self._changed_at > self._counted[block])
            self._counted[block] = self._version
            if len(slots):
                counts, known = self._block(block, slots, self._free[slots]), self._counts[block]
                self._slots.add_by_zone(self._sums[begin:end], slots, counts - known[: end - begin, slots])
                known[: end - begin, slots] = counts
        fresh = self._fresh.pop(block, None)
        if fresh is not None:
            rows, slots = np.array(fresh, np.int64), np.arange(len(self._slots.zone_of))
            counts = self._fits(rows, slots, self._free[slots])
            self._counts[block][rows - begin, : len(slots)] = counts
            sums = np.zeros_like(self._sums[rows])
            self._slots.add_by_zone(sums, slots, counts)
            self._sums[rows] = sums

    def _block(self, block: int, slots: Ints, free: Ints) -> Counts:
        """Members of the block's classes that fit `slots` with the room `free`; (classes, slots)."""
        begin, end = block * _BLOCK, min((block + 1) * _BLOCK, len(self._number_of))
        recent = self._recent.get(block)
        if recent is None:
            if (free > 0).any(axis=1).all():
                return self._fits(slice(begin, end), slots, free)
            recent = self._recent[block] = Recent(_BLOCK, len(self._free), free.shape[1])
        return recent.counts(
            slots, free, classes=end - begin, count=lambda at, room: self._fits(slice(begin, end), at, room)
        )

    def _fits(self, rows: slice | Ints, slots: Ints, free: Ints) -> Counts:
        """Members of the classes of some rows that fit `slots` with the room `free`; (rows, slots)."""
        requests = self._requests[rows]
        least = np.full((len(requests), len(slots)), MOST_ON_A_NODE, np.int64)
        for column in range(requests.shape[1]):
            asked = requests[:, column]
            if asked.any():
                fits = free[:, column] // np.maximum(asked, 1)[:, None]
                np.minimum(least, fits, where=(asked > 0)[:, None], out=least)
        allowed = self._filters.of(self._filter_of[rows], slots)
        return np.where(allowed, np.maximum(least, 0), 0).astype(np.int32)

    def _add(self, number: int, request: Ints, filtered: int) -> int | None:
        """A class that was not here; one that asks for nothing fits without limit, and is left to others."""
        if not (request > 0).any():
            return None
        row = self._place(filtered)
        if row is None:
            return None
        if row == len(self._number_of):
            self._number_of.append(number)
        else:
            self._number_of[row] = number
            for _, done in self._supposed.values():
                done.pop(row // _BLOCK, None)
        self._row[number] = row
        self._used[row], self._filter_of[row], self._requests[row] = self._runs, filtered, request
        self._fresh.setdefault(row // _BLOCK, []).append(row)
        if row // _BLOCK in self._recent:
            self._recent[row // _BLOCK].forget()
        return row

    def _place(self, filtered: int) -> int | None:
        """A row for one more class: of one that nobody asks about, else a new one; `None`: there is none.

        `filtered`: its filter. Filters of nobody else's leave with those who leave.
        """
        if self._leavers:
            return self._leavers.pop()
        known = len(self._number_of)
        if known < len(self._used):
            return known
        oldest = self._runs - _FORGOTTEN_AFTER
        self._leavers = np.flatnonzero(self._used < oldest).tolist()
        self.epoch += bool(self._leavers)
        for row in self._leavers:
            del self._row[self._number_of[row]]
        self._filters.keep_only({filtered, *self._filter_of[list(self._row.values())].tolist()})
        if self._leavers:
            return self._leavers.pop()
        slots = len(self._free)
        if (len(self._counts) + 1) * _BLOCK * max(slots, 1) > _MOST_CELLS:
            return None
        self._counts.append(np.zeros((_BLOCK, slots), np.int32))
        self._counted.append(self._version)
        rows = len(self._used) + _BLOCK
        self._used, self._filter_of = grown(self._used, (rows,)), grown(self._filter_of, (rows,))
        self._requests = grown(self._requests, (rows, self._requests.shape[1]))
        self._sums = grown(self._sums, (rows, self._sums.shape[1]))
        return known
