"""What an explanation says of one gang: members, zones, notes, reservations, its network, and why it waits."""

import io
import tomllib
from collections.abc import Iterable, Mapping
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from cli.tables import print_explanation
from scoring import EndpointId, GangKey, NodeName, ZoneName
from scoring.explain.gang import explain, why_it_waits
from scoring.explain.queue_report import report
from scoring.explain.zones import gang_network
from scoring.model import Gang, HostPort, Node, Phase, Pod, Resources, Role
from scoring.model.policy import Policy, ScorePolicy, Ttl
from scoring.model.reasons import Reason
from scoring.model.snapshot import Reservation, Snapshot
from scoring.network.matrix import METRICS, Measurement, MeasurementTable, Metric, NetworkMatrix
from scoring.plan import Plan, PlannerCache, begin_run, plan
from scoring.records import Explained, GangNetwork, KeptForGang, WorstLink, ZoneVerdict
from tests.builders import bound, gang, mesh, node, pod, snapshot
from tests.scoring.explain.cases import CASES
from tests.scoring.explain.cases import explained as explained_case
from tests.scoring.plan.planned import dressed

A1, B1 = node("a1", zone="a", cpu="4"), node("b1", zone="b", cpu="2")
TWO_ZONES = [node("a0", zone="a", cpu="2"), node("a1", zone="a", cpu="2"), node("b0", zone="b", cpu="4")]


def explained(
    wanted: Gang,
    *others: Gang,
    nodes: Iterable[Node] = (A1, B1),
    pods: Iterable[Pod] = (),
    now_s: float = 10.0,
    policy: Policy | None = None,
    besides: dict[str, Any] | None = None,
    **fields: object,
) -> Explained:
    policy = policy or Policy()
    state = snapshot(nodes, [wanted, *others], pods=pods, **fields)  # type: ignore[arg-type]
    made = plan(state, policy, now_s=now_s)
    return explain(state, made, wanted, policy, now_s=now_s, **(besides or {}))


def test_an_admitted_gang() -> None:
    found = explained(gang("g", 3), nodes=TWO_ZONES, network=mesh(TWO_ZONES))
    assert (found.gang, found.state, found.min_member, found.problems) == ("default/g", "admitted", 3, ())
    assert {(m.state, m.node) for m in found.members} == {("planned", "b0")}
    assert found.zones == (
        ZoneVerdict("a", True, 2, 3, 3, 3, score=pytest.approx(99.0, abs=1.0)),  # type: ignore[arg-type]
        ZoneVerdict("b", True, 1, 3, 3, 3, score=pytest.approx(100.0)),  # type: ignore[arg-type]
    )


def test_a_gang_that_waits() -> None:
    wanted, ahead = gang("g", 4, options={"zones": "b"}), gang("first", 2, priority=9)
    found = explained(wanted, ahead, nodes=TWO_ZONES, pods=[pod("x", cpu="3", node="b0")])
    assert (found.state, found.code, found.reason) == ("waiting", "NO_ROOM", Reason.NO_ROOM)
    assert [m.state for m in found.members] == ["pending"] * 4
    assert [(z.zone, z.allowed, z.room, z.room_when_empty, z.wanted) for z in found.zones] == [
        ("a", False, 4, 4, 4),
        ("b", True, 1, 4, 4),
    ]


def test_room_of_zones() -> None:
    workers = [pod(f"w{i}", role=Role.WORKER, gang="g") for i in range(5)]
    mixed = gang("g", members=[pod("ps", role=Role.PS, gang="g", cpu="4"), *workers])
    assert [(z.room, z.wanted) for z in explained(mixed, nodes=TWO_ZONES).zones] == [(4, 6), (5, 6)]
    wanted, other = gang("g", 4), gang("h", 2, created_s=1.0)
    held = {
        "default/h": {str(m.uid): "b0" for m in other.members},
        "default/g": {str(m.uid): f"a{i // 2}" for i, m in enumerate(wanted.members)},
    }
    assert [z.room for z in explained(wanted, other, nodes=TWO_ZONES, commitments=held).zones] == [4, 2]
    assert [z.room for z in explained(gang("i", 4), wanted, other, nodes=TWO_ZONES, commitments=held).zones] == [0, 2]
    idle = explained(gang("g", members=[bound(pod("g-0", gang="g"), "a0")]), nodes=TWO_ZONES)
    assert [(z.room, z.wanted) for z in idle.zones] == [(0, 0), (0, 0)]
    assert (idle.state, idle.rank, idle.turn.rank) == ("running", None, None)
    assert idle.turn.reservation is None


RUNS = bound(pod("g-0", gang="g"), "a1")
STATES: dict[str, Pod] = {
    "running": RUNS,
    "bound": replace(RUNS, phase=Phase.PENDING),
    "deleting": replace(RUNS, deleting=True),
    "succeeded": replace(RUNS, phase=Phase.SUCCEEDED),
    "failed": replace(RUNS, phase=Phase.FAILED),
}


@pytest.mark.parametrize(("state", "member"), STATES.items(), ids=STATES)
def test_states_of_members(state: str, member: Pod) -> None:
    assert [(m.pod, m.state, m.node) for m in explained(gang("g", members=[member])).members] == [("g-0", state, "a1")]


def test_why_members_have_no_node() -> None:
    fields: list[dict[str, object]] = [{}, {"gates": ("x/y",)}, {"deleting": True}, {}, {"cpu": "9"}]
    members = [pod(f"g-{i}", gang="g", role=Role.WORKER, index=i, **one) for i, one in enumerate(fields)]  # type: ignore[arg-type]
    members[0] = bound(members[0], "gone")
    found = explained(gang("g", members=members, min_member=1), besides={"held": (members[3].uid,)}).members
    assert {one.pod: (one.state, one.why) for one in found} == {
        "g-0": ("running", "node gone is gone"),
        "g-1": ("gated", "others have not removed scheduling gate x/y"),
        "g-2": ("deleting", "it is being deleted"),
        "g-3": ("held", "its bind is held until the minimum has come"),
        "g-4": ("pending", "it is beyond the minimum, and starts when there is room"),
    }


def test_what_is_not_counted_is_a_note_of_one_word() -> None:
    [card] = gang("g", 1, unmodelled=("resourceClaims",)).members
    asks = replace(card, member_class=replace(card.member_class, requests=Resources.parse({"x.io/card": 1})))
    found, plain = explained(gang("g", members=[asks])), explained(gang("g", 1))
    assert [one for one in found.notes if one.startswith("uncounted: x.io/card, resourceClaims;")]
    assert not [one for one in plain.notes if "uncounted" in one]


def test_notes() -> None:
    wanted = gang("g", 9, gates=("netgang.io/gang",))
    besides = {"notes": ("soon",), "refusals": {pod.uid: "no" for pod in wanted.members[:2]}}
    unseen, words, soon = explained(wanted, besides=besides).notes
    assert unseen.startswith("a cluster autoscaler adds no nodes for it: its pods wait at a scheduling gate")
    assert (words, soon) == ("kube-scheduler, of 2 pods: no", "soon")
    assert explained(gang("g", 1, min_member=2)).notes == ()


@pytest.mark.parametrize(
    ("size", "words"), [(2, "only in room that no other gang can use"), (4, "not with its minimum")]
)
def test_why_a_gang_that_may_be_suspended_waits_with_room_for_its_minimum(size: int, words: str) -> None:
    nodes = [node("a0", zone="a", cpu="6"), node("a1", zone="a", cpu="6")]
    running = gang("runs", members=[bound(pod(f"r{i}", gang="runs", cpu="6"), f"a{i}") for i in range(2)])
    for options, told in (({"suspendable": "true"}, True), ({"suspendable": "false"}, False)):
        found = explained(gang("g", size, min_member=1, cpu="1", options=options), running, nodes=nodes)
        assert found.cause is not None
        assert (words in found.cause.message) is told


NEAR = {  # case: (problems, near, configured distances)
    "a zone": (0, "a", {}),
    "a measured endpoint": (0, "a0", {}),
    "a configured place": (0, "office", {"office": {"b": 3.0}}),
    "an unknown place": (1, "office", {}),
}


@pytest.mark.parametrize(("want", "near", "configured"), NEAR.values(), ids=NEAR)
def test_near_that_decides_nothing_is_said(
    want: int, near: str, configured: dict[ZoneName, dict[ZoneName, float]]
) -> None:
    """`near` names a zone, an endpoint or a configured place; another name is a problem, never ignored in silence."""
    wanted = gang("g", 2, options={"near": near, "selection": "pack"})
    policy = Policy(zone_distance_ms=configured)
    problems = explained(wanted, nodes=TWO_ZONES, network=mesh(TWO_ZONES), policy=policy).problems
    assert want == len(problems) == sum("netgang.io/near: 'office' is no zone" in problem for problem in problems)


# -- which gang is next, and what is reserved -------------------------------------------------------------------------


def test_the_gangs_ahead() -> None:
    many = [gang(f"f{i:02}", 4, priority=9, created_s=float(i)) for i in range(12)]
    admitted, starts = gang("admitted", 2, priority=5), gang("starts", 1, priority=7)
    commitments = {starts.key: {"uid-default-starts-0": "b1"}}
    turn = explained(gang("g", 3), admitted, starts, *many, commitments=commitments, pods=HALF_BUSY["pods"]).turn
    assert turn.ahead.waiting == tuple(g.key for g in many)
    assert "default/admitted" in turn.ahead.admitted
    assert turn.ahead.starting == ("default/starts",)
    assert (turn.rank, turn.of) == (15, 15)
    never = [gang("huge", 99, priority=9), replace(gang("odd", 1, priority=9), problem=Reason.INVALID_GROUP)]
    turn = explained(gang("g", 3), *never, *many, pods=HALF_BUSY["pods"]).turn
    assert (turn.ahead.waiting, turn.rank, turn.of) == (tuple(g.key for g in many), 13, 13), "they are ahead of nobody"


PAIR = gang("g", 2)
PROMISED = {PAIR.key: {"uid-default-g-0": "a1", "uid-default-g-1": "gone"}}
CLAIM = Reservation(PAIR.key, {PAIR.members[0].uid: A1.name}, (GangKey("default/low"),))
BUSY = [pod("x", cpu="4", node="a1"), pod("y", cpu="2", node="b1")]
AT_A1 = (NodeName("a1"),)
WEEK_S = 7 * 86_400.0
"""From when room is reserved for a STARVING gang"""
RESERVED = {  # kind: (what is reserved, gang, the rest of the cluster)
    "committed": (KeptForGang("committed", "a", {"g-0": "a1", "g-1": "gone"}), PAIR, {"commitments": PROMISED}),  # type: ignore[dict-item]
    "planned": (KeptForGang("planned", "b", {"g-0": B1.name, "g-1": B1.name}), PAIR, {}),
    "held": (KeptForGang("held", "a", {}, AT_A1, WEEK_S + 7200.0), gang("g", 4),
        {"pods": [pod("x", node="a1")], "now_s": WEEK_S + 5.0}),
    "held again": (KeptForGang("held", "a", {}, AT_A1, WEEK_S + 3 * 7200.0), gang("g", 4),
        {"pods": [pod("x", node="a1")], "now_s": WEEK_S + 2 * 7200.0 + 5.0}),
    "claimed": (KeptForGang("claimed", "a", {"g-0": A1.name}, AT_A1), PAIR,
        {"pods": BUSY, "claims": {PAIR.key: CLAIM}}),
}  # fmt: skip


@pytest.mark.parametrize(("want", "wanted", "cluster"), RESERVED.values(), ids=RESERVED)
def test_what_is_reserved_for_a_gang(want: KeptForGang, wanted: Gang, cluster: dict[str, Any]) -> None:
    assert explained(wanted, **cluster).turn.reservation == want


def test_what_zones_lack() -> None:
    wanted = gang("g", 3, cpu="2", memory="1Gi")
    zones = explained(wanted, nodes=[A1, replace(B1, ready=False)], pods=[pod("x", cpu="1", node="a1")]).zones
    assert [(one.zone, [(s.resource, s.amount, s.nodes) for s in one.short], one.homeless) for one in zones] == [
        ("a", [("cpu", "3", {"a1": "3"})], 0),
        ("b", [], 3),
    ]
    members = [dressed(pod(f"g-{i}", gang="g"), host_ports=(HostPort("TCP", "", 80),)) for i in range(2)]
    [zone] = explained(gang("g", members=members), nodes=[A1]).zones
    assert (zone.short, zone.homeless) == ((), 1), "the second one lacks a node, not a resource"


def test_what_is_short_in_the_closest_zones_only() -> None:
    """Events name one zone: of equals the last by name, as their sentence does."""
    nodes = [A1, replace(A1, name=NodeName("c1"), zone=ZoneName("c")), B1]
    zones = explained(gang("g", 9), nodes=nodes, besides={"closest": 1}).zones
    assert [(one.zone, len(one.short)) for one in zones] == [("a", 0), ("b", 0), ("c", 1)]


def test_how_good_and_how_far() -> None:
    nodes = [node(f"a{i}", zone="a", cpu="2") for i in range(3)]
    ps = pod("g-ps", gang="g", role=Role.PS)
    workers = [pod(f"g-{i}", gang="g", role=Role.WORKER, index=i) for i in range(2)]
    for members in ([ps, *workers], [bound(ps, "a0"), *workers], [bound(workers[0], "a0"), workers[1]]):
        [zone] = explained(gang("g", members=members, options={"near": "a"}), nodes=nodes, network=mesh(nodes)).zones
        assert zone.score == pytest.approx(99.5, abs=1.0)
        assert zone.distance_ms == 0.0


# -- its network -------------------------------------------------------------------------------------------------------

NOW_S = 1000.0
POLICY = Policy(score=ScorePolicy(soft_ttl_s=Ttl(100.0, 100.0, 100.0), hard_ttl_s=Ttl(200.0, 200.0, 200.0)))
NAMES = [f"n{i}" for i in range(4)]
NODES = [node(name, cpu="1") for name in NAMES]
Link = tuple[str, str, Metric, float, float]
"""From, to, metric, value, age."""


def merged(sources: Mapping[str, list[Link]]) -> NetworkMatrix:
    tables = {
        name: MeasurementTable.from_measurements(
            Measurement(EndpointId(a), EndpointId(b), metric, value, NOW_S - age_s)
            for a, b, metric, value, age_s in found
        )
        for name, found in sources.items()
    }
    ends = {NodeName(name): EndpointId(name) for name in NAMES}
    return NetworkMatrix.merged(tables, endpoint_of=dict.fromkeys(METRICS, ends), now_s=NOW_S)


def placed(*names: str, roles: str = "") -> Gang:
    """A gang with a member on each node; `roles`: a letter for each, `p` a ps, `w` a worker."""
    role = {"p": Role.PS, "w": Role.WORKER}
    members = [
        bound(pod(f"g-{i}", gang="g", **({"role": role[roles[i]]} if roles else {})), name)  # type: ignore[arg-type]
        for i, name in enumerate(names)
    ]
    return gang("g", members=members)


def network_of(state: Snapshot, wanted: Gang, made: Plan | None = None) -> GangNetwork:
    found = gang_network(begin_run(state, POLICY, PlannerCache()), made or Plan(version=0), wanted)
    assert found is not None
    return found


def worst_of(found: GangNetwork) -> WorstLink:
    assert found.worst is not None
    return found.worst


PAIRS = {  # case: (ends of the worst link, nodes of the members, their roles)
    "all-reduce: every pair": (("n1", "n2"), ("n0", "n1", "n2"), ""),
    "a ps: only its pairs": (("n0", "n1"), ("n0", "n1", "n2"), "pww"),
    "all on one node": (None, ("n0", "n0"), ""),
    "a member on a node that is gone": (("n0", "n1"), ("n0", "n1", "gone"), ""),
}


@pytest.mark.parametrize(("want", "names", "roles"), PAIRS.values(), ids=PAIRS)
def test_only_links_over_which_members_exchange_data(
    want: tuple[str, str] | None, names: tuple[str, ...], roles: str
) -> None:
    """The one from n1 to n2 is the worst of all."""
    wanted, nodes = placed(*names, roles=roles), [node(name, cpu="8") for name in NAMES]
    delays = [(a, b, Metric.DELAY, 9.0 if {a, b} == {"n1", "n2"} else 1.0, 5.0) for a, b in permutations(NAMES, 2)]
    worst = network_of(snapshot(nodes, [wanted], network=merged({"x": delays})), wanted).worst
    assert (worst and (worst.source, worst.target)) == want


def test_a_planned_gang_and_one_without_nodes() -> None:
    wanted, other = gang("g", 2, cpu="1"), gang("h", 9, cpu="1")
    state = snapshot(NODES, [wanted, other], network=mesh(NODES, bad={"n0": {"delay_ms": 30.0}}))
    assert network_of(state, wanted, made := plan(state, POLICY, now_s=NOW_S)).nodes == ("n1", "n2")
    assert gang_network(begin_run(state, POLICY, PlannerCache()), made, other) is None


def test_a_very_large_gang_is_looked_at_in_part() -> None:
    nodes = [node(f"n{i:03}", cpu="1") for i in range(130)]
    wanted = placed(*(one.name for one in nodes))
    found = network_of(snapshot(nodes, [wanted]), wanted)
    assert (len(found.nodes), found.of_nodes) == (64, 130)


def test_points_are_those_of_the_zone() -> None:
    """The best rate of the zone is what rates are compared with, also where no member uses that link."""
    wanted = placed("n0", "n1")
    fast = mesh(NODES, throughput_bps=1e9, bad={name: {"throughput_bps": 1e8} for name in ("n0", "n1")})
    found = network_of(snapshot(NODES, [wanted], network=replace(fast, evaluated_at_s=0.0)), wanted)
    assert worst_of(found).points == pytest.approx(20.0 + 39.0 + 4.0)


def test_the_network_that_a_gang_has() -> None:
    bad = [("n0", "n2", Metric.DELAY, 9.0, 50.0), ("n2", "n0", Metric.DELAY, 8.0, 10.0)]
    good = [(a, b, Metric.DELAY, 1.0, 5.0) for a, b in (("n0", "n1"), ("n1", "n0"), ("n1", "n2"), ("n2", "n1"))]
    state = snapshot(NODES, gangs=[wanted := placed("n0", "n1", "n2")], network=merged({"owamp": [*bad, *good]}))
    found = network_of(state, wanted)
    assert (found.nodes, found.of_nodes, found.zones) == (("n0", "n1", "n2"), 3, ("a",))
    worst = worst_of(found)
    assert (worst.source, worst.target) == ("n0", "n2")
    assert (worst.delay_ms, worst.oldest_s, worst.throughput_bps) == (9.0, 50.0, None)
    assert worst.points < (found.score or 0.0) < 100.0


def test_a_bad_link_is_named_before_those_with_fewer_points() -> None:
    """The same in explain and queue; the score stays the published one, also of a zone in which no link is good."""
    values = {Metric.LOSS: (0.13, 0.0), Metric.DELAY: (0.1, 29.0)}
    links = [
        (a, b, metric, close if {a, b} == {"n0", "n1"} else far, 5.0)
        for a, b in permutations(NAMES, 2)
        for metric, (close, far) in values.items()
    ]
    for names, text in ((("n0", "n1", "n2"), "bad link n0 → n1: 13 % loss"), (("n1", "n2"), "")):
        state = snapshot(NODES, [wanted := placed(*names)], network=merged({"x": links}))
        worst = worst_of(network_of(state, wanted))
        assert worst.text == (text or "worst link n1 → n2: 49 points")
        assert worst.points == pytest.approx(57.9 if text else 49.0)
        assert [entry.bad_link for entry in report(state, Plan(version=0), POLICY, now_s=NOW_S).gangs] == [text]
    state = snapshot(NODES, [gang("g", 3)], network=mesh(NODES, loss_ratio=0.13))
    [zone] = explain(state, plan(state, POLICY, now_s=0.0), gang("g", 3), POLICY, now_s=0.0).zones
    assert zone.score == pytest.approx(79.0, abs=0.01)


def test_the_score_is_that_of_the_plan() -> None:
    """Members on one node are pairs, too, as in `Admission.score`."""
    roomy = [node(name, cpu="2") for name in NAMES[:2]]
    state = snapshot(roomy, gangs=[waits := gang("g", 3)], network=mesh(NAMES[:2]))
    score = plan(state, POLICY, now_s=NOW_S).admitted[waits.key].score
    runs = placed("n0", "n0", "n1")
    found = network_of(snapshot(roomy, gangs=[runs], network=state.network), runs)
    assert found.score == pytest.approx(score, abs=1e-3)


def test_one_member_has_no_worst_link() -> None:
    found = network_of(snapshot(NODES, gangs=[wanted := placed("n0")]), wanted)
    assert (found.score, found.worst) == (None, None)


def said(wanted: Gang, nodes: Iterable[Node], *others: Gang, pods: Iterable[Pod] = (), **fields: object) -> str:
    state: Snapshot = snapshot(nodes, [wanted, *others], pods=pods, **fields)  # type: ignore[arg-type]
    made = plan(state, Policy(), now_s=0.0)
    return why_it_waits(explain(state, made, wanted, Policy(), now_s=0.0), state)


A, B = node("a1", zone="a", cpu="3"), node("b1", zone="b", cpu="2")
FULL = {"pods": [pod("other", node="a1", cpu="2", scheduler_name="x")]}
HALF_BUSY = {"pods": [pod("other", node="a1", cpu="1", scheduler_name="x")]}
LATE, THREE = gang("g", 2, created_s=9.0), gang("g", 3)
AHEAD = [gang(f"f{i}", 1, created_s=float(i), priority=1) for i in range(3)]
LARGE = [gang(name, 3, created_s=float(i), priority=1) for i, name in enumerate(("f1", "f2"))]
MIXED = gang("g", members=[pod("g-0", gang="g", cpu="3"), pod("g-1", gang="g", cpu="2")])


SENTENCES: dict[str, tuple[str, Gang, list[Node], list[Gang], dict[str, Any]]] = {  # case: (sentence, …: more; cluster)
    "members that ask for different things have room one by one": (
        "Too little room is free: zone a has room for each of its pods, not for all at once: 1 more cpu would do.",
        MIXED, [node("a1", zone="a", cpu="5")], [], HALF_BUSY),
    "those that wait ahead are counted": ("… 2 gangs wait ahead of it.", THREE, [A], LARGE, FULL),
    "room went to gangs ahead in its zones: two are named": (
        "There is room for it, and 3 gangs ahead of it in the queue were given that room. "
        "Planned ahead of it: default/f0, default/f1 and 1 more.", LATE, [A], AHEAD, {}),
    "nothing of a gang that does not wait": ("", gang("g", 2), [A, B], [], {}),
}  # fmt: skip


@pytest.mark.parametrize(("want", "wanted", "nodes", "others", "rest"), SENTENCES.values(), ids=SENTENCES)
def test_why_it_waits(want: str, wanted: Gang, nodes: list[Node], others: list[Gang], rest: dict[str, Any]) -> None:
    begin, more, end = want.partition("…")
    text = said(wanted, nodes, *others, **rest)
    assert text == want or (more and text.startswith(begin) and text.endswith(end))


# -- each cause --------------------------------------------------------------------------------------------------------

SAID: dict[str, str] = tomllib.loads(Path(__file__).with_name("causes.toml").read_text())


@pytest.mark.parametrize("name", sorted({*CASES, *SAID}))
def test_every_output_says_the_whole_cause(name: str) -> None:
    """No gang of another namespace is named."""
    found, _, state = explained_case(CASES[name])
    cause, sentence = found.cause, SAID[name]
    assert cause is not None
    said = f"{cause.message} {cause.suggestion}".strip()
    assert f"{cause.reason}: {said}" == sentence
    if found.code is not None:
        assert why_it_waits(found, state).startswith(said)  # Event, and what carries its note
    console = Console(file=io.StringIO(), width=1000, color_system=None)
    print_explanation(console, found)
    assert sentence in console.file.getvalue()  # type: ignore[attr-defined]
