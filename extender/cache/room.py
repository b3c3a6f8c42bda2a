"""Nodes: their table, and how much of each is taken, by pods that are there or about to come, or kept for DaemonSets.

Equal `NodeTable.version` means equal content. A change of labels, taints or readiness alone, by far the most frequent
one, keeps rows, columns and arrays. Room is counted by node name, too: a pod on a node, or with a resource, that is not
known yet counts as soon as the node table shows it. Amounts are exact integers.

Kept for a DaemonSet is the request of its template, on each node that it selects and has no pod on, for `settle_s` from
when the pod became missing (docs/safety.md S12, S26). Tenants write DaemonSets, too: those of one namespace have a
budget on each node, a committed place goes first (docs/safety.md S4), and work is bounded in each round.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from extender.cache.state import ClusterState, Watched
from scoring import NodeName, PodUid, ResourceName
from scoring.feasibility.filters import node_allows
from scoring.model import DaemonSet, HostPort, MemberClass, Node, NodeSelectorTerm, NodeTable, Pod, Requirement
from scoring.model.snapshot import axis_of
from scoring.network.matrix import Ints

MOST_SETS: Final = 64
PAIRS_A_ROUND: Final = 5_000
ENDS_A_ROUND: Final = 2_000  # Ends, and budgets looked at
_PAIRS_A_STEP: Final = 500
_MOST_LINES: Final = 32  # Expressions and values of a DaemonSet for which room is kept: all are compared with a node
_FEW: Final = 500  # Young nodes that are looked at in one go, and ends that may be out of date
_COMES_BACK: Final = 0.1  # Seconds of budget for each second in which nothing is kept
_LARGEST: Final = 2**62  # More than int64 holds only where a request is nonsense; the node is full either way


class Nodes(Watched[Node]):
    """Every node by name, and the table."""

    def __init__(self, state: ClusterState, by_name: dict[NodeName, Node], daemons: "Daemons") -> None:
        super().__init__(state, by_name)
        self.by_name, self._daemons = by_name, daemons
        self._offers: Counter[ResourceName] = Counter()  # resource → how many nodes have it
        self._table = NodeTable.from_nodes((), version=0)
        self._changed: set[NodeName] = set()
        self._reshaped = False

    def _take(self, item: Node) -> bool:
        before = self.by_name.get(item.name)
        if before == item:
            return False
        self.by_name[item.name] = item
        return self._change(item.name, before, item)

    def _drop(self, key: str) -> bool:
        before = self.by_name.pop(NodeName(key), None)
        return before is not None and self._change(before.name, before, None)

    def _change(self, name: NodeName, before: Node | None, after: Node | None) -> bool:
        if before is None or after is None or (before.zone, before.allocatable) != (after.zone, after.allocatable):
            self._reshaped = True
            self._offers.update(name for name, _ in (after.allocatable if after is not None else ()))
            if before is not None:
                self._offers.subtract(name for name, _ in before.allocatable)
                self._offers = +self._offers  # without those that no node has now
        self._changed.add(name)
        self._daemons.node_changed(name, before, after)
        self._state.drop_refusals(lambda node, _: node == name)  # to be learned again (docs/safety.md S7)
        return True

    def settled(self) -> NodeTable:
        """The last table, renewed when an eighth of the nodes changed: for long changes. Cost: O(n log n) in all."""
        return self.table() if len(self._changed) * 8 >= len(self.by_name) else self._table

    def table(self) -> NodeTable:
        """The table of now. Cost: O(n) after a change; capacities are read again of changed nodes only."""
        if self._changed:
            version = self._table.version + 1
            if self._reshaped:
                self._table = self._reshape(version)
            else:
                rows = list(self._table.nodes)
                for name in self._changed:
                    rows[self._table.index[name]] = self.by_name[name]
                self._table = replace(self._table, nodes=tuple(rows), version=version).after(self._table)
            self._changed.clear()
            self._reshaped = False
        return self._table

    def _reshape(self, version: int) -> NodeTable:
        """What `NodeTable.from_nodes` builds, with old capacities copied. Cost: O(n): 2 ms for 5,000 nodes, `of` 6."""
        old, nodes = self._table, self.by_name
        if old.axis != axis_of(self._offers) or not old.names:
            return NodeTable.from_nodes(nodes.values(), version=version)
        came = [name for name in self._changed if name in nodes and name not in old.index]
        names = sorted([name for name in old.names if name in nodes] + came)  # a merge: both are nearly sorted
        before = np.array([old.index.get(name, -1) for name in names], np.int64)
        changed = [bisect_left(names, name) for name in self._changed if name in nodes]
        amounts = old.allocatable.take(before, axis=0)
        amounts[changed] = 0
        return NodeTable.filled(tuple([nodes[name] for name in names]), old.axis, amounts, changed, version).after(old)


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

    def count(self, node: NodeName, member_class: MemberClass, uid: PodUid, pods: int) -> None:
        """Count a pod of this class on `node`, or with -1 count it no more."""
        totals = self._totals.setdefault(node, {})
        for name, amount in member_class.requests.items:
            totals[name] = totals.get(name, 0) + pods * amount
            if not totals[name]:
                del totals[name]
        if not totals:
            del self._totals[node]
        self._changed.add(node)
        if ports := member_class.constraints.host_ports:
            if pods > 0:
                self._ports.setdefault(node, {})[uid] = ports
            else:
                del self._ports[node][uid]
            self._ports_changed.add(node)

    def matrix(self, table: NodeTable) -> Ints:
        """(nodes, resources) over `table`; read-only, the same object if nothing changed. Cost: a copy a change."""
        last, matrix, changed = self._table, self._matrix, self._changed
        if last is None or last.axis != table.axis or not last.names:
            matrix, changed = np.zeros_like(table.allocatable), {*self._totals}
        elif last.names is not table.names:  # rows and columns are built together
            before = np.array([last.index.get(name, -1) for name in table.names], np.int64)
            matrix, changed = matrix.take(before, axis=0), changed | (table.index.keys() - last.index.keys())
        elif changed:
            matrix = matrix.copy()
        if matrix is not self._matrix:
            column = {name: i for i, name in enumerate(table.axis)}
            rows = {node: table.index[node] for node in changed if node in table.index}
            matrix[list(rows.values())] = 0
            for node, row in rows.items():
                for name, total in self._totals.get(node, {}).items():
                    if name in column:
                        matrix[row, column[name]] = min(total, _LARGEST)
            matrix.flags.writeable = False
        self._table, self._matrix = table, matrix
        self._changed.clear()
        return matrix

    def host_ports(self) -> Mapping[NodeName, frozenset[HostPort]]:
        """Host ports taken on each node; the same mapping if nothing changed, else a new one."""
        if self._ports_changed:
            fresh = dict(self._ports_by_node)
            for node in self._ports_changed:
                fresh[node] = frozenset(port for ports in self._ports[node].values() for port in ports)
                if not fresh[node]:
                    del fresh[node], self._ports[node]
            self._ports_by_node = fresh
            self._ports_changed.clear()
        return self._ports_by_node


class _Budget(msgspec.Struct):
    """For how long DaemonSets of one namespace keep room on one node for missing pods (docs/safety.md S26)."""

    used_s: float
    at_s: float  # When that was so
    open: int = 0  # DaemonSets that keep some room now

    def spent_s(self, now_s: float) -> float:
        passed_s = max(now_s - self.at_s, 0.0)
        self.used_s = max(self.used_s + (passed_s if self.open else -_COMES_BACK * passed_s), 0.0)
        self.at_s = now_s
        return self.used_s


class RoomForDaemons(msgspec.Struct, frozen=True):
    """What is kept free for one DaemonSet, for people."""

    daemon_set: str  # namespace/name
    nodes: tuple[NodeName, ...]  # On which its request is kept free, sorted
    until_s: float  # When that ends on the last of them, Unix seconds; 0: it is kept on none
    overdue: int  # Nodes on which its pod was missing for longer than that: nothing is kept there any more


class Daemons(Watched[DaemonSet]):
    """DaemonSets, the nodes that have their pods, and what is kept in `usage` for those that have not."""

    def __init__(self, state: ClusterState, usage: Usage, nodes: Mapping[NodeName, Node], *, settle_s: float) -> None:
        self._usage, self._nodes, self._settle_s = usage, nodes, settle_s
        self._now_s = float("inf")  # Of the last `expire`: before it nothing is young
        self._sets: dict[str, DaemonSet] = {}  # uid → DaemonSet
        self._names: dict[str, str] = {}  # namespace/name → uid
        super().__init__(state, self._names)
        self._pods: Counter[tuple[str, NodeName]] = Counter()  # uid and node → pods bound there that have not ended
        self._kept: dict[str, dict[NodeName, float]] = {}  # uid → node → until when its request is kept free there
        self._overdue: dict[str, set[NodeName]] = {}  # uid → nodes on which its pod did not come in time
        self._budgets: dict[tuple[str, NodeName], _Budget] = {}  # namespace and node → …, the last looked at last
        self._young: dict[NodeName, float] = {}  # node → until when it is young, the oldest nodes first, about
        self._ends: list[tuple[float, str, NodeName]] = []  # A heap: (end, DaemonSet, node), some of them outdated
        self._new: dict[str, float] = {}  # uid of a new or changed one → when, until all nodes were looked at

    def kept(self) -> list[RoomForDaemons]:
        """What is kept and for how long, and what is not any more. Cost: O(pairs)."""
        rooms: list[RoomForDaemons] = []
        for uid, daemon in sorted(self._sets.items(), key=lambda item: item[1].key):
            nodes, overdue = self._kept.get(uid, {}), self._overdue.get(uid, ())
            if nodes or overdue:
                until_s = max(nodes.values(), default=0.0)
                rooms.append(RoomForDaemons(daemon.key, tuple(sorted(nodes)), until_s, len(overdue)))
        return rooms

    def keeps_for(self, pod: Pod) -> NodeName | None:
        """The node that keeps room free that is this pod's."""
        match pod.member_class.constraints.affinity:  # as the DaemonSet's controller writes it
            case (NodeSelectorTerm(fields=(Requirement("metadata.name", "In", (name,)),)),):
                return NodeName(name) if name in self._kept.get(pod.daemon, ()) else None
            case _:
                return None

    def _take(self, item: DaemonSet) -> bool:
        before = self._sets.get(item.identity)
        if before == item:
            return False
        changed = self._drop(item.key) | (before is not None and self._drop(before.key))
        terms = item.member_class.constraints.affinity or ()
        if sum(1 + len(line.values) for term in terms for line in (*term.expressions, *term.fields)) > _MOST_LINES:
            return changed
        if before is None and sum(other.namespace == item.namespace for other in self._sets.values()) >= MOST_SETS:
            return changed
        self._sets[item.identity], self._names[item.key] = item, item.identity
        since_s = item.created_s if before is None else self._now_s
        few = list(self._young) if len(self._young) <= _FEW else []
        if since_s + self._settle_s > self._now_s or len(self._young) > _FEW:
            self._new[item.identity] = since_s
        return sum(self._begin(item, self._nodes[name], since_s) for name in few) > 0 or changed

    def _drop(self, key: str) -> bool:
        uid = self._names.pop(key, "")
        if not uid:
            return False
        changed = sum(self._end(uid, node) for node in list(self._kept.get(uid, ()))) > 0
        for book in (self._sets, self._new, self._kept, self._overdue):
            book.pop(uid, None)
        return changed

    def node_changed(self, name: NodeName, before: Node | None, after: Node | None) -> None:
        """A node came, is another than it was, or went. Cost: O(DaemonSets)."""
        if after is None:
            self._young.pop(name, None)
        elif after.created_s + self._settle_s > self._now_s:
            self._young[name] = after.created_s + self._settle_s
        for uid, daemon in self._sets.items():
            if after is None or name in self._kept.get(uid, ()):
                if after is None or not selects(daemon, after):
                    self._end(uid, name)
            elif before is None or not selects(daemon, before):
                self._begin(daemon, after, daemon.created_s if before is None else self._now_s)

    def pod_changed(self, before: Pod | None, after: Pod | None) -> bool:
        """A pod of a DaemonSet came, moved on or went."""
        left, entered = place_of(before), place_of(after)
        if left == entered:
            return False
        changed = False
        if entered is not None:
            self._pods[entered] += 1
            changed = self._end(*entered)
        if left is not None:
            self._pods[left] -= 1
            daemon, node = self._sets.get(left[0]), self._nodes.get(left[1])
            if not self._pods[left]:
                del self._pods[left]
                changed |= daemon is not None and node is not None and self._begin(daemon, node, self._now_s)
        return changed

    def expire(self, now_s: float) -> bool:
        """Time has passed: keep nothing longer than it may be. Cost: O(what ends)."""
        self._now_s = now_s
        for name in list(islice(self._young, ENDS_A_ROUND)):
            if self._young[name] > now_s:
                break
            del self._young[name]
        ended = 0
        while self._ends and self._ends[0][0] <= now_s and ended < ENDS_A_ROUND:
            end_s, identity, node = heappop(self._ends)
            if self._kept.get(identity, {}).get(node) == end_s:
                ended += self._end(identity, node)
                self._overdue.setdefault(identity, set()).add(node)
        if len(self._ends) > 2 * sum(map(len, self._kept.values())) + _FEW:  # most of it has ended before
            self._ends = [(end_s, uid, node) for uid, nodes in self._kept.items() for node, end_s in nodes.items()]
            heapify(self._ends)
        for key in list(islice(self._budgets, ENDS_A_ROUND)):
            budget = self._budgets.pop(key)
            if budget.spent_s(now_s) > 0.0 or budget.open:
                self._budgets[key] = budget
        return ended > 0

    def look_at_nodes(self) -> Iterator[None]:
        """Keep room free for pods of DaemonSets that came or were changed, in steps."""
        left = PAIRS_A_ROUND
        while self._new and left > 0:
            uid, since_s = next(iter(self._new.items()))
            del self._new[uid]
            names = list(self._nodes)
            for start in range(0, len(names), _PAIRS_A_STEP):
                daemon = self._sets.get(uid)
                some = [self._nodes[name] for name in names[start : start + _PAIRS_A_STEP] if name in self._nodes]
                left -= len(some)
                self._state.note(daemon is not None and sum(self._begin(daemon, node, since_s) for node in some) > 0)
                yield

    def _begin(self, daemon: DaemonSet, node: Node, since_s: float) -> bool:
        """Keep the request free from now on, if a pod is missing there, and not for too long already."""
        end_s, budget = max(since_s, node.created_s) + self._settle_s, self._budgets.get((daemon.namespace, node.name))
        if end_s <= self._now_s or node.name in self._kept.get(daemon.identity, ()):
            return False
        if self._pods[daemon.identity, node.name] or not selects(daemon, node) or self._state.promises(node.name):
            return False
        end_s = min(end_s, self._now_s + self._settle_s - (budget.spent_s(self._now_s) if budget is not None else 0.0))
        if end_s <= self._now_s:
            return False
        self._kept.setdefault(daemon.identity, {})[node.name] = end_s
        heappush(self._ends, (end_s, daemon.identity, node.name))
        self._overdue.get(daemon.identity, set()).discard(node.name)
        self._count(daemon, node.name, 1)
        return True

    def _end(self, uid: str, node: NodeName) -> bool:
        """Keep nothing for it there any more; whether something was."""
        self._overdue.get(uid, set()).discard(node)
        ends = self._kept.get(uid, {}).pop(node, None) is not None
        if ends:
            self._count(self._sets[uid], node, -1)
        return ends

    def _count(self, daemon: DaemonSet, node: NodeName, pods: int) -> None:
        budget = self._budgets.setdefault((daemon.namespace, node), _Budget(0.0, self._now_s))
        budget.spent_s(self._now_s)  # up to now it was open for as many as before
        budget.open += pods
        # For the missing pod
        self._usage.count(node, daemon.member_class, PodUid(f"DaemonSet {daemon.identity}"), pods)


def selects(daemon: DaemonSet, node: Node) -> bool:
    """Whether the DaemonSet's controller makes a pod for the node that can run there now."""
    return not daemon.deleting and node_allows(node, daemon.member_class.constraints)


def place_of(pod: Pod | None) -> tuple[str, NodeName] | None:
    """DaemonSet and node of a pod that counts; `None`: it is on no node, of no DaemonSet, or has ended."""
    if pod is None or not pod.daemon or pod.node is None or pod.terminal:
        return None
    return pod.daemon, pod.node
