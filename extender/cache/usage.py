"""How much of each node is taken, kept up to date pod by pod.

By node name and not only as a matrix: pods may be on a node that is not known yet, or request a resource that no node
offers at present; both count as soon as the node table shows them. Amounts are exact integers.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from scoring.ids import NodeName, PodUid, ResourceName
from scoring.model import HostPort, MemberClass, NodeTable
from scoring.network.matrix import Ints

_LARGEST = 2**62  # More than int64 holds only where a request is nonsense; the node is full either way


class Usage:
    """Requests and host ports by node."""

    def __init__(self) -> None:
        self._totals: dict[NodeName, dict[ResourceName, int]] = {}
        self._ports: dict[NodeName, dict[PodUid, tuple[HostPort, ...]]] = {}
        self._changed: set[NodeName] = set()
        self._ports_changed: set[NodeName] = set()
        self._table: NodeTable | None = None
        self._matrix: Ints = np.zeros((0, 0), np.int64)
        self._ports_by_node: Mapping[NodeName, frozenset[HostPort]] = {}

    def add(self, node: NodeName, uid: PodUid, member_class: MemberClass) -> None:
        """Count a pod of this class on `node`."""
        totals = self._totals.setdefault(node, {})
        for name, amount in member_class.requests.items:
            totals[name] = totals.get(name, 0) + amount
        self._changed.add(node)
        if member_class.constraints.host_ports:
            self._ports.setdefault(node, {})[uid] = member_class.constraints.host_ports
            self._ports_changed.add(node)

    def remove(self, node: NodeName, uid: PodUid, member_class: MemberClass) -> None:
        """Undo `add`."""
        totals = self._totals.get(node, {})
        for name, amount in member_class.requests.items:
            if left := totals[name] - amount:
                totals[name] = left
            else:
                del totals[name]
        if not totals:
            self._totals.pop(node, None)
        self._changed.add(node)
        if member_class.constraints.host_ports:
            del self._ports[node][uid]
            self._ports_changed.add(node)

    def matrix(self, table: NodeTable) -> Ints:
        """(nodes, resources) over `table`; read-only, the same object if nothing changed. Cost: a copy a change."""
        known = self._table
        if known is None or known.axis != table.axis or not known.names:
            self._matrix = _freeze(self._fill(np.zeros_like(table.allocatable), table, self._totals))
        elif known.names is not table.names:  # rows and columns are built together
            before = np.array([known.index.get(name, -1) for name in table.names], np.int64)
            came = table.index.keys() - known.index.keys()
            self._matrix = _freeze(self._renew(self._matrix.take(before, axis=0), table, self._changed | came))
        elif self._changed:
            self._matrix = _freeze(self._renew(self._matrix.copy(), table, self._changed))
        self._table = table
        self._changed.clear()
        return self._matrix

    def host_ports(self) -> Mapping[NodeName, frozenset[HostPort]]:
        """Host ports taken on each node; the same mapping if nothing changed, else a new one."""
        if self._ports_changed:
            fresh = dict(self._ports_by_node)
            for node in self._ports_changed:
                fresh.pop(node, None)
                if taken := frozenset(port for ports in self._ports.get(node, {}).values() for port in ports):
                    fresh[node] = taken
                else:
                    self._ports.pop(node, None)
            self._ports_by_node = fresh
            self._ports_changed.clear()
        return self._ports_by_node

    def _renew(self, matrix: Ints, table: NodeTable, nodes: set[NodeName]) -> Ints:
        matrix[[table.index[node] for node in nodes if node in table.index]] = 0
        return self._fill(matrix, table, nodes)

    def _fill(self, matrix: Ints, table: NodeTable, nodes: Iterable[NodeName]) -> Ints:
        column = {name: i for i, name in enumerate(table.axis)}
        rows: list[int] = []
        columns: list[int] = []
        values: list[int] = []
        for node in nodes:
            row = table.index.get(node)
            if row is None:
                continue
            for name, total in self._totals.get(node, {}).items():
                if name in column:
                    rows.append(row)
                    columns.append(column[name])
                    values.append(min(total, _LARGEST))
        matrix[rows, columns] = values
        return matrix


def _freeze(matrix: Ints) -> Ints:
    matrix.flags.writeable = False
    return matrix
