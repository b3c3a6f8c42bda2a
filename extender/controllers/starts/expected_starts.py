"""Keep expected starts of waiting gangs, for the queue, explanations, the page and Events.

Why kept and not computed when asked: beside 5,000 nodes 64 gangs take a second. Rule: computed again a few seconds
after the plan changed, in a thread, and never for more than a twentieth of the time.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from extender.controllers.context import ControllerContext
from extender.runtime.slices import Worker
from scoring.ids import GangKey
from scoring.plan import Plan, PlannerCache
from scoring.plan.expected_starts import ExpectedStart, expected_starts

EACH_S: Final = 5.0
_AGAIN_S: Final = 30.0
"""Without another plan: what outlives its length moves all that waits for it"""
_STRETCH: Final = 20.0


@dataclass(eq=False, repr=False)
class ExpectedStarts:
    """The starts of all gangs that wait; `run` it."""

    context: ControllerContext
    worker: Worker
    looks: int = field(default=0, init=False)  # Grows whenever they were computed
    _starts: Mapping[GangKey, ExpectedStart] = field(default_factory=dict, init=False)
    _cache: PlannerCache = field(default_factory=PlannerCache, init=False)
    _of: tuple[Plan | None, float] = field(default=(None, 0.0), init=False)  # What was computed last, and when

    def of(self, gang: GangKey) -> ExpectedStart | None:
        """When the gang is expected to start; `None`: it does not wait, or was not looked at yet."""
        return self._starts.get(gang)

    async def run(self) -> None:
        """Look at the queue until cancelled."""
        while True:
            began_s = self.context.clock.monotonic_s()
            await self.look()
            await asyncio.sleep(max(EACH_S, _STRETCH * (self.context.clock.monotonic_s() - began_s)))

    async def look(self) -> None:
        """Look once: compute again if the plan is another."""
        planner, now_s = self.context.planner, self.context.clock.now_s()
        plan, snapshot = planner.current, planner.snapshot
        before, at_s = self._of
        if snapshot is None or (plan is before and now_s - at_s < _AGAIN_S):
            return
        self._of = (plan, now_s)
        self._starts = await self.worker(
            partial(expected_starts, snapshot, plan, planner.policy, now_s=now_s, cache=self._cache)
        )
        self.looks += 1
