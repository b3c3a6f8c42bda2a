"""Give jobs other worker counts: read each, check that it is still the same job, announce, patch, record.

Why so careful: the patch makes an operator delete running pods. Rules (docs/safety.md S1, S11): job and pods are read
from the API server just before; whatever looks different, or a pod of another scheduler that would go, ends the
attempt; the patch names uid and resourceVersion, so an edit in between is a conflict and wins. All changes of one
decision are prepared before the first is sent, so a failure that can be foreseen costs no job a worker. Nothing is
repeated as it was: the next round decides again, and a job that could not be changed is left alone for a while
(PAPERS K7). A dry run only records and writes Events.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
from msgspec.structs import replace

from extender.controllers.elastic.elastic_context import Parts
from extender.controllers.elastic.intent import Cause, Intent, next_intent
from extender.controllers.elastic.kinds import KINDS, Seen, State, read, resize_patch
from extender.controllers.elastic.records import Change, Stage
from extender.controllers.events.recorder import Happening
from extender.controllers.removal.fresh_gang import Fresh, read_job, read_members, same_as_known
from extender.controllers.removal.removals import Cause as RemovalCause
from extender.errors import ApiError, ApiUnavailableError, ConflictError, NotAnnouncedError, NotFoundError
from extender.runtime.decision_lines import Decision
from scoring.model import Role
from scoring.scaling.change import Change as Decided

Intend = Callable[[Intent | None], Intent | None]  # Last → next one; `None`: the job is not as we left it


class _Prepared(msgspec.Struct, frozen=True):
    decided: Decided
    raw: bytes
    seen: Seen
    intent: Intent
    going: tuple[Fresh, ...]  # Pods that its framework removes for it: those of the highest indexes


class _NotSentError(Exception):
    """The job is as it was; the text is for people. `refused`: trying again at once is no use."""

    def __init__(self, decided: Decided, why: str, *, refused: bool = False) -> None:
        super().__init__(why)
        self.decided, self.refused = decided, refused


_CHANGED = "another client has changed it meanwhile"


@dataclass(eq=False, repr=False)
class Resizes:
    """Carries out changes, one after the other."""

    parts: Parts
    dry_run: bool

    async def apply(
        self, changes: Sequence[Decided], cause: Cause, *, about_to: Callable[[], None] = lambda: None
    ) -> None:
        """All changes, or as few as it takes to find that not all can be made. `about_to` is called before the first.

        A patch that is refused after others took effect ends it: further jobs would give up workers for nothing.
        """
        if self.dry_run:
            for one in changes:
                self._would(one, cause)
            return
        prepared: list[_Prepared] = []
        try:
            for one in changes:
                made = await self._prepare(one, self._intend(one, cause))
                if made is None:
                    return
                prepared.append(made)
            if self.parts.may_change():
                about_to()
            for ready in prepared:
                if not self.parts.may_change():
                    return
                await self._begin(ready, cause)
        except _NotSentError as error:
            self._failed(error)

    async def step(self, change: Change) -> None:
        """Remove the next worker of a change whose workers leave one by one."""

        def further(last: Intent | None) -> Intent | None:
            ours = last is not None and (last.at_s, last.target) == (change.intent.at_s, change.intent.target)
            return last.one_further() if ours and last is not None else None

        clock, intent = self.parts.context.clock, change.intent
        if self.parts.retries.waits(change.job, now_s=clock.monotonic_s()) or not self.parts.may_change():
            return
        decided = Decided(change.job, change.uid, intent.after, intent.after - 1)
        note = f"From {decided.before} to {decided.after} workers, on the way to {intent.goal}: {intent.why}"
        try:
            ready = await self._prepare(decided, further)
            if ready is not None and self.parts.may_change():
                await self._patch(ready, note)
                self.parts.record(replace(change, intent=ready.intent, stepped_s=clock.now_s()))
        except _NotSentError as error:
            self._failed(error)

    def _intend(self, decided: Decided, cause: Cause) -> Intend:
        return partial(
            next_intent,
            cause=cause,
            before=decided.before,
            after=decided.after,
            at_s=self.parts.context.clock.now_s(),
            one_by_one=KINDS[decided.job.kind].one_by_one,
        )

    async def _prepare(self, decided: Decided, intend: Intend) -> _Prepared | None:
        """Read job and gang now; `None`: the gang is not known any more. Errors: _NotSentError."""
        context, key, kind = self.parts.context, decided.job, KINDS[decided.job.kind]
        view = self.parts.records.views.get(key)
        gang = context.cache.gang(view.gang) if view is not None and view.gang is not None else None
        if gang is None:
            return None
        not_sent = partial(_NotSentError, decided)
        if problem := context.notes.problem:
            raise not_sent(f"no note of the change could be signed: {problem}", refused=True)
        going: tuple[Fresh, ...] = ()
        try:
            raw = await context.api.get_object(kind.api_version, kind.kind, key.namespace, key.name)
            seen = read(kind, raw, notes=context.notes)
            members = await read_members(context.api, gang.key, gang.source)
            if decided.removed > 0:
                going = _going(await read_job(context.api, members), decided.after)
        except (ApiError, ApiUnavailableError, ValueError) as error:
            raise not_sent(f"it cannot be read: {error}", refused=not isinstance(error, NotFoundError)) from error
        intent = intend(seen.intent)
        if intent is None or seen.uid != decided.uid or seen.workers != decided.before:
            raise not_sent(_CHANGED)
        if seen.unsafe is not None or seen.state is not State.ACTIVE:
            raise not_sent(seen.unsafe or f"it is {seen.state}")
        if not same_as_known(gang, members):
            raise not_sent("its pods are not those that were decided on")
        if (foreign := context.disruptions.foreign_among(going)) is not None:
            raise not_sent(f"pod {foreign.name} of it is not netgang's", refused=True)
        return _Prepared(decided, raw, seen, intent, going)

    async def _begin(self, one: _Prepared, cause: Cause) -> None:
        """Patch one job, and record it; whether it took effect, as far as is known."""
        decided = one.decided
        note = f"From {decided.before} to {decided.after} workers: {cause.why}"
        answered = await self._patch(one, note)
        stage = Stage.REMOVING if decided.removed > 0 else Stage.GROWING
        self.parts.record(self._change(decided, one.intent, stage))
        if decided.removed <= 0:  # that it shrinks was announced before
            unsure = "" if answered else " (no answer of the API server)"
            self.parts.post_job_event(one.seen, Happening.JOB_RESIZED, f"{note}{unsure}")

    async def _patch(self, one: _Prepared, note: str) -> bool:
        """Patch the job; that it shrinks is announced before. Whether the API server answered. Errors: _NotSentError.

        Without an answer the patch may or may not have taken effect: the watch shows which.
        """
        context, kind = self.parts.context, KINDS[one.decided.job.kind]
        job, answered, not_sent = self.parts.subject(one.seen), True, partial(_NotSentError, one.decided)
        try:
            patch = resize_patch(kind, one.raw, one.intent, notes=context.notes)
            if one.decided.removed > 0:
                cause = RemovalCause(Happening.JOB_RESIZED, note)
                await context.disruptions.change_owner(job, patch, cause, going=one.going)
            else:
                await context.disruptions.restore_owner(job, patch)
        except ConflictError as error:
            raise not_sent(_CHANGED) from error
        except NotFoundError as error:
            raise not_sent("it is gone") from error
        except ApiError as error:
            raise not_sent(f"the API server refuses: {error.message}", refused=True) from error
        except (NotAnnouncedError, ValueError) as error:
            raise not_sent(str(error), refused=True) from error
        except ApiUnavailableError:
            answered = False
        self.parts.retries.succeeded(one.decided.job)
        return answered

    def _failed(self, error: _NotSentError) -> None:
        parts, decided = self.parts, error.decided
        if error.refused:
            self.parts.retries.failed(decided.job, now_s=parts.context.clock.monotonic_s())
        parts.context.decided(Decision("resize", str(decided.job), reason=f"not sent: {error}"))
        note = f"{decided.before} to {decided.after} workers not done: {error}"
        parts.records.demand(decided.job, note)
        seen = parts.jobs.get(decided.job)
        if seen is not None and error.refused:
            parts.post_job_event(seen, Happening.JOB_NOT_RESIZED, f"The change from {note}")

    def _would(self, decided: Decided, cause: Cause) -> None:
        """Dry run: record what would be done and write an Event, once for each outcome."""
        parts = self.parts
        last = next((one.intent for one in reversed(parts.records.changes_of(decided.uid))), None)
        outcome = (decided.before, decided.after, cause.beneficiary)
        if last is not None and (last.before, last.after, last.beneficiary) == outcome:
            return
        intent = Intent(
            decided.before, decided.after, parts.context.clock.now_s(), cause.requester, cause.why, cause.beneficiary
        )
        parts.record(self._change(decided, intent, Stage.DRY_RUN))
        seen = parts.jobs.get(decided.job)
        if seen is not None:
            note = f"Dry run: from {decided.before} to {decided.after} workers: {cause.why}"
            parts.post_job_event(seen, Happening.JOB_RESIZED, note)

    def _change(self, decided: Decided, intent: Intent, stage: Stage) -> Change:
        seen = self.parts.jobs.get(decided.job)
        removed = self.parts.surplus(seen, decided.after) if seen is not None else ()
        return Change(decided.job, decided.uid, intent, stage, removed)


def _going(job: Sequence[Fresh], after: int) -> tuple[Fresh, ...]:
    workers = [one for one in job if one.pod.role is Role.WORKER and not one.pod.terminal]
    return tuple(one for one in workers if one.pod.index is not None and one.pod.index >= after)
