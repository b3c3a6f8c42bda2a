"""Room that nodes keep for pods of DaemonSets which are still to come (docs/safety.md S12, S26).

Kept is the request of the DaemonSet's template, on each node that it selects and has no pod on, for `settle_s` from
when the pod became missing. Tenants write DaemonSets as well, and their pods may be impossible: those of one namespace
have a budget on each node, a committed place goes first (docs/safety.md S4), and work is bounded in each round.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Final, TypeAlias

import msgspec

from extender.cache.usage import Usage
from scoring.feasibility.filters import node_allows
from scoring.ids import NodeName, PodUid
from scoring.model import DaemonSet, MemberClass, Node, Pod

Key: TypeAlias = tuple[str, NodeName]  # Namespace and node
_COMES_BACK: Final = 0.1  # Seconds of budget for each second in which nothing is kept
_LOOKED_AT_A_ROUND: Final = 2_000


class _Budget(msgspec.Struct):
    used_s: float
    at_s: float  # When that was so
    open: int = 0  # DaemonSets that keep some room now

    def renew(self, now_s: float) -> None:
        passed_s = max(now_s - self.at_s, 0.0)
        self.used_s = max(self.used_s + (passed_s if self.open else -_COMES_BACK * passed_s), 0.0)
        self.at_s = now_s


class DaemonBudgets:
    """For how long DaemonSets of one namespace may keep room on one node for missing pods (docs/safety.md S26)."""

    def __init__(self, *, settle_s: float) -> None:
        self._settle_s = settle_s
        self._known: dict[Key, _Budget] = {}
        self._closed: dict[Key, None] = {}  # Nothing is kept of them now: forgotten once they are whole again

    def left_s(self, key: Key, now_s: float) -> float:
        """How long something may be kept from now on."""
        budget = self._known.get(key)
        if budget is None:
            return self._settle_s
        budget.renew(now_s)
        return self._settle_s - budget.used_s

    def open(self, key: Key, now_s: float) -> None:
        """One more DaemonSet keeps room there."""
        budget = self._known.setdefault(key, _Budget(0.0, now_s))
        budget.renew(now_s)
        budget.open += 1
        self._closed.pop(key, None)

    def close(self, key: Key, now_s: float) -> None:
        """One fewer does."""
        budget = self._known[key]
        budget.renew(now_s)
        budget.open -= 1
        if not budget.open:
            self._closed[key] = None

    def expire(self, now_s: float) -> None:
        """Forget some that are whole again. Call it now and then."""
        for key in list(islice(self._closed, _LOOKED_AT_A_ROUND)):
            del self._closed[key]
            if self.left_s(key, now_s) >= self._settle_s:
                del self._known[key]
            else:
                self._closed[key] = None


MOST_SETS: Final = 64
PAIRS_A_ROUND: Final = 5_000
ENDS_A_ROUND: Final = 2_000
_PAIRS_A_STEP: Final = 500
_FEW: Final = 500  # Young nodes that are looked at in one go, and ends that may be out of date


class KeptRoom(msgspec.Struct, frozen=True):
    """What is kept free for one DaemonSet, for people."""

    daemon_set: str  # namespace/name
    nodes: tuple[NodeName, ...]  # On which its request is kept free, sorted
    until_s: float  # When that ends on the last of them, Unix seconds; 0: it is kept on none
    overdue: int  # Nodes on which its pod was missing for longer than that: nothing is kept there any more


class Daemons:
    """DaemonSets, the nodes that have their pods, and what is kept in `usage` for those that have not."""

    def __init__(
        self, usage: Usage, nodes: Mapping[NodeName, Node], *, promised: Callable[[NodeName], bool], settle_s: float
    ) -> None:
        self._usage = usage
        self._nodes = nodes
        self._promised = promised  # Whether a place on the node is committed
        self._settle_s = settle_s
        self._now_s = float("inf")  # Of the last `expire`: before it nothing is young
        self._sets: dict[str, DaemonSet] = {}  # uid → DaemonSet
        self.names: dict[str, str] = {}  # namespace/name → uid
        self._pods: Counter[tuple[str, NodeName]] = Counter()  # uid and node → pods bound there that have not ended
        self._kept: dict[str, dict[NodeName, float]] = {}  # uid → node → until when its request is kept free there
        self._overdue: dict[str, set[NodeName]] = {}  # uid → nodes on which its pod did not come in time
        self._budgets = DaemonBudgets(settle_s=settle_s)
        self._young: dict[NodeName, float] = {}  # node → until when it is young, the oldest nodes first, about
        self._ends: list[tuple[float, str, NodeName]] = []  # A heap: (end, DaemonSet, node), some of them outdated
        self._new: dict[str, float] = {}  # uid of a new or changed one → when, until all nodes were looked at

    def kept(self) -> list[KeptRoom]:
        """What is kept and for how long, and what is not any more. Cost: O(pairs)."""
        found: list[KeptRoom] = []
        for uid, one in self._sets.items():
            nodes, overdue = self._kept.get(uid, {}), self._overdue.get(uid, ())
            if nodes or overdue:
                until_s = max(nodes.values(), default=0.0)
                found.append(KeptRoom(one.key, tuple(sorted(nodes)), until_s, len(overdue)))
        return sorted(found, key=lambda room: room.daemon_set)

    def claims(self) -> Iterator[tuple[NodeName, PodUid, MemberClass]]:
        """What is kept in `usage` now."""
        for uid, nodes in self._kept.items():
            for node in nodes:
                yield node, _stand_in(uid), self._sets[uid].member_class

    def keeps_for(self, pod: Pod, node: NodeName | None) -> bool:
        """Whether `node` keeps room free that is this pod's."""
        return node is not None and node in self._kept.get(pod.daemon, ())

    # -- what happens; each says whether room changed ----------------------------------------------------------------

    def put(self, one: DaemonSet) -> bool:
        """Take over a DaemonSet."""
        known = self._sets.get(one.identity)
        if known == one:
            return False
        same_name = self.names.get(one.key, one.identity)
        changed = self._forget(same_name)
        if known is None and sum(other.namespace == one.namespace for other in self._sets.values()) >= MOST_SETS:
            return changed
        self._sets[one.identity], self.names[one.key] = one, one.identity
        since_s = one.created_s if known is None else self._now_s
        few = list(self._young) if len(self._young) <= _FEW else []
        if since_s + self._settle_s > self._now_s or len(self._young) > _FEW:
            self._new[one.identity] = since_s
        return sum(self._begin(one, self._nodes[name], since_s) for name in few) > 0 or changed

    def drop(self, key: str) -> bool:
        """Forget a DaemonSet."""
        uid = self.names.get(key)
        return uid is not None and self._forget(uid)

    def node_changed(self, before: Node | None, after: Node | None) -> bool:
        """A node came, is another than it was, or went. Cost: O(DaemonSets)."""
        if after is None:
            name = before.name if before is not None else NodeName("")
            self._young.pop(name, None)
            return sum(self._end(uid, name) for uid in self._sets) > 0
        young_until_s = after.created_s + self._settle_s
        if young_until_s > self._now_s:
            self._young[after.name] = young_until_s
        changed = False
        for uid, one in self._sets.items():
            if after.name in self._kept.get(uid, ()):
                if not selects(one, after):
                    changed = self._end(uid, after.name) or changed
            elif before is None:
                changed = self._begin(one, after, one.created_s) or changed
            elif not selects(one, before):
                changed = self._begin(one, after, self._now_s) or changed
        return changed

    def pod_changed(self, before: Pod | None, after: Pod | None) -> bool:
        """A pod of a DaemonSet came, moved on or went."""
        left, entered = place_of(before), place_of(after)
        if left == entered:
            return False
        ended = False
        if entered is not None:
            self._pods[entered] += 1
            ended = self._end(*entered)
        if left is None:
            return ended
        self._pods[left] -= 1
        if self._pods[left]:
            return ended
        del self._pods[left]
        one, node = self._sets.get(left[0]), self._nodes.get(left[1])
        return (one is not None and node is not None and self._begin(one, node, self._now_s)) or ended

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
        self._budgets.expire(now_s)
        return ended > 0

    def look(self) -> Iterator[bool]:
        """Look at nodes for DaemonSets that came or were changed, in steps; each says whether room changed."""
        left = PAIRS_A_ROUND
        while self._new and left > 0:
            uid, since_s = next(iter(self._new.items()))
            del self._new[uid]
            names = list(self._nodes)
            for start in range(0, len(names), _PAIRS_A_STEP):
                one = self._sets.get(uid)
                some = [self._nodes[name] for name in names[start : start + _PAIRS_A_STEP] if name in self._nodes]
                left -= len(some)
                yield one is not None and sum(self._begin(one, node, since_s) for node in some) > 0

    def _begin(self, one: DaemonSet, node: Node, since_s: float) -> bool:
        """Keep the request free from now on, if a pod is missing there, and not for too long already."""
        end_s = max(since_s, node.created_s) + self._settle_s
        if end_s <= self._now_s or node.name in self._kept.get(one.identity, ()):
            return False
        if self._pods[one.identity, node.name] or not selects(one, node) or self._promised(node.name):
            return False
        key = (one.namespace, node.name)
        end_s = min(end_s, self._now_s + self._budgets.left_s(key, self._now_s))
        if end_s <= self._now_s:
            return False
        self._budgets.open(key, self._now_s)
        self._kept.setdefault(one.identity, {})[node.name] = end_s
        heappush(self._ends, (end_s, one.identity, node.name))
        self._overdue.get(one.identity, set()).discard(node.name)
        self._usage.add(node.name, _stand_in(one.identity), one.member_class)
        return True

    def _end(self, uid: str, node: NodeName) -> bool:
        """Keep nothing for it there any more; whether something was."""
        self._overdue.get(uid, set()).discard(node)
        nodes = self._kept.get(uid, {})
        if node not in nodes:
            return False
        one = self._sets[uid]
        del nodes[node]
        if not nodes:
            del self._kept[uid]
        self._budgets.close((one.namespace, node), self._now_s)
        self._usage.remove(node, _stand_in(uid), one.member_class)
        return True

    def _forget(self, uid: str) -> bool:
        one = self._sets.get(uid)
        if one is None:
            return False
        changed = sum(self._end(uid, node) for node in list(self._kept.get(uid, ()))) > 0
        for book in (self._sets, self._new, self._overdue):
            book.pop(uid, None)
        del self.names[one.key]
        return changed


def selects(one: DaemonSet, node: Node) -> bool:
    """Whether the DaemonSet's controller makes a pod for the node that can run there now."""
    return not one.deleting and node_allows(node, one.member_class.constraints)


def place_of(pod: Pod | None) -> tuple[str, NodeName] | None:
    """DaemonSet and node of a pod that counts; `None`: it is on no node, of no DaemonSet, or has ended."""
    if pod is None or not pod.daemon or pod.node is None or pod.terminal:
        return None
    return pod.daemon, pod.node


def _stand_in(uid: str) -> PodUid:
    """What stands for the missing pod in the books of room."""
    return PodUid(f"DaemonSet {uid}")
