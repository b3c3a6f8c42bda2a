"""A mesh file that changes under us or goes wrong, and the thread that reads it."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from extender.network.meshfile import MeshFileSource
from extender.network.refresh import Polled
from extender.ports import Batch
from extender.schemas import Source
from scoring.network.matrix import Known
from tests.extender.network.world import QUICK, MovedClock, World, running

NOW_S = 2_000_000_000.0
WRITTEN_S = 1_900_000_000.0


def write(path: Path, text: str, *, written_at_s: float | None = WRITTEN_S) -> None:
    if written_at_s is None:
        path.write_text(text)
        return
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    os.utime(fresh, (written_at_s, written_at_s))
    fresh.replace(path)


def entry(delay_ms: float) -> str:
    return f'[{{"source": "a", "target": "b", "delay_ms": {delay_ms}, "age_s": 60}}]'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write(tmp_path / "mesh.json", entry(1))
    return tmp_path / "mesh.json"


def delays(batch: Batch | None) -> list[float]:
    assert batch is not None
    return [one.value for one in batch.measurements]


CHANGES = {  # case: (text, mtime; `None`: in place, now)
    "newer": (entry(2), WRITTEN_S + 1.0),
    "same mtime, other size": (entry(22), WRITTEN_S),
    "same mtime, same size, other inode": (entry(2), WRITTEN_S),
    "older": (entry(2), WRITTEN_S - 1.0),
    "an edit in place": (entry(3), None),
}


@pytest.mark.parametrize(("text", "written_at_s"), CHANGES.values(), ids=CHANGES)
async def test_changes_are_noticed(path: Path, text: str, written_at_s: float | None) -> None:
    source = MeshFileSource(path)
    await source.fetch(now_s=NOW_S)
    write(path, text, written_at_s=written_at_s)
    assert delays(await source.fetch(now_s=NOW_S)) != [1.0]


async def test_a_config_map_is_exchanged_by_a_symlink(tmp_path: Path) -> None:
    """Kubernetes mounts a ConfigMap as mesh.json -> ..data/mesh.json and exchanges the link `..data`."""
    for name, delay in (("v1", 1), ("v2", 2)):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "mesh.json", entry(delay))
    (tmp_path / "..data").symlink_to("v1")
    (tmp_path / "mesh.json").symlink_to("..data/mesh.json")
    source = MeshFileSource(tmp_path / "mesh.json")
    assert delays(await source.fetch(now_s=NOW_S)) == [1.0]
    (tmp_path / "..data_tmp").symlink_to("v2")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")
    assert delays(await source.fetch(now_s=NOW_S)) == [2.0]


GOOD = '[{{"source": "a", "target": "b", "delay_ms": {}, "loss_ratio": 0.01}}]'


class Site(World):
    def __init__(self, path: Path) -> None:
        self.path = path
        self.wall = MovedClock()
        super().__init__(Polled(MeshFileSource(path), 0.02), clock=self.wall, options=QUICK)

    def write(self, text: str) -> None:
        write(self.path, text, written_at_s=self.wall.at_s)


@asynccontextmanager
async def read(tmp_path: Path) -> AsyncIterator[Site]:
    site = Site(tmp_path / "mesh.json")
    site.write(GOOD.format(1))
    async with running(site):
        await site.until(lambda: True)
        yield site


def directory(site: Site) -> None:
    site.path.unlink()
    site.path.mkdir()


def loop(site: Site) -> None:
    """A link to itself, as a volume that is being exchanged may be for a moment."""
    site.path.unlink()
    site.path.symlink_to(site.path)


FAULTS: dict[str, tuple[Callable[[Site], None], str]] = {  # fault: (what is done to the file, what the status says)
    "truncated": (lambda site: site.write(GOOD.format(2)[:-9]), "neither JSON nor YAML"),
    "empty": (lambda site: site.write(""), "empty"),
    "one wrong entry": (lambda site: site.write(GOOD.format(-2)), "entry 0: delay_ms"),
    "gone": (lambda site: site.path.unlink(), "No such file"),
    "no file": (directory, "Is a directory"),
    "a link to itself": (loop, "Too many levels of symbolic links"),
}


@pytest.mark.parametrize(("spoil", "said"), FAULTS.values(), ids=FAULTS)
async def test_a_fault_fades_and_heals(spoil: Callable[[Site], None], said: str, tmp_path: Path) -> None:
    async with read(tmp_path) as site:
        tasks = len(asyncio.all_tasks())
        spoil(site)
        await site.until(lambda: site.source.failures >= 2)
        assert said in str(site.source.error)
        site.wall.at_s += 6000.0
        await site.until(lambda: site.known() == Known(1.0, 6000.0, "file"))
        assert len(asyncio.all_tasks()) <= tasks + 1
        if site.path.is_dir():
            site.path.rmdir()
        site.write(GOOD.format(3))
        await site.until(lambda: site.known() == Known(3.0, 0.0, "file"))
        assert (site.source.failures, site.source.error) == (0, None)


async def test_a_slow_file_system_holds_nothing_up(tmp_path: Path) -> None:
    fast, slow = tmp_path / "fast.json", tmp_path / "slow.json"
    os.mkfifo(slow)
    fast.write_text(GOOD.format(1))
    sources = (MeshFileSource(fast, name="fast"), MeshFileSource(slow, name="slow", timeout_s=0.05))
    world = World(*(Polled(one, 0.02) for one in sources), clock=MovedClock(), options=QUICK)

    def status() -> Source:
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


async def test_a_defect_ends_the_wait(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("extender.network.meshfile.parse_mesh", stumble)
    with pytest.raises(ZeroDivisionError):
        await MeshFileSource(path).fetch(now_s=NOW_S)
