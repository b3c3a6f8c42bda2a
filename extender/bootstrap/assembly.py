"""Put the use cases together over whatever cluster and sources there are.

Why one long function: who hears of what, and who may act, is the order of these lines; each part itself stands in
`extender/service` and `extender/controller`. Rule: nothing runs before `Service.run`.
"""

import asyncio
import gc
import random
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from extender.api.jobs import jobs_router
from extender.api.queue import queue_router
from extender.app import Callers, create_app
from extender.bootstrap.doors import ports_of
from extender.bootstrap.elastic import Feeds
from extender.bootstrap.network import NodesWatched, refresh_of
from extender.bootstrap.preempting import preemptions_of
from extender.bootstrap.reporting import reporting_of, reports_port
from extender.bootstrap.service import Service
from extender.cache import ClusterCache
from extender.cache.seen_groups import SeenGroups
from extender.candidacy import Candidacy
from extender.controller.complaints import Complaints
from extender.controller.events import Events
from extender.controller.evictions import Evictions
from extender.controller.finishing import Finishing
from extender.controller.group_status import GroupStatuses
from extender.controller.judge import Judge
from extender.controller.owner_ages import OwnerAges
from extender.controller.quiet import Quiet
from extender.controller.recreation import Recreation
from extender.controller.repairs import Repairs
from extender.controller.repins import Repins
from extender.controller.restarts import Restarts
from extender.controller.waits import Waits
from extender.controller.wakes import Gates, Wakes
from extender.elastic.controller import Elastic
from extender.elastic.follow import Limits as ElasticLimits
from extender.elastic.parts import Parts
from extender.kube.reflector import Reflector
from extender.network.refresh import NetworkStatus, Polled
from extender.ports import Clock, ClusterApi, Reviews
from extender.service.admission import AdmissionLimits, Admissions
from extender.service.binding import Binds, Effects, Limits
from extender.service.catchup import CatchUp
from extender.service.degrading import Degrading
from extender.service.fencing import FencedApi
from extender.service.guard import StormGuard
from extender.service.health import NodeHealth
from extender.service.housekeeping import Housekeeping
from extender.service.lapses import Lapses
from extender.service.leadership import Duties
from extender.service.learning import Learning
from extender.service.offers import Offers
from extender.service.parking import Parking
from extender.service.plain import PlainPods
from extender.service.planning import Planner
from extender.service.queue import QueueView
from extender.service.reporting import Reporting
from extender.service.starvation import Starvation
from extender.service.stranding import Stranding
from extender.service.verbs import Books, Verbs
from extender.service.views import Views
from extender.settings import Settings
from extender.telemetry import DecisionLog, Telemetry
from extender.tls.rotation import Rotation
from scoring.explain import explain
from scoring.plan import Plan
from scoring.reasons import Reason

_FIRST_LOOK_S = 10.0
"""Longest wait for the first network data, and for the ages of jobs, before the first plan is made without."""


def assemble(
    settings: Settings,
    cache: ClusterCache,
    api: ClusterApi,
    clock: Clock,
    rng: random.Random,
    *,
    reflectors: Mapping[str, Reflector[Any]],
    sources: Sequence[Polled],
    groups: SeenGroups | None = None,
    callers: Callers = Callers.SCHEDULER_AND_CURL,
    reviews: Reviews | None = None,
    stands: Candidacy | None = None,
    heard: Callable[[], None] = lambda: None,
    feeds: Feeds | None = None,
) -> Service:
    """The service over `cache`, which `reflectors` or the caller fill, writing through `api`.

    With `stands` it acts only while it leads; `heard` is called when the API server answers the election.
    """
    telemetry = Telemetry()
    leadership = stands.leadership(clock, telemetry) if stands is not None else None
    acting: Callable[[], bool] = leadership.leading if leadership is not None else lambda: True
    fenced = FencedApi(api, leadership.room_s) if leadership is not None else None
    api = fenced if fenced is not None else api
    tls = Rotation(settings.tls, clock, telemetry) if settings.tls.cert_file is not None else None
    log = DecisionLog(telemetry, acting=acting)
    policy = settings.policy()
    planner = Planner(cache, policy, clock, telemetry, log, interval_s=settings.plan_interval_ms / 1000.0)
    health = NodeHealth(cache, clock, node_lost_s=settings.node_lost_s)
    offers, parking, plain = Offers(), Parking(), PlainPods(cache, planner, clock)
    events = Events(api, clock, telemetry, instance=socket.gethostname())
    lapses = Lapses(cache, clock, log, tell=events.tell)
    admissions = Admissions(
        cache,
        planner,
        lapses,
        clock,
        log,
        limits=AdmissionLimits(settings.admit_timeout_s, settings.exclusion_ttl_s),
        tell=events.tell,
    )
    wakes = Wakes(
        cache,
        api,
        clock,
        telemetry,
        Gates(admissions.patch_for, admissions.sent, admissions.refused),
        per_s=settings.writes_per_s,
        rng=rng,
        acting=acting,
    )
    binds = Binds(
        cache,
        api,
        clock,
        planner,
        health,
        telemetry,
        log,
        lapses=lapses,
        limits=Limits(settings.hold_limit_s, settings.commit_timeout_s, settings.max_held_binds),
        effects=Effects(
            nudge=lambda uids: wakes.add(parking.asleep(uids)),
            evict=lambda gang, uids: evictions.add(gang, uids),
            being_admitted=admissions.keeps,
            gives_up=admissions.gives_up,
        ),
    )

    def news() -> int:
        """Each list that was read anew, and each take-over, begins the quiet time anew."""
        relists = sum(reflector.status().relists for reflector in reflectors.values())
        relists += feeds.relists() if feeds is not None else 0
        return relists if leadership is None else relists + leadership.terms

    quiet = Quiet(clock, relists=news)
    evictions = Evictions(
        cache, api, clock, telemetry, log, refused=binds.eviction_refused, quiet=quiet, tell=events.tell
    )
    repins = Repins(
        cache,
        api,
        clock,
        telemetry,
        log,
        stranded=Stranding(planner, clock),
        quiet=quiet,
        tell=events.tell,
        timeout_s=settings.repin_timeout_s,
    )
    groups = groups if groups is not None else SeenGroups(cache.pod_groups)
    judge = Judge(cache, api, lost_of=health.lost_under)
    restarts = Restarts(
        judge,
        Recreation(cache, api, clock, telemetry, log, lost_of=health.lost_under, tell_of=events.tell_of),
        api,
        clock,
        telemetry,
        quiet=quiet,
        limits=policy.restarts,
    )
    repairs = Repairs(
        cache,
        groups,
        clock,
        policy,
        restarts,
        lost_of=health.lost_under,
        silent=health.silent,
        wants_no_more=judge.wants_no_more,
        tell_of=events.tell_of,
    )
    preemptions = preemptions_of(
        settings,
        cache,
        api,
        clock,
        planner,
        restarts,
        groups=groups,
        telemetry=telemetry,
        log=log,
        quiet=quiet,
        tell=events.tell_of,
    )
    complaints = Complaints(cache, clock, policy, events.tell, groups=groups, tell_of=events.tell_of)

    def current() -> Plan | None:
        return planner.current if planner.snapshot is not None else None

    statuses = GroupStatuses(cache, groups, api, clock, mode=settings.pod_group_status, plan=current, may_write=acting)
    waits = Waits(
        cache,
        groups,
        clock,
        events.tell_of,
        plan=current,
        may_tell=acting,
        explain=lambda gang: explain(cache.snapshot(), planner.current, gang, policy, memo=planner.memo),
    )
    elastic = reported = None
    if feeds is not None:
        reported = reporting_of(settings, cache, planner, clock, telemetry)
        limits = settings.elastic
        elastic = Elastic(
            Parts(
                feeds.kinds,
                cache,
                planner,
                feeds.jobs,
                feeds.autoscalers,
                api,
                clock,
                reported.records,
                telemetry,
                log,
                quiet,
                events.tell_of,
                rng,
            ),
            limits.options(),
            ElasticLimits(limits.removal_timeout_s, limits.reserve_timeout_s, limits.growth_timeout_s),
            acting=acting,
            feed=feeds,
            wishes=reported.wishes,
        )
    learning = Learning(
        lambda member_class, node: cache.exclude(member_class, node, clock.now_s() + settings.exclusion_ttl_s),
        sees_all_nodes=settings.sees_all_nodes,
    )

    def synced() -> bool:
        return planner.snapshot is not None

    def answers() -> bool:
        return synced() and acting()

    catch_up, ages = CatchUp(cache, clock), OwnerAges(cache, api, clock)
    verbs = Verbs(
        cache,
        planner,
        binds,
        Books(offers, parking, learning, StormGuard(), plain),
        catch_up,
        clock,
        log,
        synced=synced if leadership is None else answers,
        otherwise=lambda: Reason.NOT_LEADER if synced() else Reason.NOT_SYNCED,
        zone_label=settings.zone_label,
    )
    refresh = refresh_of(settings, sources, planner, cache, clock, rng)

    def sync() -> dict[str, dict[str, Any]]:
        return {name: asdict(reflector.status()) for name, reflector in reflectors.items()}

    def network() -> NetworkStatus | None:
        return refresh.status() if refresh is not None else None

    views = Views(
        cache,
        planner,
        binds,
        admissions,
        sync=sync,
        network=network,
        leadership=leadership.status if leadership is not None else None,
        repair=repairs.words,
        preemption_blocked=preemptions.why_blocked if preemptions is not None else lambda _: None,
    )
    reporting = Reporting(telemetry, sync=sync, network=network)
    housekeeping = Housekeeping(
        cache,
        planner,
        binds,
        parking,
        wakes,
        admissions,
        health,
        clock,
        also=(
            repins.look,
            repairs.look_in_steps,
            Finishing(cache, api, clock, telemetry, plan=current).look,
            *([preemptions.look] if preemptions is not None else []),
            *([reported.metering.look] if reported is not None else []),
            complaints.look,
            statuses.look,
            waits.look,
            Starvation(cache, planner, clock).look,
        ),
        acting=acting,
    )
    planner.subscribe(housekeeping.plan_made)
    planner.subscribe(lambda plan: wakes.add(plain.woken_by(plan)))
    if settings.network.unusable_loss_ratio is not None:
        degrading = Degrading(
            cache,
            binds,
            clock,
            log,
            loss_ratio=settings.network.unusable_loss_ratio,
            hard_ttl_s=settings.network.hard_ttl_s.loss,
            exclusion_ttl_s=settings.exclusion_ttl_s,
        )
        planner.subscribe(degrading.look)
    planner.subscribe(lambda _: quiet.look())
    if refresh is not None:
        planner.subscribe(NodesWatched(cache, refresh.nodes_changed).look)

    def changed() -> None:
        planner.mark_dirty()
        catch_up.changed()

    def came_true() -> None:
        planner.mark_expected()
        catch_up.changed()

    cache.on_change = changed
    cache.on_expected_change = came_true

    async def plan_once_synced() -> None:
        for reflector in reflectors.values():
            await reflector.synced.wait()
        if refresh is not None:
            refresh.nodes_changed()
            with suppress(TimeoutError):  # a source that hangs must not keep jobs from starting
                async with asyncio.timeout(_FIRST_LOOK_S):
                    await refresh.first_look.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_LOOK_S):
                await ages.first_look()
        if feeds is not None:
            with suppress(TimeoutError):  # rights for jobs may be missing
                async with asyncio.timeout(_FIRST_LOOK_S):
                    await feeds.synced()
        # What was read at start lives as long as the process: the collector need not look at it again. Collecting
        # first would stop the loop for a tenth of a second and find next to nothing.
        gc.freeze()
        if leadership is None:
            telemetry.leader(leads=True)
            admissions.recover()
            if preemptions is not None:
                preemptions.recover()
            if elastic is not None:
                elastic.recover()
        await planner.replan_in_steps()
        if leadership is not None:
            leadership.ready.set()
        await planner.run()

    def take_up() -> None:
        """A term begins as the process does after a restart."""
        for book in (wakes, parking, plain, offers, repins, restarts, repairs, admissions):
            book.forget()
        binds.begin_anew()
        admissions.recover()
        if elastic is not None:
            elastic.forget()
            elastic.recover()
        if reported is not None:
            reported.forget()
        if preemptions is not None:
            preemptions.forget()
            preemptions.recover()
        planner.replan()
        housekeeping.plan_made(planner.current)  # which need not be a new one

    def lay_down() -> None:
        """A term ends: who waits is told so, and nothing is kept for anybody."""
        binds.stand_down()
        if elastic is not None:
            elastic.forget()
        if reported is not None:
            reported.forget()
        if preemptions is not None:
            preemptions.forget()
        for book in (wakes, parking, plain, restarts, repairs, admissions):
            book.forget()

    async def over() -> None:
        if fenced is not None:
            await fenced.idle()
        await binds.posts_over()

    tasks: dict[str, Callable[[], Any]] = {f"follow {name}": r.run for name, r in reflectors.items()}
    tasks |= {
        "plan": plan_once_synced,
        "wake": wakes.run,
        "events": events.run,
        "group status": statuses.run,
        "housekeeping": housekeeping.run,
        "reporting": reporting.run,
        "owners": ages.run,
    }
    if elastic is not None and feeds is not None:
        tasks |= {f"follow {name}": r.run for name, r in feeds.reflectors.items()}
        tasks["elastic"] = elastic.run
    if refresh is not None:
        tasks["network"] = refresh.run
    if tls is not None:
        tasks["certificates"] = tls.follow
    if leadership is not None:
        leadership.duties = Duties(take_up=take_up, lay_down=lay_down, heard=heard, over=over)
        tasks["leadership"] = leadership.run
    queue = queue_router(QueueView(cache, planner, clock).document_in_turns)
    jobs = jobs_router(reported.view if reported is not None else None)
    app = create_app(
        verbs, views, telemetry, max_body_bytes=settings.max_body_bytes, callers=callers, routers=(queue, jobs)
    )
    ports = ports_of(settings, app, clock, reviews)
    reports = reports_port(settings, reported, clock, reviews, acting=acting, count=telemetry.reported)
    return Service(
        cache, planner, binds, admissions, verbs, views, telemetry, *ports, tls, tasks, leadership, reports, restarts
    )
