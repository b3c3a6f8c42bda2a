"""Take part in the election, and start and stop the service's acting.

A standby follows the cluster as the leader does, so that it has nothing to read when it takes over. Rules: `leading` is
a look at our own clock, so it is false as soon as it is late; a term begins with empty records, as after a restart;
losing the lease ends all at once and without waiting; giving it back waits for what is under way, and comes last.

The label `netgang.io/role: leader` is kept on the pod that leads and on no other, for the Service to select by: a
leader that was killed cannot take it away (docs/safety.md S16).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from extender.errors import ApiError, ApiUnavailableError, Backoff, ConflictError, NotFoundError
from extender.leadership.election import Election, LeaseApi, LeaseSpec
from extender.ports import Clock, ClusterApi
from extender.runtime.telemetry import Telemetry
from extender.schemas import Standing

_log = logging.getLogger("netgang.leadership")
READS: Final = frozenset({"list_page", "watch", "get_pod", "get_object", "labelled_owners"})
LEADER: Final = "leader"
_T = TypeVar("_T")
_FAREWELL_S: Final = 1.0  # Longest wait for label and release each, at an orderly end; a standby can do without


class RoleLabel:
    """The label of our own pod; `pod` "" means that we are none, and nothing is labelled."""

    def __init__(self, api: LeaseApi, pod: str) -> None:
        self._api, self._pod, self._leader = api, pod, False
        self._changed = asyncio.Event()
        self._changed.set()  # a former process in this pod may have left its label
        self._settled = asyncio.Event()

    def want(self, *, leader: bool) -> None:
        """The label shall be there, or not; see `run`."""
        self._leader = leader
        self._settled.clear()
        self._changed.set()

    async def settled(self) -> None:
        """Wait until the last wanted state is reached."""
        if self._pod:
            await self._settled.wait()

    async def run(self) -> None:
        """Bring about wanted states until cancelled."""
        failures = 0
        while self._pod:
            await self._changed.wait()
            self._changed.clear()
            leader = self._leader
            try:
                await self._api.label(self._pod, LEADER if leader else None)
                for other in await self._api.labelled(LEADER) if leader else ():
                    if other != self._pod and self._leader:
                        with suppress(NotFoundError):  # it is gone, and its label with it
                            await self._api.label(other, None)
            except (ApiError, ApiUnavailableError) as error:
                failures += 1
                if failures == 1:
                    _log.warning("the label of pod %s cannot be changed: %s", self._pod, error)
                with suppress(TimeoutError):  # not longer than until another state is wanted
                    async with asyncio.timeout(Backoff(first_s=0.2, limit_s=5.0).whole_s(failures)):
                        await self._changed.wait()
                self._changed.set()
            else:
                failures = 0
                if not self._changed.is_set():
                    self._settled.set()


class Duties(msgspec.Struct):
    """What the service does at the turns of its role; nothing here waits or raises."""

    take_up: Callable[[], None]  # We lead: `leading` says so already
    lay_down: Callable[[], None]  # We do not lead any more: nothing that is sent from here on would go out
    heard: Callable[[], None]
    over: Callable[[], Awaitable[None]]  # Wait until all that was sent has come to its end
    turn_away: Callable[[], None] = lambda: None  # Close callers' connections: the Service leads new ones on


class Candidacy(msgspec.Struct, frozen=True):
    """One replica that stands for election; `pod` "": it runs in none and labels none."""

    election: Election
    api: LeaseApi
    pod: str


class Leadership:
    """One candidate at work: give it its duties, `run` it, ask `leading`."""

    duties: Duties

    def __init__(self, stands: Candidacy, clock: Clock, telemetry: Telemetry) -> None:
        self.ready = asyncio.Event()  # Set once we could lead: before, we do not stand for it
        self.terms = 0
        self._election, self._api, self._clock, self._telemetry = stands.election, stands.api, clock, telemetry
        self._label = RoleLabel(stands.api, stands.pod)
        self._acting = self._retired = False
        self._closed = False  # Nothing may be sent any more, whatever the lease says
        self._resigned = False  # The lease is given back, and no more asked about
        self._asking = asyncio.Lock()
        self._deadline: asyncio.TimerHandle | None = None
        self._began_s = 0.0
        self._taking_up: asyncio.Task[None] | None = None
        self._turned_away_s = -float("inf")
        self._last_error = ""
        telemetry.leads(0)

    def leading(self) -> bool:
        """Whether we act as the leader now."""
        return self._acting and self._election.leading(self._clock.monotonic_s())

    def room_s(self) -> float:
        """How long something that is sent now may take; 0 or less: nothing may be sent."""
        now_s = self._clock.monotonic_s()
        if self._closed or not self._election.leading(now_s):
            return 0.0
        return self._election.write_until_s - now_s

    def status(self) -> Standing:
        """The leader, as far as we know."""
        lease = self._election.lease
        leading = self.leading()
        return Standing(
            leading=leading,
            identity=self._election.identity,
            holder=lease.holder if lease is not None else None,
            transitions=lease.transitions if lease is not None else None,
            terms=self.terms,
            led_for_s=self._clock.monotonic_s() - self._began_s if leading else None,
            last_error=self._last_error,
        )

    async def run(self) -> None:
        """Stand for election until cancelled or `resign`ed; an error in `duties` ends it."""
        await self.ready.wait()
        async with asyncio.TaskGroup() as tasks:
            labelling = tasks.create_task(self._label.run(), name="label our role")
            while not self._resigned:
                await asyncio.sleep(max(0.0, self._election.due_s - self._clock.monotonic_s()))
                async with self._asking:
                    if self._resigned:
                        break
                    await self._ask()
                self._settle(tasks)
            labelling.cancel()

    async def _ask(self) -> None:
        election, sent_s = self._election, self._clock.monotonic_s()
        call = election.next(now_s=sent_s, wall_us=int(self._clock.now_s() * 1e6))
        try:
            async with asyncio.timeout(election.times.renew_deadline_s / 2.0):
                if call is None:
                    election.was_read(await self._api.read(), sent_s=sent_s, now_s=self._clock.monotonic_s())
                else:
                    election.was_written(await self._api.write(call.spec, call.over), sent_s=sent_s)
        except (ConflictError, NotFoundError) as error:
            self._last_error = str(error)
            election.was_refused(sent_s=sent_s, now_s=self._clock.monotonic_s())
        except (ApiError, ApiUnavailableError, TimeoutError) as error:
            why = str(error) or "no answer in time"
            if why != self._last_error:  # an outage is one line, and so is a right that is missing
                _log.warning("the lease cannot be read or written: %s", why)
            self._last_error = why
            election.has_failed(call, sent_s=sent_s, now_s=self._clock.monotonic_s())
        else:
            self._last_error = ""
            self.duties.heard()

    def _settle(self, tasks: asyncio.TaskGroup) -> None:
        now_s = self._clock.monotonic_s()
        leading = self._election.leading(now_s)
        if not leading:
            if self._acting:
                self._lay_down()
            elif now_s - self._turned_away_s >= self._election.times.retry_period_s:
                self._turned_away_s = now_s  # not with each look: a client that has just connected shall be able to ask
                self.duties.turn_away()
            return
        if not self._acting and (self._taking_up is None or self._taking_up.done()) and not self._retired:
            self._taking_up = tasks.create_task(self._take_up(), name="take over")
        if self._deadline is not None:
            self._deadline.cancel()
        delay_s = self._election.lead_until_s - now_s
        self._deadline = asyncio.get_running_loop().call_later(delay_s, self._check_deadline)

    def _check_deadline(self) -> None:
        if self._acting and not self._election.leading(self._clock.monotonic_s()):
            self._lay_down()

    async def _take_up(self) -> None:
        await self.duties.over()
        if self._retired or not self._election.leading(self._clock.monotonic_s()):
            return
        self._acting = True
        self.terms += 1
        self._began_s = self._clock.monotonic_s()
        self._label.want(leader=True)
        self.duties.take_up()
        self._telemetry.leads(1)
        transitions = (self._election.lease or LeaseSpec()).transitions
        _log.info("leading: the lease is taken as %s, transition %d", self._election.identity, transitions)

    def _lay_down(self) -> None:
        self._acting = False
        self._label.want(leader=False)
        self.duties.lay_down()
        self._turned_away_s = self._clock.monotonic_s()
        self.duties.turn_away()
        self._telemetry.leads(0)
        lease, why = self._election.lease, f"not renewed: {self._last_error or 'no answer yet'}"
        if lease is not None and lease.holder != self._election.identity:
            why = f"held by {lease.holder or 'no replica'}"
        _log.warning("not leading any more: the lease is %s", why)

    def retire(self) -> None:
        """Stop acting; what was started may go on, and the lease is kept until `resign`."""
        self._retired = True
        if self._acting:
            self._acting = False
            self._telemetry.leads(0)
            _log.info("not leading any more: asked to end")

    async def resign(self) -> None:
        """Let what was sent come to its end, take our label away, and give the lease back, so that another may lead."""
        self.retire()
        self._closed = True
        await self.duties.over()
        self._label.want(leader=False)
        try:
            async with asyncio.timeout(_FAREWELL_S):
                await self._label.settled()
        except TimeoutError:
            _log.warning("our pod keeps the leader's label: the API server does not answer")
        async with self._asking:
            self._resigned = True
            call = self._election.release(wall_us=int(self._clock.now_s() * 1e6))
            if call is None:
                return
            try:
                async with asyncio.timeout(_FAREWELL_S):
                    await self._api.write(call.spec, call.over)
            except (ApiError, ApiUnavailableError, TimeoutError) as error:
                _log.warning("the lease is not given back, another has to wait for it: %s", str(error) or "no answer")
            else:
                _log.info("the lease is given back")


class FencedApi:
    """Every call of ClusterApi, so that nothing is sent that could arrive as a former leader's (docs/safety.md S11).

    What is not in `READS` is a write. It begins only while the lease is ours, and is given up when that is over.
    """

    def __init__(self, api: ClusterApi, room_s: Callable[[], float]) -> None:
        self._api, self._room_s, self._under_way = api, room_s, 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def idle(self) -> None:
        """Wait until no write is under way. Each has its time limit, so this ends."""
        await self._idle.wait()

    def __getattr__(self, name: str) -> Any:
        """A call of the port; one that writes raises ApiUnavailableError when the lease is not or no longer ours."""
        call = getattr(self._api, name)
        return call if name in READS else partial(self._write, name, call)

    async def _write(self, name: str, call: Callable[..., Awaitable[_T]], *arguments: Any, **more: Any) -> _T:
        room_s = self._room_s()
        if room_s <= 0.0:
            raise ApiUnavailableError(f"{name}: not sent, this replica does not hold the lease")
        self._under_way += 1
        self._idle.clear()
        try:
            async with asyncio.timeout(room_s) as limit:
                return await call(*arguments, **more)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise ApiUnavailableError(f"{name}: given up before the lease ends, outcome unknown") from error
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()
