"""The esmond source against scripted answers: the list of tests, its pages, and the values behind it."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from extender.network.esmond.source import EsmondSource
from extender.network.sources.http import HttpClient, HttpServer
from extender.settings.sources import EsmondSource as Settings
from tests.extender.network.world import START_S as NOW_S
from tests.extender.network.world import read

ROOT = "/esmond/perfsonar/archive"
URI = {"packet-loss-rate": "base", "throughput": "base", "histogram-owdelay": "statistics/0"}


def a_test(key: str, source: str, target: str, kind: str, **more: Any) -> dict[str, Any]:
    uri = f"{ROOT}/{key}/{kind}/{URI[kind]}"
    statistics = [
        {"summary-type": "statistics", "summary-window": "300", "uri": f"{ROOT}/{key}/wrong"},
        {"summary-type": "statistics", "summary-window": "0", "uri": uri},
    ]
    event = {"event-type": kind, "base-uri": uri, "time-updated": 1, "summaries": statistics}
    ends = {
        "input-source": source,
        "source": f"ip-{source}",
        "input-destination": target,
        "destination": f"ip-{target}",
    }
    return {**ends, "metadata-key": key, "event-types": [{"event-type": "other"}, event], **more}


class Archive:
    """Tests by event type and values by address; what is not known is 404."""

    def __init__(self, tests: dict[str, list[dict[str, Any]]], values: dict[str, Any]) -> None:
        self.tests = tests
        self.values = values
        self.asked: list[str] = []
        self.page = 1000

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path, params = request.url.path, request.url.params
        self.asked.append(path.removeprefix(ROOT))
        assert params["format"] == "json"
        if path == f"{ROOT}/":
            listed = self.tests.get(params["event-type"], [])
            first = int(params["offset"])
            page = [dict(one) for one in listed[first : first + self.page]]
            if page:
                page[0]["metadata-count-total"] = len(listed)
            return httpx.Response(200, json=page)
        answer = self.values.get(path.removeprefix(ROOT))
        if isinstance(answer, httpx.Response):
            return answer
        return httpx.Response(404, text="nothing") if answer is None else httpx.Response(200, json=answer)


def source(archive: Callable[[httpx.Request], httpx.Response], **settings: Any) -> EsmondSource:
    client = HttpClient(HttpServer(f"https://h{ROOT}"), transport=httpx.MockTransport(archive))
    return EsmondSource(client, Settings(kind="esmond", url="https://h", **settings))


def at(value: Any, age_s: float = 60.0) -> dict[str, Any]:
    return {"ts": NOW_S - age_s, "val": value}


async def test_the_three_metrics() -> None:
    archive = Archive(
        {
            "packet-loss-rate": [a_test("k1", "a", "b", "packet-loss-rate")],
            "histogram-owdelay": [a_test("k1", "a", "b", "histogram-owdelay", **{"sample-bucket-width": 0.0001})],
            "throughput": [a_test("k2", "a", "b", "throughput")],
        },
        {
            "/k1/packet-loss-rate/base": [at(0.0, 120.0), at(0.02, 60.0)],
            "/k1/histogram-owdelay/statistics/0": [at({"median": 20.0, "minimum": "1"}), at({"median": "40"})],
            "/k2/throughput/base": [at(9e9, 9000.0), at(1e9, 5000.0), at(8e9, 7000.0)],
        },
    )
    batch = await read(source(archive))
    assert [(str(m.metric), m.value, NOW_S - m.measured_at_s) for m in batch.measurements] == [
        ("delay", pytest.approx(3.0), 60.0), ("loss", 0.01, 60.0), ("throughput", 8e9, 5000.0)
    ]  # fmt: skip
    assert {one.id: one.aliases for one in batch.endpoints} == {"a": ("ip-a",), "b": ("ip-b",)}
    assert await source(archive).fetch(now_s=NOW_S) is not None


VALUES = {  # case: (value in our unit, reason, event type, what the archive has)
    "no values": (None, "no_value", "throughput", []),
    "no number": (None, "no_value", "throughput", [at(None), at("x"), at(True)]),
    "loss beyond everything": (None, "out_of_range", "packet-loss-rate", [at(1.5)]),
    "negative throughput": (None, "out_of_range", "throughput", [at(-1.0)]),
    "negative delay": (0.0, "negative_delay", "histogram-owdelay", [at({"median": -3.0})]),
    "a clock ahead": (5.0, "future_time", "throughput", [at(5.0, -99.0)]),
}


@pytest.mark.parametrize(("want", "reason", "kind", "values"), VALUES.values(), ids=VALUES)
async def test_one_series(want: float | None, reason: str | None, kind: str, values: list[Any]) -> None:
    """What cannot be used is counted under its reason; no time lies ahead."""
    archive = Archive({kind: [a_test("k", "a", "b", kind)]}, {f"/k/{kind}/{URI[kind]}": values})
    batch = await read(source(archive))
    assert [m.value for m in batch.measurements] == ([] if want is None else [want])
    assert batch.rejected == ({} if reason is None else {reason: 1})
    assert all(m.measured_at_s <= NOW_S for m in batch.measurements)


async def test_pages_and_the_bound() -> None:
    kind = "throughput"
    tests = [a_test(f"k{n}", "a", f"b{n}", kind) for n in range(5)]
    archive = Archive({kind: tests}, {f"/k{n}/throughput/base": [at(1.0)] for n in range(5)})
    archive.page = 2
    assert len((await read(source(archive))).measurements) == 5
    bounded = await read(source(archive, max_series=3))
    assert len(bounded.measurements) == 3
    assert bounded.problems == ("5 series of throughput: only 3 are read",)


async def test_nothing_is_asked_elsewhere() -> None:
    elsewhere = a_test("k", "a", "b", "throughput")
    elsewhere["event-types"][1]["base-uri"] = "https://elsewhere.example.org/secret"
    archive = Archive({"throughput": [elsewhere]}, {})
    assert len((await read(source(archive))).measurements) == 0
    assert set(archive.asked) == {"/"}


async def test_some_series_fail() -> None:
    kind = "throughput"
    archive = Archive(
        {kind: [a_test("k1", "a", "b", kind), a_test("k2", "b", "a", kind)]}, {"/k1/throughput/base": [at(1.0)]}
    )
    one = source(archive)
    batch = await read(one)
    assert len(batch.measurements) == 1
    assert batch.rejected == {"failed": 1}
    assert batch.problems == (
        f"1 series of throughput failed, such as https://h{ROOT}/k2/throughput/base: status 404: nothing",
    )
    archive.values = {}
    batch = await read(one)
    assert len(batch.measurements) == 1
    assert batch.problems[0].startswith("throughput failed, its last values stay: ")
