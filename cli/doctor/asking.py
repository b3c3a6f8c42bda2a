"""Ask sources of measurements, and a running netgang, how they do."""

import asyncio
import re
from collections.abc import Sequence
from typing import Final

from cli.doctor.facts import Answered, Endpoints, SourceSeen
from client.ask import decoded, fetch
from client.connect.door import door
from client.connect.said import Said
from extender.api.schemas.readiness import NetworkSources, Readiness
from extender.bootstrap.network import closing, sources_of
from extender.errors import NetworkSourceError
from extender.network.batches import merged
from extender.network.coverage import node_counts
from extender.network.mapping import map_nodes, measured_ends
from extender.network.sources.configured import mapping_config
from extender.ports import Batch, Clock
from extender.settings.network import FileSource
from extender.settings.settings import Settings
from scoring.model import Node
from scoring.network.matrix import METRICS, MeasurementTable

_FETCH_S: Final = 90.0
_ERRORS: Final = re.compile(r"^netgang_internal_errors_total(?:\{[^}]*\})? (\S+)$", re.MULTILINE)


async def ask_sources(
    settings: Settings, nodes: Sequence[Node], clock: Clock
) -> tuple[tuple[SourceSeen, ...] | None, Endpoints | None]:
    """Fetch once from every configured source, from here; files of the pod that are not here are left out.

    `None`: there is nothing but such files.
    """
    there = [one for one in settings.network.sources if not isinstance(one, FileSource) or one.path.exists()]
    if settings.network.sources and not there:
        return None, None
    chosen = settings.model_copy(update={"network": settings.network.model_copy(update={"sources": tuple(there)})})
    seen: list[SourceSeen] = []
    batches: list[Batch] = []
    for polled in sources_of(chosen):
        problem: str | None = None
        async with closing(polled):
            try:
                async with asyncio.timeout(_FETCH_S):
                    batch = await polled.source.fetch(now_s=clock.now_s())
                if batch is not None:
                    batches.append(batch)
            except NetworkSourceError as error:
                problem = str(error)
            except TimeoutError:
                problem = f"no answer within {_FETCH_S:g} s"
        seen.append(SourceSeen(polled.source.name, problem, None if problem else 0.0, _soft_ttl_s(settings)))
    return tuple(seen), _mapped(nodes, batches, settings) if batches else None


def _mapped(nodes: Sequence[Node], batches: Sequence[Batch], settings: Settings) -> Endpoints:
    measured = measured_ends(MeasurementTable.of(one.measurements) for one in batches)
    endpoints = merged(end for batch in batches for end in batch.endpoints)
    mapping = map_nodes(nodes, endpoints, mapping_config(settings), measured=measured)
    counts = {metric.value: dict(of) for metric, of in node_counts(mapping).items() if measured[metric]}
    unmapped = [set(mapping.unmapped[metric]) for metric in METRICS if measured[metric]]
    nowhere = set.intersection(*unmapped) if unmapped else set()
    return Endpoints(counts, tuple(sorted(map(str, nowhere))))


async def ask_running(
    url: str, settings: Settings, clock: Clock
) -> tuple[Answered, tuple[SourceSeen, ...] | None, Endpoints | None]:
    """Readiness, sources, mapping and errors of a running netgang. Errors: ConfigError for an address that is none."""
    way = door(Said(url=url))
    try:
        ready = await fetch(way, "/readyz")
        metrics = await fetch(way, "/metrics")
        document = decoded(ready.content, Readiness, where=url)
    except NetworkSourceError as error:
        return Answered(url, str(error)), None, None
    caught = int(sum(float(value) for value in _ERRORS.findall(metrics.text)))
    answered = Answered(url, None, ready=document.ready, reasons=document.reasons, internal_errors=caught)
    network = document.detail.network or NetworkSources(sources=())
    sources = tuple(
        SourceSeen(
            one.name,
            one.error,
            None if one.last_success_s is None else max(clock.now_s() - one.last_success_s, 0.0),
            _soft_ttl_s(settings),
        )
        for one in network.sources
    )
    return answered, sources, Endpoints(network.mapping.nodes) if network.mapping else None


def _soft_ttl_s(settings: Settings) -> float:
    """The shortest time after which some value fades."""
    soft = settings.network.soft_ttl()
    return min(soft.of(metric.value) or float("inf") for metric in METRICS)
