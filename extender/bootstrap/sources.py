"""The configured sources of measurements; making one sends nothing and reads no secret.

Rule: imported only where a source is configured, for httpx and the adapters take an eighth of the time of a start.
"""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from extender.network.maddash import MaddashSource
from extender.network.meshfile import MeshFileSource
from extender.network.opensearch import OpenSearchSource
from extender.network.prometheus import PrometheusSource
from extender.network.refresh import Polled
from extender.ports import NetworkSource
from extender.settings import network
from extender.settings.settings import Settings

_FILE_INTERVAL_S: Final = 5.0  # Between two looks whether a mesh file has changed: a `stat` costs nothing


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


def source_of(settings: network.Source, name: str) -> NetworkSource:
    """The adapter that a setting describes. Errors: ConfigError for an address or CA file that cannot be used."""
    match settings:
        case network.FileSource():
            return MeshFileSource(settings.path, name=name)
        case network.MaddashSettings():
            return MaddashSource(settings, name=name)
        case network.OpenSearchSettings():
            return OpenSearchSource(settings, name=name)
        case network.PrometheusSettings():
            return PrometheusSource(settings, name=name)
