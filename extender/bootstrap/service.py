"""The running service as its owner sees it, and what answers: three verbs, documents, the page, and reports."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec
from starlette.types import ASGIApp

from extender.api.auth import Reporters
from extender.api.documents.views import Views
from extender.api.problems import PROBES, Only
from extender.api.reports import ProbePort, ReportsDoor, create_reports_app
from extender.api.what_if import WhatIfs
from extender.bootstrap.common import Common, empty_cache
from extender.bootstrap.controllers import Caring, Resizing
from extender.bootstrap.metrics import Reporting
from extender.bootstrap.probe import Probing
from extender.bootstrap.scheduling import Starting
from extender.cache import ClusterCache
from extender.controllers.owners.obstacles import Circumstances
from extender.controllers.restart.controller import Restarts
from extender.decision_log import Recorder
from extender.kube.watch.reflector import Reflector
from extender.leadership.lease_loop import Leadership
from extender.network.merge import RefreshStatus
from extender.network.refresh import NetworkRefresh
from extender.runtime.telemetry import Telemetry
from extender.scheduling.bind.held_binds import Binds
from extender.scheduling.planning.loop import Planner
from extender.scheduling.verbs import Verbs
from extender.schemas.readiness import Watch
from extender.server.app import ForPeople, create_app
from extender.server.dispatch import PATHS
from extender.server.tls.rotation import Rotation
from extender.settings.settings import Settings
from extender.web.page_sections import sections_of, version
from extender.web.routes import Shown, page_router


class Service(msgspec.Struct, frozen=True):
    """The parts of one running netgang."""

    cache: ClusterCache
    planner: Planner
    binds: Binds
    verbs: Verbs
    views: Views
    telemetry: Telemetry
    app: ASGIApp
    debug_app: ASGIApp
    health_app: ASGIApp  # `app` for probes and metrics alone
    tls: Rotation | None
    tasks: Mapping[str, Callable[[], Any]]  # name → coroutine function that runs until cancelled
    leadership: Leadership | None
    reports_app: ASGIApp | None  # For training jobs alone: what they report. None: they cannot.
    restarts: Restarts

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
        await self.binds.posts.over()
        if self.leadership is not None:
            await self.leadership.resign()


def service_of(
    common: Common,
    starting: Starting,
    caring: Caring,
    probing: Probing | None,
    refresh: NetworkRefresh | None,
    tasks: Mapping[str, Callable[[], Any]],
) -> Service:
    """The service, which runs `tasks` and those of what answers; nothing is served yet."""
    settings, planner, verbs = common.settings, common.planner, starting.verbs

    def statuses(reflectors: Mapping[str, Reflector[Any]]) -> dict[str, Watch]:
        return {name: reflector.status() for name, reflector in reflectors.items()}

    def network() -> RefreshStatus | None:
        return refresh.status() if refresh is not None else None

    recorder: Recorder | None = None
    if settings.record.enabled:
        recorder = Recorder(planner.policy, failed=common.telemetry.internal_error)
        planner.recorded = recorder.record
    preemptions, resizing = caring.preemptions, caring.resizing
    views = Views(
        starting.context,
        planner,
        starting.binds,
        jobs=resizing.view if resizing is not None else None,
        recorder=recorder,
        sync=partial(statuses, common.reflectors),
        network_status=network,
        alarms=caring.alarms,
        probe_agents=probing.agents_seen if probing is not None else lambda: None,
        leadership=common.leadership.status if common.leadership is not None else None,
        repair=caring.repairs.words,
        preemption_blocked=preemptions.words.why_blocked if preemptions is not None else lambda _: None,
        recent=common.recent,
        what_ifs=WhatIfs(planner, settings, partial(empty_cache, settings)),
        circumstances=Circumstances(starting.context).notes,
        unreadable_objects=caring.unreadable,
        ignored_notes=caring.ignored.of,
        expected=caring.expected,
        started_problem=lambda: caring.started.problem if caring.started is not None else "",
        demo=settings.snapshot is not None,
    )
    shown = Shown(partial(sections_of, views), partial(version, views))
    app = create_app(verbs, views, common.telemetry, callers=common.callers, routers=[page_router(shown, views)])
    tls = Rotation(settings.tls, common.clock, common.telemetry) if settings.tls.cert_file is not None else None
    return Service(
        common.cache,
        planner,
        starting.binds,
        verbs,
        views,
        common.telemetry,
        *_ports_of(settings, app),
        tls,
        {
            **tasks,
            "reporting": Reporting(common.telemetry, sync=partial(statuses, common.followed), network=network).run,
            **({"record": recorder.run} if recorder is not None else {}),
            **({"certificates": tls.follow} if tls is not None else {}),
        },
        common.leadership,
        _reports_port(common, resizing, probing.port if probing is not None else None),
        caring.restarts,
    )


def _reports_port(common: Common, resizing: Resizing | None, probe: ProbePort | None) -> ASGIApp | None:
    chosen = common.settings.reports
    if chosen.port is None or (resizing is None and probe is None):
        return None
    if common.reviews is None:
        raise ValueError("reports.port is set, and no API server is there to review tokens")
    app = create_reports_app(resizing.reports if resizing is not None else None, acting=common.acting, probe=probe)
    reporters = Reporters(common.reviews, chosen.audiences, agents=probe.account if probe is not None else None)
    telemetry = common.telemetry
    return ReportsDoor(app, reporters, common.clock, count=telemetry.reported, count_probe=telemetry.probe_reported)


def _ports_of(settings: Settings, app: ASGIApp) -> tuple[ASGIApp, ASGIApp, ASGIApp]:
    """Served for the verbs, people and probes; with client certificates nothing else is beside the verbs."""
    probes = Only(app, PROBES, elsewhere="this port has /healthz, /readyz and /metrics; documents are at debug_port")
    alone = Only(app, PATHS | PROBES, elsewhere="this port is kube-scheduler's alone; documents are at debug_port")
    return app if settings.tls.client_ca_file is None else alone, ForPeople(app), probes
