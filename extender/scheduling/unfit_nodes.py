"""Which nodes will not do: lost ones, and those that kube-scheduler's other filters refuse (docs/safety.md S7, S12).

Lost: deleted, or not ready for `node_lost_s`, counted from when this process saw it. Refused: the planned node is
absent from a request. Only for pending pods without nominatedNodeName (such calls carry a single node), only where
kube-scheduler looks at all nodes; two refusals at least a second and at most minutes apart are believed, because one
may be lag. It holds for the pod's like, and so for its successor (docs/safety.md S27).
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field

from extender.cache import ClusterCache
from extender.ports import Clock
from scoring.ids import NodeName
from scoring.model import MemberClass, Pod


@dataclass(eq=False, repr=False)
class NodeHealth:
    """Since when each node is not ready. `look` is called after changes of nodes, the rest reads."""

    cache: ClusterCache
    clock: Clock
    _: KW_ONLY
    node_lost_s: float
    _not_ready_since_s: dict[NodeName, float] = field(default_factory=dict, init=False)
    _seen: int = field(default=-1, init=False)

    def look(self) -> None:
        """Note which nodes became ready or not ready. Cost: O(nodes) after a change of nodes, else nothing."""
        table = self.cache.snapshot().table
        if table.version == self._seen:
            return
        self._seen = table.version
        now_s = self.clock.monotonic_s()
        not_ready = [node.name for node in table.nodes if not node.ready]
        self._not_ready_since_s = {name: self._not_ready_since_s.get(name, now_s) for name in not_ready}

    def lost(self, nodes: Iterable[NodeName]) -> frozenset[NodeName]:
        """Those of `nodes` that are lost."""
        limit_s = self.clock.monotonic_s() - self.node_lost_s
        return frozenset(
            name
            for name in nodes
            if self.cache.node(name) is None or self._not_ready_since_s.get(name, limit_s + 1.0) <= limit_s
        )

    def silent(self) -> frozenset[NodeName]:
        """Nodes that exist and are lost. Cost: O(nodes that are not ready)."""
        return self.lost(name for name in self._not_ready_since_s if self.cache.node(name) is not None)

    def lost_under(self, pods: Iterable[Pod]) -> frozenset[NodeName]:
        """Lost nodes that some of these pods are on."""
        return self.lost({pod.node for pod in pods if pod.node is not None})


APART_S = 1.0
TOGETHER_S = 300.0  # Two refusals further apart are two moments of lag, not one fact
_REMEMBERED_MAX = 10_000


class Learning:
    """First refusals that wait for their second."""

    def __init__(self, cache: ClusterCache, clock: Clock, *, ttl_s: float, sees_all_nodes: bool) -> None:
        self._cache, self._clock, self._ttl_s = cache, clock, ttl_s
        self._sees_all_nodes = sees_all_nodes
        self._first: OrderedDict[tuple[MemberClass, NodeName], float] = OrderedDict()

    def refused(
        self, pod: Pod, planned: NodeName, asked: Sequence[NodeName], *, absent: Sequence[NodeName] = (), now_s: float
    ) -> bool:
        """The planned node was not asked, nor were `absent` ones with room; whether nodes are excluded now."""
        if not self._sees_all_nodes or pod.nominated_node is not None or not asked:
            return False
        key = (pod.member_class.anywhere, planned)
        first_s = self._first.get(key)
        if first_s is None or now_s - first_s > TOGETHER_S:
            self._first[key] = now_s
            self._first.move_to_end(key)
            if len(self._first) > _REMEMBERED_MAX:
                self._first.popitem(last=False)
            return False
        if now_s - first_s < APART_S:
            return False
        del self._first[key]
        for node in {planned, *absent}:
            by = pod.group.key if pod.group is not None else None
            self._cache.exclude(pod.member_class, node, self._clock.now_s() + self._ttl_s, by=by)
        return True
