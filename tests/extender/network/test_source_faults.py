"""Every kind of source × what its server may reply: the last data stay, fade, and come back."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from urllib.parse import parse_qs

import httpx
import numpy as np
import pytest

from extender.network.maddash import MaddashSource
from extender.network.opensearch import OpenSearchSource
from extender.network.prometheus import PrometheusSource
from extender.network.refresh import Polled
from extender.schemas import Source
from extender.settings import network as settings
from scoring.ids import NodeName
from scoring.model.policy import ScorePolicy
from scoring.network.matrix import METRICS, Known, Metric
from scoring.score.pairs import pair_scores
from tests.extender.network.archives.test_opensearch import bucket, page
from tests.extender.network.archives.test_prometheus import ends, vector
from tests.extender.network.maddash.scripted import good
from tests.extender.network.replies import no_server, replies
from tests.extender.network.world import QUICK, START_S, MovedClock, World, running

__all__ = ["no_server"]
A, B = NodeName("a"), NodeName("b")
KINDS = ("maddash", "opensearch", "prometheus")
UNITS = {
    Metric.LOSS: settings.Unit.PERCENT,
    Metric.DELAY: settings.Unit.MILLISECONDS,
    Metric.THROUGHPUT: settings.Unit.GIGABITS,
}


class Bench(World):
    """A source that reads as fast as it can, and what was published. One link, a → b: 1 %, 1 ms, 1 Gbit/s."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.wall = MovedClock()
        self.at_s = START_S  # The server's clock, and the time of every measurement
        self.fault: httpx.Response | httpx.HTTPError | None = None
        replies.route().mock(side_effect=self.answer)
        super().__init__(Polled(self._source(), 0.05), clock=self.wall, options=QUICK)

    def _source(self) -> MaddashSource | OpenSearchSource | PrometheusSource:
        if self.kind == "maddash":
            return MaddashSource(settings.MaddashSettings("https://h"))
        if self.kind == "opensearch":
            return OpenSearchSource(settings.OpenSearchSettings("https://h"))
        queries = {metric: settings.PrometheusQuery(metric, unit) for metric, unit in UNITS.items()}
        return PrometheusSource(settings.PrometheusSettings("https://h", queries=queries))

    def answer(self, request: httpx.Request) -> httpx.Response:
        if isinstance(self.fault, Exception):
            raise self.fault
        return self.fault or self._good(request)

    def _good(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if self.kind == "maddash":
            return good(checked_at_s=self.at_s)[path.removeprefix("/maddash/")]
        if self.kind == "prometheus":
            query = parse_qs(request.content.decode())["query"][0]
            return httpx.Response(200, json=vector((ends(), "1"), at_s=self.at_s) if query in UNITS else vector())
        figures = {"lost": 10, "sent": 1000, "delay": 1.0, "narrowest": 1e-3, "widest": 1e-3}
        one = bucket("a", "b", at_s=self.at_s, **({"throughput": 1e9} if "_throughput" in path else figures))
        return httpx.Response(200, json=page() if "_rtt" in path else page(one))

    def aged(self, age_s: float) -> bool:
        """Whether the newest matrix is of now, and what it holds of all metrics is so old."""
        known = [self.known(metric=metric) for metric in METRICS]
        now = self.last.evaluated_at_s == self.wall.at_s
        return now and all(one is not None and one.age_s == age_s for one in known)

    def known_of_pair(self) -> tuple[bool, bool, bool]:
        """Whether loss, delay and throughput of the pair count for its score."""
        scores = pair_scores(self.last.block([A, B], [A, B]), None, ScorePolicy())
        assert np.isfinite(scores.points).all()
        loss, delay, rate = (values[0, 1] for values in (scores.loss_ratio, scores.delay_ms, scores.throughput_bps))
        return not np.isnan(loss), not np.isnan(delay), not np.isnan(rate)


@asynccontextmanager
async def reading(kind: str) -> AsyncIterator[Bench]:
    bench = Bench(kind)
    async with running(bench):
        await bench.until(lambda: bench.aged(0.0))
        yield bench


def said(status: Source) -> str:
    """Error and problems: a MaDDash whose grids fail has answered before, so it has only problems."""
    return "; ".join((status.error or "", *status.problems))


FAULTS: dict[str, tuple[httpx.Response | httpx.HTTPError, str]] = {  # case: (reply, what the status says of it)
    "500": (
        httpx.Response(500, text="java.lang.NullPointerException"),
        r"status 500: java\.lang\.NullPointerException",
    ),
    "garbage": (httpx.Response(200, content=b"\x00\xff{]"), r"is not|is no "),
    "empty": (httpx.Response(200), r"is not|is no "),
    "refused": (httpx.Response(401, text="Unauthorized"), r"status 401.*Unauthorized"),
    "gone": (httpx.ConnectError("connection refused"), "connection refused"),
}


@pytest.mark.parametrize(("kind", "case"), [*product(KINDS, FAULTS)])
async def test_a_fault_fades_and_heals(kind: str, case: str) -> None:
    fault, want = FAULTS[case]
    async with reading(kind) as bench:
        assert bench.known() == Known(1.0, 0.0, kind)
        # 1. it goes wrong, and is said to
        bench.fault = fault
        await bench.until(lambda: re.search(want, said(bench.source)) is not None)
        await bench.until(lambda: bench.metric("fetches_total", source=kind, outcome="error") >= 1.0)
        # 2. the last values stay, and age until they are unknown: only then is the pair like one never measured
        for age_s, counts in ((5000.0, (True, True, True)), (12_000.0, (False, False, True))):
            bench.wall.at_s = START_S + age_s
            await bench.until(lambda age_s=age_s: bench.aged(age_s))  # type: ignore[misc]
            assert bench.known() == Known(1.0, age_s, kind)
            assert bench.known_of_pair() == counts
        counted, known = bench.status().pairs, bench.last.known_pairs
        assert counted[Metric.DELAY].expired == known(Metric.DELAY)
        assert counted[Metric.THROUGHPUT].fresh == known(Metric.THROUGHPUT)
        assert bench.metric("pairs", metric="delay", state="expired") == known(Metric.DELAY)
        # 3. nothing piles up, and nothing of ours broke
        assert len(asyncio.all_tasks()) < 20
        assert bench.status().crash is None
        # 4. it heals, with values of now
        bench.at_s, bench.fault = bench.wall.at_s, None
        await bench.until(lambda: bench.source.error is None and bench.aged(0.0))
        assert bench.known_of_pair() == (True, True, True)
        await bench.until(lambda: re.search(want, said(bench.source)) is None)
        assert bench.metric("pairs", metric="delay", state="expired") == 0.0
        assert bench.metric("fetches_total", source=kind, outcome="success") >= 1.0


@pytest.mark.parametrize("kind", KINDS)
async def test_a_clock_ahead_keeps_nothing_young(kind: str) -> None:
    async with reading(kind) as bench:
        bench.wall.at_s += 60.0
        await bench.until(lambda: bench.aged(60.0))
        bench.at_s += 3660.0
        await bench.until(lambda: bench.aged(0.0))
        bench.fault = httpx.Response(500)
        await bench.until(lambda: "status 500" in said(bench.source))
        bench.wall.at_s += 100.0
        await bench.until(lambda: bench.aged(100.0))
