"""The configured sources of measurements, and what keeps their data current.

Rule: making a source sends nothing and reads no secret; one that keeps connections is closed with the service.
"""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from extender.bootstrap.common import Common
from extender.network.esmond.source import EsmondSource
from extender.network.file.source import MeshFileSource
from extender.network.maddash.client import MaddashServer
from extender.network.maddash.source import MaddashSource
from extender.network.maddash.wanted import Wanted
from extender.network.mapping import mapping_config
from extender.network.opensearch.source import OpenSearchSource
from extender.network.prometheus.source import PrometheusSource
from extender.network.refresh import NetworkRefresh, Polled, RefreshOptions
from extender.network.sources.http import HttpClient, HttpServer, Secret
from extender.ports import NetworkSource
from extender.settings import network, sources
from extender.settings.settings import Settings

_FILE_INTERVAL_S = 5.0  # Between two looks whether a mesh file has changed: a `stat` costs nothing


def refresh_of(common: Common, polled: Sequence[Polled]) -> NetworkRefresh | None:
    """What fetches from the sources and publishes a matrix into the cache; `None`: there are no sources."""
    if not polled:
        return None
    chosen, cache = common.settings.network, common.cache
    mapping, soft, hard = mapping_config(common.settings), chosen.soft_ttl(), chosen.hard_ttl()
    return NetworkRefresh(
        polled,
        RefreshOptions(mapping=mapping, soft_ttl_s=soft, hard_ttl_s=hard, zone_fallback=chosen.zone_fallback),
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
        interval_s = _FILE_INTERVAL_S if isinstance(one, network.FileSource) else one.interval_s
        found.append(Polled(source_of(one, name), interval_s))
    return found


@asynccontextmanager
async def closing(polled: Polled) -> AsyncIterator[Polled]:
    """The source, for a block at whose end its connections end."""
    try:
        yield polled
    finally:
        if hasattr(polled.source, "aclose"):
            await polled.source.aclose()


def source_of(one: network.Source, name: str) -> NetworkSource:
    """The adapter that a setting describes. Errors: ConfigError for an address or CA file that cannot be used."""
    match one:
        case network.FileSource():
            return MeshFileSource(one.path, name=name)
        case network.MaddashSource():
            server = MaddashServer(one.url, ca_file=one.ca_file, insecure=one.insecure, timeout_s=one.timeout_s)
            wanted = Wanted(grids=one.grids.named(), checks=one.checks.named(), dashboards=one.dashboards.named())
            return MaddashSource(server, wanted, name=name)
        case sources.OpenSearchSource():
            return OpenSearchSource(_client(one), one, name=name)
        case sources.PrometheusSource():
            return PrometheusSource(_client(one), one, name=name)
        case sources.EsmondSource():
            return EsmondSource(_client(one), one, name=name)


def _client(one: sources.HttpSource) -> HttpClient:
    password, token = Secret(one.password_file, one.password_env), Secret(one.token_file, one.token_env)
    return HttpClient(
        HttpServer(
            one.url,
            ca_file=one.ca_file,
            insecure=one.insecure,
            username=one.username or "",
            password=password if password != Secret() else None,
            token=token if token != Secret() else None,
            timeout_s=one.timeout_s,
        )
    )
