"""The composition root: the only place that names concrete adapters and puts the service together.

`live` follows a cluster through its API server; `embedded` serves a saved one from memory. Both are the same service
behind the same ports.
"""

import asyncio
import gc
import random
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

from starlette.types import ASGIApp

from extender.app import Callers, create_app
from extender.cache import ClusterCache
from extender.clock import SystemClock
from extender.clusterfile import ClusterFile, read_cluster
from extender.controller.complaints import Complaints
from extender.controller.events import Events
from extender.controller.evictions import Evictions
from extender.controller.quiet import Quiet
from extender.controller.repins import Repins
from extender.controller.wakes import Gates, Wakes
from extender.convert import node_from_json, pod_from_json, pod_group_from_json
from extender.embedded import EmbeddedCluster
from extender.kube.client import KubeClient
from extender.kube.comeback import Comeback
from extender.kube.credentials import load as load_credentials
from extender.kube.reflector import Reflector
from extender.network.configured import http_source, mapping_config
from extender.network.file import MeshFileSource
from extender.network.maddash import MaddashOptions, MaddashSource
from extender.network.maddash_client import MaddashServer
from extender.network.maddash_wanted import Wanted
from extender.network.refresh import NetworkRefresh, NetworkStatus, Polled, RefreshOptions
from extender.ports import Clock, ClusterApi, NetworkSource
from extender.service.admission import AdmissionLimits, Admissions
from extender.service.binding import Binds, Effects, Limits
from extender.service.catchup import CatchUp
from extender.service.degrading import Degrading
from extender.service.guard import StormGuard
from extender.service.health import NodeHealth
from extender.service.housekeeping import Housekeeping
from extender.service.lapses import Lapses
from extender.service.learning import Learning
from extender.service.offers import Offers
from extender.service.parking import Parking
from extender.service.planning import Planner
from extender.service.reporting import Reporting
from extender.service.stranding import Stranding
from extender.service.verbs import Books, Verbs
from extender.service.views import Views
from extender.settings import FileSource, Settings
from extender.settings import MaddashSource as MaddashSettings
from extender.telemetry import DecisionLog, Telemetry
from scoring.ids import ResourceName
from scoring.plan import Plan

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
_FIRST_LOOK_S = 10.0
"""Longest wait for the first network data before the first plan is made without."""
POD_GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"


@dataclass(frozen=True, slots=True)
class Service:
    """The parts of one running netgang."""

    cache: ClusterCache
    planner: Planner
    binds: Binds
    admissions: Admissions
    verbs: Verbs
    views: Views
    telemetry: Telemetry
    app: ASGIApp
    debug_app: ASGIApp
    """`app` for people, on a port of its own: no call to it changes anything."""
    tasks: Mapping[str, Callable[[], Any]]
    """name → coroutine function that runs until cancelled"""

    async def run(self) -> None:
        """Run everything behind the HTTP face until cancelled; the first task that fails ends all of them."""
        async with asyncio.TaskGroup() as group:
            for name, run in self.tasks.items():
                group.create_task(run(), name=name)

    async def shut_down(self) -> None:
        """Answer every held call, so that connections can drain."""
        await self.binds.shut_down()


@asynccontextmanager
async def live(settings: Settings, *, clock: Clock | None = None) -> AsyncIterator[Service]:
    """The service over a cluster's API server. Errors: ConfigError for credentials that cannot be used."""
    clock = clock or SystemClock()
    rng = random.Random()  # noqa: S311 - jitter, nothing secret
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(
            KubeClient(load_credentials(settings.kubeconfig, clock=clock), clock=clock, rng=rng)
        )
        sources = [await stack.enter_async_context(_closing(one)) for one in _sources(settings)]
        yield following(settings, api, clock, rng, sources=sources)


def following(
    settings: Settings, api: ClusterApi, clock: Clock, rng: random.Random, *, sources: Sequence[Polled] = ()
) -> Service:
    """The service over any ClusterApi that can be listed and watched; nothing runs before `Service.run`."""
    cache = empty_cache(settings)
    follow = partial(Reflector, api, clock=clock, rng=rng, comeback=Comeback())
    to_node = partial(node_from_json, zone_label=settings.zone_label)
    reflectors: dict[str, Reflector[Any]] = {
        "nodes": follow(path=NODES, reduce=to_node, sink=cache.nodes),
        "pods": follow(path=PODS, reduce=pod_from_json, sink=cache.pods),
        "podgroups": follow(path=POD_GROUPS, reduce=pod_group_from_json, sink=cache.pod_groups),
    }
    return _assemble(settings, cache, api, clock, rng, reflectors=reflectors, sources=sources)


@asynccontextmanager
async def embedded(settings: Settings, *, clock: Clock | None = None) -> AsyncIterator[Service]:
    """The service over the saved cluster `settings.snapshot`, in memory. Errors: ConfigError for a bad file."""
    clock = clock or SystemClock()
    if settings.snapshot is None:
        raise ValueError("settings.snapshot is not set")
    saved = read_cluster(settings.snapshot, zone_label=settings.zone_label)
    async with AsyncExitStack() as stack:
        sources = [await stack.enter_async_context(_closing(one)) for one in _sources(settings)]
        yield in_memory(settings, saved, clock=clock, sources=sources)


def in_memory(
    settings: Settings, saved: ClusterFile, *, clock: Clock | None = None, sources: Sequence[Polled] = ()
) -> Service:
    """The service over a cluster that is nowhere but in memory; nothing runs before `Service.run`.

    No kube-scheduler asks here, so people play it: curl's calls count as its calls would.
    """
    cache = empty_cache(settings)
    fill(cache, saved)
    api = EmbeddedCluster(cache, saved.pods_json)
    rng = random.Random()  # noqa: S311 - jitter, nothing secret
    return _assemble(
        settings, cache, api, clock or SystemClock(), rng, reflectors={}, sources=sources, callers=Callers.SCHEDULER
    )


def fill(cache: ClusterCache, saved: ClusterFile) -> None:
    """Put a saved cluster into an empty cache."""
    cache.nodes.replace(saved.nodes)
    cache.pod_groups.replace(saved.pod_groups)
    cache.pods.replace(saved.pods)


def empty_cache(settings: Settings) -> ClusterCache:
    """A cache that knows which pods are ours."""
    managed = settings.managed_resource
    return ClusterCache(
        scheduler_names=frozenset(settings.scheduler_names),
        managed_resource=ResourceName(managed) if managed is not None else None,
    )


def _assemble(
    settings: Settings,
    cache: ClusterCache,
    api: ClusterApi,
    clock: Clock,
    rng: random.Random,
    *,
    reflectors: Mapping[str, Reflector[Any]],
    sources: Sequence[Polled],
    callers: Callers = Callers.SCHEDULER_AND_CURL,
) -> Service:
    telemetry = Telemetry()
    log = DecisionLog(telemetry)
    policy = settings.policy()
    planner = Planner(cache, policy, clock, telemetry, log, interval_s=settings.plan_interval_ms / 1000.0)
    health = NodeHealth(cache, clock, node_lost_s=settings.node_lost_s)
    parking = Parking()
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
    quiet = Quiet(clock, relists=lambda: sum(reflector.status().relists for reflector in reflectors.values()))
    evictions = Evictions(cache, api, clock, telemetry, log, refused=binds.eviction_refused, quiet=quiet)
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
    complaints = Complaints(cache, clock, policy, events.tell)
    learning = Learning(
        lambda member_class, node: cache.exclude(member_class, node, clock.now_s() + settings.exclusion_ttl_s),
        sees_all_nodes=settings.sees_all_nodes,
    )

    def synced() -> bool:
        return planner.snapshot is not None

    catch_up = CatchUp(cache, clock)
    verbs = Verbs(
        cache,
        planner,
        binds,
        Books(Offers(), parking, learning, StormGuard()),
        catch_up,
        clock,
        log,
        synced=synced,
        zone_label=settings.zone_label,
    )
    refresh = _refresh(settings, sources, planner, cache, clock, rng)

    def sync() -> dict[str, dict[str, Any]]:
        return {name: asdict(reflector.status()) for name, reflector in reflectors.items()}

    def network() -> NetworkStatus | None:
        return refresh.status() if refresh is not None else None

    views = Views(cache, planner, binds, admissions, sync=sync, network=network)
    reporting = Reporting(telemetry, sync=sync, network=network)
    housekeeping = Housekeeping(
        cache, planner, binds, parking, wakes, admissions, health, clock, also=(repins.look, complaints.look)
    )
    planner.subscribe(housekeeping.plan_made)
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
        planner.subscribe(_NodesWatched(cache, refresh.nodes_changed).look)

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
        # What was read at start lives as long as the process: the collector need not look at it again. Collecting
        # first would stop the loop for a tenth of a second and find next to nothing.
        gc.freeze()
        admissions.recover()
        planner.replan()
        await planner.run()

    tasks: dict[str, Callable[[], Any]] = {f"follow {name}": r.run for name, r in reflectors.items()}
    tasks |= {
        "plan": plan_once_synced,
        "wake": wakes.run,
        "events": events.run,
        "housekeeping": housekeeping.run,
        "reporting": reporting.run,
    }
    if refresh is not None:
        tasks["network"] = refresh.run
    app = create_app(verbs, views, telemetry, max_body_bytes=settings.max_body_bytes, callers=callers)
    return Service(cache, planner, binds, admissions, verbs, views, telemetry, app, app.for_people(), tasks)


class _NodesWatched:
    """Tells the network refresh when nodes changed: they may have got another endpoint."""

    def __init__(self, cache: ClusterCache, tell: Callable[[], None]) -> None:
        self._cache = cache
        self._tell = tell
        self._seen = -1

    def look(self, _: Plan) -> None:
        """Compare the node table's version with the last one seen."""
        version = self._cache.snapshot().table.version
        if version != self._seen:
            self._seen = version
            self._tell()


def _refresh(
    settings: Settings,
    sources: Sequence[Polled],
    planner: Planner,
    cache: ClusterCache,
    clock: Clock,
    rng: random.Random,
) -> NetworkRefresh | None:
    network = settings.network
    if not sources:
        return None
    return NetworkRefresh(
        sources,
        RefreshOptions(
            reevaluate_s=network.refresh_s,
            mapping=mapping_config(settings),
            soft_ttl_s=network.soft_ttl(),
            hard_ttl_s=network.hard_ttl(),
            zone_fallback=network.zone_fallback,
        ),
        clock=clock,
        nodes=lambda: cache.snapshot().table.nodes,
        publish=cache.set_network,
        jitter=rng.random,
        prepare=planner.prepare,
    )


def _sources(settings: Settings) -> list[Polled]:
    """The adapters for the configured sources; the first of a kind has the kind's name, others a number behind it."""
    seen: Counter[str] = Counter()
    found = []
    for one in settings.network.sources:
        seen[one.kind] += 1
        name = one.kind if seen[one.kind] == 1 else f"{one.kind}-{seen[one.kind]}"
        found.append(Polled(_source(one, name), one.interval_s))
    return found


@runtime_checkable
class _Connected(Protocol):
    """A source that keeps connections."""

    async def aclose(self) -> None:
        """End them."""


@asynccontextmanager
async def _closing(polled: Polled) -> AsyncIterator[Polled]:
    try:
        yield polled
    finally:
        if isinstance(polled.source, _Connected):
            await polled.source.aclose()


def _source(one: Any, name: str) -> NetworkSource:
    """The adapter for one configured source."""
    if isinstance(one, FileSource):
        return MeshFileSource(one.path, name=name)
    if not isinstance(one, MaddashSettings):
        return http_source(one, name=name)
    return MaddashSource(
        MaddashServer(one.url, ca_file=one.ca_file, insecure=one.insecure, timeout_s=one.timeout_s),
        MaddashOptions(Wanted(grids=one.grids.named(), checks=one.checks.named(), dashboards=one.dashboards.named())),
        name=name,
    )
