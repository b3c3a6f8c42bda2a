"""`netgang record` and `netgang replay` as people and scripts use them."""

import asyncio
from io import StringIO
from pathlib import Path

import httpx
import pytest
import respx
import yaml
from rich.console import Console

from cli.rendering.replayed import Replayed, replayed_table
from extender.decision_log.recorder import Recorder, Run
from scoring.model.policy import Policy
from scoring.plan import Plan, plan
from tests.builders import gang, node, snapshot
from tests.cli.world import as_json, refused, run

URL = "https://netgang.example"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """One run: a heavy gang and a lighter, older one in room for one of them."""
    older = gang("older", 1, cpu="8", created_s=1.0)
    heavy = gang("heavy", 2, cpu="4", created_s=2.0)
    state = snapshot([node("n1")], [older, heavy])
    before = Plan(version=-1)
    recorder = Recorder(Policy(), most_bytes=1, lost=lambda _: None)
    recorder.heard(Run(10.0, state, before, plan(state, Policy(), now_s=10.0, previous=before)))
    path = tmp_path / "decisions.log.gz"
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:  # asyncio.run would take pytest's loop away
        path.write_bytes(runner.run(recorder.log()))
    return path


def test_it_says_that_all_came_out_as_recorded(log: Path) -> None:
    said = run("replay", log)
    assert said.exit_code == 0
    assert "1 planner run and 0 steps" in said.stdout
    assert "all came out as recorded" in said.stdout
    document = as_json("replay", log)
    assert (document["runs"], document["different"]) == (1, [])


def test_other_settings_are_compared(log: Path, tmp_path: Path) -> None:
    """By age the older one would go first: still exit code 0, since what was recorded came out."""
    (tmp_path / "fifo.yaml").write_text("queue: {order: fifo}\n")
    document = as_json("replay", log, "--with", tmp_path / "fifo.yaml")
    assert document["would_differ"] == 1
    assert {one["gang"] for one in document["examples"]} == {"default/older", "default/heavy"}


@pytest.fixture
def fifo(log: Path, tmp_path: Path) -> tuple[Path, str, Path]:
    """The log, and settings by which both gangs would be decided otherwise."""
    (tmp_path / "fifo.yaml").write_text("queue: {order: fifo}\n")
    return log, "--with", tmp_path / "fifo.yaml"


def test_differences_are_one_line_a_gang(fifo: tuple[Path, str, Path]) -> None:
    """As other lists: aligned columns, no frame, totals below; -o name has the gangs, --no-headers the lines alone."""
    head, *rows, runs, same, differ = run("replay", *fifo, columns=60).stdout.splitlines()
    assert head.split() == ["ENTRY", "GANG", "WAS", "WOULD", "BE"]
    assert [row.split()[:2] for row in rows] == [["1", "default/heavy"], ["1", "default/older"]]
    assert len({row.index("default/") for row in rows} | {head.index("GANG")}) == 1
    assert runs == "1 planner run and 0 steps of gangs at bind were run again"
    assert (same, differ) == ("all came out as recorded", "1 run would have been decided differently")
    bare = run("replay", *fifo, "--no-headers").stdout.splitlines()
    assert [row.split() for row in bare] == [row.split() for row in rows]
    assert run("replay", *fifo, "-o", "name").stdout.splitlines() == ["default/heavy", "default/older"]
    wide = run("replay", *fifo, "-o", "wide").stdout.splitlines()
    assert (wide[0].split()[:3], wide[1].split()[:2]) == (["ENTRY", "AT", "GANG"], ["1", "1970-01-01T00:00:10Z"])
    assert yaml.safe_load(run("replay", *fifo, "-o", "yaml").stdout) == as_json("replay", *fifo)


def test_what_came_out_differently_is_exit_code_1() -> None:
    found = Replayed(runs=30, different=list(range(25)), missing=1)
    console = Console(width=300, file=StringIO())
    console.print(replayed_table(console, found, compared=False))
    assert isinstance(console.file, StringIO)
    said = console.file.getvalue().splitlines()
    assert "1 entry had not been written: the recorder did not keep up" in said
    assert "25 came out differently (entries 0, 1," in said[2]
    assert said[2].endswith("19, …)")


WRONG = {  # case: (arguments after `replay`, what is said)
    "no such file": (["nowhere.gz"], "nowhere.gz"),
    "no log": (["{here}/fifo.yaml"], "no whole gzip file"),
    "no such settings": (["{log}", "--with", "nowhere.yaml"], "nowhere.yaml"),
    "settings that are none": (["{log}", "--with", "{here}/bad.yaml"], "queue"),
}


@pytest.mark.parametrize(("arguments", "said"), WRONG.values(), ids=WRONG)
def test_wrong_use(arguments: list[str], said: str, log: Path, tmp_path: Path) -> None:
    (tmp_path / "fifo.yaml").write_text("queue: {order: fifo}\n")
    (tmp_path / "bad.yaml").write_text("queue: {order: backwards}\n")
    assert said in refused("replay", *(one.format(log=log, here=tmp_path) for one in arguments)).replace("\n", "")


@respx.mock
def test_a_log_is_fetched(log: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc\n")
    route = respx.get(f"{URL}/v1/record").respond(content=log.read_bytes())
    out = tmp_path / "fetched.gz"
    assert run("record", "--url", URL, "-o", out, "--token-file", tmp_path / "token").exit_code == 0
    assert out.read_bytes() == log.read_bytes()
    assert route.calls.last.request.headers["authorization"] == "Bearer abc"


FORMS: dict[str, tuple[tuple[str, ...], str]] = {  # case: (options, standard output; {out} is the file)
    "a sentence elsewhere": (("--out", "{out}"), ""),
    "a file, as before": (("-o", "{out}"), ""),
    "its name": (("--out", "{out}", "-o", "name"), "{out}\n"),
    "yaml": (("--out", "{out}", "-o", "yaml"), "file: {out}\nbytes: 3\n"),
    "json": (("--out", "{out}", "--json"), '{{\n  "file": "{out}",\n  "bytes": 3\n}}\n'),
}


@respx.mock
@pytest.mark.parametrize(("options", "printed"), FORMS.values(), ids=FORMS)
def test_forms_of_what_was_written(options: tuple[str, ...], printed: str, tmp_path: Path) -> None:
    respx.get(f"{URL}/v1/record").respond(content=b"abc")
    out = tmp_path / "fetched.gz"
    result = run("record", "--url", URL, *(one.format(out=out) for one in options))
    assert (result.exit_code, result.stdout) == (0, printed.format(out=out)), result.output
    assert out.read_bytes() == b"abc"
    assert result.stderr == ("" if printed else f"{out}: 3 bytes; netgang replay {out}\n")


@respx.mock
def test_the_log_itself_on_standard_output(tmp_path: Path) -> None:
    respx.get(f"{URL}/v1/record").respond(content=b"\x1f\x8b\x00")
    result = run("record", "--url", URL, "--out", "-")
    assert (result.exit_code, result.stdout_bytes) == (0, b"\x1f\x8b\x00")


MIXED = {  # case: (options, what is said)
    "two files": (("--out", "a", "-o", "b"), "--out a and -o b: name one file"),
    "the log and a form": (("--out", "-", "--json"), "--out - prints the log itself"),
    "no more columns": (("-o", "wide"), "-o wide: there is one file"),
}


@pytest.mark.parametrize(("options", "said"), MIXED.values(), ids=MIXED)
def test_options_that_do_not_go_together(options: tuple[str, ...], said: str) -> None:
    assert said in refused("record", "--url", URL, *options)


@respx.mock
def test_nothing_to_fetch(tmp_path: Path) -> None:
    out = tmp_path / "fetched.gz"
    route = respx.get(f"{URL}/v1/record").respond(404, json={"detail": "set record.enabled to true"})
    assert "record.enabled" in refused("record", "--url", URL, "-o", out, code=1)
    route.mock(side_effect=httpx.ConnectError("refused"))
    assert "does netgang run there?" in refused("record", "--url", URL, "-o", out, code=1)
    assert not out.exists()
