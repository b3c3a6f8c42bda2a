"""The last decisions, for people who look at the page: what happened, to whom, why.

Why not from the log: a log goes elsewhere, and a page must show the last minutes at once. Rule: a bounded number is
kept, the newest first; what the log leaves out as a repeated refusal is left out here, too.
"""

from collections import deque
from typing import Any, Final

from extender.ports import Clock
from extender.runtime.decision_lines import Decision

Document = dict[str, Any]

MOST: Final = 60
_ANSWERS: Final = frozenset({"filter", "plan"})
"""Answers and reasons, which the queue shows for every gang; all else changes something."""


class Recent:
    """The last decisions that changed something."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: deque[tuple[float, Decision]] = deque(maxlen=MOST)
        self.count = 0
        """Decisions heard so far: it changes when the list does."""

    def heard(self, decision: Decision) -> None:
        """Keep it if it is one that changed something."""
        if decision.what not in _ANSWERS:
            self._kept.appendleft((self._clock.now_s(), decision))
            self.count += 1

    def documents(self) -> list[Document]:
        """Newest first."""
        return [
            {"at_s": at_s, "what": one.what, "gang": one.gang, "pod": one.pod, "node": one.node, "reason": one.reason}
            for at_s, one in self._kept
        ]
