"""The nodes, and the table that the planner reads.

Rule: equal `NodeTable.version` means equal content, and the table is built again only when a reduced record changed.
A change of labels, taints or readiness alone (by far the most frequent one) keeps rows, columns and arrays.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from scoring.ids import NodeName
from scoring.model import Node
from scoring.snapshot import NodeTable


class Nodes:
    """Every node by name; `table` is memoised."""

    def __init__(self) -> None:
        self._nodes: dict[NodeName, Node] = {}
        self._table = _frozen(NodeTable.of((), version=0))
        self._changed: set[NodeName] = set()
        self._reshaped = False

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
        same_shape = known is not None and known.zone == node.zone and known.allocatable == node.allocatable
        self._reshaped = self._reshaped or not same_shape
        return True

    def drop(self, name: NodeName) -> bool:
        """Forget a node; whether it was known."""
        if self._nodes.pop(name, None) is None:
            return False
        self._changed.add(name)
        self._reshaped = True
        return True

    def table(self) -> NodeTable:
        """The table of now. Cost: O(n log n) after a change of names, zones or allocatable, O(n) after any other."""
        if self._changed:
            version = self._table.version + 1
            if self._reshaped:
                self._table = _frozen(NodeTable.of(self._nodes.values(), version=version))
            else:
                self._table = replace(self._table, version=version, nodes=self._renewed(self._table.nodes))
            self._changed.clear()
            self._reshaped = False
        return self._table

    def faults(self) -> list[str]:
        """How the memoised table differs from one built from scratch (for tests)."""
        kept, fresh = self.table(), NodeTable.of(self._nodes.values())
        same = (
            kept.nodes == fresh.nodes
            and kept.names == fresh.names
            and kept.index == fresh.index
            and kept.axis == fresh.axis
            and np.array_equal(kept.allocatable, fresh.allocatable)
            and list(kept.zones) == list(fresh.zones)
            and all(np.array_equal(rows, fresh.zones[zone]) for zone, rows in kept.zones.items())
        )
        return [] if same else ["the node table differs from the nodes"]

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
