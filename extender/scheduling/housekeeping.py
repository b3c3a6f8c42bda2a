"""What is due once a second: drop what expired, nudge pods that are overdue, tidy records, look at clocks."""

import asyncio
from dataclasses import dataclass, field

from extender.controllers.context import ControllerContext
from extender.runtime.slices import Steps, in_slices
from extender.scheduling.held_binds import Binds
from extender.scheduling.planner_loop import Planner
from scoring import GangKey, PodUid
from scoring.model import Gang
from scoring.queue.states import period, starving_from

_EVERY_S = 1.0
_GANGS_A_STEP = 256  # Gangs whose pods are looked through between two moments for others
_CLOCKS_A_STEP = 128


@dataclass(eq=False, repr=False)
class Housekeeping:
    """Keeps records, machines and queue in step with the plan and the clock."""

    context: ControllerContext
    planner: Planner
    binds: Binds
    _starved: dict[GangKey, tuple[Gang, int]] = field(default_factory=dict, init=False)
    """waiting gang → as it was, and how many periods it had starved, at the last look"""

    async def run(self) -> None:
        """Tidy once a second until cancelled."""
        while True:
            await asyncio.sleep(_EVERY_S)
            await in_slices(self._tidy())
            if self.context.acting():
                await in_slices(self._look_at_clocks())

    def _tidy(self) -> Steps[None]:
        self.context.cache.expire(self.context.clock.now_s())
        yield from self.context.cache.daemon_sets.look_at_nodes()
        if not self.context.acting():
            return
        waiting: set[PodUid] = set()
        if not self.binds.parking.empty:  # mostly it is, where pods wait at the gate: then no pod has to be looked at
            for number, gang in enumerate(self.context.cache.snapshot().gangs.values(), start=1):
                waiting.update([pod.uid for pod in (*gang.pending, *gang.later)])
                if number % _GANGS_A_STEP == 0:
                    yield
            yield
        self.binds.parking.keep_only(waiting - self.binds.at_bind())
        self.binds.wakes.add(self.binds.parking.overdue(now_s=self.context.clock.monotonic_s()))
        self.binds.health.update()
        yield
        self.binds.reconcile()
        yield
        self.binds.admissions.tidy(self.binds.at_bind())
        yield
        self.binds.admissions.lapses.expire(
            self.planner.current, self.binds.at_bind(), elsewhere=self.binds.admissions.open
        )

    def _look_at_clocks(self) -> Steps[None]:
        """Plan again when only time made a gang STARVING, or ended its reservation (docs/safety.md S13)."""
        now_s, policy = self.context.clock.now_s(), self.planner.policy.queue
        gangs = self.context.cache.snapshot().gangs
        before, self._starved = self._starved, {}
        passed = False
        for number, key in enumerate(self.planner.current.waiting, start=1):
            if (gang := gangs.get(key)) is not None:
                periods, last = period(*starving_from(gang, policy), now_s=now_s), before.get(key)
                self._starved[key] = gang, periods
                passed = passed or (last is not None and last[0] is gang and last[1] != periods)
            if number % _CLOCKS_A_STEP == 0:
                yield
        if passed:
            self.context.cache.changed()
