"""Which nodes are lost: deleted, or not ready for longer than `node_lost_s` (docs/safety.md S12).

Why a clock here: a node that misses one heartbeat must not cost a gang its members, and the API object does not say in
a form we keep since when it is not ready. Rule: time counts from when this process saw it; a restart counts from zero,
which errs towards patience.
"""

from collections.abc import Iterable

from extender.cache import ClusterCache
from extender.ports import Clock
from scoring.ids import NodeName
from scoring.model import Pod


class NodeHealth:
    """Since when each node is not ready. `look` is called after changes of nodes, the rest reads."""

    def __init__(self, cache: ClusterCache, clock: Clock, *, node_lost_s: float) -> None:
        self._cache = cache
        self._clock = clock
        self._node_lost_s = node_lost_s
        self._not_ready_since_s: dict[NodeName, float] = {}
        self._seen = -1
        """Version of the node table at the last look."""

    def look(self) -> None:
        """Note which nodes became ready or not ready. Cost: O(nodes) after a change of nodes, else nothing."""
        table = self._cache.snapshot().table
        if table.version == self._seen:
            return
        self._seen = table.version
        now_s = self._clock.monotonic_s()
        not_ready = [node.name for node in table.nodes if not node.ready]
        self._not_ready_since_s = {name: self._not_ready_since_s.get(name, now_s) for name in not_ready}

    def lost(self, nodes: Iterable[NodeName]) -> frozenset[NodeName]:
        """Those of `nodes` that are lost."""
        limit_s = self._clock.monotonic_s() - self._node_lost_s
        return frozenset(
            name
            for name in nodes
            if self._cache.node(name) is None or self._not_ready_since_s.get(name, limit_s + 1.0) <= limit_s
        )

    def silent(self) -> frozenset[NodeName]:
        """Nodes that exist and are lost. Cost: O(nodes that are not ready)."""
        return self.lost(name for name in self._not_ready_since_s if self._cache.node(name) is not None)

    def lost_under(self, pods: Iterable[Pod]) -> frozenset[NodeName]:
        """Lost nodes that some of these pods are on."""
        return self.lost({pod.node for pod in pods if pod.node is not None})
