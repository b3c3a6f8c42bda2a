"""The adapters for configured HTTP sources: settings in, sources out.

Rule: nothing is sent and no secret is read when a source is made.
"""

from pathlib import Path

from extender.network.esmond.source import EsmondSource
from extender.network.mapping import MappingConfig
from extender.network.names import Rule
from extender.network.opensearch.source import OpenSearchSource
from extender.network.prometheus.source import PrometheusSource
from extender.network.sources.http import HttpClient, HttpServer, Secret
from extender.settings import sources as configured
from extender.settings.settings import Settings


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
    one: configured.OpenSearchSource | configured.PrometheusSource | configured.EsmondSource, *, name: str
) -> OpenSearchSource | PrometheusSource | EsmondSource:
    """The source that a setting describes. Errors: ConfigError for an address or CA file that cannot be used."""
    client = HttpClient(_server(one))
    match one:
        case configured.OpenSearchSource():
            return OpenSearchSource(client, one, name=name)
        case configured.PrometheusSource():
            return PrometheusSource(client, one, name=name)
        case configured.EsmondSource():
            return EsmondSource(client, one, name=name)


def _server(one: configured.HttpSource) -> HttpServer:
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
