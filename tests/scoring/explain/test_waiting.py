"""Why a gang waits: each cause in the words of every output but the page, and the sentences made of it."""

import io
from collections.abc import Iterable
from typing import Any

import pytest
from rich.console import Console

from cli.rendering.explained import print_explanation
from scoring.explain.gang import explain, why_it_waits
from scoring.model import Gang, Node, Pod
from scoring.model.policy import Policy
from scoring.model.snapshot import Snapshot
from scoring.plan import plan
from tests.builders import gang, node, pod, snapshot
from tests.scoring.explain.cases import CASES, Case, explained


def said(wanted: Gang, nodes: Iterable[Node], *others: Gang, pods: Iterable[Pod] = (), **fields: object) -> str:
    state: Snapshot = snapshot(nodes, [wanted, *others], pods=pods, **fields)  # type: ignore[arg-type]
    made = plan(state, Policy(), now_s=0.0)
    return why_it_waits(explain(state, made, wanted, Policy(), now_s=0.0), state)


A, B = node("a1", zone="a", cpu="3"), node("b1", zone="b", cpu="2")
FULL = {"pods": [pod("other", node="a1", cpu="2", scheduler_name="x")]}
BUSY = {"pods": [pod("other", node="a1", cpu="1", scheduler_name="x")]}
LATE, THREE = gang("g", 2, created_s=9.0), gang("g", 3)
AHEAD = [gang(f"f{i}", 1, created_s=float(i), priority=1) for i in range(3)]
LARGE = [gang(name, 3, created_s=float(i), priority=1) for i, name in enumerate(("f1", "f2"))]
MIXED = gang("g", members=[pod("g-0", gang="g", cpu="3"), pod("g-1", gang="g", cpu="2")])


SENTENCES: dict[str, tuple[str, Gang, list[Node], list[Gang], dict[str, Any]]] = {  # case: (sentence, …: more; cluster)
    "how much is missing in the zone with most room, and what one member asks for": (
        "Too little room is free: zone b has room for 2 of 3 pods (cpu 1 each), 1 more cpu would do.",
        THREE, [A, B], [], FULL),
    "members that ask for different things have room one by one": (
        "Too little room is free: zone a has room for each of its pods, not for all at once: 1 more cpu would do.",
        MIXED, [node("a1", zone="a", cpu="5")], [], BUSY),
    "those that wait ahead are counted": ("… 2 gangs wait ahead of it.", THREE, [A], LARGE, FULL),
    "room went to gangs ahead in its zones: two are named": (
        "There is room for it, and 3 gangs ahead of it in the queue were given that room. netgang queue shows the "
        "order. Planned ahead of it: default/f0, default/f1 and 1 more.", LATE, [A], AHEAD, {}),
    "with `preferred` how long it will not be spread": (
        "…It waits for room in one zone, and may be spread over zones in 300 s.",
        gang("g", 4, options={"zone-policy": "preferred"}), [A, B], [], {}),
    "nothing of a gang that does not wait": ("", gang("g", 2), [A, B], [], {}),
}  # fmt: skip


@pytest.mark.parametrize(("want", "wanted", "nodes", "others", "rest"), SENTENCES.values(), ids=SENTENCES)
def test_why_it_waits(want: str, wanted: Gang, nodes: list[Node], others: list[Gang], rest: dict[str, Any]) -> None:
    begin, more, end = want.partition("…")
    text = said(wanted, nodes, *others, **rest)
    assert text == want or (more and text.startswith(begin) and text.endswith(end))


# -- each cause --------------------------------------------------------------------------------------------------------
#
# The Event (and with it PodGroup and conditions, which carry its note), `/v1/explain` and the CLI go through the
# functions that make them; the page: tests/extender/web/test_page.py.


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_output_names_the_cause(case: Case) -> None:
    found, _, state = explained(case)
    cause = found.cause
    assert cause is not None
    assert cause.reason == case.reason, cause
    said = f"{cause.message} {cause.suggestion}".strip()
    assert not [words for words in case.says if words not in said], said
    assert "secret" not in said  # no gang of another namespace is named
    if found.code is not None:
        assert why_it_waits(found, state).startswith(said)  # Event, and what carries its note
    console = Console(file=io.StringIO(), width=1000, color_system=None)
    print_explanation(console, found)
    assert f"{case.reason}: {said}" in console.file.getvalue()  # type: ignore[attr-defined]
