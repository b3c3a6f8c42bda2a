"""A snapshot that is being changed: nodes, gangs and what is used, each copied when it is touched first.

Rule: the snapshot that it began with is never written; `finished` builds the new one once, however many changes there
were. Versions of what differs are the caller's number, so that nothing computed for one is taken for the other's.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from scoring.ids import GangKey, NodeName
from scoring.model import Commitment, Gang, HostPort, Node, NodeTable, Pod, Policy, Snapshot
from scoring.network.matrix import Ints, NetworkMatrix
from scoring.what_if.changes import AddJob, MisfitError


def no_settings(_: Mapping[str, Any]) -> Policy:
    """For situations without a service. Errors: MisfitError always."""
    raise MisfitError("settings: there are none here")


def no_objects(_: AddJob) -> tuple[Gang, ...]:
    """For situations without a reader of objects. Errors: MisfitError always."""
    raise MisfitError("pods: objects are not read here")


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a plan is made from."""

    snapshot: Snapshot
    policy: Policy
    now_s: float
    others: Mapping[str, Pod] = field(default_factory=dict)
    """namespace/name → a pod of no gang of ours that takes room on its node; those that changes name are enough."""
    policy_with: Callable[[Mapping[str, Any]], Policy] = no_settings  # Errors: MisfitError
    gangs_of: Callable[[AddJob], tuple[Gang, ...]] = no_objects  # Errors: MisfitError


class Draft:
    """A situation under change. Ends with `finished`."""

    def __init__(self, base: Situation) -> None:
        self.base = base
        self.policy: Policy = base.policy
        self.now_s: float = base.now_s
        self.network: NetworkMatrix = base.snapshot.network
        self.gangs: dict[GangKey, Gang] = dict(base.snapshot.gangs)
        self.others: dict[str, Pod] = dict(base.others)
        self.commitments: dict[GangKey, Commitment] = dict(base.snapshot.commitments)
        self.exclusions = dict(base.snapshot.exclusions)
        self._nodes: dict[NodeName, Node] | None = None
        self._ports: dict[NodeName, frozenset[HostPort]] | None = None
        self._moves: list[tuple[Pod, int]] = []  # Pods that came to their nodes (+1) or left them (−1)

    @property
    def nodes(self) -> Mapping[NodeName, Node]:
        """Nodes as they are by now."""
        if self._nodes is not None:
            return self._nodes
        table = self.base.snapshot.table
        return {name: table.nodes[row] for name, row in table.index.items()}

    def put_node(self, node: Node) -> None:
        """Add a node, or replace it."""
        self._touched()[node.name] = node

    def drop_node(self, name: NodeName) -> None:
        """A node is gone; what ran there takes no room any more."""
        del self._touched()[name]

    def put_gang(self, gang: Gang) -> None:
        """Add or replace a gang; without members it is gone, and so is what was promised to it."""
        if gang.members:
            self.gangs[gang.key] = gang
            return
        self.gangs.pop(gang.key, None)
        self.commitments.pop(gang.key, None)

    def arrive(self, pods: Iterable[Pod]) -> None:
        """Pods take room on their nodes."""
        self._moves.extend((pod, 1) for pod in pods if pod.node is not None and not pod.terminal)

    def leave(self, pods: Iterable[Pod]) -> None:
        """Pods are gone: from their nodes, their gangs and what was committed to them."""
        gone = {pod.uid: pod for pod in pods}
        self._moves.extend((pod, -1) for pod in gone.values() if pod.node is not None and not pod.terminal)
        for key in sorted({pod.group.key for pod in gone.values() if pod.group is not None}):
            if (gang := self.gangs.get(key)) is not None:
                self.put_gang(replace(gang, members=tuple(p for p in gang.members if p.uid not in gone)))
            if (commitment := self.commitments.pop(key, None)) is not None:
                left = {uid: node for uid, node in commitment.assignment.items() if uid not in gone}
                self.commitments |= {key: Commitment(key, left)} if left else {}
        for pod in gone.values():
            self.others.pop(pod.key, None)

    def finished(self, *, version: int) -> Situation:
        """The changed situation. Cost: O(nodes) when nodes or pods on them changed."""
        before = self.base.snapshot
        table = before.table
        if self._nodes is not None:
            table = NodeTable.of(self._nodes.values(), version=version, uncounted=table.uncounted)
        known = self.gangs.keys()
        snapshot = replace(
            before,
            version=version,
            table=table,
            used=self._used(table),
            host_ports=self._ports if self._ports is not None else before.host_ports,
            gangs=self.gangs,
            commitments=self.commitments,
            exclusions=self.exclusions,
            backing_off_until_s={key: at_s for key, at_s in before.backing_off_until_s.items() if key in known},
            claims={key: claim for key, claim in before.claims.items() if key in known},
            network=self.network if self.network is before.network else replace(self.network, version=version),
        )
        return replace(self.base, snapshot=snapshot, policy=self.policy, now_s=self.now_s, others=self.others)

    def _touched(self) -> dict[NodeName, Node]:
        if self._nodes is None:
            self._nodes = dict(self.nodes)
        return self._nodes

    def _used(self, table: NodeTable) -> Ints:
        before = self.base.snapshot
        if table is before.table and not self._moves:
            return before.used
        used = np.array(before.used) if table is before.table else _laid_out(before, table)
        for pod, sign in self._moves:
            row = table.index.get(pod.node) if pod.node is not None else None
            if row is None:
                continue
            for name, amount in pod.requests:
                if name in table.axis:
                    used[row, table.axis.index(name)] += sign * amount
            self._move_ports(pod, sign)
        return used

    def _move_ports(self, pod: Pod, sign: int) -> None:
        mine, node = pod.member_class.constraints.host_ports, pod.node
        if not mine or node is None:
            return
        if self._ports is None:
            self._ports = dict(self.base.snapshot.host_ports)
        there = self._ports.get(node, frozenset())
        self._ports[node] = there.union(mine) if sign > 0 else there.difference(mine)


def _laid_out(before: Snapshot, table: NodeTable) -> Ints:
    used = np.zeros_like(table.allocatable)
    rows = [(row, before.table.index[name]) for row, name in enumerate(table.names) if name in before.table.index]
    columns = [(i, before.table.axis.index(name)) for i, name in enumerate(table.axis) if name in before.table.axis]
    if rows and columns:
        to_rows, from_rows = np.array(rows, np.int64).T
        to_columns, from_columns = np.array(columns, np.int64).T
        used[np.ix_(to_rows, to_columns)] = before.used[np.ix_(from_rows, from_columns)]
    return used
