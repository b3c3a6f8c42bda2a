"""Keep the current plan: run the planner when something changed, call the listeners, and report what is new in it.

Why not per request: kube-scheduler asks for each pod, and a gang of 64 would be planned 64 times. Changes are coalesced
into at most one run per `_INTERVAL_S`, stretching to five times the last run's length, so that planning takes a sixth
of a processor at most. A gang that changed since is waited for by its caller for some milliseconds, when that
sixth allows. Runs are the worker's (docs/safety.md S15), on snapshots; the event loop adopts what they made, and plans
again at once if meanwhile room was promised to a gang that the run did not know of. Of many new gangs it takes the
first `_MOST_NEW` and is `unfinished`; until all are planned it may take half of the processor.

Plans are reported a few lines at a time, all of them and in order: one can change the reason of a thousand gangs, and a
hundred lines of the log take more than all else in the slice that ends a run.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from extender.cache.cluster import ClusterCache
from extender.ports import Clock
from extender.runtime.decision_lines import Decision, DecisionLog
from extender.runtime.slices import Worker, next_slice
from extender.runtime.telemetry import Telemetry
from scoring.model import Policy, Reason, Snapshot
from scoring.network.matrix import NetworkMatrix
from scoring.plan import Plan, PlannerCache, plan
from scoring.plan.run import warmed
from scoring.verbs.places import PlanPlaces

_TIMED = frozenset({Reason.SPILL_WAIT, Reason.BACKING_OFF})  # Such gangs are looked at again without an event
_TIMED_LOOK_S = 1.0
_INLINE_NODES = 200  # Up to this many nodes are scored by the plan that needs them, within milliseconds
_CALLER_WAITS_S = 0.008  # kube-scheduler schedules no other pod meanwhile
_INTERVAL_S = 0.05  # Changes closer together than this become one run: a Job's pods arrive tens of milliseconds apart
_EXPECTED_S = 0.3  # A plan that came true is renewed after this long at the latest
_STRETCH = 5.0  # Pause after a run, in lengths of that run
_MOST_NEW = 200  # Of a thousand unlike ones on 5,000 nodes: 0.1 to 0.4 s a run
_LONGEST_PAUSE_S = 2.0  # What piles up in a pause makes the next run longer, also on a busy machine
_LINES_A_STEP = 8
_PLANS = 8  # Plans that may wait for their report; the oldest is reported at once when there is one more
T = TypeVar("T")


async def at_once(work: Callable[[], T]) -> T:
    """A worker for tests in virtual time, and for looks at a saved cluster: the caller itself."""
    return work()


class PlanReport:
    """What is still to be reported. Bounded by `_PLANS` plans."""

    def __init__(self, telemetry: Telemetry, log: DecisionLog, clock: Clock) -> None:
        self._telemetry, self._log, self._clock = telemetry, log, clock
        self._left: deque[Iterator[Decision]] = deque()
        self._any = asyncio.Event()

    def made(self, before: Plan, now: Plan, *, took_s: float) -> None:
        """A plan took the place of `before`: count it now, and report what is new in it soon."""
        self._telemetry.planned(took_s)
        self._telemetry.gangs({"admitted": len(now.admitted), "waiting": len(now.waiting)})
        self._left.append(_news(before, now, took_s))
        while len(self._left) > _PLANS:
            self._write_lines()
        self._any.set()

    async def run(self) -> None:
        """Report until cancelled, with a moment for others after every few lines; what is left then, at once."""
        try:
            while True:
                await self._any.wait()
                self._any.clear()
                while self._left:
                    self._write_lines()
                    await next_slice()
        finally:
            while self._left:
                self._write_lines()

    def _write_lines(self) -> None:
        for _ in range(_LINES_A_STEP):
            if (decision := next(self._left[0], None)) is None:
                self._left.popleft()
                return
            self._log.log_decision(decision, now_s=self._clock.monotonic_s())


def _news(before: Plan, now: Plan, took_s: float) -> Iterator[Decision]:
    """What `now` decides otherwise than `before`: which gangs it admits, and which have another reason to wait."""
    for key, admission in now.admitted.items():
        if key not in before.admitted:
            nodes = ",".join(sorted(set(admission.members.values()))[:16])
            parts = {"score": admission.score} if admission.score is not None else {}
            yield Decision("admit", "", key, nodes, "", parts, now.version, duration_ms=took_s * 1000.0)
    for key, waiting in now.waiting.items():
        old = before.waiting.get(key)
        if old is not waiting and (old is None or old.reason is not waiting.reason):
            yield Decision(what="plan", gang=key, reason=waiting.reason, snapshot_version=now.version)


@dataclass(eq=False, repr=False)
class Planner:
    """The one writer of the current plan."""

    cluster: ClusterCache
    policy: Policy
    clock: Clock
    telemetry: Telemetry
    log: DecisionLog
    _: KW_ONLY
    worker: Worker = at_once
    questions: Worker = at_once  # Another one, so that no plan waits for them

    def __post_init__(self) -> None:
        self.cache = PlannerCache()  # For looks on the event loop; another one with each plan
        self._cache = PlannerCache()  # The worker's
        self.current = Plan(version=-1)
        self.snapshot: Snapshot | None = None  # Of which the current plan is
        self.unfinished = False  # The next run begins soon, with gangs that this one left out
        self.recorded: Callable[[float, Snapshot, Plan, Plan], None] = lambda *_: None
        """Called with moment, snapshot and previous plan of each run, and the plan it made; must not await or raise."""
        self.report = PlanReport(self.telemetry, self.log, self.clock)  # Its `run` is to be running
        self.change = asyncio.Event()  # Set at each change of the cluster
        self.changed_s = -float("inf")
        self._dirty = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()  # Of what the worker keeps from run to run
        self._expected: asyncio.TimerHandle | None = None  # Will start a run for changes that were foreseen
        self._listeners: list[Callable[[Plan], None]] = []
        self.subscribe = self._listeners.append
        """Call the listener with each new plan; it must not await and not raise."""
        self._not_before_s = -float("inf")
        self.soon_not_before_s = -float("inf")  # Before it a caller does not wait: the sixth is used up
        self._places: tuple[int, Plan, PlanPlaces] | None = None

    @property
    def now_s(self) -> float:
        """The moment by which it plans, Unix seconds."""
        return self.clock.now_s()

    def mark_dirty(self, expected: bool = False) -> None:
        """Something changed that may change the plan: run soon. What the plan foresaw can wait for the next change."""
        self.changed_s = self.clock.monotonic_s()
        self.change.set()
        if not expected:
            self._dirty.set()
        elif self._expected is None and not self._dirty.is_set():
            self._expected = asyncio.get_running_loop().call_later(_EXPECTED_S, self._dirty.set)

    def replan_soon(self) -> None:
        """Plan without waiting for others to change."""
        self._not_before_s = -float("inf")
        self.mark_dirty()

    async def soon(self) -> None:
        """A short wait for a plan of the cluster as it is now."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CALLER_WAITS_S):
                for _ in range(1 if self._running is None else 2):
                    await self.replan()

    async def replan(self) -> Plan:
        """Plan the cluster as it is now, unless a run is under way; if unchanged, only when time alone may decide."""
        if self._running is None:
            self._running = asyncio.create_task(self.run_once(), name="planner run")
        await asyncio.shield(self._running)
        return self.current

    async def ask(self, work: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """The answer to a long question, with a `cache` of its own that begins with what the last run knew."""
        return await self.questions(partial(work, *arguments, cache=self.cache.borrowed(), **named))

    async def run_once(self) -> None:
        """As `replan`, after a run that is under way."""
        try:
            async with self._turn:
                everything = self.cluster.snapshot()
                self._dirty.clear()
                if self._expected is not None:
                    self._expected.cancel()
                    self._expected = None
                same = self.snapshot is not None and everything.version == self.current.version
                if same and not self.unfinished and not self._time_may_decide():
                    return
                began_s, now_s = self.clock.monotonic_s(), self.clock.now_s()
                snapshot, new_plan, cache = await self.worker(partial(self._made, everything, self.current, now_s))
        except BaseException:
            self._dirty.set()  # the caller may wait no more: what went wrong is the planner's own run to hear
            raise
        finally:
            self._running = None
        self.recorded(now_s, snapshot, self.current, new_plan)
        before, self.current, self.snapshot, self.cache = self.current, new_plan, snapshot, cache
        ended_s = self.clock.monotonic_s()
        took_s = ended_s - began_s
        self.soon_not_before_s = ended_s + _STRETCH * took_s
        self.unfinished = len(snapshot.gangs) < len(everything.gangs)
        pause_s = min((1.0 if self.unfinished else _STRETCH) * took_s, _LONGEST_PAUSE_S)
        self._not_before_s = ended_s + max(_INTERVAL_S, pause_s)
        self.report.made(before, new_plan, took_s=took_s)
        for listener in self._listeners:
            listener(new_plan)
        # What was committed during the run may not be where the new plan has it.
        new = (commitment for key, commitment in self.cluster.commitments.items() if key not in snapshot.commitments)
        if self.unfinished or any(
            new_plan.node_of.get(uid) != node for commitment in new for uid, node in commitment.assignment.items()
        ):
            self._dirty.set()

    def places(self) -> PlanPlaces:
        """Where pods of the plan may go in the cluster as it is now; made once for each of the two."""
        snapshot = self.cluster.snapshot()
        if self._places is None or self._places[0] != snapshot.version or self._places[1] is not self.current:
            places = PlanPlaces(snapshot, self.current, self.policy, cache=self.cache)
            self._places = (snapshot.version, self.current, places)
        return self._places[2]

    def _made(self, snapshot: Snapshot, previous: Plan, now_s: float) -> tuple[Snapshot, Plan, PlannerCache]:
        """The worker's part of a run: what was planned of the snapshot, and what looks on the event loop may use."""
        new_plan = plan(snapshot, self.policy, now_s=now_s, previous=previous, cache=self._cache, most_new=_MOST_NEW)
        if later := new_plan.later:
            gangs = {key: gang for key, gang in snapshot.gangs.items() if key not in later}
            snapshot, new_plan = replace(snapshot, gangs=gangs), replace(new_plan, later=frozenset())
        return snapshot, new_plan, self._cache.borrowed()

    async def prepare(self, network: NetworkMatrix) -> None:
        """Score new network data before it is planned with; large clusters are scored in a thread."""
        snapshot = self.cluster.snapshot()
        if len(snapshot.table.nodes) <= _INLINE_NODES:
            return
        scored = await asyncio.to_thread(warmed, snapshot, network, self.policy)

        def take_over() -> PlannerCache:
            self._cache.network = scored
            return self._cache.borrowed()

        async with self._turn:  # a run of the data of before would drop them: none begins before the caller goes on
            self.cache = await self.worker(take_over)
            self._dirty.set()

    async def run(self) -> None:
        """Plan after changes until cancelled."""
        while True:
            with suppress(TimeoutError):  # nothing happened, but a wait may have ended
                async with asyncio.timeout(_TIMED_LOOK_S if self._time_may_decide() else None):
                    await self._dirty.wait()
            pause_s = self._not_before_s - self.clock.monotonic_s()
            if pause_s > 0:
                await asyncio.sleep(pause_s)
            await self.replan()

    def _time_may_decide(self) -> bool:
        return any(waiting.reason in _TIMED for waiting in self.current.waiting.values())
