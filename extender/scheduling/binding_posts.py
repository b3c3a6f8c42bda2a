"""Post Bindings: how many are under way at one time, which is next, and what became of each.

Rule: success is reported only after the API server confirmed it. A Binding begins at the latest when half of the commit
timeout has passed since the hold limit of the call that asked for it, and takes `BINDING_MAX_S` at most; kube-scheduler
waits for that (`extender.settings.settings`). A gang that became invalid or too small meanwhile posts no further one
(docs/safety.md S24), and after a long wait all of its places must still do before the first.

Why a limiter: a Binding that waits inside the client uses up its time limit there; a burst of a thousand fails, is
looked up (which makes a slow API server slower still) and comes again. So as many are under way as it answers in time:
the number grows with answers, most with quick ones, and is halved when one is slow or does not come. Those asked for
together stay together, those of partly bound gangs go first, else first come, first served. A gang of which none was
sent when its time is over fails whole; one that has started has more time.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

import msgspec

from extender.controllers.context import ControllerContext
from extender.errors import ApiError, ApiUnavailableError, ConflictError, NotFoundError
from extender.ports import Binding, Clock
from extender.runtime.decision_lines import Decision
from scoring import GangKey, NodeName, PodUid
from scoring.model import Gang, Reason

MOST = 24  # The client has 32 connections; patches that let pods go use up to 16
_FIRST = 8
_FEWEST = 4  # However slow it is: calls may take long for other reasons than ours
_SLOW_S = 2.5  # The client waits three seconds for an answer
_FAIR_S = 1.5
_QUICK_S = 0.25
_FORGET_S = 10.0  # After so long without a slow answer the number may grow quickly again


class Turns(msgspec.Struct, eq=False):
    """Bindings that wait for their turns together. Times are the clock's monotonic seconds."""

    begin_by_s: float  # If none has had its turn by then, none gets one
    end_by_s: float  # From then on none gets a turn at all
    urgent: bool = False  # Members of it are bound already
    begun: bool = False
    over: bool = False
    queued: bool = False
    timer: asyncio.TimerHandle | None = None
    waiting: "deque[asyncio.Future[bool]]" = msgspec.field(default_factory=deque)

    @property
    def limit_s(self) -> float:
        """When those that wait give up."""
        return self.end_by_s if self.begun else self.begin_by_s


class GangTurns(Turns, kw_only=True, eq=False):
    """The Bindings that one step of a gang's machine asked for."""

    key: GangKey
    places: Mapping[PodUid, NodeName]
    asked_s: float
    gang: Gang | None  # As it was when it was found that they may go on
    looked_at: bool = False
    posting: bool = False  # The first of them was on its way


class InFlightLimiter:
    """Limits one event loop's Bindings; `most`: the largest number that may be under way."""

    def __init__(self, clock: Clock, *, most: int = MOST) -> None:
        self._clock = clock
        self._most = most
        self._room = float(min(_FIRST, most))
        self._quickly_below = float(most)  # Below it quick answers add one each, above one a round
        self.under_way = 0
        self._slow_at_s = -float("inf")
        self._queues: tuple[deque[Turns], deque[Turns]] = deque(), deque()  # urgent ones, others
        self.closed = False  # No turn is given

    @property
    def room(self) -> int:
        """How many may be under way now."""
        return int(self._room)

    async def take(self, turns: Turns) -> bool:
        """Wait for a turn; `give_back` it. `False`: none will come, nothing must be posted."""
        if self.closed or turns.over or self._clock.monotonic_s() >= turns.limit_s:
            return False
        if self.under_way < self.room and not any(self._queues):
            turns.begun = True
            self.under_way += 1
            return True
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if not turns.queued:
            turns.queued = True
            queue = self._queues[0 if turns.urgent else 1]
            (queue.appendleft if turns.begun else queue.append)(turns)
        turns.waiting.append(waiter)
        if turns.timer is None:
            self._watch(turns)
        self._next()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.result():
                self.under_way -= 1  # it came together with the cancellation
                self._next()
            raise

    def give_back(self, *, began_s: float, answered: bool) -> None:
        """A Binding that began at `began_s` is over; `answered`: the API server was there and not too busy."""
        self.under_way -= 1
        now_s = self._clock.monotonic_s()
        took_s = now_s - began_s
        if not answered or took_s > _SLOW_S:
            if began_s >= self._slow_at_s:  # those that began before it was halved do not count against the half
                self._room = self._quickly_below = max(self._room / 2.0, float(min(_FEWEST, self._most)))
                self._slow_at_s = now_s
        elif took_s < _FAIR_S:
            if now_s - self._slow_at_s > _FORGET_S:
                self._quickly_below = float(self._most)
            quickly = took_s < _QUICK_S and self._room < self._quickly_below
            step = 1.0 if quickly else 1.0 / self._room
            self._room = min(self._room + step, float(self._most))
        self._next()

    def refuse(self, turns: Turns) -> None:
        """Those that still wait are not sent."""
        turns.over = True
        if turns.timer is not None:
            turns.timer.cancel()
            turns.timer = None
        while turns.waiting:
            waiter = turns.waiting.popleft()
            if not waiter.done():
                waiter.set_result(False)

    def close(self) -> None:
        """Give no turns any more, until `closed` is reset."""
        self.closed = True
        for queue in self._queues:
            while queue:
                turns = queue.popleft()
                turns.queued = False
                self.refuse(turns)

    def _watch(self, turns: Turns) -> None:
        """Refuse those that wait when their limit has passed, which is later once one has begun."""
        turns.timer, left_s = None, turns.limit_s - self._clock.monotonic_s()
        if turns.waiting and left_s > 0:
            turns.timer = asyncio.get_running_loop().call_later(left_s, self._watch, turns)
        elif turns.waiting:
            self.refuse(turns)

    def _next(self) -> None:
        """Give turns to the longest waiting, while there is room; turns of which none waits leave their queue."""
        for queue in self._queues:
            while queue and self.under_way < self.room:
                turns = queue[0]
                waiter = turns.waiting.popleft() if turns.waiting else None
                if not turns.waiting:
                    queue.popleft().queued = False
                if waiter is not None and not waiter.done():
                    turns.begun = True
                    self.under_way += 1
                    waiter.set_result(True)


@dataclass(eq=False, repr=False)
class Posts:
    """Puts pods on nodes, each as soon as it has its turn."""

    context: ControllerContext
    _: KW_ONLY
    hold_s: float
    commit_s: float
    alone_max: int
    _alone: Counter[str] = field(default_factory=Counter, init=False)  # namespace → calls of its pods without a gang

    def __post_init__(self) -> None:
        self.limiter = InFlightLimiter(self.context.clock)

    async def alone(self, binding: Binding) -> Reason | None:
        """Post the Binding of a pod without a gang. `None`: the API server confirmed it."""
        if self.limiter.closed:
            return Reason.NOT_LEADER
        if self._alone[binding.namespace] >= self.alone_max - self._alone.total():  # as for members of gangs
            return Reason.TOO_MANY_HELD
        begin_by_s = self.context.clock.monotonic_s() + self.hold_s
        self._alone[binding.namespace] += 1
        try:
            if not await self.limiter.take(Turns(begin_by_s, begin_by_s)):
                return Reason.COMMIT_FAILED
            began_s = self.context.clock.monotonic_s()
            error: Exception | None = TimeoutError()
            try:
                error = await self.tried(binding)
            finally:
                self.limiter.give_back(began_s=began_s, answered=error is None or was_answered(error))
        finally:
            self._alone -= Counter((binding.namespace,))
        return None if error is None else self.failed(binding, error)

    async def tried(self, binding: Binding) -> Exception | None:
        """One Binding within the commit timeout. `None`: the API server confirmed it."""
        try:
            async with asyncio.timeout(self.commit_s):
                await self.context.api.bind(binding)
        except (ApiError, ApiUnavailableError, TimeoutError) as error:
            return error
        self.context.cache.pods.assume(binding.uid, binding.node)
        self.context.telemetry.binding_posted("bound")
        return None

    def failed(self, binding: Binding, error: Exception) -> Reason:
        """Count and log a Binding that was not confirmed; what its call is answered."""
        conflict, pod = isinstance(error, ConflictError), f"{binding.namespace}/{binding.name}"
        self.context.telemetry.binding_posted("conflict" if conflict else "error")
        self.context.decided(Decision("post", pod, node=binding.node, reason=Reason.COMMIT_FAILED))
        if isinstance(error, NotFoundError):
            return Reason.POD_DELETED
        return Reason.POD_CHANGED if conflict else Reason.COMMIT_FAILED


def was_answered(error: Exception) -> bool:
    """Whether the API server was there and not too busy, though it said no.

    >>> was_answered(ConflictError(409, "is bound")), was_answered(ApiError(429, "later")), was_answered(TimeoutError())
    (True, False, False)
    """
    return isinstance(error, ApiError) and error.status < 500 and error.status != 429
