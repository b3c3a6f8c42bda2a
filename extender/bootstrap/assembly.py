"""Put the use cases together over whatever cluster and sources there are; what runs, and what a term begins and ends.

The order of these lines is the order of listeners; what each part is made of stands in the modules beside this one.
Rule: nothing runs before `Service.run`.
"""

import asyncio
import gc
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from extender.bootstrap.common import Common
from extender.bootstrap.controllers import Caring
from extender.bootstrap.probe import Probing
from extender.bootstrap.scheduling import Starting
from extender.bootstrap.service import Service, service_of
from extender.cache import ClusterCache
from extender.controllers.owners.ages import OwnerAges
from extender.leadership.lease_loop import Duties
from extender.network.refresh import NetworkRefresh, Polled, RefreshOptions
from extender.runtime.memory import collect_when_grown, give_back_each_minute
from extender.scheduling.admission.degraded_nodes import Degrading
from extender.scheduling.planning.housekeeping import Housekeeping
from scoring.plan import Plan

_FIRST_LOOK_S = 10.0  # Longest wait for network data and ages of jobs before the first plan is made without


def assemble(common: Common) -> Service:
    """The service."""
    starting = Starting(common)
    caring, catch_up = Caring(common, starting), starting.catch_up
    probing = Probing(common) if common.settings.probe.enabled else None
    refresh = _refresh_of(common, [*common.sources, probing.polled] if probing is not None else common.sources)
    housekeeping = _listening(common, starting, caring, refresh)

    def changed() -> None:
        common.planner.mark_dirty()
        catch_up.changed()

    def came_true() -> None:
        common.planner.mark_expected()
        catch_up.changed()

    common.cache.on_change, common.cache.on_expected_change = changed, came_true
    terms = Terms(common, starting, caring, housekeeping, refresh)
    tasks = terms.tasks() | {"housekeeping": housekeeping.run}
    if refresh is not None:
        tasks["network"] = refresh.run
    if common.leadership is not None:
        common.leadership.duties = Duties(terms.take_up, terms.lay_down, heard=common.heard, over=terms.over)
        tasks["leadership"] = common.leadership.run
    return service_of(common, starting, caring, probing, refresh, tasks)


def _refresh_of(common: Common, polled: Sequence[Polled]) -> NetworkRefresh | None:
    """What fetches from the sources and publishes a matrix into the cache; `None`: there are no sources."""
    if not polled:
        return None
    cache = common.cache
    zone_fallback = common.settings.probe.enabled  # pairs take turns to be measured
    return NetworkRefresh(
        polled,
        RefreshOptions(network=common.settings.network, zone_fallback=zone_fallback),
        clock=common.clock,
        nodes=lambda: cache.snapshot().table.nodes,
        publish=cache.set_network,
        jitter=common.rng.random,
        prepare=common.planner.prepare,
    )


async def _after(first: asyncio.Event, run: Callable[[], Any]) -> None:
    """Run once `first` is set."""
    await first.wait()
    await run()


def _listening(common: Common, starting: Starting, caring: Caring, refresh: NetworkRefresh | None) -> Housekeeping:
    planner = common.planner
    housekeeping = Housekeeping(
        starting.context,
        planner,
        starting.binds,
        starting.parking,
        starting.wakes,
        starting.admissions,
        starting.health,
        caring.looks,
    )
    planner.subscribe(housekeeping.plan_made)
    planner.subscribe(lambda plan: starting.wakes.add(starting.plain.woken_by(plan)))
    planner.subscribe(Degrading(starting.context, starting.binds).look)
    planner.subscribe(lambda _: starting.context.quiet.look())
    planner.subscribe(lambda _: caring.overcommits.look())
    planner.subscribe(caring.waiting_times.plan_made)
    if refresh is not None:
        planner.subscribe(_when_nodes_changed(common.cache, refresh.nodes_changed))
    return housekeeping


def _when_nodes_changed(cache: ClusterCache, changed: Callable[[], None]) -> Callable[[Plan], None]:
    """Calls `changed` at a plan with another node table: nodes may have got another endpoint."""
    seen = -1

    def look(_: Plan) -> None:
        nonlocal seen
        before, seen = seen, cache.snapshot().table.version
        if seen != before:
            changed()

    return look


@dataclass(eq=False, repr=False)
class Terms:
    """Begin and end of acting, for a process alone and for one that leads for a time."""

    common: Common
    starting: Starting
    caring: Caring
    housekeeping: Housekeeping
    refresh: NetworkRefresh | None
    planned: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.ages = OwnerAges(self.starting.context)

    async def plan_once_synced(self) -> None:
        """Wait for what the first plan needs, then plan until cancelled."""
        common = self.common
        await self._first_looks()
        if common.leadership is None:
            common.telemetry.leads(1)
            self.starting.admissions.recover()
            self.caring.recover()
            self._inherit()
        await common.planner.replan()
        self.planned.set()
        if common.leadership is not None:
            common.leadership.ready.set()
        await common.planner.run()

    async def _first_looks(self) -> None:
        for reflector in self.common.reflectors.values():
            await reflector.synced.wait()
        looks: list[Callable[[], Any]] = [self.ages.first_look]
        if self.refresh is not None:  # a source that hangs must not keep jobs from starting
            self.refresh.nodes_changed()
            looks.insert(0, self.refresh.first_look.wait)
        if self.caring.started is not None:
            looks.append(self.caring.started.look)
        if self.common.feeds is not None:  # rights for jobs may be missing
            looks.append(self.common.feeds.synced)
        for look in looks:
            with suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_LOOK_S):
                    await look()

    def take_up(self) -> None:
        """A term begins: forget what was known of the last one, find again what others began, and plan."""
        self._forget()
        self.starting.binds.restart()
        self.starting.admissions.recover()
        self.caring.recover()
        self._inherit()
        self.common.planner.replan_soon()
        self.housekeeping.plan_made(self.common.planner.current)  # which need not be a new one

    def _inherit(self) -> None:
        """A pod that waits in kube-scheduler may have been refused by a former process. Cost: O(pods of gangs)."""
        common, gangs = self.common, self.common.cache.snapshot().gangs.values()
        there = [pod.uid for gang in gangs if gang.own for pod in (*gang.pending, *gang.later) if not pod.gates]
        self.starting.parking.inherit(there, now_s=common.clock.monotonic_s())

    def lay_down(self) -> None:
        """A term ends: callers that wait are answered so, and nothing is reserved any more."""
        self.starting.binds.stand_down()
        self._forget()

    def _forget(self) -> None:
        one, care = self.starting, self.caring
        care.forget()
        for book in (
            one.wakes, one.parking, one.plain, one.offers, care.repins,
            one.lapses, care.restarts, care.repairs, one.admissions,
        ):  # fmt: skip
            book.forget()

    async def over(self) -> None:
        """Wait until all that was sent has come to its end."""
        if self.common.fenced is not None:
            await self.common.fenced.idle()
        await self.starting.binds.posts.over()

    def tasks(self) -> dict[str, Callable[[], Any]]:
        """Coroutine functions by name: what runs in every service."""
        common, caring = self.common, self.caring
        tasks: dict[str, Callable[[], Any]] = {f"follow {name}": one.run for name, one in common.followed.items()}
        tasks |= {
            "plan": self.plan_once_synced,
            "report plans": common.planner.report.run,
            "wake": self.starting.wakes.run,
            "events": self.starting.events.run,
            "group status": caring.statuses.run,
            "pod conditions": caring.conditions.run,
            "expected starts": caring.expected.run,
            "owners": self.ages.run,
            "network alarms": caring.alarms.run,
            "give memory back": give_back_each_minute,
        }
        if not gc.isenabled():
            tasks["collect"] = partial(_after, self.planned, collect_when_grown)
        if caring.started is not None:  # the first look belongs to the first plan, which knows all gangs
            tasks["started gangs"] = partial(_after, self.planned, caring.started.run)
        if caring.resizing is not None:
            tasks["elastic"] = caring.resizing.elastic.run
        return tasks
