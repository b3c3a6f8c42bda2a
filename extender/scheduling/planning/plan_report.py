"""Report to the log and the metrics what each new plan decided, a few gangs at a time.

Why not at once: a plan can admit hundreds of gangs, or change the reason of a thousand that wait, and a hundred lines
of the log take more than all else in the slice that ends a run (docs/safety.md S15).
Rule: every plan is reported, in the order they were made, and the gangs of each in the plan's order.
"""

import asyncio
from collections import deque
from collections.abc import Iterator

from extender.ports import Clock
from extender.runtime.decision_lines import Decision, DecisionLog
from extender.runtime.slices import next_slice
from extender.runtime.telemetry import Telemetry
from scoring.plan import Plan

_LINES_A_STEP = 8
_PLANS = 8  # Plans that may wait for their report; the oldest is reported at once when there is one more


class PlanReport:
    """What is still to be reported. Bounded by `_PLANS` plans."""

    def __init__(self, telemetry: Telemetry, log: DecisionLog, clock: Clock) -> None:
        self._telemetry = telemetry
        self._log = log
        self._clock = clock
        self._left: deque[Iterator[Decision]] = deque()
        self._any = asyncio.Event()

    def made(self, before: Plan, now: Plan, *, took_s: float) -> None:
        """A plan took the place of `before`: count it now, and report what is new in it soon."""
        self._telemetry.planned(took_s)
        self._telemetry.gangs({"admitted": len(now.admitted), "waiting": len(now.waiting)})
        self._left.append(_news(before, now, took_s))
        while len(self._left) > _PLANS:
            self._write_lines()
        self._any.set()

    def finish(self) -> None:
        """Report all that is left at once."""
        while self._left:
            self._write_lines()

    async def run(self) -> None:
        """Report until cancelled, with a moment for others after every few lines."""
        try:
            while True:
                await self._any.wait()
                self._any.clear()
                while self._left:
                    self._write_lines()
                    await next_slice()
        finally:
            self.finish()

    def _write_lines(self) -> None:
        news = self._left[0]
        for _ in range(_LINES_A_STEP):
            if (decision := next(news, None)) is None:
                self._left.popleft()
                return
            self._log.log_decision(decision, now_s=self._clock.monotonic_s())


def _news(before: Plan, now: Plan, took_s: float) -> Iterator[Decision]:
    """What `now` decides otherwise than `before`: which gangs it admits, and which have another reason to wait."""
    for key, admission in now.admitted.items():
        if key not in before.admitted:
            yield Decision(
                what="admit",
                gang=key,
                node=",".join(sorted(set(admission.members.values()))[:16]),
                parts={"score": admission.score} if admission.score is not None else {},
                snapshot_version=now.version,
                duration_ms=took_s * 1000.0,
            )
    for key, waiting in now.waiting.items():
        old = before.waiting.get(key)
        if old is not waiting and (old is None or old.reason is not waiting.reason):
            yield Decision(what="plan", gang=key, reason=waiting.reason, snapshot_version=now.version)
