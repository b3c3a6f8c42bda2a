"""Read loss, delay and throughput from a perfSONAR 5 archive: one aggregation per kind of test, page by page.

Why aggregations: an archive holds a document per test run, a thousand times as many as there are pairs. Rule: one
question each for latency tests (owping, powstream, twping), round-trip tests (ping) and throughput tests (iperf3,
iperf, nuttcp); every question is bounded in time span, in pages and in bytes; an answer that the archive calls
incomplete is no answer. Units: bit/s, loss a ratio, latency in the test's bucket width (or ms), round trips in seconds.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec

from extender.errors import NetworkSourceError
from extender.network.answers import NO_VALUE, LastAnswers, Readings, SourceAnswer, decoded, off_loop
from extender.network.http import HttpClient
from extender.ports import Batch
from extender.settings.network import OpenSearchSettings
from scoring import Metric

DEFAULT_WIDTH_S: Final = 0.001  # Unit of a latency test's figures where the test does not say its bucket width
PAGE_PAIRS: Final = 1000  # Pairs in one answer: about a megabyte
_LATENCY_WINDOW_S: Final = 900  # Loss and delay are taken from the tests of this last time
_THROUGHPUT_WINDOW_S: Final = 93_600  # The same for throughput: tests run hours apart
_NAMES: Final = ["meta.*.ip", "meta.*.hostname", "reference.display-set-*"]


def search_body(kind: str, settings: OpenSearchSettings, *, after: Mapping[str, str | None] | None) -> dict[str, Any]:
    """One page of a kind of tests, by pair of ends, which `test.spec` names; else, for the source, `meta`."""
    window_s = _THROUGHPUT_WINDOW_S if kind == "throughput" else _LATENCY_WINDOW_S
    wanted: list[dict[str, Any]] = [
        {"range": {"pscheduler.start_time": {"gte": f"now-{window_s}s"}}},
        {"term": {"result.succeeded": True}},
    ]
    if settings.task is not None:
        wanted.append({"term": {"reference.display-task-name.keyword": settings.task}})
    if settings.ip_version is not None:
        places = ("test.spec.ip-version", "meta.ip_version")  # what the test names, and what it used
        wanted.append({"bool": {"should": [{"term": {place: settings.ip_version}} for place in places]}})
    matching: dict[str, Any] = {"filter": wanted}
    newest = {"size": 1, "sort": [{"pscheduler.start_time": "desc"}], "_source": _NAMES}
    figures: dict[str, Any] = {"at": {"max": {"field": "pscheduler.start_time"}}, "last": {"top_hits": newest}}
    if kind == "throughput":
        figures["throughput"] = {"percentiles": {"field": "result.throughput", "percents": [50]}}
        matching["must_not"] = [{"term": {"test.spec.udp": True}}]  # sent at a chosen rate: no limit of the link
    else:
        packets = {"lost": "sum", "sent": "sum", "loss": "avg"}
        figures |= {name: {how: {"field": f"result.packets.{name}"}} for name, how in packets.items()}
        figures["delay"] = {"avg": {"field": "result.rtt.mean" if kind == "rtt" else "result.latency.median"}}
    if kind == "latency":
        width = {"field": "test.spec.bucket-width", "missing": DEFAULT_WIDTH_S}
        figures |= {"narrowest": {"min": width}, "widest": {"max": width}}
    ends = {
        "source": "test.spec.source", "target": "test.spec.dest",
        "source_host": "meta.source.hostname", "target_host": "meta.destination.hostname",
    }  # fmt: skip
    terms = [{key: {"terms": {"field": f"{name}.keyword", "missing_bucket": True}}} for key, name in ends.items()]
    grouped: dict[str, Any] = {"size": PAGE_PAIRS, "sources": terms}
    if after is not None:
        grouped["after"] = dict(after)
    return {
        "size": 0, "track_total_hits": False, "timeout": settings.server_timeout, "query": {"bool": matching},
        "aggs": {"pairs": {"composite": grouped, "aggs": figures}},
    }  # fmt: skip


MAX_PAGES: Final = 200  # Most pages of one question; with 1,000 pairs each 200,000 pairs
MIXED_WIDTHS: Final = "mixed_bucket_widths"


class _Number(msgspec.Struct):
    value: float | None = None


class _Found(msgspec.Struct):
    meta: dict[str, dict[str, str | None]] = {}  # source and destination → ip, hostname
    reference: dict[str, str | None] = {}  # display-set-source and -dest → the host


class _Hit(msgspec.Struct):
    found: _Found = msgspec.field(name="_source", default_factory=_Found)


class _HitList(msgspec.Struct):
    hits: list[_Hit] = []


class _PairBucket(msgspec.Struct):
    key: dict[str, str | None]
    at: _Number = msgspec.field(default_factory=_Number)
    last: dict[str, _HitList] = {}
    lost: _Number = msgspec.field(default_factory=_Number)
    sent: _Number = msgspec.field(default_factory=_Number)
    loss: _Number = msgspec.field(default_factory=_Number)
    delay: _Number = msgspec.field(default_factory=_Number)
    narrowest: _Number = msgspec.field(default_factory=_Number)
    widest: _Number = msgspec.field(default_factory=_Number)
    throughput: dict[str, dict[str, float | None]] = {}


class _PairBuckets(msgspec.Struct):
    buckets: list[_PairBucket]
    after_key: dict[str, str | None] | None = None


class _Page(msgspec.Struct):
    timed_out: bool
    shards: dict[str, Any] = msgspec.field(name="_shards")
    aggregations: dict[str, _PairBuckets] | None = None


_PAGE: Final = msgspec.json.Decoder(_Page)


class OpenSearchSource:
    """A NetworkSource over one archive. `fetch` is called by one task at a time."""

    def __init__(self, settings: OpenSearchSettings, *, name: str = "opensearch") -> None:
        self.name = name
        self.client = HttpClient(settings)
        self.aclose = self.client.aclose
        self._settings = settings
        self._answers = LastAnswers(name)

    async def fetch(self, *, now_s: float) -> Batch | None:
        """Ask for latency, round-trip and throughput tests; `None`: nothing new. Errors: NetworkSourceError."""
        questions = {kind: partial(self._ask, kind, now_s) for kind in ("latency", "rtt", "throughput")}
        return await self._answers.ask(questions, now_s=now_s)

    async def _ask(self, kind: str, now_s: float) -> SourceAnswer:
        path = f"/pscheduler_{kind}*/_search?ignore_unavailable=true&allow_no_indices=true"
        entries = Readings(now_s)
        problems = []
        after: dict[str, str | None] | None = None
        for _ in range(MAX_PAGES):
            body = search_body(kind, self._settings, after=after)
            where = f"{self.client.url}: {kind} tests: the answer is"
            page = decoded(_PAGE, await self.client.ask("POST", path, json=body), f"{where} not a search result")
            if page.timed_out:
                raise NetworkSourceError(f"{where} incomplete: ran out of time")
            if failed := page.shards.get("failed"):
                raise NetworkSourceError(f"{where} incomplete: {failed} of {page.shards.get('total')} shards failed")
            pairs = page.aggregations["pairs"] if page.aggregations else _PairBuckets([])
            for bucket in pairs.buckets:
                _add(entries, bucket, kind)
            if pairs.after_key is None or not pairs.buckets or pairs.after_key == after:
                break
            after = pairs.after_key
        else:
            most = MAX_PAGES * PAGE_PAIRS
            problems.append(f"{self.name}: more than {most} pairs of {kind} tests: the rest is not read")
        if entries.rejected[MIXED_WIDTHS]:
            problems.append("some pairs have latency tests of different bucket widths: their delay is not used")
        return await off_loop(len(entries.measurements), partial(entries.answer, *problems))


def _add(entries: Readings, bucket: _PairBucket, kind: str) -> None:
    """Take over one pair's values in our units, or count why not. Ends have the names of the test, if it says any."""
    hits = bucket.last.get("hits", _HitList()).hits
    named = hits[0].found if hits else _Found()
    key, here, there = bucket.key, named.meta.get("source", {}), named.meta.get("destination", {})
    source = entries.end(key.get("source"), key.get("source_host"), here.get("hostname"), here.get("ip"))
    target = entries.end(key.get("target"), key.get("target_host"), there.get("hostname"), there.get("ip"))
    if source is None or target is None or bucket.at.value is None:
        entries.rejected["no_ends"] += 1
        return
    entries.join(source, named.reference.get("display-set-source"))
    entries.join(target, named.reference.get("display-set-dest"))
    loss, delay = bucket.loss.value, bucket.delay.value
    if bucket.sent.value:
        loss = (bucket.lost.value or 0.0) / bucket.sent.value
    elif loss is not None:
        loss = min(loss, 1.0)  # ping writes 100 where it cannot read a line of losses: everything
    if delay is not None and kind == "rtt":
        delay *= 1000.0 / 2.0
    elif delay is not None and bucket.narrowest.value != bucket.widest.value:
        entries.rejected[MIXED_WIDTHS] += 1
        delay = None
    elif delay is not None:
        delay = delay * (bucket.widest.value or DEFAULT_WIDTH_S) * 1000.0
    values = {Metric.THROUGHPUT: next(iter(bucket.throughput.get("values", {}).values()), None)}
    values |= {Metric.LOSS: loss, Metric.DELAY: delay}
    entries.rejected[NO_VALUE] += all(value is None for value in values.values())
    for metric, value in values.items():
        if value is not None:
            entries.add((source, target), metric, value, bucket.at.value / 1000.0, round_trip=kind == "rtt")
