"""Put together what answers: kube-scheduler's three verbs, documents, the page, and what jobs report."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from starlette.types import ASGIApp

from extender.api.documents.queue import queue_in_steps
from extender.api.documents.views import Views
from extender.api.routes import jobs_router, queue_router, record_router, what_if_router
from extender.api.what_if.question import policy_with
from extender.api.what_if.runner import WhatIfs
from extender.bootstrap.common import Common
from extender.bootstrap.doors import ports_of
from extender.bootstrap.parts.controllers import Caring
from extender.bootstrap.parts.decision_log import recorder_of
from extender.bootstrap.parts.metrics import Reporting
from extender.bootstrap.parts.page import page_of
from extender.bootstrap.parts.reports import reports_port
from extender.bootstrap.parts.starts import Starting
from extender.controllers.owners.obstacles import Circumstances
from extender.network.refresh import NetworkRefresh, NetworkStatus
from extender.ports import Reviews
from extender.scheduling.node_exclusions import Learning
from extender.scheduling.storm_guard import StormGuard
from extender.scheduling.verbs import Books, Verbs
from extender.scheduling.watch_catchup import CatchUp
from extender.server.app import create_app
from extender.server.dispatch import Callers
from extender.web.feed import Feed
from extender.web.moment import MOST_JOBS, Watched
from scoring.model.reasons import Reason


@dataclass(frozen=True, slots=True)
class Answering:
    """What answers at which port, and what runs for it."""

    verbs: Verbs
    views: Views
    ports: tuple[ASGIApp, ASGIApp, ASGIApp]
    """For kube-scheduler, for people, for probes"""
    reports: ASGIApp | None
    """For training jobs alone"""
    feed: Feed
    tasks: dict[str, Callable[[], Any]]
    """name → coroutine function"""


def verbs_of(common: Common, starting: Starting, catch_up: CatchUp) -> Verbs:
    """filter, prioritize and bind; a process that does not lead says so."""
    settings, cache, clock, synced = common.settings, common.cache, common.clock, common.synced
    learning = Learning(
        lambda pod, node: cache.exclude(
            pod.member_class,
            node,
            clock.now_s() + settings.exclusion_ttl_s,
            by=pod.group.key if pod.group is not None else None,
        ),
        sees_all_nodes=settings.sees_all_nodes,
    )
    return Verbs(
        cache,
        common.planner,
        starting.binds,
        Books(starting.offers, starting.parking, learning, StormGuard(), starting.plain),
        catch_up,
        clock,
        common.log,
        synced=synced if common.leadership is None else lambda: synced() and common.acting(),
        otherwise=lambda: Reason.NOT_LEADER if synced() else Reason.NOT_SYNCED,
        zone_label=settings.zone_label,
    )


def answering_of(
    common: Common,
    starting: Starting,
    caring: Caring,
    catch_up: CatchUp,
    refresh: NetworkRefresh | None,
    *,
    callers: Callers,
    reviews: Reviews | None,
) -> Answering:
    """All of it; nothing is served yet."""
    settings, cache, clock, planner = common.settings, common.cache, common.clock, common.planner

    def sync() -> dict[str, dict[str, Any]]:
        return {name: asdict(reflector.status()) for name, reflector in common.reflectors.items()}

    def followed() -> dict[str, dict[str, Any]]:
        feeds = common.feeds.reflectors if common.feeds is not None else {}
        return sync() | {name: asdict(reflector.status()) for name, reflector in feeds.items()}

    def network() -> NetworkStatus | None:
        return refresh.status() if refresh is not None else None

    what_ifs = WhatIfs(cache, planner, clock, policy_with=partial(policy_with, settings))
    preemptions, reported = caring.preemptions, caring.reported
    views = Views(
        cache,
        planner,
        starting.binds,
        starting.admissions,
        sync=sync,
        network_status=network,
        leadership=common.leadership.status if common.leadership is not None else None,
        repair=caring.repairs.words,
        preemption_blocked=preemptions.why_blocked if preemptions is not None else lambda _: None,
        decisions=common.recent.of,
        what_ifs=what_ifs,
        circumstances=Circumstances(cache, common.api, clock).notes,
        unreadable_objects=caring.unreadable,
        nodes_asked=caring.provisioning.note if caring.provisioning is not None else lambda _: None,
        expected_for_s=starting.arrivals.expected_for_s,
        ignored_notes=caring.ignored.of,
        notes_problem=lambda: common.notes.problem,
    )
    queue = partial(queue_in_steps, cache, planner, clock)
    page = page_of(
        Watched(
            cache,
            planner,
            starting.binds,
            starting.admissions,
            queue,
            common.recent,
            network=network,
            readiness=views.readiness,
            jobs=partial(reported.view.steps, limit=MOST_JOBS) if reported is not None else None,
            acting=common.acting,
        )
    )
    tasks: dict[str, Callable[[], Any]] = {
        "reporting": Reporting(common.telemetry, sync=followed, network=network).run,
        "page": page.feed.run,
    }
    recorder = recorder_of(settings, planner, starting.binds, common.telemetry)
    if recorder is not None:
        tasks["record"] = recorder.run
    verbs = verbs_of(common, starting, catch_up)
    app = create_app(
        verbs,
        views,
        common.telemetry,
        callers=callers,
        routers=(
            queue_router(queue),
            jobs_router(reported.view if reported is not None else None),
            what_if_router(what_ifs, now_s=clock.now_s),
            page.router,
            record_router(recorder),
        ),
    )
    reports = reports_port(settings, reported, clock, reviews, acting=common.acting, count=common.telemetry.reported)
    return Answering(verbs, views, ports_of(settings, app, clock, reviews), reports, page.feed, tasks)
