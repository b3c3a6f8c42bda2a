"""The perfSONAR archive source against scripted answers: pages, partial failures, values that cannot be used."""

import json
import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from extender.errors import NetworkSourceError
from extender.network import opensearch
from extender.network.opensearch import OpenSearchSource, search_body
from extender.ports import Batch
from extender.settings.network import OpenSearchSettings as Settings
from tests.extender.network.replies import no_server, replies
from tests.extender.network.world import START_S as NOW_S
from tests.extender.network.world import read

__all__ = ["no_server"]


def bucket(source: Any = "a", target: Any = "b", *, at_s: float | None = NOW_S - 60.0, **figures: Any) -> Any:
    key = {"source": source, "target": target, "source_host": None, "target_host": None}
    found = {name: {"value": value} for name, value in figures.items() if name != "throughput"}
    if "throughput" in figures:
        found["throughput"] = {"values": {"50.0": figures["throughput"]}}
    at = {"value": None if at_s is None else at_s * 1000.0}
    return {"key": key, "doc_count": 1, "at": at, "last": {"hits": {"hits": []}}, **found}


def page(*buckets: dict[str, Any], after: dict[str, Any] | None = None, **other: Any) -> dict[str, Any]:
    pairs = {"buckets": list(buckets), **({"after_key": after} if after else {})}
    shards = {"total": 2, "successful": 2, "skipped": 0, "failed": 0}
    return {"timed_out": False, "_shards": shards, "aggregations": {"pairs": pairs}, **other}


class Script:
    """Replies by kind of test; what is not scripted has no pairs."""

    def __init__(self, **answers: Callable[[dict[str, Any]], Any] | Any) -> None:
        self.answers = answers
        self.asked: list[str] = []
        replies.route().mock(side_effect=self.answer)

    def answer(self, request: httpx.Request) -> httpx.Response:
        kind = next(k for k in ("latency", "rtt", "throughput") if f"pscheduler_{k}*" in request.url.path)
        self.asked.append(kind)
        answer = self.answers.get(kind, page())
        if callable(answer):
            answer = answer(json.loads(request.content))
        return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)

    def source(self) -> OpenSearchSource:
        return OpenSearchSource(Settings("https://h/opensearch"))


def values(batch: Batch) -> dict[str, float]:
    return {f"{m.metric} {m.source}{m.target}": round(m.value, 6) for m in batch.measurements}


async def test_pages_are_followed_to_their_end() -> None:
    afters: list[Any] = []

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        after = body["aggs"]["pairs"]["composite"].get("after")
        afters.append(after)
        number = 0 if after is None else int(after["n"]) + 1
        one = bucket(f"a{number}", "b", throughput=1e9)
        return page(one, after={"n": str(number)}) if number < 2 else page(one)

    assert set(values(await read(Script(throughput=answer).source()))) == {f"throughput a{n}b" for n in range(3)}
    assert afters == [None, {"n": "0"}, {"n": "1"}]


async def test_a_key_that_does_not_move_ends_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(rtt=page(bucket(delay=0.1), after={"n": "1"}))
    await read(script.source())
    assert script.asked.count("rtt") == 2
    monkeypatch.setattr(opensearch, "MAX_PAGES", 3)
    numbers = iter(range(100))
    endless = Script(rtt=lambda _: page(bucket(delay=0.1), after={"n": str(next(numbers))}))
    batch = await read(endless.source())
    assert endless.asked.count("rtt") == 3
    assert batch.problems == ("opensearch: more than 3000 pairs of rtt tests: the rest is not read",)


MS, MIXED = {"narrowest": 1e-3, "widest": 1e-3}, {"narrowest": 1e-4, "widest": 1e-3}
PAIRS = {  # case: (values, reasons, kind of test, bucket)
    "loss by packets": ({"loss ab": 0.01}, {}, "latency", bucket(lost=6, sent=600, loss=0.5)),
    "loss as told": ({"loss ab": 0.5}, {}, "latency", bucket(lost=0, sent=0, loss=0.5)),
    "ping in doubt": ({"loss ab": 1.0}, {}, "rtt", bucket(loss=33.4)),
    "bucket width": ({"delay ab": 1.25}, {}, "latency", bucket(delay=12.5, narrowest=1e-4, widest=1e-4)),
    "several widths": ({}, {"mixed_bucket_widths": 1, "no_value": 1}, "latency", bucket(delay=12.5, **MIXED)),
    "half a round trip": ({"delay ab": 25.0}, {}, "rtt", bucket(delay=0.05)),
    "negative delay": ({"delay ab": 0.0}, {"negative_delay": 1}, "latency", bucket(delay=-3.0, **MS)),
    "negative loss": ({}, {"out_of_range": 1}, "latency", bucket(loss=-0.5)),
    "negative throughput": ({}, {"out_of_range": 1}, "throughput", bucket(throughput=-1.0)),
    "no figures": ({}, {"no_value": 1}, "throughput", bucket(throughput=None)),
    "no source": ({}, {"no_ends": 1}, "throughput", bucket(None, throughput=1e9)),
    "no time": ({}, {"no_ends": 1}, "throughput", bucket(at_s=None, throughput=1e9)),
    "clock ahead": ({"throughput ab": 1e9}, {"future_time": 1}, "throughput", bucket(at_s=NOW_S + 99, throughput=1e9)),
}


@pytest.mark.parametrize(("want", "reasons", "kind", "one"), PAIRS.values(), ids=PAIRS)
async def test_one_pair(want: dict[str, float], reasons: dict[str, int], kind: str, one: dict[str, Any]) -> None:
    batch = await read(Script(**{kind: page(one)}).source())
    assert (values(batch), dict(batch.rejected)) == (want, reasons)
    assert all(m.measured_at_s <= NOW_S for m in batch.measurements)


async def test_round_trips_stand_in_only_where_there_is_no_one_way_delay_at_all() -> None:
    one_way = bucket(delay=5.0, **MS, lost=0, sent=10)
    pings = page(bucket(delay=0.1, loss=0.5), bucket("b", "a", delay=0.1, loss=0.25))
    both = await read(Script(latency=page(one_way), rtt=pings).source())
    assert values(both) == {"delay ab": 5.0, "loss ab": 0.0, "loss ba": 0.25}
    alone = await read(Script(rtt=pings).source())
    assert values(alone) == {"delay ab": 50.0, "delay ba": 50.0, "loss ab": 0.5, "loss ba": 0.25}


INCOMPLETE = {  # case: (what is said, answer)
    "out of time": ("the answer is incomplete: ran out of time", page(timed_out=True)),
    "shards": ("the answer is incomplete: 1 of 2 shards failed", page(_shards={"total": 2, "failed": 1})),
    "forbidden": ("status 403: this user may not read it: no permissions", httpx.Response(403, text="no permissions")),
    "a page": ("the answer is not a search result", httpx.Response(200, text="<html>")),
}


@pytest.mark.parametrize(("want", "answer"), INCOMPLETE.values(), ids=INCOMPLETE)
async def test_one_kind_of_test_that_fails_keeps_its_values(want: str, answer: Any) -> None:
    script = Script(latency=page(bucket(lost=1, sent=10)), throughput=page(bucket(throughput=1e9)))
    one = script.source()
    await read(one)
    script.answers = {"latency": answer, "throughput": page(bucket(at_s=NOW_S, throughput=2e9))}
    batch = await read(one)
    assert values(batch) == {"loss ab": 0.1, "throughput ab": 2e9}
    [problem] = batch.problems
    assert problem.startswith("latency failed, its last values stay: https://h/opensearch")
    assert want in problem
    with pytest.raises(NetworkSourceError, match=re.escape(want)):
        await Script(latency=answer, rtt=answer, throughput=answer).source().fetch(now_s=NOW_S)


async def test_a_pair_that_is_missing_keeps_its_last_value_for_a_while() -> None:
    script = Script(rtt=page(bucket(delay=0.1), bucket("c", "d", delay=0.2)))
    one = script.source()
    await read(one)
    script.answers = {"rtt": page(bucket(at_s=NOW_S + 10.0, delay=0.3))}
    batch = await read(one, NOW_S + 20.0)
    assert values(batch) == {"delay ab": 150.0, "delay cd": 100.0}
    assert {m.measured_at_s - NOW_S for m in batch.measurements} == {10.0, -60.0}
    script.answers = {"rtt": page(bucket(at_s=NOW_S + 199_000.0, delay=0.3))}
    batch = await read(one, NOW_S + 200_000.0)
    assert values(batch) == {"delay ab": 150.0}
    assert [end.id for end in batch.endpoints] == ["a", "b"]


def test_what_is_asked() -> None:
    settings = Settings(kind="opensearch", url="https://h", task="Lab")
    body = search_body("throughput", settings, after=None)
    terms = ({"result.succeeded": True}, {"reference.display-task-name.keyword": "Lab"})
    assert body["query"]["bool"] == {
        "filter": [{"range": {"pscheduler.start_time": {"gte": "now-93600s"}}}, *({"term": term} for term in terms)],
        "must_not": [{"term": {"test.spec.udp": True}}],
    }
    assert (body["size"], body["timeout"], body["aggs"]["pairs"]["composite"]["size"]) == (0, "24000ms", 1000)
    assert search_body("rtt", settings, after={"source": "a"})["aggs"]["pairs"]["composite"]["after"] == {"source": "a"}
