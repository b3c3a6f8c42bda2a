"""Who leaves for whom by the current plan, found in steps beside everything else (S15).

Why apart from `scoring.preempt`: looking through many sets of gangs takes longer than the loop may stand still, and the
answer is the same until there is another plan.
"""

from collections.abc import Set

from extender.ports import Clock
from extender.service.planning import Planner
from extender.slices import in_slices
from scoring.ids import GangKey
from scoring.plan import Plan
from scoring.preempt import Candidates, Preemption, preemption_in_steps


class Preempting:
    """The last answer, and what it is of. One question at a time."""

    def __init__(self, planner: Planner, clock: Clock) -> None:
        self._planner = planner
        self._clock = clock
        self._known: tuple[Plan, frozenset[GangKey], frozenset[GangKey]] | None = None
        self._answer: Preemption | None = None
        self._book = Candidates()

    async def __call__(self, spared: Set[GangKey], passed_over: Set[GangKey]) -> Preemption | None:
        """Who leaves, if `spared` must stay and nobody leaves for `passed_over`; nobody before the first plan."""
        plan, snapshot = self._planner.current, self._planner.snapshot
        if snapshot is None:
            return None
        asked = plan, frozenset(spared), frozenset(passed_over)
        if self._known is not None and self._known[0] is plan and self._known[1:] == asked[1:]:
            return self._answer
        steps = preemption_in_steps(
            snapshot,
            plan,
            self._planner.policy,
            now_s=self._clock.now_s(),
            spared=asked[1],
            passed_over=asked[2],
            memo=self._planner.memo,
            book=self._book,
        )
        self._known, self._answer = asked, await in_slices(steps)
        return self._answer
