"""A mesh file × everything that can go wrong with it: the last data stay, fade, and come back by themselves.

The other kinds of sources are in `test_source_faults.py`; a file has no server, so it is slow, refused, gone or full of
nonsense in its own ways.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from extender.network.file.source import MeshFileSource
from extender.network.refresh import Polled, SourceStatus
from scoring.network.matrix import Known
from tests.extender.network.world import QUICK, START_S, MovedClock, World, running

GOOD = '[{{"source": "a", "target": "b", "delay_ms": {}, "loss_ratio": 0.01}}]'


class Site(World):
    """A world over one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.wall = MovedClock()
        super().__init__(Polled(MeshFileSource(path), 0.02), clock=self.wall, options=QUICK)

    def write(self, text: str, *, written_at_s: float | None = None) -> None:
        """Replace the file at once, as `rename` does."""
        fresh = self.path.with_suffix(".new")
        fresh.write_text(text)
        at_s = self.wall.at_s if written_at_s is None else written_at_s
        os.utime(fresh, (at_s, at_s))
        fresh.replace(self.path)


@asynccontextmanager
async def read(tmp_path: Path) -> AsyncIterator[Site]:
    """A site with a good file of 1 ms that has been read."""
    site = Site(tmp_path / "mesh.json")
    site.write(GOOD.format(1))
    async with running(site):
        await site.until(lambda: True)
        yield site


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
    "gone": (lambda site: site.path.unlink(), "No such file"),
    "no file": (directory, "Is a directory"),
    "a link to itself": (loop, "Too many levels of symbolic links"),
}


@pytest.mark.parametrize(("spoil", "said"), FAULTS.values(), ids=FAULTS)
async def test_a_fault_fades_and_heals(spoil: Callable[[Site], None], said: str, tmp_path: Path) -> None:
    """The values stay and age to expired, status and metrics say why, nothing piles up, and a good file heals it."""
    async with read(tmp_path) as site:
        assert site.known() == Known(1.0, 0.0, "file")
        tasks = len(asyncio.all_tasks())
        spoil(site)
        await site.until(lambda: site.source.failures >= 2)
        assert said in str(site.source.error)
        assert site.metric("fetches_total", source="file", outcome="error") >= 1.0
        for ahead_s, counts in ((6000.0, (0, 1, 0)), (11_000.0, (0, 0, 1))):
            site.wall.at_s = START_S + ahead_s
            await site.until(lambda: site.last.evaluated_at_s == site.wall.at_s)
            assert site.known() == Known(1.0, ahead_s, "file")
            assert site.counts() == counts
        assert site.status().ready
        assert len(asyncio.all_tasks()) <= tasks + 1
        if site.path.is_dir():
            site.path.rmdir()
        site.write(GOOD.format(3))
        await site.until(lambda: site.known() == Known(3.0, 0.0, "file"))
        assert (site.source.failures, site.source.error) == (0, None)


async def test_a_file_from_the_future_counts_as_now_and_then_ages(tmp_path: Path) -> None:
    """The clock of the machine that wrote it is an hour ahead: its values are not young for an hour."""
    async with read(tmp_path) as site:
        site.write(GOOD.format(2), written_at_s=site.wall.at_s + 3600.0)
        await site.until(lambda: site.known() == Known(2.0, 0.0, "file"))
        assert "some times lie in the future: they are taken as now" in site.source.problems
        site.wall.at_s += 100.0
        await site.until(lambda: site.known() == Known(2.0, 100.0, "file"))


async def test_a_file_of_yesterday_is_a_day_old(tmp_path: Path) -> None:
    """Its mtime counts, not the moment at which it is read."""
    async with read(tmp_path) as site:
        site.write(GOOD.format(2), written_at_s=site.wall.at_s - 86_400.0)
        await site.until(lambda: site.known() == Known(2.0, 86_400.0, "file"))


async def test_a_slow_file_system_holds_nothing_up(tmp_path: Path) -> None:
    """A file that hangs (here a pipe that nobody writes to) costs one thread, whatever time passes; then it is read."""
    fast, slow = tmp_path / "fast.json", tmp_path / "slow.json"
    os.mkfifo(slow)
    fast.write_text(GOOD.format(1))
    sources = (MeshFileSource(fast, name="fast"), MeshFileSource(slow, name="slow", timeout_s=0.05))
    world = World(*(Polled(one, 0.02) for one in sources), clock=MovedClock(), options=QUICK)

    def status() -> SourceStatus:
        return world.status().sources[1]

    async with running(world):
        await world.until(lambda: status().failures >= 1)
        threads = threading.active_count()
        await world.until(lambda: status().failures >= 5)
        assert status().error == f"mesh file {slow}: not read within 0.05 s"
        assert threading.active_count() <= threads + 1  # the other file's comes and goes
        with slow.open("w") as pipe:  # ends the wait: a pipe is no file, so what it says is not used
            slow.unlink()  # first: the next look must not hang at the pipe again
            slow.write_text(GOOD.format(7).replace('"a"', '"c"'))
            pipe.write("[]")
        await world.until(lambda: status().error is None and status().measurements == 2)
