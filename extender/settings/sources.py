"""Settings of the HTTP sources of measurements: perfSONAR's archives and Prometheus.

Why apart from the other settings: each kind of source has its own words. Rule: a secret is never a value here, only the
name of the file that holds it; an unknown name is refused.
"""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import Field, field_validator, model_validator

from extender.settings.types import Positive, Section

Text: TypeAlias = Annotated[str, Field(min_length=1)]


def http_url(url: str) -> str:
    """Check an address of a server; a slash at its end is dropped."""
    if not re.fullmatch(r"https?://[^/\s@]+(/[^\s?#]*)?", url):
        raise ValueError("must be an http:// or https:// address without user name, query and fragment")
    return url.rstrip("/")


class Server(Section):
    """What all servers have in common."""

    url: str
    """Address of the server."""
    interval_s: Positive = 60.0
    """Seconds between two reads."""
    ca_file: Path | None = None
    """Certificates to trust besides the system's; self-signed ones are usual on measurement hosts."""
    insecure: bool = False
    """Do not check the server's certificate. A host that can answer in its place can then steer placement."""

    @field_validator("url")
    @classmethod
    def _http(cls, url: str) -> str:
        return http_url(url)

    @model_validator(mode="after")
    def _one_trust(self) -> Self:
        if self.insecure and self.ca_file is not None:
            raise ValueError("ca_file and insecure exclude each other")
        return self


class HttpSource(Server):
    """A server that may want credentials."""

    username: Text | None = None
    """User name for HTTP Basic, with `password_file`."""
    password_file: Path | None = None
    """File that holds the password; read at each request, so that a renewed one works at once."""
    token_file: Path | None = None
    """File that holds a bearer token, such as that of a service account."""
    insecure: bool = False
    """Do not check the server's certificate, or send credentials without TLS. A host that can answer in its place can
    then steer placement."""

    @model_validator(mode="after")
    def _one_secret(self) -> Self:
        if self.password_file is not None and self.token_file is not None:
            raise ValueError("only one of password_file and token_file may be given")
        if (self.username is not None) != (self.password_file is not None):
            raise ValueError("username and password_file belong together")
        if (self.password_file or self.token_file) and self.url.startswith("http://") and not self.insecure:
            raise ValueError("credentials over http:// can be read by others: use https://, or set insecure: true")
        return self


class OpenSearchSource(HttpSource):
    """Measurements from a perfSONAR 5 archive (OpenSearch)."""

    kind: Literal["opensearch"]
    """The word that makes this a perfSONAR archive."""
    url: str
    """Address, such as https://archive.example.org/opensearch; without a path /opensearch is meant, and a `/` at the
    end means OpenSearch itself."""
    task: Text | None = None
    """Only tests of this task, by its `display-task-name`; `null`: all."""
    ip_version: Literal[4, 6] | None = None
    """Only tests over IPv4 or IPv6; `null`: both."""

    @field_validator("url")
    @classmethod
    def _http(cls, url: str) -> str:
        checked = http_url(url)
        at_root = checked.count("/") == 2
        return f"{checked}/opensearch" if at_root and not url.endswith("/") else checked


class Preset(StrEnum):
    """Exporters of measurements between many ends whose queries are known."""

    GOLDPINGER = "goldpinger"
    KUBENURSE = "kubenurse"
    SMOKEPING = "smokeping"
    PING_EXPORTER = "ping_exporter"
    BLACKBOX = "blackbox"
    IPERF3 = "iperf3"
    CILIUM = "cilium"


class Unit(StrEnum):
    """Units of query results."""

    RATIO = "ratio"
    PERCENT = "percent"
    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    BITS = "bit/s"
    BYTES = "byte/s"
    MEGABITS = "Mbit/s"
    GIGABITS = "Gbit/s"


UNITS: Final = {  # metric → units that its query may have
    "loss": (Unit.RATIO, Unit.PERCENT),
    "delay": (Unit.SECONDS, Unit.MILLISECONDS, Unit.MICROSECONDS),
    "throughput": (Unit.BITS, Unit.BYTES, Unit.MEGABITS, Unit.GIGABITS),
}


class PrometheusQuery(Section):
    """A query whose result has one value per pair of ends."""

    query: Text
    """PromQL for an instant vector; `$window` in it stands for `window_s`, as in `[$window]`."""
    unit: Unit
    """Unit of the result: ratio or percent; s, ms or us; bit/s, byte/s, Mbit/s or Gbit/s."""
    source_label: Text = "source"
    """Label that names the end that sends; a port behind a host or address is left out."""
    target_label: Text = "target"
    """Label that names the end that receives."""
    round_trip: bool = False
    """Delay: the result is a round-trip time, half of it is used."""
    window_s: int = Field(default=600, ge=1)
    """What `$window` stands for, in seconds."""
    time_query: Text | None = None
    """PromQL with the same labels whose result is the time of measurement in Unix seconds; `null`: now. Needed where a
    value is repeated long after it was measured (throughput tests, `last_over_time`)."""


class PrometheusQueries(Section):
    """Queries by metric; they go before those of a preset."""

    loss: PrometheusQuery | None = None
    """Query for packet loss."""
    delay: PrometheusQuery | None = None
    """Query for one-way delay or round-trip time."""
    throughput: PrometheusQuery | None = None
    """Query for throughput."""

    @model_validator(mode="after")
    def _units_fit(self) -> Self:
        for metric, units in UNITS.items():
            query: PrometheusQuery | None = getattr(self, metric)
            if query is not None and query.unit not in units:
                raise ValueError(f"{metric}.unit must be one of {', '.join(units)}, not {query.unit}")
            if query is not None and query.round_trip and metric != "delay":
                raise ValueError(f"{metric}.round_trip: only a delay has it")
        return self


class PrometheusSource(HttpSource):
    """Measurements that Prometheus has collected from exporters."""

    kind: Literal["prometheus"]
    """The word that makes this a Prometheus source."""
    url: str
    """Address, such as http://prometheus.monitoring:9090, with the path before /api/v1 if there is one."""
    presets: tuple[Preset, ...] = ()
    """Exporters whose queries are known: goldpinger, kubenurse, smokeping, ping_exporter, blackbox, iperf3, cilium."""
    queries: PrometheusQueries = PrometheusQueries()
    """Queries of your own."""

    @model_validator(mode="after")
    def _something_to_ask(self) -> Self:
        queries = self.queries
        if not self.presets and queries.loss is None and queries.delay is None and queries.throughput is None:
            raise ValueError("presets or queries must name something to ask")
        return self
