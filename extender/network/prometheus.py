"""Read loss, delay and throughput from Prometheus: one instant query per metric, ends named by labels.

Why queries: each exporter has metric names of its own, and sites record rules. Rule: a value counts with the time that
`time_query` gives for it, else with that of evaluation (Prometheus forgets a series after five minutes); of several
series for one pair the worst counts; warnings of an answer are shown.

A preset is what one exporter of a stated version exports by itself; what a site must add by relabelling is said. Values
that hide a failure as a number (0 seconds, −1) are left out by the query itself.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from extender.errors import NetworkSourceError
from extender.network.answers import OUT_OF_RANGE, EndPair, LastAnswers, Readings, SourceAnswer, decoded, off_loop
from extender.network.http import HttpClient
from extender.ports import Batch
from extender.settings.network import Preset, PrometheusQuery, PrometheusSettings, Unit
from scoring import EndpointId, Metric

FACTORS: Final = {  # unit → factor to ratio, milliseconds or bit/s
    Unit.RATIO: 1.0, Unit.PERCENT: 0.01, Unit.SECONDS: 1000.0, Unit.MILLISECONDS: 1.0, Unit.BITS: 1.0, Unit.BYTES: 8.0,
}  # fmt: skip
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


class _Vector(msgspec.Struct, frozen=True):
    raw: Sequence[msgspec.Raw]
    where: str
    warnings: Sequence[str]

    def series(self) -> Iterator[_Series]:
        """Decode one by one, so that a thread that does it lets the event loop run. Errors: NetworkSourceError."""
        return (decoded(_SERIES, raw, f"{self.where}: the answer is not Prometheus's") for raw in self.raw)


class PrometheusSource:
    """A NetworkSource over one Prometheus. `fetch` is called by one task at a time."""

    def __init__(self, settings: PrometheusSettings, *, name: str = "prometheus") -> None:
        self.name = name
        self.client = HttpClient(settings)
        self.aclose = self.client.aclose
        own = settings.queries  # in place of all presets' for their metrics
        presets = (item for name in settings.presets for item in PRESETS[name].items() if item[0] not in own)
        self.queries = (*own.items(), *presets)
        self.aliases = "kube_node_info" if settings.presets else None  # What joins names and addresses
        self._answers = LastAnswers(name)
        self._names: Mapping[str, str] = {}  # alias → name

    async def fetch(self, *, now_s: float) -> Batch | None:
        """Ask every query. Errors: NetworkSourceError, when none is answered."""
        problems: tuple[str, ...] = ()
        if self.aliases is not None:
            try:
                names: dict[str, str] = {}
                for series in (await self._vector(self.aliases)).series():
                    name, alias = series.metric.get("node"), _without_port(series.metric.get("internal_ip", ""))
                    if name and alias:
                        names[alias] = min(name, names.get(alias, name))
                self._names = names
            except NetworkSourceError as error:
                problems = (f"aliases failed: {error}",)
        questions = {
            f"{metric} query {number}": partial(self._ask, metric, query, now_s, problems if number == 1 else ())
            for number, (metric, query) in enumerate(self.queries, start=1)
        }
        return await self._answers.ask(questions, now_s=now_s)

    async def _ask(self, metric: Metric, query: PrometheusQuery, now_s: float, problems: Sequence[str]) -> SourceAnswer:
        vector = await self._vector(query.query, query.window_s)
        clock = None if query.time_query is None else await self._vector(query.time_query, query.window_s)
        notes = (*problems, *(f"Prometheus warns: {text[:160]}" for text in vector.warnings[:3]))
        return await off_loop(len(vector.raw), lambda: self._read(metric, query, vector, clock, now_s).answer(*notes))

    def _read(
        self, metric: Metric, query: PrometheusQuery, vector: _Vector, clock: _Vector | None, now_s: float
    ) -> Readings:
        times: dict[EndPair, float] = {}
        for series in clock.series() if clock is not None else ():
            ends, time_s = self._ends(series, query), _number(series.value[1])
            if ends is not None and math.isfinite(time_s):
                times[ends] = max(time_s, times.get(ends, time_s))
        entries = Readings(now_s)
        for series in vector.series():
            ends = self._ends(series, query)
            if ends is None:
                entries.rejected["no_label"] += 1
                continue
            if ends[0] == ends[1]:
                continue  # an end that asks itself
            value = _number(series.value[1]) * FACTORS[query.unit] / (2.0 if query.round_trip else 1.0)
            at_s = series.value[0] if clock is None else times.get(ends)
            if metric is Metric.LOSS and -0.001 <= value <= 1.001:
                value = min(max(value, 0.0), 1.0)  # rates over windows that do not quite match
            if not math.isfinite(value):
                entries.rejected["not_finite"] += 1
            elif not 0.0 <= value <= (1.0 if metric is Metric.LOSS else 1e15):
                entries.rejected[OUT_OF_RANGE] += 1
            elif at_s is None:
                entries.rejected["no_time"] += 1
            else:
                entries.add(ends, metric, value, at_s)
        for alias, name in sorted(self._names.items()):
            entries.end(name, alias)
        return entries

    def _ends(self, series: _Series, query: PrometheusQuery) -> EndPair | None:
        labels = (series.metric.get(query.source_label), series.metric.get(query.target_label))
        ends = (_without_port(label or "") for label in labels)
        source, target = (EndpointId(self._names.get(end, end)) for end in ends)
        return (source, target) if all(labels) else None

    async def _vector(self, query: str, window_s: int = 0) -> _Vector:
        text = query.replace("$window", f"{window_s}s")
        fields = {"query": text, "timeout": self.client.server.server_timeout}
        body = await self.client.ask("POST", "/api/v1/query", data=fields)
        where = f"{self.client.url}: query {text[:80]!r}"
        reply = decoded(_REPLY, body, f"{where}: the answer is not Prometheus's")
        if reply.status != "success" or reply.data is None:
            raise NetworkSourceError(f"{where}: {reply.error[:160] or 'no data'}")
        if reply.data.kind != "vector":
            raise NetworkSourceError(f"{where} gives a {reply.data.kind[:20]}, not an instant vector")
        raw = decoded(_LIST, reply.data.result, f"{where}: the answer is not Prometheus's")
        return _Vector(raw, where, reply.warnings)


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
    match = _PORT.fullmatch(label.strip())
    return (match["v6"] or match["host"]) if match is not None else label.strip()


def _links(source: str, target: str, **queries: str) -> Mapping[Metric, PrometheusQuery]:
    """`queries`: by metric; what all exporters call a delay is a round trip in seconds. `source`, `target`: labels."""
    ask = partial(PrometheusQuery, source_label=source, target_label=target)
    units = {"loss": Unit.RATIO, "delay": Unit.SECONDS}
    return {Metric(of): ask(query=query, unit=units[of], round_trip=of == "delay") for of, query in queries.items()}


PRESETS: Final[Mapping[Preset, Mapping[Metric, PrometheusQuery]]] = {
    # smokeping_prober (SuperQ): ICMP; late answers can make a little less than no loss, which is clamped.
    Preset.SMOKEPING: _links(
        "instance",
        "ip",
        loss="1 - sum by (instance,ip)(rate(smokeping_response_duration_seconds_count[$window]))"
        " / sum by (instance,ip)(rate(smokeping_requests_total[$window]) > 0)",
        delay="sum by (instance,ip)(rate(smokeping_response_duration_seconds_sum[$window]))"
        " / sum by (instance,ip)(rate(smokeping_response_duration_seconds_count[$window]) > 0)",
    ),
    # blackbox_exporter, module icmp alone; the site's relabelling sets `source` (which exporter) beside `instance` (the
    # target). A failed probe exports 0 seconds, so the sum is divided by the number of those that succeeded.
    Preset.BLACKBOX: _links(
        "source",
        "instance",
        loss='max by (source,instance)(1 - avg_over_time(probe_success{source!=""}[$window])'
        ' and ignoring (phase) count_over_time(probe_icmp_duration_seconds{phase="rtt",source!=""}[$window]))',
        delay='max by (source,instance)(sum_over_time(probe_icmp_duration_seconds{phase="rtt",source!=""}[$window])'
        ' / ignoring (phase) (sum_over_time(probe_success{source!=""}[$window]) > 0))',
    ),
}
