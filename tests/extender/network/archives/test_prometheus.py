"""The Prometheus source against scripted answers: units, labels, times, and what cannot be used."""

from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest

from extender.errors import NetworkSourceError
from extender.network.prometheus import PRESETS, PrometheusSource
from extender.settings.network import PrometheusQuery
from extender.settings.network import PrometheusSettings as Settings
from scoring.network.matrix import Metric
from tests.extender.network.replies import no_server, replies
from tests.extender.network.world import START_S as NOW_S
from tests.extender.network.world import read

__all__ = ["no_server"]
LOSS = {"loss": {"query": "loss", "unit": "ratio"}}


def vector(*series: tuple[dict[str, str], str], at_s: float = NOW_S, **other: Any) -> dict[str, Any]:
    result = [{"metric": labels, "value": [at_s, value]} for labels, value in series]
    return {"status": "success", "data": {"resultType": "vector", "result": result}, **other}


def ends(source: str = "a", target: str = "b", **more: str) -> dict[str, str]:
    return {"source": source, "target": target, **more}


def settings(queries: dict[str, dict[str, Any]] = LOSS, **more: Any) -> Settings:
    asked = {Metric(metric): PrometheusQuery(**fields) for metric, fields in queries.items()}
    return Settings("http://h:9090", queries=asked, **more)


def source(answers: dict[str, Any], queries: dict[str, dict[str, Any]] = LOSS, **more: Any) -> PrometheusSource:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/api/v1/query"
        reply = answers[parse_qs(request.content.decode())["query"][0]]
        return reply if isinstance(reply, httpx.Response) else httpx.Response(200, json=reply)

    replies.route().mock(side_effect=answer)
    return PrometheusSource(settings(queries, **more))


UNITS = {  # case: (value in our unit, metric, unit, round trip, text)
    "ratio": (0.25, Metric.LOSS, "ratio", False, "0.25"),
    "percent": (0.25, Metric.LOSS, "percent", False, "25"),
    "a little below none": (0.0, Metric.LOSS, "ratio", False, "-1e-05"),
    "seconds": (5.0, Metric.DELAY, "s", False, "0.005"),
    "half of a round trip": (2.5, Metric.DELAY, "s", True, "0.005"),
    "milliseconds": (5.0, Metric.DELAY, "ms", False, "5"),
    "bits": (1e9, Metric.THROUGHPUT, "bit/s", False, "1e+09"),
    "bytes": (8e9, Metric.THROUGHPUT, "byte/s", False, "1e+09"),
}


@pytest.mark.parametrize(("want", "metric", "unit", "round_trip", "text"), UNITS.values(), ids=UNITS)
async def test_units(want: float, metric: Metric, unit: str, round_trip: bool, text: str) -> None:
    query = {"query": "q", "unit": unit, "round_trip": round_trip}
    [one] = (await read(source({"q": vector((ends(), text))}, {metric.value: query}))).measurements
    assert one.metric is metric
    assert one.value == pytest.approx(want)


REJECTED = {  # case: (reason, labels, text)
    "not a number": ("not_finite", ends(), "NaN"),
    "endless": ("not_finite", ends(), "+Inf"),
    "no text of a number": ("not_finite", ends(), "many"),
    "negative": ("out_of_range", ends(), "-1"),
    "more than everything": ("out_of_range", ends(), "25"),
    "no source": ("no_label", {"target": "b"}, "0"),
    "empty target": ("no_label", ends(target=""), "0"),
}


@pytest.mark.parametrize(("reason", "labels", "text"), REJECTED.values(), ids=REJECTED)
async def test_one_bad_series_spoils_nothing(reason: str, labels: dict[str, str], text: str) -> None:
    batch = await read(source({"loss": vector((labels, text), (ends("x", "y"), "0.5"))}))
    assert [(m.source, m.target) for m in batch.measurements] == [("x", "y")]
    assert batch.rejected == {reason: 1}


async def test_several_series_of_one_pair() -> None:
    """The worst counts: two address families of one link are both on the way."""
    batch = await read(source({"loss": vector((ends(v="4"), "0.1"), (ends(v="6"), "0.3"), (ends(v="x"), "0.2"))}))
    assert ([m.value for m in batch.measurements], batch.rejected) == ([0.3], {"duplicate": 2})
    rate = {"query": "q", "unit": "bit/s"}
    batch = await read(source({"q": vector((ends(v="4"), "2"), (ends(v="6"), "1"))}, {"throughput": rate}))
    assert [m.value for m in batch.measurements] == [1.0]


async def test_an_end_to_itself_is_no_link() -> None:
    assert len((await read(source({"loss": vector((ends("a:1", "a:2"), "0"))}))).measurements) == 0


def _nothing_of(preset: str) -> dict[str, Any]:
    asked = PrometheusSource(settings({}, presets=[preset])).queries
    return {one.query.replace("$window", f"{one.window_s}s"): vector() for _, one in asked}


async def test_names_that_mean_the_same() -> None:
    known = vector(({"node": "n1", "internal_ip": "10.0.0.1"}, "1"), ({"node": "n2", "internal_ip": "10.0.0.2"}, "1"))
    answers = {"loss": vector((ends("10.0.0.1:9427", "10.0.0.2"), "0")), "kube_node_info": known}
    batch = await read(source(answers | _nothing_of("smokeping"), presets=["smokeping"]))
    assert [(m.source, m.target) for m in batch.measurements] == [("n1", "n2")]
    assert {one.id: one.aliases for one in batch.endpoints} == {"n1": ("10.0.0.1",), "n2": ("10.0.0.2",)}


async def test_without_alias_data_it_goes_on() -> None:
    answers = {"loss": vector((ends(), "0")), "kube_node_info": httpx.Response(503, text="busy")}
    batch = await read(source(answers | _nothing_of("smokeping"), presets=["smokeping"]))
    assert len(batch.measurements) == 1
    assert batch.problems == ("aliases failed: http://h:9090/api/v1/query: status 503: busy",)


async def test_times_of_their_own() -> None:
    query = {"throughput": {"query": "q[$window]", "unit": "bit/s", "window_s": 60, "time_query": "t[$window]"}}
    rates = vector((ends(), "1"), (ends("c", "d"), "2"), (ends("e", "f"), "3"))
    times = vector((ends(), "1700000000"), (ends(), "1600000000"), (ends("c", "d"), f"{NOW_S + 50.0}"))
    batch = await read(source({"q[60s]": rates, "t[60s]": times}, query))
    assert {m.source: m.measured_at_s for m in batch.measurements} == {"a": 1_700_000_000.0, "c": NOW_S}
    assert batch.rejected == {"no_time": 1}


async def test_warnings_are_told() -> None:
    batch = await read(source({"loss": vector((ends(), "0"), warnings=["PromQL: 1 of 2 stores answered"])}))
    assert batch.problems == ("Prometheus warns: PromQL: 1 of 2 stores answered",)


def shaped(kind: str, result: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": kind, "result": result}}


FAILURES = {  # case: (what is said, answer)
    "an error": ("query timed out", {"status": "error", "errorType": "timeout", "error": "query timed out"}),
    "a scalar": ("gives a scalar, not an instant vector", shaped("scalar", [1, "2"])),
    "a page": ("the answer is not Prometheus's", httpx.Response(200, text="<html>")),
    "another shape": ("the answer is not Prometheus's", shaped("vector", {})),
    "another series": ("the answer is not Prometheus's", shaped("vector", [{}])),
}  # fmt: skip


@pytest.mark.parametrize(("want", "answer"), FAILURES.values(), ids=FAILURES)
async def test_a_query_that_fails(want: str, answer: Any) -> None:
    delay = {"delay": {"query": "delay", "unit": "ms"}}
    answers: dict[str, Any] = {"loss": vector((ends(), "0.5")), "delay": vector((ends(), "3"))}
    one = source(answers, LOSS | delay)
    await read(one)
    answers |= {"loss": answer, "delay": vector((ends(), "4"))}
    batch = await read(one)
    assert {m.metric: m.value for m in batch.measurements} == {Metric.LOSS: 0.5, Metric.DELAY: 4.0}
    [problem] = batch.problems
    assert problem.startswith("loss query 1 failed, its last values stay: ")
    assert want in problem
    with pytest.raises(NetworkSourceError, match=want):
        await source({"loss": answer}).fetch(now_s=NOW_S)


def test_own_queries_go_before_presets() -> None:
    both = settings(presets=["smokeping"])
    found = PrometheusSource(both).queries
    assert [(metric, query == both.queries[Metric.LOSS]) for metric, query in found] == [
        (Metric.LOSS, True), (Metric.DELAY, False)
    ]  # fmt: skip
    assert PrometheusSource(settings()).queries == found[:1]
    asked = {metric for name in PRESETS for metric, _ in PrometheusSource(settings({}, presets=[name])).queries}
    assert asked == {Metric.LOSS, Metric.DELAY}


def test_aliases_are_asked_where_a_preset_needs_them() -> None:
    given = (settings(), settings(presets=["smokeping"]))
    assert [PrometheusSource(one).aliases for one in given] == [None, "kube_node_info"]
