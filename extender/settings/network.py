"""The settings of group `network`: sources of measurements, which node is measured where, and how long values count.

Each kind of source has its own words. Rule: a secret is never a value here, only the name of the file that holds it.

A careless regular expression over the name of a node or zone can take longer than the universe lasts. Rule: names of
at most 253 characters are matched whole, by patterns in which no group is repeated and nothing refers back; at most
three parts of open length and eight other choices bound the work for one name.
"""

import re
import warnings
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from msgspec import Meta
from msgspec.structs import force_setattr

from extender.settings.reading import Section, Text
from scoring import METRICS, Metric
from scoring.model.policy import Positive, ScorePolicy, Ttl

PATTERN_LIMIT: Final = 200
REPEATS_LIMIT: Final = 3
CHOICES_LIMIT: Final = 8
Pattern: TypeAlias = Annotated[str, Meta(min_length=1, max_length=PATTERN_LIMIT)]


class EndpointRule(Section, frozen=True):
    """The endpoint of every node whose name, or whose zone's name, has a form."""

    endpoint: Annotated[str, Meta(min_length=1, max_length=253)]
    r"""The endpoint, by its id or any other name; `\1` or `\g<name>` stand for what a group of the pattern matched."""
    node: Pattern | None = None
    r"""Regular expression for the whole node name, such as `node(\d+)`; groups must not be repeated."""
    zone: Pattern | None = None
    """The same for the name of the node's zone, in place of `node`: one endpoint for all nodes of a site."""
    metrics: Annotated[tuple[Metric, ...], Meta(min_length=1)] = METRICS
    """Metrics for which the rule holds."""

    def __post_init__(self) -> None:
        if (self.node is None) == (self.zone is None):
            raise ValueError("must have one of node and zone")
        if (problem := why_not(self.pattern)) is not None:
            raise ValueError(f"{'zone' if self.node is None else 'node'}: {problem}")
        try:
            re.compile(self.pattern).sub(self.endpoint, "")
        except (re.error, IndexError) as error:
            why = f"endpoint {self.endpoint!r} does not go with pattern {self.pattern!r}: {error}"
            raise ValueError(why) from error

    @property
    def pattern(self) -> str:
        """What the name must match, of the node or of its zone."""
        return self.node or self.zone or ""


def why_not(pattern: str) -> str | None:
    """Say why a pattern is not accepted; `None`: matching it against any name of 253 characters ends soon."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # what may mean another thing in another Python
            re.compile(pattern)
    except (re.error, OverflowError, FutureWarning) as error:
        return f"must be a regular expression: {error}"
    # Signs are counted wherever they stand, also escaped ones: names of nodes have none of them.
    if re.search(r"\)[*+{]", pattern):
        return "must not repeat a group: that can take without end"
    if re.search(r"\(\?(?!P<|:)|\(\?P=|\\[1-9]", pattern):
        return "must have no groups but (…), (?:…) and (?P<name>…), and must not refer back to them"
    repeats, choices = (len(re.findall(sign, pattern)) for sign in (r"[*+{]", r"(?<!\()[?|]"))
    if repeats > REPEATS_LIMIT or choices + 3 * max(repeats - 1, 0) > CHOICES_LIMIT:
        return f"must have at most {REPEATS_LIMIT} of * + {{n,m}}, {CHOICES_LIMIT} of ? | (3 less per * after one)"
    return None


Names: TypeAlias = Annotated[tuple[Text, ...], Meta(min_length=1)]

_URL: Final = re.compile(r"https?://[^/\s@]+(/[^\s?#]*)?")
_ORIGIN_ALONE: Final = re.compile(r"https?://[^/?#]*")


class FileSource(Section, frozen=True):
    """Measurements from a mesh file, read again whenever it changes."""

    path: Path
    """The mesh file, YAML or JSON (docs/reference/network.md)."""
    kind: Literal["file"] = "file"
    """The word that makes this a file source."""


class HttpSource(Section, frozen=True):
    """A server of measurements, and how it is spoken to."""

    fixed: ClassVar = frozenset({"timeout_s", "connect_timeout_s", "body_limit_bytes", "in_flight"})

    url: str
    """Address of the server, such as https://maddash.example.org/maddash, https://archive.example.org/opensearch or
    http://prometheus.monitoring:9090."""
    interval_s: Positive = 60.0
    """Seconds between two reads."""
    ca_file: Path | None = None
    """Certificates to trust besides the system's; self-signed ones are usual on measurement hosts."""
    insecure: bool = False
    """Do not check the server's certificate, or send credentials without TLS. A host that can answer in its place can
    then steer placement."""
    username: Text | None = None
    """User name for HTTP Basic, with `password_file`."""
    password_file: Path | None = None
    """File that holds the password; read at each request, so that a renewed one works at once."""
    token_file: Path | None = None
    """File that holds a bearer token, such as that of a service account."""
    timeout_s: float = 30.0  # For one whole answer
    connect_timeout_s: float = 10.0
    body_limit_bytes: int = 16 * 2**20  # After decompression
    in_flight: int = 4  # Requests at a time

    def __post_init__(self) -> None:
        if not _URL.fullmatch(self.url):
            raise ValueError("url: must be an http:// or https:// address without user name, query and fragment")
        if self.insecure and self.ca_file is not None:
            raise ValueError("ca_file and insecure exclude each other")
        if self.password_file is not None and self.token_file is not None:
            raise ValueError("only one of password_file and token_file may be given")
        if (self.username is not None) != (self.password_file is not None):
            raise ValueError("username and password_file belong together")
        if (self.password_file or self.token_file) and self.url.startswith("http://") and not self.insecure:
            raise ValueError("credentials over http:// can be read by others: use https://, or set insecure: true")

    @property
    def base_url(self) -> str:
        """The address that requests begin with."""
        return self.url.rstrip("/")

    @property
    def server_timeout(self) -> str:
        """How long the server may work on a question: a fifth less than we wait, so that it says why it gave up."""
        return f"{max(round(self.timeout_s * 800.0), 1)}ms"


class MaddashSettings(HttpSource, frozen=True):
    """Measurements from a MaDDash server's REST API: one GET per grid. Without a path in `url`, /maddash is meant."""

    fixed: ClassVar = HttpSource.fixed | {"username", "password_file", "token_file"}  # Its GETs need none

    kind: Literal["maddash"] = "maddash"
    """The word that makes this a MaDDash source."""
    grids: Mapping[Metric, Names] = {}
    """Which grids are read: a name, a list of them, or {loss, delay, throughput}; a name may have `*`, `?` and `[…]`.
    A metric that names none comes from every grid whose messages show it; a plain MaDDash has no delay."""
    checks: Mapping[Metric, Names] = {}
    """Which checks of these grids count, written like `grids`; reverse checks have names of their own, such as
    Throughput - Reverse."""
    timeout_s: float = 60.0
    body_limit_bytes: int = 64 * 2**20  # A grid has about 0.18 kB per check
    in_flight: int = 2  # Every grid is a join over the server's whole database, whose connections the checks share

    @classmethod
    def written(cls, value: Any) -> Any:
        """With a single name of a grid or check in place of a list."""
        if not isinstance(value, Mapping):
            return value
        return {**value, **{field: _listed(value[field]) for field in ("grids", "checks") if field in value}}

    @property
    def base_url(self) -> str:
        """That of the REST API."""
        url = self.url.rstrip("/")
        return f"{url}/maddash" if _ORIGIN_ALONE.fullmatch(url) else url


def _listed(names: Any) -> Any:
    if isinstance(names, Mapping):
        return {metric: _listed(value) for metric, value in names.items()}
    return [names] if isinstance(names, str) else names


class OpenSearchSettings(HttpSource, frozen=True):
    """A perfSONAR 5 archive. Without a path in `url` /opensearch is meant; a `/` at the end means OpenSearch itself."""

    kind: Literal["opensearch"] = "opensearch"
    """The word that makes this a perfSONAR archive."""
    task: Text | None = None
    """Only tests of this task, by its `display-task-name`; `null`: all."""
    ip_version: Literal[4, 6] | None = None
    """Only tests over IPv4 or IPv6; `null`: both."""

    @property
    def base_url(self) -> str:
        """That of OpenSearch."""
        return f"{self.url}/opensearch" if _ORIGIN_ALONE.fullmatch(self.url) else self.url.rstrip("/")


class Preset(StrEnum):
    """Exporters of measurements between many ends whose queries are known."""

    SMOKEPING = "smokeping"
    BLACKBOX = "blackbox"


class Unit(StrEnum):
    """Units of query results."""

    RATIO = "ratio"
    PERCENT = "percent"
    SECONDS = "s"
    MILLISECONDS = "ms"
    BITS = "bit/s"
    BYTES = "byte/s"


UNITS: Final = {  # metric → units that its query may have
    Metric.LOSS: (Unit.RATIO, Unit.PERCENT),
    Metric.DELAY: (Unit.SECONDS, Unit.MILLISECONDS),
    Metric.THROUGHPUT: (Unit.BITS, Unit.BYTES),
}


class PrometheusQuery(Section, frozen=True):
    """A query whose result has one value per pair of ends."""

    fixed: ClassVar = frozenset({"round_trip", "window_s"})

    query: Text
    """PromQL for an instant vector."""
    unit: Unit
    """Unit of the result: ratio or percent; s or ms; bit/s or byte/s."""
    source_label: Text = "source"
    """Label that names the end that sends; a port behind a host or address is left out."""
    target_label: Text = "target"
    """Label that names the end that receives."""
    round_trip: bool = False  # Half of the result is used
    window_s: int = 600  # What `$window` in the query stands for
    time_query: Text | None = None
    """PromQL with the same labels whose result is the time of measurement in Unix seconds; `null`: now. Needed where a
    value is repeated long after it was measured (throughput tests, `last_over_time`)."""


class PrometheusSettings(HttpSource, frozen=True):
    """Measurements that Prometheus has collected from exporters; `url` has the path before /api/v1 if there is one."""

    kind: Literal["prometheus"] = "prometheus"
    """The word that makes this a Prometheus source."""
    presets: tuple[Preset, ...] = ()
    """Exporters whose queries are known: smokeping, blackbox."""
    queries: Mapping[Metric, PrometheusQuery] = {}
    """Queries of your own: metric → query; they go before those of a preset."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for metric, query in self.queries.items():
            if query.unit not in UNITS[metric]:
                raise ValueError(f"queries: {metric}.unit must be one of {', '.join(UNITS[metric])}, not {query.unit}")
        if not self.presets and not self.queries:
            raise ValueError("presets or queries must name something to ask")


Source: TypeAlias = FileSource | MaddashSettings | OpenSearchSettings | PrometheusSettings


class NetworkSettings(Section, frozen=True):
    """Where measurements come from and how long they are believed."""

    sources: tuple[Source, ...] = ()
    """Places that know measurements; of several values for one pair the newest counts. None: all pairs are unknown."""
    mapping: tuple[EndpointRule, ...] = ()
    r"""Endpoints by the form of the name of a node or zone: `{zone: '(.+)', endpoint: 'ps.\1.example.org'}`.

    For nodes of which annotation and label say nothing: the first that matches decides, before name and address."""
    soft_ttl_s: Ttl = ScorePolicy().soft_ttl_s
    """Ages in seconds from which measurements fade towards neutral; `null`: never. One value stands for all metrics.
    What is not said is at most the hard TTL."""
    hard_ttl_s: Ttl = ScorePolicy().hard_ttl_s
    """Ages in seconds from which measurements count as unknown; `null`: never. One value stands for all metrics."""
    taint: Literal["NoSchedule", "PreferNoSchedule"] | None = None
    """Effect of the taint `netgang.io/network-degraded` on nodes with the condition NetworkDegraded; `null`: no taint.
    It keeps every scheduler's new pods off them, or asks it to."""

    def __post_init__(self) -> None:
        ages, usual = list[float | None](), ScorePolicy().soft_ttl_s
        for metric in METRICS:
            soft, hard = self.soft_ttl_s.for_metric(metric), self.hard_ttl_s.for_metric(metric)
            if soft is not None and hard is not None and soft > hard:
                if soft != usual.for_metric(metric):
                    raise ValueError(f"soft_ttl_s.{metric} ({soft:g}) must not be above hard_ttl_s.{metric} ({hard:g})")
                soft = hard
            ages.append(soft)
        force_setattr(self, "soft_ttl_s", Ttl(*ages))
