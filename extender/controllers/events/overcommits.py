"""Count nodes that two schedulers have over-committed, and write Events (docs/how-to/which-scheduler.md).

Why: no scheduler can see the Binding that another one sends in the same second, so this cannot be kept from happening
where netgang's scheduler and another share nodes; what can be done is to see it, and to say how it is avoided. Rules:
only nodes on which a pod of ours is bound; looked at after each plan, because a kubelet rejects one of the pods within
a second or two; one Event on a node in ten minutes, few at once. A pod that the kubelet rejects, repair replaces.
"""

from collections.abc import Sequence

from extender.controllers.context import ControllerContext
from extender.controllers.events.recorder import Happening, Subject
from scoring.explain.words import quantity, some
from scoring.feasibility.overcommit import Overcommit, overcommits, suspects
from scoring.ids import NodeName

SCAN_S = 0.25  # Least time between two looks at all pods: claims of pods that are not bound make nodes suspect, too
EVENTS_AT_ONCE = 10  # Nodes that get an Event after one look; all are counted


class Overcommits:
    """Nodes that are over-committed now. Bounded by the nodes that exist."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._now: frozenset[NodeName] = frozenset()  # Nodes found over-committed at the last scan
        self._scanned: tuple[object, ...] = ()  # The suspects, and all that is counted on them, at the last scan
        self._not_before_s = 0.0

    def look(self) -> None:
        """After each plan, and once a second. Cost: O(nodes × resources), and O(pods) when a suspect node changed."""
        snapshot = self._context.cache.snapshot()
        found = suspects(snapshot)
        if not found:
            self._note(())
            self._scanned = ()
            return
        rows = sorted(snapshot.table.index[name] for name in found)
        seen = (found, snapshot.used[rows].tobytes(), snapshot.table.allocatable[rows].tobytes())
        now_s = self._context.clock.monotonic_s()
        if seen == self._scanned or now_s < self._not_before_s:
            return
        # A pod whose Binding the watch has not shown yet may stand where another has gone that the watch still shows.
        pods = [pod for pod in self._context.cache.pods if pod.node in found]
        shown = [pod for pod in pods if pod.uid not in self._context.cache.pods.assumed]
        self._scanned, self._not_before_s = seen if len(shown) == len(pods) else (), now_s + SCAN_S
        over = overcommits([snapshot.table.nodes[row] for row in rows], shown)
        self._note([one for one in over if any(self._context.cache.is_own(pod) for pod in one.pods)])

    def _note(self, over: Sequence[Overcommit]) -> None:
        before, self._now = self._now, frozenset(one.node for one in over)
        new = [one for one in over if one.node not in before]
        self._context.telemetry.overcommitted(len(new))
        for one in new[:EVENTS_AT_ONCE] if self._context.acting() else ():
            node = Subject("v1", "Node", "", one.node, one.node)  # as kubelets write Events: its name for a uid
            self._context.post_event(node, Happening.NODE_OVERCOMMITTED, self._words(one), "")

    def _words(self, one: Overcommit) -> str:
        much = ", ".join(
            f"{quantity(each.resource, each.requested)} {each.resource} of {quantity(each.resource, each.allocatable)}"
            for each in one.excess
        )
        ours = some(pod.key for pod in one.pods if self._context.cache.is_own(pod))
        others = some(pod.key for pod in one.pods if not self._context.cache.is_own(pod))
        return (
            f"Its bound pods request {much}. Of netgang: {ours or 'none'}; of other schedulers: {others or 'none'}. "
            "Two schedulers have bound to it at the same moment, or it has become smaller. Its kubelet may reject a "
            "pod; a member that is lost so is replaced. Taint netgang.io/only keeps other schedulers' pods off a node."
        )
