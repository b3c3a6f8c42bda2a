"""Read loss, delay and throughput from Prometheus: one instant query per metric, ends named by labels.

Why queries and no fixed metric names: each exporter has its own, and sites record rules of their own; what is known of
common exporters is in `presets`. Rule: a value counts with the time that `time_query` gives for it, else
with the time of evaluation (Prometheus forgets a series after five minutes); of several series for one pair the worst
counts; an answer with warnings is used and the warnings are shown.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import msgspec

from extender.errors import NetworkSourceError
from extender.network.batches import DUPLICATE, OUT_OF_RANGE, off_loop
from extender.network.prometheus.presets import aliases_of, queries_of
from extender.network.sources.http import HttpClient
from extender.network.sources.parts import Answer, Parts
from extender.ports import Batch
from extender.settings.sources import PrometheusAliases, PrometheusQuery, Unit
from extender.settings.sources import PrometheusSource as PrometheusSettings
from scoring.ids import EndpointId
from scoring.network.measurement import Measurement, MeasurementTable, Metric

FACTORS: Final = {  # unit → factor to ratio, milliseconds or bit/s
    Unit.RATIO: 1.0,
    Unit.PERCENT: 0.01,
    Unit.SECONDS: 1000.0,
    Unit.MILLISECONDS: 1.0,
    Unit.MICROSECONDS: 0.001,
    Unit.BITS: 1.0,
    Unit.BYTES: 8.0,
    Unit.MEGABITS: 1e6,
    Unit.GIGABITS: 1e9,
}
NO_LABEL: Final = "no_label"
NOT_FINITE: Final = "not_finite"
NO_TIME: Final = "no_time"
_TOP: Final = {Metric.LOSS: 1.0, Metric.DELAY: 1e15, Metric.THROUGHPUT: 1e15}
_PORT: Final = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:]+)):\d+")


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
        client: HttpClient,
        settings: PrometheusSettings,
        *,
        name: str = "prometheus",
    ) -> None:
        self.name = name
        self.client = client
        self.queries = queries_of(settings)
        self.aliases = aliases_of(settings)
        self._parts = Parts(name)
        self._names: Mapping[str, str] = {}  # alias → name

    async def aclose(self) -> None:
        """End all connections."""
        await self.client.aclose()

    async def fetch(self, *, now_s: float) -> Batch | None:
        """Ask every query. Errors: NetworkSourceError, when none is answered."""
        problems: list[str] = []
        if self.aliases is not None:
            try:
                self._names = await self._ask_names(self.aliases)
            except NetworkSourceError as error:
                problems.append(f"aliases failed: {error}")
        questions = {
            f"{metric} query {number}": partial(self._ask, metric, query, now_s, tuple(problems) if number == 1 else ())
            for number, (metric, query) in enumerate(self.queries, start=1)
        }
        return await self._parts.ask(questions, now_s=now_s)

    async def _ask_names(self, aliases: PrometheusAliases) -> dict[str, str]:
        vector = await self._vector(aliases.query)
        found: dict[str, str] = {}
        for series in vector.series():
            name, alias = series.metric.get(aliases.name_label), series.metric.get(aliases.alias_label)
            if name and alias:
                found[_without_port(alias)] = min(name, found.get(_without_port(alias), name))
        return found

    async def _ask(self, metric: Metric, query: PrometheusQuery, now_s: float, problems: tuple[str, ...]) -> Answer:
        """One metric's values. Errors: NetworkSourceError."""
        vector = await self._vector(query.query, query.window_s)
        clock = None if query.time_query is None else await self._vector(query.time_query, query.window_s)
        answer = await off_loop(len(vector.raw), partial(self._read, metric, query, vector, clock, now_s))
        return replace(answer, problems=(*problems, *answer.problems))

    def _read(
        self, metric: Metric, query: PrometheusQuery, vector: _Vector, clock: _Vector | None, now_s: float
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
            found = self._measurement(series, metric, query, times, rejected, now_s=now_s)
            if found is None:
                continue
            ends = (found.source, found.target)
            known = worst.get(ends)
            rejected[DUPLICATE] += known is not None
            if known is None or _is_worse(found, known):
                worst[ends] = found
        aliases = self._other_names({end for ends in worst for end in ends})
        problems = tuple(f"Prometheus warns: {text[:160]}" for text in vector.warnings[:3])
        return Answer(MeasurementTable.of(worst.values()), aliases, problems, dict(+rejected))

    def _measurement(
        self,
        series: _Series,
        metric: Metric,
        query: PrometheusQuery,
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
        if metric is Metric.LOSS and -0.001 <= value <= 1.001:
            value = min(max(value, 0.0), 1.0)  # rates over windows that do not quite match
        if not 0.0 <= value <= _TOP[metric]:
            rejected[OUT_OF_RANGE] += 1
            return None
        at_s: float | None = series.value[0] if times is None else times.get(ends)
        if at_s is None:
            rejected[NO_TIME] += 1
            return None
        return Measurement(EndpointId(ends[0]), EndpointId(ends[1]), metric, value, min(at_s, now_s))

    def _ends(self, series: _Series, query: PrometheusQuery) -> tuple[str, str] | None:
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

    async def _vector(self, query: str, window_s: int = 0) -> _Vector:
        text = query.replace("$window", f"{window_s}s")
        fields = {"query": text, "timeout": f"{max(round(self.client.server.timeout_s * 800.0), 1)}ms"}
        body = await self.client.ask("POST", "/api/v1/query", data=fields)
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
