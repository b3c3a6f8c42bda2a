"""The adapters for configured HTTP sources: settings in, sources out.

Rule: nothing is sent and no secret is read when a source is made.
"""

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
        table={node: ends.named() for node, ends in network.mapping.items()},
        zones={zone: ends.named() for zone, ends in network.zone_mapping.items()},
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
    password, token = Secret(one.password_file, one.password_env), Secret(one.token_file, one.token_env)
    return HttpServer(
        one.url,
        ca_file=one.ca_file,
        insecure=one.insecure,
        username=one.username or "",
        password=password if password != Secret() else None,
        token=token if token != Secret() else None,
        timeout_s=one.timeout_s,
    )
