"""The last decisions about each gang, for whoever asks why it is where it is.

Why beside the log: a log goes elsewhere, and /v1/explain answers from memory. Rule: bounded by gangs and by decisions
of each; the gang of which nothing was heard for longest is forgotten; what the log leaves out as a repeated refusal is
left out here, too.
"""

from collections import OrderedDict, deque
from typing import Final

from extender.ports import Clock
from extender.telemetry import Decision as Logged
from scoring.explain import Decision
from scoring.ids import GangKey

MOST_GANGS: Final = 5000
MOST_EACH: Final = 10
_OF_PODS: Final = frozenset({"filter", "prioritize"})
"""What is answered to kube-scheduler pod by pod, which the plan explains."""


class Past:
    """Decisions by gang. One thread of control."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._of: OrderedDict[str, deque[Decision]] = OrderedDict()

    def heard(self, decision: Logged) -> None:
        """Keep a decision that is about a gang."""
        if not decision.gang or decision.what in _OF_PODS:
            return
        kept = self._of.setdefault(decision.gang, deque(maxlen=MOST_EACH))
        where = (
            f"{decision.pod} on {decision.node}" if decision.pod and decision.node else decision.pod or decision.node
        )
        kept.appendleft(Decision(self._clock.now_s(), decision.what, decision.reason, where))
        self._of.move_to_end(decision.gang)
        if len(self._of) > MOST_GANGS:
            self._of.popitem(last=False)

    def of(self, gang: GangKey) -> tuple[Decision, ...]:
        """The last ones, newest first."""
        return tuple(self._of.get(gang, ()))
