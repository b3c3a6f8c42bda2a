"""Read loss, delay and throughput from a perfSONAR 5 archive: one aggregation per kind of test, page by page.

Why aggregations: an archive holds a document per test run, a thousand times as many as there are pairs. Rule: one
question each for latency tests (owping, powstream, twping), round-trip tests (ping) and throughput tests (iperf3,
iperf, nuttcp); every question is bounded in time span, in pages and in bytes; an answer that the archive calls
incomplete is no answer. Units: throughput in bit/s, loss a ratio, latency in the test's bucket width (ms if not said),
round-trip times in seconds.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec

from extender.errors import NetworkSourceError
from extender.network.batches import FUTURE_TIME, NEGATIVE_DELAY, NEGATIVE_DELAYS_SAID, NO_VALUE, OUT_OF_RANGE, off_loop
from extender.network.opensearch.query import DEFAULT_WIDTH_S, PAGE_PAIRS, search_body
from extender.network.sources.http import HttpClient
from extender.network.sources.parts import Answer, Parts
from extender.ports import Batch
from extender.settings.sources import OpenSearchSource as OpenSearchSettings
from scoring.ids import EndpointId
from scoring.network.measurement import Measurement, MeasurementTable, Metric

MAX_PAGES: Final = 200
"""Most pages of one question; with 1,000 pairs each 200,000 pairs."""
NO_ENDS: Final = "no_ends"
MIXED_WIDTHS: Final = "mixed_bucket_widths"


class _Number(msgspec.Struct):
    value: float | None = None


class _Percentiles(msgspec.Struct):
    values: dict[str, float | None] = {}


class _Host(msgspec.Struct):
    ip: str | None = None
    hostname: str | None = None


class _Meta(msgspec.Struct):
    source: _Host = msgspec.field(default_factory=_Host)
    destination: _Host = msgspec.field(default_factory=_Host)


class _Source(msgspec.Struct):
    meta: _Meta = msgspec.field(default_factory=_Meta)


class _Hit(msgspec.Struct):
    found: _Source = msgspec.field(name="_source", default_factory=_Source)


class _HitList(msgspec.Struct):
    hits: list[_Hit] = []


class _Hits(msgspec.Struct):
    hits: _HitList = msgspec.field(default_factory=_HitList)


class _Bucket(msgspec.Struct):
    key: dict[str, str | None]
    at: _Number = msgspec.field(default_factory=_Number)
    last: _Hits = msgspec.field(default_factory=_Hits)
    lost: _Number = msgspec.field(default_factory=_Number)
    sent: _Number = msgspec.field(default_factory=_Number)
    loss: _Number = msgspec.field(default_factory=_Number)
    delay: _Number = msgspec.field(default_factory=_Number)
    narrowest: _Number = msgspec.field(default_factory=_Number)
    widest: _Number = msgspec.field(default_factory=_Number)
    throughput: _Percentiles = msgspec.field(default_factory=_Percentiles)


class _Pairs(msgspec.Struct):
    buckets: list[_Bucket]
    after_key: dict[str, str | None] | None = None


class _Aggregations(msgspec.Struct):
    pairs: _Pairs


class _Shards(msgspec.Struct):
    total: int = 0
    failed: int = 0


class _Page(msgspec.Struct):
    timed_out: bool
    shards: _Shards = msgspec.field(name="_shards")
    aggregations: _Aggregations | None = None


_PAGE: Final = msgspec.json.Decoder(_Page)


@dataclass(slots=True)
class _Read:
    """What the pages of one question gave so far."""

    measurements: list[Measurement] = field(default_factory=list)
    aliases: dict[EndpointId, dict[str, None]] = field(default_factory=dict)
    rejected: Counter[str] = field(default_factory=Counter)


class OpenSearchSource:
    """A NetworkSource over one archive. `fetch` is called by one task at a time."""

    def __init__(
        self,
        client: HttpClient,
        settings: OpenSearchSettings,
        *,
        name: str = "opensearch",
    ) -> None:
        self.name = name
        self.client = client
        self._settings = settings
        self._parts = Parts(name, choose=_one_kind_of_delay)

    async def aclose(self) -> None:
        """End all connections."""
        await self.client.aclose()

    async def fetch(self, *, now_s: float) -> Batch | None:
        """Ask for latency, round-trip and throughput tests; `None`: nothing new. Errors: NetworkSourceError."""
        questions = {kind: partial(self._ask, kind, now_s) for kind in ("latency", "rtt", "throughput")}
        return await self._parts.ask(questions, now_s=now_s)

    async def _ask(self, kind: str, now_s: float) -> Answer:
        """All pages of one question. Errors: NetworkSourceError; then nothing of it counts."""
        path = f"/{self._settings.index_prefix}{kind}*/_search?ignore_unavailable=true&allow_no_indices=true"
        read = _Read()
        after: dict[str, str | None] | None = None
        for _ in range(MAX_PAGES):
            body = search_body(kind, self._settings, after=after, timeout_s=self.client.server.timeout_s)
            page = self._page(await self.client.ask("POST", path, json=body), kind)
            pairs = page.aggregations.pairs if page.aggregations is not None else _Pairs([])
            for bucket in pairs.buckets:
                _add(read, bucket, kind, now_s=now_s)
            if pairs.after_key is None or not pairs.buckets or pairs.after_key == after:
                return await off_loop(len(read.measurements), partial(_answer, read))
            after = pairs.after_key
        most = MAX_PAGES * PAGE_PAIRS
        problem = f"{self.name}: more than {most} pairs of {kind} tests: the rest is not read"
        return await off_loop(len(read.measurements), partial(_answer, read, problem))

    def _page(self, body: bytearray, kind: str) -> _Page:
        where = f"{self.client.url}: {kind} tests"
        try:
            page = _PAGE.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise NetworkSourceError(f"{where}: the answer is not a search result: {error}") from error
        if page.timed_out or page.shards.failed:
            cause = (
                "ran out of time" if page.timed_out else f"{page.shards.failed} of {page.shards.total} shards failed"
            )
            raise NetworkSourceError(f"{where}: the answer is incomplete: {cause}")
        return page


def _add(read: _Read, bucket: _Bucket, kind: str, *, now_s: float) -> None:
    """Take over one pair's values in our units, or count why not."""
    meta = bucket.last.hits.hits[0].found.meta if bucket.last.hits.hits else _Meta()
    source = _end(read, bucket.key.get("source"), bucket.key.get("source_host"), meta.source)
    target = _end(read, bucket.key.get("target"), bucket.key.get("target_host"), meta.destination)
    if source is None or target is None or bucket.at.value is None:
        read.rejected[NO_ENDS] += 1
        return
    at_s = bucket.at.value / 1000.0
    if at_s > now_s:
        read.rejected[FUTURE_TIME] += 1
    found = False
    for metric, value in _values(bucket, kind, read.rejected):
        found = True
        if metric is Metric.DELAY and value < 0.0:  # clocks differ; the other direction is too long by as much
            read.rejected[NEGATIVE_DELAY] += 1
            value = 0.0
        if not 0.0 <= value <= 1e15:
            read.rejected[OUT_OF_RANGE] += 1
            continue
        # ping writes 100 where it cannot read a line of losses: all that is above 1 means everything
        value = min(value, 1.0) if metric is Metric.LOSS else value
        read.measurements.append(Measurement(source, target, metric, value, min(at_s, now_s)))
    if not found:
        read.rejected[NO_VALUE] += 1


def _values(bucket: _Bucket, kind: str, rejected: Counter[str]) -> Iterator[tuple[Metric, float]]:
    if kind == "throughput":
        median = next(iter(bucket.throughput.values.values()), None)
        if median is not None:
            yield Metric.THROUGHPUT, median
        return
    if bucket.sent.value:
        yield Metric.LOSS, (bucket.lost.value or 0.0) / bucket.sent.value
    elif bucket.loss.value is not None:
        yield Metric.LOSS, bucket.loss.value
    if bucket.delay.value is None:
        return
    if kind == "rtt":
        yield Metric.DELAY, bucket.delay.value * 1000.0 / 2.0
    elif bucket.narrowest.value != bucket.widest.value:
        rejected[MIXED_WIDTHS] += 1
    else:
        yield Metric.DELAY, bucket.delay.value * (bucket.widest.value or DEFAULT_WIDTH_S) * 1000.0


def _end(read: _Read, spec: str | None, hostname: str | None, host: _Host) -> EndpointId | None:
    """The end as the test names it, else as it is called; its other names become aliases."""
    names = [name.strip() for name in (spec, hostname, host.hostname, host.ip) if name and name.strip()]
    if not names:
        return None
    end = EndpointId(names[0])
    read.aliases.setdefault(end, {}).update(dict.fromkeys(names[1:]))
    return end


def _answer(read: _Read, *problems: str) -> Answer:
    said = list(problems)
    if read.rejected[NEGATIVE_DELAY]:
        said.append(NEGATIVE_DELAYS_SAID)
    if read.rejected[FUTURE_TIME]:
        said.append("some times lie in the future (clocks differ): they are taken as now")
    if read.rejected[MIXED_WIDTHS]:
        said.append("some pairs have latency tests of different bucket widths: their delay is not used")
    aliases = {end: tuple(name for name in names if name != end) for end, names in read.aliases.items()}
    return Answer(MeasurementTable.of(read.measurements), aliases, tuple(said), dict(read.rejected))


def _one_kind_of_delay(answers: Mapping[str, Answer]) -> MeasurementTable:
    """One-way delays, or half round-trip times where there are none at all; ping's loss only for links without another.

    Round-trip times hide asymmetry: beside one-way delays they would make their links look better or worse.
    """
    latency = answers["latency"].table if "latency" in answers else MeasurementTable()
    one_way = bool(latency.measured_ends(Metric.DELAY))
    lossy = {(m.source, m.target) for m in latency if m.metric is Metric.LOSS}

    def chosen() -> Iterator[Measurement]:
        for kind, answer in sorted(answers.items()):
            for one in answer.table:
                if kind == "rtt" and one.metric is Metric.DELAY and one_way:
                    continue
                if kind == "rtt" and one.metric is Metric.LOSS and (one.source, one.target) in lossy:
                    continue
                yield one

    return MeasurementTable.of(chosen())
