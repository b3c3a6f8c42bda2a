"""Write why a gang waits, on its PodGroup and on one of its pods: once per reason, not once per attempt.

Why beside kube-scheduler's own FailedScheduling: that carries one constant sentence, and a pod at its gate gets none.
Rules: a reason gets an Event after it has stood for a while, again when it changes, and again after a long time, with
the numbers of then; a gang that got one also gets one when it has started. Explaining costs as much as planning
that gang, so a few are explained per look, in steps, and the rest later.
"""

from collections.abc import Callable
from dataclasses import dataclass

from extender.controllers.context import ControllerContext
from extender.controllers.events.recorder import GangEvents, Happening
from scoring.explain.gang import Explanation
from scoring.explain.waiting import NEVER, why_it_waits
from scoring.explain.words import duration_text
from scoring.ids import GangKey
from scoring.model import Gang
from scoring.model.reasons import Reason
from scoring.plan import Plan
from scoring.plan.steps import Steps

PATIENCE_S = 5.0
AGAIN_S = 1800.0
_MOST_A_LOOK = 2
_SILENT = frozenset(
    {Reason.SURPLUS, Reason.NOT_PLANNED, Reason.INVALID_GROUP, Reason.MIXED_SCHEDULERS, Reason.MIXED_PRIORITIES}
)
"""Reasons of gangs that run, or that get an Event as complaints"""


@dataclass(slots=True)
class _Wait:
    reason: Reason
    since_s: float
    """When it began to wait for this reason"""
    began_s: float
    """When it began to wait"""
    told_s: float | None = None


class Waits:
    """Each waiting gang's reason, and when its Event was written. Bounded by the gangs that exist."""

    def __init__(
        self,
        context: ControllerContext,
        events: GangEvents,
        *,
        plan: Callable[[], Plan | None],
        explain: Callable[[Gang], Steps[Explanation]],
        may_post: Callable[[], bool] = lambda: True,
    ) -> None:
        self._context = context
        self._events = events
        self._plan = plan
        """The current plan; `None`: the cluster is not read yet"""
        self._explain = explain
        self._may_post = may_post
        self._waits: dict[GangKey, _Wait] = {}

    def look(self) -> Steps[None]:
        """Once a second: write what has stood long enough, with moments for others in between.

        Cost: O(gangs), and the planning of a few.
        """
        plan = self._plan()
        if plan is None or not self._may_post():
            return
        now_s = self._context.clock.monotonic_s()
        gangs = self._context.cache.snapshot().gangs
        known, self._waits = self._waits, {}
        for key, waiting in plan.waiting.items():
            gang = gangs.get(key)
            if gang is None or not gang.own or waiting.reason in _SILENT:
                continue
            wait = known.pop(key, None)
            if wait is None:
                wait = _Wait(waiting.reason, now_s, now_s)
            elif wait.reason is not waiting.reason:
                wait.reason, wait.since_s = waiting.reason, now_s
            self._waits[key] = wait
        for key, wait in known.items():
            gang = gangs.get(key)
            if gang is not None and len(gang.placed) < gang.min_member:
                self._waits[key] = wait  # admitted, and not bound yet
            elif gang is not None and wait.told_s is not None:
                self._tell_started(gang, now_s - wait.began_s)
        yield
        yield from self._tell_waiting(now_s)

    def _tell_waiting(self, now_s: float) -> Steps[None]:
        left = _MOST_A_LOOK
        for key, wait in self._waits.items():
            due = wait.told_s is None or wait.told_s < wait.since_s or now_s - wait.told_s >= AGAIN_S
            if not due or now_s - wait.since_s < PATIENCE_S:
                continue
            if not left or not self._may_post():
                return
            snapshot, plan = self._context.cache.snapshot(), self._plan()
            gang, waiting = snapshot.gangs.get(key), plan.waiting.get(key) if plan is not None else None
            if gang is None or plan is None or waiting is None or waiting.reason is not wait.reason:
                continue  # it is otherwise by now: others had their turn
            left -= 1
            wait.told_s = now_s
            explanation = yield from self._explain(gang)
            note = why_it_waits(explanation, gang, plan, snapshot)
            if note:
                what = Happening.GANG_STUCK if wait.reason in NEVER else Happening.GANG_WAITING
                self._events.report(gang, what, note, wait.reason.name, pods=gang.pending[:1])

    def _tell_started(self, gang: Gang, waited_s: float) -> None:
        table = self._context.cache.snapshot().table
        nodes = {pod.node for pod in gang.placed if pod.node is not None and pod.node in table.index}
        zones = sorted({table.nodes[table.index[node]].zone for node in nodes})
        where = f" in zone {', '.join(zones)}" if any(zones) else ""
        note = f"{len(gang.placed)} pods have nodes{where} after {duration_text(waited_s)} of waiting."
        self._events.report(gang, Happening.GANG_STARTED, note)
