"""Write why a gang waits, on its PodGroup and on one of its pods: once per reason, not once per attempt.

Why beside kube-scheduler's own FailedScheduling: that carries one constant sentence, and a pod at its gate gets none.
Rules: a reason gets an Event after it has stood for a while, again when it changes, and again after a long time, with
the numbers of then. A gang that got one also gets one when it has started. Explaining costs as much as planning that
gang, so a few are explained per look, and the rest later.
"""

import msgspec

from extender.controllers.context import ControllerContext, ControlLoop
from extender.controllers.events.recorder import Happening
from extender.controllers.starts import ExpectedStarts
from scoring.explain.gang import NEVER, explain, why_it_waits
from scoring.explain.words import duration_text, expected_text
from scoring.ids import GangKey
from scoring.model import Gang, Reason
from scoring.queue.statuses import camel_case

PATIENCE_S = 5.0
AGAIN_S = 1800.0
_MOST_A_LOOK = 2
_SILENT = frozenset(  # Reasons of gangs that run, or that get an Event for problems of its labels
    {Reason.SURPLUS, Reason.NOT_PLANNED, Reason.INVALID_GROUP, Reason.MIXED_SCHEDULERS, Reason.MIXED_PRIORITIES}
)


class _Wait(msgspec.Struct):
    reason: Reason
    since_s: float  # When it began to wait for this reason
    began_s: float  # When it began to wait
    posted_s: float | None = None
    note: str = ""  # What the last Event said
    cause: str = ""  # `CauseReason` of that Event


class WaitReasons(ControlLoop):
    """Each waiting gang's reason, and when its Event was written. Bounded by the gangs that exist."""

    def __init__(self, context: ControllerContext, expected: ExpectedStarts) -> None:
        super().__init__(context)
        self._expected = expected
        self._waits: dict[GangKey, _Wait] = {}

    async def look(self) -> None:
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
            wait = before.pop(key, None)
            if wait is None:
                wait = _Wait(waiting.reason, now_s, now_s)
            elif wait.reason is not waiting.reason:
                wait.reason, wait.since_s = waiting.reason, now_s
            self._waits[key] = wait
        for key, wait in before.items():
            gang = gangs.get(key)
            if gang is not None and len(gang.placed) < gang.min_member:
                self._waits[key] = wait  # admitted, and not bound yet
            elif gang is not None and wait.posted_s is not None:
                self._post_started(gang, now_s - wait.began_s)
        await self._post_waiting(now_s)

    def why(self, key: GangKey) -> tuple[str, str] | None:
        """The cause in CamelCase and the note of the gang's Event; `None`: it does not wait, or for that only now."""
        plan, wait = self.context.plan(), self._waits.get(key)
        if plan is None or key not in plan.waiting:
            return None
        if wait is None or wait.posted_s is None or wait.posted_s < wait.since_s:
            return None
        return wait.cause or camel_case(wait.reason), wait.note

    async def _post_waiting(self, now_s: float) -> None:
        left = _MOST_A_LOOK
        for key, wait in list(self._waits.items()):
            due = wait.posted_s is None or wait.posted_s < wait.since_s or now_s - wait.posted_s >= AGAIN_S
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
            explanation = await self.context.planner.ask(
                explain, snapshot, plan, gang, self.context.planner.policy, now_s=self.context.clock.now_s(), closest=1
            )
            if note := why_it_waits(explanation, snapshot):
                wait.note, wait.cause = note, explanation.cause.reason if explanation.cause is not None else ""
                what = Happening.GANG_STUCK if wait.reason in NEVER else Happening.GANG_WAITING
                if (start := self._expected.of(key)) is not None and start.start_s is not None:
                    seen_from = key.partition("/")[0]
                    note += f" It is {expected_text(start, now_s=self.context.clock.now_s(), seen_from=seen_from)}."
                self.context.post_gang_event(gang, what, note, wait.reason.name, pods=gang.pending[:1])

    def _post_started(self, gang: Gang, waited_s: float) -> None:
        table = self.context.cache.snapshot().table
        nodes = {pod.node for pod in gang.placed if pod.node is not None and pod.node in table.index}
        zones = sorted({table.nodes[table.index[node]].zone for node in nodes})
        where = f" in zone {', '.join(zones)}" if any(zones) else ""
        note = f"{len(gang.placed)} pods have nodes{where} after {duration_text(waited_s)} of waiting."
        self.context.post_gang_event(gang, Happening.GANG_STARTED, note, pods=())
