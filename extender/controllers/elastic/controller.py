"""Carry out what `scoring.scaling` decides about running jobs: the only place from which jobs are resized.

Rounds, each from what is true then (K7: level-triggered; nothing is remembered that the cluster does not show):

1. Look at every job (`jobs.views`).
2. Take up changes of a former process that are still under way, from the notes on the jobs (`follow`).
3. Follow the changes under way (`follow`), and reserve room for their beneficiaries (`reservations`).
4. Unless workers are being removed for a gang: one pass of `scoring.scaling.adjust`, whose changes are made. If what
   was removed turns out too little for the gang, it is decided on once more.

Rules: nothing is changed in the quiet time after start, take-over or new lists (docs/safety.md S11), nor while another
replica leads; one job has one change at a time; at most one gang at a time has workers removed for it; a gang that did
not use the room that was freed for it, or lost it to another client, is not served again before its pods change.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

from msgspec.structs import replace

from extender.controllers.elastic.change_progress import by_others, facts_of, followed, from_note, steps_on
from extender.controllers.elastic.elastic_context import Parts, pods_job, runs
from extender.controllers.elastic.intent import Cause, Requester
from extender.controllers.elastic.jobs.views import JobViews, gang_key_of
from extender.controllers.elastic.records import Change, Stage
from extender.controllers.elastic.reservations import Rooms
from extender.controllers.elastic.resizes import Resizes
from extender.controllers.elastic.words import cause_of_growth, post_why_none_shrinks, remember
from extender.runtime.slices import Steps, in_slices, in_timed_slices
from scoring.ids import GangKey, PodUid
from scoring.model import Gang
from scoring.plan.starvation_reservations import WANTS_ROOM
from scoring.scaling.adjust import adjust
from scoring.scaling.change import ScaleIn
from scoring.scaling.job import Condition, ElasticJob, JobKey, Options

EVERY_S = 1.0
_PAUSE_S = 0.1  # Changes of jobs and pods come in bursts; a round looks at all of them together
_AGAIN_S = 5.0  # Time alone ends cool-downs, and a job's report wakes no round
_SETTLES_S = 3.0  # After the last removed pod is gone, a gang that fits has places in the plan by then
_STRETCH = 5.0  # Pause after a look at the jobs, or a decision, in its own lengths (docs/safety.md S15)

_log = logging.getLogger(__name__)

Demands = Callable[[Sequence[ElasticJob]], Steps[Mapping[JobKey, int]]]  # Job → workers that its metrics ask for


@dataclass(eq=False, repr=False)
class Elastic:
    """Resizes jobs. `run` it; `forget` when a term begins or ends."""

    parts: Parts
    options: Options
    _: KW_ONLY
    ready: Callable[[], bool]  # Whether all jobs have been read once
    synced: Callable[[], Awaitable[None]]  # Wait until they have been
    demands: Demands
    _recovered: bool = field(default=False, init=False)
    _decided_for: object = field(default=None, init=False)  # What the last pass was made from, if it came to nothing
    _pause_s: float = field(default=_PAUSE_S, init=False)
    _not_before_s: float = field(default=-math.inf, init=False)
    _again_s: float = field(default=-math.inf, init=False)
    _unused: dict[GangKey, frozenset[PodUid]] = field(default_factory=dict, init=False)
    """gang → its pods when it did not use the room that was freed for it"""
    _due: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def __post_init__(self) -> None:
        self._records, self._cache = self.parts.records, self.parts.context.cache
        self._rooms = Rooms(self.parts.context)
        self._resizes = Resizes(self.parts, self.options.dry_run)
        self._views = JobViews(self.parts, self.options)
        self.parts.jobs.on_change = self._due.set

    async def run(self) -> None:
        """Once all jobs are known, one round after each change of a job, and each `EVERY_S`, until cancelled."""
        await self.synced()
        while True:
            try:
                async with asyncio.timeout(EVERY_S):
                    await self._due.wait()
            except TimeoutError:
                pass  # pods, gangs and the clock wake no round
            self._due.clear()
            try:
                await self.round()
            except Exception:  # noqa: BLE001 - supervisor: the next round starts from the facts again
                _log.exception("internal error in a round of the elastic controller")
                self.parts.context.telemetry.internal_error("elastic")
            await asyncio.sleep(self._pause_s)

    def recover(self) -> None:
        """Take up what a former process, or leader, has started; before the first plan of a term is made.

        Why so early: that plan would give the room, which the removed pods are just leaving, to any gang.
        """
        if not self.ready():  # the first round will do it
            return
        for seen in self.parts.jobs.all():
            if (change := from_note(self.parts, seen)) is not None:
                self._records.put(change)
        self._recovered = True
        self._keep_rooms()

    def forget(self) -> None:
        """Know nothing of changes under way, as after a restart; the next round takes them up again."""
        self._rooms.forget()
        self.parts.retries.keep(set())
        self._unused.clear()
        now_s = self.parts.context.clock.now_s()
        for change in self._records.open_changes():
            self._records.put(replace(change, stage=Stage.OVERRULED, ended_s=now_s))
        self._recovered = False

    async def round(self) -> None:
        """One round; see the module."""
        if self.parts.context.planner.snapshot is None:
            return
        _, took_s = await in_timed_slices(self._views.look())
        self._pause_s = max(_PAUSE_S, _STRETCH * took_s)
        if not self.parts.context.acting():
            return
        self._views.look_for_others()
        if not self._recovered:
            self.recover()
        for change in self._follow():
            await self._resizes.step(change)
        served, ready = self._served()
        if self.parts.may_change() and ready and self._is_due():
            await self._adjust(served)

    # -- changes under way --------------------------------------------------------------------------------------------

    def _follow(self) -> Sequence[Change]:
        """Bring each change under way up to date, and reserve room for those that wait for it.

        Gives those whose next worker is to leave.
        """
        parts, now_s = self.parts, self.parts.context.clock.now_s()
        next_ones: list[Change] = []
        for change in self._records.open_changes():
            gang = self._gang_of(change)
            facts = facts_of(parts, change, gang)
            now = followed(change, facts, now_s=now_s)
            if now is not change:
                parts.record(now)
                unused = now.stage is Stage.GIVEN_BACK or (now.stage is Stage.OVERRULED and by_others(change, facts))
                if unused and gang is not None:
                    self._unused[gang.key] = _uids(gang)
            elif steps_on(change, facts):
                next_ones.append(change)
        self._keep_rooms()
        for key in [key for key, uids in self._unused.items() if _uids(self._cache.gang(key)) != uids]:
            del self._unused[key]
        return next_ones

    def _keep_rooms(self) -> None:
        """Reserve room for the gangs that wait for changes under way, and for no others."""
        changes = [
            one for one in self._records.open_changes() if (gang := self._gang_of(one)) is not None and not runs(gang)
        ]
        givers: dict[str, GangKey] = {}
        for change in changes:
            seen = self.parts.jobs.get(change.job)
            giver = gang_key_of(self._cache.pods.of_job(pods_job(seen))) if seen is not None else None
            if giver is not None:
                givers[change.uid] = giver
        self._rooms.agree_with(changes, givers)

    def _gang_of(self, change: Change) -> Gang | None:
        """The gang that it is for, if there is one."""
        key = change.intent.beneficiary
        return self._cache.gang(key) if key is not None else None

    def _served(self) -> tuple[GangKey | None, bool]:
        """The gang for which room is being made, and whether anything may be decided beside.

        If all removed pods are gone and the gang still waits for room, it is decided on once more, and nothing else is:
        a former process may have died, or been refused, in the middle of a plan.
        """
        changes = [one for one in self._records.open_changes() if one.shrinks and one.intent.beneficiary is not None]
        if not changes:
            return None, True
        key = changes[0].intent.beneficiary
        late_s = self.parts.context.clock.now_s() - _SETTLES_S
        waiting = self.parts.context.planner.current.waiting.get(key) if key is not None else None
        gone = all(one.stage is Stage.FREED and (one.gone_s or late_s) <= late_s for one in changes)
        return key, gone and waiting is not None and waiting.reason in WANTS_ROOM

    # -- new changes --------------------------------------------------------------------------------------------------

    def _is_due(self) -> bool:
        """Whether another pass could come to something: not right after a long one, nor from the same facts again."""
        now_s = self.parts.context.clock.monotonic_s()
        return now_s >= self._not_before_s and (now_s >= self._again_s or self._facts_now() != self._decided_for)

    def _facts_now(self) -> object:
        """What decisions are made from, but for the time and what the jobs' metrics say."""
        return self.parts.context.planner.current.version, [view.job for view in self._records.views.values()]

    async def _adjust(self, served: GangKey | None) -> None:
        """One pass over all jobs, from the newest plan and its snapshot; for `served` alone, if that is a gang."""
        parts = self.parts
        began_s = parts.context.clock.monotonic_s()
        demands = await in_slices(self.demands(self._jobs()))
        jobs, snapshot = self._jobs(), parts.context.planner.snapshot  # with its plan: nothing waits from here on
        if not jobs or snapshot is None:
            self._records.verdict = ScaleIn(None)
            return
        if served is not None:  # with its claim it would count as helped
            claims = {key: claim for key, claim in snapshot.claims.items() if key != served}
            snapshot = replace(snapshot, claims=claims)
        facts = self._facts_now()
        decided = await parts.context.planner.ask(
            adjust,
            snapshot,
            parts.context.planner.current,
            jobs,
            demands,
            parts.context.planner.policy,
            self.options,
            now_s=parts.context.clock.now_s(),
        )
        now_s = parts.context.clock.monotonic_s()
        self._not_before_s = now_s + _STRETCH * (now_s - began_s)
        self._again_s = now_s + _AGAIN_S
        self._decided_for = facts if not decided.changes else None
        remember(self._records, decided)
        post_why_none_shrinks(parts, decided.scale_in)
        if served in (None, decided.scale_in.beneficiary):
            await self._shrink_for(decided.scale_in)
        if served is not None:
            return
        for one in decided.fewer:
            await self._resizes.apply(
                (one,), Cause(Requester.METRICS, f"its metrics ask for {demands[one.job]} workers")
            )
        by_key = {job.key: job for job in jobs}
        for one in decided.scale_out.changes:
            await self._resizes.apply((one,), cause_of_growth(one, by_key[one.job], demands))

    def _jobs(self) -> list[ElasticJob]:
        return [view.job for view in self._records.views.values() if view.job is not None]

    async def _shrink_for(self, decided: ScaleIn) -> None:
        """Take workers away for the first waiting gang, whose room is kept from before the first of them goes."""
        key = decided.beneficiary
        if not decided.changes or key is None or key in self._unused:
            return
        views = [self._records.views.get(one.job) for one in decided.changes]
        givers = [view.gang for view in views if view is not None and view.gang is not None]
        lower = ", which is of a lower service level" if self.options.condition is Condition.LEVELS else ""
        await self._resizes.apply(
            decided.changes,
            Cause(Requester.QUEUE, f"room for {key}{lower}", key),
            about_to=lambda: self._rooms.keep(key, decided.places, givers),
        )
        if self._served()[0] != key:
            self._rooms.release(key)


def _uids(gang: Gang | None) -> frozenset[PodUid]:
    return frozenset(pod.uid for pod in gang.members) if gang is not None else frozenset()
