"""How many members of each class fit each node and each zone, kept from run to run.

Why: a queue of a thousand gangs may ask for a thousand different things. Counting every class on every node takes a
run 0.1 s, though an event changed one node; kept, it takes 1 ms (docs/adr/0006-planner-caches.md). Rule: counts follow
from room, filters and requests alone. `show` says which room and which filters they are to be of; what differs is
counted again, node by node, and where that is more than a step each class when it is asked for next.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from scoring.feasibility.room import MOST_ON_A_NODE, Counts, rows_with
from scoring.ids import NodeName, ZoneName
from scoring.model import Constraints, MemberClass
from scoring.network.matrix import Ints

Mask: TypeAlias = NDArray[np.bool_]
MOST_CELLS = 8_000_000  # Classes times nodes that are kept, 4 bytes each: 1,200 classes on 5,000 nodes
MOST_CLASSES = 8_192
_FORGOTTEN_AFTER = 64  # A class that so many runs did not ask about leaves when there is no place for others
_CELLS_A_STEP = 64_000  # Classes times nodes that are counted in one step: 4 ms


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes that counts are about."""

    names: tuple[NodeName, ...]
    zone_of: Ints  # (nodes,): number of each node's zone
    zones: tuple[ZoneName, ...]
    axis: tuple[object, ...]  # The resources that room has columns for


class FitCounts:
    """Counts of classes by rows, nodes by columns that they keep, and sums by zones. Not for several threads."""

    def __init__(self) -> None:
        self._reset(Nodes((), np.zeros(0, np.int64), (), ()))

    def _reset(self, nodes: Nodes) -> None:
        """Forget everything; there is to be place for these nodes, and a third more."""
        axis, columns = len(nodes.axis), len(nodes.names) + len(nodes.names) // 3
        rows = min(MOST_CELLS // max(columns, 1), MOST_CLASSES)
        self._nodes = replace(nodes, names=())
        self._shown: object = None
        self._shows = 0
        self._column: dict[NodeName, int] = {}
        self._unused = list(range(columns))[::-1]  # Columns that no node has
        self._at: Ints = np.zeros(0, np.int64)  # (nodes,): the column of each
        self._sorted: Ints = self._at  # The same zone by zone
        self._zones: tuple[Ints, Ints] = self._at, self._at  # Zones that have nodes, and where each begins there
        self._zone_of: Ints = np.zeros(columns, np.int64)
        self._free: Ints = np.zeros((columns, axis), np.int64)  # (columns, resources) that the counts are of
        self._filters: dict[Constraints, tuple[int, MemberClass]] = {}  # → its filter's number, a class with it
        self._masks: list[Mask] = []  # number of a filter → (columns,): nodes that it lets through
        self.row_of: dict[MemberClass, int] = {}
        self._used: Ints = np.zeros(rows, np.int64)  # (rows,): when the class was asked about last
        self._requests: Ints = np.zeros((rows, axis), np.int64)
        self._filter_of: Ints = np.zeros(rows, np.int64)
        self._counted: Mask = np.zeros(rows, np.bool_)  # (rows,): whether counts and sums are those of the room shown
        self._counts: Counts = np.zeros((rows, columns), np.int32)  # memory is used as rows are
        self._sums: Ints = np.zeros((rows, len(nodes.zones)), np.int64)

    def show(self, shown: object, nodes: Nodes, free: Ints, mask: Callable[[MemberClass], Mask]) -> None:
        """Count for this room, named `shown`, from now on. Cost: O(nodes), and O(classes) for each changed node."""
        if shown is self._shown:
            return
        if nodes.axis != self._nodes.axis or nodes.zones != self._nodes.zones or len(nodes.names) > len(self._free):
            self._reset(nodes)
        if nodes.names != self._nodes.names or not np.array_equal(nodes.zone_of, self._nodes.zone_of):
            self._adopt(nodes)
        self._shown, self._shows = shown, self._shows + 1
        room = np.zeros_like(self._free)
        room[self._at] = free
        changed: Mask = np.zeros(len(room), np.bool_)
        changed[rows_with(room != self._free)] = True
        self._free = room
        for number, member_class in self._filters.values():
            passes = self._by_column(mask(member_class))
            changed |= passes != self._masks[number]
            self._masks[number] = passes
        columns = np.flatnonzero(changed)
        rows = np.flatnonzero(self._counted[: len(self.row_of)])
        if len(rows) * len(columns) > _CELLS_A_STEP:
            self._counted[:] = False
        elif len(columns):
            self._count(rows, columns)

    def add(self, classes: Sequence[tuple[MemberClass, Ints, Mask]]) -> None:
        """Give classes (class, request, nodes allowed) rows, as far as there is place."""
        if len(self.row_of) + len(classes) > len(self._used):
            self._forget_unused()
        for member_class, request, mask in classes[: len(self._used) - len(self.row_of)]:
            known = self._filters.get(member_class.constraints)
            if known is None:
                known = self._filters[member_class.constraints] = len(self._masks), member_class
                self._masks.append(self._by_column(mask))
            row = self.row_of[member_class] = len(self.row_of)
            self._requests[row], self._filter_of[row], self._counted[row] = request, known[0], False
            self._used[row] = self._shows

    def use(self, rows: Ints) -> None:
        """These classes are asked about."""
        self._used[rows] = self._shows

    def uncounted(self, rows: Ints) -> list[Ints]:
        """Those of `rows` for which much has to be counted before there are `sums`, in portions of one step each."""
        missing, together = np.unique(rows[~self._counted[rows]]), max(_CELLS_A_STEP // max(len(self._free), 1), 1)
        return np.split(missing, range(together, len(missing), together)) if len(missing) else []

    def count(self, rows: Ints) -> None:
        """Count these classes on all nodes."""
        rows = rows[rows < len(self.row_of)]  # the others were forgotten since
        counts = self._fits(rows, self._sorted, self._free[self._sorted])
        self._counts[rows] = 0  # also of nodes that are gone, where a class that was forgotten had some
        self._counts[np.ix_(rows, self._sorted)], self._sums[rows] = counts, self._sums_of(counts, *self._zones)
        self._counted[rows] = True

    def sums(self, rows: Ints) -> Ints:
        """Members of these classes that fit each zone, (classes, zones)."""
        for some in self.uncounted(rows):
            self.count(some)
        return self._sums[rows]

    def counts(self, rows: Ints, nodes: Ints) -> Counts:
        """Members of these classes, whose `sums` were asked for, that fit `nodes`."""
        return self._counts[np.ix_(rows, self._at[nodes])]

    def counts_if(self, rows: Ints, nodes: Ints, free: Ints) -> Counts:
        """Members of these classes, whose `sums` were asked for, that would fit `nodes` with the room `free` there."""
        columns = self._at[nodes]
        found: Counts = np.zeros((len(rows), len(nodes)), np.int32)
        some = (free > 0).any(axis=1)  # without any room no member fits
        same = some & (free == self._free[columns]).all(axis=1)
        found[:, same] = self._counts[np.ix_(rows, columns[same])]
        other = some & ~same
        if other.any():
            found[:, other] = self._fits(rows, columns[other], free[other])
        return found

    def by_zone(self, counts: Counts, nodes: Ints) -> Ints:
        """Sums (rows, zones) of counts (rows, nodes)."""
        return self._by_zone(counts, self._nodes.zone_of[nodes])

    def _by_zone(self, counts: Counts, zones: Ints) -> Ints:
        order = np.argsort(zones, kind="stable")
        return self._sums_of(counts[:, order], *np.unique(zones[order], return_index=True))

    def _sums_of(self, counts: Counts, zones: Ints, begins: Ints) -> Ints:
        """Sums (rows, all zones) of counts that are in the order of these zones; `begins`: where each one begins."""
        sums = np.zeros((len(counts), self._sums.shape[1]), np.int64)
        if len(zones):
            sums[:, zones] = np.add.reduceat(counts, begins, axis=1, dtype=np.int64)
        return sums

    def _by_column(self, mask: Mask) -> Mask:
        made = np.zeros(len(self._free), np.bool_)
        made[self._at] = mask
        return made

    def _adopt(self, nodes: Nodes) -> None:
        """Give new nodes columns, and take those of nodes that are gone; their counts become 0."""
        zone_of, before = dict(zip(nodes.names, nodes.zone_of.tolist(), strict=True)), self._zone_of.tolist()
        gone = [name for name, column in self._column.items() if zone_of.get(name) != before[column]]
        columns = np.array([self._column.pop(name) for name in gone], np.int64)
        rows = np.arange(len(self.row_of))
        self._sums[rows] -= self._by_zone(self._counts[np.ix_(rows, columns)], self._zone_of[columns])
        self._counts[np.ix_(rows, columns)] = 0
        self._free[columns] = 0
        for mask in self._masks:
            mask[columns] = False
        self._unused += columns.tolist()
        for name in nodes.names:
            if name not in self._column:
                column = self._column[name] = self._unused.pop()
                self._zone_of[column] = zone_of[name]
        self._at = np.array([self._column[name] for name in nodes.names], np.int64)
        order = np.argsort(nodes.zone_of, kind="stable")
        self._sorted, self._zones = self._at[order], np.unique(nodes.zone_of[order], return_index=True)
        self._nodes = nodes

    def _forget_unused(self) -> None:
        kept = [one for one, row in self.row_of.items() if self._used[row] > self._shows - _FORGOTTEN_AFTER]
        rows = np.array([self.row_of[one] for one in kept], np.int64)
        self.row_of = {one: row for row, one in enumerate(kept)}
        for values in (self._requests, self._filter_of, self._used, self._counted, self._counts, self._sums):
            values[: len(rows)] = values[rows]
        used, numbers = np.unique(self._filter_of[: len(rows)], return_inverse=True)
        self._filter_of[: len(rows)] = numbers
        number = {old: new for new, old in enumerate(used.tolist())}
        self._filters = {key: (number[old], one) for key, (old, one) in self._filters.items() if old in number}
        self._masks = [self._masks[old] for old in used.tolist()]

    def _count(self, rows: Ints, columns: Ints) -> None:
        at = np.ix_(rows, columns)
        counts = self._fits(rows, columns, self._free[columns])
        self._sums[rows] += self._by_zone(counts - self._counts[at], self._zone_of[columns])
        self._counts[at] = counts

    def _fits(self, rows: Ints, columns: Ints, free: Ints) -> Counts:
        """Members of the classes of some rows that fit nodes with the room `free`; (rows, columns)."""
        requests = self._requests[rows]
        least = np.full((len(rows), len(columns)), MOST_ON_A_NODE, np.int64)
        for resource in range(requests.shape[1]):
            asked, which = np.unique(requests[:, resource], return_inverse=True)
            if not asked.any():
                continue
            fits = free[:, resource].copy() // np.maximum(asked, 1)[:, None]  # of a copy several are divided at once
            fits[asked == 0] = MOST_ON_A_NODE
            np.minimum(least, fits[which.reshape(-1)], out=least)
        filters, which = np.unique(self._filter_of[rows], return_inverse=True)
        allowed = np.array([self._masks[one][columns] for one in filters.tolist()], np.bool_)
        allowed = allowed.reshape(len(filters), len(columns))[which.reshape(-1)]
        return np.where(allowed, np.maximum(least, 0), 0).astype(np.int32)
