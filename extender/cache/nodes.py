"""The nodes, and the table that the planner reads.

Rule: equal `NodeTable.version` means equal content, and the table is built again only when a reduced record changed.
A change of labels, taints or readiness alone (by far the most frequent one) keeps rows, columns and arrays.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from extender.cache.usage import Moved
from scoring.ids import NodeName, ResourceName, ZoneName
from scoring.model import DeviceClass, Node
from scoring.model.snapshot import NodeTable
from scoring.network.matrix import Ints

_SETTLED = 8
_FEW = 64
"""Up to so many nodes that came or went are put in or taken out one by one."""


class Nodes:
    """Every node by name; `table` is memoised."""

    def __init__(self) -> None:
        self._nodes: dict[NodeName, Node] = {}
        self._offers: Counter[ResourceName] = Counter()
        """resource → how many nodes have it"""
        self._table = _frozen(NodeTable.of((), version=0))
        self._changed: set[NodeName] = set()
        self._gone: set[NodeName] = set()
        """Those of `_changed` that are in the table and no more in the cluster"""
        self._reshaped = False
        self._device_classes: dict[str, DeviceClass] = {}
        self._uncounted = self._table.uncounted
        """What they provide"""
        self.moved: Moved | None = None
        """How the rows changed last"""

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def by_name(self) -> Mapping[NodeName, Node]:
        """Every node by its name."""
        return self._nodes

    def put(self, node: Node) -> bool:
        """Take over a node's record; whether it differs from the one known."""
        known = self._nodes.get(node.name)
        if known == node:
            return False
        self._nodes[node.name] = node
        self._changed.add(node.name)
        self._gone.discard(node.name)
        if known is None or known.zone != node.zone or known.allocatable != node.allocatable:
            self._reshaped = True
            self._offers.update(name for name, _ in node.allocatable)
            self._withdraw(known)
        return True

    def drop(self, name: NodeName) -> bool:
        """Forget a node; whether it was known."""
        known = self._nodes.pop(name, None)
        if known is None:
            return False
        self._changed.add(name)
        self._gone.add(name)
        self._reshaped = True
        self._withdraw(known)
        return True

    @property
    def device_classes(self) -> Mapping[str, DeviceClass]:
        """Every DeviceClass by its name."""
        return self._device_classes

    def put_device_class(self, name: str, found: DeviceClass | None) -> bool:
        """Take over a DeviceClass, or with `None` forget it; whether other resources are provided by them now."""
        if found is not None:
            self._device_classes[name] = found
        else:
            self._device_classes.pop(name, None)
        provided = frozenset(one for each in self._device_classes.values() for one in each.resources)
        changed, self._uncounted = provided != self._uncounted, provided
        return changed

    def settled(self) -> NodeTable:
        """The last table, renewed when an eighth of the nodes changed since: for long changes in steps.

        Cost: O(n) when it is renewed, which for n nodes that come one after another adds up to O(n log n).
        """
        return self.table() if len(self._changed) * _SETTLED >= len(self._nodes) else self._table

    def table(self) -> NodeTable:
        """The table of now. Cost: O(n) after a change; capacities are read again of changed nodes only."""
        if self._changed:
            version = self._table.version + 1
            if self._reshaped:
                self._table = _frozen(self._reshape(version))
            else:
                self._table = replace(self._table, version=version, nodes=self._renewed(self._table.nodes))
            self._changed.clear()
            self._gone.clear()
            self._reshaped = False
        if self._table.uncounted != self._uncounted:
            self._table = replace(self._table, version=self._table.version + 1, uncounted=self._uncounted)
        return self._table

    def _withdraw(self, node: Node | None) -> None:
        for name, _ in node.allocatable if node is not None else ():
            self._offers[name] -= 1
            if not self._offers[name]:
                del self._offers[name]

    def _reshape(self, version: int) -> NodeTable:
        """What `NodeTable.of` builds, with the rows of unchanged nodes copied. Cost: O(n), a millisecond per 5,000."""
        old, axis = self._table, tuple(sorted(self._offers))
        if old.axis != axis or not old.names:
            return NodeTable.of(self._nodes.values(), version=version, uncounted=old.uncounted)
        known = self._nodes
        came = [name for name in self._changed if name in known and name not in old.index]
        names, nodes = self._spliced(came) if len(came) + len(self._gone) <= _FEW else self._merged(came)
        index = dict(zip(names, range(len(names)), strict=True))
        for name in self._changed & index.keys():
            nodes[index[name]] = known[name]
        before = np.full(len(names), -1, np.int64)  # row → row in the old table, −1: new
        is_old = np.ones(len(names), np.bool_)
        is_old[[index[name] for name in came]] = False
        gone = [row for name in self._gone if (row := old.index.get(name)) is not None]
        self.moved = Moved(old.names, names, came, gone)
        before[is_old] = np.delete(np.arange(len(old.names)), gone)
        return NodeTable(
            version=version,
            nodes=tuple(nodes),
            names=names,
            index=index,
            axis=axis,
            allocatable=self._capacities(index, before),
            zones=self._zones(index, before),
            uncounted=old.uncounted,
        )

    def _spliced(self, came: list[NodeName]) -> tuple[tuple[NodeName, ...], list[Node]]:
        """Names and nodes in order, with few put in or taken out: most time is saved where nothing is looked at."""
        names, nodes = list(self._table.names), list(self._table.nodes)
        for name in self._gone:
            if name in self._table.index:
                row = bisect_left(names, name)
                del names[row], nodes[row]
        for name in came:
            row = bisect_left(names, name)
            names.insert(row, name)
            nodes.insert(row, self._nodes[name])
        return tuple(names), nodes

    def _merged(self, came: list[NodeName]) -> tuple[tuple[NodeName, ...], list[Node]]:
        """The same for many."""
        known = self._nodes
        stayed = [name for name in self._table.names if name in known]
        names = tuple(sorted(stayed + came))  # two rows in order, or nearly: merging them is what sorting does then
        return names, [known[name] for name in names]

    def _capacities(self, index: Mapping[NodeName, int], before: Ints) -> Ints:
        """Capacities over the new rows `index`: copies of the old rows, those of changed nodes rewritten."""
        old = self._table
        capacities = old.allocatable.take(before, axis=0)
        column = {name: i for i, name in enumerate(old.axis)}
        for name in self._changed & index.keys():
            capacities[index[name]] = 0
            for resource, amount in self._nodes[name].allocatable:
                capacities[index[name], column[resource]] = amount
        return capacities

    def _zones(self, index: Mapping[NodeName, int], before: Ints) -> dict[ZoneName, Ints]:
        """Zone → its rows; by zone numbers, so that no node is looked at but the changed ones."""
        old = self._table
        zones = list(old.zones)
        number = {zone: i for i, zone in enumerate(zones)}
        old_numbers = np.zeros(len(old.names) + 1, np.int64)
        for zone, rows in old.zones.items():
            old_numbers[rows] = number[zone]
        numbers = old_numbers[before]
        for name in self._changed & index.keys():
            zone = self._nodes[name].zone
            numbers[index[name]] = number.setdefault(zone, len(number))
        order = np.argsort(numbers, kind="stable")
        ends = np.cumsum(np.bincount(numbers, minlength=len(number)))
        rows_of = dict(zip(number, np.split(order, ends[:-1]), strict=True))
        return {zone: np.array(rows_of[zone]) for zone in sorted(rows_of) if len(rows_of[zone])}

    def _renewed(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        rows = list(nodes)
        for name in self._changed:
            rows[self._table.index[name]] = self._nodes[name]
        return tuple(rows)


def _frozen(table: NodeTable) -> NodeTable:
    """Let numpy refuse writes to arrays that snapshots share."""
    table.allocatable.flags.writeable = False
    for rows in table.zones.values():
        rows.flags.writeable = False
    return table
