"""Long questions about the current plan: answered in a thread, and once for each plan (docs/safety.md S15)."""

from collections.abc import Set
from dataclasses import dataclass, field

from extender.scheduling.planning.loop import Planner
from scoring.ids import GangKey
from scoring.model.policy import Preempting as Choice
from scoring.plan import Plan
from scoring.preempt.decide import Preemption, preemption

_LEVELS_S = 5.0


@dataclass(eq=False, repr=False)
class Preempting:
    """Which gangs leave for a waiting one. One question at a time."""

    planner: Planner
    _known: tuple[Plan, tuple[frozenset[GangKey], ...], Preemption | None] | None = field(default=None, init=False)
    _until_s: float = field(default=0.0, init=False)  # So long an answer about service levels is good

    async def __call__(
        self, spared: Set[GangKey], passed_over: Set[GangKey], continued: Set[GangKey] = frozenset()
    ) -> Preemption | None:
        """Which gangs leave, if `spared` stay and none leaves for `passed_over`; `continued` have room claimed."""
        plan, snapshot = self.planner.current, self.planner.snapshot
        if snapshot is None:
            return None
        asked = frozenset(spared), frozenset(passed_over), frozenset(continued)
        now_s = self.planner.now_s
        good = self.planner.policy.preemption is not Choice.LEVELS or now_s < self._until_s
        if good and self._known is not None and self._known[0] is plan and self._known[1] == asked:
            return self._known[2]
        answer = await self.planner.ask(
            preemption,
            snapshot,
            plan,
            self.planner.policy,
            now_s=now_s,
            spared=asked[0],
            passed_over=asked[1],
            continued=asked[2],
        )
        self._known, self._until_s = (plan, asked, answer), now_s + _LEVELS_S
        return answer
