"""The planner and zones: preferred, spread over, passed over, compared by what is measured."""

from dataclasses import replace

import pytest

from scoring.ids import EndpointId
from scoring.model import Role
from scoring.model.policy import Selection
from scoring.model.reasons import Reason
from scoring.network.matrix import METRICS, Measurement, Metric, NetworkMatrix
from tests.builders import bound, gang, mesh, node, pod
from tests.scoring.plan.planned import LATE_S, POLICY, answer, planned, row

# -- zones -----------------------------------------------------------------------------------------------------


def test_nodes_without_zone_take_part_only_when_preferred() -> None:
    """Unlabelled nodes are a zone like others for `preferred`, and none at all for `required`."""
    nodes = [*row(1, zone="a", prefix="a"), *row(2, zone="", prefix="x")]
    assert answer(planned(nodes, gang("g", 2)), "g")[0] is Reason.IMPOSSIBLE
    assert answer(planned(nodes, gang("g", 2, options={"zone-policy": "preferred"})), "g") == ["x0", "x1"]


def test_a_preferred_gang_is_completed_where_it_runs() -> None:
    """Another zone may be nearer to the users: members that run decide, as long as there is room beside them."""
    nodes = [*row(2, zone="a", prefix="a"), *row(2, zone="b", prefix="b")]
    members = [bound(pod("g-0", gang="g"), "b0"), pod("g-1", gang="g")]
    wish = gang("g", members=members, options={"zone-policy": "preferred", "near": "a"})
    assert answer(planned(nodes, wish), "g") == ["b1"]
    full = planned(nodes, wish, pods=[pod("x", node="b1")])
    assert answer(full, "g") == ["a0"]


def test_a_spread_gang_is_completed_in_its_own_zones_first() -> None:
    """Two more members for a gang in zone c: one beside it, and only one elsewhere, though a and b hold both."""
    nodes = [*row(1, zone="a", prefix="a"), *row(1, zone="b", prefix="b"), *row(2, zone="c", prefix="c")]
    members = [bound(pod("g-0", gang="g"), "c0"), pod("g-1", gang="g"), pod("g-2", gang="g")]
    wish = gang("g", members=members, options={"zone-policy": "preferred"})
    outcome = planned(nodes, wish, now_s=LATE_S)
    assert answer(outcome, "g") == ["a0", "c1"]
    assert outcome.admitted[wish.key].zones == ("a", "c")


def test_a_spread_leaves_out_zones_that_hold_nobody() -> None:
    """The ps needs the large node of b, the workers fill a: c is well connected to both and of no use."""
    nodes = [*row(5, zone="a", prefix="a"), node("b0", zone="b", cpu="4"), node("c0", zone="c", cpu="0")]
    members = [pod("ps", role=Role.PS, cpu="4", gang="g")]
    members += [pod(f"w{i}", role=Role.WORKER, index=i, gang="g") for i in range(5)]
    wish = gang("g", members=members, options={"zone-policy": "preferred"})
    bad = {"b0": {"delay_ms": 39.0}}
    outcome = planned(nodes, wish, now_s=LATE_S, network=mesh(nodes, bad=bad))
    assert outcome.admitted[wish.key].zones == ("a", "b")


def test_where_kinds_compete_the_next_set_of_zones_is_tried() -> None:
    """Zones a and b hold each kind by count, but two kinds need the node a0: a and d are as few and hold all."""
    nodes = [node("a0", zone="a", cpu="2", gpu=1), node("b0", zone="b", cpu="1"), node("c0", zone="c", cpu="1")]
    members = [pod("g-0", gang="g", gpu=1), pod("g-1", gang="g", cpu="2"), pod("g-2", gang="g", cpu="1")]
    wish = gang("g", members=members, options={"zone-policy": "preferred"})
    assert answer(planned(nodes, wish, now_s=LATE_S), "g")[0] is Reason.IMPOSSIBLE
    taken = planned([*nodes, node("d0", zone="d", cpu="2")], wish, now_s=LATE_S, pods=[pod("x", cpu="2", node="d0")])
    assert answer(taken, "g")[0] is Reason.NO_ROOM
    outcome = planned([*nodes, node("d0", zone="d", cpu="2")], wish, now_s=LATE_S)
    assert outcome.admitted[wish.key].zones == ("a", "d")


def test_a_spread_that_does_not_fit_waits() -> None:
    """All zones together are too small at present: the gang waits like any other."""
    nodes = [*row(1, zone="a", prefix="a"), *row(1, zone="b", prefix="b")]
    wish = gang("g", 2, options={"zone-policy": "preferred"})
    taken = planned(nodes, wish, now_s=LATE_S, pods=[pod("x", node="a0")])
    assert answer(taken, "g") == (Reason.NO_ROOM, "most room in zone b: 1 of 2 members")
    behind = planned(nodes, wish, gang("h", 1, priority=1), now_s=LATE_S)
    assert answer(behind, "g")[0] is Reason.BEHIND


def test_zones_are_compared_by_what_is_measured_when_no_rate_is() -> None:
    """Delay alone is enough to tell zones apart."""
    nodes = [*row(2, zone="a", prefix="a"), *row(2, zone="b", prefix="b")]
    ends = {n.name: EndpointId(n.name) for n in nodes}
    found = [
        Measurement(EndpointId(f"{z}{i}"), EndpointId(f"{z}{1 - i}"), Metric.DELAY, ms, 0.0)
        for z, ms in (("a", 30.0), ("b", 1.0))
        for i in range(2)
    ]
    network = NetworkMatrix.of(found, endpoint_of=dict.fromkeys(METRICS, ends), now_s=0.0)
    assert answer(planned(nodes, gang("g", 2), network=network), "g") == ["b0", "b1"]
    by_rate = replace(POLICY, score=replace(POLICY.score, reference_bps=1e9))
    assert answer(planned(nodes, gang("g", 2), network=network, policy=by_rate), "g") == ["b0", "b1"]


def test_a_zone_that_cannot_take_all_kinds_is_passed_over() -> None:
    """Zone a has room for each kind alone but not for both: the next zone is taken."""
    nodes = [node("a0", zone="a", cpu="2"), node("b0", zone="b", cpu="1"), node("b1", zone="b", cpu="2")]
    members = [pod("g-0", gang="g", cpu="2"), pod("g-1", gang="g", cpu="1")]
    assert answer(planned(nodes, gang("g", members=members, options={"near": "a"})), "g") == ["b0", "b1"]


@pytest.mark.parametrize("selection", list(Selection))
@pytest.mark.parametrize("throughput_bps", [0.0, 1e6])
def test_a_network_on_which_every_throughput_test_failed(throughput_bps: float, selection: Selection) -> None:
    """0 bit/s everywhere is no rate to compare zones by: the gang starts all the same, in one zone."""
    nodes = [*row(4, zone="a", prefix="a"), *row(4, zone="b", prefix="b")]
    policy = replace(POLICY, selection=selection)
    outcome = planned(nodes, gang("g", 3), policy=policy, network=mesh(nodes, throughput_bps=throughput_bps))
    places = answer(outcome, "g")
    assert len(places) == 3
    assert len({str(place)[0] for place in places}) == 1


@pytest.mark.parametrize("now_s", [0.0, POLICY.queue.starve_limit_s + 1.0])
def test_a_gang_that_prefers_a_zone_that_does_not_exist(now_s: float) -> None:
    """It waits, and stops no plan when it would starve (docs/safety.md S21)."""
    wanted = gang("g", 1, options={"zones": "x", "zone-policy": "preferred"})
    reason, *_ = answer(planned(row(1), wanted, now_s=now_s), "g")
    assert reason is Reason.NO_ALLOWED_ZONE
