"""What a MaDDash server can do to the scheduler: each fault over real sockets, from good data to none and back.

The refresh polls every few hundredths of a second; the wall clock, by which values age, moves when a test says so.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import pytest

from extender.bootstrap.parts.metrics import Reporting
from extender.network.maddash.client import MaddashServer as Address
from extender.network.maddash.source import MaddashSource
from extender.network.refresh import NetworkRefresh, Polled, RefreshOptions, SourceStatus
from extender.runtime.telemetry import Telemetry
from scoring.network.matrix import Metric, NetworkMatrix
from tests.builders import node
from tests.fakes.raw_http import CERTIFICATE, Answer, RawServer, drip, endless, hang, ok, reset
from tests.liveness import LIVENESS_S

START_S = 1_800_000_000.0
OPTIONS = RefreshOptions(reevaluate_s=0.05, retry_min_s=0.02, retry_max_s=0.05)
GRIDS = {
    "Loss": ("Packet Loss", "Average packet loss is {}%"),
    "Delay": ("One-way Delay", "Average minimum delay is {}ms"),
    "Throughput": ("Throughput", "Average throughput is {}Gbps"),
}


class Wall:
    """The Clock port: seconds really pass, and the wall clock jumps when asked."""

    ahead_s = 0.0

    def now_s(self) -> float:
        """Wall clock."""
        return START_S + self.ahead_s

    def monotonic_s(self) -> float:
        """The loop's time."""
        return asyncio.get_running_loop().time()


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


class Site:
    """A refresh over one server, what it published, and what metrics say of it."""

    def __init__(self, server: RawServer, address: Address | None = None) -> None:
        self.server = server
        self.wall = Wall()
        self.published: list[NetworkMatrix] = []
        self.telemetry = Telemetry()
        self.source = MaddashSource(address or Address(server.url, timeout_s=0.3, body_limit_bytes=100_000))
        self.refresh = NetworkRefresh(
            [Polled(self.source, 0.03)],
            OPTIONS,
            clock=self.wall,
            nodes=lambda: (node("a"), node("b")),
            publish=self.published.append,
            jitter=lambda: 0.5,
        )
        self.reporting = Reporting(self.telemetry, sync=dict, network=self.refresh.status)

    @property
    def status(self) -> SourceStatus:
        """How the source does."""
        [status] = self.refresh.status().sources
        return status

    def delay_ms(self) -> float:
        """The delay that the planner has from a to b."""
        [[value]] = self.published[-1].block(["a"], ["b"]).delay_ms.tolist()  # type: ignore[list-item]
        return float(value)

    def counts(self) -> tuple[int, int, int]:
        """Pairs with a delay that is fresh, fading, expired."""
        pairs = self.refresh.status().pairs[Metric.DELAY]
        return pairs.fresh, pairs.fading, pairs.expired

    def fetches(self, outcome: str) -> float:
        """What the metric of fetches says."""
        self.reporting.look()
        labels = {"source": "maddash", "outcome": outcome}
        return self.telemetry.registry.get_sample_value("netgang_network_fetches_total", labels) or 0.0

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait for something that polling brings about."""
        async with asyncio.timeout(LIVENESS_S):
            while not true():  # noqa: ASYNC110 - what is waited for happens in other tasks and threads
                await asyncio.sleep(0.01)


@asynccontextmanager
async def running(site: Site) -> AsyncIterator[Site]:
    """Run the refresh during the block."""
    task = asyncio.create_task(site.refresh.run())
    try:
        yield site
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await site.source.aclose()


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


@pytest.mark.parametrize(("answer", "said"), FAULTS.values(), ids=FAULTS)
async def test_fault_matrix(answer: Answer, said: str) -> None:
    """Values stay and age, the status and the metrics say why, nothing piles up, and the first good answer heals it."""
    with RawServer(HEALTHY) as server:
        async with running(Site(server)) as site:
            # 1. good data
            await site.until(lambda: bool(site.published) and site.delay_ms() == 1.0)
            assert site.fetches("success") == 1.0
            assert site.counts() == (2, 0, 0)
            tasks = len(asyncio.all_tasks())
            # 2. the fault: last good data stay
            server.answers = dict.fromkeys(HEALTHY, answer)
            await site.until(lambda: site.status.failures >= 2)
            assert said in str(site.status.error)
            assert site.fetches("error") >= 1.0
            assert site.delay_ms() == 1.0
            # 3. they fade, then count as unknown; the service stays ready
            delay = Metric.DELAY.value
            site.wall.ahead_s = (OPTIONS.soft_ttl_s.of(delay) or 0.0) + 1.0
            assert site.counts() == (0, 2, 0)
            site.wall.ahead_s = (OPTIONS.hard_ttl_s.of(delay) or 0.0) + 1.0
            assert site.counts() == (0, 0, 2)
            assert site.refresh.status().ready
            assert len(asyncio.all_tasks()) <= tasks + 4
            # 4. the server is back
            server.answers = good(number=2.0, checked_at_s=site.wall.now_s())
            await site.until(lambda: site.delay_ms() == 2.0)
            assert (site.status.failures, site.status.error) == (0, None)
            assert site.counts() == (2, 0, 0)


@pytest.mark.parametrize(("answer", "said"), FAULTS.values(), ids=FAULTS)
async def test_one_bad_grid(answer: Answer, said: str) -> None:
    """The same fault in one grid costs that grid alone, and its problem is named."""
    with RawServer(HEALTHY) as server:
        site = Site(server)
        try:
            assert await site.source.fetch(now_s=START_S) is not None
            server.answers = good(number=2.0, checked_at_s=START_S + 60.0) | {"/maddash/grids/Loss": answer}
            batch = await site.source.fetch(now_s=START_S + 60.0)
        finally:
            await site.source.aclose()
    assert batch is not None
    assert {(m.metric, m.value) for m in batch.measurements} == {
        (Metric.LOSS, 0.01),
        (Metric.DELAY, 2.0),
        (Metric.THROUGHPUT, 2e9),
    }
    assert [p for p in batch.problems if p.startswith("grid 'Loss' failed, its last good values stay: ")]


async def test_host_gone_and_back() -> None:
    """A server that is switched off and on again is found again."""
    with RawServer(HEALTHY) as server:
        port = server.port
        site = Site(server)
        task = asyncio.create_task(site.refresh.run())
        await site.until(lambda: bool(site.published))
    await site.until(lambda: site.status.failures >= 2)
    assert "connect" in str(site.status.error).lower()
    assert site.delay_ms() == 1.0
    with RawServer(good(number=3.0, checked_at_s=START_S), port=port):
        await site.until(lambda: site.delay_ms() == 3.0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await site.source.aclose()


CERTIFICATES = {  # case: (address options, works)
    "nobody we know signed it": ({}, False),
    "named in ca_file": ({"ca_file": CERTIFICATE}, True),
    "not to be checked": ({"insecure": True}, True),
}


@pytest.mark.parametrize(("options", "works"), CERTIFICATES.values(), ids=CERTIFICATES)
async def test_certificates(options: dict[str, object], works: bool) -> None:
    """A certificate that cannot be verified is a failure that says so, and the network stays unknown."""
    with RawServer(HEALTHY, tls=True) as server:
        async with running(Site(server, Address(server.url, timeout_s=2.0, **options))) as site:  # type: ignore[arg-type]
            await site.until(lambda: bool(site.published) or site.status.failures > 0)
            if works:
                assert site.delay_ms() == 1.0
            else:
                assert "certificate verify failed" in str(site.status.error)
                assert site.published == []
                assert site.refresh.status().ready


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
    """Cells that keep colour and value while their check time stands still fade and expire; the others stay fresh."""
    with RawServer(HEALTHY) as server:
        async with running(Site(server)) as site:
            await site.until(lambda: bool(site.published))
            site.wall.ahead_s = (OPTIONS.hard_ttl_s.of(Metric.DELAY.value) or 0.0) + 1.0
            alive = json.loads(grid("Delay", number=1.0, checked_at_s=START_S))
            alive["grid"][0][1][0]["prevCheckTime"] = int(site.wall.now_s())
            server.answers["/maddash/grids/Delay"] = ok(json.dumps(alive).encode())
            await site.until(lambda: site.counts() == (1, 0, 1))
            [[age_s]] = site.published[-1].block(["b"], ["a"]).delay_age_s.tolist()  # type: ignore[list-item]
            assert age_s == site.wall.ahead_s
