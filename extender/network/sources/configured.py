"""The adapters for configured HTTP sources: settings in, sources out.

Why here: the settings of each kind have their own words, and the composition root should not have to know them all.
Rule: nothing is sent and no secret is read when a source is made.
"""

from pathlib import Path

from extender.network.esmond.source import EsmondOptions, EsmondSource
from extender.network.mapping import MappingConfig
from extender.network.opensearch.query import OpenSearchOptions
from extender.network.opensearch.source import OpenSearchSource
from extender.network.prometheus.presets import aliases_for, queries_of
from extender.network.prometheus.source import Aliases, PrometheusOptions, PrometheusSource, Query
from extender.network.rules import Rule
from extender.network.sources.http import HttpServer, Secret
from extender.settings.settings import Settings
from extender.settings.sources import (
    EsmondSource as EsmondSettings,
)
from extender.settings.sources import (
    HttpSource,
)
from extender.settings.sources import (
    OpenSearchSource as OpenSearchSettings,
)
from extender.settings.sources import (
    PrometheusSource as PrometheusSettings,
)
from scoring.network.measurement import METRICS


def mapping_config(settings: Settings) -> MappingConfig:
    """What the settings say about nodes and endpoints."""
    network = settings.network
    return MappingConfig(
        table=network.endpoint_table(),
        zones=network.zone_table(),
        key=settings.endpoint_annotation,
        automatic=network.match_names,
        rules=tuple(Rule(one.pattern, one.endpoint, one.metrics) for one in network.rules),
    )


def http_source(
    one: OpenSearchSettings | PrometheusSettings | EsmondSettings, *, name: str
) -> OpenSearchSource | PrometheusSource | EsmondSource:
    """The source that a setting describes. Errors: ConfigError for an address or CA file that cannot be used."""
    match one:
        case OpenSearchSettings():
            options = OpenSearchOptions(
                index_prefix=one.index_prefix,
                latency_window_s=one.latency_window_s,
                throughput_window_s=one.throughput_window_s,
                delay=one.delay.value,
                task=one.task,
                ip_version=one.ip_version,
            )
            return OpenSearchSource(_server(one), options, name=name)
        case PrometheusSettings():
            return PrometheusSource(_server(one), _prometheus(one), name=name)
        case EsmondSettings():
            windows = EsmondOptions(
                latency_window_s=one.latency_window_s,
                throughput_window_s=one.throughput_window_s,
                max_series=one.max_series,
            )
            return EsmondSource(_server(one), windows, name=name)


def _prometheus(one: PrometheusSettings) -> PrometheusOptions:
    own = []
    for metric in METRICS:
        query = getattr(one.queries, metric.value)
        if query is not None:
            own.append(
                Query(
                    metric,
                    query.query,
                    query.unit.value,
                    source_label=query.source_label,
                    target_label=query.target_label,
                    round_trip=query.round_trip,
                    window_s=query.window_s,
                    time_text=query.time_query,
                )
            )
    said = one.aliases
    aliases = aliases_for(one.presets) if said is None else Aliases(said.query, said.name_label, said.alias_label)
    return PrometheusOptions(queries_of(one.presets, own), aliases)


def _server(one: HttpSource) -> HttpServer:
    return HttpServer(
        one.url,
        ca_file=one.ca_file,
        insecure=one.insecure,
        username=one.username or "",
        password=_secret(one.password_file, one.password_env),
        token=_secret(one.token_file, one.token_env),
        timeout_s=one.timeout_s,
    )


def _secret(file: Path | None, variable: str | None) -> Secret | None:
    return None if file is None and variable is None else Secret(file, variable)
