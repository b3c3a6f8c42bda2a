"""What a MaDDash server can do to the scheduler: faults of one grid, of its clock, wrong addresses."""

import asyncio
import json
from collections.abc import Mapping

import httpx
import pytest

from extender.errors import NetworkSourceError
from extender.network.maddash.client import MaddashServer as Address
from extender.network.maddash.source import MaddashSource
from extender.network.refresh import Polled
from scoring.model.policy import ScorePolicy
from scoring.network.matrix import Metric
from tests.extender.network.maddash import scripted
from tests.extender.network.maddash.scripted import Answer, Script, good
from tests.extender.network.world import QUICK, START_S, MovedClock, World, read, running

HARD_S = ScorePolicy().hard_ttl_s.of(Metric.DELAY.value) or 0.0
HALF = good()["grids/Loss"].content[:-30]
FAULTS: Mapping[str, tuple[Answer, str]] = {  # fault: (answer to everything, what the status says)
    "status 500": (httpx.Response(500, text="Index 255 out of bounds"), "status 500: Index 255 out of bounds"),
    "cut off": (httpx.Response(200, content=HALF), "is not "),
    "reset": (httpx.ReadError("connection reset"), "connection reset"),
    "garbage": (httpx.Response(200, content=b"\x00\xff\x13\x37"), "is not a list of grids"),
    "a page": (httpx.Response(200, html="<html>log in</html>"), "is not a list of grids"),
    "auth refused": (httpx.Response(401, text="who are you?"), "status 401: who are you?"),
    "forbidden": (httpx.Response(403), "status 403: no text"),
    "control characters": (httpx.Response(500, content=b"a\x00\x1b[2Jb"), "status 500: a  [2Jb"),
}


@pytest.mark.parametrize("listed", [False, True], ids=["one grid", "the list of grids"])
@pytest.mark.parametrize(("answer", "said"), FAULTS.values(), ids=FAULTS)
async def test_one_bad_document(answer: Answer, said: str, listed: bool) -> None:
    place = "grids" if listed else "grids/Loss"
    new = {(Metric.DELAY, 2.0), (Metric.THROUGHPUT, 2e9)}
    script = Script(good())
    source = script.source()
    await read(source, START_S)
    healthy = good(number=2.0, checked_at_s=START_S + 60.0)
    script.answers = {**healthy, place: answer}
    batch = await read(source, START_S + 60.0)
    assert listed or {m.measured_at_s for m in batch.measurements if m.metric is Metric.LOSS} == {START_S}
    assert {(m.metric, m.value) for m in batch.measurements} == new | {(Metric.LOSS, 0.02 if listed else 0.01)}
    words = said if listed else said.replace("list of grids", "grid document")
    begun = "" if listed else "grid 'Loss' failed, its last good values stay: "
    assert [p for p in batch.problems if p.startswith(begun) and words in p]
    script.answers = {**healthy}
    healed = await read(source, START_S + 120.0)
    assert {(m.metric, m.value) for m in healed.measurements} == new | {(Metric.LOSS, 0.02)}
    assert healed.problems == ()


SKEWS = {  # case: (how far the server's clock is ahead, whether it says so in Date, ages of a value checked 300 s ago)
    "equal": (0.0, True, 300.0),
    "a minute ahead": (59.0, True, 241.0),
    "an hour ahead": (3600.0, True, 300.0),
    "an hour ahead, and it does not say so": (3600.0, False, 0.0),
    "an hour behind": (-3600.0, True, 3900.0),
    "a day behind, and it does not say so": (-86400.0, False, 86700.0),
}


@pytest.mark.parametrize(("ahead_s", "dated", "age_s"), SKEWS.values(), ids=SKEWS)
async def test_clock_skew(ahead_s: float, dated: bool, age_s: float) -> None:
    """A clock ahead of ours makes no value younger than it is if the server dates its answers; never below 0."""
    theirs_s = START_S + ahead_s
    script = Script(good(checked_at_s=theirs_s - 300.0, date_s=theirs_s if dated else None))
    batch = await read(script.source(), START_S)
    assert [START_S - m.measured_at_s for m in batch.measurements] == pytest.approx([age_s] * 6, abs=3.0)
    assert any("clock" in problem or "future" in problem for problem in batch.problems) == (
        abs(ahead_s) > 60.0 and (dated or ahead_s > 0.0)
    )


async def test_a_dead_host_that_stays_green_gets_old() -> None:
    script, wall = Script(good()), MovedClock()
    site = World(Polled(script.source(), 0.03), clock=wall, options=QUICK)
    async with running(site):
        await site.until(lambda: True)
        wall.at_s += HARD_S + 1.0
        alive = json.loads(good()["grids/Delay"].content)
        alive["grid"][0][1][0]["prevCheckTime"] = int(wall.at_s)
        script.answers["grids/Delay"] = httpx.Response(200, json=alive)
        await site.until(lambda: site.counts() == (1, 0, 1))
        known = site.known("b", "a")
        assert known is not None
        assert known.age_s == HARD_S + 1.0


@pytest.mark.looptime
async def test_two_requests_at_a_time() -> None:
    """However many grids there are, two requests are in flight at most: the server shares its pool with the checks."""
    names = [f"g{i}" for i in range(12)]
    script = Script({"grids": scripted.grids(*names), **{f"grids/{name}": scripted.grid() for name in names}})
    script.pauses_s = dict.fromkeys((f"grids/{name}" for name in names), 1.0)
    fetch = asyncio.create_task(script.source().fetch(now_s=START_S))
    await asyncio.sleep(0.5)
    for second in range(6):
        assert len(script.seen) == 1 + 2 * (second + 1)
        await asyncio.sleep(1.0)
    await fetch


ADDRESSES = {  # configured: requested
    "http://h": "http://h/maddash/grids",
    "https://h/maddash-webui/": "https://h/maddash/grids",
    "https://h/maddash-webui/index.cgi": "https://h/maddash/grids",
    "https://h/maddash/grids": "https://h/maddash/grids",
    "https://h/site/maddash/dashboards/": "https://h/site/maddash/grids",
    "https://h:8443/a%20b": "https://h:8443/a%20b/grids",
    "http://maddash": "http://maddash/maddash/grids",
    "http://maddash-webui/x": "http://maddash-webui/x/grids",
    "http://h/": "http://h/maddash/grids",
    "http://h/maddash/": "http://h/maddash/grids",
    "http://h:8881/maddash": "http://h:8881/maddash/grids",
    "http://h/perfsonar/maddash": "http://h/perfsonar/maddash/grids",
}


@pytest.mark.parametrize("configured", ADDRESSES)
async def test_addresses(configured: str) -> None:
    """The path `/maddash` may be left out; a web page leads to the REST API beside it; another path is kept."""
    script = Script({})
    with pytest.raises(NetworkSourceError, match="status 404"):
        await MaddashSource(Address(configured)).fetch(now_s=START_S)
    assert [ADDRESSES[configured]] == [str(request.url) for request in script.seen]


async def test_passwords_stay_out_of_texts() -> None:
    script = Script({})
    script.unknown = httpx.Response(401, text="who are you?")
    with pytest.raises(NetworkSourceError) as caught:
        await MaddashSource(Address("http://me:secret@h/maddash")).fetch(now_s=START_S)
    assert [one.headers["authorization"] for one in script.seen] == ["Basic bWU6c2VjcmV0"]
    assert "secret" not in str(caught.value)
    assert "http://h/maddash/grids: status 401: who are you?" in str(caught.value)
