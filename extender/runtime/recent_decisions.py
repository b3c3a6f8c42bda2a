"""Recent decisions, kept in memory: the last ones of each gang for /v1/explain, the last changes of all for the page.

Why beside the log: log lines go elsewhere, and people ask the process. Rule: bounded by the gangs that exist, a few of
those that are gone (one that is restarted comes back), and a number of decisions of each; the gang without a decision
for longest is forgotten. What the log leaves out as a repeated refusal is left out here, too.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

import msgspec

from extender.ports import Clock
from extender.runtime.decision_lines import Decision
from scoring.explain.around import Decision as Explained
from scoring.ids import GangKey

MOST_GANGS: Final = 5000
MOST_EACH: Final = 10
MOST_REASONS: Final = 3  # Reasons to wait in a row: they alternate all the time, and must not drive out what happened
MOST_GONE: Final = 128  # Gangs that are gone and kept: at the soak's rates those of the last minutes
MOST_CHANGES: Final = 60
_OF_PODS: Final = frozenset({"filter", "prioritize"})  # Answers to kube-scheduler pod by pod, which the plan explains
_REASON: Final = "plan"  # The planner's word about a gang that waits
_ANSWERS: Final = frozenset({"filter", _REASON})  # What the queue shows for every gang; all else changes something


class Made(msgspec.Struct, frozen=True):
    """A decision and its moment, in Unix seconds."""

    at_s: float
    decision: Decision


@dataclass(eq=False, repr=False)
class RecentDecisions:
    """One thread of control."""

    clock: Clock
    _: KW_ONLY
    exists: Callable[[GangKey], object] = lambda _: True  # Whether a gang does; None or False: it is gone
    count: int = field(default=0, init=False)  # Changes so far: with another number the list is another
    _of: OrderedDict[GangKey, tuple[Made, ...]] = field(default_factory=OrderedDict, init=False)
    """gang → its decisions, newest first; the gang with the newest one is the last"""
    _changes: deque[Made] = field(default_factory=lambda: deque(maxlen=MOST_CHANGES), init=False)
    _prune_at: int = field(default=MOST_GONE, init=False)

    def add(self, decision: Decision) -> None:
        """Keep a decision. Cost: O(1), and O(gangs) once in `MOST_GONE` / 2 new gangs."""
        made = Made(self.clock.now_s(), decision)
        if decision.what not in _ANSWERS:
            self._changes.appendleft(made)
            self.count += 1
        if decision.gang and decision.what not in _OF_PODS:
            self._add_to(GangKey(decision.gang), made)

    def changes(self) -> Sequence[Made]:
        """The last decisions that changed something, newest first."""
        return tuple(self._changes)

    def of(self, gang: GangKey) -> tuple[Explained, ...]:
        """The last decisions about a gang, newest first, as they are explained."""
        return tuple(_explained(made) for made in self._of.get(gang, ()))

    def __len__(self) -> int:
        return len(self._of)

    def _add_to(self, gang: GangKey, made: Made) -> None:
        before = self._of.get(gang, ())
        in_a_row = [one.decision.what for one in before[:MOST_REASONS]] == [_REASON] * MOST_REASONS
        if made.decision.what == _REASON and in_a_row:
            before = before[: MOST_REASONS - 1] + before[MOST_REASONS:]
        self._of[gang] = (made, *before[: MOST_EACH - 1])
        self._of.move_to_end(gang)
        if len(self._of) >= self._prune_at:
            gone = [gang for gang in self._of if not self.exists(gang)]
            for each in gone[: max(len(gone) - MOST_GONE // 2, 0)]:
                del self._of[each]
            self._prune_at = len(self._of) + MOST_GONE // 2
        if len(self._of) > MOST_GANGS:
            self._of.popitem(last=False)


def _explained(made: Made) -> Explained:
    one = made.decision
    where = f"{one.pod} on {one.node}" if one.pod and one.node else one.pod or one.node
    return Explained(made.at_s, one.what, one.reason, where)
