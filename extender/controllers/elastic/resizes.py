"""Send decided changes to the API server, record them and write Events; a dry run only records and writes Events.

Rule: the changes of one decision are all prepared before the first is sent, so a failure that can be foreseen costs
no job a worker; a job that could not be changed is left alone for a while.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from extender.controllers.elastic.carry import Intend, NotSent, Prepared, Sent, prepare, send
from extender.controllers.elastic.intent import Intent, next_intent
from extender.controllers.elastic.parts import Parts
from extender.controllers.elastic.records import Change, Requester, Stage
from extender.controllers.elastic.retries import Retries
from extender.controllers.events.recorder import Happening
from extender.runtime.decision_lines import Decision
from scoring.ids import GangKey
from scoring.scaling.change import Change as Decided


@dataclass(frozen=True, slots=True)
class Cause:
    """What wants a change, why, and for which gang."""

    requester: Requester
    why: str
    """A sentence for people"""
    beneficiary: GangKey | None = None


class Resizes:
    """Carries out changes, one after the other."""

    def __init__(self, parts: Parts, retries: Retries, *, may: Callable[[], bool], dry_run: bool = False) -> None:
        self._parts = parts
        self._retries = retries
        self._may = may
        """Whether anything may be changed now: asked before each patch"""
        self._dry_run = dry_run

    async def apply(
        self, changes: Sequence[Decided], cause: Cause, *, about_to: Callable[[], None] = lambda: None
    ) -> None:
        """All changes, or as few as it takes to find that not all can be made. `about_to` is called before the first.

        A patch that is refused after others took effect ends it: further jobs would give up workers for nothing.
        """
        if self._dry_run:
            for one in changes:
                self._would(one, cause)
            return
        prepared: list[Prepared] = []
        for one in changes:
            if problem := self._parts.notes.problem:
                self._failed(one, NotSent(f"no note of the change could be signed: {problem}", refused=True))
                return
            made = await self._prepared(one, self._intend(one, cause))
            if made is None:
                return
            prepared.append(made)
        if not self._may():
            return
        about_to()
        for ready in prepared:
            if not self._may() or not await self._begin(ready, cause):
                return

    async def step(self, change: Change) -> None:
        """Remove the next worker of a change whose workers leave one by one."""

        def further(last: Intent | None) -> Intent | None:
            ours = last is not None and (last.at_s, last.target) == (change.decided_s, change.after)
            return last.one_further() if ours and last is not None else None

        parts = self._parts
        if self._retries.waits(change.job, now_s=parts.clock.monotonic_s()) or not self._may():
            return
        decided = Decided(change.job, change.uid, change.wanted, change.wanted - 1)
        ready = await self._prepared(decided, further)
        if ready is None or not self._may():
            return
        note = f"From {decided.before} to {decided.after} workers, on the way to {change.after}: {change.why}"
        if await self._send(ready, note) is not None:
            parts.record(replace(change, step=_step(ready.intent), stepped_s=parts.clock.now_s()))

    def _intend(self, decided: Decided, cause: Cause) -> Intend:
        kind = self._parts.kinds[decided.job.kind]
        return partial(
            next_intent,
            before=decided.before,
            after=decided.after,
            at_s=self._parts.clock.now_s(),
            requester=cause.requester,
            why=cause.why,
            beneficiary=cause.beneficiary,
            one_by_one=kind.one_by_one,
        )

    async def _prepared(self, decided: Decided, intend: Intend) -> Prepared | None:
        parts = self._parts
        view = parts.records.views.get(decided.job)
        gang = parts.cache.gang(view.gang) if view is not None and view.gang is not None else None
        if gang is None:
            return None
        kind = parts.kinds[decided.job.kind]
        made = await prepare(parts.api, parts.disruptions, decided, kind, gang, intend, notes=parts.notes)
        if isinstance(made, NotSent):
            self._failed(decided, made)
            return None
        return made

    async def _begin(self, one: Prepared, cause: Cause) -> bool:
        """Patch one job, and record it; whether it took effect, as far as is known."""
        parts, decided = self._parts, one.decided
        note = f"From {decided.before} to {decided.after} workers: {cause.why}"
        sent = await self._send(one, note)
        if sent is None:
            return False
        stage = Stage.REMOVING if decided.removed > 0 else Stage.GROWING
        parts.record(replace(self._change(decided, cause, stage, one.intent.at_s), step=_step(one.intent)))
        if decided.removed <= 0:  # that it shrinks was announced before
            parts.post_job_event(
                one.seen, Happening.JOB_GROWN, f"{note}{' (no answer of the API server)' if sent.unsure else ''}"
            )
        return True

    async def _send(self, one: Prepared, note: str) -> Sent | None:
        sent = await send(self._parts.disruptions, one, note=note, notes=self._parts.notes)
        if isinstance(sent, NotSent):
            self._failed(one.decided, sent)
            return None
        self._retries.succeeded(one.decided.job)
        return sent

    def _failed(self, decided: Decided, result: NotSent) -> None:
        parts, now_s = self._parts, self._parts.clock.monotonic_s()
        if result.refused:
            self._retries.failed(decided.job, now_s=now_s)
        decision = Decision("resize", str(decided.job), reason=f"not sent: {result.why}")
        parts.log.log_decision(decision, now_s=now_s)
        note = f"{decided.before} to {decided.after} workers not done: {result.why}"
        parts.records.wish(decided.job, note)
        seen = parts.jobs.get(decided.job)
        if seen is not None and result.refused:
            parts.post_job_event(seen, Happening.JOB_NOT_RESIZED, f"The change from {note}")

    def _would(self, decided: Decided, cause: Cause) -> None:
        """Dry run: record what would be done and write an Event, once for each outcome."""
        parts = self._parts
        change = self._change(decided, cause, Stage.DRY_RUN, parts.clock.now_s())
        last = next(iter(reversed(parts.records.changes_of(decided.uid))), None)
        if last is not None and (last.before, last.after, last.beneficiary) == (
            change.before,
            change.after,
            change.beneficiary,
        ):
            return
        parts.record(change)
        seen = parts.jobs.get(decided.job)
        if seen is not None:
            note = f"Dry run: from {decided.before} to {decided.after} workers: {cause.why}"
            parts.post_job_event(seen, Happening.JOB_SHRUNK if change.shrinks else Happening.JOB_GROWN, note)

    def _change(self, decided: Decided, cause: Cause, stage: Stage, decided_s: float) -> Change:
        seen = self._parts.jobs.get(decided.job)
        return Change(
            job=decided.job,
            uid=decided.uid,
            before=decided.before,
            after=decided.after,
            requester=cause.requester,
            why=cause.why,
            beneficiary=cause.beneficiary,
            decided_s=decided_s,
            stage=stage,
            removed=self._parts.surplus(seen, decided.after) if seen is not None else (),
        )


def _step(intent: Intent) -> int | None:
    """Where this is a step on the way: to how many workers."""
    return intent.after if intent.target is not None else None
