"""Which nodes are lost: deleted, or not ready for longer than `node_lost_s` (docs/safety.md S12).

Time counts from when this process saw it, so a restart errs towards patience: one missed heartbeat costs no member.
"""

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field

from extender.cache import ClusterCache
from extender.ports import Clock
from scoring.ids import NodeName
from scoring.model import Pod


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
