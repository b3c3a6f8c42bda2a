"""Long questions about the current plan: answered in steps, and once for each plan (docs/safety.md S15).

Why apart from `scoring`: they are asked again and again, once a second or before every removal, and the answer is the
same until there is another plan.
"""

from collections.abc import Iterator, Mapping, Set

from extender.ports import Clock
from extender.runtime.slices import in_slices
from extender.scheduling.planning.loop import Planner
from scoring.ids import GangKey, PodUid
from scoring.plan import Plan
from scoring.preempt.candidates import Candidates
from scoring.preempt.decide import Preemption, preemption_in_steps
from scoring.repair.stranded_pods import Loss, stranded_in_steps

_Losses = Mapping[GangKey, Mapping[PodUid, Loss]]


class Preempting:
    """Which gangs leave for a waiting one. One question at a time."""

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


class Stranding:
    """Which pods are stranded by the plan."""

    def __init__(self, planner: Planner, clock: Clock) -> None:
        self._planner = planner
        self._clock = clock
        self._plan: Plan | None = None
        """That of the last answer"""
        self._losses: _Losses = {}

    def __call__(self) -> _Losses:
        """Stranded members by gang; none before the first plan."""
        for _ in self.look():
            pass
        return self._losses

    def look(self) -> Iterator[None]:
        """Find the answer of the current plan before it is asked for, with a moment for others in between."""
        plan, snapshot = self._planner.current, self._planner.snapshot
        if snapshot is not None and self._plan is not plan:
            policy, now_s = self._planner.policy, self._clock.now_s()
            found = yield from stranded_in_steps(snapshot, plan, policy, now_s=now_s, cache=self._planner.cache)
            self._plan, self._losses = plan, found
