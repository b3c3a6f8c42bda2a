"""Restart a gang as a whole: suspend its owner, and resume it when its pods are gone.

docs/safety.md S8, S10, S11.

Two reasons lead here: a gang lost a member and asks for `repair: restart`, or it must leave its place to another one.

    restarts.add(gang, why=…)           it is broken: counts towards the owner's restarts of this hour
    restarts.leave(gang, why=…)         it works, and is to make room: the same, without that count
    await restarts.obstacle(gang)       why it could not be done now, in words; None: nothing speaks against it
    restarts.under_way                  gangs that are being restarted
    ended=…                             called once for each `add` or `leave` with gang and `Obstacle`; None: done

`add` and `leave` return at once and never raise; one for a gang that is under way joins it. `leave` is done when the
members are gone and the owner is resumed: they come back, gated, and wait their turn.

Rules: nothing in the quiet time; the gang is read afresh and spared when it looks different, has members that succeeded
or belongs to an owner that is over; budgets are asked for all members at once; owners without suspend lose their pods
by eviction if they do not mind (`owners.budget`), else an Event says why not. What is suspended is written on the owner
(`suspensions`), so the next leader resumes it; an owner that another client suspended, or resumed, is left alone.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

import msgspec

from extender.cache import Attained
from extender.controllers.context import ControllerContext, ControlLoop
from extender.controllers.events.recorder import Happening, pod_subject
from extender.controllers.restart.eligibility import Case, Judge, Obstacle
from extender.controllers.restart.recreation import Recreation, notes_attained
from extender.controllers.restart.suspensions import MARK, RAN_BEFORE, REMEMBERED_S, FreshOwner, gang_of, remembered
from extender.errors import ApiError, ApiUnavailableError
from extender.runtime.decision_lines import Decision
from scoring.ids import GangKey
from scoring.model import Controller
from scoring.repair import not_before_s

_LOOK_FOR_NOTES_S = 300.0  # Notes are looked for at the start, and now and then, in case an answer was lost
_NOTES_AGAIN_S = 5.0

_log = logging.getLogger(__name__)


Ended = Callable[[GangKey, Obstacle | None], None]  # What came in the way; `None`: it is done


class _UnderWay(msgspec.Struct):
    ended: list[Ended]
    task: asyncio.Task[None] | None = None


class Restarts(ControlLoop):
    """Gangs that are being restarted, one task each."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.judge = Judge(context)
        self._recreation = Recreation(context)
        self._history: dict[GangKey, tuple[float, ...]] = {}  # gang → when repaired here; owners carry it themselves
        self._gangs: dict[GangKey, _UnderWay] = {}
        self._works = context.background("restart")
        self._search_at_s: float | None = None

    @property
    def under_way(self) -> frozenset[GangKey]:
        """Gangs that are being restarted, those found suspended by us included."""
        return frozenset(self._gangs)

    def add(self, gang: GangKey, *, why: str, ended: Ended = lambda _gang, _obstacle: None) -> None:
        """Restart a broken gang. `why` completes "… is restarted: "."""
        self._join(gang, why, ended, repair=True)

    def leave(self, gang: GangKey, *, why: str, ended: Ended = lambda _gang, _obstacle: None) -> None:
        """Let a gang leave its place, as gently as its owner and its pods' grace periods want, and come back later."""
        self._join(gang, why, ended, repair=False)

    async def obstacle(self, gang: GangKey) -> str | None:
        """Why this gang cannot be restarted now; `None`: it can. It reads the API server and changes nothing."""
        if not self.context.quiet.over:
            return "netgang has just started or listed the cluster again"
        verdict = await self.judge.of(gang)
        return verdict.why if isinstance(verdict, Obstacle) else None

    async def look(self) -> None:
        """Now and then, look for owners that we are to resume; without quiet time: that removes nothing."""
        now_s = self.context.clock.monotonic_s()
        if self._search_at_s is None or now_s >= self._search_at_s:
            self._search_at_s = now_s + _LOOK_FOR_NOTES_S
            await self._resume_noted()

    def forget(self) -> None:
        """Know nothing, as after a restart: what is under way is broken off, and taken up again by its note."""
        for case in self._gangs.values():
            if case.task is not None:
                case.task.cancel()
        self._gangs.clear()
        self._search_at_s = None

    def _join(self, gang: GangKey, why: str, ended: Ended, *, repair: bool) -> None:
        if (case := self._gangs.get(gang)) is not None:
            case.ended.append(ended)
        else:
            self._begin(gang, partial(self._restart, gang, why, repair=repair), [ended])

    def _begin(self, gang: GangKey, work: Callable[[], Awaitable[Obstacle | None]], ended: list[Ended]) -> None:
        case = self._gangs[gang] = _UnderWay(ended)
        case.task = self._works.start(self._carry_out(gang, case, work), f"restart {gang}")

    async def _carry_out(self, gang: GangKey, case: _UnderWay, work: Callable[[], Awaitable[Obstacle | None]]) -> None:
        try:
            obstacle = await work()
        except Exception:
            self._end(gang, case, Obstacle("an internal error"))
            raise
        self._end(gang, case, obstacle)

    def _end(self, gang: GangKey, case: _UnderWay, obstacle: Obstacle | None) -> None:
        if self._gangs.get(gang) is case:  # else all was forgotten meanwhile
            del self._gangs[gang]
            for ended in case.ended:
                ended(gang, obstacle)

    async def _restart(self, key: GangKey, why: str, *, repair: bool) -> Obstacle | None:
        if not self.context.quiet.over:
            return Obstacle("too soon after the start or a new list")
        verdict = await self.judge.of(key)
        if isinstance(verdict, Case) and repair:
            verdict = self._unless_too_often(verdict)
        if isinstance(verdict, Obstacle):
            self._post(key, verdict)
            return verdict
        refused = await self._recreation.carry_out(verdict, why=why, repair=repair)
        if refused is not None:
            return Obstacle(refused)
        if repair:
            self._history[key] = (*self._history.get(key, ()), self.context.clock.now_s())
        return None

    def _post(self, key: GangKey, obstacle: Obstacle) -> None:
        """Say why the gang stays as it is: in the log, and to its owner by an Event on a member."""
        self.context.decided(Decision("restart", gang=key, reason=obstacle.why))
        gang = self.context.cache.gang(key)
        if not obstacle.silent and gang is not None and gang.members:
            self.context.telemetry.restarted("refused")
            note = f"The gang is not restarted as a whole, because {obstacle.why}."
            self.context.post_event(pod_subject(gang.members[0]), Happening.NOT_DISRUPTED, note, obstacle.why)

    def _unless_too_often(self, case: Case) -> Case | Obstacle:
        """The case, unless the gang was restarted too often, or its owner wants no more pods than there are."""
        now_s = self.context.clock.now_s()
        since_s = now_s - REMEMBERED_S
        recent = {key: tuple(at_s for at_s in past if at_s > since_s) for key, past in self._history.items()}
        self._history = {key: past for key, past in recent.items() if past}
        history = case.history(now_s=now_s, notes=self.context.notes) or self._history.get(case.gang.key, ())
        if not_before_s(history, self.context.planner.policy.repair) > now_s:
            times = "once" if len(history) == 1 else f"{len(history)} times"
            return Obstacle(f"it was restarted {times} within the last hour")
        if case.desired_suffices():
            return Obstacle("its owner wants no more pods than there are", final=True, silent=True)
        return case

    async def _resume_noted(self) -> None:
        """Take up what another process, or a lost answer, left suspended."""
        try:
            levels = notes_attained(self.context.planner.policy)
            owners = list(await self.context.api.labelled_owners(MARK))
            owners += await self.context.api.labelled_owners(RAN_BEFORE) if levels else ()
        except (ApiError, ApiUnavailableError) as error:
            # A netgang that may not list them has never suspended any either: both are rights of the same component.
            if not (isinstance(error, ApiError) and error.status == 403):
                self._search_at_s = self.context.clock.monotonic_s() + _NOTES_AGAIN_S
            return
        noted: dict[GangKey, list[tuple[str, Controller]]] = {}
        recalled: dict[GangKey, Attained] = {}
        unreadable = 0
        for labelled in owners:
            try:
                owner = FreshOwner.read(labelled.api_version, labelled.kind, labelled.object)
                note = owner.note(self.context.notes)
                attained = owner.attained(self.context.notes) if levels else None
                if attained is not None:
                    recalled[gang_of(owner, attained)] = remembered(attained, owner.ref)
                if note is not None and (gang := gang_of(owner, note)) not in self._gangs:
                    noted.setdefault(gang, []).append((owner.namespace, owner.ref))
            except Exception:  # noqa: BLE001 - a tenant's object: all others wait to be resumed (docs/safety.md S21)
                unreadable += 1
        self.context.cache.set_attained(recalled)
        if unreadable:
            _log.warning("%d owners with label %s cannot be read and are left alone", unreadable, MARK)
        for gang, theirs in sorted(noted.items()):
            self._begin(gang, partial(self._finish, gang, theirs), [])

    async def _finish(self, gang: GangKey, owners: Iterable[tuple[str, Controller]]) -> None:
        for namespace, ref in owners:
            await self._recreation.finish(gang, namespace, ref)
