"""The composition root: the only place that names concrete adapters and puts the service together.

`live` follows a cluster through its API server; `embedded` serves a saved one from memory, behind the same ports.
"""

import os
import secrets
import socket
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from random import Random
from typing import Any

from extender import convert
from extender.bootstrap.common import LIMITS, Common, Follow, Limits, candidacy, empty_cache, feeds_of
from extender.bootstrap.service import Service
from extender.cache.cluster import ClusterCache
from extender.cache.state import UnreadableObjects
from extender.controllers.owners import said_by
from extender.convert.clusterfile import ClusterFile, read_cluster
from extender.kube.calls import DAEMON_SETS, NATIVE_GROUPS, NODES, POD_GROUPS, PODS
from extender.kube.client import KubeClient, KubeReviews
from extender.kube.credentials import load as load_credentials
from extender.kube.embedded import EmbeddedCluster
from extender.kube.own_objects import KubeTextStore
from extender.kube.reflector import Comeback, Reflector
from extender.kube.transport import FEW, Transport
from extender.network.refresh import Polled
from extender.ports import Clock, ClusterApi, NetworkSource, SystemClock
from extender.runtime.slices import WorkerThread
from extender.settings import network
from extender.settings.settings import HOME, Settings, own_pod
from extender.signed_notes import NoteReader, Notes, notes_of

__all__ = ["Service", "embedded", "empty_cache", "fill", "following", "in_memory", "live", "open_sources"]


@asynccontextmanager
async def live(settings: Settings, *, limits: Limits = LIMITS) -> AsyncIterator[Service]:
    """The service over a cluster's API server. Errors: ConfigError for credentials that cannot be used."""
    clock, rng = SystemClock(), Random()  # noqa: S311 - jitter, nothing secret
    async with AsyncExitStack() as stack:
        worker, questions = stack.enter_context(WorkerThread("plan")), stack.enter_context(WorkerThread("ask"))
        server = load_credentials(settings.kubeconfig, clock=clock)
        api = KubeClient(await stack.enter_async_context(Transport(server)), clock, rng)
        reviews = None
        if settings.reports.port is not None:
            reviews = await stack.enter_async_context(KubeReviews(server, concurrency=FEW))
        sources = await stack.enter_async_context(open_sources(settings))
        stands = await stack.enter_async_context(
            candidacy(settings, server, rng, environment=os.environ, host=socket.gethostname())
        )
        home = own_pod(os.environ)[0] or HOME
        started = KubeTextStore(await stack.enter_async_context(Transport(server, concurrency=FEW)), home)
        yield following(
            settings, api, clock, rng, notes_of(settings.note_keys_dir),
            sources=sources, reviews=reviews, stands=stands, started_store=started,
            limits=limits, worker=worker, questions=questions,
        )  # fmt: skip


def following(
    settings: Settings, api: ClusterApi, clock: Clock, rng: Random, notes: Notes, limits: Limits = LIMITS, **more: Any
) -> Service:
    """The service over any ClusterApi; `more`: other fields of `Common`, such as `stands`."""
    cache = empty_cache(settings, limits)
    cache.expire(clock.now_s())
    comeback, unreadable = Comeback(), UnreadableObjects()
    follow = partial(Reflector, api, clock=clock, rng=rng, comeback=comeback)
    common = Common(
        settings, cache, api, clock, rng, notes=notes, unreadable=unreadable, heard=comeback.heard, limits=limits,
        reflectors=reflectors_of(settings, cache, follow, unreadable, notes),
        feeds=feeds_of(settings, follow, unreadable, notes), **more,
    )  # fmt: skip
    return Service(common)


def reflectors_of(
    settings: Settings, cache: ClusterCache, follow: Follow, unreadable: UnreadableObjects, notes: NoteReader
) -> dict[str, Reflector[Any]]:
    """Reflectors for every kind that decides, by its plural."""
    group, native = convert.pod_group_from_json, f"{NATIVE_GROUPS[0].plural}.{NATIVE_GROUPS[0].group}"
    kinds = (
        ("nodes", [NODES], "Node", partial(convert.node_from_json, zone_label=settings.zone_label), cache.nodes),
        ("pods", [PODS], "Pod", partial(convert.pod_from_json, notes=notes), cache.pods),
        ("daemonsets", [DAEMON_SETS], "DaemonSet", convert.daemon_set_from_json, cache.daemon_sets),
        ("podgroups", [POD_GROUPS], "PodGroup", group, cache.pod_groups),
        (native, NATIVE_GROUPS, "PodGroup", group, cache.native_groups),
    )
    return {
        name: follow(
            path=newest.collection(), other_versions=[version.collection() for version in older],
            reduce=reduce, sink=sink, unreadable=unreadable.of_kind(newest.api_version, kind),
        )
        for name, (newest, *older), kind, reduce, sink in kinds
    }  # fmt: skip


@asynccontextmanager
async def open_sources(settings: Settings) -> AsyncIterator[list[Polled]]:
    """The configured sources, for a block at whose end their connections end.

    The first of a kind has the kind's name, others a number behind it.
    """
    seen: Counter[str] = Counter()
    sources = []
    async with AsyncExitStack() as stack:
        for source in settings.network.sources:
            seen[source.kind] += 1
            adapter = source_of(source, source.kind if seen[source.kind] == 1 else f"{source.kind}-{seen[source.kind]}")
            if hasattr(adapter, "aclose"):
                stack.push_async_callback(adapter.aclose)
            # One `stat` of a file costs nothing.
            interval_s = 5.0 if isinstance(source, network.FileSource) else source.interval_s
            sources.append(Polled(adapter, interval_s))
        yield sources


def source_of(settings: network.Source, name: str) -> NetworkSource:
    """The adapter that a setting describes; sends nothing. Errors: ConfigError for an address or a CA file.

    Rule: imported only where a source is configured, for httpx and the adapters take an eighth of the time of a start.
    """
    from extender.network.maddash import MaddashSource
    from extender.network.meshfile import MeshFileSource
    from extender.network.opensearch import OpenSearchSource
    from extender.network.prometheus import PrometheusSource

    match settings:
        case network.FileSource():
            return MeshFileSource(settings.path, name=name)
        case network.MaddashSettings():
            return MaddashSource(settings, name=name)
        case network.OpenSearchSettings():
            return OpenSearchSource(settings, name=name)
        case network.PrometheusSettings():
            return PrometheusSource(settings, name=name)


@asynccontextmanager
async def embedded(settings: Settings) -> AsyncIterator[Service]:
    """The service over the saved cluster `settings.snapshot`, in memory. Errors: ConfigError for a bad file."""
    assert settings.snapshot is not None
    saved = read_cluster(settings.snapshot, zone_label=settings.zone_label)
    async with open_sources(settings) as sources:
        yield in_memory(settings, saved, sources=sources)


def in_memory(settings: Settings, saved: ClusterFile, *, sources: Sequence[Polled] = ()) -> Service:
    """The service over a cluster in memory. People play kube-scheduler: curl's calls count as its calls would."""
    cache, clock, rng = empty_cache(settings), SystemClock(), Random()  # noqa: S311 - jitter, nothing secret
    fill(cache, saved, now_s=clock.now_s())
    api = EmbeddedCluster(cache, saved.pods_json, clock)
    notes = Notes(secrets.token_bytes(32))
    demo = "a saved cluster in memory, where nothing happens by itself"
    return Service(Common(settings, cache, api, clock, rng, notes=notes, sources=sources, curl_looks=False, demo=demo))


def fill(cache: ClusterCache, saved: ClusterFile, *, now_s: float) -> None:
    """Put a saved cluster into an empty cache, as it would be at `now_s` (Unix seconds)."""
    cache.expire(now_s)
    cache.daemon_sets.replace(saved.daemon_sets)
    cache.nodes.replace(saved.nodes)
    cache.pod_groups.replace(saved.pod_groups)
    cache.native_groups.replace(saved.native_groups)
    for owner in saved.owners:
        with suppress(Exception):  # what it says is not known then, as in the service
            cache.gangs.jobs[owner["metadata"]["uid"]] = said_by(owner)
    cache.pods.replace(saved.pods)
