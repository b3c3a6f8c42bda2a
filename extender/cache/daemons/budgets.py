"""For how long DaemonSets of one namespace may keep room on one node for pods that are not there (docs/safety.md S26).

A user that may create one DaemonSet may create the next, so the limit is the namespace's: `settle_s` on each node, used
up while anything is kept, coming back at a tenth of the speed. Bounded by the pairs where something was kept lately.
"""

from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

from scoring.ids import NodeName

Key: TypeAlias = tuple[str, NodeName]  # Namespace and node
_COMES_BACK: Final = 0.1  # Seconds of budget for each second in which nothing is kept
_LOOKED_AT_A_ROUND: Final = 2_000


@dataclass(slots=True)
class _Budget:
    used_s: float
    at_s: float  # When that was so
    open: int = 0  # DaemonSets that keep some room now

    def renew(self, now_s: float) -> None:
        passed_s = max(now_s - self.at_s, 0.0)
        self.used_s = max(self.used_s + (passed_s if self.open else -_COMES_BACK * passed_s), 0.0)
        self.at_s = now_s


class DaemonBudgets:
    """By namespace and node."""

    def __init__(self, *, settle_s: float) -> None:
        self._settle_s = settle_s
        self._known: dict[Key, _Budget] = {}
        self._closed: dict[Key, None] = {}  # Nothing is kept of them now: forgotten once they are whole again

    def left_s(self, key: Key, now_s: float) -> float:
        """How long something may be kept from now on."""
        budget = self._known.get(key)
        if budget is None:
            return self._settle_s
        budget.renew(now_s)
        return self._settle_s - budget.used_s

    def open(self, key: Key, now_s: float) -> None:
        """One more DaemonSet keeps room there."""
        budget = self._known.setdefault(key, _Budget(0.0, now_s))
        budget.renew(now_s)
        budget.open += 1
        self._closed.pop(key, None)

    def close(self, key: Key, now_s: float) -> None:
        """One fewer does."""
        budget = self._known[key]
        budget.renew(now_s)
        budget.open -= 1
        if not budget.open:
            self._closed[key] = None

    def expire(self, now_s: float) -> None:
        """Forget some that are whole again. Call it now and then."""
        for key in list(islice(self._closed, _LOOKED_AT_A_ROUND)):
            del self._closed[key]
            if self.left_s(key, now_s) >= self._settle_s:
                del self._known[key]
            else:
                self._closed[key] = None
