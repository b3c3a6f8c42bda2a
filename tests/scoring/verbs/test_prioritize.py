"""The score behind /prioritize: its parts."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scoring import EndpointId, JobKey, NodeName
from scoring.model import Gang, Phase, Pod, Role
from scoring.model.gang import gang_key
from scoring.model.policy import Policy, Ratios, ScorePolicy
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import METRICS, Measurement, Metric, NetworkMatrix
from scoring.plan import Plan, PlannerCache, plan
from scoring.score.pairs import toward
from scoring.verbs import prioritize as prefer_module
from scoring.verbs.prioritize import PACKING_POINTS, RESERVATION_POINTS, asks_for_network, prefer, siblings_of
from tests.builders import bound, gang, mesh, node, pod, snapshot

POLICY = Policy(score=ScorePolicy(reference_bps=100e6))
NOTHING = Plan(1)
ROW = [node(f"n{i}") for i in range(4)]
RING = {"n3": {"delay_ms": 30.0}}


def points(
    state: Snapshot, member: Pod, wanted: Gang | None, *, planned: Plan = NOTHING, part: str = "total"
) -> dict[str, float]:
    preference = prefer(state, planned, member, wanted, POLICY)
    return dict(zip(state.table.names, getattr(preference, part).tolist(), strict=True))


ASKS = {  # case: (whether network scores are given, pod, gang)
    "member of a gang": (True, pod("p"), gang("g", 1)),
    "member of a job": (True, pod("p", job="j"), None),
    "plain pod with a wanted": (True, pod("p", options=(("ratios", "1:1:1"),)), None),
    "plain pod with another annotation": (False, pod("p", options=(("weight", "1"),)), None),
    "plain pod": (False, pod("p"), None),
}


@pytest.mark.parametrize(("want", "member", "wanted"), ASKS.values(), ids=ASKS)
def test_who_is_scored_by_network(want: bool, member: Pod, wanted: Gang | None) -> None:
    state = snapshot(ROW, network=mesh(ROW, bad=RING))
    assert want == asks_for_network(member, wanted)
    assert want == (len(set(points(state, member, wanted).values())) > 1)


def test_towards_the_zone_without_siblings() -> None:
    """Nobody is placed yet: a node counts as much as its links to the other nodes of its zone are worth."""
    wanted = gang("g", 2)
    got = points(snapshot(ROW, [wanted], network=mesh(ROW, bad=RING)), wanted.members[0], wanted)
    # 1 ms: 20 + 39 + 40 = 99 points; 30 ms: 20 + 10 + 40 = 70 points
    assert got == pytest.approx({"n0": 268 / 3, "n1": 268 / 3, "n2": 268 / 3, "n3": 70.0})


def test_zones_are_measured_by_one_rate() -> None:
    """Without a configured reference a zone of slow links is not measured by its own best one."""
    nodes = [node(name, zone=name[0]) for name in ("a0", "a1", "b0", "b1", "c0")]
    slow = {name: {"throughput_bps": 10e6} for name in ("a0", "a1")}
    wanted = gang("g", 2)
    state = snapshot(nodes, [wanted], network=mesh(nodes, bad=slow))
    found = prefer(state, NOTHING, wanted.members[0], wanted, Policy()).network
    network = dict(zip(state.table.names, found, strict=True))
    assert network["a0"] + 30.0 < network["b0"]


def test_towards_siblings_placed_or_planned() -> None:
    """Once others have a node, running or planned, the links to them count and nothing else."""
    wanted = gang("g", members=[bound(pod("g-0", gang="g"), "n3"), pod("g-1", gang="g"), pod("g-2", gang="g")])
    state = snapshot(ROW, [wanted], network=mesh(ROW, bad={"n3": {"delay_ms": 29.0}}))
    got = points(state, wanted.members[1], wanted, part="network")
    assert got == pytest.approx({"n0": 71.0, "n1": 71.0, "n2": 71.0, "n3": 100.0})
    planned = Plan(1, node_of={wanted.members[2].uid: NodeName("n0")})
    got = points(state, wanted.members[1], wanted, planned=planned, part="network")
    assert got == pytest.approx({"n0": 85.5, "n1": 85.0, "n2": 85.0, "n3": 85.5})


def test_a_node_with_a_bad_link_to_a_sibling_is_wanted_least() -> None:
    """As in the plan, however many points the link has otherwise."""
    wanted = gang("g", members=[bound(pod("g-0", gang="g"), "n3"), pod("g-1", gang="g")])
    state = snapshot(ROW, [wanted], network=mesh(ROW, delay_ms=29, bad={"n1": {"loss_ratio": 0.0011, "delay_ms": 0.1}}))
    got = points(state, wanted.members[1], wanted, part="network")
    assert got == pytest.approx({"n0": 71.0, "n1": 0.0, "n2": 71.0, "n3": 100.0})


def test_far_nodes_are_left_out_when_there_are_too_many_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the bound only the siblings' zones are looked at; nodes of other zones get no network points."""
    nodes = [node("a0", zone="a"), node("a1", zone="a"), node("b0", zone="b")]
    wanted = gang("g", members=[bound(pod("g-0", gang="g"), "a0"), pod("g-1", gang="g")])
    state = snapshot(nodes, [wanted], network=mesh(nodes))
    assert points(state, wanted.members[1], wanted, part="network")["b0"] == pytest.approx(99.0)
    monkeypatch.setattr(prefer_module, "_PAIRS_MAX", 2)
    got = points(state, wanted.members[1], wanted, part="network")
    assert got == pytest.approx({"a0": 100.0, "a1": 99.0, "b0": 0.0})


DONE = {"phase": Phase.SUCCEEDED}
TALK = {  # case: (nodes of siblings, role of the pod, nodes, roles and fields of the others)
    "a worker talks to the ps": (["n0"], Role.WORKER, [("n0", Role.PS, {}), ("n1", Role.WORKER, {})]),
    "the ps talks to all others": (["n1", "n2"], Role.PS,
        [("n0", Role.PS, {}), ("n1", Role.WORKER, {}), ("n2", Role.CHIEF, {})]),
    "without a ps all talk to all": (["n1", "n2"], Role.WORKER, [("n1", Role.WORKER, {}), ("n2", Role.CHIEF, {})]),
    "those that are done, going or without a node do not count": (["n1"], Role.OTHER,
        [("n1", Role.OTHER, {}), ("n2", Role.OTHER, DONE), ("n3", Role.OTHER, {"deleting": True}),
         (None, Role.OTHER, {})]),
}  # fmt: skip


@pytest.mark.parametrize(("want", "role", "others"), TALK.values(), ids=TALK)
def test_siblings(want: list[str], role: Role, others: list[tuple[str | None, Role, dict[str, Any]]]) -> None:
    """Links count where data flows: to and from a ps, or between all when there is none; never its own."""
    me = bound(pod("me", role=role, gang="g"), "n9")
    rest = [pod(f"o{i}", role=r, gang="g", node=at, **fields) for i, (at, r, fields) in enumerate(others)]
    assert want == sorted(at for _, at in siblings_of(NOTHING, me, gang("g", members=[me, *rest])))
    assert siblings_of(NOTHING, me, None) == ()


def test_packing_counts_nodes_that_hold_members() -> None:
    """K6: nodes of the gang's ps and workers are worth more, also to a worker that does not talk to workers."""
    members = [bound(pod("w0", role=Role.WORKER, gang="g"), "n0"), bound(pod("ps", role=Role.PS, gang="g"), "n1")]
    me = pod("w1", role=Role.WORKER, gang="g")
    wanted = gang("g", members=[*members, me])
    state = snapshot(ROW, [wanted], network=mesh(ROW))
    assert points(state, me, wanted, part="packing") == {"n0": PACKING_POINTS, "n1": PACKING_POINTS, "n2": 0, "n3": 0}


def test_reserved_nodes_count_less_for_those_behind() -> None:
    """A node planned for a gang is worth less to plain pods and to gangs after it, not to itself or to those ahead."""
    nodes = [node(f"n{i}", cpu="1") for i in range(4)]
    first, second = gang("a", 1, created_s=1.0), gang("b", 1, created_s=2.0)
    third = gang("c", 1, cpu="2", created_s=3.0)
    state = snapshot(nodes, [first, second, third], network=mesh(nodes))
    outcome = plan(state, POLICY, now_s=0.0)
    at = [outcome.node_of[one.members[0].uid] for one in (first, second)]

    def reserved(member: Pod, wanted: Gang | None) -> list[str]:
        got = points(state, member, wanted, planned=outcome, part="reservation")
        return [name for name, value in got.items() if value == -RESERVATION_POINTS]

    assert reserved(first.members[0], first) == []
    assert reserved(second.members[0], second) == [at[0]]
    assert reserved(third.members[0], third) == sorted(at)
    assert reserved(pod("plain"), None) == sorted(at)


def test_a_gang_that_waits_ahead_is_not_pushed_away_by_those_behind() -> None:
    nodes = [node(f"n{i}", cpu="1") for i in range(2)]
    large, small = gang("a", 2, cpu="1", priority=5), gang("b", 1)
    state = snapshot(nodes, [large, small], pods=[pod("x", node="n0")])
    outcome = plan(state, POLICY, now_s=0.0)
    assert (list(outcome.waiting), list(outcome.admitted)) == ([large.key], [small.key])
    assert not np.any(prefer(state, outcome, large.members[0], large, POLICY).reservation)


def test_own_ratios() -> None:
    state = snapshot(ROW, network=mesh(ROW, bad=RING))
    only_delay = (("ratios", "0:1:0"),)
    wanted = replace(gang("g", 2), options=only_delay)
    want = points(state, wanted.members[0], wanted, part="network")
    assert want == points(state, pod("p", options=only_delay), None, part="network")
    assert want["n3"] == pytest.approx(25.0)  # 30 of 40 ms
    by_default = replace(POLICY, score=replace(POLICY.score, ratios=Ratios(0, 1, 0)))
    got = prefer(state, NOTHING, pod("p", job="j"), None, by_default)
    assert got.network.tolist() == pytest.approx(list(want.values()))


LINKS = [(i, j) for i in range(5) for j in range(5) if i != j]
VALUES = {
    Metric.LOSS: st.sampled_from([0.0, 0.001, 0.01, 0.05, 0.5]),
    Metric.DELAY: st.sampled_from([0.1, 1.0, 10.0, 30.0, 200.0]),
    Metric.THROUGHPUT: st.sampled_from([1e6, 10e6, 40e6, 90e6, 200e6]),
}
Values = Mapping[tuple[Metric, int, int], float]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Values, Gang]:
    values = {(m, i, j): draw(VALUES[m]) for m in METRICS for i, j in LINKS}
    members = [pod("g-0", gang="g", role=draw(st.sampled_from([Role.WORKER, Role.PS])))]
    for i in range(1, draw(st.integers(1, 4))):
        members.append(bound(pod(f"g-{i}", gang="g", role=Role.WORKER), f"n{draw(st.integers(0, 4))}"))
    return values, gang("g", members=members)


def preferences(values: Values, wanted: Gang, policy: Policy, *, cache: PlannerCache | None = None) -> list[float]:
    nodes = [node(f"n{i}", zone="aab"[i // 2], cpu="9") for i in range(5)]
    ends = dict.fromkeys(METRICS, {n.name: EndpointId(n.name) for n in nodes})  # noqa: RUF024 - nobody writes to it
    found = [Measurement(EndpointId(f"n{i}"), EndpointId(f"n{j}"), m, v, 0.0) for (m, i, j), v in values.items()]
    state = snapshot(nodes, [wanted], network=NetworkMatrix.from_measurements(found, endpoint_of=ends, now_s=0.0))
    return [float(p) for p in prefer(state, NOTHING, wanted.members[0], wanted, policy, cache=cache).network]


@given(cases(), st.sampled_from([0.25, 2.0, 1024.0]))
def test_scaling_all_throughputs_changes_nothing(case: tuple[Values, Gang], factor: float) -> None:
    """With the best measured rate as reference only ratios of rates count, between nodes and zones; always 0..100."""
    values, wanted = case
    scaled = {k: v * factor if k[0] is Metric.THROUGHPUT else v for k, v in values.items()}
    found = preferences(values, wanted, Policy())
    assert found == preferences(scaled, wanted, Policy())
    assert all(0.0 <= one <= 100.0 for one in found)


@given(cases(), cases())
def test_a_cache_changes_nothing(one: tuple[Values, Gang], other: tuple[Values, Gang]) -> None:
    cache = PlannerCache()
    values, wanted = one
    preferences(values, other[1], POLICY, cache=cache)
    assert preferences(values, wanted, POLICY, cache=cache) == preferences(values, wanted, POLICY)


def test_pods_whose_siblings_are_nowhere() -> None:
    """A sibling's node left the cluster, or a job's pod is in no gang: they are scored towards their nodes' zones."""
    lost = gang("g", members=[bound(pod("g-0", gang="g"), "gone"), pod("g-1", gang="g")])
    state = snapshot(ROW, [lost], network=mesh(ROW, bad=RING))
    alone = points(state, lost.members[1], gang("g", 1))
    assert points(state, lost.members[1], lost) == alone
    assert points(state, replace(pod("p"), job=JobKey("default/j")), None) == alone


def test_members_that_are_bound_by_now_reserve_nothing() -> None:
    """The plan is a moment older than the snapshot: what it gave away is used, and counted as such."""
    waiting = gang("g", 1, cpu="4")
    before = snapshot([node("n1")], [waiting])
    made = plan(before, POLICY, now_s=0.0)
    after = snapshot([node("n1")], [gang("g", members=[bound(waiting.members[0], "n1")])], version=2)
    assert prefer(before, made, pod("p"), None, POLICY).reservation.tolist() == [-30.0]
    assert prefer(after, made, pod("p"), None, POLICY).reservation.tolist() == [0.0]


def test_scores_towards_siblings_are_those_of_all_pairs() -> None:
    """Only nodes with a link to the siblings' zones are looked at; every node has the points it would have alone."""
    nodes = [node(f"{zone}{i}", zone=zone) for zone in "abc" for i in range(4)]
    inside = [(one, other) for zone in (nodes[:4], nodes[4:8], nodes[8:]) for one in zone[:2] for other in zone[:2]]
    across = [(nodes[0], nodes[4])]  # a and b know each other, c is for itself
    found = [
        Measurement(EndpointId(a.name), EndpointId(b.name), metric, 2.0 + i % 3, 0.0)
        for metric in (Metric.DELAY, Metric.THROUGHPUT)
        for i, (a, b) in enumerate(inside + across)
        if a is not b
    ]
    ends = {one.name: EndpointId(one.name) for one in nodes if not one.name.endswith("3")}
    network = NetworkMatrix.from_measurements(found, endpoint_of=dict.fromkeys(METRICS, ends), now_s=0.0)
    for home in ("a0", "b1", "c3"):
        members = [pod("g-0", gang="g", node=home), pod("g-1", gang="g")]
        state = snapshot(nodes, [gang("g", members=members)], network=network)
        made = plan(state, POLICY, now_s=0.0)
        points = prefer(state, made, members[1], state.gangs[gang_key("default", "g")], POLICY).network
        names = state.table.names
        want = toward(network, names, [NodeName(home)], POLICY.score).points.mean(axis=1)
        assert points.tolist() == want.tolist()
