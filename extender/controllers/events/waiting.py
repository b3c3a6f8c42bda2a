"""Write why a gang waits, on its PodGroup and on one of its pods: once per reason, not once per attempt.

Why beside kube-scheduler's own FailedScheduling: that carries one constant sentence, and a pod at its gate gets none.
Rules: a reason gets an Event after it has stood for a while, again when it changes, and again after a long time, with
the numbers of then; and when its expected start has moved by much, at most each ten minutes. A gang that got one also
gets one when it has started. Explaining costs as much as planning
that gang, so a few are explained per look, in steps, and the rest later.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from extender.controllers.context import ControllerContext
from extender.controllers.events.recorder import Happening
from scoring.explain.expected_words import expected_text
from scoring.explain.gang import Explanation
from scoring.explain.waiting import NEVER, why_it_waits
from scoring.explain.words import duration_text
from scoring.ids import GangKey
from scoring.model import Gang, Reason
from scoring.plan.expected import AnyStart, ExpectedStart
from scoring.plan.steps import Steps
from scoring.queue.admitted_condition import camel_case

PATIENCE_S = 5.0


AGAIN_S = 1800.0
MOVED_S = 600.0
MOVED_RATIO = 0.25
"""An expected start that moved by more than this share of the time until then, and than `MOVED_S`, is said again"""
_MOST_A_LOOK = 2
_SILENT = frozenset(  # Reasons of gangs that run, or that get an Event for problems of its labels
    {Reason.SURPLUS, Reason.NOT_PLANNED, Reason.INVALID_GROUP, Reason.MIXED_SCHEDULERS, Reason.MIXED_PRIORITIES}
)


@dataclass(slots=True)
class _Wait:
    reason: Reason
    since_s: float  # When it began to wait for this reason
    began_s: float  # When it began to wait
    posted_s: float | None = None
    start: ExpectedStart | None = None  # What the last Event said of its start
    note: str = ""  # What the last Event said
    cause: str = ""  # `CauseReason` of that Event


@dataclass(eq=False, repr=False)
class Waits:
    """Each waiting gang's reason, and when its Event was written. Bounded by the gangs that exist."""

    context: ControllerContext
    explain: Callable[[Gang], Steps[Explanation]]
    expected: Callable[[GangKey], AnyStart | None] = lambda _: None  # When a gang that waits starts
    _waits: dict[GangKey, _Wait] = field(default_factory=dict, init=False)

    def look(self) -> Steps[None]:
        """Once a second, in steps: write what has stood long enough. Cost: O(gangs), and the planning of a few."""
        plan = self.context.plan()
        if plan is None or not self.context.acting():
            return
        now_s = self.context.clock.monotonic_s()
        gangs = self.context.cache.snapshot().gangs
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
            elif gang is not None and wait.posted_s is not None:
                self._post_started(gang, now_s - wait.began_s)
        yield
        yield from self._post_waiting(now_s)

    def why(self, key: GangKey) -> tuple[str, str] | None:
        """The cause in CamelCase and the note of the gang's Event; `None`: it does not wait, or for that only now."""
        plan, wait = self.context.plan(), self._waits.get(key)
        if plan is None or key not in plan.waiting:
            return None
        if wait is None or wait.posted_s is None or wait.posted_s < wait.since_s:
            return None
        return wait.cause or camel_case(wait.reason), wait.note

    def _post_waiting(self, now_s: float) -> Steps[None]:
        left = _MOST_A_LOOK
        for key, wait in self._waits.items():
            due = wait.posted_s is None or wait.posted_s < wait.since_s or now_s - wait.posted_s >= AGAIN_S
            due = due or self._moved(key, wait, now_s)
            if not due or now_s - wait.since_s < PATIENCE_S:
                continue
            if not left or not self.context.acting():
                return
            snapshot, plan = self.context.cache.snapshot(), self.context.plan()
            gang, waiting = snapshot.gangs.get(key), plan.waiting.get(key) if plan is not None else None
            if gang is None or plan is None or waiting is None or waiting.reason is not wait.reason:
                continue  # it is otherwise by now: others had their turn
            left -= 1
            wait.posted_s = now_s
            explanation = yield from self.explain(gang)
            if note := why_it_waits(explanation, snapshot):
                wait.note, wait.cause = note, explanation.cause.reason if explanation.cause is not None else ""
                what = Happening.GANG_STUCK if wait.reason in NEVER else Happening.GANG_WAITING
                start, wall_s = self.expected(key), self.context.clock.now_s()
                wait.start = start if isinstance(start, ExpectedStart) else None
                if wait.start is not None:
                    said = expected_text(wait.start, now_s=wall_s, seen_from=key.partition("/")[0])
                    note = f"{note} It is {said}."
                self.context.post_gang_event(gang, what, note, wait.reason.name, pods=gang.pending[:1])

    def _moved(self, key: GangKey, wait: _Wait, now_s: float) -> bool:
        """Whether the expected start is far from what the last Event said, or is known for the first time."""
        start = self.expected(key)
        if not isinstance(start, ExpectedStart) or wait.posted_s is None or now_s - wait.posted_s < MOVED_S:
            return False
        if wait.start is None:
            return True
        left_s = start.start_s - self.context.clock.now_s()
        return abs(start.start_s - wait.start.start_s) > max(MOVED_S, MOVED_RATIO * left_s)

    def _post_started(self, gang: Gang, waited_s: float) -> None:
        table = self.context.cache.snapshot().table
        nodes = {pod.node for pod in gang.placed if pod.node is not None and pod.node in table.index}
        zones = sorted({table.nodes[table.index[node]].zone for node in nodes})
        where = f" in zone {', '.join(zones)}" if any(zones) else ""
        note = f"{len(gang.placed)} pods have nodes{where} after {duration_text(waited_s)} of waiting."
        self.context.post_gang_event(gang, Happening.GANG_STARTED, note, pods=())
