"""The planner and places: host ports, and what becomes of places in the plan before."""

from collections.abc import Iterable
from dataclasses import replace

from scoring.ids import NodeName
from scoring.model import Gang, HostPort, Node, Role
from scoring.model.reasons import Reason
from scoring.model.snapshot import Snapshot
from scoring.plan import Plan, plan
from tests.builders import gang, node, pod, snapshot
from tests.scoring.plan.planned import POLICY, answer, planned, ported, row

# -- host ports ------------------------------------------------------------------------------------------------


def test_different_ports_may_share_a_node() -> None:
    """A ps on port 2222 and a worker on 2223 fit on one node; two on the same port do not."""
    one = [node("n0", cpu="8")]
    different = [ported(pod("g-0", gang="g", role=Role.PS), 2222), ported(pod("g-1", gang="g", role=Role.WORKER), 2223)]
    assert answer(planned(one, gang("g", members=different)), "g") == ["n0", "n0"]
    same = [ported(pod("g-0", gang="g", role=Role.PS), 2222), ported(pod("g-1", gang="g", role=Role.WORKER), 2222)]
    assert answer(planned(one, gang("g", members=same)), "g")[0] is Reason.IMPOSSIBLE
    both = [ported(ported(pod("g-0", gang="g", role=Role.PS), 2222), 2223), different[1]]
    assert answer(planned(one, gang("g", members=both)), "g")[0] is Reason.IMPOSSIBLE


def test_ports_on_nodes_that_are_gone_hinder_nobody() -> None:
    """The cache may know pods of a node that has left."""
    wish = gang("g", members=[ported(m, 80) for m in gang("g", 1).members])
    taken = {NodeName("gone"): frozenset({HostPort("TCP", "0.0.0.0", 80)})}
    assert answer(planned(row(1), wish, host_ports=taken), "g") == ["n0"]


def test_ports_given_to_one_gang_are_taken_for_the_next() -> None:
    """Within one plan two gangs never get the same host port of a node, nor do further members."""
    gangs = [gang(name, members=[ported(m, 80) for m in gang(name, 2).members], min_member=1) for name in "gh"]
    outcome = planned(row(3, cpu="4"), *gangs)
    assert len(outcome.node_of) == 3
    assert len(set(outcome.node_of.values())) == 3
    many = gang("g", members=[ported(m, 80) for m in gang("g", 9).members], min_member=1)
    assert answer(planned(row(3, cpu="4"), many), "g") == ["n0", "n1", "n2"]


def test_ports_of_a_former_place_are_taken_for_the_next_gang() -> None:
    """A gang that keeps its place keeps its ports: the newcomer goes elsewhere."""
    first, second = (gang(name, members=[ported(m, 80) for m in gang(name, 1).members]) for name in "gh")
    nodes = row(2, cpu="4")
    before = planned(nodes, first)
    assert answer(before, "g") == ["n0"]
    then = again(before, nodes, first, second)
    assert (answer(then, "g"), answer(then, "h")) == (["n0"], ["n1"])


def test_a_former_place_that_fails_leaves_no_ports_behind() -> None:
    """The second kind lost its room: nothing of the former place may stand in the way of the new one."""
    nodes = [node("n0", cpu="2"), node("n1", cpu="1")]
    members = [ported(pod("g-0", gang="g", cpu="1"), 80), pod("g-1", gang="g", cpu="0", memory="1Gi")]
    wish = gang("g", members=members)
    before = planned(nodes, wish)
    ahead = gang("h", 1, priority=1, cpu="2", memory="32Gi")
    then = plan(snapshot(nodes, [wish, ahead], version=2), POLICY, now_s=0.0, previous=before)
    fresh = plan(snapshot(nodes, [wish, ahead], version=2), POLICY, now_s=0.0)
    assert then.node_of == fresh.node_of


def test_a_former_place_where_kinds_compete_now_is_given_up_whole() -> None:
    """Each kind alone would still fit on the node, both do not: the gang is placed again, without any trace."""
    nodes = [node("n0", cpu="3"), node("n1", cpu="2"), node("n2", cpu="1")]
    members = [ported(pod("g-0", gang="g", cpu="2"), 80), ported(pod("g-1", gang="g", cpu="1"), 81)]
    wish = gang("g", members=members, options={"selection": "pack"})
    before = planned(nodes, wish)
    assert answer(before, "g") == ["n0", "n0"]
    crowded = snapshot(nodes, [wish], pods=[pod("x", node="n0")], version=2)
    then = plan(crowded, POLICY, now_s=0.0, previous=before)
    fresh = plan(crowded, POLICY, now_s=0.0)
    assert then.node_of == fresh.node_of
    assert len(then.node_of) == 2


# -- former places ---------------------------------------------------------------------------------------------


def again(before: Plan, nodes: Iterable[Node], *gangs: Gang, **fields: object) -> Plan:
    """The next plan, with the former one in hand."""
    state: Snapshot = snapshot(nodes, gangs, version=before.version + 1, **fields)  # type: ignore[arg-type]
    return plan(
        replace(state, table=replace(state.table, version=before.version + 1)), POLICY, now_s=0.0, previous=before
    )


def test_a_node_that_changed_its_zone_is_no_place_beside_the_others() -> None:
    """One of the gang's nodes has another zone label now: the gang moves together."""
    nodes, wish = row(4), gang("g", 2)
    before = planned(nodes, wish)
    assert answer(before, "g") == ["n0", "n1"]
    moved = [node("n0", zone="b", cpu="1"), *nodes[1:]]
    assert answer(again(before, moved, wish), "g") == ["n1", "n2"]
    all_moved = [node(f"n{i}", zone="b", cpu="1") for i in range(4)]
    outcome = again(before, all_moved, wish)
    assert (answer(outcome, "g"), outcome.admitted[wish.key].zones) == (["n0", "n1"], ("b",))


def test_zones_that_are_not_allowed_any_more_are_left() -> None:
    """The gang's owner changed the annotation: the former place does not stand."""
    nodes = [*row(2, zone="a", prefix="a"), *row(2, zone="b", prefix="b")]
    before = planned(nodes, gang("g", 2))
    assert answer(before, "g") == ["a0", "a1"]
    assert answer(again(before, nodes, gang("g", 2, options={"zones": "b"})), "g") == ["b0", "b1"]


def test_a_former_place_on_a_node_or_of_a_kind_that_is_gone() -> None:
    """A place needs all its nodes, and a node that has each resource asked."""
    nodes = [node(f"n{i}", gpu=1) for i in range(3)]
    wish = gang("g", 2, gpu=1)
    before = planned(nodes, wish)
    assert answer(again(before, nodes[1:], wish), "g") == ["n1", "n2"]
    assert answer(again(before, [node(f"n{i}") for i in range(3)], wish), "g")[0] is Reason.IMPOSSIBLE


def test_new_members_join_a_former_place() -> None:
    """Members that came later go beside those that have a place; if the minimum grew, all are placed again."""
    nodes = row(4)
    before = planned(nodes, gang("g", 2))
    assert answer(again(before, nodes, gang("g", 3, min_member=2)), "g") == ["n0", "n1", "n2"]
    assert answer(again(before, nodes, gang("g", 4, min_member=3)), "g") == ["n0", "n1", "n2", "n3"]
