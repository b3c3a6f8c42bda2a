"""Gangs that wait: when they are expected to start, why they wait (Events), and how long those that started waited.

Why an Event beside kube-scheduler's own FailedScheduling: that carries one constant sentence, and a pod at its gate
gets none. Rules: once per reason, when it has stood for a while, and again after a long time; a gang that got one also
gets one when it has started. Explaining costs as much as planning that gang, so a few are explained per look.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec

from extender.controllers.context import ControllerContext, ControlLoop
from extender.controllers.recorder import Happening
from extender.runtime.slices import Steps, Worker
from scoring import GangKey, Namespace
from scoring.explain.gang import explain, why_it_waits
from scoring.explain.words import duration_text, expected_text
from scoring.explain.zones import worst_links
from scoring.feasibility.quorum import quorum_of
from scoring.model import Gang, GangSource, Reason
from scoring.model.reasons import NEVER_STARTS
from scoring.plan import Plan, PlannerCache
from scoring.plan.expected_starts import expected_starts
from scoring.queue.states import camel_case, running_since_s, waiting_since_s
from scoring.records import ExpectedStart

EACH_S: Final = 5.0
_ANEW_S: Final = 30.0  # Without another plan: what outlives its length moves all that waits for it
_STRETCH: Final = 20.0


class ExpectedStarts(ControlLoop):
    """The starts of all gangs that wait. Computed in a thread, and never for more than a twentieth of the time.

    Why kept: beside 5,000 nodes 64 gangs take a second.
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

    def of_gang(self, gang: GangKey) -> ExpectedStart | None:
        """When the gang is expected to start; `None`: it does not wait, or was not looked at yet."""
        return self._starts.get(gang)

    async def reconcile(self) -> float | None:
        """Compute again if the plan is another; the pause that this costs."""
        planner, now_s, began_s = self.context.planner, self.context.clock.now_s(), self.context.clock.monotonic_s()
        plan, snapshot = planner.current, planner.snapshot
        before, at_s = self._of
        if snapshot is None or (plan is before and now_s - at_s < _ANEW_S):
            return None
        self._of = (plan, now_s)
        self._starts = await self._worker(
            partial(expected_starts, snapshot, plan, planner.policy, now_s=now_s, cache=self._cache)
        )
        self.looks += 1
        return _STRETCH * (self.context.clock.monotonic_s() - began_s)


class WaitingTimes(ControlLoop):
    """How long each gang waited until it started, counted by namespace. Bounded by the gangs that exist.

    By the leader alone, so that the replicas' counts add up; a gang that had started when this process began to lead is
    not counted, unless this process admitted it.
    """

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._gangs: dict[GangKey, tuple[Gang, bool]] | None = None
        """gang → as it was, and whether it had started; `None`: this term has not looked yet"""
        self._admitted_s: dict[GangKey, float] = {}  # gang that the plan admits → since when, Unix seconds

    def plan_made(self, plan: Plan) -> None:
        """Note when gangs are admitted. Cost: O(admitted gangs)."""
        now_s, before = self.context.clock.now_s(), self._admitted_s
        for key in plan.admitted:
            before.setdefault(key, now_s)
        for key in plan.waiting:  # the admission has lapsed
            before.pop(key, None)

    def reconcile(self) -> Steps[None]:
        """Count those that have started since the last look. Cost: O(gangs), and O(members) for those that changed."""
        if self.context.plan() is None:
            return
        before, after = self._gangs, dict[GangKey, tuple[Gang, bool]]()
        for key, gang in self.context.cache.snapshot().gangs.items():
            yield
            if not gang.own or gang.source is GangSource.NATIVE:
                continue
            old = before.get(key) if before is not None else None
            started = old if old is not None and old[0] is gang else (gang, gang.started or quorum_of(gang).whole)
            after[key] = started
            news = key in self._admitted_s if before is None else old is None or not old[1]
            if news and started[1]:
                since_s, waiting_s = running_since_s(gang), waiting_since_s(gang)
                until_s = self.context.clock.now_s() if since_s is None else since_s
                waited_s = until_s - (gang.created_s if waiting_s is None else waiting_s)
                self.context.telemetry.gang_waited(Namespace(key.partition("/")[0]), max(waited_s, 0.0))
                if (admitted_s := self._admitted_s.pop(key, None)) is not None:
                    self.context.telemetry.started_after(max(until_s - admitted_s, 0.0))
        if not self.context.acting():
            return
        for key in self._admitted_s.keys() - after.keys():
            del self._admitted_s[key]
        self._gangs = after

    def reset(self) -> None:
        """Know nothing, as after a restart."""
        self._gangs = None
        self._admitted_s.clear()


PATIENCE_S = 5.0
AGAIN_S = 1800.0
_MOST_A_LOOK = 2
_SILENT = {Reason.INVALID_GROUP, Reason.SURPLUS, Reason.NOT_PLANNED}  # Have an Event for their labels, run, are new


class _Wait(msgspec.Struct):
    reason: Reason
    since_s: float  # When it began to wait for this reason
    began_s: float  # When it began to wait
    posted_s: float = -math.inf
    note: str = ""  # What the last Event said
    cause: str = ""  # `CauseReason` of that Event


class WaitReasons(ControlLoop):
    """Each waiting gang's reason, and when its Event was written. Bounded by the gangs that exist."""

    def __init__(self, context: ControllerContext, expected: ExpectedStarts) -> None:
        super().__init__(context)
        self._expected = expected
        self._waits: dict[GangKey, _Wait] = {}

    async def reconcile(self) -> None:
        """Write what has stood long enough. Cost: O(gangs), and the planning of a few."""
        plan = self.context.plan()
        if plan is None:
            return
        now_s = self.context.clock.monotonic_s()
        gangs = self.context.cache.snapshot().gangs
        before, self._waits = self._waits, {}
        for key, waiting in plan.waiting.items():
            gang = gangs.get(key)
            if gang is None or not gang.own or waiting.reason in _SILENT:
                continue
            wait = before.pop(key) if key in before else _Wait(waiting.reason, now_s, now_s)
            self._waits[key] = wait
            if wait.reason is not waiting.reason:
                wait.reason, wait.since_s = waiting.reason, now_s
        started: list[tuple[Gang, str]] = []
        for key, wait in before.items():
            gang = gangs.get(key)
            if gang is not None and len(gang.placed) < gang.min_member:
                self._waits[key] = wait  # admitted, and not bound yet
            elif gang is not None and wait.posted_s > -math.inf:
                table = self.context.cache.snapshot().table
                nodes = {pod.node for pod in gang.placed if pod.node is not None and pod.node in table.index}
                zones = sorted({table.nodes[table.index[node]].zone for node in nodes})
                where = f" in zone {', '.join(zones)}" if any(zones) else ""
                waited = duration_text(now_s - wait.began_s)
                note = f"{len(gang.placed)} pods have nodes{where} after {waited} of waiting."
                started.append((gang, note))
        if started:
            planner, snapshot = self.context.planner, self.context.cache.snapshot()
            worst = await planner.ask(worst_links, snapshot, plan, [gang for gang, _ in started], planner.policy)
            for (gang, note), link in zip(started, worst, strict=True):
                note = f"{link.text[0].upper()}{link.text[1:]}. {note}" if link is not None else note
                self.context.post_gang_event(gang, Happening.GANG_STARTED, note, pods=())
        await self._post_waiting(now_s)

    def why(self, key: GangKey) -> tuple[str, str] | None:
        """The cause in CamelCase and the note of the gang's Event; `None`: it does not wait, or for that only now."""
        plan, wait = self.context.plan(), self._waits.get(key)
        if plan is None or key not in plan.waiting or wait is None or wait.posted_s < wait.since_s:
            return None
        return wait.cause or camel_case(wait.reason), wait.note

    async def _post_waiting(self, now_s: float) -> None:
        left = _MOST_A_LOOK
        for key, wait in list(self._waits.items()):
            due = wait.posted_s < wait.since_s or now_s - wait.posted_s >= AGAIN_S
            if not due or now_s - wait.since_s < PATIENCE_S:
                continue
            if not left or not self.context.acting():
                return
            snapshot, plan = self.context.cache.snapshot(), self.context.plan()
            gang, waiting = snapshot.gangs.get(key), plan.waiting.get(key) if plan is not None else None
            if gang is None or plan is None or waiting is None or waiting.reason is not wait.reason:
                continue  # it is otherwise by now: others had their turn
            left -= 1
            explanation = await self.context.planner.ask(
                explain, snapshot, plan, gang, self.context.planner.policy, now_s=self.context.clock.now_s(), closest=1
            )
            wait.posted_s = now_s  # after the question: until it is answered nobody shows an empty note
            if note := why_it_waits(explanation, snapshot):
                wait.note, wait.cause = note, explanation.cause.reason if explanation.cause is not None else ""
                what = Happening.GANG_STUCK if wait.reason in NEVER_STARTS else Happening.GANG_WAITING
                if (start := self._expected.of_gang(key)) is not None and start.start_s is not None:
                    seen_from = key.partition("/")[0]
                    note += f" It is {expected_text(start, now_s=self.context.clock.now_s(), seen_from=seen_from)}."
                self.context.post_gang_event(gang, what, note, wait.reason.name, pods=gang.pending[:1])
