"""A mesh file that changes under us, and the thread that reads it: its result, errors and defects reach what waits."""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from extender.errors import ConfigError, NetworkSourceError
from extender.network.file.source import MeshFileSource, beside
from extender.ports import Batch
from tests.fakes.mesh import full_mesh, mesh_file, paper_mesh
from tests.liveness import LIVENESS_S

NOW_S = 2_000_000_000.0
WRITTEN_S = 1_900_000_000.0


def write(path: Path, text: str, *, written_at_s: float = WRITTEN_S) -> None:
    """Replace the file at once, as `rename` does, with a chosen mtime."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    os.utime(fresh, (written_at_s, written_at_s))
    fresh.replace(path)


def edit_in_place(path: Path, text: str) -> None:
    """Write into the same inode, as some editors do."""
    inode = path.stat().st_ino
    path.write_text(text)
    assert inode == path.stat().st_ino


def entry(delay_ms: float) -> str:
    """A mesh of one link."""
    return f'[{{"source": "a", "target": "b", "delay_ms": {delay_ms}, "age_s": 60}}]'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A mesh file with a delay of 1 ms."""
    write(tmp_path / "mesh.json", entry(1))
    return tmp_path / "mesh.json"


def delays(batch: Batch | None) -> list[float]:
    """All values of a batch that must be there."""
    assert batch is not None
    return [one.value for one in batch.measurements]


async def test_read_once_while_nothing_changes(path: Path) -> None:
    """The first fetch reads, the next has no news; ages count back from the file's mtime."""
    source = MeshFileSource(path)
    batch = await source.fetch(now_s=NOW_S)
    assert delays(batch) == [1.0]
    assert batch is not None
    assert [one.measured_at_s for one in batch.measurements] == [WRITTEN_S - 60.0]
    assert await source.fetch(now_s=NOW_S + 1.0) is None


CHANGES = {  # case: (text, mtime)
    "newer": (entry(2), WRITTEN_S + 1.0),
    "same mtime, other size": (entry(22), WRITTEN_S),
    "same mtime, same size, other inode": (entry(2), WRITTEN_S),
    "older": (entry(2), WRITTEN_S - 1.0),
}


@pytest.mark.parametrize(("text", "written_at_s"), CHANGES.values(), ids=CHANGES)
async def test_changes_are_noticed(path: Path, text: str, written_at_s: float) -> None:
    """A replaced file is read again, whatever its time stamp says."""
    source = MeshFileSource(path)
    await source.fetch(now_s=NOW_S)
    write(path, text, written_at_s=written_at_s)
    assert delays(await source.fetch(now_s=NOW_S)) != [1.0]


async def test_an_edit_in_place_is_noticed(path: Path) -> None:
    """Writing into the same inode changes its mtime."""
    source = MeshFileSource(path)
    await source.fetch(now_s=NOW_S)
    edit_in_place(path, entry(3))
    assert delays(await source.fetch(now_s=NOW_S)) == [3.0]


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


async def test_a_wrong_file_is_an_error_until_it_is_mended(path: Path) -> None:
    """A bad edit is an error on every fetch, naming the entry; the mended file is news."""
    source = MeshFileSource(path)
    await source.fetch(now_s=NOW_S)
    write(path, "[5]")
    for _ in range(2):
        with pytest.raises(NetworkSourceError, match=r"mesh\.json: entry 0: .*accepted: an object with source"):
            await source.fetch(now_s=NOW_S)
    write(path, entry(4))
    assert delays(await source.fetch(now_s=NOW_S)) == [4.0]
    assert await source.fetch(now_s=NOW_S) is None


async def test_a_missing_file_is_an_error_until_it_is_back(path: Path) -> None:
    """A file that went away is an error; when it is back it is read, even if it is the same as before."""
    source = MeshFileSource(path)
    await source.fetch(now_s=NOW_S)
    os.rename(path, f"{path}.away")
    with pytest.raises(NetworkSourceError, match="No such file"):
        await source.fetch(now_s=NOW_S)
    write(path, entry(1))
    assert delays(await source.fetch(now_s=NOW_S)) == [1.0]


async def test_big_files_are_read_too(path: Path) -> None:
    """A file of 36 nodes is read beside the event loop and gives all its 3,780 values."""
    write(path, mesh_file(paper_mesh()))
    assert len(delays(await MeshFileSource(path).fetch(now_s=NOW_S))) == 3 * 36 * 35


def test_check_refuses_at_start(path: Path) -> None:
    """At start a file that cannot be used is a ConfigError, so that the service does not come up without data."""
    MeshFileSource(path).check(now_s=NOW_S)
    write(path, "{}")
    with pytest.raises(ConfigError, match="accepted is a list"):
        MeshFileSource(path).check(now_s=NOW_S)
    path.unlink()
    with pytest.raises(ConfigError, match="No such file"):
        MeshFileSource(path).check(now_s=NOW_S)


def test_a_directory_is_refused(tmp_path: Path) -> None:
    """A path that is no file is refused in words."""
    with pytest.raises(ConfigError, match="Is a directory"):
        MeshFileSource(tmp_path).check(now_s=NOW_S)


def test_full_mesh_of_the_fake() -> None:
    """The fake's mesh has every direction and no link to itself."""
    assert len(full_mesh("a", "b", "c").links) == 6


# -- work that may block ----------------------------------------------------------------------------------------------


class Refused(Exception):
    """An error that the work is known to have."""


def refuse() -> None:
    """Fail as expected."""
    raise Refused("no")


def stumble() -> None:
    """Fail as no caller expects."""
    raise ZeroDivisionError


async def test_the_result_and_known_errors_arrive() -> None:
    """Both are the future's, as of a call."""
    assert await beside(lambda: 7, errors=Refused) == 7
    with pytest.raises(Refused, match="no"):
        await beside(refuse, errors=Refused)


async def test_a_defect_is_shown_and_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The traceback is that of any thread that fails, and what waits hears of it."""
    seen: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", seen.append)
    with pytest.raises(RuntimeError, match="ended by a defect"):
        await asyncio.wait_for(beside(stumble, errors=Refused), LIVENESS_S)
    for thread in threading.enumerate():
        if thread.name == "beside":
            thread.join(LIVENESS_S)
    assert [one.exc_type for one in seen] == [ZeroDivisionError]


async def test_work_that_hangs_holds_nothing_up() -> None:
    """A caller may stop waiting; the result comes too late for it, and does no harm."""
    gate = threading.Event()
    future = beside(gate.wait, errors=Refused)
    done, _ = await asyncio.wait([future], timeout=0.01)
    assert not done
    future.cancel()
    gate.set()
    assert await beside(lambda: "next", errors=Refused) == "next"
