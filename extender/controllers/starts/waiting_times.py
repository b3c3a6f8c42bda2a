"""Count how long each gang waited and how its wait ended, by namespace.

Rules: by the leader alone, so that the replicas' counts add up; a gang that had started when this process began to lead
is not counted, for its former leader did; one that it admitted itself before its first look is. A wait is measured by
times of API objects, so that one that lasted over a change of leader is counted whole. What ends between two leaders
is not counted.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from extender.controllers.context import ControllerContext
from scoring.ids import GangKey
from scoring.model import Gang, GangSource, Reason
from scoring.plan import Plan
from scoring.plan.namespace_quota import namespace_of
from scoring.queue.states import running_since_s, waiting_since_s
from scoring.queue.wait_outcomes import has_started, outcome_of, waited_s

_GANGS_A_STEP: Final = 64


@dataclass(slots=True)
class _Known:
    gang: Gang
    started: bool
    waits: Gang  # As it was when it had all its pods last: pods of a job that is deleted go one by one
    reason: Reason | None = None  # For which that waited last


@dataclass(eq=False, repr=False)
class WaitingTimes:
    """Every gang's wait. Bounded by the gangs that exist."""

    context: ControllerContext
    on_start: Callable[[GangKey], None] = lambda _: None  # Called once for each start
    _known: dict[GangKey, _Known] | None = field(default=None, init=False)  # `None`: this term has not looked yet
    _admitted_s: dict[GangKey, float] = field(default_factory=dict, init=False)
    """gang that the plan admits → since when, Unix seconds"""

    def plan_made(self, plan: Plan) -> None:
        """Note when gangs are admitted. Cost: O(admitted gangs)."""
        now_s, before = self.context.clock.now_s(), self._admitted_s
        for key in plan.admitted:
            before.setdefault(key, now_s)
        for key in plan.waiting:  # the admission has lapsed
            before.pop(key, None)

    def look(self) -> Iterator[None]:
        """Once a second, in steps. Cost: O(gangs), and O(members) for those that changed."""
        plan = self.context.plan()
        if plan is None or not self.context.acting():
            return
        first, before = self._known is None, self._known or {}
        known: dict[GangKey, _Known] = {}
        gangs = self.context.cache.snapshot().gangs
        for number, (key, gang) in enumerate(gangs.items(), start=1):
            if number % _GANGS_A_STEP == 0:
                yield
            if not gang.own or gang.source is GangSource.NATIVE:
                continue
            old, waiting = before.get(key), plan.waiting.get(key)
            if old is not None and old.gang is gang:
                one = old
            else:
                one = _Known(gang, has_started(gang), gang)
                if old is not None and waiting_since_s(gang) is None:
                    one.waits, one.reason = old.waits, old.reason
                new = key in self._admitted_s if first else old is None or not old.started
                if one.started and new:
                    self._started(gang)
            if waiting is not None and one.waits is gang:
                one.reason = waiting.reason
            known[key] = one
        if not self.context.acting():
            return
        for key, old in before.items():
            if key not in known and not old.started:
                self._deleted(old)
        for key in self._admitted_s.keys() - known.keys():
            del self._admitted_s[key]
        self._known = known

    def forget(self) -> None:
        """Know nothing, as after a restart."""
        self._known = None
        self._admitted_s.clear()

    def _started(self, gang: Gang) -> None:
        self.on_start(gang.key)
        metrics, since_s = self.context.telemetry.gang_metrics, running_since_s(gang)
        until_s = self.context.clock.now_s() if since_s is None else since_s
        metrics.waited(namespace_of(gang), outcome_of(gang, None).value, waited_s(gang, until_s=until_s))
        if (admitted_s := self._admitted_s.pop(gang.key, None)) is not None:
            metrics.started_after(max(until_s - admitted_s, 0.0))

    def _deleted(self, old: _Known) -> None:
        outcome, until_s = outcome_of(old.waits, old.reason), self.context.clock.now_s()
        metrics = self.context.telemetry.gang_metrics
        metrics.waited(namespace_of(old.waits), outcome.value, waited_s(old.waits, until_s=until_s))
