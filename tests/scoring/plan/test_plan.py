"""The planner: who is admitted, where, and why the others wait."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.ids import NodeName
from scoring.model import Gang, GangSource, HostPort, Node, Role, Taint
from scoring.model.policy import Selection
from scoring.model.reasons import Reason
from scoring.model.snapshot import Snapshot
from scoring.plan import Plan, PlannerCache, plan
from scoring.plan.pair_scores import warmed
from tests.builders import bound, gang, mesh, node, pod, snapshot
from tests.scoring.plan.planned import POLICY, clusters, planned, row


def reason(outcome: Plan, name: str) -> Reason | None:
    """Why a gang waits; `None` when it is admitted."""
    return outcome.waiting[f"default/{name}"].reason if f"default/{name}" in outcome.waiting else None  # type: ignore[index]


def places(outcome: Plan, name: str) -> list[str]:
    """Nodes of an admitted gang's members, sorted."""
    return sorted(outcome.admitted[f"default/{name}"].members.values())  # type: ignore[index]


def test_paper_test_case_one() -> None:
    """PAPERS N4: six of zone D's nine nodes, and the three impaired ones are not among them."""
    nodes = [node(f"node{i}", zone="ABCD"[(i - 1) // 9], cpu="16") for i in range(1, 37)]
    impaired = {"node33": {"delay_ms": 10.0}, "node34": {"loss_ratio": 0.1}, "node35": {"throughput_bps": 10e6}}
    for selection in (Selection.SUBSET, Selection.PAPER):
        wish = gang("case1", 6, cpu="10", options={"near": "D", "selection": selection})
        outcome = planned(nodes, wish, network=mesh(nodes, bad=impaired))
        assert places(outcome, "case1") == ["node28", "node29", "node30", "node31", "node32", "node36"]
        assert outcome.admitted[wish.key].zones == ("D",)


def test_two_gangs_of_four_in_room_for_six() -> None:
    """PAPERS G6: one gang has all its nodes, the other none, and it is told that it is behind."""
    outcome = planned(row(6), gang("a", 4, created_s=1.0), gang("b", 4, created_s=2.0))
    assert len(places(outcome, "a")) == 4
    assert reason(outcome, "b") is Reason.BEHIND


ORDER = {  # case: (fields of gang a, fields of gang b, which one gets the room)
    "higher priority first": ({"priority": 1, "created_s": 0.0}, {"priority": 2, "created_s": 9.0}, "b"),
    "older first": ({"created_s": 5.0}, {"created_s": 4.0}, "b"),
    "equal age: by name": ({"created_s": 5.0}, {"created_s": 5.0}, "a"),
}


@pytest.mark.parametrize(("a", "b", "first"), ORDER.values(), ids=ORDER)
def test_order(a: dict[str, float], b: dict[str, float], first: str) -> None:
    """Priority, then creation, then name decide who is planned first."""
    outcome = planned(row(3), gang("a", 2, **a), gang("b", 2, **b))  # type: ignore[arg-type]
    assert [key.removeprefix("default/") for key in outcome.admitted] == [first]


def test_a_gang_that_runs_in_part_goes_before_everybody() -> None:
    """Members that use room without their gang are completed first, in the zone they are in, whatever the priority."""
    nodes = [*row(2, zone="a", prefix="a"), *row(2, zone="b", prefix="b")]
    members = [bound(pod("p-0", gang="p"), "b0"), pod("p-1", gang="p")]
    outcome = planned(nodes, gang("p", members=members, created_s=9.0), gang("q", 2, priority=5))
    assert places(outcome, "p") == ["b1"]
    assert places(outcome, "q") == ["a0", "a1"]
    assert outcome.partial == {"default/p"}


WAITS = {  # case: (nodes, gang, reason)
    "too few pods": (row(4), gang("g", 2, min_member=3), Reason.INCOMPLETE),
    "no room now": (row(2), gang("g", 2, cpu="1"), Reason.NO_ROOM),
    "never any room": (row(2), gang("g", 2, cpu="2"), Reason.IMPOSSIBLE),
    "resource nobody has": (row(2), gang("g", 1, gpu=1), Reason.IMPOSSIBLE),
    "room only over two zones": (
        [*row(1, zone="a", prefix="a"), *row(1, zone="b", prefix="b")],
        gang("g", 2),
        Reason.IMPOSSIBLE,
    ),
    "zone that does not exist": (row(2), gang("g", 2, options={"zones": "mars"}), Reason.NO_ALLOWED_ZONE),
    "nodes without zone label": (row(2, zone=""), gang("g", 2), Reason.NO_ALLOWED_ZONE),
    "contradiction in its labels": (row(4), replace(gang("g", 2), problem=Reason.INVALID_GROUP), Reason.INVALID_GROUP),
}


@pytest.mark.parametrize(("nodes", "wish", "want"), WAITS.values(), ids=WAITS)
def test_reasons(nodes: list[Node], wish: Gang, want: Reason) -> None:
    """Each way of having to wait has its own constant reason."""
    in_the_way = [pod("x", node="n0")] if want is Reason.NO_ROOM else []
    assert reason(planned(nodes, wish, pods=in_the_way), "g") is want


def test_back_off_ends_with_time() -> None:
    """A gang whose admission lapsed reserves nothing until its moment comes (docs/safety.md S5)."""
    wish = gang("g", 2)
    backing_off = {wish.key: 100.0}
    assert reason(planned(row(2), wish, now_s=99.0, backing_off_until_s=backing_off), "g") is Reason.BACKING_OFF
    assert len(places(planned(row(2), wish, now_s=100.0, backing_off_until_s=backing_off), "g")) == 2


def test_zones_nearest_first_then_best_network() -> None:
    """`near` decides before the network, the gang's own order next, and without either the best links win."""
    nodes = [*row(2, zone="a", prefix="a"), *row(2, zone="b", prefix="b")]
    net = mesh(nodes, bad={"a0": {"delay_ms": 20.0}, "a1": {"delay_ms": 20.0}})
    assert planned(nodes, gang("g", 2), network=net).admitted["default/g"].zones == ("b",)  # type: ignore[index]
    assert planned(nodes, gang("g", 2, options={"near": "a"}), network=net).admitted["default/g"].zones == ("a",)  # type: ignore[index]
    assert planned(nodes, gang("g", 2, options={"zones": "a,b"}), network=net).admitted["default/g"].zones == ("a",)  # type: ignore[index]


def test_a_slow_zone_is_not_measured_by_its_own_best_link() -> None:
    """Two zones with clean links, one at 10 Mbit/s and one at 100: the fast one is chosen."""
    nodes = [*row(2, zone="a", prefix="a"), *row(2, zone="b", prefix="b")]
    slow = {name: {"throughput_bps": 10e6} for name in ("a0", "a1")}
    assert planned(nodes, gang("g", 2), network=mesh(nodes, bad=slow)).admitted["default/g"].zones == ("b",)  # type: ignore[index]


def test_preferred_zone_policy_spreads_after_its_wait() -> None:
    """`preferred` waits for one zone first, then takes the fewest zones; nodes without zone take part."""
    nodes = [*row(1, zone="a", prefix="a"), *row(1, zone="b", prefix="b"), *row(1, zone="", prefix="x")]
    wish = gang("g", 2, options={"zone-policy": "preferred"}, created_s=0.0)
    assert reason(planned(nodes, wish, now_s=10.0), "g") is Reason.SPILL_WAIT
    late = planned(nodes, wish, now_s=POLICY.spill_wait_s)
    assert len(places(late, "g")) == 2
    assert len(late.admitted[wish.key].zones) == 2


def test_a_resumed_job_waits_anew_before_it_is_spread() -> None:
    """The job is a day old, its pods are not: what counts is since when they could have started.

    docs/safety.md S14.
    """
    nodes = [*row(1, zone="a", prefix="a"), *row(1, zone="b", prefix="b")]
    members = [pod(f"p{i}", gang="g", index=i, created_s=86_400.0) for i in range(2)]
    wish = gang("g", members=members, options={"zone-policy": "preferred"}, created_s=0.0)
    assert reason(planned(nodes, wish, now_s=86_410.0), "g") is Reason.SPILL_WAIT
    assert len(places(planned(nodes, wish, now_s=86_400.0 + POLICY.spill_wait_s), "g")) == 2


def test_two_roles_with_different_requests() -> None:
    """A ps without GPU and workers with two each are placed together, each where it fits."""
    nodes = [node("cpu", cpu="8"), node("g0", cpu="2", gpu=2), node("g1", cpu="2", gpu=2)]
    members = [pod("ps", role=Role.PS, cpu="4", gang="t")]
    members += [pod(f"w{i}", role=Role.WORKER, index=i, gpu=2, gang="t") for i in range(2)]
    outcome = planned(nodes, gang("t", members=members))
    assert outcome.node_of["uid-default-ps"] == "cpu"  # type: ignore[index]
    assert {outcome.node_of[f"uid-default-w{i}"] for i in range(2)} == {"g0", "g1"}  # type: ignore[index]


def test_members_beyond_the_minimum_take_what_is_left() -> None:
    """Minimum first; then as many more as fit, in the same zone; the rest waits without holding the gang back."""
    outcome = planned(row(3), gang("g", 5, min_member=2))
    assert places(outcome, "g") == ["n0", "n1", "n2"]
    running = gang(
        "g", members=[bound(pod(f"m{i}", gang="g"), f"n{i}") for i in range(2)] + [pod("m2", gang="g")], min_member=2
    )
    assert places(planned(row(3), running), "g") == ["n2"]
    assert reason(planned(row(2), running), "g") is Reason.SURPLUS


def test_taints_exclusions_and_host_ports_are_respected() -> None:
    """Members go only where they may: not to tainted, excluded or occupied places, one host port per node."""
    tainted = node("bad", cpu="1", taints=[Taint("k", "v", "NoSchedule")])
    assert places(planned([tainted, *row(2)], gang("g", 2)), "g") == ["n0", "n1"]
    wish = gang("g", 2)
    excluded = {wish.members[0].member_class: frozenset({NodeName("n0")})}
    assert places(planned(row(3), wish, exclusions=excluded), "g") == ["n1", "n2"]
    constraints = replace(wish.members[0].member_class.constraints, host_ports=(HostPort("TCP", "0.0.0.0", 80),))
    ported = tuple(replace(m, member_class=replace(m.member_class, constraints=constraints)) for m in wish.members)
    taken = {NodeName("n0"): frozenset({HostPort("TCP", "10.0.0.1", 80)})}
    outcome = planned(row(3, cpu="8"), replace(wish, members=ported), host_ports=taken)
    assert places(outcome, "g") == ["n1", "n2"]


def test_commitments_are_kept_ahead_of_everybody() -> None:
    """Once the first member is at bind, a gang of higher priority takes nothing back (docs/safety.md S4)."""
    early, heavy = gang("early", 2), gang("heavy", 2, priority=9)
    held = {"default/early": {m.uid: f"n{i}" for i, m in enumerate(early.members)}}
    outcome = planned(row(3), early, heavy, commitments=held)
    assert outcome.admitted[early.key].committed
    assert places(outcome, "early") == ["n0", "n1"]
    assert reason(outcome, "heavy") is Reason.BEHIND


def test_native_and_foreign_gangs_are_left_alone() -> None:
    """kube-scheduler starts native groups itself, and other schedulers' pods are load (docs/safety.md S1)."""
    native = replace(gang("native", 2), source=GangSource.NATIVE)
    foreign = replace(gang("foreign", 2), own=False)
    outcome = planned(row(4), native, foreign)
    assert (dict(outcome.admitted), dict(outcome.waiting)) == ({}, {})


def test_places_are_kept_until_something_speaks_against_them() -> None:
    """An event elsewhere moves no gang; a gang ahead, a lost node or new network data do."""
    nodes = row(4)
    wish = gang("g", 2, created_s=5.0)
    before = plan(snapshot(nodes, [wish]), POLICY, now_s=0.0)
    assert places(before, "g") == ["n0", "n1"]
    busy = snapshot(nodes, [wish], pods=[pod("x", node="n3")], version=2)
    assert (
        plan(busy, POLICY, now_s=0.0, previous=before).admitted[wish.key].members == before.admitted[wish.key].members
    )
    older = snapshot(nodes, [wish, gang("h", 3, created_s=1.0)], version=3)
    assert reason(plan(older, POLICY, now_s=0.0, previous=before), "g") is Reason.BEHIND
    gone = snapshot(nodes[1:], [wish], version=4)
    assert places(plan(gone, POLICY, now_s=0.0, previous=before), "g") == ["n1", "n2"]
    measured = snapshot(nodes, [wish], network=mesh(nodes, bad={"n0": {"loss_ratio": 0.5}}), version=5)
    assert "n0" not in places(plan(measured, POLICY, now_s=0.0, previous=before), "g")


# -- properties ------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(clusters())
def test_planning_again_changes_nothing(state: Snapshot) -> None:
    """A plan made with its predecessor in hand, of the same cluster, admits the same gangs to the same nodes."""
    first = plan(state, POLICY, now_s=0.0)
    again = plan(state, POLICY, now_s=0.0, previous=first)
    assert again.node_of == first.node_of
    assert again.waiting == first.waiting


@settings(deadline=None)
@given(clusters(), st.data())
def test_what_is_taken_away_is_noticed(state: Snapshot, data: st.DataObject) -> None:
    """Kept places never outlive their room: with a node gone the new plan is as sound as a fresh one."""
    first = plan(state, POLICY, now_s=0.0)
    victim = data.draw(st.integers(0, len(state.table.nodes) - 1))
    lost = state.table.nodes[victim].name
    left = [n for n in state.table.nodes if n.name != lost]
    after = snapshot(left, state.gangs.values(), network=state.network, version=2)
    outcome = plan(after, POLICY, now_s=0.0, previous=first)
    assert lost not in outcome.node_of.values()
    for key, admission in outcome.admitted.items():
        assert len(state.gangs[key].placed) + len(admission.members) >= state.gangs[key].min_member


def test_warmed_scores_are_those_of_the_plan() -> None:
    """A cache warmed with new network data gives the same plan as none, and the plan computes no pair score itself."""
    nodes = [*row(3, zone="a", prefix="a"), *row(3, zone="b", prefix="b")]
    state = snapshot(nodes, [gang("g", 2), gang("h", 2)])
    net = mesh(nodes, bad={"a0": {"delay_ms": 20.0}})
    cache = PlannerCache()
    cache.take_over(warmed(state, net, POLICY))
    scores = dict(cache.scores)
    after = replace(state, network=net)
    assert plan(after, POLICY, now_s=0.0, cache=cache) == plan(after, POLICY, now_s=0.0)
    assert cache.scores == scores
