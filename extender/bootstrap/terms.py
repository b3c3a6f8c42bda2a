"""What runs, in which order it begins, and what a term of leadership begins and ends with."""

import asyncio
import gc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from extender.bootstrap.common import Common
from extender.bootstrap.parts.controllers import Caring
from extender.bootstrap.parts.starts import Starting
from extender.controllers.owners.ages import OwnerAges
from extender.leadership.lease_loop import Duties
from extender.network.refresh import NetworkRefresh
from extender.runtime.memory import collect_when_grown, give_back_each_minute
from extender.scheduling.planning.housekeeping import Housekeeping

FOLLOW = "follow "
"""Begins the name of each task that keeps a kind in step."""
_FIRST_LOOK_S = 10.0
"""Longest wait for the first network data, and for the ages of jobs, before the first plan is made without."""


class Terms:
    """Begin and end of acting, for a process alone and for one that leads for a time."""

    def __init__(
        self,
        common: Common,
        starting: Starting,
        caring: Caring,
        housekeeping: Housekeeping,
        refresh: NetworkRefresh | None,
    ) -> None:
        self._common, self._starting, self._caring = common, starting, caring
        self._housekeeping, self._refresh = housekeeping, refresh
        self.ages = OwnerAges(common.cache, common.api, common.clock)
        self._planned = asyncio.Event()

    async def plan_once_synced(self) -> None:
        """Wait for what the first plan needs, then plan until cancelled."""
        common = self._common
        await self._first_looks()
        if common.leadership is None:
            common.telemetry.leader(leads=True)
            self._starting.admissions.recover()
            self._caring.recover()
            self._inherit()
        await common.planner.replan_in_steps()
        self._planned.set()
        if common.leadership is not None:
            common.leadership.ready.set()
        await common.planner.run()

    async def collect_once_planned(self) -> None:
        """Collect garbage from the first plan on, where the interpreter does not by itself."""
        await self._planned.wait()
        await collect_when_grown()

    async def _first_looks(self) -> None:
        for reflector in self._common.reflectors.values():
            await reflector.synced.wait()
        if self._refresh is not None:
            self._refresh.nodes_changed()
            with suppress(TimeoutError):  # a source that hangs must not keep jobs from starting
                async with asyncio.timeout(_FIRST_LOOK_S):
                    await self._refresh.first_look.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_LOOK_S):
                await self.ages.first_look()
        if self._common.feeds is not None:
            with suppress(TimeoutError):  # rights for jobs may be missing
                async with asyncio.timeout(_FIRST_LOOK_S):
                    await self._common.feeds.synced()

    def duties(self, heard: Callable[[], None]) -> Duties:
        """What leadership calls; `heard`: the API server answered the election."""
        return Duties(take_up=self._take_up, lay_down=self._lay_down, heard=heard, over=self._over)

    def _take_up(self) -> None:
        """A term begins as the process does after a restart."""
        one, care = self._starting, self._caring
        for book in (
            one.wakes, one.parking, one.plain, one.offers, care.repins,
            one.lapses, care.restarts, care.repairs, one.admissions,
        ):  # fmt: skip
            book.forget()
        one.binds.restart()
        one.admissions.recover()
        care.begin_anew()
        self._inherit()
        self._common.planner.replan()
        self._housekeeping.plan_made(self._common.planner.current)  # which need not be a new one

    def _inherit(self) -> None:
        """A pod that waits in kube-scheduler may have been refused by a former process. Cost: O(pods of gangs)."""
        common, gangs = self._common, self._common.cache.snapshot().gangs.values()
        there = [pod.uid for gang in gangs if gang.own for pod in (*gang.pending, *gang.later) if not pod.gates]
        self._starting.parking.inherit(there, now_s=common.clock.monotonic_s())

    def _lay_down(self) -> None:
        """A term ends: callers that wait are answered so, and nothing is reserved any more."""
        one, care = self._starting, self._caring
        one.binds.stand_down()
        care.forget()
        for book in (one.wakes, one.parking, one.plain, care.restarts, care.repairs, one.admissions):
            book.forget()

    async def _over(self) -> None:
        if self._common.fenced is not None:
            await self._common.fenced.idle()
        await self._starting.binds.posts.over()


def tasks_of(common: Common, starting: Starting, caring: Caring, terms: Terms) -> dict[str, Callable[[], Any]]:
    """Coroutine functions by name: what runs in every service."""
    tasks: dict[str, Callable[[], Any]] = {f"{FOLLOW}{name}": one.run for name, one in common.reflectors.items()}
    tasks |= {
        "plan": terms.plan_once_synced,
        "report plans": common.planner.report.run,
        "wake": starting.wakes.run,
        "events": starting.events.run,
        "group status": caring.statuses.run,
        "owners": terms.ages.run,
        "give memory back": give_back_each_minute,
    }
    if not gc.isenabled():
        tasks["collect"] = terms.collect_once_planned
    if caring.provisioning is not None:
        tasks["provisioning"] = caring.provisioning.run
    if caring.elastic is not None and common.feeds is not None:
        tasks |= {f"{FOLLOW}{name}": one.run for name, one in common.feeds.reflectors.items()}
        tasks["elastic"] = caring.elastic.run
    return tasks
