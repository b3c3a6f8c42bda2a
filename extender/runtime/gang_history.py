"""The last decisions about each gang, for whoever asks why it is where it is.

Why beside the log: a log goes elsewhere, and /v1/explain answers from memory. Rule: bounded by the gangs that exist, a
few of those that are gone, because one that is started anew comes back, and by decisions of each; the gang of which
nothing was heard for longest is forgotten; what the log leaves out as a repeated refusal is left out here, too.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from extender.ports import Clock
from extender.runtime.decision_lines import Decision as Logged
from scoring.explain import Decision
from scoring.ids import GangKey

MOST_GANGS: Final = 5000
MOST_EACH: Final = 10
MOST_REASONS: Final = 3
"""Reasons to wait in a row: in a full cluster they take turns all the time, and must not drive out what happened"""
MOST_GONE: Final = 128
"""Gangs that are gone and kept: at the soak's rates those of the last minutes"""
_OF_PODS: Final = frozenset({"filter", "prioritize"})
"""What is answered to kube-scheduler pod by pod, which the plan explains."""
_REASON: Final = "plan"
"""What the planner says of a gang that waits."""


class Past:
    """Decisions by gang. One thread of control."""

    def __init__(self, clock: Clock, *, exists: Callable[[GangKey], object] = lambda _: True) -> None:
        self._clock = clock
        self._exists = exists
        """Whether a gang does; None or False: it is gone"""
        self._of: OrderedDict[GangKey, tuple[Decision, ...]] = OrderedDict()
        """gang → its decisions, newest first; the gang that was heard of last is the last one"""
        self._prune_at = MOST_GONE

    def heard(self, decision: Logged) -> None:
        """Keep a decision that is about a gang."""
        if not decision.gang or decision.what in _OF_PODS:
            return
        gang = GangKey(decision.gang)
        where = (
            f"{decision.pod} on {decision.node}" if decision.pod and decision.node else decision.pod or decision.node
        )
        newest = Decision(self._clock.now_s(), decision.what, decision.reason, where)
        before = self._of.get(gang, ())
        if decision.what == _REASON and [one.what for one in before[:MOST_REASONS]] == [_REASON] * MOST_REASONS:
            before = before[: MOST_REASONS - 1] + before[MOST_REASONS:]
        self._of[gang] = (newest, *before[: MOST_EACH - 1])
        self._of.move_to_end(gang)
        if len(self._of) >= self._prune_at:
            self._prune()
        if len(self._of) > MOST_GANGS:
            self._of.popitem(last=False)

    def of(self, gang: GangKey) -> tuple[Decision, ...]:
        """The last ones, newest first."""
        return self._of.get(gang, ())

    def __len__(self) -> int:
        return len(self._of)

    def _prune(self) -> None:
        """Forget all but half of `MOST_GONE` gangs that are gone. Cost: O(gangs), once in so many new ones."""
        gone = [gang for gang in self._of if not self._exists(gang)]
        for gang in gone[: max(len(gone) - MOST_GONE // 2, 0)]:
            del self._of[gang]
        self._prune_at = len(self._of) + MOST_GONE // 2
