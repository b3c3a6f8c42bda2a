"""What is due once a second: drop what expired, nudge pods that are overdue, tidy records.

Also the plan's listener: it lets admitted gangs go, and compares gangs with something under way with the cache.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence

from extender.cache import ClusterCache
from extender.controllers.gates.wakes import Wakes
from extender.ports import Clock
from extender.runtime.slices import in_slices
from extender.scheduling.admission.arrivals import Arrivals
from extender.scheduling.admission.gates import Admissions
from extender.scheduling.bind.held_binds import Binds
from extender.scheduling.parked_pods import Parking
from extender.scheduling.planning.loop import Planner
from extender.scheduling.planning.lost_nodes import NodeHealth
from scoring.ids import PodUid
from scoring.plan import Plan
from scoring.plan.steps import Steps

_EVERY_S = 1.0
_GANGS_A_STEP = 256
"""Gangs whose pods are looked through between two moments for others."""


class Housekeeping:
    """Keeps records, machines and queue in step with the plan and the clock."""

    def __init__(
        self,
        cache: ClusterCache,
        planner: Planner,
        binds: Binds,
        parking: Parking,
        wakes: Wakes,
        admissions: Admissions,
        arrivals: Arrivals,
        health: NodeHealth,
        clock: Clock,
        *,
        also: Sequence[Callable[[], Iterator[None] | None]] = (),
        acting: Callable[[], bool] = lambda: True,
    ) -> None:
        self._cache = cache
        self._planner = planner
        self._binds = binds
        self._parking = parking
        self._wakes = wakes
        self._admissions = admissions
        self._arrivals = arrivals
        self._health = health
        self._clock = clock
        self._acting = acting
        """Whether we are the one that acts; the others only follow"""
        self._also = also
        """What else is to be called once a second; what takes long does it in steps"""

    def plan_made(self, plan: Plan) -> None:
        """A new plan: let go those it newly admits, and bring machines up to date."""
        if not self._acting():
            return
        self._wakes.add(self._parking.woken_by(plan, now_s=self._clock.monotonic_s()))
        self._wakes.add(self._admissions.plan_made(plan))
        self._health.look()
        in_part = plan.partial | self._cache.partial_gangs()
        self._binds.reconcile(self._binds.gangs_under_way() | self._admissions.open | in_part)
        self._binds.plan_made(plan)

    async def run(self) -> None:
        """Tidy once a second until cancelled."""
        while True:
            await asyncio.sleep(_EVERY_S)
            await in_slices(self.tidy_in_steps())

    def tidy(self) -> None:
        """One round."""
        for _ in self.tidy_in_steps():
            pass

    def tidy_in_steps(self) -> Steps[None]:
        """The same, with a moment for others between its parts (docs/safety.md S15)."""
        self._cache.expire(self._clock.now_s())
        yield from self._cache.look_for_daemon_sets()
        if not self._acting():
            return
        waiting: set[PodUid] = set()
        for number, gang in enumerate(self._cache.snapshot().gangs.values(), start=1):
            waiting.update([pod.uid for pod in (*gang.pending, *gang.later)])
            if number % _GANGS_A_STEP == 0:
                yield
        yield
        self._parking.keep_only(waiting - self._binds.at_bind())
        self._wakes.add(self._parking.overdue(now_s=self._clock.monotonic_s()))
        self._health.look()
        yield
        self._binds.reconcile(self._binds.gangs_under_way() | self._admissions.open)
        yield
        self._admissions.tidy(self._binds.at_bind())
        yield
        self._arrivals.tidy(self._binds.at_bind(), elsewhere=self._admissions.open)
        for look in self._also:
            yield
            yield from look() or ()
