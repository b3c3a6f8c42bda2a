"""The parts of an explanation: the next gang, the reservations, what zones lack, and the words for all that."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from scoring.explain.around import Around, Decision, Note, Topic
from scoring.explain.gang import Explanation, explain
from scoring.explain.turn import MOST_NAMED, Reservation
from scoring.explain.unblock import Trials
from scoring.explain.waiting import why_it_waits
from scoring.explain.words import change_text, changes_text
from scoring.explain.zones import why_closed
from scoring.ids import EndpointId, GangKey, Namespace, NodeName, ResourceName, ZoneName
from scoring.model import Constraints, Gang, GangSource, HostPort, Node, Pod, Role, Taint
from scoring.model.policy import Policy
from scoring.model.snapshot import Claim
from scoring.network.measurement import Metric
from scoring.plan import PlannerCache, plan
from scoring.plan.steps import finish
from scoring.what_if import changes as c
from scoring.what_if.changes import Change
from scoring.what_if.draft import Situation
from tests.builders import bound, gang, mesh, node, pod, snapshot
from tests.scoring.plan.planned import dressed

A1, B1 = node("a1", zone="a", cpu="4"), node("b1", zone="b", cpu="2")


def told(
    wish: Gang,
    *others: Gang,
    nodes: Iterable[Node] = (A1, B1),
    pods: Iterable[Pod] = (),
    now_s: float = 10.0,
    around: Around | None = None,
    **fields: object,
) -> Explanation:
    """The explanation of `wish`."""
    state = snapshot(nodes, [wish, *others], pods=pods, **fields)  # type: ignore[arg-type]
    made = plan(state, Policy(), now_s=now_s)
    return explain(state, made, wish, Policy(), now_s=now_s, around=around or Around())


# -- which gang is next ---------------------------------------------------------------------------------------------


def test_who_is_ahead() -> None:
    """Those that wait and those that were admitted, by name and number; those that start have their room promised."""
    many = [gang(f"f{i:02}", 5, priority=9, created_s=float(i)) for i in range(MOST_NAMED + 2)]
    let_in, starts = gang("let-in", 2, priority=5), gang("starts", 1, priority=7)
    turn = told(gang("g", 3), let_in, starts, *many, commitments={starts.key: {"uid-default-starts-0": "b1"}}).turn
    assert turn.ahead.waiting == tuple(one.key for one in many[:MOST_NAMED])
    assert turn.ahead.waiting_count == MOST_NAMED + 2
    assert "default/let-in" in turn.ahead.admitted
    assert turn.ahead.starting == ("default/starts",)
    assert (turn.entry.rank, turn.of) == (MOST_NAMED + 5, MOST_NAMED + 5)


def test_a_gang_that_wants_nothing_has_no_rank() -> None:
    """It runs."""
    turn = told(gang("g", members=[bound(pod("g-0", gang="g"), "a1")])).turn
    assert (turn.entry.rank, turn.starves_at_s, turn.reservation) == (None, None, None)


def kept(wish: Gang, *others: Gang, **fields: object) -> Reservation | None:
    """What is kept for `wish`."""
    return told(wish, *others, **fields).turn.reservation  # type: ignore[arg-type]


def test_what_is_kept_for_a_gang() -> None:
    """Committed, planned, held until its turn ends, or claimed: each with its nodes."""
    wish = gang("g", 2)
    nodes = {"uid-default-g-0": "a1", "uid-default-g-1": "gone"}
    committed = kept(wish, commitments={wish.key: nodes})
    assert committed == Reservation("committed", (ZoneName("a"),), {"g-0": "a1", "g-1": "gone"})  # type: ignore[dict-item]
    planned = kept(wish)
    assert planned is not None
    assert (planned.kind, dict(planned.nodes)) == ("planned", {"g-0": "b1", "g-1": "b1"})
    held = kept(gang("g", 4), pods=[pod("x", node="a1")], now_s=2000.0)
    assert held is not None
    assert (held.kind, held.held_nodes, held.until_s) == ("held", ("a1",), 1800.0 + 7200.0)
    again = kept(gang("g", 4), pods=[pod("x", node="a1")], now_s=1800.0 + 3 * 7200.0 + 5.0)
    assert again is not None
    assert again.until_s == 1800.0 + 4 * 7200.0
    claim = Claim(wish.key, {wish.members[0].uid: A1.name}, (GangKey("default/low"),))
    busy = [pod("x", cpu="4", node="a1"), pod("y", cpu="2", node="b1")]
    claimed = kept(wish, pods=busy, claims={wish.key: claim})
    assert claimed is not None
    assert (claimed.kind, dict(claimed.nodes), claimed.givers) == ("claimed", {"g-0": "a1"}, ("default/low",))


# -- members and notes ------------------------------------------------------------------------------------------------


def test_why_members_have_no_node() -> None:
    """Held at bind, behind others' gates, beyond the minimum, deleted, or on a node that is gone."""
    members = [
        replace(bound(pod("g-0", gang="g", role=Role.WORKER, index=0), "gone")),
        pod("g-1", gang="g", role=Role.WORKER, index=1, gates=("x/y",)),
        pod("g-2", gang="g", role=Role.WORKER, index=2, deleting=True),
        pod("g-3", gang="g", role=Role.WORKER, index=3),
        pod("g-4", gang="g", role=Role.WORKER, index=4, cpu="9"),
    ]
    wish = gang("g", members=members, min_member=1)
    held = Around(held=(members[3].uid,))
    found = {one.pod: (one.state, one.why) for one in told(wish, around=held).members}
    assert found == {
        "g-0": ("running", "node gone is gone"),
        "g-1": ("gated", "others have not removed scheduling gate x/y"),
        "g-2": ("deleting", "it is being deleted"),
        "g-3": ("held", "its bind is held until the minimum has come"),
        "g-4": ("pending", "it is beyond the minimum, and starts when there is room"),
    }


def test_notes() -> None:
    """What the snapshot shows, and what was read besides."""
    lost = gang("g", members=[bound(pod("g-0", gang="g"), "gone"), pod("g-1", gang="g", gates=("x/y",))], min_member=2)
    read = Note(Topic.DEADLINE, "soon")
    found = told(lost, around=Around(notes=(read,), decisions=(Decision(1.0, "admit"),)))
    assert [note.topic for note in found.notes] == [Topic.GATE, Topic.NODE, Topic.DEADLINE]
    assert found.decisions == (Decision(1.0, "admit"),)
    assert (found.missing.count, found.missing.why) == (1, "1 of 2 pods exist, beside those on gone, which is gone")
    gated = told(gang("g", 9, gates=("netgang.io/gang",)))
    assert "wait at a scheduling gate" in gated.notes[0].text
    few = told(gang("g", 1, min_member=2))
    assert [note.topic for note in few.notes] == [Topic.QUOTA]


# -- zones ------------------------------------------------------------------------------------------------------------


def test_what_zones_lack() -> None:
    """Each resource with its nodes; members that may go nowhere, and why."""
    wish = gang("g", 3, cpu="2", memory="1Gi")
    zones = told(wish, nodes=[A1, replace(B1, ready=False)], pods=[pod("x", cpu="1", node="a1")]).zones
    assert [(one.zone, [(s.resource, s.amount, s.nodes) for s in one.short], one.homeless) for one in zones] == [
        ("a", [("cpu", 3000, (("a1", 3000),))], 0),
        ("b", [], 3),
    ]
    assert dict(zones[1].closed) == {"not ready": 1}


def test_what_is_short_in_the_closest_zones_only() -> None:
    """Events name one zone: of equals the last by name, as their sentence does."""
    wish = gang("g", 9)
    state = snapshot([A1, replace(A1, name=NodeName("c1"), zone=ZoneName("c")), B1], [wish])
    made = plan(state, Policy(), now_s=0.0)
    zones = explain(state, made, wish, Policy(), now_s=0.0, closest=1).zones
    assert [(one.zone, len(one.short)) for one in zones] == [("a", 0), ("b", 0), ("c", 1)]


def test_members_with_one_port_share_no_node() -> None:
    """The second one lacks a node, not a resource."""
    wish = gang(
        "g", members=[dressed(pod(f"g-{i}", gang="g"), host_ports=(HostPort("TCP", "", 80),)) for i in range(2)]
    )
    [zone] = told(wish, nodes=[A1]).zones
    assert (zone.short, zone.homeless) == ((), 1)


def test_how_good_and_how_far() -> None:
    """An estimate of the network score where there is room, with ps and siblings too; distance to the users."""
    nodes = [node(f"a{i}", zone="a", cpu="2") for i in range(3)]
    network = mesh(nodes)
    ps = pod("g-ps", gang="g", role=Role.PS)
    workers = [pod(f"g-{i}", gang="g", role=Role.WORKER, index=i) for i in range(2)]
    for members in ([ps, *workers], [bound(ps, "a0"), *workers], [bound(workers[0], "a0"), workers[1]]):
        [zone] = told(gang("g", members=members, options={"near": "a"}), nodes=nodes, network=network).zones
        assert zone.score == pytest.approx(99.5, abs=1.0)
        assert zone.distance_ms == 0.0


CLOSED = {
    "marked for removal": replace(A1, leaving=True),
    "cordoned": replace(A1, unschedulable=True),
    "taint k not tolerated": replace(A1, taints=(Taint("k", "v", "NoSchedule"),)),
    "labels are not those that the pods ask for": A1,
}


@pytest.mark.parametrize(("why", "where"), CLOSED.items(), ids=CLOSED)
def test_why_a_node_is_closed(why: str, where: Node) -> None:
    """The first thing that is found."""
    assert why_closed(where, Constraints(node_selector=(("disk", "ssd"),))) == why


# -- words ------------------------------------------------------------------------------------------------------------

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
    """Resource by resource."""
    parts = [c.AddCapacity(ZoneName("D"), GPU, n, {NodeName(f"d{n}"): n}) for n in (1, 2)]
    assert (
        changes_text([*parts, c.JobEnds(KEY)], now_s=0.0)
        == "3 more nvidia.com/gpu in zone D (on d1, d2), and job team/a ends"
    )


def test_reasons_without_a_sentence_of_their_own_are_said_as_they_are() -> None:
    """With their particulars."""
    wish = gang("g", members=[bound(pod("g-0", gang="g"), "a1"), pod("g-1", gang="g", cpu="9")], min_member=1)
    state = snapshot([A1], [wish])
    made = plan(state, Policy(), now_s=0.0)
    said = why_it_waits(explain(state, made, wish, Policy(), now_s=0.0), wish, made, state)
    assert said.startswith("netgang: the gang runs, no room for members beyond min-available (")


# -- trials -----------------------------------------------------------------------------------------------------------


def test_trials_end() -> None:
    """After the last one nothing is tried any more; the service's cache is only read."""
    wish = gang("g", 9)
    state = snapshot([A1], [wish, replace(wish, key=GangKey("a/native"), source=GangSource.NATIVE)])
    cache = PlannerCache()
    made = plan(state, Policy(), now_s=0.0, cache=cache)
    before = dict(cache.scores)
    trials = Trials(Situation(state, Policy(), 0.0), made, wish.key, cache=cache.borrowed(), most=1)
    assert finish(trials.of([c.ClockAdvances(1.0)])) is not None
    assert finish(trials.of([c.ClockAdvances(1.0)])) is None
    assert cache.scores == before
