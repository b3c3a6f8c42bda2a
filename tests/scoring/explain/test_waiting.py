"""Why a gang waits, in a sentence: what is missing, where, behind which gangs; and changes in words."""

from collections.abc import Iterable
from typing import Any

import pytest

from scoring.explain.gang import explain
from scoring.explain.waiting import why_it_waits
from scoring.explain.words import change_text, changes_text
from scoring.ids import EndpointId, GangKey, Namespace, NodeName, ResourceName, ZoneName
from scoring.model import Gang, Node, Pod
from scoring.model.policy import Policy
from scoring.model.snapshot import Snapshot
from scoring.network.measurement import Metric
from scoring.plan import plan
from scoring.what_if import changes as c
from scoring.what_if.changes import Change
from tests.builders import gang, node, pod, snapshot


def said(wanted: Gang, nodes: Iterable[Node], *others: Gang, pods: Iterable[Pod] = (), **fields: object) -> str:
    state: Snapshot = snapshot(nodes, [wanted, *others], pods=pods, **fields)  # type: ignore[arg-type]
    made = plan(state, Policy(), now_s=0.0)
    return why_it_waits(explain(state, made, wanted, Policy(), now_s=0.0), wanted, made, state)


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


CPU, GPU = ResourceName("cpu"), ResourceName("nvidia.com/gpu")
KEY = GangKey("team/a")
WORDS: dict[str, Change] = {
    "500m more cpu in zone a": c.AddCapacity(ZoneName("a"), CPU, "500m"),
    "3 more places for pods in the nodes without a zone (on n1)": c.AddCapacity(
        ZoneName(""), ResourceName("pods"), 3, {NodeName("n1"): 3}
    ),
    "1 more node like n1 in zone a": c.AddNodes(ZoneName("a"), 1, like=NodeName("n1")),
    "nodes n1, n2 gone": c.RemoveNodes((NodeName("n1"), NodeName("n2"))),
    "1 more pod of team/a with cpu 1": c.AddPods(Namespace("team"), "a", 1, "a", requests={"cpu": 1}),
    "2 more pods team/x on n1": c.AddPods(Namespace("team"), "x", 2, node=NodeName("n1")),
    "pod team/a-0 gone": c.RemovePods(("team/a-0",)),
    "job team/a ends": c.JobEnds(KEY),
    "job team/a shrinks by 2": c.JobShrinks(KEY, 2),
    "job team/a grows by 2": c.JobGrows(KEY, 2),
    "4 min pass": c.ClockAdvances(250.0),
    "delay from x to y is 90": c.SetLink(EndpointId("x"), EndpointId("y"), Metric.DELAY, 90.0),
    "team/a has annotation netgang.io/zones=b": c.SetOption(KEY, "zones", "b"),
    "team/a loses annotation netgang.io/zones": c.SetOption(KEY, "zones", None),
    "namespace team may have 0.5 of the cluster": c.SetShare(Namespace("team"), 0.5),
    "nodes n1, n2 uncordoned": c.UncordonNodes((NodeName("n1"), NodeName("n2"))),
    "the pods of team/a tolerate taint dedicated": c.Tolerate(KEY, "dedicated"),
    "the settings are others": c.SetSettings({}),
    "the other scheduling gates of team/a's pods are removed": c.OpenGates(KEY),
    "what contradicts itself in team/a's pods is put right": c.MendGroup(KEY),
    "kube-scheduler's own filters accept the nodes for team/a again": c.ForgetRefusals(KEY),
}


@pytest.mark.parametrize(("text", "change"), WORDS.items(), ids=WORDS)
def test_every_change_has_words(text: str, change: Change) -> None:
    """For people, at second 10."""
    assert change_text(change, now_s=10.0) == text


def test_room_of_one_zone_is_added_up() -> None:
    parts = [c.AddCapacity(ZoneName("D"), GPU, n, {NodeName(f"d{n}"): n}) for n in (1, 2)]
    said = changes_text([*parts, c.JobEnds(KEY)], now_s=0.0)
    assert said == "3 more nvidia.com/gpu in zone D (on d1, d2), and job team/a ends"
