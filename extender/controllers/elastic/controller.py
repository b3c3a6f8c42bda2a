"""Carry out what `scoring.scaling` decides about running jobs: the only place from which jobs are resized.

Rounds, each from what is true then (K7: level-triggered): look at every job; take up changes of a former process from
the notes on the jobs; follow the changes under way; then, unless workers are being removed for a gang, make the changes
of one pass of `scoring.scaling.grow.adjust`. Rules: nothing is changed in the quiet time (docs/safety.md S11), nor
while another replica leads; one job has one change at a time; at most one gang at a time has workers removed for it; a
gang that did not use the room freed for it, or lost it to another client, is not served again before its pods change.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

from msgspec.structs import replace

from extender.controllers.elastic.intent import Requester, ResizeCause
from extender.controllers.elastic.jobs import JobViews, Rooms, by_others, facts_of, followed, from_note, steps_on
from extender.controllers.elastic.kinds import NotNow
from extender.controllers.elastic.records import ElasticParts, Records, Resize, Stage, pods_job
from extender.controllers.elastic.reports import ReportBook
from extender.controllers.elastic.resizes import Resizer
from extender.controllers.events.recorder import Happening, pod_subject
from extender.runtime.slices import in_slices, in_timed_slices
from scoring.ids import GangKey, PodUid
from scoring.model import Gang
from scoring.plan.result import WANTS_ROOM
from scoring.scaling.grow import Adjustment, adjust
from scoring.scaling.job import Change, ElasticCondition, ElasticJob, JobKey, JobRefusal, No, Options, ScaleIn

EVERY_S = 1.0
_PAUSE_S = 0.1  # Changes of jobs and pods come in bursts; a round looks at all of them together
_AGAIN_S = 5.0  # Time alone ends cool-downs, and a job's report wakes no round
_SETTLES_S = 3.0  # After the last removed pod is gone, a gang that fits has places in the plan by then
_STRETCH = 5.0  # Pause after a look at the jobs, or a decision, in its own lengths (docs/safety.md S15)

_log = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class Elastic:
    """Resizes jobs. `run` it; `forget` when a term begins or ends."""

    parts: ElasticParts
    options: Options
    book: ReportBook
    _: KW_ONLY
    ready: Callable[[], bool]  # Whether all jobs have been read once
    synced: Callable[[], Awaitable[None]]  # Wait until they have been
    _recovered: bool = field(default=False, init=False)  # Whether this term has taken up the notes on the jobs
    _not_before_s: float = field(default=0.0, init=False)  # No other pass before (monotonic)
    _vain: object = field(default=None, init=False)  # The facts that the last pass was made from, if it came to nothing
    _vain_until_s: float = field(default=0.0, init=False)  # No other pass from the same facts before
    _unused: dict[GangKey, frozenset[PodUid]] = field(default_factory=dict, init=False)
    """gang → its pods when it did not use the room that was freed for it"""
    _due: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def __post_init__(self) -> None:
        parts = self.parts
        self._records, self._cache, self._planner = parts.records, parts.context.cache, parts.context.planner
        self._rooms, self._resizes = Rooms(parts), Resizer(parts, self.options.dry_run)
        self._views = JobViews(parts, self.options)
        parts.jobs.on_change = self._due.set

    async def run(self) -> None:
        """Once all jobs are known, one round after each change of a job, and each `EVERY_S`, until cancelled."""
        await self.synced()
        pause_s = _PAUSE_S
        while True:
            try:
                async with asyncio.timeout(EVERY_S):
                    await self._due.wait()
            except TimeoutError:
                pass  # pods, gangs and the clock wake no round
            self._due.clear()
            try:
                pause_s = max(_PAUSE_S, _STRETCH * await self._round())
            except Exception:  # noqa: BLE001 - supervisor: the next round starts from the facts again
                _log.exception("internal error in a round of the elastic controller")
                self.parts.context.telemetry.internal_error("elastic")
            await asyncio.sleep(pause_s)

    def recover(self) -> None:
        """Take up what a former process, or leader, has started; the first plan would give that room to any gang."""
        if not self.ready():  # the first round will do it
            return
        for seen in self.parts.jobs.all():
            if (change := from_note(self.parts, seen)) is not None:
                self._records.put(change)
        self._recovered = True
        self._rooms.agree_with(self._records.open_changes())

    def forget(self) -> None:
        """Know nothing of changes under way, as after a restart; the next round takes them up again."""
        self._rooms.agree_with(())
        self._unused.clear()
        for view in self._records.views.values():
            view.succeeded()
        now_s = self.parts.context.clock.now_s()
        for change in self._records.open_changes():
            self._records.put(replace(change, stage=Stage.OVERRULED, ended_s=now_s))
        self._recovered = False

    async def _round(self) -> float:
        """One round; see the module. For how many seconds the look at the jobs held the loop."""
        if self._planner.snapshot is None:
            return 0.0
        _, took_s = await in_timed_slices(self._views.look())
        if not self.parts.context.acting():
            return took_s
        self._views.look_for_others()
        if not self._recovered:
            self.recover()
        for change in self._follow():
            await self._resizes.step(change)
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
            now = followed(change, facts, now_s=now_s)
            if now is not change:
                parts.record(now)
                unused = now.stage is Stage.GIVEN_BACK or (now.stage is Stage.OVERRULED and by_others(change, facts))
                if unused and (gang := parts.beneficiary(change)) is not None:
                    self._unused[gang.key] = _uids(gang)
            elif steps_on(change, facts):
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
        changes = [one for one in self._records.open_changes() if one.shrinks and one.intent.beneficiary is not None]
        if not changes:
            return None, True
        key = changes[0].intent.beneficiary
        late_s = self.parts.context.clock.now_s() - _SETTLES_S
        waiting = self._planner.current.waiting.get(key) if key is not None else None
        gone = all(one.stage is Stage.FREED and (one.gone_s or late_s) <= late_s for one in changes)
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
        demands = await in_slices(self.book.demands_in_steps(self._jobs()))
        jobs, snapshot = self._jobs(), planner.snapshot  # with its plan: nothing waits from here on
        if not jobs or snapshot is None:
            self._records.verdict = ScaleIn(None)
            return
        if served is not None:  # with its claim it would count as helped
            claims = {key: claim for key, claim in snapshot.claims.items() if key != served}
            snapshot = replace(snapshot, claims=claims)
        facts, policy, at_s = self._facts(), planner.policy, clock.now_s()
        decided = await planner.ask(adjust, snapshot, planner.current, jobs, demands, policy, self.options, now_s=at_s)
        now_s = clock.monotonic_s()
        self._vain = facts if not decided.changes else None
        self._not_before_s, self._vain_until_s = now_s + _STRETCH * (now_s - began_s), now_s + _AGAIN_S
        remember(self._records, decided)
        post_why_none_shrinks(parts, decided.scale_in)
        if served in (None, decided.scale_in.beneficiary):
            await self._shrink_for(decided.scale_in)
        if served is not None:
            return
        by_key = {job.key: job for job in jobs}
        for one in decided.scale_out.changes:
            ready = await self._resizes.prepare((one,), cause_of(one, by_key[one.job], demands))
            await self._resizes.send(ready)

    async def _shrink_for(self, decided: ScaleIn) -> None:
        """Take workers away for the first waiting gang, whose room is kept from before the first of them goes."""
        key = decided.beneficiary
        if not decided.changes or key is None or key in self._unused:
            return
        views = [self._records.views.get(one.job) for one in decided.changes]
        givers = [view.gang.key for view in views if view is not None and view.gang is not None]
        lower = ", which is of a lower service level" if self.options.condition is ElasticCondition.LEVELS else ""
        cause = ResizeCause(Requester.QUEUE, f"room for {key}{lower}", key)
        ready = await self._resizes.prepare(decided.changes, cause)
        if not ready or not self.parts.may_change():
            return
        self._rooms.keep(key, decided.places, givers)
        await self._resizes.send(ready)
        if self._served()[0] != key:
            self._rooms.release(key)


def _uids(gang: Gang | None) -> frozenset[PodUid]:
    return frozenset(pod.uid for pod in gang.members) if gang is not None else frozenset()


def remember(records: Records, decided: Adjustment) -> None:
    """Record why each job keeps its size, and why no job shrinks for the first waiting gang. O(jobs)."""
    given = records.verdict = decided.scale_in
    words = {one.job: f"keeps its size: {_words(one)}" for one in decided.scale_out.refusals}
    if given.beneficiary is not None:
        words |= {one.job: f"gives up nothing for {given.beneficiary}: {_words(one)}" for one in given.refusals}
    for key, view in records.views.items():
        if view.job.refusal != NotNow.ATTEMPT_FAILED:  # what the API server said to it is better than that it failed
            view.wish = words.get(key, "")


def post_why_none_shrinks(parts: ElasticParts, given: ScaleIn) -> None:
    """An Event on the waiting gang's job, or else a pod of it, when no job shrinks for it. Cost: O(jobs)."""
    gang = parts.context.cache.gang(given.beneficiary) if given.beneficiary is not None else None
    if gang is None or given.reason not in (No.NO_JOB, No.NOT_ENOUGH, No.GIVEN_TO_OTHERS, No.TOO_WIDE):
        return
    first = gang.members[0]
    jobs = [seen for seen in parts.jobs.all() if pods_job(seen) == first.job]
    about = parts.subject(jobs[-1]) if jobs else pod_subject(first)
    counts = Counter(one.reason.value for one in given.refusals)
    reasons = [f"{count} job{'s' if count > 1 else ''}: {reason}" for reason, count in sorted(counts.items())]
    detail = f" ({given.detail})" if given.detail else ""
    note = "; ".join([f"No running job gives up workers for it: {given.reason}{detail}", *reasons])
    parts.context.events.post(about, Happening.GANG_WAITING, note, f"elastic: {given.reason}")


def cause_of(one: Change, job: ElasticJob, demands: Mapping[JobKey, int]) -> ResizeCause:
    """Why a job gets fewer or more workers for its own sake."""
    if one.removed < 0 and job.grow_back_to is not None:
        return ResizeCause(Requester.QUEUE, "it gets back what it gave up")
    if one.job in demands:
        return ResizeCause(Requester.METRICS, f"its metrics ask for {demands[one.job]} workers")
    return ResizeCause(Requester.QUEUE, "there is idle room")


def _words(refusal: JobRefusal) -> str:
    return f"{refusal.reason} ({refusal.detail})" if refusal.detail else refusal.reason.value
