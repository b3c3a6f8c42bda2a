"""Count how long each gang waited until it started, by namespace.

Rules: by the leader alone, so that the replicas' counts add up; a gang that had started when this process began to lead
is not counted, for its former leader did; one that it admitted itself before its first look is. A wait is measured by
times of API objects, so that one that lasted over a change of leader is counted whole.
"""

from dataclasses import dataclass, field

from extender.controllers.context import ControllerContext
from extender.runtime.slices import Steps
from scoring.ids import GangKey
from scoring.model import Gang, GangSource
from scoring.plan import Plan
from scoring.plan.queue_order import namespace_of
from scoring.queue.states import has_started, running_since_s, waiting_since_s


@dataclass(eq=False, repr=False)
class WaitingTimes:
    """Every gang's wait. Bounded by the gangs that exist."""

    context: ControllerContext
    _known: dict[GangKey, tuple[Gang, bool]] | None = field(default=None, init=False)
    """gang → as it was, and whether it had started; `None`: this term has not looked yet"""
    _admitted_s: dict[GangKey, float] = field(default_factory=dict, init=False)
    """gang that the plan admits → since when, Unix seconds"""

    def plan_made(self, plan: Plan) -> None:
        """Note when gangs are admitted. Cost: O(admitted gangs)."""
        now_s, before = self.context.clock.now_s(), self._admitted_s
        for key in plan.admitted:
            before.setdefault(key, now_s)
        for key in plan.waiting:  # the admission has lapsed
            before.pop(key, None)

    def look(self) -> Steps[None]:
        """Once a second, in steps. Cost: O(gangs), and O(members) for those that changed."""
        if self.context.plan() is None or not self.context.acting():
            return
        before, known = self._known, dict[GangKey, tuple[Gang, bool]]()
        for key, gang in self.context.cache.snapshot().gangs.items():
            yield
            if not gang.own or gang.source is GangSource.NATIVE:
                continue
            old = before.get(key) if before is not None else None
            if old is not None and old[0] is gang:
                known[key] = old
                continue
            started = has_started(gang)
            known[key] = gang, started
            new = key in self._admitted_s if before is None else old is None or not old[1]
            if started and new:
                self._started(gang)
        if not self.context.acting():
            return
        for key in self._admitted_s.keys() - known.keys():
            del self._admitted_s[key]
        self._known = known

    def forget(self) -> None:
        """Know nothing, as after a restart."""
        self._known = None
        self._admitted_s.clear()

    def _started(self, gang: Gang) -> None:
        metrics, since_s = self.context.telemetry.gang_metrics, running_since_s(gang)
        until_s = self.context.clock.now_s() if since_s is None else since_s
        waiting_s = waiting_since_s(gang)
        metrics.waited(namespace_of(gang), max(until_s - (gang.created_s if waiting_s is None else waiting_s), 0.0))
        if (admitted_s := self._admitted_s.pop(gang.key, None)) is not None:
            metrics.started_after(max(until_s - admitted_s, 0.0))
