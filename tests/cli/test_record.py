"""`netgang record` and `netgang replay` as people and scripts use them."""

import asyncio
from pathlib import Path

import httpx
import pytest
import respx

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
    assert "1 planner runs and 0 steps" in said.stdout
    assert "all came out as recorded" in said.stdout
    document = as_json("replay", log)
    assert (document["runs"], document["different"]) == (1, [])


def test_other_settings_are_compared(log: Path, tmp_path: Path) -> None:
    """By age the older one would go first: still exit code 0, since what was recorded came out."""
    (tmp_path / "fifo.yaml").write_text("queue: {order: fifo}\n")
    document = as_json("replay", log, "--with", tmp_path / "fifo.yaml")
    assert document["would_differ"] == 1
    assert {one["gang"] for one in document["examples"]} == {"default/older", "default/heavy"}


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


@respx.mock
def test_nothing_to_fetch(tmp_path: Path) -> None:
    out = tmp_path / "fetched.gz"
    route = respx.get(f"{URL}/v1/record").respond(404, json={"detail": "set record.enabled to true"})
    assert "record.enabled" in refused("record", "--url", URL, "-o", out, code=1)
    route.mock(side_effect=httpx.ConnectError("refused"))
    assert "does netgang run there?" in refused("record", "--url", URL, "-o", out, code=1)
    assert not out.exists()
