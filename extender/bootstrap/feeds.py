"""What is followed and polled: the reflectors of elastic jobs, and the configured sources of measurements.

Reflectors of their own: the plan needs none of these objects, so a missing right must not keep gangs from starting.
Making a source sends nothing and reads no secret; one that keeps connections is closed with the service.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from extender.cache.unreadable import UnreadableObjects
from extender.controllers.elastic.jobs.objects import Autoscalers, Jobs, reduce_by, target_from_json
from extender.controllers.elastic.kinds import KINDS
from extender.kube.calls import AUTOSCALERS
from extender.kube.watch.reflector import Reflector
from extender.network.file.source import MeshFileSource
from extender.network.maddash.client import MaddashServer
from extender.network.maddash.grid_choice import Wanted
from extender.network.maddash.source import MaddashSource
from extender.network.opensearch.source import OpenSearchSource
from extender.network.prometheus.source import PrometheusSource
from extender.network.refresh import Polled
from extender.network.sources.http import HttpClient, HttpServer
from extender.notes import NoteReader
from extender.ports import NetworkSource
from extender.settings import network, sources
from extender.settings.settings import Settings

_SAID_AFTER_S = 20.0

_log = logging.getLogger(__name__)

Follow = Callable[..., Reflector[Any]]  # Make a reflector: `path`, `reduce` and `sink` are still to be given


class Feeds(msgspec.Struct, frozen=True):
    """The jobs that are followed, and what follows them."""

    jobs: Jobs = msgspec.field(default_factory=Jobs)
    autoscalers: Autoscalers = msgspec.field(default_factory=Autoscalers)
    reflectors: Mapping[str, Reflector[Any]] = {}

    async def synced(self) -> None:
        """Wait until everything was read once, or is absent. What cannot be read is said: mostly a right."""
        for name, reflector in self.reflectors.items():
            try:
                async with asyncio.timeout(_SAID_AFTER_S):
                    await reflector.synced.wait()
            except TimeoutError:
                why = reflector.status().last_error or "no answer yet"
                _log.warning("elastic jobs wait for %s: %s (helm upgrade gives the rights)", name, why)
                await reflector.synced.wait()

    def ready(self) -> bool:
        """Whether everything has been read once."""
        return all(reflector.synced.is_set() for reflector in self.reflectors.values())


def feeds_of(settings: Settings, follow: Follow, unreadable: UnreadableObjects, notes: NoteReader) -> Feeds | None:
    """Reflectors for every kind that we know; `None`: elastic jobs are switched off."""
    if not settings.elastic.enabled:
        return None
    jobs, autoscalers = Jobs(), Autoscalers()
    reflectors = {
        f"{kind.plural}.{kind.group}": follow(
            path=kind.collection,
            reduce=reduce_by(kind, notes),
            sink=jobs.sink(kind),
            unreadable=unreadable.of(kind.api_version, kind.kind),
        )
        for kind in KINDS.values()
    }
    reflectors["horizontalpodautoscalers"] = follow(
        path=AUTOSCALERS.collection(),
        reduce=target_from_json,
        sink=autoscalers.sink,
        unreadable=unreadable.of("autoscaling/v2", "HorizontalPodAutoscaler"),
    )
    return Feeds(jobs, autoscalers, reflectors)


_FILE_INTERVAL_S = 5.0  # Between two looks whether a mesh file has changed: a `stat` costs nothing


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
            server = MaddashServer(one.url, ca_file=one.ca_file, insecure=one.insecure)
            wanted = Wanted(grids=one.grids.named(), checks=one.checks.named())
            return MaddashSource(server, wanted, name=name)
        case sources.OpenSearchSource():
            return OpenSearchSource(_client(one), one, name=name)
        case sources.PrometheusSource():
            return PrometheusSource(_client(one), one, name=name)


def _client(one: sources.HttpSource) -> HttpClient:
    return HttpClient(
        HttpServer(
            one.url,
            ca_file=one.ca_file,
            insecure=one.insecure,
            username=one.username or "",
            password_file=one.password_file,
            token_file=one.token_file,
        )
    )
