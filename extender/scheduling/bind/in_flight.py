"""The in-flight limiter: how many Bindings are under way at one time, and which is next.

Why: a Binding that waits inside the client uses up its time limit there. When the API server is slow, a burst of a
thousand then fails in the queue, is looked up (which makes it slower still) and comes again. Rule: as many are under
way as the API server answers in time: the number grows with answers, most with quick ones, and is halved when one is
slow or does not come. Bindings that were asked for together stay together, those of partly bound gangs go first, else
first come, first served. A gang of which no Binding was sent when its time is over fails whole, so that it is not
partial; one that has started has more time for the rest.
"""

import asyncio
from collections import deque

import msgspec

from extender.ports import Clock

MOST = 24  # The client has 32 connections; patches that let pods go use up to 16
_FIRST = 8
_FEWEST = 4  # However slow it is: calls may take long for other reasons than ours
_SLOW_S = 2.5  # The client waits three seconds for an answer
_FAIR_S = 1.5
_QUICK_S = 0.25
_FORGET_S = 10.0  # After so long without a slow answer the number may grow quickly again


class Batch(msgspec.Struct, eq=False):
    """Bindings that were asked for in one step. Times are the clock's monotonic seconds."""

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


class InFlightLimiter:
    """Limits one event loop's Bindings; `most`: the largest number that may be under way."""

    def __init__(self, clock: Clock, *, most: int = MOST) -> None:
        self._clock = clock
        self._most = most
        self._room = float(min(_FIRST, most))
        self._quickly_below = float(most)  # Below it quick answers add one each, above one a round
        self.under_way = 0
        self._slow_at_s = -float("inf")
        self._queues: tuple[deque[Batch], deque[Batch]] = deque(), deque()  # urgent ones, others
        self._closed = False

    @property
    def room(self) -> int:
        """How many may be under way now."""
        return int(self._room)

    async def take(self, group: Batch) -> bool:
        """Wait for a turn; `give_back` it. `False`: none will come, nothing must be posted."""
        if self._closed or group.over or self._clock.monotonic_s() >= group.limit_s:
            return False
        if self.under_way < self.room and not any(self._queues):
            self._begin(group)
            return True
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._wait(group, waiter)
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

    def refuse(self, group: Batch) -> None:
        """Those of the group that still wait are not sent."""
        group.over = True
        if group.timer is not None:
            group.timer.cancel()
            group.timer = None
        while group.waiting:
            waiter = group.waiting.popleft()
            if not waiter.done():
                waiter.set_result(False)

    def close(self) -> None:
        """Give no turns any more, until `open`."""
        self._closed = True
        for queue in self._queues:
            while queue:
                group = queue.popleft()
                group.queued = False
                self.refuse(group)

    def open(self) -> None:
        """Give turns again."""
        self._closed = False

    def _wait(self, group: Batch, waiter: asyncio.Future[bool]) -> None:
        queue = self._queues[0 if group.urgent else 1]
        if not group.queued:
            group.queued = True
            (queue.appendleft if group.begun else queue.append)(group)
        group.waiting.append(waiter)
        if group.timer is None:
            self._watch(group)
        self._next()

    def _watch(self, group: Batch) -> None:
        delay_s = max(group.limit_s - self._clock.monotonic_s(), 0.0)
        group.timer = asyncio.get_running_loop().call_later(delay_s, self._late, group)

    def _late(self, group: Batch) -> None:
        """A limit of the group has passed, or would have, had it not started."""
        group.timer = None
        if not group.waiting:
            return
        if self._clock.monotonic_s() < group.limit_s:
            self._watch(group)
        else:
            self.refuse(group)

    def _begin(self, group: Batch) -> None:
        group.begun = True
        self.under_way += 1

    def _next(self) -> None:
        while self.under_way < self.room and (found := self._longest_waiting()) is not None:
            group, waiter = found
            self._begin(group)
            waiter.set_result(True)

    def _longest_waiting(self) -> tuple[Batch, asyncio.Future[bool]] | None:
        """The next one, taken out of its queue; a group of which none waits any more leaves with it."""
        for queue in self._queues:
            while queue:
                group = queue[0]
                waiter = group.waiting.popleft() if group.waiting else None
                if not group.waiting:
                    queue.popleft().queued = False
                if waiter is not None and not waiter.done():
                    return group, waiter
        return None
