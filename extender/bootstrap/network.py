"""The configured sources of measurements, and what keeps their data current.

Rule: a source that keeps connections is closed with the service.
"""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from extender.bootstrap.common import Common
from extender.network.file.source import MeshFileSource
from extender.network.maddash.client import MaddashServer
from extender.network.maddash.source import MaddashSource
from extender.network.maddash.wanted import Wanted
from extender.network.refresh import NetworkRefresh, Polled, RefreshOptions
from extender.network.sources.configured import http_source, mapping_config
from extender.ports import NetworkSource
from extender.settings.network import FileSource
from extender.settings.network import MaddashSource as MaddashSettings
from extender.settings.settings import Settings

_FILE_INTERVAL_S = 5.0
"""Between two looks whether a mesh file has changed: a `stat` costs nothing."""


def refresh_of(common: Common, sources: Sequence[Polled]) -> NetworkRefresh | None:
    """What fetches from the sources and publishes a matrix into the cache; `None`: there are no sources."""
    if not sources:
        return None
    network, cache = common.settings.network, common.cache
    mapping, soft, hard = mapping_config(common.settings), network.soft_ttl(), network.hard_ttl()
    return NetworkRefresh(
        sources,
        RefreshOptions(mapping=mapping, soft_ttl_s=soft, hard_ttl_s=hard, zone_fallback=network.zone_fallback),
        clock=common.clock,
        nodes=lambda: cache.snapshot().table.nodes,
        publish=cache.set_network,
        jitter=common.rng.random,
        prepare=common.planner.prepare,
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
    if isinstance(one, FileSource):
        return MeshFileSource(one.path, name=name)
    if not isinstance(one, MaddashSettings):
        return http_source(one, name=name)
    return MaddashSource(
        MaddashServer(one.url, ca_file=one.ca_file, insecure=one.insecure, timeout_s=one.timeout_s),
        Wanted(grids=one.grids.named(), checks=one.checks.named(), dashboards=one.dashboards.named()),
        name=name,
    )
