"""Learn from kube-scheduler's node lists which nodes its other filters refuse (docs/safety.md S7).

Why: volumes, topology spread, inter-pod affinity and other plugins are not modelled, but the planned node's absence
from a request says that one of them refused it. Rules: only calls of kube-scheduler count, only for pending pods
without nominatedNodeName (such calls carry a single node), only where kube-scheduler looks at all nodes; two refusals
at least a second and at most a few minutes apart are believed, because one may be lag between its view and ours. What
one pod learns holds for its like, whatever nodes an admission has named, and so for its successor (docs/safety.md S27);
the cache forgets it after `exclusion_ttl_s`, when the node changes, or when kube-scheduler asks about it again.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence

from scoring.ids import NodeName
from scoring.model import MemberClass, Pod

APART_S = 1.0
TOGETHER_S = 300.0  # Two refusals further apart are two moments of lag, not one fact
_REMEMBERED_MAX = 10_000


class Learning:
    """First refusals that wait for their second."""

    def __init__(self, exclude: Callable[[Pod, NodeName], None], *, sees_all_nodes: bool) -> None:
        self._exclude = exclude
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
            self._exclude(pod, node)
        return True
