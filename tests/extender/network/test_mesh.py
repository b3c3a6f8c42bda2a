"""A mesh file: what is read, how what is wrong is named, and what happens when it changes or goes wrong under us."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from extender.errors import ConfigError, NetworkSourceError
from extender.network.meshfile import MeshFileSource, parse_mesh, read_mesh
from extender.network.refresh import Polled
from extender.ports import Batch
from extender.schemas import Source
from scoring.network.matrix import Metric
from tests.extender.network.world import QUICK, MovedClock, World, running
from tests.fakes.mesh import mesh_file, paper_mesh
from tests.fakes.network_source import measurements

EXAMPLE = Path(__file__).parents[3] / "examples" / "mesh" / "paper-testbed.json"

NOW_S = 1_767_225_600.0  # 2026-01-01T00:00:00Z

TWO_ENDS = '"source": "a", "target": "b"'


def parsed(text: str | bytes, *, written_at_s: float = NOW_S) -> Batch:
    body = text.encode() if isinstance(text, str) else text
    return parse_mesh(body, "mesh", written_at_s=written_at_s, now_s=NOW_S)


def test_json_and_yaml_say_the_same() -> None:
    text = '[{"source": "a", "target": "b", "loss_ratio": 0.25, "delay_ms": 3, "throughput_bps": 1e8, "age_s": 60}]'
    values = "loss_ratio: 0.25, delay_ms: 3, throughput_bps: 100000000"
    document = f"- {{source: a, target: b, {values}, measured_at: 2025-12-31T23:59:00Z}}\n"
    batch = parsed(text)
    found = [(one.metric, one.value, one.measured_at_s - NOW_S) for one in batch.measurements]
    assert found == [(Metric.LOSS, 0.25, -60.0), (Metric.DELAY, 3.0, -60.0), (Metric.THROUGHPUT, 1e8, -60.0)]
    assert [one.id for one in batch.endpoints] == ["a", "b"]
    assert batch == parsed(document)


TIMES = {  # fields: age in seconds
    "": 0.0,
    ', "age_s": null': 0.0,
    ', "age_s": 5.5': 5.5,
    ', "measured_at": 1767225570': 30.0,
    ', "measured_at": "2025-12-31T23:59:00Z"': 60.0,
    ', "measured_at": "2026-01-01T00:59:00+01:00"': 60.0,
}


@pytest.mark.parametrize("fields", TIMES)
@pytest.mark.parametrize("written_s", [0.0, 300.0])
def test_times(fields: str, written_s: float) -> None:
    [one] = parsed(f'[{{{TWO_ENDS}, "delay_ms": 1{fields}}}]', written_at_s=NOW_S - written_s).measurements
    assert one.measured_at_s == NOW_S - TIMES[fields] - (0.0 if "measured_at" in fields else written_s)


def test_unknown_values_and_several_entries_of_one_link() -> None:
    batch = parsed(f'[{{{TWO_ENDS}, "loss_ratio": null}}, {{"source": "b", "target": "a", "delay_ms": 0}}]')
    assert [(m.source, m.target, m.metric, m.value) for m in batch.measurements] == [("b", "a", Metric.DELAY, 0.0)]
    assert (batch.rejected, len(batch.endpoints)) == ({"no_value": 1}, 2)
    text = f'[{{{TWO_ENDS}, "loss_ratio": 0, "age_s": 1}}, {{{TWO_ENDS}, "delay_ms": 2, "age_s": 9}}]'
    assert [len(parsed(one).measurements) for one in ("[]", text)] == [0, 2]


def test_the_example_is_the_paper_s_mesh() -> None:
    batch = read_mesh(EXAMPLE, now_s=NOW_S)
    assert (EXAMPLE.read_text(), batch.problems) == (mesh_file(paper_mesh()), ())
    assert list(batch.measurements) == measurements(paper_mesh(), measured_at_s=NOW_S)


def test_times_in_the_future_are_now() -> None:
    batch = parsed(f'[{{{TWO_ENDS}, "delay_ms": 1, "measured_at": {NOW_S + 60.0}}}]')
    assert ([m.measured_at_s for m in batch.measurements], batch.rejected) == ([NOW_S], {"future_time": 1})
    assert batch.problems == ("some times lie in the future: they are taken as now",)


GOOD = '{"source": "x", "target": "y", "delay_ms": 1}'
WRONG: dict[str, tuple[str | bytes, list[str]]] = {  # case: (text, parts of the error)
    "loss in percent": (f'[{GOOD}, {{{TWO_ENDS}, "loss_ratio": 2}}]', ["entry 1", "loss_ratio", "number from 0 to 1"]),
    "negative delay": (f'[{{{TWO_ENDS}, "delay_ms": -1}}]', ["entry 0", "delay_ms", "at least 0"]),
    "text as number": (f'[{{{TWO_ENDS}, "throughput_bps": "1Gbps"}}]', ["entry 0", "throughput_bps", "bit/s"]),
    "age and time": (f'[{{{TWO_ENDS}, "age_s": 1, "measured_at": 2}}]', ["entry 0", "age_s", "not together with"]),
    "time without zone": (f'[{{{TWO_ENDS}, "measured_at": "2026-01-01T00:00:00"}}]', ["entry 0", "measured_at"]),
    "time in words": (f'[{{{TWO_ENDS}, "measured_at": "yesterday"}}]', ["entry 0", "measured_at", "2026-01-31T12"]),
    "unknown field": (f'[{{{TWO_ENDS}, "delay": 1}}]', ["entry 0", "unknown field `delay`", "delay_ms"]),
    "no target": ('[{"source": "a"}]', ["entry 0", "missing required field `target`"]),
    "no name": ('[{"source": "", "target": "b"}]', ["entry 0", "source", "1 to 253 characters"]),
    "link to itself": (f'[{GOOD}, {{"source": "a", "target": "a"}}]', ["entry 1", "target", "other than source"]),
    "given twice": (f"[{GOOD}, {GOOD}]", ["entry 1", "delay of this link is already in entry 0"]),
    "entry that is a number": (f"[{GOOD}, 5]", ["entry 1", "accepted: an object with source, target"]),
    "object at the top": ('{"links": []}', ["accepted is a list of entries, this is a dict"]),
    "cut off": (f"[{GOOD}", ["neither JSON nor YAML"]),
    "nothing": ("  \n", ["empty", "a JSON or YAML list"]),
    "YAML with a tab": ("-\t{a: b\n\t- c", ["neither JSON nor YAML"]),
    "YAML nan": ("- {source: a, target: b, delay_ms: .nan}", ["entry 0", "delay_ms"]),
    "YAML object": ("- !!python/object/apply:os.system [ls]", ["neither JSON nor YAML"]),
    "deep": ("[" * 100_000, ["neither JSON nor YAML"]),
    "bytes that are no text": (b'[{"source": "\xff", "target": "b"}]', []),
    "other bytes": (b"- \xff\xfe\x00", []),
}


@pytest.mark.parametrize(("text", "parts"), WRONG.values(), ids=WRONG)
def test_wrong_files(text: str | bytes, parts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(text)
    assert str(caught.value).startswith("mesh: ")
    assert not [part for part in parts if part not in str(caught.value)], str(caught.value)


def test_paths(tmp_path: Path) -> None:
    path = tmp_path / "mesh.json"
    path.write_text(f"[{GOOD}]")
    assert len(read_mesh(path, now_s=NOW_S).measurements) == 1
    path.write_text("[5]")
    with pytest.raises(ConfigError, match=rf"{path}: entry 0"):
        read_mesh(path, now_s=NOW_S)
    with pytest.raises(ConfigError, match=r"no\.json: No such file"):
        read_mesh(tmp_path / "no.json", now_s=NOW_S)


READ_S = 2_000_000_000.0
WRITTEN_S = 1_900_000_000.0


def write(path: Path, text: str, *, written_at_s: float | None = WRITTEN_S) -> None:
    fresh = path if written_at_s is None else path.with_suffix(".new")
    fresh.write_text(text)
    os.utime(fresh, None if written_at_s is None else (written_at_s, written_at_s))
    fresh.replace(path)


def entry(delay_ms: float) -> str:
    return f'[{{"source": "a", "target": "b", "delay_ms": {delay_ms}, "loss_ratio": 0.01}}]'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write(tmp_path / "mesh.json", entry(1))
    return tmp_path / "mesh.json"


def delays(batch: Batch | None) -> list[float]:
    assert batch is not None
    return [one.value for one in batch.measurements if one.metric is Metric.DELAY]


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
    await source.fetch(now_s=READ_S)
    write(path, text, written_at_s=written_at_s)
    assert delays(await source.fetch(now_s=READ_S)) != [1.0]


async def test_a_config_map_is_exchanged_by_a_symlink(tmp_path: Path) -> None:
    """Kubernetes mounts a ConfigMap as mesh.json -> ..data/mesh.json and exchanges the link `..data`."""
    for name, delay in (("v1", 1), ("v2", 2)):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "mesh.json", entry(delay))
    (tmp_path / "..data").symlink_to("v1")
    (tmp_path / "mesh.json").symlink_to("..data/mesh.json")
    source = MeshFileSource(tmp_path / "mesh.json")
    assert delays(await source.fetch(now_s=READ_S)) == [1.0]
    (tmp_path / "..data_tmp").symlink_to("v2")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")
    assert delays(await source.fetch(now_s=READ_S)) == [2.0]


def replace_by_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def mend(path: Path) -> None:
    if path.is_dir():
        path.rmdir()
    write(path, entry(3), written_at_s=WRITTEN_S + 1.0)


FAULTS: dict[str, tuple[Callable[[Path], None], str]] = {  # fault: (what is done to the file, what is said)
    "truncated": (lambda path: write(path, entry(2)[:-9]), "neither JSON nor YAML"),
    "gone": (Path.unlink, "No such file"),
    "no file": (replace_by_directory, "Is a directory"),
}


@pytest.mark.parametrize(("spoil", "said"), FAULTS.values(), ids=FAULTS)
async def test_a_fault_is_told_until_it_is_mended(spoil: Callable[[Path], None], said: str, path: Path) -> None:
    source = MeshFileSource(path)
    await source.fetch(now_s=READ_S)
    spoil(path)
    for _ in range(2):
        with pytest.raises(NetworkSourceError, match=said):
            await source.fetch(now_s=READ_S)
    mend(path)
    assert delays(await source.fetch(now_s=READ_S)) == [3.0]


async def test_a_slow_file_system_holds_nothing_up(tmp_path: Path) -> None:
    fast, slow = tmp_path / "fast.json", tmp_path / "slow.json"
    os.mkfifo(slow)
    fast.write_text(entry(1))
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
            slow.write_text(entry(7).replace('"a"', '"c"'))
            pipe.write("[]")
        await world.until(lambda: status().error is None and status().measurements == 2)


async def test_a_defect_ends_the_wait(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("extender.network.meshfile.parse_mesh", stumble)
    with pytest.raises(ZeroDivisionError):
        await MeshFileSource(path).fetch(now_s=READ_S)
