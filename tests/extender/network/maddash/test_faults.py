"""What a MaDDash server can do to the scheduler, over real sockets: faults of a host, of one grid, of its clock.

Faults of every kind of server are in `../test_source_faults.py`, certificates also in `tests/cli/test_network.py`.
"""

import asyncio
import json
from collections.abc import Mapping

import pytest

from extender.network.maddash.client import MaddashServer as Address
from extender.network.maddash.source import MaddashSource
from extender.network.refresh import Polled
from scoring.model.policy import ScorePolicy
from scoring.network.matrix import Metric
from tests.extender.network.world import QUICK, START_S, MovedClock, World, running
from tests.fakes.raw_http import Answer, RawServer, drip, endless, hang, ok, reset

SOFT_S, HARD_S = (ttl.of(Metric.DELAY.value) or 0.0 for ttl in (ScorePolicy().soft_ttl_s, ScorePolicy().hard_ttl_s))
GRIDS = {
    "Loss": ("Packet Loss", "Average packet loss is {}%"),
    "Delay": ("One-way Delay", "Average minimum delay is {}ms"),
    "Throughput": ("Throughput", "Average throughput is {}Gbps"),
}


def grid(name: str, *, number: float, checked_at_s: float) -> bytes:
    """A grid between a and b with one number in both directions."""
    check, text = GRIDS[name]

    def cell(row: str, column: str) -> list[dict[str, object]]:
        uri = f"/maddash/grids/{name}/{row}/{column}/{check.replace(' ', '+')}"
        return [{"message": text.format(number), "status": 0, "prevCheckTime": int(checked_at_s), "uri": uri}]

    rows = [{"name": end, "uri": f"/maddash/grids/{name}/{end}", "props": {}} for end in "ab"]
    return json.dumps({"rows": rows, "grid": [[None, cell("a", "b")], [cell("b", "a"), None]]}).encode()


def good(*, number: float, checked_at_s: float, date_s: float | None = None) -> dict[str, Answer]:
    """The answers of a healthy server."""
    listed = json.dumps({"grids": [{"name": name, "uri": "/ignored"} for name in GRIDS]}).encode()
    answers: dict[str, Answer] = {"/maddash/grids": ok(listed)}
    for name in GRIDS:
        answers[f"/maddash/grids/{name}"] = ok(grid(name, number=number, checked_at_s=checked_at_s), date_s=date_s)
    return answers


class Site(World):
    """A world over one server."""

    def __init__(self, server: RawServer) -> None:
        self.maddash = MaddashSource(Address(server.url, timeout_s=0.3, body_limit_bytes=100_000))
        self.wall = MovedClock()
        super().__init__(Polled(self.maddash, 0.03), clock=self.wall, options=QUICK)


HEALTHY = good(number=1.0, checked_at_s=START_S)
FAULTS: Mapping[str, tuple[Answer, str]] = {  # fault: (answer to everything, what the status says)
    "slow": (hang, "no complete answer within 0.3 s"),
    "one byte at a time": (drip, "no complete answer within 0.3 s"),
    "status 500": (ok(b"Index 255 out of bounds for length 6", status=500), "status 500: Index 255 out of bounds"),
    "truncated": (ok(grid("Loss", number=1.0, checked_at_s=START_S))[:-30], "peer closed connection"),
    "garbage": (b"\x00\xff\x13\x37 not HTTP\r\n\r\n", "maddash/grids: "),
    "garbage in HTTP": (ok(b"\x00\xff\x13\x37"), "is not a list of grids"),
    "empty": (ok(b""), "is not a list of grids"),
    "a page": (ok(b"<html>log in</html>", content_type="text/html"), "is not a list of grids"),
    "without end": (endless, "the answer has more than 100000 bytes"),
    "reset": (reset, "maddash/grids: "),
    "auth refused": (ok(b"who are you?", status=401, content_type="text/plain"), "status 401: who are you?"),
    "forbidden": (ok(b"", status=403), "status 403: no text"),
}


OF_THE_HOST = ("one byte at a time", "garbage", "a page", "reset", "forbidden")


@pytest.mark.parametrize("fault", OF_THE_HOST)
async def test_a_host_that_fails(fault: str) -> None:
    """Values stay and age, the status and the metrics say why, nothing piles up, and the first good answer heals it."""
    answer, said = FAULTS[fault]
    with RawServer(HEALTHY) as server:
        async with running(Site(server)) as site:
            # 1. good data
            await site.until(lambda: site.delay() == 1.0)
            assert site.metric("fetches_total", source="maddash", outcome="success") >= 1.0
            assert site.counts() == (2, 0, 0)
            tasks = len(asyncio.all_tasks())
            # 2. the fault: last good data stay
            server.answers = dict.fromkeys(HEALTHY, answer)
            await site.until(lambda: site.source.failures >= 2)
            assert said in str(site.source.error)
            assert site.metric("fetches_total", source="maddash", outcome="error") >= 1.0
            assert site.delay() == 1.0
            # 3. they fade, then count as unknown; the service stays ready
            site.wall.at_s = START_S + SOFT_S + 1.0
            assert site.counts() == (0, 2, 0)
            site.wall.at_s = START_S + HARD_S + 1.0
            assert site.counts() == (0, 0, 2)
            assert site.status().ready
            assert len(asyncio.all_tasks()) <= tasks + 4
            # 4. the server is back
            server.answers = good(number=2.0, checked_at_s=site.wall.at_s)
            await site.until(lambda: site.delay() == 2.0)
            assert (site.source.failures, site.source.error) == (0, None)
            assert site.counts() == (2, 0, 0)
        await site.maddash.aclose()


@pytest.mark.parametrize("listed", [False, True], ids=["one grid", "the list of grids"])
@pytest.mark.parametrize(("answer", "said"), FAULTS.values(), ids=FAULTS)
async def test_one_bad_document(answer: Answer, said: str, listed: bool) -> None:
    """The same fault in one grid costs that grid alone, in the list of grids nothing; it is named, and heals."""
    place = "/maddash/grids" if listed else "/maddash/grids/Loss"
    new = {(Metric.DELAY, 2.0), (Metric.THROUGHPUT, 2e9)}
    with RawServer(HEALTHY) as server:
        source = Site(server).maddash
        assert await source.fetch(now_s=START_S) is not None
        healthy = good(number=2.0, checked_at_s=START_S + 60.0)
        server.answers = healthy | {place: answer}
        batch = await source.fetch(now_s=START_S + 60.0)
        server.answers = healthy
        healed = await source.fetch(now_s=START_S + 120.0)
        await source.aclose()
    assert batch is not None
    assert {(m.metric, m.value) for m in batch.measurements} == new | {(Metric.LOSS, 0.02 if listed else 0.01)}
    words = said.replace("list of grids", "grid document") if not listed else said
    begun = "" if listed else "grid 'Loss' failed, its last good values stay: "
    assert [p for p in batch.problems if p.startswith(begun) and words.removeprefix("maddash/grids: ") in p]
    assert healed is not None
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
    with RawServer(good(number=1.0, checked_at_s=theirs_s - 300.0, date_s=theirs_s if dated else None)) as server:
        source = MaddashSource(Address(server.url))
        batch = await source.fetch(now_s=START_S)
        await source.aclose()
    assert batch is not None
    assert [START_S - m.measured_at_s for m in batch.measurements] == pytest.approx([age_s] * 6, abs=3.0)
    assert any("clock" in problem or "future" in problem for problem in batch.problems) == (
        abs(ahead_s) > 60.0 and (dated or ahead_s > 0.0)
    )


async def test_a_dead_host_that_stays_green_gets_old() -> None:
    """Cells whose check time stands still fade and expire, though they keep colour and value; others stay fresh."""
    with RawServer(HEALTHY) as server:
        async with running(Site(server)) as site:
            await site.until(lambda: True)
            site.wall.at_s += HARD_S + 1.0
            alive = json.loads(grid("Delay", number=1.0, checked_at_s=START_S))
            alive["grid"][0][1][0]["prevCheckTime"] = int(site.wall.at_s)
            server.answers["/maddash/grids/Delay"] = ok(json.dumps(alive).encode())
            await site.until(lambda: site.counts() == (1, 0, 1))
            known = site.known("b", "a")
            assert known is not None
            assert known.age_s == HARD_S + 1.0
        await site.maddash.aclose()
