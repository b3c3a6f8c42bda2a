"""The running service: the use cases over whatever cluster and sources there are, what runs, and what answers.

The order of these lines is the order of listeners. Nothing runs before `Service.run`, and nothing is served here.
"""

import asyncio
import gc
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any

from starlette.types import ASGIApp

from extender.api.auth import Reporters
from extender.api.problems import PROBES, only
from extender.api.reports import create_reports_app, reports_door
from extender.api.views import JobsView, Views
from extender.api.what_if import WhatIfs
from extender.bootstrap.common import Common, empty_cache
from extender.bootstrap.controllers import Controllers, Probing
from extender.controllers.owners import Circumstances
from extender.decision_log import Recorder
from extender.kube.reflector import Reflector
from extender.leadership.lease_loop import Duties
from extender.network.refresh import NetworkRefresh, RefreshOptions
from extender.runtime.memory import collect_when_grown, give_back_each_minute
from extender.runtime.telemetry import Telemetry
from extender.scheduling.housekeeping import Housekeeping
from extender.schemas import SourcesStatus, Watch
from extender.server.app import PATHS, VerbsApp, for_people
from extender.server.tls import Rotation
from extender.web.page import page_router
from scoring.plan import Plan


class Service:
    """The parts of one running netgang, for a process alone and for one that leads for a time."""

    def __init__(self, common: Common) -> None:
        self._common, settings, planner = common, common.settings, common.planner
        self.cache, self.planner, self.telemetry = common.cache, planner, common.telemetry
        self.leadership = common.leadership
        self._controllers = controllers = Controllers(common)
        self.binds, self.verbs, self.restarts = common.binds, common.verbs, controllers.restarts
        self._probing = Probing(common) if settings.probe.enabled else None
        probed = [self._probing.polled] if self._probing is not None else []
        options = RefreshOptions(network=settings.network, zone_fallback=settings.probe.enabled)  # its pairs take turns
        refresh = NetworkRefresh(
            [*common.sources, *probed],
            options,
            clock=common.clock,
            nodes=lambda: common.cache.snapshot().table.nodes,
            publish=common.cache.set_network,
            jitter=common.rng.random,
            prepare=planner.prepare,
        )
        self._refresh = refresh if common.sources or probed else None
        self._planned = asyncio.Event()
        self._table_version = -1  # Of the nodes at the last plan
        self._recorder: Recorder | None = None
        if settings.record.enabled:
            self._recorder = Recorder(planner.policy, failed=self.telemetry.internal_error)
            planner.recorded = self._recorder.record
        self.cache.on_change = planner.mark_dirty
        for heard in (
            self.binds.plan_made,
            lambda _: common.wakes.add(self.verbs.plain.woken()),
            lambda _: common.context.quiet.check_relists(),
            lambda _: controllers.overcommits.wake(),
            controllers.waiting_times.plan_made,
            self._look_at_nodes,
        ):
            planner.subscribe(heard)
        if self.leadership is not None:
            self.leadership.duties = Duties(self._take_up, self._lay_down, heard=common.heard, over=self._over)
        self.views = self._views()
        routers = [page_router(self.views)]
        app = VerbsApp(self.verbs, self.views, self.telemetry, curl_looks=common.curl_looks, routers=routers)
        # With client certificates nothing else is beside the verbs.
        alone = only(app, PATHS | PROBES, elsewhere="this port is kube-scheduler's alone; documents are at debug_port")
        self.app: ASGIApp = app if settings.tls.client_ca_file is None else alone
        self.debug_app = for_people(app)
        elsewhere = "this port has /healthz, /readyz and /metrics; documents are at debug_port"
        self.health_app = only(app, PROBES, elsewhere=elsewhere)
        self.reports_app = self._reports_app()
        certified = settings.tls.cert_file is not None
        self.tls = Rotation(settings.tls, common.clock, common.telemetry) if certified else None
        self.tasks = self._tasks()  # name → coroutine function that runs until cancelled

    async def run(self) -> None:
        """Run everything behind the HTTP face until cancelled; the first task that fails ends all of them."""
        async with asyncio.TaskGroup() as group:
            for name, run in self.tasks.items():
                group.create_task(run(), name=name)

    async def shut_down(self) -> None:
        """Answer every held call, so that connections can drain; then let another replica lead."""
        if self.leadership is not None:
            self.leadership.retire()
        self.binds.stand_down()
        await self.binds.over()
        if self.leadership is not None:
            await self.leadership.resign()

    def _look_at_nodes(self, _: Plan) -> None:
        before, self._table_version = self._table_version, self.cache.snapshot().table.version
        if self._refresh is not None and self._table_version != before:
            self._refresh.nodes_changed()

    def _tasks(self) -> dict[str, Callable[[], Any]]:
        common, controllers = self._common, self._controllers
        started = controllers.started
        sync = partial(_statuses, common.followed)
        tasks: dict[str, Any] = {
            **{f"follow {name}": reflector.run for name, reflector in common.followed.items()},
            "plan": self._plan_once_synced,
            "report plans": common.planner.report.run,
            "wake": common.wakes.run,
            "events": common.events.run,
            **{type(loop).__name__: loop.run for loop in controllers.loops},
            "give memory back": give_back_each_minute,
            "housekeeping": Housekeeping(common.context, self.planner, self.binds).run,
            "reporting": Reporting(self.telemetry, sync=sync, network=self.views.network_status).run,
            "collect": None if gc.isenabled() else partial(self._once_planned, collect_when_grown),
            # the first look belongs to the first plan, which knows all gangs
            "started gangs": started and partial(self._once_planned, started.run),
            "network": self._refresh and self._refresh.run,
            "leadership": self.leadership and self.leadership.run,
            "record": self._recorder and self._recorder.run,
            "certificates": self.tls and self.tls.follow,
        }
        return {name: run for name, run in tasks.items() if run is not None}

    async def _once_planned(self, run: Callable[[], Any]) -> None:
        await self._planned.wait()
        await run()

    async def _plan_once_synced(self) -> None:
        for reflector in self._common.reflectors.values():
            await reflector.synced.wait()
        refresh, started, feeds = self._refresh, self._controllers.started, self._common.feeds
        if refresh is not None:
            refresh.nodes_changed()
        looks: Sequence[Any] = (
            refresh and refresh.first_look.wait, self._controllers.owners.first_look,
            started and started.reconcile, feeds and feeds.synced,
        )  # fmt: skip
        for look in filter(None, looks):  # a source that hangs, or a right that is missing, keeps no job from starting
            with suppress(TimeoutError):
                async with asyncio.timeout(10.0):
                    await look()
        if self.leadership is None:
            self.telemetry.leads(1)
            self._recover()
        await self.planner.replan()
        self._planned.set()
        if self.leadership is not None:
            self.leadership.ready.set()
        await self.planner.run()

    def _take_up(self) -> None:
        self._forget()
        self.binds.restart()
        self._recover()
        self.planner.replan_soon()
        self.binds.plan_made(self.planner.current)  # which need not be a new one

    def _recover(self) -> None:
        """Find again what others began; one of them may have refused a pod that waits in kube-scheduler. O(pods)."""
        self._common.admissions.recover()
        self._controllers.recover()
        gangs = self.cache.snapshot().gangs.values()
        there = [pod.uid for gang in gangs if gang.own for pod in (*gang.pending, *gang.later) if not pod.gates]
        self.binds.parking.inherit(there, now_s=self._common.clock.monotonic_s())

    def _lay_down(self) -> None:
        self.binds.stand_down()
        self._forget()

    def _forget(self) -> None:
        for book in (self._controllers, self._common.wakes, self._common.verbs, self._common.admissions):
            book.reset()

    async def _over(self) -> None:
        if self._common.fenced is not None:
            await self._common.fenced.idle()
        await self.binds.over()

    def _views(self) -> Views:
        common, controllers, settings = self._common, self._controllers, self._common.settings
        preemptions, elastic, probing = controllers.preemptions, controllers.elastic, self._probing
        return Views(
            common.context,
            self.planner,
            self.binds,
            jobs=JobsView(self.planner, elastic.parts.records, elastic.reports) if elastic is not None else None,
            recorder=self._recorder,
            sync=partial(_statuses, common.reflectors),
            refresh=self._refresh,
            alarms=controllers.alarms,
            probe_agents=probing.agents_seen if probing is not None else lambda: None,
            leadership=self.leadership.status if self.leadership is not None else None,
            repair=controllers.repairs.words,
            preemption_blocked=preemptions.words.why_blocked if preemptions is not None else lambda _: None,
            recent=common.recent,
            what_ifs=WhatIfs(self.planner, settings, partial(empty_cache, settings)),
            circumstances=Circumstances(common.context).notes,
            unreadable_objects=controllers.unreadable,
            ignored_notes=controllers.ignored.of_gang,
            owners=common.verbs.owners,
            expected=controllers.expected,
            started_problem=lambda: controllers.started.problem if controllers.started is not None else "",
            demo=common.demo,
        )

    def _reports_app(self) -> ASGIApp | None:
        common, elastic, chosen = self._common, self._controllers.elastic, self._common.settings.reports
        probe = self._probing.port if self._probing is not None else None
        if chosen.port is None or (elastic is None and probe is None):
            return None
        assert common.reviews is not None  # the settings refuse a port of reports over a saved cluster
        app = create_reports_app(elastic.reports if elastic is not None else None, acting=common.acting, probe=probe)
        reporters = Reporters(common.reviews, chosen.audiences, agents=probe.account if probe is not None else None)
        return reports_door(app, reporters, common.clock, common.telemetry)


def _statuses(reflectors: Mapping[str, Reflector[Any]]) -> dict[str, Watch]:
    return {name: reflector.status() for name, reflector in reflectors.items()}


@dataclass(eq=False, repr=False)
class Reporting:
    """Carries the counts that reflectors and sources keep over into metrics: those parts know none, and stand alone."""

    telemetry: Telemetry
    _: KW_ONLY
    sync: Callable[[], Mapping[str, Watch]]
    network: Callable[[], SourcesStatus | None]
    _seen: dict[tuple[str, str], float] = field(default_factory=dict, init=False)

    async def run(self) -> None:
        """Look every five seconds until cancelled."""
        while True:
            self.collect()
            await asyncio.sleep(5.0)

    def collect(self) -> None:
        """Add what came since the last look."""
        telemetry = self.telemetry
        for kind, status in self.sync().items():
            if more := self._more("errors", kind, status.errors):
                telemetry.watch_errors.labels(kind).inc(more)
            telemetry.unreadable_objects.labels(kind).set(status.unreadable_now)
            if status.contact_age_s is not None:
                telemetry.contact_age.labels(kind).set(status.contact_age_s)
        if (network := self.network()) is None:
            return
        for metric, pairs in network.pairs.items():
            for state in ("fresh", "fading", "expired"):
                telemetry.network_pairs.labels(metric, state).set(getattr(pairs, state))
        if network.mapping is not None:
            for metric, count_by_state in network.mapping.nodes.items():
                for state, nodes in count_by_state.items():
                    telemetry.network_nodes.labels(metric, state).set(nodes)
        for source in network.sources:
            if more := self._more("failures", source.name, source.failures):
                telemetry.network_fetches.labels(source.name, "error").inc(more)
            if self._more("success", source.name, source.last_success_s or 0.0):
                telemetry.network_fetches.labels(source.name, "success").inc()

    def _more(self, what: str, whose: str, value: float) -> int:
        """By how much a value grew since the last look (at least 1 when it grew at all)."""
        before = self._seen.get((what, whose), 0.0)
        self._seen[what, whose] = value
        return max(int(value - before), 1) if value > before else 0
