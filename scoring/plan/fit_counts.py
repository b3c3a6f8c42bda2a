"""How many members of each class fit each node and each zone, kept from run to run.

Why: a queue of a thousand gangs may ask for a thousand different things. Counting every class on every node takes a
run 0.1 s, though an event changed one node; kept, it takes 1 ms (docs/adr/0006-planner-caches.md). Rule: counts follow
from room, filters and requests alone. `show` says which room and which filters they are to be of; what differs is
counted again, node by node, and where much differs each class when it is asked for next.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from scoring.feasibility.room import MOST_ON_A_NODE, Counts
from scoring.ids import NodeName, ZoneName
from scoring.model import MemberClass
from scoring.network.matrix import Ints
from scoring.plan.ask import Ask

Mask: TypeAlias = NDArray[np.bool_]
MOST_CELLS = 6_000_000
"""Classes times nodes that are kept: 4 bytes each. Classes beyond are counted by the run that asks."""
MOST_CLASSES = 8_192
_FEW = 64
"""Where more nodes changed, classes are counted again when they are asked for."""
_FORGOTTEN_AFTER = 64
"""A class that so many runs did not ask about leaves when there is no place for others."""
_TOGETHER = 64
"""Classes that are counted in one step"""


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes that counts are about."""

    layout: int
    """Stands for their names and zones"""
    names: tuple[NodeName, ...]
    zone_of: Ints
    """(nodes,): number of each node's zone"""
    zones: tuple[ZoneName, ...]
    axis: tuple[object, ...]
    """The resources that room has columns for"""


@dataclass(slots=True)
class Counting:
    """What counting needs of one demand; kept for as long as the demand is the same object."""

    ask: Ask
    axis: int
    """Of the nodes for which it was made: whether they count a resource decides whether counting is enough"""
    classes: tuple[tuple[MemberClass, int, int], ...]
    """Class, its number, members; empty: counting is not enough"""
    zones: tuple[ZoneName, ...] | None
    """Zones that the gang names"""
    fits_empty: tuple[object, bool] = (None, False)
    """Node table, and whether the gang would fit one of its zones if no pod ran there"""


class FitCounts:
    """Counts of classes by rows, (rows, nodes), and their sums, (rows, zones). Not shared between threads."""

    def __init__(self) -> None:
        self._reset(())

    def _reset(self, axis: tuple[object, ...], nodes: int = 0) -> None:
        """Forget everything; there is to be place for so many nodes, and a third more."""
        most = self._most = min(MOST_CELLS // max(nodes + nodes // 3, 1), MOST_CLASSES)
        self._most_nodes = nodes + nodes // 3
        self._nodes = Nodes(-1, (), np.zeros(0, np.int64), (), axis)
        self._shown: object = None
        self._shows = 0
        self.row_of: dict[int, int] = {}
        """class number → row"""
        self._filters: dict[Hashable, tuple[int, MemberClass]] = {}
        """key of a filter → its number, and a class that it decides about"""
        self._masks: list[Mask] = []
        """number of a filter → nodes that it lets through"""
        self.free: Ints = np.zeros((0, len(axis)), np.int64)
        """(nodes, resources) that the counts are of"""
        self._used: Ints = np.zeros(most, np.int64)
        """(rows,): when the class was asked about last"""
        self._requests: Ints = np.zeros((most, len(axis)), np.int64)
        self._filter_of: Ints = np.zeros(most, np.int64)
        self._counted: Mask = np.zeros(most, np.bool_)
        """(rows,): whether counts and sums are those of the room shown"""
        self._counts: Counts = np.zeros((most, 0), np.int32)
        self._sums: Ints = np.zeros((most, 0), np.int64)

    def show(self, shown: object, nodes: Nodes, free: Ints, mask: Callable[[MemberClass], Mask]) -> None:
        """Count for this room and these filters from now on. Cost: O(nodes), and O(classes) for each changed node.

        `shown` stands for all of it: nothing is compared when it is what was shown last.
        """
        if shown is self._shown:
            return
        if nodes.axis != self._nodes.axis or len(nodes.names) > self._most_nodes:
            self._reset(nodes.axis, len(nodes.names))
        self._shown, self._shows = shown, self._shows + 1
        changed = self._moved(nodes)
        changed |= (free != self.free).any(axis=1)
        self.free = free
        for number, member_class in self._filters.values():
            now, before = mask(member_class), self._masks[number]
            if now is not before:
                changed |= now != before
                self._masks[number] = now
        at = np.flatnonzero(changed)
        if len(at) > _FEW:
            self._counted[:] = False
        elif len(at):
            rows = np.flatnonzero(self._counted[: len(self.row_of)])
            counts = self._fits(rows, at, free[at])
            self._sums[rows] += self.by_zone(counts - self._counts[np.ix_(rows, at)], at)
            self._counts[np.ix_(rows, at)] = counts

    def add(self, classes: Sequence[tuple[int, MemberClass, Ints, Hashable, Mask]]) -> None:
        """Give classes rows: number, class, request, key of its filter, and what that lets through.

        Without a row stays a class for which there is no place, even after those were forgotten that are not asked
        about.
        """
        if len(self.row_of) + len(classes) > self._most:
            self._forget_unused()
        for one in classes[: self._most - len(self.row_of)]:
            self._add(*one)

    def use(self, rows: Ints) -> None:
        """These classes are asked about."""
        self._used[rows] = self._shows

    def _forget_unused(self) -> None:
        kept = [number for number, row in self.row_of.items() if self._used[row] > self._shows - _FORGOTTEN_AFTER]
        rows = np.array([self.row_of[number] for number in kept], np.int64)
        self.row_of = {number: row for row, number in enumerate(kept)}
        for values in (self._requests, self._filter_of, self._used, self._counted, self._counts, self._sums):
            values[: len(rows)] = values[rows]
        used, numbers = np.unique(self._filter_of[: len(rows)], return_inverse=True)
        self._filter_of[: len(rows)] = numbers
        number = {old: new for new, old in enumerate(used.tolist())}
        self._filters = {key: (number[old], one) for key, (old, one) in self._filters.items() if old in number}
        self._masks = [self._masks[old] for old in used.tolist()]

    def uncounted(self, rows: Ints) -> list[Ints]:
        """Those of `rows` for which much has to be counted before there are `sums`, in portions of one step each."""
        missing = np.unique(rows[~self._counted[rows]])
        return np.split(missing, range(_TOGETHER, len(missing), _TOGETHER)) if len(missing) else []

    def count(self, rows: Ints) -> None:
        """Count these classes on all nodes."""
        rows = rows[rows < len(self.row_of)]  # the others were forgotten since
        every = np.arange(len(self.free))
        self._counts[rows] = self._fits(rows, every, self.free)
        self._sums[rows] = self.by_zone(self._counts[rows], every)
        self._counted[rows] = True

    def sums(self, rows: Ints) -> Ints:
        """Members of these classes that fit each zone, (classes, zones)."""
        for some in self.uncounted(rows):
            self.count(some)
        return self._sums[rows]

    def counts_if(self, rows: Ints, nodes: Ints, free: Ints) -> Counts:
        """Members of these classes, whose `sums` were asked for, that would fit `nodes` with the room `free` there."""
        found: Counts = np.zeros((len(rows), len(nodes)), np.int32)
        some = (free > 0).any(axis=1)  # without any room no member fits
        same = some & (free == self.free[nodes]).all(axis=1)
        found[:, same] = self._counts[np.ix_(rows, nodes[same])]
        other = some & ~same
        if other.any():
            found[:, other] = self._fits(rows, nodes[other], free[other])
        return found

    def by_zone(self, counts: Counts, nodes: Ints) -> Ints:
        """Sums (rows, zones) of counts (rows, nodes)."""
        return self._by_zone(counts, self._nodes.zone_of[nodes])

    def _by_zone(self, counts: Counts, zones: Ints) -> Ints:
        sums = np.zeros((len(counts), len(self._nodes.zones)), np.int64)
        order = np.argsort(zones, kind="stable")
        present, begins = np.unique(zones[order], return_index=True)
        if len(present):
            sums[:, present] = np.add.reduceat(counts[:, order], begins, axis=1, dtype=np.int64)
        return sums

    def _moved(self, nodes: Nodes) -> Mask:
        """Take over the counts of nodes that stay; gives (nodes,) which of `nodes` are new."""
        before, self._nodes = self._nodes, nodes
        if nodes.layout == before.layout:
            return np.zeros(len(nodes.names), np.bool_)
        rows = len(self.row_of)
        old = {name: at for at, name in enumerate(before.names)}
        at = np.array([old.get(name, -1) for name in nodes.names], np.int64)
        new, here = at < 0, at[at >= 0]
        gone = np.delete(np.arange(len(old)), here)
        same_zones = nodes.zones == before.zones and bool((nodes.zone_of[~new] == before.zone_of[here]).all())
        if same_zones:
            self._sums[:rows] -= self._by_zone(self._counts[:rows, gone], before.zone_of[gone])
        counts = np.zeros((self._most, len(at)), np.int32)  # memory is used as rows are
        counts[:rows] = self._counts[:rows].take(np.maximum(at, 0), axis=1) if len(old) else 0
        counts[:rows, new] = 0
        self._counts = counts
        self.free = np.where(new[:, None], 0, self.free[at] if len(old) else 0)
        self._masks = [np.where(new, False, mask[at]) if len(old) else ~new for mask in self._masks]
        if not same_zones:
            self._sums = np.zeros((self._most, len(nodes.zones)), np.int64)
            self._sums[:rows] = self._by_zone(counts[:rows], nodes.zone_of)
        return np.asarray(new)

    def _add(self, number: int, member_class: MemberClass, request: Ints, key: Hashable, mask: Mask) -> None:
        known = self._filters.get(key)
        if known is None:
            known = self._filters[key] = len(self._masks), member_class
            self._masks.append(mask)
        row = self.row_of[number] = len(self.row_of)
        self._requests[row], self._filter_of[row], self._counted[row] = request, known[0], False
        self._used[row] = self._shows

    def _fits(self, rows: Ints, nodes: Ints, free: Ints) -> Counts:
        """Members of the classes of some rows that fit `nodes` with the room `free`; (rows, nodes)."""
        requests = self._requests[rows]
        least = np.full((len(rows), len(nodes)), MOST_ON_A_NODE, np.int64)
        for column in range(requests.shape[1]):
            asked, which = np.unique(requests[:, column], return_inverse=True)
            if not asked.any():
                continue
            fits = free[:, column] // np.maximum(asked, 1)[:, None]
            fits[asked == 0] = MOST_ON_A_NODE
            np.minimum(least, fits[which.reshape(-1)], out=least)
        filters, which = np.unique(self._filter_of[rows], return_inverse=True)
        allowed = np.array([self._masks[one][nodes] for one in filters.tolist()], np.bool_)
        allowed = allowed.reshape(len(filters), len(nodes))[which.reshape(-1)]
        return np.where(allowed, np.maximum(least, 0), 0).astype(np.int32)
