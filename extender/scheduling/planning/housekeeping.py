"""What is due once a second: drop what expired, nudge pods that are overdue, tidy records.

Also the plan's listener: it lets admitted gangs go, and compares gangs with something under way with the cache.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

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


@dataclass(eq=False, repr=False)
class Housekeeping:
    """Keeps records, machines and queue in step with the plan and the clock."""

    cache: ClusterCache
    planner: Planner
    binds: Binds
    parking: Parking
    wakes: Wakes
    admissions: Admissions
    arrivals: Arrivals
    health: NodeHealth
    clock: Clock
    _: KW_ONLY
    also: Sequence[Callable[[], Iterator[None] | None]] = ()
    """What else is to be called once a second; what takes long does it in steps"""
    acting: Callable[[], bool] = lambda: True
    """Whether we are the one that acts; the others only follow"""

    def plan_made(self, plan: Plan) -> None:
        """A new plan: let go those it newly admits, and bring machines up to date."""
        if not self.acting():
            return
        self.wakes.add(self.parking.woken_by(plan, now_s=self.clock.monotonic_s()))
        self.wakes.add(self.admissions.plan_made(plan))
        self.health.look()
        in_part = plan.partial | self.cache.partial_gangs()
        self.binds.reconcile(self.binds.gangs_under_way() | self.admissions.open | in_part)
        self.binds.plan_made(plan)

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
        self.cache.expire(self.clock.now_s())
        yield from self.cache.look_for_daemon_sets()
        if not self.acting():
            return
        waiting: set[PodUid] = set()
        for number, gang in enumerate(self.cache.snapshot().gangs.values(), start=1):
            waiting.update([pod.uid for pod in (*gang.pending, *gang.later)])
            if number % _GANGS_A_STEP == 0:
                yield
        yield
        self.parking.keep_only(waiting - self.binds.at_bind())
        self.wakes.add(self.parking.overdue(now_s=self.clock.monotonic_s()))
        self.health.look()
        yield
        self.binds.reconcile(self.binds.gangs_under_way() | self.admissions.open)
        yield
        self.admissions.tidy(self.binds.at_bind())
        yield
        self.arrivals.tidy(self.binds.at_bind(), elsewhere=self.admissions.open)
        for look in self.also:
            yield
            yield from look() or ()
