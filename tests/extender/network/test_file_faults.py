"""A mesh file × everything that can go wrong with it: the last data stay, fade, and come back by themselves.

The other kinds of sources are in `test_source_faults.py`; a file has no server, so it is slow, refused, gone or full of
nonsense in its own ways.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from extender.bootstrap.parts.metrics import Reporting
from extender.network.file.source import MeshFileSource
from extender.network.refresh import NetworkRefresh, Polled, RefreshOptions, SourceStatus
from extender.runtime.telemetry import Telemetry
from scoring.ids import NodeName
from scoring.network.matrix import Known, Metric, NetworkMatrix
from tests.builders import node
from tests.liveness import LIVENESS_S

A, B = NodeName("a"), NodeName("b")
GOOD = '[{{"source": "a", "target": "b", "delay_ms": {}, "loss_ratio": 0.01}}]'


class Wall:
    """The Clock port: seconds really pass, and the wall clock jumps when asked."""

    at_s = 1_800_000_000.0

    def now_s(self) -> float:
        """Wall clock."""
        return self.at_s

    def monotonic_s(self) -> float:
        """The loop's time."""
        return asyncio.get_running_loop().time()


class Site:
    """A refresh over one file, what it published, and what metrics say of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.wall = Wall()
        self.published: list[NetworkMatrix] = []
        self.telemetry = Telemetry()
        self.refresh = NetworkRefresh(
            [Polled(MeshFileSource(path), 0.02)],
            RefreshOptions(reevaluate_s=0.02, retry_min_s=0.02, retry_max_s=0.05),
            clock=self.wall,
            nodes=lambda: (node("a"), node("b")),
            publish=self.published.append,
            jitter=lambda: 0.5,
        )
        self.reporting = Reporting(self.telemetry, sync=dict, network=self.refresh.status)

    def write(self, text: str, *, written_at_s: float | None = None) -> None:
        """Replace the file at once, as `rename` does."""
        fresh = self.path.with_suffix(".new")
        fresh.write_text(text)
        at_s = self.wall.at_s if written_at_s is None else written_at_s
        os.utime(fresh, (at_s, at_s))
        fresh.replace(self.path)

    @property
    def status(self) -> SourceStatus:
        """How the source does."""
        [status] = self.refresh.status().sources
        return status

    def known(self) -> Known | None:
        """The delay of the newest matrix from a to b."""
        return self.published[-1].known(A, B, Metric.DELAY)

    def errors(self) -> float:
        """What the metric of fetches says."""
        self.reporting.look()
        labels = {"source": "file", "outcome": "error"}
        return self.telemetry.registry.get_sample_value("netgang_network_fetches_total", labels) or 0.0

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait for something that polling brings about."""
        async with asyncio.timeout(LIVENESS_S):
            while not true():  # noqa: ASYNC110 - what is waited for happens in other tasks and threads
                await asyncio.sleep(0.005)


@asynccontextmanager
async def running(tmp_path: Path) -> AsyncIterator[Site]:
    """A site with a good file of 1 ms that has been read."""
    site = Site(tmp_path / "mesh.json")
    site.write(GOOD.format(1))
    task = asyncio.create_task(site.refresh.run())
    try:
        await site.until(lambda: bool(site.published))
        yield site
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def gone(site: Site) -> None:
    """Deleted."""
    site.path.unlink()


def directory(site: Site) -> None:
    """Something else has its name: what cannot be opened for reading, the caller."""
    site.path.unlink()
    site.path.mkdir()


def loop(site: Site) -> None:
    """A link to itself, as a volume that is being exchanged may be for a moment."""
    site.path.unlink()
    site.path.symlink_to(site.path)


FAULTS: dict[str, tuple[Callable[[Site], None], str]] = {  # fault: (what is done to the file, what the status says)
    "truncated": (lambda site: site.write(GOOD.format(2)[:-9]), "neither JSON nor YAML"),
    "garbage": (lambda site: site.write("\x00\x01 not a mesh"), "neither JSON nor YAML"),
    "a page": (lambda site: site.write("<html>log in</html>"), "accepted is a list of entries, this is a str"),
    "empty": (lambda site: site.write(""), "empty"),
    "one wrong entry": (lambda site: site.write(GOOD.format(-2)), "entry 0: delay_ms"),
    "gone": (gone, "No such file"),
    "no file": (directory, "Is a directory"),
    "a link to itself": (loop, "Too many levels of symbolic links"),
}


@pytest.mark.parametrize(("spoil", "said"), FAULTS.values(), ids=FAULTS)
async def test_a_fault_fades_and_heals(spoil: Callable[[Site], None], said: str, tmp_path: Path) -> None:
    """The values stay and age to expired, status and metrics say why, nothing piles up, and a good file heals it."""
    async with running(tmp_path) as site:
        assert site.known() == Known(1.0, 0.0, "file")
        tasks = len(asyncio.all_tasks())
        spoil(site)
        await site.until(lambda: site.status.failures >= 2)
        assert said in str(site.status.error)
        assert site.errors() >= 1.0
        for ahead_s, counts in ((6000.0, (0, 1, 0)), (11_000.0, (0, 0, 1))):
            site.wall.at_s = Wall.at_s + ahead_s
            await site.until(lambda: site.published[-1].evaluated_at_s == site.wall.at_s)
            assert site.known() == Known(1.0, ahead_s, "file")
            pairs = site.refresh.status().pairs[Metric.DELAY]
            assert (pairs.fresh, pairs.fading, pairs.expired) == counts
        assert site.refresh.status().ready
        assert len(asyncio.all_tasks()) <= tasks + 1
        if site.path.is_dir():
            site.path.rmdir()
        site.write(GOOD.format(3))
        await site.until(lambda: site.known() == Known(3.0, 0.0, "file"))
        assert (site.status.failures, site.status.error) == (0, None)


async def test_a_file_from_the_future_counts_as_now_and_then_ages(tmp_path: Path) -> None:
    """The clock of the machine that wrote it is an hour ahead: its values are not young for an hour."""
    async with running(tmp_path) as site:
        site.write(GOOD.format(2), written_at_s=site.wall.at_s + 3600.0)
        await site.until(lambda: site.known() == Known(2.0, 0.0, "file"))
        assert "some times lie in the future: they are taken as now" in site.status.problems
        site.wall.at_s += 100.0
        await site.until(lambda: site.known() == Known(2.0, 100.0, "file"))


async def test_a_file_of_yesterday_is_a_day_old(tmp_path: Path) -> None:
    """Its mtime counts, not the moment at which it is read."""
    async with running(tmp_path) as site:
        site.write(GOOD.format(2), written_at_s=site.wall.at_s - 86_400.0)
        await site.until(lambda: site.known() == Known(2.0, 86_400.0, "file"))


async def test_a_slow_file_system_holds_nothing_up(tmp_path: Path) -> None:
    """A file that hangs (here a pipe that nobody writes to) costs one thread, whatever time passes; then it is read."""
    fast, slow = tmp_path / "fast.json", tmp_path / "slow.json"
    os.mkfifo(slow)
    fast.write_text(GOOD.format(1))
    site = Site(fast)
    site.refresh = NetworkRefresh(
        [
            Polled(MeshFileSource(fast, name="fast"), 0.02),
            Polled(MeshFileSource(slow, name="slow", timeout_s=0.05), 0.02),
        ],
        RefreshOptions(reevaluate_s=0.02, retry_min_s=0.02, retry_max_s=0.05),
        clock=site.wall,
        nodes=lambda: (node("a"), node("b")),
        publish=site.published.append,
        jitter=lambda: 0.5,
    )

    def status() -> SourceStatus:
        return {status.name: status for status in site.refresh.status().sources}["slow"]

    task = asyncio.create_task(site.refresh.run())
    try:
        await site.until(lambda: bool(site.published) and status().failures >= 1)
        threads = threading.active_count()
        await site.until(lambda: status().failures >= 5)
        assert status().error == f"mesh file {slow}: not read within 0.05 s"
        assert threading.active_count() <= threads + 1  # the other file's comes and goes
        with slow.open("w") as pipe:  # ends the wait: a pipe is no file, so what it says is not used
            slow.unlink()  # first: the next look must not hang at the pipe again
            slow.write_text(GOOD.format(7).replace('"a"', '"c"'))
            pipe.write("[]")
        await site.until(lambda: status().error is None and status().measurements == 2)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
