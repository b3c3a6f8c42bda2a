"""kube-scheduler's queue: which pod is tried next, which wait for a timer, which for an event.

Modelled from kube-scheduler 1.36 (`PriorityQueue`): a refused pod is parked until an event may help it, and then still
waits for the rest of its backoff; after an error it waits for its timer alone. Rules: one pod is in one place; events
that come while a pod is being tried count when it comes back; the order is the profile's, then that of arrival. Backoff
is 1, 2, 4, 8, 10 s by the number of refusals, or of errors in a row, and is looked at once a second.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import TypeAlias

from lab.simulator.pods.kube_scheduler.queueing_hints import Event, Happened, Plugin, concerns, may_help
from scoring.ids import PodUid
from scoring.model import Pod


class Place(Enum):
    """Where a pod is."""

    NEXT = "active queue"
    BACKOFF = "backoff queue"
    ERROR_BACKOFF = "error backoff queue"
    PARKED = "unschedulable pods"
    TRIED = "in a scheduling cycle, or at Permit"
    AWAY = "bound, or not known"


@dataclass(slots=True, eq=False)
class Queued:
    """A pod in the queue. Times are the loop's."""

    pod: Pod
    created: int
    """Number of its arrival"""
    since_s: float
    """When it came into the queue first, or back from its last try"""
    place: Place = Place.AWAY
    refusals: int = 0
    errors: int = 0
    """In a row"""
    tries: int = 0
    refused_by: frozenset[Plugin] = frozenset()
    ready_s: float = 0.0
    """End of its backoff"""
    said: str = ""
    """The last refusal's message"""
    meanwhile: list[Happened] = field(default_factory=list)
    """What happened since it was taken out"""
    turn: int = 0
    """Which entry of the heaps is its own; older ones are void"""

    @property
    def uid(self) -> PodUid:
        """The pod's uid."""
        return self.pod.uid


Order: TypeAlias = Callable[[Queued], tuple[object, ...]]
"""Sorts the active queue; smaller is sooner."""


def by_priority(one: Queued) -> tuple[object, ...]:
    """In-tree PrioritySort: the higher priority, then the one that came into the queue first."""
    return -one.pod.priority, one.since_s


LONG_S = 300.0
"""Parked pods are tried again after this, whatever happens."""
_LONG_LOOK_S = 30.0
_BACKOFF_LOOK_S = 1.0


class SchedulingQueue:
    """All unbound pods of one scheduler. `pop` gives the next, `back` and `failed` return it, `bound` ends it."""

    def __init__(
        self,
        *,
        order: Order = by_priority,
        initial_backoff_s: float = 1.0,
        max_backoff_s: float = 10.0,
        pops_backoff: bool = True,
    ) -> None:
        self._order = order
        self._initial_s = initial_backoff_s
        self._max_s = max_backoff_s
        self._pops_backoff = pops_backoff
        """Feature SchedulerPopFromBackoffQ: with nothing else to do, ordinary backoffs are cut short"""
        self._pods: dict[PodUid, Queued] = {}
        self._next: list[tuple[tuple[object, ...], int, int, Queued]] = []
        self._backoff: list[tuple[float, tuple[object, ...], int, int, Queued]] = []
        self._errors: list[tuple[float, tuple[object, ...], int, int, Queued]] = []
        self._parked: dict[frozenset[Plugin], dict[PodUid, Queued]] = {}
        """what refused → the pods parked for it, by uid"""
        self._tried: dict[PodUid, Queued] = {}
        self._turns = count(1)
        self._arrivals = count(1)
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def get(self, uid: PodUid) -> Queued | None:
        """A pod that waits or is being tried."""
        return self._pods.get(uid)

    def counts(self) -> dict[Place, int]:
        """How many pods are where. Cost: O(pods)."""
        found = dict.fromkeys(Place, 0)
        for one in self._pods.values():
            found[one.place] += 1
        return found

    async def pop(self) -> Queued:
        """The next pod, once there is one; it is then being tried."""
        while True:
            one = self._take(self._next) or (self._take(self._backoff) if self._pops_backoff else None)
            if one is not None:
                one.place = Place.TRIED
                one.tries += 1
                one.meanwhile = []
                self._tried[one.uid] = one
                return one
            self._news.clear()
            await self._news.wait()

    async def run(self) -> None:
        """Look at the timers until cancelled."""
        long_s = self._loop.time() + _LONG_LOOK_S
        while True:
            await asyncio.sleep(_BACKOFF_LOOK_S)
            now_s, over_s = self._loop.time(), self._now_s()
            for heap in (self._backoff, self._errors):
                while heap and (heap[0][-1].turn != heap[0][-2] or heap[0][0] < over_s):
                    one = self._take_first(heap)
                    if one is not None:
                        self._to_next(one)
            if now_s >= long_s:
                long_s = now_s + _LONG_LOOK_S
                self._move([one for one in self._all_parked() if now_s - one.since_s > LONG_S], _WAITED)

    # -- what happens to pods -----------------------------------------------------------------------------------------

    def add(self, pod: Pod) -> None:
        """A new unbound pod."""
        one = Queued(pod, next(self._arrivals), self._loop.time())
        self._pods[pod.uid] = one
        self._to_next(one)

    def update(self, pod: Pod) -> None:
        """The same pod changed; one that was not known is new."""
        one = self._pods.get(pod.uid)
        if one is None:
            self.add(pod)
            return
        gated = bool(one.pod.gates)
        one.pod = pod
        event = _UNGATED if gated and not pod.gates else _CHANGED
        if one.place is Place.TRIED:
            one.meanwhile.append(event)
        elif one.place is Place.PARKED and may_help(event, pod, one.refused_by):
            self._requeue(one)

    def remove(self, uid: PodUid) -> None:
        """The pod is gone, or bound."""
        one = self._pods.pop(uid, None)
        if one is not None:
            self._leave(one)
            one.place = Place.AWAY
            self._tried.pop(uid, None)

    def happened(self, what: Happened, *, but: PodUid | None = None) -> None:
        """An event that may help those that are parked, all but one pod."""
        for one in self._tried.values():
            if one.uid != but:
                one.meanwhile.append(what)
        for refused_by in [key for key in self._parked if concerns(what, key)]:
            listed = [one for one in self._parked[refused_by].values() if one.uid != but]
            self._move([one for one in listed if may_help(what, one.pod, refused_by)], what)

    def activate(self, uids: Iterable[PodUid]) -> None:
        """Try these at once, whatever their backoff."""
        for uid in uids:
            one = self._pods.get(uid)
            if one is None:
                continue
            if one.place is Place.TRIED:
                one.meanwhile.append(_ACTIVATED)
            elif one.place is not Place.NEXT:
                self._leave(one)
                self._to_next(one)

    # -- how a try ends -----------------------------------------------------------------------------------------------

    def done(self, one: Queued) -> None:
        """Its place is found and it goes to bind: what happens from now on does not concern it."""
        self._tried.pop(one.uid, None)
        one.meanwhile = []

    def back(self, one: Queued, refused_by: frozenset[Plugin]) -> None:
        """It came back: refused by these, or, with none, from an error. Nothing for a pod that is gone."""
        self._tried.pop(one.uid, None)
        if self._pods.get(one.uid) is not one:
            return
        one.refused_by = refused_by
        if refused_by:
            one.refusals += 1
            one.errors = 0
        else:
            one.errors += 1
        one.since_s = self._loop.time()
        number = one.errors or one.refusals
        one.ready_s = one.since_s + min(self._initial_s * 2 ** min(number - 1, 30), self._max_s)
        meanwhile, one.meanwhile = one.meanwhile, []
        if not refused_by or any(may_help(what, one.pod, refused_by) for what in meanwhile):
            self._requeue(one)
        else:
            self._park(one)

    # -- places -------------------------------------------------------------------------------------------------------

    def _move(self, some: list[Queued], what: Happened) -> None:
        for one in some:
            if not one.pod.gates or what.event is Event.GATE_GONE:
                self._requeue(one)

    def _requeue(self, one: Queued) -> None:
        """To the active queue, or to the rest of its backoff."""
        self._leave(one)
        if one.ready_s >= self._now_s() and (one.refusals or one.errors):
            self._to_backoff(one)
        else:
            self._to_next(one)

    def _to_next(self, one: Queued) -> None:
        if one.pod.gates:
            one.refused_by = frozenset({Plugin.GATES})
            self._park(one)
            return
        one.place = Place.NEXT
        one.turn = next(self._turns)
        heapq.heappush(self._next, (self._order(one), one.created, one.turn, one))
        self._news.set()

    def _to_backoff(self, one: Queued) -> None:
        errors = not one.refused_by
        one.place = Place.ERROR_BACKOFF if errors else Place.BACKOFF
        one.turn = next(self._turns)
        ready_s = float(int(one.ready_s)) if self._pops_backoff else one.ready_s
        entry = (ready_s, self._order(one), one.created, one.turn, one)
        heapq.heappush(self._errors if errors else self._backoff, entry)
        if self._pops_backoff and not errors:
            self._news.set()

    def _park(self, one: Queued) -> None:
        one.place = Place.PARKED
        self._parked.setdefault(one.refused_by, {})[one.uid] = one

    def _leave(self, one: Queued) -> None:
        if one.place is Place.PARKED:
            among = self._parked[one.refused_by]
            del among[one.uid]
            if not among:
                del self._parked[one.refused_by]
        one.turn = 0

    def _all_parked(self) -> list[Queued]:
        return [one for among in self._parked.values() for one in among.values()]

    def _now_s(self) -> float:
        now_s = self._loop.time()
        return float(int(now_s)) if self._pops_backoff else now_s

    def _take(self, heap: list) -> Queued | None:  # type: ignore[type-arg]
        """The first valid entry, removed."""
        while heap:
            one = self._take_first(heap)
            if one is not None:
                return one
        return None

    def _take_first(self, heap: list) -> Queued | None:  # type: ignore[type-arg]
        """Remove the first entry; `None`: it was void."""
        entry = heapq.heappop(heap)
        one: Queued = entry[-1]
        if one.turn != entry[-2]:
            return None
        one.turn = 0
        return one


_CHANGED = Happened(Event.ITSELF_CHANGED)
_UNGATED = Happened(Event.GATE_GONE)
_ACTIVATED = Happened(Event.ACTIVATED)
_WAITED = Happened(Event.WAITED_LONG)
