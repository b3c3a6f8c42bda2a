"""Places of the previous plan: kept all together, given up one by one, and which gangs can lose to them."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from scoring import NodeName
from scoring.model import Gang, Node, Pod
from scoring.model.reasons import Reason
from scoring.model.snapshot import Reservation, Snapshot
from scoring.plan import PlannerCache, plan
from scoring.plan.demand import demand_of
from tests.builders import bound, gang, mesh, node, pod, snapshot
from tests.scoring.plan.planned import LATE_S, POLICY, answer, clusters, in_order, planned, ported, row, zoned

NODES = zoned(cpu="4", a=3, b=3)
GANGS = [gang(f"g{i}", 3, cpu="1", created_s=float(i)) for i in range(6)]
STATE = snapshot(NODES, GANGS)


def used(state: Snapshot, **cpu: int) -> Snapshot:
    """The snapshot with foreign pods of so many CPUs on these nodes."""
    table = state.table
    taken = state.used.copy()
    for name, number in cpu.items():
        taken[table.index[NodeName(name)], table.axis.index(next(r for r in table.axis if r == "cpu"))] += number * 1000
    return replace(state, version=state.version + 1, used=taken)


def test_what_nothing_speaks_against_is_the_same_object() -> None:
    first = plan(STATE, POLICY, now_s=0.0)
    again = plan(STATE, POLICY, now_s=0.0, previous=first)
    assert again == first
    assert all(again.admitted[key] is first.admitted[key] for key in first.admitted)


def test_only_the_rank_changes_when_a_gang_ahead_goes() -> None:
    first = plan(STATE, POLICY, now_s=0.0)
    fewer = replace(STATE, version=2, gangs={g.key: g for g in GANGS[1:]})
    then = plan(fewer, POLICY, now_s=0.0, previous=first)
    for key, admission in then.admitted.items():
        assert admission == replace(first.admitted[key], rank=first.admitted[key].rank - 1)


def test_a_place_that_was_committed_is_not_any_more() -> None:
    """After a lapse the gang is planned where it was, and told so without the commitment."""
    first = plan(STATE, POLICY, now_s=0.0)
    key = GANGS[2].key
    held = replace(STATE, commitments={key: Reservation(key, first.admitted[key].members)})
    during = plan(held, POLICY, now_s=0.0, previous=first)
    after = plan(STATE, POLICY, now_s=0.0, previous=during)
    assert during.admitted[key].committed
    assert not after.admitted[key].committed
    assert after.admitted[key].members == first.admitted[key].members


@pytest.mark.parametrize("name", [str(one.name) for one in NODES])
def test_a_full_node_moves_those_on_it_and_nobody_else(name: str) -> None:
    cache = PlannerCache()
    few = replace(STATE, gangs={g.key: g for g in GANGS[:4]})
    first = plan(few, POLICY, now_s=0.0, cache=cache)
    then = plan(used(few, **{name: 4}), POLICY, now_s=0.0, cache=cache, previous=first)
    assert then == plan(used(few, **{name: 4}), POLICY, now_s=0.0, previous=first)
    for key, admission in first.admitted.items():
        assert name in admission.members.values() or then.admitted[key] is admission
    assert name not in then.node_of.values()


FOUR, PAIR = row(4), gang("g", 2, created_s=5.0)
GPUS, ON_GPUS = [node(f"n{i}", gpu=1) for i in range(3)], gang("g", 2, gpu=1)
ZONES = zoned(a=2, b=2)
ON_PORT, BESIDE = (gang(name, members=[ported(m, 80) for m in gang(name, 1).members]) for name in "gh")
THEN: dict[str, tuple[object, list[Node], Gang, list[Node], list[Gang], dict[str, Any]]] = {
    # case: (answer to g by then, nodes and gang before; nodes, gangs and other parts of the cluster then)
    "an event elsewhere moves nobody": (["n0", "n1"], FOUR, PAIR, FOUR, [PAIR], {"pods": [pod("x", node="n3")]}),
    "a gang ahead needs the room": (Reason.BEHIND, FOUR, PAIR, FOUR, [PAIR, gang("h", 3, created_s=1.0)], {}),
    "a node is gone": (["n1", "n2"], FOUR, PAIR, FOUR[1:], [PAIR], {}),
    "new network data": (["n1", "n2"], FOUR, PAIR, FOUR, [PAIR],
        {"network": mesh(FOUR, bad={"n0": {"loss_ratio": 0.5}})}),
    "one node has another zone label: all move": (["n1", "n2"], FOUR, PAIR, [*row(1, zone="b"), *FOUR[1:]], [PAIR], {}),
    "all nodes have": (["n0", "n1"], FOUR, PAIR, row(4, zone="b"), [PAIR], {}),
    "its owner allows another zone": (["b0", "b1"], ZONES, PAIR, ZONES, [gang("g", 2, options={"zones": "b"})], {}),
    "one of its GPU nodes is gone": (["n1", "n2"], GPUS, ON_GPUS, GPUS[1:], [ON_GPUS], {}),
    "the GPUs are gone": (Reason.IMPOSSIBLE, GPUS, ON_GPUS, [GPUS[0], node("n1"), node("n2")], [ON_GPUS], {}),
    "members that came go beside it": (["n0", "n1", "n2"], FOUR, PAIR, FOUR, [gang("g", 3, min_member=2)], {}),
    "the minimum grew": (["n0", "n1", "n2", "n3"], FOUR, PAIR, FOUR, [gang("g", 4, min_member=3)], {}),
    "its ports are kept, too": (["n0"], row(2, cpu="4"), ON_PORT, row(2, cpu="4"), [ON_PORT, BESIDE], {}),
}  # fmt: skip


@pytest.mark.parametrize(("want", "nodes", "waits", "then", "gangs", "fields"), THEN.values(), ids=THEN)
def test_places_are_kept_until_something_speaks_against_them(
    want: object, nodes: list[Node], waits: Gang, then: list[Node], gangs: list[Gang], fields: dict[str, Any]
) -> None:
    """A place needs all its nodes, together in zones that the gang may use, with room for each resource asked."""
    state = snapshot(then, gangs, version=2, **fields)
    state = replace(state, table=replace(state.table, version=2))
    outcome = plan(state, POLICY, now_s=0.0, previous=planned(nodes, waits))
    assert want in (answer(outcome, "g"), answer(outcome, "g")[0])
    used = list(outcome.node_of.values())
    assert len(used) == len(set(used)), "a node holds two members, on one port or without room"


RUNS, MORE = bound(pod("g-0", gang="g"), "n0"), [pod(f"g-{i}", gang="g") for i in (1, 2)]
BACK: dict[str, tuple[list[str], list[Node], list[Pod], int, dict[str, Any]]] = {  # g-2 was on n3
    "a lost member's successor is back": (["n1", "n3"], FOUR, [RUNS, *MORE], 1, {}),
    "one of the minimum, too": (["n3"], FOUR, [RUNS, MORE[1]], 2, {}),
    "there is no room any more": (["n1", "n2"], FOUR, [RUNS, *MORE], 1, {"pods": [pod("x", node="n3")]}),
    "links to it are bad by now": (["n1", "n2"], FOUR, [RUNS, *MORE], 1,
        {"network": mesh(FOUR, bad={"n3": {"loss_ratio": 0.5}})}),
    "the node is gone": (["n1", "n2"], FOUR[:3], [RUNS, *MORE], 1, {}),
    "it has not started, or not again": (["n0", "n1"], FOUR, MORE, 2, {}),
}  # fmt: skip


@pytest.mark.parametrize(("want", "nodes", "members", "least", "fields"), BACK.values(), ids=BACK)
def test_a_lost_members_successor_is_back_on_its_node(
    want: list[str], nodes: list[Node], members: list[Pod], least: int, fields: dict[str, Any]
) -> None:
    back = ((MORE[1].uid, NodeName("n3")),)
    one = replace(gang("g", members=members, min_member=least), started=RUNS in members, former=back)
    assert answer(outcome := planned(nodes, one, **fields), "g") == want
    assert plan(snapshot(nodes, [one], **fields), POLICY, now_s=0.0, previous=outcome).node_of == outcome.node_of


FULL, AHEAD = [node("n0", cpu="2"), node("n1", cpu="1")], gang("h", 1, priority=1, cpu="2", memory="32Gi")
PORT_OR_MEMORY = gang("g", members=[ported(pod("g-0", gang="g"), 80), pod("g-1", gang="g", cpu="0", memory="1Gi")])
PORTS = [ported(pod("g-0", gang="g", cpu="2"), 80), ported(pod("g-1", gang="g", cpu="1"), 81)]
PACKED = gang("g", members=PORTS, options={"selection": "pack"})
GIVEN_UP = {  # case: (nodes, gang, gangs and pods that come)
    "one kind of members lost its room": (FULL, PORT_OR_MEMORY, [AHEAD], []),
    "each kind alone would still fit": (
        [node("n0", cpu="3"), node("n1", cpu="2"), node("n2", cpu="1")], PACKED, [], [pod("x", node="n0")]),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "waits", "others", "pods"), GIVEN_UP.values(), ids=GIVEN_UP)
def test_a_former_place_is_given_up_whole(nodes: list[Node], waits: Gang, others: list[Gang], pods: list[Pod]) -> None:
    """Nothing of it, no port, stands in the way of the new one."""
    before, state = planned(nodes, waits), snapshot(nodes, [waits, *others], pods=pods, version=2)
    assert waits.key in before.admitted
    fresh = plan(state, POLICY, now_s=0.0)
    assert plan(state, POLICY, now_s=0.0, previous=before).node_of == fresh.node_of != before.node_of


@given(clusters())
def test_planning_again_changes_nothing(state: Snapshot) -> None:
    first = plan(state, POLICY, now_s=0.0)
    again = plan(state, POLICY, now_s=0.0, previous=first)
    assert again.node_of == first.node_of
    assert again.waiting == first.waiting


@given(clusters(), st.data())
def test_what_is_taken_away_is_noticed(state: Snapshot, data: st.DataObject) -> None:
    first = plan(state, POLICY, now_s=0.0)
    victim = data.draw(st.integers(0, len(state.table.nodes) - 1))
    lost = state.table.nodes[victim].name
    left = [n for n in state.table.nodes if n.name != lost]
    after = snapshot(left, state.gangs.values(), network=state.network, version=2)
    outcome = plan(after, POLICY, now_s=0.0, previous=first)
    assert lost not in outcome.node_of.values()
    for key, admission in outcome.admitted.items():
        assert len(state.gangs[key].placed) + len(admission.members) >= state.gangs[key].min_member


def with_gang(state: Snapshot, heavy: Gang) -> Snapshot:
    return replace(state, version=2, gangs={**state.gangs, heavy.key: heavy})


HEAVY = st.builds(
    lambda size, least, cpu: gang("heavy", size, min_member=min(size, least), cpu=str(cpu), priority=9),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 2),
)


@given(clusters(), HEAVY)
def test_a_heavier_gang_loses_nothing_to_places_kept(state: Snapshot, heavy: Gang) -> None:
    """Places of the former plan never stand in the way of a heavier gang: it is admitted to the very same nodes."""
    assume(not any(demand_of(g, POLICY).partial for g in state.gangs.values()))  # those go before everybody
    before = plan(state, POLICY, now_s=LATE_S)
    after = with_gang(state, heavy)
    kept, fresh = plan(after, POLICY, now_s=LATE_S, previous=before), plan(after, POLICY, now_s=LATE_S)
    assert kept.admitted.get(heavy.key) == fresh.admitted.get(heavy.key)
    assert kept.waiting.get(heavy.key) == fresh.waiting.get(heavy.key)


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 1)), min_size=1, max_size=4),
    st.integers(1, 5),
)
def test_equal_members_lose_nothing_to_places_kept(cpus: list[int], gangs: list[tuple[int, int]], size: int) -> None:
    """Members that all demand for one CPU, one zone: the same gangs are admitted with former places as without."""
    nodes = [node(f"n{i}", cpu=str(cpu)) for i, cpu in enumerate(cpus)]
    waiting = [gang(f"g{i}", n, priority=p, created_s=float(i)) for i, (n, p) in enumerate(gangs)]
    state = snapshot(nodes, waiting)
    after = with_gang(state, gang("heavy", size, priority=1, created_s=-1.0))
    before = plan(state, POLICY, now_s=0.0)
    kept, fresh = plan(after, POLICY, now_s=0.0, previous=before), plan(after, POLICY, now_s=0.0)
    assert kept.admitted.keys() == fresh.admitted.keys()


@st.composite
def crowded(draw: st.DrawFn) -> tuple[Snapshot, Gang]:
    """Few nodes, many gangs of unequal members, and a heavy gang that comes later: places are fought for."""
    nodes = [
        node(f"n{i}", zone=draw(st.sampled_from("ab")), cpu=str(draw(st.integers(1, 4))))
        for i in range(draw(st.integers(2, 4)))
    ]
    shape = st.tuples(st.integers(1, 3), st.integers(1, 3))
    shapes = draw(st.lists(shape, min_size=2, max_size=4))
    waiting = [gang(f"g{i}", size, cpu=str(cpu), created_s=float(i)) for i, (size, cpu) in enumerate(shapes)]
    size, cpu = draw(shape)
    return snapshot(nodes, waiting), gang("heavy", size, cpu=str(cpu), priority=9)


@given(crowded())
def test_no_gang_loses_to_places_kept_behind_it(case: tuple[Snapshot, Gang]) -> None:
    """As long as all gangs ahead are placed as in a fresh plan, who is admitted there is admitted with places kept."""
    state, heavy = case
    before, after = plan(state, POLICY, now_s=0.0), with_gang(state, heavy)
    kept, fresh = plan(after, POLICY, now_s=0.0, previous=before), plan(after, POLICY, now_s=0.0)
    for demand in in_order(after):
        one, other = kept.admitted.get(demand.gang.key), fresh.admitted.get(demand.gang.key)
        assert one is not None or other is None
        if one is None or other is None or one.members != other.members:
            break


def test_a_gang_can_lose_to_a_place_kept_ahead_of_it() -> None:
    """The counter-example to more: g0 keeps the node in b that it was given before the heavy gang came.

    From scratch it would fill up a node in a and leave b to g1. So room is lost only to gangs ahead, and until these
    are bound.
    """
    nodes = [node("b0", zone="b", cpu="3"), node("a0", zone="a", cpu="3"), node("a1", zone="a", cpu="3")]
    waiting = [gang("g0", 1, cpu="1", created_s=0.0), gang("g1", 1, cpu="3", created_s=1.0)]
    state, after = snapshot(nodes, waiting), snapshot(nodes, [*waiting, gang("heavy", 2, cpu="2", priority=9)])
    before = plan(state, POLICY, now_s=0.0)
    assert dict(before.node_of) == {"uid-default-g0-0": "b0", "uid-default-g1-0": "a0"}
    kept, fresh = plan(after, POLICY, now_s=0.0, previous=before), plan(after, POLICY, now_s=0.0)
    assert sorted(kept.admitted) == ["default/g0", "default/heavy"]
    assert sorted(fresh.admitted) == ["default/g0", "default/g1", "default/heavy"]
