"""kube-scheduler's own view of the nodes: which pods are there, or assumed to be, and what that leaves.

Rules: a pod that is assumed takes room as one that is bound does; after a node changed, the arrays are rebuilt at the
next question. `moment` grows with every change, so equal moments mean equal answers.
"""

from collections.abc import Iterable, Mapping
from itertools import zip_longest

import numpy as np

from scoring.feasibility.filters import ports_conflict
from scoring.ids import NodeName, PodUid, ZoneName
from scoring.model import Constraints, HostPort, Node, Pod
from scoring.model.resources import CPU, MEMORY, Resources
from scoring.model.snapshot import NodeTable
from scoring.network.matrix import Ints

SCORED = (CPU, MEMORY)
"""Resources that in-tree scores look at."""
_UNASKED = (100, 200 * 2**20)
"""What scoring takes a pod to use of each of them when it does not request any."""


class Nodes:
    """All nodes and the room on them."""

    def __init__(self) -> None:
        self._of: dict[NodeName, Node] = {}
        self._held: dict[PodUid, tuple[NodeName, Pod]] = {}
        """pod → its node, assumed or confirmed"""
        self._ports: dict[NodeName, dict[PodUid, tuple[HostPort, ...]]] = {}
        self._asked: dict[Resources, tuple[tuple[int, int], ...] | None] = {}
        self._scored: dict[Resources, tuple[Ints, Ints]] = {}
        self._stale = True
        self._table = NodeTable.of(())
        self.moment = 0
        """Changes so far."""
        self.tree: Ints = np.zeros(0, np.int64)
        """Rows in the order in which they are looked at."""
        self.tree_names: list[NodeName] = []
        """And their names."""
        self.free: Ints = np.zeros((0, 0), np.int64)
        """(resources, nodes): a filter reads whole resources."""
        self.used: Ints = np.zeros((0, 2), np.int64)
        """(nodes, SCORED): requests."""
        self.weighed: Ints = np.zeros((0, 2), np.int64)
        """(nodes, SCORED): requests, with something for those that ask for nothing."""
        self.room: Ints = np.zeros((0, 2), np.int64)
        """(nodes, SCORED): allocatable."""

    @property
    def count(self) -> int:
        """How many nodes there are."""
        return len(self._of)

    @property
    def table(self) -> NodeTable:
        """The nodes as rows; everything here is in its order. Cost after a change of nodes: O(nodes + pods)."""
        if self._stale:
            self._rebuild()
        return self._table

    def put(self, node: Node) -> Node | None:
        """A node that is new or changed; what it was before."""
        before = self._of.get(node.name)
        self._of[node.name] = node
        self._stale = True
        self.moment += 1
        return before

    def drop(self, name: NodeName) -> None:
        """A node is gone."""
        self._of.pop(name, None)
        self._stale = True
        self.moment += 1

    def node_of(self, uid: PodUid) -> NodeName | None:
        """Where a pod is, or is assumed to be."""
        held = self._held.get(uid)
        return held[0] if held is not None else None

    def take(self, pod: Pod, name: NodeName) -> None:
        """The pod is on the node, or assumed to be; another node than before means that it moved."""
        held = self._held.get(pod.uid)
        if held is not None and held[0] == name:
            return
        self.give_back(pod.uid)
        self._held[pod.uid] = (name, pod)
        if pod.member_class.constraints.host_ports:
            self._ports.setdefault(name, {})[pod.uid] = pod.member_class.constraints.host_ports
        self._book(name, pod.requests, sign=1)

    def give_back(self, uid: PodUid) -> bool:
        """The pod is gone, has ended, or is assumed no longer; whether it had a place."""
        held = self._held.pop(uid, None)
        if held is None:
            return False
        self._ports.get(held[0], {}).pop(uid, None)
        self._book(held[0], held[1].requests, sign=-1)
        return True

    def asked(self, requests: Resources) -> tuple[tuple[int, int], ...] | None:
        """(resource's row in `free`, amount) of what is asked; `None`: of something that no node has."""
        if requests not in self._asked:
            axis = {name: number for number, name in enumerate(self.table.axis)}
            known = all(name in axis for name, _ in requests)
            self._asked[requests] = tuple((axis[name], amount) for name, amount in requests) if known else None
        return self._asked[requests]

    def scored(self, requests: Resources) -> tuple[Ints, Ints]:
        """The request over SCORED: as it is, and with something where nothing is asked."""
        if requests not in self._scored:
            exact = [requests.get(name) for name in SCORED]
            weighed = [amount or least for amount, least in zip(exact, _UNASKED, strict=True)]
            self._scored[requests] = np.array(exact, np.int64), np.array(weighed, np.int64)
        return self._scored[requests]

    def ports_taken(self, row: int, limits: Constraints) -> bool:
        """Whether a host port that the pod wants is in use on the node."""
        taken = self._ports.get(self.table.names[row], {})
        return any(ports_conflict(limits.host_ports, ports) for ports in taken.values())

    def _book(self, name: NodeName, requests: Resources, *, sign: int) -> None:
        """Count a pod's requests on its node, while the arrays are in force; else they are counted again anyway."""
        self.moment += 1
        row = self._table.index.get(name)
        if self._stale or row is None:
            return
        for column, amount in self.asked(requests) or ():
            self.free[column, row] -= sign * amount
        exact, weighed = self.scored(requests)
        self.used[row] += sign * exact
        self.weighed[row] += sign * weighed

    def _rebuild(self) -> None:
        self._stale = False
        self._table = table = NodeTable.of(self._of.values(), version=self.moment)
        self._asked.clear()
        self.tree = tree_order(self._of.values(), table.index)
        self.tree_names = [table.names[row] for row in self.tree.tolist()]
        self.free = np.ascontiguousarray(table.allocatable.T)
        columns = [table.axis.index(name) if name in table.axis else -1 for name in SCORED]
        nothing = np.zeros(self.count, np.int64)
        self.room = np.stack([table.allocatable[:, c] if c >= 0 else nothing for c in columns], axis=1)
        self.used, self.weighed = np.zeros_like(self.room), np.zeros_like(self.room)
        for name, pod in self._held.values():
            self._book(name, pod.requests, sign=1)


def tree_order(nodes: Iterable[Node], index: Mapping[NodeName, int]) -> Ints:
    """Rows as kube-scheduler's node tree lists them: one of each zone in turn, zones and nodes as they came.

    >>> from scoring.ids import ZoneName
    >>> nodes = [Node(NodeName(n), ZoneName(z), Resources()) for n, z in (("n3", "b"), ("n1", "b"), ("n2", "a"))]
    >>> tree_order(nodes, {NodeName(f"n{i + 1}"): i for i in range(3)}).tolist()
    [2, 1, 0]
    """
    zones: dict[ZoneName, list[int]] = {}
    for node in nodes:
        zones.setdefault(node.zone, []).append(index[node.name])
    turns = zip_longest(*zones.values())
    return np.array([row for turn in turns for row in turn if row is not None], np.int64)
