"""What is known of starts: when waiting gangs are expected to start, and how long those that started had waited."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from extender.controllers.context import ControllerContext, ControlLoop
from extender.runtime.slices import Steps, Worker
from scoring.ids import GangKey
from scoring.model import Gang, GangSource
from scoring.plan import Plan, PlannerCache
from scoring.plan.expected_starts import ExpectedStart, expected_starts
from scoring.plan.queue_order import namespace_of
from scoring.queue.states import has_started, running_since_s, waiting_since_s

EACH_S: Final = 5.0
_AGAIN_S: Final = 30.0
"""Without another plan: what outlives its length moves all that waits for it"""
_STRETCH: Final = 20.0


class ExpectedStarts(ControlLoop):
    """The starts of all gangs that wait, for the queue, explanations, the page and Events.

    Why kept and not computed when asked: beside 5,000 nodes 64 gangs take a second. Rule: computed again a few seconds
    after the plan changed, in a thread, and never for more than a twentieth of the time.
    """

    every_s = EACH_S
    leads_only = False

    def __init__(self, context: ControllerContext, worker: Worker) -> None:
        super().__init__(context)
        self._worker = worker
        self.looks = 0  # Grows whenever they were computed
        self._starts: Mapping[GangKey, ExpectedStart] = {}
        self._cache = PlannerCache()
        self._of: tuple[Plan | None, float] = (None, 0.0)  # What was computed last, and when

    def of(self, gang: GangKey) -> ExpectedStart | None:
        """When the gang is expected to start; `None`: it does not wait, or was not looked at yet."""
        return self._starts.get(gang)

    async def look(self) -> float | None:
        """Compute again if the plan is another; the pause that this costs."""
        planner, now_s, began_s = self.context.planner, self.context.clock.now_s(), self.context.clock.monotonic_s()
        plan, snapshot = planner.current, planner.snapshot
        before, at_s = self._of
        if snapshot is None or (plan is before and now_s - at_s < _AGAIN_S):
            return None
        self._of = (plan, now_s)
        self._starts = await self._worker(
            partial(expected_starts, snapshot, plan, planner.policy, now_s=now_s, cache=self._cache)
        )
        self.looks += 1
        return _STRETCH * (self.context.clock.monotonic_s() - began_s)


class WaitingTimes(ControlLoop):
    """How long each gang waited until it started, counted by namespace. Bounded by the gangs that exist.

    Rules: by the leader alone, so that the replicas' counts add up; a gang that had started when this process began to
    lead is not counted, for its former leader did; one that it admitted itself before its first look is. A wait is
    measured by times of API objects, so that one that lasted over a change of leader is counted whole.
    """

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._gangs: dict[GangKey, tuple[Gang, bool]] | None = None
        """gang → as it was, and whether it had started; `None`: this term has not looked yet"""
        self._admitted_s: dict[GangKey, float] = {}
        """gang that the plan admits → since when, Unix seconds"""

    def plan_made(self, plan: Plan) -> None:
        """Note when gangs are admitted. Cost: O(admitted gangs)."""
        now_s, before = self.context.clock.now_s(), self._admitted_s
        for key in plan.admitted:
            before.setdefault(key, now_s)
        for key in plan.waiting:  # the admission has lapsed
            before.pop(key, None)

    def look(self) -> Steps[None]:
        """Count those that have started since the last look. Cost: O(gangs), and O(members) for those that changed."""
        if self.context.plan() is None:
            return
        before, after = self._gangs, dict[GangKey, tuple[Gang, bool]]()
        for key, gang in self.context.cache.snapshot().gangs.items():
            yield
            if not gang.own or gang.source is GangSource.NATIVE:
                continue
            old = before.get(key) if before is not None else None
            if old is not None and old[0] is gang:
                after[key] = old
                continue
            started = has_started(gang)
            after[key] = gang, started
            new = key in self._admitted_s if before is None else old is None or not old[1]
            if started and new:
                self._started(gang)
        if not self.context.acting():
            return
        for key in self._admitted_s.keys() - after.keys():
            del self._admitted_s[key]
        self._gangs = after

    def forget(self) -> None:
        """Know nothing, as after a restart."""
        self._gangs = None
        self._admitted_s.clear()

    def _started(self, gang: Gang) -> None:
        metrics, since_s = self.context.telemetry.gang_metrics, running_since_s(gang)
        until_s = self.context.clock.now_s() if since_s is None else since_s
        waiting_s = waiting_since_s(gang)
        metrics.waited(namespace_of(gang), max(until_s - (gang.created_s if waiting_s is None else waiting_s), 0.0))
        if (admitted_s := self._admitted_s.pop(gang.key, None)) is not None:
            metrics.started_after(max(until_s - admitted_s, 0.0))
