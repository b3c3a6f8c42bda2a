"""An interrupted run of benchmarks goes on where it was, and never with figures of another commit or machine."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lab.bench import __main__ as bench
from lab.bench import kept as kept_module
from lab.bench import record
from lab.bench.kept import Kept
from lab.bench.peers import command as peers
from lab.bench.peers.compare import Found, Report, Task
from lab.bench.programs import Bench
from lab.bench.record import Section
from lab.testbed.errors import ControlPlaneError

SECTION = Section("sync", "the command", ({"n": 1},), 2.0)


@pytest.fixture(autouse=True)
def same_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_module, "commit", lambda: "abc")
    monkeypatch.setattr(record, "commit", lambda: "abc")


def test_lines_are_added_to_a_section(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    Kept(path).add("peers", "c", [{"n": 1}], seconds=2.0)
    Kept(path).add("peers", "c", [{"n": 2}], seconds=3.5)
    assert Kept(path).found("peers", "c") == Section("peers", "c", ({"n": 1}, {"n": 2}), 5.5)


def test_a_whole_run_leaves_its_record_alone(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    kept = Kept(path)
    kept.keep(SECTION)
    kept.finish([SECTION], whole=False)
    assert {one.name for one in tmp_path.iterdir()} == {"bench.json", "lab.bench.part.json"}
    kept.finish([SECTION], whole=True)
    assert {one.name for one in tmp_path.iterdir()} == {"bench.json"}
    assert record.read(path).sections == (SECTION,)


OTHERS: dict[str, dict[str, object]] = {
    "another commit": {"commit": "def"},
    "another machine": {"machine": {"cores": 64}},
}


def test_only_what_this_commit_measured_here_is_there_again(tmp_path: Path) -> None:
    path, part = tmp_path / "bench.json", tmp_path / "lab.bench.part.json"
    Kept(path).keep(SECTION)
    assert Kept(path).found("sync", "the command") == SECTION
    assert Kept(path).found("sync", "another command") is None
    assert not path.exists()
    text = part.read_text()
    for change in OTHERS.values():
        part.write_text(json.dumps({**json.loads(text), **change}))
        assert Kept(path).found("sync", "the command") is None
    part.write_text(text)
    assert Kept(path, fresh=True).found("sync", "the command") is None
    assert list(tmp_path.iterdir()) == []


def test_without_a_record_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kept = Kept(None)
    kept.keep(SECTION)
    kept.finish([SECTION], whole=True)
    assert kept.found("sync", "the command") == SECTION
    assert list(tmp_path.iterdir()) == []


def test_all_goes_on_after_what_could_not_be_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ready, log = tmp_path / "ready", tmp_path / "log"
    script = tmp_path / "one.py"
    script.write_text(
        "import sys, pathlib\n"
        f"open({str(log)!r}, 'a').write(sys.argv[1] + '\\n')\n"
        f"if sys.argv[1] == 'second' and not pathlib.Path({str(ready)!r}).exists(): sys.exit('broken')\n"
        'print(\'{"measured": "%s"}\' % sys.argv[1])\n'
    )
    table = tuple(Bench(name, "words", f"{name}", 0.1) for name in ("first", "second"))
    monkeypatch.setattr(bench, "BENCHES", table)
    monkeypatch.setattr(bench, "_argv", lambda command: [sys.executable, str(script), command.split()[-1]])
    path = tmp_path / "bench.json"
    assert CliRunner().invoke(bench.app, ["all", "--json", str(path)]).exit_code == 2
    assert [one.bench for one in record.read(path).sections] == ["first"]
    ready.touch()
    assert CliRunner().invoke(bench.app, ["all", "--json", str(path)]).exit_code == 0
    assert [one.lines for one in record.read(path).sections] == [({"measured": "first"},), ({"measured": "second"},)]
    assert log.read_text().split() == ["first", "second", "second"]
    assert not (tmp_path / "lab.bench.part.json").exists()


def row(workload: str) -> Found:
    line = {"workload": workload, "load": "words", "way": "none", "pairs": 1, "unfinished": 0, "partial_gangs": 0,
            "pods_per_s": 1.0, "processes": {}}  # fmt: skip
    return Found([line], [])


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Comparisons without a control plane; `broken` workloads cannot be measured. What was tried, in order."""
    tried: list[str] = []

    def with_broken(*broken: str) -> list[str]:
        async def compared(task: Task, report: Report, *, quick: bool) -> Found:
            tried.append(task.workload.name)
            if task.workload.name in broken:
                raise ExceptionGroup("in parallel", [ControlPlaneError("etcd ended")])
            return row(task.workload.name)

        monkeypatch.setattr(peers, "compared", compared)
        monkeypatch.setattr(peers, "_build", lambda *_: None)
        return tried

    return with_broken


def test_a_workload_that_cannot_be_measured_is_passed_over(tmp_path: Path, measuring: Callable[..., list[str]]) -> None:
    path = tmp_path / "peers.json"
    arguments = ["peers", *(f"--workload={name}" for name in ("gangs", "trios", "burst")), "--way", "none"]
    tried = measuring("gangs")
    assert CliRunner().invoke(bench.app, [*arguments, "--json", str(path)]).exit_code == 2
    assert tried == ["gangs", "trios", "burst"]
    tried = measuring()
    assert CliRunner().invoke(bench.app, [*arguments, "--json", str(path)]).exit_code == 0
    assert tried[3:] == ["gangs"]
    [section] = record.read(path).sections
    assert [line["workload"] for line in section.lines] == ["gangs", "trios", "burst"]
    assert section.ok


def test_a_defect_is_not_passed_over(monkeypatch: pytest.MonkeyPatch, measuring: Callable[..., list[str]]) -> None:
    measuring()

    async def compared(*_: object, **__: object) -> Found:
        raise ExceptionGroup("in parallel", [ControlPlaneError("etcd ended"), KeyError("a defect")])

    monkeypatch.setattr(peers, "compared", compared)
    done = CliRunner().invoke(bench.app, ["peers", "--workload=burst", "--way=none"])
    assert isinstance(done.exception, ExceptionGroup)
