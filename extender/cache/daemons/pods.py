"""On which nodes DaemonSets have pods, counted pod by pod: a rollout may have two of them on one node for a while."""

from typing import TypeAlias

from scoring.ids import NodeName
from scoring.model import Pod

Place: TypeAlias = tuple[str, NodeName]
"""The DaemonSet's identity, and the node"""


class DaemonPods:
    """Pods of DaemonSets, known or not, that are bound and have not ended."""

    def __init__(self) -> None:
        self._on: dict[NodeName, dict[str, int]] = {}
        """node → DaemonSet → its pods there"""

    def has(self, identity: str, node: NodeName) -> bool:
        """Whether the DaemonSet has a pod there."""
        return identity in self._on.get(node, ())

    def moved(self, before: Pod | None, after: Pod | None) -> tuple[Place | None, Place | None]:
        """Take over a pod's change; where the last pod of a DaemonSet went, and where one came."""
        was, now = _place(before), _place(after)
        if was == now:
            return None, None
        if now is not None:
            there = self._on.setdefault(now[1], {})
            there[now[0]] = there.get(now[0], 0) + 1
        return was if was is not None and self._last_went(*was) else None, now

    def _last_went(self, identity: str, node: NodeName) -> bool:
        there = self._on[node]
        there[identity] -= 1
        if there[identity]:
            return False
        del there[identity]
        if not there:
            del self._on[node]
        return True


def _place(pod: Pod | None) -> Place | None:
    """Where the pod counts; `None`: it is on no node, of no DaemonSet, or has ended."""
    if pod is None or not pod.daemon or pod.node is None or pod.terminal:
        return None
    return pod.daemon, pod.node
