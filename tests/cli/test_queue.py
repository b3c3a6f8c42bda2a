"""`netgang queue`: the order, the reasons, the gangs ahead; for people and machines; and looking again and again."""

import json
import re
from typing import Any

import msgspec
import pytest

from extender.api.documents.queue import queue_document
from scoring.explain.queue_report import report
from scoring.model.policy import Policy
from scoring.plan import Plan, plan
from scoring.plan.steps import finish
from tests.builders import gang, node, snapshot
from tests.cli.world import as_json, run, served, shown
from tests.fakes.raw_http import RawServer

PATH = "/v1/queue"


def document() -> dict[str, Any]:
    """A full cluster: one gang is admitted, two of namespace a wait, one of b is too large without end."""
    listed = [
        gang("fits", 2, cpu="4", namespace="b", created_s=1.0),
        gang("first", 2, cpu="3", namespace="a", created_s=2.0),
        gang("second", 1, cpu="3", namespace="a", created_s=3.0),
        gang("huge", 9, cpu="4", namespace="b", created_s=4.0),
    ]
    state = snapshot([node("n1", cpu="8")], listed)
    made = plan(state, Policy(), now_s=100.0, previous=Plan(version=-1))
    return json.loads(msgspec.json.encode(finish(queue_document(report(state, made, Policy(), now_s=100.0)))))


def lines(content: Any, *arguments: object) -> list[str]:
    with RawServer({PATH: served(content)}) as server:
        return shown("queue", "--url", server.url, *arguments, columns=160)


def gangs(content: Any, *arguments: object) -> list[str]:
    return [found[1] for line in lines(content, *arguments) if (found := re.match(r"│ \S+ │ (\S+/\S+) ", line))]


def test_the_queue_is_in_the_order_of_turns() -> None:
    queue = document()
    assert gangs(queue) == [one["gang"] for one in queue["gangs"]]
    text = "\n".join(lines(queue))
    assert "0 of 2 run" in text
    assert "is admitted to zone" in text
    assert "the gang would not fit into the empty cluster" in text
    assert text.endswith("4 WAITING; order: weight")


def test_behind_whom_counts_those_that_wait_without_a_place() -> None:
    queue = document()
    waiting = [one["gang"] for one in queue["gangs"] if not one["admitted"]]
    assert len(waiting) == 3
    text = "\n".join(lines(queue, "-n", waiting[2].partition("/")[0]))
    assert f"behind {waiting[1]} and 1 more" in text
    assert f"behind {waiting[0]}" not in "\n".join(lines(queue, "--state", "running"))


def test_filters_are_for_people_and_machines() -> None:
    queue = document()
    assert gangs(queue, "-n", "a") == [one["gang"] for one in queue["gangs"] if one["gang"].startswith("a/")]
    assert gangs(queue, "--state", "starving") == []
    with RawServer({PATH: served(queue)}) as server:
        found = as_json("queue", "--url", server.url, "--namespace", "b")
        whole = as_json("queue", "--url", server.url)
    assert whole == queue
    assert {one["gang"] for one in found["gangs"]} == {"b/fits", "b/huge"}
    assert found | {"gangs": []} == queue | {"gangs": []}


def test_a_long_queue_is_cut_aloud() -> None:
    queue = document()
    assert gangs(queue, "--limit", 1) == [queue["gangs"][0]["gang"]]
    assert "1 of 4 gangs; see --namespace, --state and --limit" in lines(queue, "--limit", 1)


def test_names_are_never_cut() -> None:
    queue = document()
    queue["gangs"][0]["gang"] = "a-team/a-rather-long-name-of-a-job"
    with RawServer({PATH: served(queue)}) as server:
        text = run("queue", "--url", server.url, columns=80).stdout
    column = "".join(line.split("│")[2].strip() for line in text.splitlines() if line.startswith("│"))
    assert "a-team/a-rather-long-name-of-a-job" in column


def entry(**fields: Any) -> dict[str, Any]:
    usual = {"gang": "a/g", "queue": "WQ", "state": "WAITING", "rank": 1, "priority": 0, "admitted": False}
    weight = {"omega": 0.5, "omega_prime": 2.0, "exact": "2", "given": False}
    members = {"min_available": 2, "pending": 2, "running": 0, "succeeded": 0, "failed": 0}
    nothing = dict.fromkeys(("code", "reason", "zone", "leaves_for"))
    clock = dict.fromkeys(("waiting_since_s", "waited_s", "starves_in_s", "running_since_s"))
    rest = {"created_s": 0.0, "held_nodes": [], "makes_room": [], "detail": ""}
    return {**usual, "weight": weight, "members": members, **nothing, **clock, **rest, **fields}


SAYS = {  # case: (fields of the entry, part of the row)
    "held": ({"held_nodes": ["n1", "n2"], "zone": "D"}, "2 nodes are held for it in zone D"),
    "one is held": ({"held_nodes": ["n1"]}, "1 node is held for it"),
    "gangs that leave": ({"makes_room": ["b/x", "b/y"]}, "makes room: b/x, b/y"),
    "it leaves": ({"leaves_for": "b/z", "queue": "RQ", "state": "RUNNING"}, "leaves for b/z"),
    "starves soon": ({"starves_in_s": 240.0, "waited_s": 30.0}, "30 s │ 4 min"),
    "starves": ({"starves_in_s": 0.0, "waited_s": 7200.0, "state": "STARVING"}, "2 h 0 min │ now"),
    "given weight": ({"weight": {"omega": 1.0, "omega_prime": 99.0, "exact": "99", "given": True}}, "99 (given)"),
    "markup": ({"reason": "[red]x\x1b[2J"}, "[red]x�[2J"),
    "ended members": (
        {"members": {"min_available": 2, "pending": 0, "running": 1, "succeeded": 1, "failed": 1}},
        "1 of 2 run",
    ),
}


@pytest.mark.parametrize(("fields", "said"), SAYS.values(), ids=SAYS)
def test_a_row_says_what_counts(fields: dict[str, Any], said: str) -> None:
    queue = {"at_s": 1.0, "order": "weight", "counts": {}, "gangs": [entry(**fields)], "shares": []}
    assert any(said in line for line in lines(queue))


def test_shares_are_told() -> None:
    share = {"namespace": "a", "cap": 0.5, "cpu": 0.25, "memory": 0.4}
    queue = {"at_s": 1.0, "order": "fifo", "counts": {"WAITING": 0}, "gangs": [], "shares": [share]}
    assert lines(queue) == ["no gangs; order: fifo", "namespace a: 40% of the cluster, of at most 50%"]


def test_it_looks_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.commands.queue._AGAIN_S", 0.01)
    queue = {"at_s": 1.0, "order": "weight", "counts": {}, "gangs": [], "shares": []}
    for more, wanted in (((), "no gangs; order: weight"), (("--json",), json.dumps(queue))):
        with RawServer({PATH: served(queue)}) as server:
            server.answers[PATH] = _until_third(server, queue)
            result = run("queue", "--url", server.url, "--watch", *more)
        assert result.exit_code == 1
        assert result.stdout.splitlines() == [wanted] * 3
        assert "not what netgang answers" in result.stderr


def _until_third(server: RawServer, queue: Any) -> Any:
    def act(connection: Any, _: Any) -> None:
        connection.sendall(served(queue) if len(server.requests) <= 3 else served([]))

    return act
