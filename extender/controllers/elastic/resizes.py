"""Give jobs other worker counts: read each, check that it is still the same job, announce, patch, record.

Rules (docs/safety.md S1, S11): job and pods are read just before; whatever looks different, or a pod of another
scheduler that would go, ends the attempt; the patch names uid and resourceVersion, so an edit in between wins. All
changes of one decision are prepared before the first is sent, so a failure that can be foreseen costs no job a worker.
Nothing is repeated as it was: the next round decides again, and a job that could not be changed is left alone for a
while (PAPERS K7). A dry run only records and writes Events.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
from msgspec.structs import replace

from extender.controllers.elastic.intent import Intent, ResizeCause, next_intent
from extender.controllers.elastic.kinds import KINDS, Seen, read, resize_patch
from extender.controllers.elastic.records import ElasticParts, Resize, Stage
from extender.controllers.events.recorder import Happening
from extender.controllers.removal.removals import Cause as RemovalCause
from extender.controllers.removal.removals import Fresh, read_job, read_members, same_as_known
from extender.errors import ApiError, ApiUnavailableError, ConflictError, NotAnnouncedError, NotFoundError
from extender.runtime.decision_lines import Decision
from scoring.model import Role
from scoring.scaling.job import Change


class Prepared(msgspec.Struct, frozen=True):
    """A change that may be sent."""

    decided: Change
    raw: bytes
    seen: Seen
    intent: Intent
    note: str  # What is announced
    going: tuple[Fresh, ...]  # Pods that its framework removes for it: those of the highest indexes


class _NotSentError(Exception):
    """The job is as it was; the text is for people. `refused`: trying again at once is no use."""

    def __init__(self, decided: Change, why: str, *, refused: bool = False) -> None:
        super().__init__(why)
        self.decided, self.refused = decided, refused


_CHANGED = "another client has changed it meanwhile"


@dataclass(eq=False, repr=False)
class Resizer:
    """Carries out changes, one after the other."""

    parts: ElasticParts
    dry_run: bool

    async def prepare(self, changes: Sequence[Change], cause: ResizeCause) -> Sequence[Prepared]:
        """All changes, ready to be sent, or none if not all of them can be made or a dry run makes none."""
        prepared: list[Prepared] = []
        try:
            for one in changes:
                if self.dry_run:
                    self._would(one, cause)
                elif (ready := await self._prepare(one, cause)) is not None:
                    prepared.append(ready)
        except _NotSentError as error:
            self._failed(error)
            return ()
        return prepared if len(prepared) == len(changes) else ()

    async def send(self, prepared: Sequence[Prepared]) -> None:
        """Patch the jobs, and record it; one refused ends it: further jobs would give up workers for nothing."""
        try:
            for one in prepared:
                if not self.parts.may_change():
                    return
                answered = await self._patch(one)
                stage = Stage.REMOVING if one.decided.removed > 0 else Stage.GROWING
                self.parts.record(Resize(one.decided.job, one.decided.uid, one.intent, stage))
                if stage is Stage.GROWING:  # that it shrinks was announced before
                    unsure = "" if answered else " (no answer of the API server)"
                    self.parts.post_job_event(one.seen, Happening.JOB_RESIZED, f"{one.note}{unsure}")
        except _NotSentError as error:
            self._failed(error)

    async def step(self, change: Resize) -> None:
        """Remove the next worker of a change whose workers leave one by one."""
        clock, intent, view = self.parts.context.clock, change.intent, self.parts.records.views.get(change.job)
        if view is None or clock.monotonic_s() < view.again_s or not self.parts.may_change():
            return
        decided = Change(change.job, change.uid, intent.after, intent.after - 1)
        try:
            ready = await self._prepare(decided, change)
            if ready is not None and self.parts.may_change():
                await self._patch(ready)
                self.parts.record(replace(change, intent=ready.intent, stepped_s=clock.now_s()))
        except _NotSentError as error:
            self._failed(error)

    async def _prepare(self, decided: Change, of: ResizeCause | Resize) -> Prepared | None:
        """Read job and gang now, for a new change or one more step of one; `None`: the gang is gone. _NotSentError."""
        context, key, kind = self.parts.context, decided.job, KINDS[decided.job.kind]
        view = self.parts.records.views.get(key)
        gang = context.cache.gang(view.gang.key) if view is not None and view.gang is not None else None
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
                workers = [one for one in await read_job(context.api, members) if one.pod.role is Role.WORKER]
                alive = [(one.pod.index, one) for one in workers if not one.pod.terminal]
                going = tuple(one for index, one in alive if index is not None and index >= decided.after)
        except (ApiError, ApiUnavailableError, ValueError) as error:
            raise not_sent(f"it cannot be read: {error}", refused=not isinstance(error, NotFoundError)) from error
        last = seen.intent
        if isinstance(of, ResizeCause):
            before, after, at_s = decided.before, decided.after, context.clock.now_s()
            intent = next_intent(last, cause=of, before=before, after=after, at_s=at_s, one_by_one=kind.one_by_one)
            note = f"From {before} to {after} workers: {of.why}"
        elif last is None or (last.at_s, last.target) != (of.intent.at_s, of.intent.target):
            raise not_sent(_CHANGED)
        else:
            intent, way = last.one_further(), f"on the way to {of.intent.goal}: {of.intent.why}"
            note = f"From {decided.before} to {decided.after} workers, {way}"
        if seen.uid != decided.uid or seen.workers != decided.before:
            raise not_sent(_CHANGED)
        if why := seen.unsafe or seen.rests:
            raise not_sent(why)
        if not same_as_known(gang, members):
            raise not_sent("its pods are not those that were decided on")
        if (foreign := context.disruptions.foreign_among(going)) is not None:
            raise not_sent(f"pod {foreign.name} of it is not netgang's", refused=True)
        return Prepared(decided, raw, seen, intent, note, going)

    async def _patch(self, one: Prepared) -> bool:
        """Patch the job; whether the API server answered: else the watch shows if it took effect. _NotSentError."""
        context, kind = self.parts.context, KINDS[one.decided.job.kind]
        job, answered, not_sent = self.parts.subject(one.seen), True, partial(_NotSentError, one.decided)
        try:
            patch = resize_patch(kind, one.raw, one.intent, notes=context.notes)
            if one.decided.removed > 0:
                cause = RemovalCause(Happening.JOB_RESIZED, one.note)
                await context.disruptions.change_owner(job, patch, cause, going=one.going)
            else:
                await context.disruptions.restore_owner(job, patch)
        except (ConflictError, NotFoundError) as error:
            raise not_sent(_CHANGED if isinstance(error, ConflictError) else "it is gone") from error
        except ApiError as error:
            raise not_sent(f"the API server refuses: {error.message}", refused=True) from error
        except (NotAnnouncedError, ValueError) as error:
            raise not_sent(str(error), refused=True) from error
        except ApiUnavailableError:
            answered = False
        if (view := self.parts.records.views.get(one.decided.job)) is not None:
            view.succeeded()
        return answered

    def _failed(self, error: _NotSentError) -> None:
        parts, decided = self.parts, error.decided
        parts.context.decided(Decision("resize", str(decided.job), reason=f"not sent: {error}"))
        note = f"{decided.before} to {decided.after} workers not done: {error}"
        if (view := parts.records.views.get(decided.job)) is None:
            return
        view.wish = note
        if error.refused:
            view.failed(now_s=parts.context.clock.monotonic_s(), rng=parts.rng)
            parts.post_job_event(view.seen, Happening.JOB_NOT_RESIZED, f"The change from {note}")

    def _would(self, decided: Change, cause: ResizeCause) -> None:
        """Dry run: record what would be done and write an Event, once for each outcome."""
        parts = self.parts
        last = next((one.intent for one in reversed(parts.records.changes_of(decided.uid))), None)
        outcome = (decided.before, decided.after, cause.beneficiary)
        if last is not None and (last.before, last.after, last.beneficiary) == outcome:
            return
        before, after, at_s = decided.before, decided.after, parts.context.clock.now_s()
        intent = next_intent(None, cause=cause, before=before, after=after, at_s=at_s)
        parts.record(Resize(decided.job, decided.uid, intent, Stage.DRY_RUN))
        if (seen := parts.jobs.get(decided.job)) is not None:
            note = f"Dry run: from {before} to {after} workers: {cause.why}"
            parts.post_job_event(seen, Happening.JOB_RESIZED, note)
