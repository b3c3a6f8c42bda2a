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
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import msgspec

from extender.cache.decisions import Attained
from extender.controllers.context import ControllerContext
from extender.controllers.events.recorder import Happening, pod_subject
from extender.controllers.restart import suspensions
from extender.controllers.restart.eligibility import Case, Judge, Obstacle
from extender.controllers.restart.one_gang import Recreation, notes_attained
from extender.errors import ApiError, ApiUnavailableError
from extender.runtime.decision_lines import Decision
from scoring.ids import GangKey
from scoring.model import Controller
from scoring.repair.lost_members import not_before_s

_LOOK_FOR_NOTES_S = 300.0  # Notes are looked for at the start, and now and then, in case an answer was lost
_NOTES_AGAIN_S = 5.0

_log = logging.getLogger(__name__)


Ended = Callable[[GangKey, Obstacle | None], None]  # What came in the way; `None`: it is done


class _Case(msgspec.Struct):
    task: asyncio.Task[None]
    ended: list[Ended] = []


class Restarts:
    """Gangs that are being restarted, one task each."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self.judge = Judge(context)
        self._recreation = Recreation(context)
        self._history: dict[GangKey, tuple[float, ...]] = {}  # gang → when repaired here; owners carry it themselves
        self._cases: dict[GangKey, _Case] = {}
        self._works, self._search = context.background("restart"), context.background("restart")
        self._search_at_s: float | None = None

    @property
    def under_way(self) -> frozenset[GangKey]:
        """Gangs that are being restarted, those found suspended by us included."""
        return frozenset(self._cases)

    def add(self, gang: GangKey, *, why: str, ended: Ended = lambda _gang, _obstacle: None) -> None:
        """Restart a broken gang. `why` completes "… is restarted: "."""
        self._begin(gang, why, ended, repair=True)

    def leave(self, gang: GangKey, *, why: str, ended: Ended = lambda _gang, _obstacle: None) -> None:
        """Let a gang leave its place, as gently as its owner and its pods' grace periods want, and come back later."""
        self._begin(gang, why, ended, repair=False)

    async def obstacle(self, gang: GangKey) -> str | None:
        """Why this gang cannot be restarted now; `None`: it can. It reads the API server and changes nothing."""
        if not self._context.quiet.over:
            return "netgang has just started or listed the cluster again"
        found = await self.judge.of(gang)
        return found.why if isinstance(found, Obstacle) else None

    def look(self, now_s: float) -> None:
        """Once a second: now and then, look for owners that we are to resume; no quiet time: that removes nothing."""
        if not self._search.busy and (self._search_at_s is None or now_s >= self._search_at_s):
            self._search_at_s = now_s + _LOOK_FOR_NOTES_S
            self._search.start(self._resume_noted(), "look for suspended owners")

    def forget(self) -> None:
        """Know nothing, as after a restart: what is under way is broken off, and found again by its note."""
        for case in self._cases.values():
            case.task.cancel()
        self._cases.clear()
        self._search_at_s = None

    def _begin(self, gang: GangKey, why: str, ended: Ended, *, repair: bool) -> None:
        if (known := self._cases.get(gang)) is not None:
            known.ended.append(ended)
            return
        self._take_up(gang, self._start(gang, why, repair=repair), "restart", [ended])

    def _take_up(self, gang: GangKey, work: Coroutine[Any, Any, None], what: str, ended: Iterable[Ended]) -> None:
        case = self._cases[gang] = _Case(self._works.start(work, f"{what} {gang}"), list(ended))
        case.task.add_done_callback(lambda over: self._over(gang, case, over))

    async def _start(self, gang: GangKey, why: str, *, repair: bool) -> None:
        if not self._context.quiet.over:
            self._end(gang, Obstacle("too soon after the start or a new list"))
            return
        found = await self.judge.of(gang)
        if isinstance(found, Case) and repair:
            found = self._unless_too_often(found)
        if isinstance(found, Obstacle):
            self._post(gang, found)
            self._end(gang, found)
            return
        refused = await self._recreation.carry_out(found, why=why, repair=repair)
        if refused is None and repair:
            self._history[gang] = (*self._history.get(gang, ()), self._context.clock.now_s())
        self._end(gang, Obstacle(refused) if refused is not None else None)

    def _post(self, key: GangKey, obstacle: Obstacle) -> None:
        """Say why the gang stays as it is: in the log, and to its owner by an Event on a member."""
        self._context.decided(Decision("restart", gang=key, reason=obstacle.why))
        gang = self._context.cache.gang(key)
        if not obstacle.silent and gang is not None and gang.members:
            self._context.telemetry.restarted("refused")
            note = f"The gang is not restarted as a whole, because {obstacle.why}."
            self._context.post_event(pod_subject(gang.members[0]), Happening.NOT_DISRUPTED, note, obstacle.why)

    def _unless_too_often(self, case: Case) -> Case | Obstacle:
        """The case, unless the gang was restarted too often, or its owner wants no more pods than there are."""
        now_s = self._context.clock.now_s()
        since_s = now_s - suspensions.REMEMBERED_S
        recent = {key: tuple(at_s for at_s in past if at_s > since_s) for key, past in self._history.items()}
        self._history = {key: past for key, past in recent.items() if past}
        history = case.history(now_s=now_s, notes=self._context.notes) or self._history.get(case.gang.key, ())
        if not_before_s(history, self._context.planner.policy.repair) > now_s:
            times = "once" if len(history) == 1 else f"{len(history)} times"
            return Obstacle(f"it was restarted {times} within the last hour")
        if case.desired_suffices():
            return Obstacle("its owner wants no more pods than there are", final=True, silent=True)
        return case

    async def _resume_noted(self) -> None:
        """Take up what another process, or a lost answer, left suspended."""
        try:
            levels = notes_attained(self._context.planner.policy)
            found = await self._context.api.labelled_owners(suspensions.MARK)
            ran_before = await self._context.api.labelled_owners(suspensions.RAN_BEFORE) if levels else ()
        except (ApiError, ApiUnavailableError) as error:
            # A netgang that may not list them has never suspended any either: both are rights of the same component.
            if not (isinstance(error, ApiError) and error.status == 403):
                self._search_at_s = self._context.clock.monotonic_s() + _NOTES_AGAIN_S
            return
        noted: dict[GangKey, list[tuple[str, Controller]]] = {}
        recalled: dict[GangKey, Attained] = {}
        unreadable = 0
        for one in (*found, *ran_before):
            try:
                ref = suspensions.ref_of(one.api_version, one.kind, one.object)
                note = suspensions.note_of(one.object, ref, self._context.notes)
                attained = suspensions.attained_of(one.object, ref, self._context.notes) if levels else None
                if attained is not None:
                    recalled[suspensions.gang_of(one.object, attained)] = suspensions.remembered(attained, ref)
                if note is not None and (gang := suspensions.gang_of(one.object, note)) not in self._cases:
                    noted.setdefault(gang, []).append((suspensions.namespace_of(one.object), ref))
            except Exception:  # noqa: BLE001 - a tenant's object: all others wait to be resumed (docs/safety.md S21)
                unreadable += 1
        self._context.cache.set_attained(recalled)
        if unreadable:
            _log.warning("%d owners with label %s cannot be read and are left alone", unreadable, suspensions.MARK)
        for gang, owners in sorted(noted.items()):
            self._take_up(gang, self._finish(gang, owners), "resume", ())

    async def _finish(self, gang: GangKey, owners: Iterable[tuple[str, Controller]]) -> None:
        for namespace, ref in owners:
            await self._recreation.finish(gang, namespace, ref)
        self._end(gang, None)

    def _end(self, gang: GangKey, obstacle: Obstacle | None) -> None:
        case = self._cases.pop(gang, None)
        for ended in case.ended if case is not None else ():
            ended(gang, obstacle)

    def _over(self, gang: GangKey, case: _Case, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None and self._cases.get(gang) is case:
            self._end(gang, Obstacle("an internal error"))
