"""Find in steps which gangs leave for a waiting one by the current plan (docs/safety.md S15).

Why apart from `scoring.preempt`: looking through many sets of gangs takes longer than the loop may stand still, and the
answer is the same until there is another plan.
"""

from collections.abc import Set

from extender.ports import Clock
from extender.runtime.slices import in_slices
from extender.scheduling.planning.loop import Planner
from scoring.ids import GangKey
from scoring.plan import Plan
from scoring.preempt.candidates import Candidates
from scoring.preempt.decide import Preemption, preemption_in_steps


class Preempting:
    """The last answer, and what it is of. One question at a time."""

    def __init__(self, planner: Planner, clock: Clock) -> None:
        self._planner = planner
        self._clock = clock
        self._known: tuple[Plan, tuple[frozenset[GangKey], ...]] | None = None
        self._answer: Preemption | None = None
        self._book = Candidates()

    async def __call__(
        self, spared: Set[GangKey], passed_over: Set[GangKey], continued: Set[GangKey] = frozenset()
    ) -> Preemption | None:
        """Which gangs leave, if `spared` must stay and none leaves for `passed_over`; none before the first plan.

        Those of `continued` are looked at although room is claimed for them already.
        """
        plan, snapshot = self._planner.current, self._planner.snapshot
        if snapshot is None:
            return None
        asked = frozenset(spared), frozenset(passed_over), frozenset(continued)
        if self._known is not None and self._known[0] is plan and self._known[1] == asked:
            return self._answer
        steps = preemption_in_steps(
            snapshot,
            plan,
            self._planner.policy,
            now_s=self._clock.now_s(),
            spared=asked[0],
            passed_over=asked[1],
            continued=asked[2],
            cache=self._planner.cache,
            book=self._book,
        )
        answer = await in_slices(steps)
        self._known, self._answer = (plan, asked), answer
        return answer
