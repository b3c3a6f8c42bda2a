"""Read loss, delay and throughput from Prometheus: one instant query per metric, ends named by labels.

Why queries and no fixed metric names: each exporter has its own, and sites record rules of their own; what is known of
common exporters is in `prometheus_presets`. Rule: a value counts with the time that `time_query` gives for it, else
with the time of evaluation (Prometheus forgets a series after five minutes); of several series for one pair the worst
counts; an answer with warnings is used and the warnings are shown.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import httpx
import msgspec

from extender.errors import NetworkSourceError
from extender.network.sources.http import HttpClient, HttpServer
from extender.network.sources.parts import Answer, Parts, off_loop
from extender.ports import Batch
from scoring.ids import EndpointId
from scoring.network.measurement import Measurement, MeasurementTable, Metric

FACTORS: Final = {  # unit → factor to ratio, milliseconds or bit/s
    "ratio": 1.0,
    "percent": 0.01,
    "s": 1000.0,
    "ms": 1.0,
    "us": 0.001,
    "bit/s": 1.0,
    "byte/s": 8.0,
    "Mbit/s": 1e6,
    "Gbit/s": 1e9,
}
NO_LABEL: Final = "no_label"
NOT_FINITE: Final = "not_finite"
OUT_OF_RANGE: Final = "out_of_range"
NO_TIME: Final = "no_time"
DUPLICATE: Final = "duplicate"
_TOP: Final = {Metric.LOSS: 1.0, Metric.DELAY: 1e15, Metric.THROUGHPUT: 1e15}
_PORT: Final = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:]+)):\d+")


@dataclass(frozen=True, slots=True)
class Query:
    """How one metric is asked for."""

    metric: Metric
    text: str
    """`$window` stands for `window_s`."""
    unit: str
    source_label: str = "source"
    target_label: str = "target"
    round_trip: bool = False
    window_s: int = 600
    time_text: str | None = None

    def written(self, text: str) -> str:
        """`text` with the window put in.

        >>> Query(Metric.LOSS, "", "ratio", window_s=60).written("rate(lost[$window])")
        'rate(lost[60s])'
        """
        return text.replace("$window", f"{self.window_s}s")


@dataclass(frozen=True, slots=True)
class Aliases:
    """A query whose series say that two names mean the same end."""

    text: str = "kube_node_info"
    name_label: str = "node"
    alias_label: str = "internal_ip"


@dataclass(frozen=True, slots=True)
class PrometheusOptions:
    """What is asked."""

    queries: tuple[Query, ...]
    aliases: Aliases | None = None


class _Series(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _Data(msgspec.Struct):
    kind: str = msgspec.field(name="resultType")
    result: msgspec.Raw


class _Reply(msgspec.Struct):
    status: str
    data: _Data | None = None
    error: str = ""
    warnings: list[str] = []


_REPLY: Final = msgspec.json.Decoder(_Reply)
_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])
_SERIES: Final = msgspec.json.Decoder(_Series)


@dataclass(slots=True)
class _Vector:
    raw: Sequence[msgspec.Raw]
    where: str
    warnings: Sequence[str] = field(default_factory=list)

    def series(self) -> Iterator[_Series]:
        """Decode one by one, so that a thread that does it lets the event loop run. Errors: NetworkSourceError."""
        try:
            for one in self.raw:
                yield _SERIES.decode(one)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise NetworkSourceError(f"{self.where}: the answer is not Prometheus's: {error}") from error


class PrometheusSource:
    """A NetworkSource over one Prometheus. `fetch` is called by one task at a time."""

    def __init__(
        self,
        server: HttpServer,
        options: PrometheusOptions,
        *,
        name: str = "prometheus",
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Prepare; nothing is sent. Errors: ConfigError for a bad address or CA file."""
        self._name = name
        self.options = options
        self.client = HttpClient(server, transport=transport)
        self._timeout_s = server.timeout_s
        self._parts = Parts(name)
        self._names: Mapping[str, str] = {}  # alias → name

    @property
    def name(self) -> str:
        """Name for metrics and messages."""
        return self._name

    async def aclose(self) -> None:
        """End all connections."""
        await self.client.aclose()

    async def fetch(self, *, now_s: float) -> Batch | None:
        """Ask every query. Errors: NetworkSourceError, when none is answered."""
        told: list[str] = []
        if self.options.aliases is not None:
            try:
                self._names = await self._ask_names(self.options.aliases)
            except NetworkSourceError as error:
                told.append(f"aliases failed: {error}")
        questions = {
            f"{query.metric} query {number}": partial(self._ask, query, now_s, tuple(told) if number == 1 else ())
            for number, query in enumerate(self.options.queries, start=1)
        }
        return await self._parts.ask(questions, now_s=now_s)

    async def _ask_names(self, aliases: Aliases) -> dict[str, str]:
        vector = await self._vector(aliases.text)
        found: dict[str, str] = {}
        for series in vector.series():
            name, alias = series.metric.get(aliases.name_label), series.metric.get(aliases.alias_label)
            if name and alias:
                found[_without_port(alias)] = min(name, found.get(_without_port(alias), name))
        return found

    async def _ask(self, query: Query, now_s: float, problems: tuple[str, ...]) -> Answer:
        """One metric's values. Errors: NetworkSourceError."""
        vector = await self._vector(query.written(query.text))
        clock = None if query.time_text is None else await self._vector(query.written(query.time_text))
        return await off_loop(len(vector.raw), partial(self._read, query, vector, clock, now_s, problems))

    def _read(
        self, query: Query, vector: _Vector, clock: _Vector | None, now_s: float, problems: tuple[str, ...]
    ) -> Answer:
        times: dict[tuple[str, str], float] | None = None
        if clock is not None:
            times = {}
            for series in clock.series():
                ends = self._ends(series, query)
                time_s = _number(series.value[1])
                if ends is not None and math.isfinite(time_s):
                    times[ends] = max(time_s, times.get(ends, time_s))
        rejected = Counter[str]()
        worst: dict[tuple[str, str], Measurement] = {}
        for series in vector.series():
            found = self._measurement(series, query, times, rejected, now_s=now_s)
            if found is None:
                continue
            ends = (found.source, found.target)
            known = worst.get(ends)
            rejected[DUPLICATE] += known is not None
            if known is None or _is_worse(found, known):
                worst[ends] = found
        aliases = self._other_names({end for ends in worst for end in ends})
        told = (*problems, *(f"Prometheus warns: {text[:160]}" for text in vector.warnings[:3]))
        return Answer(MeasurementTable.of(worst.values()), aliases, told, dict(+rejected))

    def _measurement(
        self,
        series: _Series,
        query: Query,
        times: Mapping[tuple[str, str], float] | None,
        rejected: Counter[str],
        *,
        now_s: float,
    ) -> Measurement | None:
        ends = self._ends(series, query)
        if ends is None:
            rejected[NO_LABEL] += 1
            return None
        if ends[0] == ends[1]:
            return None  # an end that asks itself
        value = _number(series.value[1]) * FACTORS[query.unit] / (2.0 if query.round_trip else 1.0)
        if not math.isfinite(value):
            rejected[NOT_FINITE] += 1
            return None
        if query.metric is Metric.LOSS and -0.001 <= value <= 1.001:
            value = min(max(value, 0.0), 1.0)  # rates over windows that do not quite match
        if not 0.0 <= value <= _TOP[query.metric]:
            rejected[OUT_OF_RANGE] += 1
            return None
        at_s: float | None = series.value[0] if times is None else times.get(ends)
        if at_s is None:
            rejected[NO_TIME] += 1
            return None
        return Measurement(EndpointId(ends[0]), EndpointId(ends[1]), query.metric, value, min(at_s, now_s))

    def _ends(self, series: _Series, query: Query) -> tuple[str, str] | None:
        source, target = series.metric.get(query.source_label), series.metric.get(query.target_label)
        return (self._end(source), self._end(target)) if source and target else None

    def _end(self, label: str) -> str:
        plain = _without_port(label)
        return self._names.get(plain, plain)

    def _other_names(self, wanted: Set[str]) -> dict[EndpointId, tuple[str, ...]]:
        found: dict[EndpointId, tuple[str, ...]] = {}
        for alias, name in sorted(self._names.items()):
            if name in wanted:
                found[EndpointId(name)] = (*found.get(EndpointId(name), ()), alias)
        return found

    async def _vector(self, text: str) -> _Vector:
        fields = {"query": text, "timeout": f"{max(round(self._timeout_s * 800.0), 1)}ms"}
        body = await self.client.post_form("/api/v1/query", fields)
        where = f"{self.client.url}: query {text[:80]!r}"
        try:
            reply = _REPLY.decode(body)
            if reply.status != "success" or reply.data is None:
                raise NetworkSourceError(f"{where}: {reply.error[:160] or 'no data'}")
            if reply.data.kind != "vector":
                raise NetworkSourceError(f"{where} gives a {reply.data.kind[:20]}, not an instant vector")
            return _Vector(_LIST.decode(reply.data.result), where, reply.warnings)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise NetworkSourceError(f"{where}: the answer is not Prometheus's: {error}") from error


def _is_worse(one: Measurement, other: Measurement) -> bool:
    return one.value < other.value if one.metric is Metric.THROUGHPUT else one.value > other.value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _without_port(label: str) -> str:
    """A host or address as `instance` labels have it, without the port.

    >>> [_without_port(text) for text in ("10.0.0.1:9115", "[2001:db8::1]:80", "node1", "2001:db8::1")]
    ['10.0.0.1', '2001:db8::1', 'node1', '2001:db8::1']
    """
    found = _PORT.fullmatch(label.strip())
    return (found["v6"] or found["host"]) if found is not None else label.strip()
