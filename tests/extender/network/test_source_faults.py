"""Every kind of source × everything that can go wrong with its server: the last data stay, fade, and come back."""

import asyncio
import gc
import logging
import os
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from extender.network.maddash.client import MaddashServer as MaddashAddress
from extender.network.maddash.source import MaddashSource
from extender.network.opensearch.source import OpenSearchSource
from extender.network.prometheus.source import PrometheusSource
from extender.network.refresh import Polled
from extender.network.sources.http import HttpClient, HttpServer
from extender.ports import Batch, NetworkSource
from extender.schemas.network import Source
from extender.settings import sources as settings
from scoring.ids import NodeName
from scoring.model.policy import ScorePolicy
from scoring.network.matrix import METRICS, Known, Metric
from scoring.score.pairs import pair_scores
from tests.extender.network.world import QUICK, MovedClock, World
from tests.extender.network.world import running as refreshing
from tests.fakes.archive_server import Archive, Certificates, Fault, Served, make_certificates, served
from tests.fakes.maddash_server import MaddashServer
from tests.fakes.mesh import full_mesh

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make certificates with")

A, B = NodeName("a"), NodeName("b")
KINDS = ("maddash", "opensearch", "prometheus")
QUERIES = {
    "loss": {"query": "loss", "unit": "ratio"},
    "delay": {"query": "delay", "unit": "ms"},
    "throughput": {"query": "throughput", "unit": "bit/s"},
}


@dataclass(slots=True)
class Watched:
    """The source, and when an attempt of it is over: a test that ended in the middle of one would leave a socket."""

    source: NetworkSource
    over: asyncio.Event = field(default_factory=asyncio.Event)
    ending: bool = False  # no further attempt begins

    @property
    def name(self) -> str:
        return self.source.name

    async def fetch(self, *, now_s: float) -> Batch | None:
        if self.ending:
            await asyncio.Event().wait()
        self.over.clear()
        try:
            return await self.source.fetch(now_s=now_s)
        finally:
            self.over.set()


class Bench(World):
    """A server, the source that reads it as fast as it can, and what was published."""

    def __init__(self, archive: Archive, server: Served, watched: Watched, wall: MovedClock) -> None:
        super().__init__(Polled(watched, 0.05), clock=wall, options=QUICK)
        self.archive = archive
        self.server = server
        self.watched = watched
        self.wall = wall

    async def attempts(self, more: int) -> None:
        """Let the refresh fail `more` times, so that an attempt that began before now is over."""
        goal = self.source.failures + more
        await self.until(lambda: self.source.failures >= goal)

    def aged(self, age_s: float, *metrics: Metric) -> bool:
        """Whether the newest matrix is of now, and what it holds of these metrics (or of all) is so old."""
        known = [self.known(metric=metric) for metric in metrics or METRICS]
        now = self.last.evaluated_at_s == self.wall.at_s
        return now and all(one is not None and one.age_s == age_s for one in known)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def maddash() -> Iterator[MaddashServer]:
    mesh = full_mesh("a", "b")
    mesh.change("a", "b", loss_ratio=0.01, delay_ms=5.0, throughput_bps=9e9)
    with MaddashServer(mesh, checked_at_s=lambda: 0.0) as server:
        yield server


Read = MaddashSource | OpenSearchSource | PrometheusSource


def source_of(kind: str, url: str, ca_file: Path) -> Read:
    if kind == "maddash":
        return MaddashSource(MaddashAddress(url, ca_file=ca_file, timeout_s=0.5, body_limit_bytes=200_000))
    client = HttpClient(HttpServer(url, ca_file=ca_file, timeout_s=0.5, body_limit_bytes=200_000))
    if kind == "opensearch":
        return OpenSearchSource(client, settings.OpenSearchSource(kind="opensearch", url=url))
    return PrometheusSource(client, settings.PrometheusSource(kind="prometheus", url=url, queries=QUERIES))


@asynccontextmanager
async def running(kind: str, certificates: Certificates, maddash: MaddashServer) -> AsyncIterator[Bench]:
    clock = MovedClock()
    archive = Archive(kind, clock.at_s, maddash=maddash)
    maddash.checked_at_s = lambda: archive.at_s
    async with served(archive, certificates) as server:
        read = source_of(kind, server.url, certificates.ca_file)
        watched = Watched(read)
        bench = Bench(archive, server, watched, clock)
        async with refreshing(bench):
            try:
                await bench.until(lambda: bench.aged(0.0))
                yield bench
            finally:
                watched.ending = True
                await watched.over.wait()
        await read.aclose()


FAULTS = {  # case: (fault of the server, what the status says of it)
    "slow": (Fault.SLOW, r"no complete answer within 0\.5 s"),
    "500": (Fault.SERVER_ERROR, r"status 500: java\.lang\.NullPointerException"),
    "truncated": (Fault.TRUNCATED, r"peer closed connection|incomplete"),
    "garbage": (Fault.GARBAGE, r"is not|is no "),
    "empty": (Fault.EMPTY, r"is not|is no "),
    "endless": (Fault.HUGE, r"more than 200000 bytes"),
    "refused": (Fault.REFUSED, r"status 401.*Unauthorized"),
    "moved": (Fault.MOVED, r"status 302.*moved to https://elsewhere\.example\.org/login"),
    "certificate": (None, r"certificate verify failed|CERTIFICATE_VERIFY_FAILED"),
    "gone": (None, r"[Cc]onnect"),
}


CONNECTIONS = {"truncated", "endless", "refused", "moved", "certificate", "gone"}  # of the one HttpClient of all kinds


def is_slow(kind: str, case: str) -> bool:
    return case == "slow" or (case in CONNECTIONS and kind == "prometheus")


@pytest.mark.parametrize(
    ("kind", "case"),
    [pytest.param(kind, case, marks=[pytest.mark.slow] * is_slow(kind, case)) for kind, case in product(KINDS, FAULTS)],
)
async def test_a_fault_fades_and_heals(
    kind: str, case: str, certificates: Certificates, maddash: MaddashServer
) -> None:
    fault, want = FAULTS[case]
    async with running(kind, certificates, maddash) as bench:
        assert bench.known() == Known(5.0, 0.0, kind)
        # 1. it goes wrong, and is said to
        bench.archive.fault = fault
        if case == "gone":
            await bench.server.gone()
        if case == "certificate":
            bench.server.certificate(good=False)
        await bench.until(lambda: re.search(want, _told(bench.source)) is not None)
        await bench.until(lambda: bench.metric("fetches_total", source=kind, outcome="error") >= 1.0)
        # 2. the last values stay, and age until they are unknown: only then is the pair like one never measured
        bench.wall.at_s += 5000.0
        await bench.until(lambda: bench.aged(5000.0))
        assert bench.known() == Known(5.0, 5000.0, kind)
        assert _score(bench) == (True, True, True)
        bench.wall.at_s += 7000.0
        await bench.until(lambda: bench.aged(12_000.0))
        assert _score(bench) == (False, False, True)
        counted, known = bench.status().pairs, bench.last.known_pairs
        assert counted[Metric.DELAY].expired == known(Metric.DELAY)
        assert counted[Metric.THROUGHPUT].fresh == known(Metric.THROUGHPUT)
        assert bench.metric("pairs", metric="delay", state="expired") == known(Metric.DELAY)
        # 3. nothing piles up, and nothing of ours broke
        assert len(asyncio.all_tasks()) < 20
        assert bench.status().ready
        # 4. it heals, with values of now
        await bench.attempts(2)
        bench.archive.at_s = bench.wall.at_s
        bench.archive.fault = None
        bench.server.certificate(good=True)
        if case == "gone":
            await bench.server.back()
        await bench.until(lambda: bench.source.error is None and bench.aged(0.0))
        assert _score(bench) == (True, True, True)
        await bench.until(lambda: re.search(want, _told(bench.source)) is None)
        assert bench.metric("pairs", metric="delay", state="expired") == 0.0
        assert bench.metric("fetches_total", source=kind, outcome="success") >= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_faults_for_a_long_time_leave_nothing_behind(
    kind: str, certificates: Certificates, maddash: MaddashServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="extender.network.refresh")  # pytest would keep every record
    faults = (Fault.SERVER_ERROR, Fault.GARBAGE, None, Fault.HUGE, Fault.TRUNCATED, Fault.EMPTY, Fault.REFUSED, None)
    async with running(kind, certificates, maddash) as bench:

        async def rounds(count: int) -> None:
            for number in range(count):
                bench.archive.fault = faults[number % len(faults)]
                bench.archive.at_s = bench.wall.at_s = bench.wall.at_s + 1.0
                bench.watched.over.clear()
                await bench.watched.over.wait()
                del bench.published[:-1]
                bench.archive.requests.clear()
                bench.archive.headers.clear()

        await rounds(3 * len(faults))
        tasks, files = len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))
        before = _objects()
        await rounds(10 * len(faults))
        assert _objects() - before < 1000
        assert len(asyncio.all_tasks()) <= tasks + 4
        assert len(os.listdir("/proc/self/fd")) <= files + 4


@pytest.mark.parametrize("kind", KINDS)
async def test_a_clock_ahead_keeps_nothing_young(kind: str, certificates: Certificates, maddash: MaddashServer) -> None:
    async with running(kind, certificates, maddash) as bench:
        bench.wall.at_s += 60.0
        await bench.until(lambda: bench.aged(60.0))
        bench.archive.at_s += 3660.0
        await bench.until(lambda: bench.aged(0.0))
        bench.archive.fault = Fault.SERVER_ERROR
        await bench.until(lambda: "status 500" in _told(bench.source))
        bench.wall.at_s += 100.0
        await bench.until(lambda: bench.aged(100.0))


def _objects() -> int:
    gc.collect()
    return len(gc.get_objects())


def _told(status: Source) -> str:
    """Error and problems: a MaDDash whose grids fail has answered before, so it has only problems."""
    return "; ".join((status.error or "", *status.problems))


def _score(bench: Bench) -> tuple[bool, bool, bool]:
    block = bench.last.block([A, B], [A, B])
    scores = pair_scores(block, None, ScorePolicy())
    assert np.isfinite(scores.points).all()
    loss, delay, rate = (values[0, 1] for values in (scores.loss_ratio, scores.delay_ms, scores.throughput_bps))
    return not np.isnan(loss), not np.isnan(delay), not np.isnan(rate)
