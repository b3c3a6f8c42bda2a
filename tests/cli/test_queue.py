"""`netgang queue`: the order, the reasons, the gangs ahead; for people and machines."""

import json
import re
from typing import Any

import msgspec
import pytest
from rich.console import Console

from cli.tables import queue_table
from scoring.explain.queue_report import report
from scoring.model.policy import Policy
from scoring.plan import Plan, plan
from scoring.records import Queue
from tests.builders import gang, node, snapshot
from tests.cli.world import as_json, refused, run, shown

PATH = "/v1/queue"
EMPTY: dict[str, Any] = {"at_s": 1.0, "order": "weight", "counts": {}, "gangs": []}


def entry(**fields: Any) -> dict[str, Any]:
    usual = {"gang": "a/g", "queue": "WQ", "state": "WAITING", "rank": 1, "priority": 0, "admitted": False}
    weight = {"omega": 0.5, "omega_prime": 2.0, "exact": "2", "given": False}
    members = {"min_available": 2, "pending": 2, "running": 0, "succeeded": 0, "failed": 0}
    nothing = dict.fromkeys(("code", "reason", "zone", "leaves_for"))
    clock = dict.fromkeys(("waiting_since_s", "waited_s", "starves_in_s", "running_since_s"))
    rest = {"created_s": 0.0, "held_nodes": [], "makes_room": [], "detail": ""}
    return {**usual, "weight": weight, "members": members, **nothing, **clock, **rest, **fields}


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
    return json.loads(msgspec.json.encode(report(state, made, Policy(), now_s=100.0)))


def lines(content: Any, *arguments: object) -> list[str]:
    return shown("queue", *arguments, columns=160, told={PATH: content})


def gangs(content: Any, *arguments: object) -> list[str]:
    return [found[1] for line in lines(content, *arguments) if (found := re.match(r"[\d–]+ (\S+/\S+) ", line))]


def test_the_queue_is_in_the_order_of_turns() -> None:
    queue = document()
    assert gangs(queue) == [one["gang"] for one in queue["gangs"]]
    assert lines(queue) == [
        "RANK GANG STATE RUN WAITED WHY",
        "1 a/first WAITING 0/2 100 s admitted to zone a, starting",
        "2 b/fits WAITING 0/2 100 s most room in zone a: 0 of 2 members",
        "3 a/second WAITING 0/1 100 s most room in zone a: 0 of 1 members",
        "– b/huge WAITING 0/9 – 9 members at once fit in no allowed zone, even when it is empty",
        "4 WAITING; order: weight",
    ]


BEHIND = {  # case: (fields of the gangs ahead of a/me, rank 9, which of them are in the way)
    "admitted and holding": (
        [{"gang": "a/1", "admitted": True}, {"gang": "a/2", "held_nodes": ["n1"]}], "behind a/1 and 1 more"),
    "room that other gangs leave": ([{"gang": "a/1", "makes_room": ["a/0"]}], "behind a/1"),
    "waiting as well": ([{"gang": "a/1"}, {"gang": "a/2"}], None),
    "running": ([{"gang": "a/1", "queue": "RQ", "rank": None, "admitted": True}], None),
    "behind it": ([{"gang": "a/1", "admitted": True, "rank": 10}], None),
}  # fmt: skip


@pytest.mark.parametrize(("ahead", "said"), BEHIND.values(), ids=BEHIND)
def test_behind_are_gangs_that_have_the_room(ahead: list[dict[str, Any]], said: str | None) -> None:
    """A gang that waits without room is in the way of none, and no gang is in the way of one that fits without them."""
    listed = [entry(**{"rank": number, **fields}) for number, fields in enumerate(ahead, start=1)]
    for code, wanted in (("BEHIND", said), ("NO_ROOM", None)):
        queue = {**EMPTY, "gangs": [*listed, entry(gang="a/me", rank=9, code=code, detail="no room")]}
        line = lines(queue, "a/me", "-o", "wide")[1]
        assert line.endswith(f"no room; {wanted}" if wanted else "no room")


def test_filters_are_for_people_and_machines() -> None:
    queue = document()
    assert gangs(queue, "-n", "a") == [one["gang"] for one in queue["gangs"] if one["gang"].startswith("a/")]
    assert gangs(queue, "second", "-n", "a") == gangs(queue, "a/second") == ["a/second"]
    assert gangs(queue, "--state", "starving") == []
    found = as_json("queue", "--namespace", "b", told={PATH: queue})
    assert as_json("queue", told={PATH: queue}) == queue
    assert {one["gang"] for one in found["gangs"]} == {"b/fits", "b/huge"}
    assert found | {"gangs": []} == queue | {"gangs": [], "counts": {**queue["counts"], "WAITING": 2}}
    assert lines(queue, "-n", "a")[-1] == "2 WAITING; order: weight"


def test_what_is_not_known_is_wrong_use() -> None:
    for arguments, said in (
        (("a/secnd",), "no gang a/secnd is known; did you mean second?"),
        (("exp/7_B", "-n", "a"), "no gang a/exp/7_B is known; gangs of a: first, second"),
        (("-n", "team"), "no gang of namespace team is known; namespaces with gangs: a/, b/"),
    ):
        assert said in refused("queue", *arguments, told={PATH: document()})


def test_21_gangs_fit_a_terminal_of_24_lines() -> None:
    """One line a gang, of 80 columns at most: the last column ends in an ellipsis, a name never does."""
    name = "a-team/a-rather-long-name-of-a-job"
    cause = "most room in zone D: 3 of 9 members, and more words than a line has"
    listed = [entry(gang=f"{name}-{number:02}", rank=number, detail=cause) for number in range(1, 22)]
    found = msgspec.convert({**EMPTY, "counts": {"WAITING": 21}, "gangs": listed}, Queue)
    console = Console(width=80, height=24, force_terminal=True, color_system=None)
    with console.capture() as text:
        console.print(queue_table(console, found, found.gangs, wide=False))
    shown_lines = text.get().splitlines()
    assert len(shown_lines) == 23
    assert max(map(len, shown_lines)) <= 80
    assert [line.split()[1] for line in shown_lines[1:22]] == [one["gang"] for one in listed]
    assert all(line.rstrip().endswith("…") for line in shown_lines[1:22])
    assert "NETWORK" not in shown_lines[0]
    assert {line.index("WAITING") for line in shown_lines[1:22]} == {shown_lines[0].index("STATE")}


def test_a_gang_over_a_bad_link_is_red() -> None:
    listed = [entry(gang="a/x", bad_link="bad link n1 → n2: 13 % loss"), entry(gang="a/y")]
    found = msgspec.convert({**EMPTY, "counts": {"RUNNING": 2}, "gangs": listed}, Queue)
    console = Console(width=120, force_terminal=True, color_system="standard")
    with console.capture() as text:
        console.print(queue_table(console, found, found.gangs, wide=False))
    red = [line for line in text.get().splitlines() if "\x1b[31m" in line]
    assert len(red) == 1
    assert "\x1b[31mbad link n1 → n2: 13 % loss" in red[0]


def test_a_pipe_gets_whole_lines_without_box_drawing() -> None:
    queue = {**EMPTY, "gangs": [entry(detail="long " * 60 + "end")]}
    text = run("queue", columns=80, told={PATH: queue}).stdout
    assert text.splitlines()[1].endswith("end")
    assert text.isascii() or not re.search("[\u2500-\u257f]", text)
    assert all(line == line.rstrip() for line in text.splitlines())


SAYS = {  # case: (fields of the entry, part of the row)
    "held": ({"held_nodes": ["n1", "n2"], "zone": "D"}, "2 nodes held for it in zone D"),
    "one is held": ({"held_nodes": ["n1"]}, "1 node held for it"),
    "gangs that leave": ({"makes_room": ["b/x", "b/y"]}, "waits until b/x, b/y left"),
    "it leaves": ({"leaves_for": "b/z", "queue": "RQ", "state": "RUNNING"}, "leaves for b/z"),
    "starves soon": ({"starves_in_s": 240.0, "waited_s": 30.0}, "30 s 4 min"),
    "starves": ({"starves_in_s": 0.0, "waited_s": 7200.0, "state": "STARVING"}, "2 h 0 min now"),
    "given weight": ({"weight": {"omega": 1.0, "omega_prime": 99.0, "exact": "99", "given": True}}, "99 (given)"),
    "a line break": ({"reason": "x\ny"}, "x; y"),
    "markup": ({"reason": "[red]x\x1b[2J"}, "[red]x�[2J"),
    "ended members": ({"members": {"min_available": 2, "pending": 0, "running": 1, "succeeded": 1, "failed": 1}},
        "WAITING 1/2 – – 2 0 2"),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "said"), SAYS.values(), ids=SAYS)
def test_a_row_says_what_counts(fields: dict[str, Any], said: str) -> None:
    assert any(said in line for line in lines({**EMPTY, "gangs": [entry(**fields)]}, "-o", "wide"))


EXPECTED = {"start_s": 600.0, "after": "a/runs", "promised": True, "unknown": None, "text": "expected about 00:10Z"}


def test_expected_starts_have_a_column_where_there_are_any() -> None:
    unknown = {**EXPECTED, "start_s": None, "unknown": "LENGTH"}
    waits = [entry(gang="a/one", rank=1, expected_start=EXPECTED), entry(gang="a/two", rank=2, expected_start=unknown)]
    heads, first, second, *_ = lines({**EMPTY, "at_s": 0.0, "gangs": waits})
    assert heads.startswith("RANK GANG STATE RUN WAITED STARTS")
    assert " 00:10Z " in first
    assert " – " in second
    assert "STARTS" not in lines({**EMPTY, "gangs": [entry(gang="a/one", rank=1)]})[0].replace("STARTS IN", "")
