"""Keep the current plan: run the planner when something changed, and call the listeners.

Why not per request: kube-scheduler asks for each pod, and a gang of 64 would be planned 64 times. Changes are coalesced
into at most one run per `interval_s`, stretching to five times the last run's length, so that planning never takes more
than a sixth of the loop (docs/safety.md S15). A gang that changed since is planned on the spot when that sixth allows,
for one slice at most: a longer run goes on by itself, and the caller is answered by the plan there is.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass

from extender.cache import ClusterCache
from extender.ports import Clock
from extender.runtime.decision_lines import DecisionLog
from extender.runtime.slices import next_slice
from extender.runtime.telemetry import Telemetry
from extender.scheduling.planning.plan_report import PlanReport
from scoring.model import Gang, Policy, Reason, Snapshot
from scoring.network.matrix import NetworkMatrix
from scoring.plan import Plan, PlannerCache, plan_in_steps
from scoring.plan.pair_scores import warmed
from scoring.plan.steps import Steps

_TIMED = frozenset({Reason.SPILL_WAIT, Reason.BACKING_OFF})  # Such gangs are looked at again without an event
_TIMED_LOOK_S = 1.0
_INLINE_NODES = 200  # Up to this many nodes are scored by the plan that needs them, within milliseconds
_SLICE_S = 0.005  # On the spot a run goes on for this long and the step it is in, while a caller waits for the answer
_TURN_S = 0.003  # Else it lets others run after this long and its step: together below 20 ms (docs/safety.md S15)
INTERVAL_S = 0.05  # Changes closer together than this become one run: a Job's pods arrive tens of milliseconds apart
_EXPECTED_S = 0.3  # A plan that came true is renewed after this long at the latest
_STRETCH = 5.0  # Pause after a run, in lengths of that run
_LONGEST_PAUSE_S = 2.0  # What piles up in a pause makes the next run longer, also on a busy machine


@dataclass(slots=True)
class _Begun:
    snapshot: Snapshot
    now_s: float
    previous: Plan
    steps: Steps[Plan]
    took_s: float


@dataclass(eq=False, repr=False)
class Planner:
    """The one writer of the current plan."""

    cluster: ClusterCache
    policy: Policy
    clock: Clock
    telemetry: Telemetry
    log: DecisionLog
    _: KW_ONLY
    interval_s: float = INTERVAL_S

    def __post_init__(self) -> None:
        self.cache = PlannerCache()
        self.current = Plan(version=-1)
        self.snapshot: Snapshot | None = None
        self.recorded: Callable[[float, Snapshot, Plan, Plan], None] = lambda *_: None
        """Called with moment, snapshot and previous plan of each run, and the plan it made; must not await or raise."""
        self.report = PlanReport(self.telemetry, self.log, self.clock)  # Its `run` is to be running
        self.changed_s = -float("inf")
        self._dirty = asyncio.Event()
        self._begun: _Begun | None = None
        self._expected: asyncio.TimerHandle | None = None  # Will start a run for changes that were foreseen
        self._listeners: list[Callable[[Plan], None]] = []
        self._not_before_s = -float("inf")
        self._spot_not_before_s = -float("inf")

    @property
    def now_s(self) -> float:
        """The moment by which it plans, Unix seconds."""
        return self.clock.now_s()

    def subscribe(self, listener: Callable[[Plan], None]) -> None:
        """Call `listener` with each new plan; it must not await and not raise."""
        self._listeners.append(listener)

    def mark_dirty(self) -> None:
        """Something changed that may change the plan: run soon."""
        self.changed_s = self.clock.monotonic_s()
        self._dirty.set()

    def mark_expected(self) -> None:
        """What the plan foresaw happened, as for each pod of a burst: renew it with the next change, or later."""
        self.changed_s = self.clock.monotonic_s()
        if self._expected is None and not self._dirty.is_set():
            self._expected = asyncio.get_running_loop().call_later(_EXPECTED_S, self._dirty.set)

    def plan_for(self, gang: Gang) -> Plan:
        """The current plan, renewed on the spot if that may end a "no", which costs a pod seconds of backoff."""
        now_s = self.clock.monotonic_s()
        if not self._is_answered(gang) and now_s >= self._spot_not_before_s:
            going = self._begun is not None or self._begin()
            while going and self._go_on_for_a_slice():
                going = not self._is_answered(gang) and self.clock.monotonic_s() < now_s + _SLICE_S and self._begin()
        return self.current

    def replan_for_a_slice(self) -> Plan:
        """Plan the cluster as it is now, at once if one slice is enough; else it goes on by itself."""
        if self._begin():
            self._go_on_for_a_slice()
        return self.current

    def replan(self) -> Plan:
        """Plan the cluster as it is now, however long it takes; if unchanged, only when time alone may decide."""
        if self._begin():
            self._go_on(float("inf"))
        return self.current

    async def replan_in_steps(self) -> None:
        """As `replan`, but the event loop serves others every `_TURN_S`; given up when a newer plan is made."""
        await next_slice()
        until_s = self.clock.monotonic_s() + _TURN_S
        if self._begun is None and not self._begin():
            return
        mine = self._begun
        if mine is not None and mine.snapshot.version == self.cluster.version:
            self._dirty.clear()
        while mine is self._begun:
            if self._go_on(until_s):
                return
            await next_slice()
            until_s = self.clock.monotonic_s() + _TURN_S

    def _is_answered(self, gang: Gang) -> bool:
        """Whether the current plan says of the gang what a new one would say, as far as is known."""
        snapshot = self.snapshot
        return (
            snapshot is not None
            and snapshot.gangs.get(gang.key) is gang
            and (gang.key in self.current.admitted or self.cluster.version == snapshot.version)
        )

    def _begin(self) -> bool:
        """Begin a run of the cluster as it is now, in place of one that is under way; `False`: there is no need."""
        snapshot = self._fresh_snapshot()
        self._begun = None
        if snapshot is None:
            return False
        began_s, now_s = self.clock.monotonic_s(), self.clock.now_s()
        steps = plan_in_steps(snapshot, self.policy, now_s=now_s, previous=self.current, cache=self.cache)
        self._begun = _Begun(snapshot, now_s, self.current, steps, self.clock.monotonic_s() - began_s)
        return True

    def _go_on_for_a_slice(self) -> bool:
        """Go on with the run that is under way while a caller waits for the answer; whether it ended."""
        ended = self._go_on(self.clock.monotonic_s() + _SLICE_S)
        if not ended:
            self._spot_not_before_s = self.clock.monotonic_s() + _STRETCH * _SLICE_S
            self._dirty.set()  # the planner's task goes on with it
        return ended

    def _go_on(self, until_s: float) -> bool:
        """Go on with the run that is under way, until the first step that ends too late; whether it ended."""
        mine = self._begun
        assert mine is not None
        began_s = self.clock.monotonic_s()
        while True:
            try:
                next(mine.steps)
            except StopIteration as done:
                self._begun = None
                self.recorded(mine.now_s, mine.snapshot, mine.previous, done.value)
                self._adopt(done.value, mine.snapshot, took_s=mine.took_s + self.clock.monotonic_s() - began_s)
                return True
            now_s = self.clock.monotonic_s()
            if now_s >= until_s:
                mine.took_s += now_s - began_s
                return False

    def _fresh_snapshot(self) -> Snapshot | None:
        """What is to be planned now; `None`: the current plan is of just that."""
        snapshot = self.cluster.snapshot()
        self._dirty.clear()
        if self._expected is not None:
            self._expected.cancel()
            self._expected = None
        if self.snapshot is not None and snapshot.version == self.current.version and not self._time_may_decide():
            return None
        return snapshot

    def _adopt(self, made: Plan, snapshot: Snapshot, *, took_s: float) -> None:
        before, self.current, self.snapshot = self.current, made, snapshot
        now_s = self.clock.monotonic_s()
        self._spot_not_before_s = now_s + _STRETCH * took_s
        self._not_before_s = now_s + max(self.interval_s, min(_STRETCH * took_s, _LONGEST_PAUSE_S))
        self.report.made(before, made, took_s=took_s)
        for listener in self._listeners:
            listener(self.current)

    async def prepare(self, network: NetworkMatrix) -> None:
        """Score new network data before it is planned with; large clusters are scored in a thread."""
        snapshot = self.cluster.snapshot()
        if len(snapshot.table.nodes) > _INLINE_NODES:
            self.cache.take_over(await asyncio.to_thread(warmed, snapshot, network, self.policy))
            self._begun = None  # it would throw the new data's scores away
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
            await self.replan_in_steps()

    def _time_may_decide(self) -> bool:
        return any(waiting.reason in _TIMED for waiting in self.current.waiting.values())
