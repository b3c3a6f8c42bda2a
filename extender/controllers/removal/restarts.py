"""Restart a gang as a whole: suspend its owner, and resume it when its pods are gone (docs/safety.md S8, S10, S11).

A gang lost a member and asks for `repair: restart`, or it must make room for another one. Rules: nothing in the quiet
time; only what `suspensions` allows; owners without suspend lose their pods by eviction if they do not mind, else an
Event says why not. What is suspended is written on the owner, so the next leader resumes it; an owner that another
client suspended, or resumed, is left alone. Every step reads before it writes the version that was read, so one that
is repeated after a crash or a lost answer finds itself done.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from contextlib import suppress
from functools import partial
from math import ceil
from typing import Final

from extender.controllers.context import ControllerContext, ControlLoop
from extender.controllers.failure_budget import can_suspend, desired_pods
from extender.controllers.recorder import Happening, owner_subject, pod_subject
from extender.controllers.removal import suspensions
from extender.controllers.removal.suspensions import AttainedNote, Case, FreshOwner, Note, Obstacle
from extender.controllers.removals import Cause, read_members, read_owner
from extender.errors import ApiError, ApiUnavailableError, ConflictError, NotFoundError
from extender.runtime.decision_lines import Decision
from extender.signed_notes import NoteKind
from scoring import GangKey, NodeName
from scoring.model import Controller, Pod
from scoring.model.gang import gang_key
from scoring.model.policy import Preempting, gang_options
from scoring.queue.weights import bounded_h, hours_of
from scoring.repair import not_before_s

_LOOK_FOR_NOTES_S = 300.0  # Notes are looked for at the start, and now and then, in case an answer was lost
POLL_S = 2.0  # How often a suspended owner is looked at, at first
SLOWEST_S = 30.0  # How often one is whose pods take long to end
READS_PER_S = 10.0  # How many are looked at, all owners together: each waits its share, however many there are
SLOW_S = 300.0  # After this time an Event says which owner or pod has not stopped
_RESUMED: Final = Cause(Happening.RESTARTED, "All its pods have ended: resumed, so that it creates new ones.")

_log = logging.getLogger(__name__)

Ended = Callable[[GangKey, Obstacle | None], None]  # What came in the way; `None`: it is done


class Restarts(ControlLoop):
    """Gangs that are being restarted, one task each."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._waits = 0  # Owners that are to be resumed
        self._suspended: set[str] = set()  # Uids of those of them that this process has suspended
        self._history: set[tuple[str, float]] = set()  # Owner's uid, and a moment when it was repaired
        self._gangs: dict[GangKey, list[Ended]] = {}  # gang under way → who asked for it
        self._works = context.background("restart")
        self._search_at_s: float | None = None

    @property
    def under_way(self) -> frozenset[GangKey]:
        """Gangs that are being restarted, those found suspended by us included."""
        return frozenset(self._gangs)

    def add(self, gang: GangKey, *, why: str, ended: Ended, repair: bool = False) -> None:
        """Restart a gang; returns at once. `why` completes "… is restarted: "; a gang under way is joined.

        `ended` is called once. A `repair`, of a broken gang, counts towards the owner's restarts of this hour.
        """
        if gang in self._gangs:
            self._gangs[gang].append(ended)
        else:
            self._begin(gang, partial(self._restart, gang, why, repair=repair), [ended])

    async def obstacle(self, gang: GangKey) -> str | None:
        """Why this gang cannot be restarted now; `None`: it can. It reads the API server and changes nothing."""
        if not self.context.quiet.over:
            return "netgang has just started or listed the cluster again"
        verdict = await suspensions.case_of(self.context, gang)
        return verdict.why if isinstance(verdict, Obstacle) else None

    async def reconcile(self) -> None:
        """Now and then, look for owners that we are to resume; without quiet time: that removes nothing."""
        now_s = self.context.clock.monotonic_s()
        if self._search_at_s is None or now_s >= self._search_at_s:
            self._search_at_s = now_s + _LOOK_FOR_NOTES_S
            await self._resume_noted()

    def reset(self) -> None:
        """Know nothing, as after a restart: what is under way is broken off, and taken up again by its note."""
        self._works.cancel()
        self._gangs.clear()
        self._search_at_s = None

    def _begin(self, gang: GangKey, work: Callable[[], Awaitable[Obstacle | None]], ended: list[Ended]) -> None:
        self._gangs[gang] = ended
        self._works.start(self._carry_out(gang, ended, work), f"restart {gang}")

    async def _carry_out(
        self, gang: GangKey, ended: list[Ended], work: Callable[[], Awaitable[Obstacle | None]]
    ) -> None:
        try:
            obstacle = await work()
        except Exception:
            self._end(gang, ended, Obstacle("an internal error"))
            raise
        self._end(gang, ended, obstacle)

    def _end(self, gang: GangKey, ended: list[Ended], obstacle: Obstacle | None) -> None:
        if self._gangs.get(gang) is ended:  # else all was forgotten meanwhile
            del self._gangs[gang]
            for tell in ended:
                tell(gang, obstacle)

    async def _restart(self, key: GangKey, why: str, *, repair: bool) -> Obstacle | None:
        if not self.context.quiet.over:
            return Obstacle("too soon after the start or a new list")
        verdict = await suspensions.case_of(self.context, key)
        if isinstance(verdict, Case) and repair:
            verdict = self._unless_too_often(verdict)
        if isinstance(verdict, Obstacle):
            self.context.decided(Decision("restart", gang=key, reason=verdict.why))
            gang = self.context.cache.gang(key)
            if not verdict.silent and gang is not None and gang.members:
                self.context.telemetry.restarted("refused")
                note = f"The gang is not restarted as a whole, because {verdict.why}."
                self.context.events.post(pod_subject(gang.members[0]), Happening.NOT_DISRUPTED, note, verdict.why)
            return verdict
        repaired_s = float(round(self.context.clock.now_s())) if repair else None  # As it is read from the note again
        refused = await self._recreate(verdict, why=why, repaired_s=repaired_s)
        if refused is None and repaired_s is not None:
            self._history |= {(owner.ref.uid, repaired_s) for owner in verdict.owners}
        return Obstacle(refused) if refused is not None else None

    def _unless_too_often(self, case: Case) -> Case | Obstacle:
        now_s = self.context.clock.now_s()
        self._history = {(uid, at_s) for uid, at_s in self._history if now_s - at_s < suspensions.REMEMBERED_S}
        for owner in case.owners:  # A tenant can put an older note back
            self._history |= {(owner.ref.uid, at_s) for at_s in owner.restarts(self.context.notes, now_s=now_s)}
        history = self._repairs_of({owner.ref.uid for owner in case.owners})
        if not_before_s(history, self.context.planner.policy.repair) > now_s:
            times = "once" if len(history) == 1 else f"{len(history)} times"
            return Obstacle(f"it was restarted {times} within the last hour")
        counts = [desired_pods(owner.content) for owner in case.owners]
        wanted = sum(count or 0 for count in counts)
        if None not in counts and wanted < case.gang.min_member and len(case.gang.placed) >= wanted:
            return Obstacle("its owner wants no more pods than there are", final=True, silent=True)
        return case

    def _repairs_of(self, owners: Set[str]) -> tuple[float, ...]:
        return tuple(sorted({at_s for uid, at_s in self._history if uid in owners}))

    async def _resume_noted(self) -> None:
        notes, levels = self.context.notes, self.context.planner.policy.preemption is not Preempting.OFF
        noted: dict[GangKey, list[Controller]] = {}
        recalled: dict[tuple[GangKey, str], float] = {}
        unreadable = 0
        try:
            labels = (suspensions.MARK, suspensions.RAN_BEFORE) if levels else (suspensions.MARK,)
            async for labelled in self.context.api.labelled_owners(*labels):
                try:
                    owner = FreshOwner.read(*labelled)
                    if levels and (had := owner.attained(notes)) is not None:
                        recalled[gang_key(owner.namespace, had.gang), owner.ref.uid] = bounded_h(had.hours)
                    note = owner.note(notes)
                    if note is not None and (gang := gang_key(owner.namespace, note.gang)) not in self._gangs:
                        noted.setdefault(gang, []).append(owner.ref)
                except Exception:  # noqa: BLE001 - a tenant's object: others wait to be resumed (docs/safety.md S21)
                    unreadable += 1
        except (ApiError, ApiUnavailableError) as error:
            # A netgang that may not list them has never suspended any either: both are rights of the same component.
            if not (isinstance(error, ApiError) and error.status == 403):
                self._search_at_s = self.context.clock.monotonic_s() + 5.0
            return
        self.context.cache.set_attained(recalled)
        if unreadable:
            _log.warning("%d owners with label %s cannot be read and are left alone", unreadable, suspensions.MARK)
        for gang, theirs in sorted(noted.items()):
            self._begin(gang, partial(self._resume, gang, theirs), [])

    async def _recreate(self, case: Case, *, why: str, repaired_s: float | None) -> str | None:
        """`None`: done, else why not. Ends when the owners are resumed, however long its pods take."""
        if not all(can_suspend(owner.ref) for owner in case.owners):
            return await self._evict_all(case, why)
        begun, refused, attained = list[Controller](), None, None
        key, snapshot = case.gang.key, self.context.cache.snapshot()
        gang = snapshot.gangs.get(key)
        levels = self.context.planner.policy.preemption is not Preempting.OFF
        if levels and gang is not None and gang_options(dict(gang.options), self.context.planner.policy).suspendable:
            had_h = hours_of(gang, snapshot, now_s=self.context.clock.now_s())
            attained = AttainedNote(key.partition("/")[2], round(had_h, 6))
        for owner in case.owners:
            refused = await self._suspend(case, owner, why=why, repaired_s=repaired_s, attained=attained)
            if refused is not None:
                break  # what was started is brought to its end
            begun.append(owner.ref)
        await self._resume(key, begun)
        return refused

    async def _resume(self, key: GangKey, owners: Iterable[Controller]) -> None:
        """Resume owners that carry our note, one by one, once its gang's pods are gone; repeatable."""
        for ref in owners:
            began_s, pause_s = self.context.clock.monotonic_s(), POLL_S
            self._waits += 1
            try:
                while not await self._finished(key, ref, began_s):
                    had_members, wait_s = self._lives(key), max(pause_s, self._waits / READS_PER_S)
                    pause_s = min(1.25 * pause_s, SLOWEST_S)
                    looks = ceil(wait_s / POLL_S)
                    for _ in range(looks):  # or until the last member ends, which the API server does not show
                        await asyncio.sleep(wait_s / looks)
                        if had_members and not self._lives(key):
                            pause_s = POLL_S
                            break
            finally:
                self._waits -= 1
                self._suspended.discard(ref.uid)

    async def _finished(self, key: GangKey, ref: Controller, began_s: float) -> bool:
        """Whether there is nothing more to do for the owner."""
        with suppress(ApiError, ApiUnavailableError, ValueError):  # read again, and decide again
            owner = await self._read_noted(key, ref)
            if owner is None:
                return True
            subject, restore = owner_subject(owner.namespace, ref), self.context.disruptions.restore_owner
            if not owner.suspended or owner.over:
                await restore(subject, owner.resume_patch(resume=False))
                return True
            if owner.has_stopped and await self._is_empty(key, owner, began_s):
                await restore(subject, owner.resume_patch(resume=True), _RESUMED)
                self.context.decided(Decision("resume", f"{ref.kind} {ref.name}", key))
                self.context.telemetry.restarted("resumed")
                return True
        return False

    def _lives(self, key: GangKey) -> bool:
        gang = self.context.cache.gang(key)
        return gang is not None and any(not pod.terminal for pod in gang.members)

    async def _read_noted(self, key: GangKey, ref: Controller) -> FreshOwner | None:
        try:
            content = await read_owner(self.context.api, key.partition("/")[0], ref)
        except NotFoundError:
            return None
        owner = FreshOwner(ref, content) if content is not None else None
        if owner is None or not owner.carries(NoteKind.RESUME):
            return None
        # What we did ourselves we know, whatever has become of the note's text.
        return owner if ref.uid in self._suspended or owner.note(self.context.notes) is not None else None

    async def _is_empty(self, key: GangKey, owner: FreshOwner, began_s: float) -> bool:
        """Whether no member is left that its owner would have to see the end of. Errors: ApiError and its kind."""
        gang = self.context.cache.gang(key)
        if gang is not None and self._in_the_way(gang.members, owner):  # the cache is cheap to ask, and mostly right
            if self.context.clock.monotonic_s() - began_s >= SLOW_S:
                left, lost = [pod for pod in gang.members if not pod.terminal], self.context.lost_of(gang.members)
                nodes = sorted({pod.node for pod in left if pod.node in lost and pod.node is not None})
                where = f": waiting for node {', '.join(nodes)} to be removed or to come back" if nodes else ""
                note = f"Suspended by netgang, and not resumed yet, because pod {left[0].name} has not ended{where}."
                subject = owner_subject(owner.namespace, owner.ref)
                self.context.events.post(subject, Happening.NOT_DISRUPTED, note, "slow")
            return False
        members = await read_members(self.context.api, key, gang.source if gang is not None else None)
        return not self._in_the_way([member.pod for member in members], owner)

    def _in_the_way(self, members: Sequence[Pod], owner: FreshOwner) -> list[Pod]:
        """Members that have not ended; a Job does not mind those that are being deleted on a dead node."""
        lost = self.context.lost_of(members) if not owner.waits_for_the_end else frozenset[NodeName]()
        return [pod for pod in members if not pod.terminal and not (pod.deleting and pod.node in lost)]

    async def _suspend(
        self, case: Case, owner: FreshOwner, *, why: str, repaired_s: float | None, attained: AttainedNote | None
    ) -> str | None:
        """Suspend one owner; `None`: done. An answer that was lost is made good by a look at the note."""
        note = Note(case.gang.key.partition("/")[2], why, self.context.clock.now_s())
        text = f"The gang is restarted as a whole: {why}. Suspended now, and resumed when its pods are gone."
        cause = Cause(Happening.RESTARTED, text)
        past = (*self._repairs_of({owner.ref.uid}), repaired_s) if repaired_s is not None else ()
        try:
            patch = owner.suspend_patch(note, past, notes=self.context.notes, attained=attained)
            await self.context.disruptions.change_owner(
                owner_subject(owner.namespace, owner.ref), patch, cause, going=case.pods_of(owner)
            )
        except (ApiError, ApiUnavailableError, ValueError) as error:
            noted = None
            with suppress(ApiError, ApiUnavailableError, ValueError):
                noted = await self._read_noted(case.gang.key, owner.ref)
            if noted is None:
                return f"{owner.ref.kind} {owner.ref.name} could not be suspended: {suspensions.words(error)}"
        self._suspended.add(owner.ref.uid)
        if attained is not None:
            self.context.cache.set_attained({(case.gang.key, owner.ref.uid): bounded_h(attained.hours)})
        self.context.decided(Decision("suspend", f"{owner.ref.kind} {owner.ref.name}", case.gang.key))
        self.context.telemetry.restarted("suspended")
        return None

    async def _evict_all(self, case: Case, why: str) -> str | None:
        text = f"The gang is restarted as a whole: {why}. Removed for its owner to create another."
        cause = Cause(Happening.RESTARTED, text)
        there = [member for member in case.members if not (member.pod.terminal or member.pod.deleting)]
        for member in there:
            try:
                await self.context.disruptions.evict(member, cause, among=there)
            except (ConflictError, NotFoundError):
                continue  # it changed in the last moment: what is left of the gang is looked at again
            except (ApiError, ApiUnavailableError) as error:
                return f"pod {member.pod.name} could not be evicted: {suspensions.words(error)}"
            self.context.telemetry.evicted("restart")
            self.context.decided(Decision("restart", member.pod.key, case.gang.key, member.pod.node or ""))
        return None
