"""Suppositions about the running cluster: one at a time, a few that wait, and no other request waits for them.

Why a turnstile and a thread: each supposition costs one plan or several, up to a second with a thousand waiting gangs,
and people's questions must not slow down scheduling. Rules: nothing of the service is changed: snapshots and
plans are immutable, and trial plans have a cache of their own, so that the one thread may read them (docs/safety.md
S15). It is kept for the next question, and forgotten after a minute without a question. A caller that comes when
`most_waiting` wait already gets 429.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Final, TypeVar

from extender.cache import ClusterCache
from extender.ports import Clock
from extender.scheduling.planning.loop import Planner
from scoring.explain.unblock import Unblocking, unblock_in_steps
from scoring.model import Gang, Pod, Policy
from scoring.plan import Plan, PlannerCache
from scoring.plan.expected import Calibration
from scoring.plan.pair_scores import warmed
from scoring.plan.steps import finish
from scoring.what_if.changes import AddJob, Change, RemovePods
from scoring.what_if.draft import Situation, no_objects, no_settings
from scoring.what_if.suppose import Supposed, apply, supposed_in_steps, with_expected_starts

_T = TypeVar("_T")
MOST_WAITING: Final = 4
KEPT_S: Final = 60.0  # So long after the last question what was found out is kept for the next one


_MOST_SUPPOSITIONS: Final = 4000  # Trials of one cache, whose tables would grow with what was supposed long ago


class BusyError(Exception):
    """It cannot be answered now: too many questions wait, or the first plan is not made yet."""


@dataclass(eq=False, repr=False)
class WhatIfs:
    """Trial plans on the state of now."""

    cache: ClusterCache
    planner: Planner
    clock: Clock
    _: KW_ONLY
    policy_with: Callable[[Mapping[str, Any]], Policy] = no_settings
    gangs_of: Callable[[AddJob], tuple[Gang, ...]] = no_objects
    calibration: Callable[[], Calibration | None] = lambda: None  # Of expected starts
    most_waiting: int = MOST_WAITING
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _waiting: int = field(default=0, init=False)
    _worker: ThreadPoolExecutor = field(  # One: a question whose caller hung up is still answered, and the next waits
        default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="what-if"), init=False
    )
    _aside: "Aside" = field(default_factory=lambda: Aside(), init=False)  # The worker's alone
    _forgets: asyncio.TimerHandle | None = field(default=None, init=False)

    def now(self, changes: Iterable[Change] = ()) -> tuple[Situation, Plan]:
        """The cluster as it was planned last, with the plain pods that the changes name."""
        planner = self.planner
        snapshot = planner.snapshot if planner.snapshot is not None else self.cache.snapshot()
        named = {key for change in changes if isinstance(change, RemovePods) for key in change.pods}
        found = {key: self._plain(key) for key in named}
        others = {key: pod for key, pod in found.items() if pod is not None}
        now_s = self.clock.now_s()
        return Situation(snapshot, planner.policy, now_s, others, self.policy_with, self.gangs_of), planner.current

    async def suppose(self, changes: Sequence[Change]) -> Supposed:
        """What the changes would make of the plan. Errors: MisfitError, BusyError."""
        async with self._one_at_a_time():
            base, plan = self.now(changes)
            known = self.calibration()
            return await self._beside(lambda cache: _supposed(base, plan, changes, cache, known))

    async def unblock(self, gang: Gang) -> Unblocking:
        """What would get the gang admitted. Errors: BusyError."""
        async with self._one_at_a_time():
            base, plan = self.now()
            return await self._beside(lambda cache: finish(unblock_in_steps(base, plan, gang, cache=cache)))

    @asynccontextmanager
    async def _one_at_a_time(self) -> AsyncIterator[None]:
        if self.planner.snapshot is None:
            raise BusyError("the first plan is not made yet")
        if self._waiting > self.most_waiting:
            raise BusyError("others are being answered")
        self._waiting += 1
        try:
            async with self._turn:
                yield
        finally:
            self._waiting -= 1

    async def _beside(self, work: Callable[[PlannerCache], _T]) -> _T:
        loop, latest = asyncio.get_running_loop(), self.planner.cache.borrowed()
        if self._forgets is not None:
            self._forgets.cancel()
        self._forgets = loop.call_later(KEPT_S, self._worker.submit, self._aside.forget)
        return await loop.run_in_executor(self._worker, self._aside.ask, latest, work)

    def _plain(self, key: str) -> Pod | None:
        namespace, _, name = key.partition("/")
        pod = self.cache.pod_by_name(namespace, name)
        if pod is None or self.cache.gang_of(pod.uid) is not None:
            return None
        return replace(pod, node=self.cache.counted_on(pod))


class Aside:
    """A cache for suppositions that is kept from one question to the next.

    Why: the second question costs what changed since the first, not planning everything again; and the megabytes that
    a cache of a long queue has do not come and go with each question, while what others keep is put behind them.
    Not shared between threads.
    """

    def __init__(self) -> None:
        self._cache: PlannerCache | None = None

    def ask(self, latest: PlannerCache, question: Callable[[PlannerCache], _T]) -> _T:
        """What `question` finds with the cache, given `latest`'s scores; a cache whose question raised is dropped."""
        cache, self._cache = self._cache, None
        if cache is None or cache.suppositions >= _MOST_SUPPOSITIONS:
            cache = latest
        else:
            cache.take_over(latest)
        found = question(cache)
        self._cache = cache
        return found

    def forget(self) -> None:
        """Keep nothing until the next question."""
        self._cache = None


def _supposed(
    base: Situation, plan: Plan, changes: Sequence[Change], cache: PlannerCache, known: Calibration | None
) -> Supposed:
    made = apply(base, changes, version=cache.supposition())
    before, after = base.snapshot, made.snapshot
    remeasured = after.network is not before.network or after.table.names != before.table.names
    if remeasured or made.policy is not base.policy:
        cache.take_over(warmed(after, after.network, made.policy))
    supposed = finish(supposed_in_steps(base, plan, made, cache=cache))
    return with_expected_starts(supposed, cache=cache, calibration=known)
