"""Keep expected starts of waiting gangs, and how often their intervals were right.

Why kept and not computed when asked: beside 5,000 nodes 64 gangs take seconds, and the queue, the page and Events show
the same. Rules: computed again a few seconds after the plan changed, in slices, and never for more than a twentieth of
the time; a start that moved by little stays as it was shown, so nothing is written or sent again for it. Of each gang
the first interval counts, by the leader alone: inside, early or late, and late as soon as the interval is over. Bounded
by the gangs that exist.
"""

import asyncio
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

from extender.controllers.context import ControllerContext
from extender.runtime.length_metrics import LengthMetrics
from extender.runtime.slices import in_timed_slices
from scoring.ids import GangKey
from scoring.model import Policy, Snapshot
from scoring.plan import Plan, PlannerCache
from scoring.plan.expected import AnyStart, Calibration, ExpectedStart, FirstIntervals, Result, expected_starts_in_steps
from scoring.plan.steps import Steps
from scoring.queue.states import running_since_s
from scoring.queue.wait_outcomes import has_started

EACH_S: Final = 5.0
_AGAIN_S: Final = 30.0
"""Without another plan: what outlives its length moves all that waits for it"""
_STRETCH: Final = 20.0
_NEWS_S: Final = 30.0
_NEWS_RATIO: Final = 0.1
"""A start that moved by less than this share of the time until then, and than `_NEWS_S`, has not moved"""


@dataclass(eq=False, repr=False)
class ExpectedStarts:
    """The starts of all gangs that wait; `run` it."""

    context: ControllerContext
    policy: Policy
    metrics: LengthMetrics
    _: KW_ONLY
    planned: Callable[[], tuple[Snapshot, Plan] | None]  # The current plan and what it was made from
    first: FirstIntervals = field(default_factory=FirstIntervals)  # Its calibration outlives a restart: lengths.keeper
    news: int = field(default=0, init=False)
    """Grows whenever something else is shown"""
    _shown: dict[GangKey, AnyStart] = field(default_factory=dict, init=False)
    _cache: PlannerCache = field(default_factory=PlannerCache, init=False)
    _of: tuple[Plan | None, float] = field(default=(None, 0.0), init=False)  # What was computed last, and when

    def of(self, gang: GangKey) -> AnyStart | None:
        """When the gang is expected to start; `None`: it does not wait, or was not looked at yet."""
        return self._shown.get(gang)

    @property
    def calibration(self) -> Calibration:
        """How often intervals were right."""
        return self.first.calibration

    async def run(self) -> None:
        """Look at the queue until cancelled."""
        while True:
            _, spent_s = await in_timed_slices(self.look())
            await asyncio.sleep(max(EACH_S, _STRETCH * spent_s))

    def look(self) -> Steps[None]:
        """Look once, in steps: count what has started, and compute again if the plan is another."""
        planned, now_s = self.planned(), self.context.clock.now_s()
        if planned is None:
            return
        snapshot, plan = planned
        if self.context.acting():
            self._count(snapshot, plan, now_s)
        before, at_s = self._of
        if plan is before and now_s - at_s < _AGAIN_S:
            return
        self._of = (plan, now_s)
        asked = (snapshot, plan, self.policy)
        found = yield from expected_starts_in_steps(
            *asked, now_s=now_s, calibration=self.calibration, cache=self._cache
        )
        self._show(found, now_s)
        if self.context.acting():
            self.first.given(found)

    def forget(self) -> None:
        """Count nothing that the former leader has counted."""
        self.first.clear()

    def _show(self, found: dict[GangKey, AnyStart], now_s: float) -> None:
        shown = {key: _as_shown(self._shown.get(key), one, now_s) for key, one in found.items()}
        if shown != self._shown:
            self._shown = shown
            self.news += 1

    def _count(self, snapshot: Snapshot, plan: Plan, now_s: float) -> None:
        """Of gangs with an interval: those that have started, or have waited for longer than it lasts."""
        results: list[Result] = []
        for key in self.first.gangs:
            gang = snapshot.gangs.get(key)
            if gang is None:
                self.first.forget(key)
            elif has_started(gang):
                since_s = running_since_s(gang)
                results.extend(filter(None, [self.first.started(key, now_s if since_s is None else since_s)]))
        results.extend(Result.LATE for _ in self.first.overdue(plan.waiting.keys(), now_s))
        for result in results:
            self.metrics.started(result)
            self.news += 1


def _as_shown(before: AnyStart | None, now: AnyStart, now_s: float) -> AnyStart:
    """What is shown of it: as before, if it moved by little."""
    if not isinstance(before, ExpectedStart) or not isinstance(now, ExpectedStart):
        return now
    if (before.after, before.zone, before.promised) != (now.after, now.zone, now.promised) or before.start_s < now_s:
        return now
    little_s = max(_NEWS_S, _NEWS_RATIO * (now.start_s - now_s))
    pairs = ((before.start_s, now.start_s), (before.low_s, now.low_s), (before.high_s, now.high_s))
    return before if all(abs(one_s - other_s) <= little_s for one_s, other_s in pairs) else now
