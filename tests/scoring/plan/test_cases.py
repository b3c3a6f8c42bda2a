"""The planner in particular situations: gates, lost nodes, members beyond the minimum, reasons, commitments."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from scoring.ids import EndpointId, NodeName
from scoring.model import Gang, HostPort, Node, NodeSelectorTerm, Phase, Pod, Requirement, Role
from scoring.model.policy import Selection
from scoring.model.reasons import Reason
from scoring.model.snapshot import NodeTable
from scoring.network.matrix import METRICS, Measurement, Metric, NetworkMatrix
from scoring.plan import Plan, PlannerCache, begin_run, plan
from tests.builders import bound, gang, mesh, node, pod, snapshot
from tests.scoring.plan.planned import LATE_S, POLICY, answer, planned, ported, row

KUEUE = "kueue.x-k8s.io/admission"


# -- gates (docs/safety.md S5)
# ------------------------------------------------------------------------------------------------


def gated(count: int, *gates: str, first: int = 0, size: int = 3, role: Role = Role.OTHER) -> list[Pod]:
    """Members of gang g, `count` of which, from the first named on, have these gates."""
    return [
        pod(f"g-{i}", gang="g", index=i, role=role, gates=gates if first <= i < first + count else ())
        for i in range(size)
    ]


def test_a_gate_makes_a_gang_incomplete() -> None:
    """A gang that needs a pod behind a gate reserves nothing, and is told which gate of which pod."""
    outcome = planned(row(3), gang("g", members=gated(1, KUEUE)), gang("h", 3, created_s=9.0))
    assert answer(outcome, "g") == (Reason.INCOMPLETE, f"pod default/g-0 waits for scheduling gate {KUEUE}")
    assert answer(outcome, "h") == ["n0", "n1", "n2"]


def test_several_gates_of_several_pods_are_told_once() -> None:
    """One pod stands for all, so that the sentence stays short."""
    outcome = planned(row(3), gang("g", members=gated(3, KUEUE, "example.com/quota")))
    want = f"pod default/g-0 (and 2 more pods) waits for scheduling gate {KUEUE}, example.com/quota"
    assert answer(outcome, "g") == (Reason.INCOMPLETE, want)


def test_too_few_pods_come_before_gates() -> None:
    """When even without gates there are too few pods, that is what is said."""
    outcome = planned(row(3), gang("g", members=gated(1, KUEUE, size=2), min_member=3))
    assert answer(outcome, "g") == (Reason.INCOMPLETE, "2 of 3 pods exist")


def test_a_gated_pod_that_is_not_needed_holds_nobody_back() -> None:
    """Enough other members: the gang starts without the gated one, and no room is kept for that."""
    for first in (0, 2):
        outcome = planned(row(3), gang("g", members=gated(1, KUEUE, first=first), min_member=2))
        assert answer(outcome, "g") == ["n0", "n1"]
        assert f"uid-default-g-{first}" not in outcome.node_of


def test_with_known_roles_the_minimum_set_must_be_free_of_gates() -> None:
    """Workers start from index 0: a gate on worker 0 blocks, one on a worker beyond the minimum does not.

    docs/safety.md S9.
    """
    blocked = gang("g", members=gated(1, KUEUE, role=Role.WORKER), min_member=2)
    assert answer(planned(row(3), blocked), "g")[0] is Reason.INCOMPLETE
    free = gang("g", members=gated(1, KUEUE, first=2, role=Role.WORKER), min_member=2)
    assert answer(planned(row(3), free), "g") == ["n0", "n1"]


def test_a_running_gang_says_nothing_of_gated_members() -> None:
    """The minimum runs; a further member behind a gate is neither placed nor waited for."""
    members = [bound(pod("g-0", gang="g"), "n0"), pod("g-1", gang="g", gates=(KUEUE,))]
    outcome = planned(row(3), gang("g", members=members, min_member=1))
    assert (dict(outcome.admitted), dict(outcome.waiting)) == ({}, {})


def test_a_partial_gang_with_a_gated_member_is_still_partial() -> None:
    """It uses room without working, so the repair must know it, gate or not."""
    members = [bound(pod("g-0", gang="g"), "n0"), pod("g-1", gang="g", gates=(KUEUE,))]
    outcome = planned(row(3), gang("g", members=members))
    assert answer(outcome, "g")[0] is Reason.INCOMPLETE
    assert outcome.partial == {"default/g"}


# -- lost nodes (docs/safety.md S12)
# ------------------------------------------------------------------------------------------


def test_members_on_a_deleted_node_do_not_count() -> None:
    """A member on a node that is gone cannot come to work: too few others make the gang incomplete."""
    members = [bound(pod("g-0", gang="g"), "gone"), pod("g-1", gang="g"), pod("g-2", gang="g")]
    want = (Reason.INCOMPLETE, "2 of 3 pods exist, beside those on gone, which is gone")
    assert answer(planned(row(3), gang("g", members=members)), "g") == want


def test_a_successor_takes_the_place_of_a_lost_member() -> None:
    """With enough others, the member beyond the minimum becomes part of it, in the zone where the gang runs."""
    nodes = [*row(2, zone="a", prefix="a"), *row(2, zone="b", prefix="b")]
    members = [bound(pod("g-0", gang="g"), "gone"), bound(pod("g-1", gang="g"), "b1"), pod("g-2", gang="g")]
    outcome = planned(nodes, gang("g", members=members, min_member=2))
    assert answer(outcome, "g") == ["b0"]
    assert outcome.partial == {"default/g"}


def test_a_succeeded_member_counts_wherever_its_node_is() -> None:
    """What is done is done (docs/safety.md S8): the node may go."""
    done = replace(bound(pod("g-0", gang="g"), "gone"), phase=Phase.SUCCEEDED)
    assert answer(planned(row(3), gang("g", members=[done, pod("g-1", gang="g")])), "g") == ["n0"]


def test_siblings_only_on_lost_nodes_bind_to_no_zone() -> None:
    """Nobody is left to stay with: the rest may go where there is room."""
    nodes = [*row(1, zone="a", prefix="a"), *row(2, zone="b", prefix="b")]
    members = [bound(pod("g-0", gang="g"), "gone"), pod("g-1", gang="g"), pod("g-2", gang="g")]
    assert answer(planned(nodes, gang("g", members=members, min_member=2)), "g") == ["b0", "b1"]


# -- members beyond the minimum --------------------------------------------------------------------------------


def finished(count: int) -> list[Pod]:
    """Members of gang g that succeeded."""
    return [replace(bound(pod(f"g-{i}", gang="g"), "gone"), phase=Phase.SUCCEEDED) for i in range(count)]


def test_members_start_after_all_before_them_succeeded() -> None:
    """The minimum is done and nobody runs: further members go on, together, where most of them fit."""
    nodes = [*row(1, zone="a", prefix="a"), *row(2, zone="b", prefix="b"), *row(2, zone="c", prefix="c")]
    members = [*finished(2), *(pod(f"g-{i}", gang="g") for i in range(2, 5))]
    wish = gang("g", members=members, min_member=2)
    assert answer(planned(nodes, wish), "g") == ["b0", "b1"]
    near_c = replace(wish, options=(("near", "c"),))
    assert answer(planned(nodes, near_c), "g") == ["c0", "c1"]


def test_members_after_success_wait_when_nothing_is_free() -> None:
    """No room anywhere: they are surplus, until there is."""
    wish = gang("g", members=[*finished(1), pod("g-1", gang="g")], min_member=1)
    assert answer(planned(row(1), wish, pods=[pod("x", node="n0")]), "g")[0] is Reason.SURPLUS
    nowhere = replace(wish, options=(("zones", "mars"),))
    assert answer(planned(row(1), nowhere), "g")[0] is Reason.SURPLUS


def test_further_members_of_several_kinds() -> None:
    """Each kind gets what it can; one that asks for what no node has gets nothing and hinders nobody."""
    members = [
        bound(pod("g-0", gang="g"), "n0"),
        pod("g-1", gang="g", gpu=1),
        pod("g-2", gang="g"),
        pod("g-3", gang="g", cpu="2"),
    ]
    outcome = planned([*row(2), node("n2", cpu="2")], gang("g", members=members, min_member=1))
    assert outcome.node_of == {"uid-default-g-2": "n1", "uid-default-g-3": "n2"}


def test_the_paper_method_places_as_many_more_as_fit() -> None:
    """`paper` takes one member per node and starts over, so members beyond the minimum fill nodes too."""
    wish = gang("g", 6, min_member=2, options={"selection": Selection.PAPER})
    assert answer(planned(row(2, cpu="2"), wish), "g") == ["n0", "n0", "n1", "n1"]


def test_who_ran_out_of_former_places_waits_again() -> None:
    """Members whose place the last plan knew run by now; the one left over without room waits, it is not admitted."""
    members = [pod(f"g-{i}", gang="g") for i in range(3)]
    first = planned(row(2), gang("g", members=members, min_member=2))
    assert answer(first, "g") == ["n0", "n1"]
    running = gang("g", members=[bound(members[0], "n0"), bound(members[1], "n1"), members[2]], min_member=2)
    then = plan(snapshot(row(2), [running], version=2), POLICY, now_s=0.0, previous=first)
    assert answer(then, "g")[0] is Reason.SURPLUS


def test_further_members_are_near_those_that_run_and_those_just_placed() -> None:
    """Running members count once each: two new ones near each other outweigh one old one only by their number."""
    nodes = row(4, cpu="1")
    members = [bound(pod("g-0", gang="g"), "n0"), pod("g-1", gang="g")]
    far = {("n0", "n1"): 50.0, ("n0", "n2"): 5.0, ("n0", "n3"): 20.0}
    found = [
        Measurement(EndpointId(a), EndpointId(b), Metric.DELAY, ms, 0.0)
        for (one, other), ms in far.items()
        for a, b in ((one, other), (other, one))
    ]
    ends = {n.name: EndpointId(n.name) for n in nodes}
    network = NetworkMatrix.of(found, endpoint_of=dict.fromkeys(METRICS, ends), now_s=0.0)
    assert answer(planned(nodes, gang("g", members=members, min_member=1), network=network), "g") == ["n2"]


# -- reasons ---------------------------------------------------------------------------------------------------


def test_no_room_by_competition_is_not_called_behind() -> None:
    """Two kinds that fit only one by one: nobody took anything, so nobody is ahead."""
    nodes = [node("n0", cpu="2"), node("n1", cpu="2")]
    members = [pod("g-0", gang="g", cpu="2"), pod("g-1", gang="g", cpu="1")]
    outcome = planned(nodes, gang("g", members=members), pods=[pod("x", cpu="2", node="n0")])
    assert answer(outcome, "g")[0] is Reason.NO_ROOM


def test_refusals_learned_do_not_make_a_gang_impossible() -> None:
    """What nodes refused may pass: the gang waits, with or without a cache of better times, and why is said.

    docs/safety.md S7.

    That filters are in the way is the reason only where they alone are: not where there is no room either.
    """
    wish = gang("g", 2)
    excluded = {wish.members[0].member_class: frozenset({NodeName("n0")})}
    assert answer(planned(row(2), wish, exclusions=excluded), "g")[0] is Reason.FILTERED
    full = [pod("x", cpu="4", node="n1")]
    assert answer(planned(row(2), wish, exclusions=excluded, pods=full), "g")[0] is Reason.NO_ROOM


def test_what_a_pod_learned_holds_for_its_successor_and_its_predecessor() -> None:
    """The terms that an admission adds make no difference to filters that are not modelled (docs/safety.md S27)."""
    wish = gang("g", 2)
    term = NodeSelectorTerm(fields=(Requirement("metadata.name", "In", ("n0",)),))
    admitted = pod("p", affinity=(term,)).member_class
    assert admitted != wish.members[0].member_class
    assert admitted.anywhere == wish.members[0].member_class
    excluded = {admitted: frozenset({NodeName("n0")})}
    for cache in (PlannerCache(), shared := PlannerCache(), shared):
        crowd = [gang(f"h{i}", 2, created_s=1.0) for i in range(20)]
        made = plan(snapshot(row(2), [wish, *crowd], exclusions=excluded), POLICY, now_s=0.0, cache=cache)
        assert {one.reason for one in made.waiting.values()} == {Reason.FILTERED}
        assert not made.admitted


def test_devices_that_cannot_be_counted() -> None:
    """A resource that a DeviceClass provides is in no allocatable: kube-scheduler counts it, and we say so.

    docs/safety.md S27.
    """
    wish = gang("g", 2, gpu=1)
    assert answer(planned(row(2), wish), "g")[0] is Reason.IMPOSSIBLE
    served = ["nvidia.com/gpu"]
    assert wish.key in planned(row(2), wish, uncounted=served).admitted
    excluded = {wish.members[0].member_class: frozenset({NodeName("n0"), NodeName("n1")})}
    assert answer(planned(row(2), wish, uncounted=served, exclusions=excluded), "g")[0] is Reason.DEVICES
    large = gang("g", 2, cpu="64", gpu=1)
    assert answer(planned([*row(2), node("n9", gpu=1)], large, uncounted=served), "g")[0] is Reason.DEVICES


def test_claims_for_devices_are_waited_for() -> None:
    """Pods with resourceClaims that every node refuses wait for devices, not for room."""
    wish = gang("g", 1, unmodelled=("resourceClaims",))
    excluded = {wish.members[0].member_class: frozenset({NodeName("n0")})}
    assert answer(planned(row(1), wish, exclusions=excluded), "g")[0] is Reason.DEVICES


def test_host_ports_in_use_do_not_make_a_gang_impossible() -> None:
    """Another pod's port is free again some day: the gang waits for room, and behind a gang ahead if that took it."""
    wish = gang("g", members=[ported(m, 80) for m in gang("g", 2).members])
    taken = {NodeName("n0"): frozenset({HostPort("TCP", "0.0.0.0", 80)})}
    assert answer(planned(row(2), wish, host_ports=taken), "g")[0] is Reason.NO_ROOM
    ahead = gang("h", members=[ported(m, 80) for m in gang("h", 1).members], priority=1)
    assert answer(planned(row(2, cpu="2"), wish, ahead), "g")[0] is Reason.BEHIND


def test_the_same_wish_is_refused_once_for_all() -> None:
    """Equal gangs behind a refused one get its answer; a gang that only waits for its spread is looked at itself."""
    nodes = [*row(1, zone="a", prefix="a"), *row(1, zone="b", prefix="b")]
    young = gang("y", 2, options={"zone-policy": "preferred"}, created_s=LATE_S)
    old = gang("z", 2, options={"zone-policy": "preferred"}, created_s=0.0, priority=-1)
    outcome = planned(nodes, young, old, now_s=LATE_S)
    assert answer(outcome, "y")[0] is Reason.SPILL_WAIT
    assert answer(outcome, "z") == ["a0", "b0"]
    equal = planned(row(3), gang("a", 2), gang("b", 2), gang("c", 2))
    assert [answer(equal, name)[0] for name in "bc"] == [Reason.BEHIND, Reason.BEHIND]


def test_a_back_off_does_not_hold_back_a_gang_that_runs_in_part() -> None:
    """Its members use room: completing it is better than any pause.

    docs/safety.md S5 is for gangs that hold nothing.
    """
    wish = gang("g", members=[bound(pod("g-0", gang="g"), "n0"), pod("g-1", gang="g")])
    assert answer(planned(row(2), wish, backing_off_until_s={wish.key: 99.0}), "g") == ["n1"]


def test_a_minimum_of_nothing_still_starts_what_fits() -> None:
    """No member is needed, all are welcome."""
    assert answer(planned(row(2), gang("g", 3, min_member=0)), "g") == ["n0", "n1"]


def test_members_that_ask_for_nothing() -> None:
    """No request: any allowed node takes them all."""
    members = [
        replace(m, member_class=replace(m.member_class, requests=type(m.requests)())) for m in gang("g", 3).members
    ]
    assert len(answer(planned(row(1, cpu="0"), gang("g", members=members)), "g")) == 3


# -- a resource that no node has -------------------------------------------------------------------------------


def test_what_no_node_has_has_no_place() -> None:
    """No zone holds, estimates or selects anything for a demand that asks for a resource nobody offers."""
    wish = gang("g", 1, gpu=1)
    run = begin_run(snapshot(row(2), [wish]), POLICY, PlannerCache())
    ask = run.view.demand(wish)
    asked, zone = run.view.member_set(ask.need, ask), run.zones[0]
    assert run.capacity.zone_members(asked).tolist() == [0]
    assert run.search.place(asked, run.zones, method=Selection.SUBSET, score=POLICY.score) is None
    assert run.search.estimate(asked, zone, score=POLICY.score) is None
    assert not run.search.fits_empty(asked, run.zones)


def test_a_kind_that_has_no_place_hinders_no_other() -> None:
    """After success: two zones hold the same, though neither all kinds; the better measured one is not known."""
    nodes = [*row(1, zone="a", prefix="a"), *row(1, zone="b", prefix="b")]
    members = [*finished(1), pod("g-1", gang="g"), pod("g-2", gang="g", gpu=1)]
    assert answer(planned(nodes, gang("g", members=members, min_member=1), network=mesh(nodes)), "g") == ["a0"]


# -- commitments (docs/safety.md S4)
# ------------------------------------------------------------------------------------------


def committed(nodes: Iterable[Node], *gangs: Gang, **where: dict[str, str]) -> Plan:
    """Plan with commitments: gang → member → node."""
    held = {f"default/{g}": {f"uid-default-{m}": at for m, at in members.items()} for g, members in where.items()}
    return planned(nodes, *gangs, commitments=held)


def test_members_that_came_after_the_commitment_go_beside_it() -> None:
    """They take what is left in its zone; without any they are surplus."""
    nodes = [*row(3, zone="a", prefix="a"), *row(3, zone="b", prefix="b")]
    assert answer(committed(nodes, gang("g", 3), g={"g-0": "b0", "g-1": "b1"}), "g") == ["b0", "b1", "b2"]
    assert answer(committed(nodes[3:5], gang("g", 3), g={"g-0": "b0", "g-1": "b1"}), "g") == ["b0", "b1"]


def test_a_commitment_to_a_node_that_is_gone_is_not_moved_by_the_planner() -> None:
    """Whoever holds the binds is told of the lost node and ends the commitment; until then the plan says the same."""
    outcome = committed(row(3), gang("g", 2), g={"g-0": "gone", "g-1": "gone"})
    assert answer(outcome, "g") == ["gone", "gone"]
    assert outcome.admitted["default/g"].zones == ()  # type: ignore[index]


def test_a_commitment_with_nobody_left_to_place() -> None:
    """Its members are bound; a further one finds no room and is surplus."""
    members = [bound(pod("g-0", gang="g"), "n0"), pod("g-1", gang="g")]
    outcome = committed(row(1), gang("g", members=members, min_member=1), g={"g-0": "n0"})
    assert answer(outcome, "g") == (Reason.SURPLUS, "the minimum is under way; more start when there is room")


def test_a_commitment_of_a_gang_that_is_gone_holds_nothing() -> None:
    """Its pods are gone, so is its claim."""
    assert answer(committed(row(2), gang("g", 2), h={"h-0": "n0"}), "g") == ["n0", "n1"]


def test_a_committed_member_that_asks_for_what_no_node_has_takes_nothing() -> None:
    """The resource left with its node: the commitment cannot be met, and no other gang suffers from it."""
    outcome = committed(row(2), gang("g", 1, gpu=1), gang("h", 2), g={"g-0": "n0"})
    assert answer(outcome, "h") == ["n0", "n1"]


# -- the table -------------------------------------------------------------------------------------------------


def test_equal_content_makes_equal_tables() -> None:
    """The order in which nodes are listed does not show in the table."""
    nodes = [node("b", zone="y"), node("a", zone="x", gpu=1)]
    one, other = NodeTable.of(nodes), NodeTable.of(reversed(nodes))
    assert (one.names, one.axis, dict(one.index), list(one.zones)) == (
        other.names,
        other.axis,
        dict(other.index),
        list(other.zones),
    )
    assert (one.allocatable == other.allocatable).all()


@pytest.mark.parametrize("selection", list(Selection))
def test_an_empty_cluster(selection: Selection) -> None:
    """Without any node every gang is told that none of its zones has nodes."""
    assert answer(planned([], gang("g", 1, options={"selection": selection})), "g")[0] is Reason.NO_ALLOWED_ZONE
