"""Carry out what `scoring.scaling` decides about running jobs: the only place from which jobs are resized.

Rounds, each from what is true then (K7: level-triggered). Rules (docs/safety.md S1, S11): nothing is changed in the
quiet time, nor while another replica leads; one job has one change at a time; at most one gang at a time has workers
removed for it; a gang that did not use the room freed for it, or lost it to another client, is not served again before
its pods change. All changes of one decision are prepared from fresh reads before the first is sent, so a failure that
can be foreseen costs no job a worker; a job that could not be changed is left alone for a while.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from extender.controllers.context import ControlLoop
from extender.controllers.elastic.jobs import Rooms, facts_of, from_note, look_in_steps, post_unknown_kinds
from extender.controllers.elastic.kinds import KINDS, NotNow, Requester, ResizeCause, next_intent, read, resize_patch
from extender.controllers.elastic.records import ElasticParts, Records, Resize, Stage, pods_job
from extender.controllers.elastic.reports import Reports
from extender.controllers.recorder import Happening, pod_subject
from extender.controllers.removals import Cause as RemovalCause
from extender.controllers.removals import Fresh, read_job, read_members, same_as_known
from extender.errors import ApiError, ApiUnavailableError, ConflictError, NotAnnouncedError, NotFoundError
from extender.runtime.decision_lines import Decision
from extender.runtime.slices import in_slices, in_timed_slices
from scoring import GangKey, PodUid
from scoring.model import Gang, Role
from scoring.plan.result import WANTS_ROOM
from scoring.scaling.grow import adjust
from scoring.scaling.job import Change, ElasticCondition, ElasticJob, JobKey, JobRefusal, No, Scaling


class Prepared(msgspec.Struct, frozen=True):
    """A change that may be sent."""

    decided: Change
    change: Resize  # As it is once this is sent
    patch: bytes
    note: str  # What is announced
    going: tuple[Fresh, ...]  # Pods that its framework removes for it: those of the highest indexes


class _NotSentError(Exception):
    """The job is as it was; the text is for people. `refused`: trying again at once is no use."""

    def __init__(self, why: str, *, refused: bool = False) -> None:
        super().__init__(why)
        self.refused = refused


_CHANGED = "another client has changed it meanwhile"


async def prepare(parts: ElasticParts, changes: Sequence[Change], cause: ResizeCause) -> Sequence[Prepared]:
    """All changes, ready to be sent, or none if not all of them can be made."""
    prepared: list[Prepared] = []
    for change in changes:
        try:
            if (ready := await _prepare(parts, change, cause)) is not None:
                prepared.append(ready)
        except _NotSentError as error:
            _failed(parts, change, error)
            return ()
    return prepared if len(prepared) == len(changes) else ()


async def send(parts: ElasticParts, prepared: Sequence[Prepared]) -> None:
    """Patch the jobs, and record it; one refused ends it: further jobs would give up workers for nothing."""
    for ready in prepared:
        if not parts.may_change():
            return
        try:
            answered = await _patch(parts, ready)
        except _NotSentError as error:
            _failed(parts, ready.decided, error)
            return
        parts.record(ready.change)
        if ready.change.stage is Stage.GROWING:  # that it shrinks was announced before
            note = ready.note if answered else f"{ready.note} (no answer of the API server)"
            parts.context.events.post(parts.subject(ready.change), Happening.JOB_RESIZED, note, note)


async def step(parts: ElasticParts, change: Resize) -> None:
    """Remove the next worker of a change whose workers leave one by one."""
    after, view = change.intent.after, parts.records.views.get(change.job)
    if view is None or parts.context.clock.monotonic_s() < view.again_s or not parts.may_change():
        return
    decided = Change(change.job, change.uid, after, after - 1)
    try:
        ready = await _prepare(parts, decided, change)
    except _NotSentError as error:
        _failed(parts, decided, error)
    else:
        await send(parts, [ready] if ready is not None else [])


async def _prepare(parts: ElasticParts, decided: Change, of: ResizeCause | Resize) -> Prepared | None:
    """Read job and gang now, for a new change or one more step of one; `None`: the gang is gone. _NotSentError."""
    context, key, kind = parts.context, decided.job, KINDS[decided.job.kind]
    view = parts.records.views.get(key)
    if view is None or view.gang is None or (gang := context.cache.gang(view.gang.key)) is None:
        return None
    if problem := context.notes.problem:
        raise _NotSentError(f"no note of the change could be signed: {problem}", refused=True)
    going: tuple[Fresh, ...] = ()
    try:
        raw = await context.api.get_object(kind.api_version, kind.kind, key.namespace, key.name)
        seen = read(kind, raw, notes=context.notes).with_newest_note(view.seen)
        members = await read_members(context.api, gang.key, gang.source)
        if decided.removed > 0:
            workers = [worker for worker in await read_job(context.api, members) if worker.pod.role is Role.WORKER]
            alive = [(worker.pod.index, worker) for worker in workers if not worker.pod.terminal]
            going = tuple(worker for index, worker in alive if index is not None and index >= decided.after)
    except (ApiError, ApiUnavailableError, ValueError) as error:
        raise _NotSentError(f"it cannot be read: {error}", refused=not isinstance(error, NotFoundError)) from error
    last, before, after, now_s = seen.intent, decided.before, decided.after, context.clock.now_s()
    if isinstance(of, ResizeCause):
        intent = next_intent(last, cause=of, before=before, after=after, at_s=now_s, one_by_one=kind.one_by_one)
        change = Resize(key, decided.uid, intent, Stage.REMOVING if decided.removed > 0 else Stage.GROWING)
        note = f"From {before} to {after} workers: {of.why}"
    elif last is None or (last.at_s, last.target) != (of.intent.at_s, of.intent.target):
        raise _NotSentError(_CHANGED)
    else:
        change = replace(of, intent=of.intent.one_further(), stepped_s=now_s)
        note = f"From {before} to {after} workers, on the way to {of.intent.goal}: {of.intent.why}"
    if seen.uid != decided.uid or seen.workers != before:
        raise _NotSentError(_CHANGED)
    if why := seen.unsafe or seen.rests:
        raise _NotSentError(why)
    if not same_as_known(gang, members):
        raise _NotSentError("its pods are not those that were decided on")
    if (foreign := context.disruptions.foreign_among(going)) is not None:
        raise _NotSentError(f"pod {foreign.name} of it is not netgang's", refused=True)
    try:
        patch = resize_patch(kind, raw, change.intent, notes=context.notes)
    except ValueError as error:
        raise _NotSentError(str(error), refused=True) from error
    return Prepared(decided, change, patch, note, going)


async def _patch(parts: ElasticParts, ready: Prepared) -> bool:
    """Patch the job; whether the API server answered: else the watch shows if it took effect. _NotSentError."""
    disruptions, job, answered = parts.context.disruptions, parts.subject(ready.change), True
    try:
        if ready.decided.removed > 0:
            cause = RemovalCause(Happening.JOB_RESIZED, ready.note)
            await disruptions.change_owner(job, ready.patch, cause, going=ready.going)
        else:
            await disruptions.restore_owner(job, ready.patch)
    except (ConflictError, NotFoundError) as error:
        raise _NotSentError(_CHANGED if isinstance(error, ConflictError) else "it is gone") from error
    except ApiError as error:
        raise _NotSentError(f"the API server refuses: {error.message}", refused=True) from error
    except (NotAnnouncedError, ValueError) as error:
        raise _NotSentError(str(error), refused=True) from error
    except ApiUnavailableError:
        answered = False
    if (view := parts.records.views.get(ready.decided.job)) is not None:
        view.succeeded()
    return answered


def _failed(parts: ElasticParts, decided: Change, error: _NotSentError) -> None:
    parts.context.decided(Decision("resize", str(decided.job), reason=f"not sent: {error}"))
    note = f"{decided.before} to {decided.after} workers not done: {error}"
    if (view := parts.records.views.get(decided.job)) is None:
        return
    view.wish = note
    if error.refused:
        view.failed(now_s=parts.context.clock.monotonic_s(), rng=parts.rng)
        parts.post_job_event(view.seen, Happening.JOB_NOT_RESIZED, f"The change from {note}")


_OTHERS_EVERY_S = 30.0
_PAUSE_S = 0.1  # Changes of jobs and pods come in bursts; a round looks at all of them together
_AGAIN_S = 5.0  # Time alone ends cool-downs, and a job's report wakes no round
_SETTLES_S = 3.0  # After the last removed pod is gone, a gang that fits has places in the plan by then
_STRETCH = 5.0  # Pause after a look at the jobs, or a decision, in its own lengths (docs/safety.md S15)


class Elastic(ControlLoop):
    """Resizes jobs: a round each second, once all jobs are known, and after each change of a job."""

    leads_only = False

    def __init__(
        self,
        parts: ElasticParts,
        reports: Reports,
        *,
        ready: Callable[[], bool],  # Whether all jobs have been read once
        synced: Callable[[], Awaitable[None]],  # Wait until they have been
    ) -> None:
        super().__init__(parts.context)
        self.parts, self.reports, self._ready, self._synced = parts, reports, ready, synced
        self._woken = parts.jobs.changed
        self._records, self._cache, self._planner = parts.records, parts.context.cache, parts.context.planner
        self._rooms = Rooms(parts)
        self._recovered = False  # Whether this term has taken up the notes on the jobs
        self._not_before_s = 0.0  # No other pass before (monotonic)
        self._vain: object = None  # The facts that the last pass was made from, if it came to nothing
        self._vain_until_s = 0.0  # No other pass from the same facts before
        self._unused: dict[GangKey, frozenset[PodUid]] = {}  # Of unused room: gang → pods
        self._others_at_s = math.inf  # No other look for jobs of kinds we do not know before

    async def run(self) -> None:
        """Once all jobs are known, turn after turn until cancelled."""
        await self._synced()
        await super().run()

    async def reconcile(self) -> None:
        """One round, and a pause; see the module."""
        await asyncio.sleep(max(_PAUSE_S, _STRETCH * await self._round()))

    def recover(self) -> None:
        """Take up what a former process, or leader, has started; the first plan would give that room to any gang."""
        if not self._ready():  # the first round will do it
            return
        for seen in self.parts.jobs.all():
            if (change := from_note(self.parts, seen)) is not None:
                self._records.put(change)
        self._recovered = True
        self._rooms.agree_with(self._records.open_changes())

    def reset(self) -> None:
        """Know nothing of changes under way, as after a restart; the next round takes them up again."""
        self.reports.reset()
        self._rooms.agree_with(())
        self._unused.clear()
        for view in self._records.views.values():
            view.succeeded()
        now_s = self.parts.context.clock.now_s()
        for change in self._records.open_changes():
            self._records.put(replace(change, stage=Stage.OVERRULED, ended_s=now_s))
        self._recovered = False

    async def _round(self) -> float:
        """For how many seconds the look at the jobs held the loop."""
        if self._planner.snapshot is None:
            return 0.0
        _, took_s = await in_timed_slices(look_in_steps(self.parts))
        if not self.parts.context.acting():
            return took_s
        self.reports.tidy()
        now_s = self.parts.context.clock.monotonic_s()
        if now_s >= self._others_at_s:
            post_unknown_kinds(self.parts)
        if not now_s < self._others_at_s < math.inf:
            self._others_at_s = now_s + _OTHERS_EVERY_S
        if not self._recovered:
            self.recover()
        for change in self._follow():
            await step(self.parts, change)
        served, ready = self._served()
        now_s = self.parts.context.clock.monotonic_s()
        due = now_s >= self._not_before_s and (now_s >= self._vain_until_s or self._facts() != self._vain)
        if self.parts.may_change() and ready and due:
            await self._adjust(served)
        return took_s

    def _follow(self) -> Sequence[Resize]:
        """Bring each change under way up to date, and reserve room for it; those whose next worker is to leave."""
        parts, now_s = self.parts, self.parts.context.clock.now_s()
        next_ones: list[Resize] = []
        for change in self._records.open_changes():
            facts = facts_of(parts, change)
            now = facts.followed(now_s)
            if now is not change:
                parts.record(now)
                unused = now.stage is Stage.GIVEN_BACK or (now.stage is Stage.OVERRULED and facts.by_others)
                if unused and (gang := parts.beneficiary(change)) is not None:
                    self._unused[gang.key] = _uids(gang)
            elif facts.steps_on:
                next_ones.append(change)
        self._rooms.agree_with(self._records.open_changes())
        for key in [key for key, uids in self._unused.items() if _uids(self._cache.gang(key)) != uids]:
            del self._unused[key]
        return next_ones

    def _served(self) -> tuple[GangKey | None, bool]:
        """The gang for which room is being made, and whether anything may be decided.

        If all removed pods are gone and the gang still waits for room, it alone is decided on once more: a former
        process may have died, or been refused, in the middle of a plan.
        """
        opened = self._records.open_changes()
        changes = [change for change in opened if change.shrinks and change.intent.beneficiary is not None]
        if not changes:
            return None, True
        key = changes[0].intent.beneficiary
        late_s = self.parts.context.clock.now_s() - _SETTLES_S
        waiting = self._planner.current.waiting.get(key) if key is not None else None
        gone = all(change.stage is Stage.FREED and (change.gone_s or late_s) <= late_s for change in changes)
        return key, gone and waiting is not None and waiting.reason in WANTS_ROOM

    def _facts(self) -> object:
        """What decisions are made from, but for the time and what the jobs' metrics say."""
        return self._planner.current.version, self._jobs()

    def _jobs(self) -> list[ElasticJob]:
        return [view.job for view in self._records.views.values() if view.elastic]

    async def _adjust(self, served: GangKey | None) -> None:
        """One pass over all jobs, from the newest plan and its snapshot; for `served` alone, if that is a gang."""
        parts, clock, planner = self.parts, self.parts.context.clock, self._planner
        began_s = clock.monotonic_s()
        demands = await in_slices(self.reports.demands_in_steps(self._jobs()))
        jobs, snapshot = self._jobs(), planner.snapshot  # with its plan: nothing waits from here on
        if not jobs or snapshot is None or planner.unfinished:
            self._records.verdict = Scaling()
            return
        if served is not None:  # with its claim it would count as helped
            claims = {key: claim for key, claim in snapshot.claims.items() if key != served}
            snapshot = replace(snapshot, claims=claims)
        facts, policy, at_s = self._facts(), planner.policy, clock.now_s()
        asked = (snapshot, planner.current, jobs, demands, policy, parts.options)
        given, grown = await planner.ask(adjust, *asked, now_s=at_s)
        now_s = clock.monotonic_s()
        self._vain = facts if not (given.changes or grown.changes) else None
        self._not_before_s, self._vain_until_s = now_s + _STRETCH * (now_s - began_s), now_s + _AGAIN_S
        remember(self._records, given, grown)
        post_why_none_shrinks(parts, given)
        if served in (None, given.beneficiary):
            await self._shrink_for(given)
        if served is not None:
            return
        by_key = {job.key: job for job in jobs}
        for change in grown.changes:
            await send(parts, await prepare(parts, (change,), cause_of(change, by_key[change.job], demands)))

    async def _shrink_for(self, decided: Scaling) -> None:
        """Take workers away for the first waiting gang, whose room is kept from before the first of them goes."""
        key = decided.beneficiary
        if not decided.changes or key is None or key in self._unused:
            return
        views = [self._records.views.get(change.job) for change in decided.changes]
        givers = [view.gang.key for view in views if view is not None and view.gang is not None]
        lower = ", which is of a lower service level" if self.parts.options.condition is ElasticCondition.LEVELS else ""
        cause = ResizeCause(Requester.QUEUE, f"room for {key}{lower}", key)
        ready = await prepare(self.parts, decided.changes, cause)
        if not ready or not self.parts.may_change():
            return
        self._rooms.keep(key, decided.places, givers)
        await send(self.parts, ready)
        if self._served()[0] != key:
            self._rooms.release(key)


def _uids(gang: Gang | None) -> frozenset[PodUid]:
    return frozenset(pod.uid for pod in gang.members) if gang is not None else frozenset()


def remember(records: Records, given: Scaling, grown: Scaling) -> None:
    """Record why each job keeps its size, and why no job shrinks for the first waiting gang. O(jobs)."""
    records.verdict = given
    words = {refusal.job: f"keeps its size: {_words(refusal)}" for refusal in grown.refusals}
    if (gang := given.beneficiary) is not None:
        words |= {refusal.job: f"gives up nothing for {gang}: {_words(refusal)}" for refusal in given.refusals}
    for key, view in records.views.items():
        if view.job.refusal != NotNow.ATTEMPT_FAILED:  # what the API server said to it is better than that it failed
            view.wish = words.get(key, "")


def post_why_none_shrinks(parts: ElasticParts, given: Scaling) -> None:
    """An Event on the waiting gang's job, or else a pod of it, when no job shrinks for it. Cost: O(jobs)."""
    gang = parts.context.cache.gang(given.beneficiary) if given.beneficiary is not None else None
    if gang is None or given.reason not in (No.NO_JOB, No.NOT_ENOUGH, No.GIVEN_TO_OTHERS, No.TOO_WIDE):
        return
    about = pod_subject(gang.members[0])
    for seen in parts.jobs.all():
        about = parts.subject(seen) if pods_job(seen) == gang.members[0].job else about
    counts = Counter(refusal.reason.value for refusal in given.refusals)
    reasons = [f"{count} job{'s' if count > 1 else ''}: {reason}" for reason, count in sorted(counts.items())]
    detail = f" ({given.detail})" if given.detail else ""
    note = "; ".join([f"No running job gives up workers for it: {given.reason}{detail}", *reasons])
    parts.context.events.post(about, Happening.GANG_WAITING, note, f"elastic: {given.reason}")


def cause_of(change: Change, job: ElasticJob, demands: Mapping[JobKey, int]) -> ResizeCause:
    """Why a job gets fewer or more workers for its own sake."""
    if change.removed < 0 and job.grow_back_to is not None:
        return ResizeCause(Requester.QUEUE, "it gets back what it gave up")
    if change.job in demands:
        return ResizeCause(Requester.METRICS, f"its metrics ask for {demands[change.job]} workers")
    return ResizeCause(Requester.QUEUE, "there is idle room")


def _words(refusal: JobRefusal) -> str:
    return f"{refusal.reason} ({refusal.detail})" if refusal.detail else refusal.reason.value
