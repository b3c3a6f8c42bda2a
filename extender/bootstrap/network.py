"""The configured sources of measurements, and what keeps their data current.

Rule: a source that keeps connections is closed with the service.
"""

import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from extender.cache import ClusterCache
from extender.network.file.source import MeshFileSource
from extender.network.maddash.client import MaddashServer
from extender.network.maddash.source import MaddashSource
from extender.network.maddash.wanted import Wanted
from extender.network.refresh import NetworkRefresh, Polled, RefreshOptions
from extender.network.sources.configured import http_source, mapping_config
from extender.ports import Clock, NetworkSource
from extender.scheduling.planning.loop import Planner
from extender.settings.network import FileSource
from extender.settings.network import MaddashSource as MaddashSettings
from extender.settings.settings import Settings

_FILE_INTERVAL_S = 5.0
"""Between two looks whether a mesh file has changed: a `stat` costs nothing."""


def refresh_of(
    settings: Settings,
    sources: Sequence[Polled],
    planner: Planner,
    cache: ClusterCache,
    clock: Clock,
    rng: random.Random,
) -> NetworkRefresh | None:
    """What fetches from the sources and publishes a matrix into the cache; `None`: there are no sources."""
    network = settings.network
    if not sources:
        return None
    return NetworkRefresh(
        sources,
        RefreshOptions(
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


def sources_of(settings: Settings) -> list[Polled]:
    """The adapters for the configured sources; the first of a kind has the kind's name, others a number behind it."""
    seen: Counter[str] = Counter()
    found = []
    for one in settings.network.sources:
        seen[one.kind] += 1
        name = one.kind if seen[one.kind] == 1 else f"{one.kind}-{seen[one.kind]}"
        interval_s = _FILE_INTERVAL_S if isinstance(one, FileSource) else one.interval_s
        found.append(Polled(_source(one, name), interval_s))
    return found


@asynccontextmanager
async def closing(polled: Polled) -> AsyncIterator[Polled]:
    """The source, for a block at whose end its connections end."""
    try:
        yield polled
    finally:
        if hasattr(polled.source, "aclose"):
            await polled.source.aclose()


def _source(one: Any, name: str) -> NetworkSource:
    """The adapter for one configured source."""
    if isinstance(one, FileSource):
        return MeshFileSource(one.path, name=name)
    if not isinstance(one, MaddashSettings):
        return http_source(one, name=name)
    return MaddashSource(
        MaddashServer(one.url, ca_file=one.ca_file, insecure=one.insecure, timeout_s=one.timeout_s),
        Wanted(grids=one.grids.named(), checks=one.checks.named(), dashboards=one.dashboards.named()),
        name=name,
    )
