"""What holds of every plan, and, where the obvious does not hold, the counter-example.

Small clusters are planned by brute force as well: every way to place the members of the gang that is first in order.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations, product
from random import Random
from typing import Any, TypeAlias

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from scoring import NodeName, ResourceName
from scoring.feasibility.filters import node_allows, ports_conflict
from scoring.feasibility.quorum import minimum_members
from scoring.model import Gang, HostPort, MemberClass, Pod, Resources, Role
from scoring.model.policy import Policy, ScorePolicy, Selection
from scoring.model.reasons import Reason
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import Metric
from scoring.plan import PlannerCache, begin_run, plan
from scoring.plan.capacity import When
from scoring.plan.demand import demand_of
from tests.builders import gang, mesh, node, pod, snapshot
from tests.scoring.plan.planned import LATE_S, POLICY, clusters, equal_gangs, in_order

# -- soundness -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(clusters(), st.sampled_from([0.0, LATE_S]), st.sampled_from([0, 1, 2]))
def test_members_go_only_where_they_may_and_room_is_given_once(state: Snapshot, now_s: float, known: int) -> None:
    """No member is sent where its constraints, its class's refusals, host ports or its gang's zones exclude it.

    What all gangs take together, commitments included, is nowhere more than is free. Also with former places: `known`
    gangs were planned before, when nothing was refused, committed or taken.
    """
    first = dict(list(state.gangs.items())[:known])
    early = replace(state, gangs=first, commitments={}, exclusions={}, host_ports={}, used=0 * state.used)
    outcome = plan(state, POLICY, now_s=now_s, previous=plan(early, POLICY, now_s=now_s))
    ports: dict[NodeName, list[HostPort]] = {name: list(state.host_ports.get(name, ())) for name in state.table.names}
    taken = {name: Counter[str]() for name in state.table.names}
    members = {m.uid: m for g in state.gangs.values() for m in g.members}
    committed = {uid: at for c in state.commitments.values() for uid, at in c.assignment.items()}
    for uid, at in committed.items():
        ports[at] += members[uid].member_class.constraints.host_ports
        taken[at].update(dict(members[uid].requests.items))
    for key, admission in outcome.admitted.items():
        zones = dict(state.gangs[key].options).get("zones")
        runs_at = {m.node for m in state.gangs[key].placed}
        for uid, at in admission.members.items():
            if uid in committed:
                assert committed[uid] == at
                continue
            constraints, row = members[uid].member_class.constraints, state.table.index[at]
            on = state.table.nodes[row]
            assert not members[uid].gates
            assert node_allows(on, constraints)
            assert at not in state.excluded(members[uid].member_class)
            assert not ports_conflict(constraints.host_ports, ports[at])
            ports[at] += constraints.host_ports
            assert not zones or on.zone in zones.split(",") or runs_at or key in state.commitments
            taken[at].update(dict(members[uid].requests.items))
            free = dict(zip(state.table.axis, state.table.allocatable[row] - state.used[row], strict=True))
            for resource, amount in members[uid].requests:
                assert not amount or resource not in free or taken[at][resource] <= free[resource]


@given(clusters(), st.sampled_from([0.0, LATE_S]))
def test_whole_or_not_at_all(state: Snapshot, now_s: float) -> None:
    """A gang that is admitted reaches its minimum set with what runs, unless it was committed before."""
    outcome = plan(state, POLICY, now_s=now_s)
    for key, admission in outcome.admitted.items():
        first = state.gangs[key]
        assert admission.members
        if key in state.commitments:
            continue
        able = replace(first, members=tuple(m for m in first.members if not m.gates))
        have = admission.members.keys() | {m.uid for m in first.placed}
        assert {m.uid for m in minimum_members(able)} <= have
        assert len(have) >= first.min_member
        if dict(first.options)["zone-policy"] == "required":
            row_of, nodes = state.table.index, state.table.nodes
            zones = {nodes[row_of[at]].zone for at in admission.members.values()}
            before = {nodes[row_of[m.node]].zone for m in first.placed if m.node is not None and not m.terminal}
            assert zones <= before if before else zones == set(admission.zones) and len(zones) == 1


@given(clusters(most_gangs=1))
def test_what_no_allocatable_shows_decides_nothing(state: Snapshot) -> None:
    def asking(one: MemberClass) -> MemberClass:
        return replace(one, requests=Resources.from_amounts([*one.requests, (ResourceName("example.com/card"), 2)]))

    def all_asking(one: Gang) -> Gang:
        return replace(one, members=tuple(replace(m, member_class=asking(m.member_class)) for m in one.members))

    gangs = {key: all_asking(one) for key, one in state.gangs.items()}
    exclusions = {asking(one): nodes for one, nodes in state.exclusions.items()}
    plans = [plan(one, POLICY, now_s=0.0) for one in (state, replace(state, gangs=gangs, exclusions=exclusions))]
    places, others = ({key: one.members for key, one in made.admitted.items()} for made in plans)
    assert places == others
    never, too = ({key: one.reason is Reason.IMPOSSIBLE for key, one in made.waiting.items()} for made in plans)
    assert never == too


@given(clusters())
def test_every_gang_with_something_to_place_is_answered(state: Snapshot) -> None:
    outcome = plan(state, POLICY, now_s=0.0)
    asking = {demand.gang.key for demand in (demand_of(g, POLICY) for g in state.gangs.values()) if demand.pending}
    assert outcome.admitted.keys() | outcome.waiting.keys() == asking
    assert not outcome.admitted.keys() & outcome.waiting.keys()
    ranks = [*(a.rank for a in outcome.admitted.values()), *(w.rank for w in outcome.waiting.values())]
    assert sorted(ranks) == list(range(1, len(asking) + 1))


@pytest.mark.slow
@given(clusters(), st.randoms(use_true_random=False))
def test_input_order_is_irrelevant(state: Snapshot, order: Random) -> None:
    def shuffled(some: Iterable[Any]) -> list[Any]:
        listed = list(some)
        order.shuffle(listed)
        return listed

    table = type(state.table).from_nodes(shuffled(state.table.nodes))
    parts = {name: dict(shuffled(getattr(state, name).items())) for name in ("gangs", "commitments", "exclusions")}
    other = replace(state, table=table, **parts)
    assert plan(other, POLICY, now_s=LATE_S) == plan(state, POLICY, now_s=LATE_S)


@pytest.mark.slow
@given(clusters())
def test_commitments_are_never_moved(state: Snapshot) -> None:
    """A committed gang is told its nodes or why it cannot go on; a previous plan changes nothing of it.

    docs/safety.md S4.
    """
    before = plan(replace(state, commitments={}), POLICY, now_s=0.0)
    for previous in (None, before):
        outcome = plan(state, POLICY, now_s=0.0, previous=previous)
        for key, commitment in state.commitments.items():
            if key not in {*outcome.admitted, *outcome.waiting}:
                assert not demand_of(state.gangs[key], POLICY).pending
                continue
            held = {m.uid: n for m in state.gangs[key].pending if (n := commitment.assignment.get(m.uid)) is not None}
            if key in outcome.admitted:
                assert held.items() <= outcome.admitted[key].members.items()
                assert outcome.admitted[key].committed
            else:
                assert outcome.waiting[key].reason in (Reason.INCOMPLETE, Reason.SURPLUS)
                assert outcome.waiting[key].reason is Reason.INCOMPLETE or not held


@given(clusters(), st.sampled_from(When))
def test_rooms_are_never_negative(state: Snapshot, when: When) -> None:
    run = begin_run(state, POLICY, PlannerCache())
    for one in state.gangs.values():
        demand = run.view.demand(one)
        members = run.view.member_set(demand.need, demand)
        fits, rooms, held = (
            count(members, when)
            for count in (run.capacity.zone_fits, run.capacity.zone_rooms, run.capacity.zone_members)
        )
        assert (fits >= 0).all()
        assert (rooms >= 0).all()
        assert ((held >= 0) & (held <= members.size)).all()
        assert ((rooms >= members.size) == (held == members.size)).all()


# -- brute force -----------------------------------------------------------------------------------------------


def fits_somehow(state: Snapshot, members: Sequence[Pod]) -> bool:
    """Whether there is any way to place the members, each tried on every node."""
    table = state.table
    free = [dict(zip(table.axis, amounts, strict=True)) for amounts in (table.allocatable - state.used).tolist()]

    def holds(row: int, some: list[Pod]) -> bool:
        """Whether these members fit one node together."""
        asked, ports = Counter[ResourceName](), list[HostPort]()
        for constraints, requests in ((m.member_class.constraints, m.requests) for m in some):
            if not node_allows(table.nodes[row], constraints) or ports_conflict(constraints.host_ports, ports):
                return False
            asked.update(dict(requests))
            ports += constraints.host_ports
        return all(free[row][name] >= asked[name] for name in asked if name in table.axis)  # Others are uncounted

    return any(
        all(holds(row, [m for m, at in zip(members, places, strict=True) if at == row]) for row in {*places})
        for places in product(range(len(free)), repeat=len(members))
    )


@st.composite
def small(draw: st.DrawFn) -> Snapshot:
    """One zone of up to four nodes, one gang of up to four pods of up to two kinds, CPU and GPU."""
    nodes = [
        node(f"n{i}", cpu=str(draw(st.integers(0, 4))), gpu=draw(st.integers(0, 3)))
        for i in range(draw(st.integers(1, 4)))
    ]
    kinds = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=2, max_size=2))
    roles = draw(st.sampled_from([(Role.OTHER, Role.OTHER), (Role.PS, Role.WORKER), (Role.WORKER, Role.WORKER)]))
    members = []
    for i in range(draw(st.integers(1, 4))):
        kind = draw(st.integers(0, 1))
        cpu, gpu = kinds[kind]
        members.append(pod(f"g-{i}", gang="g", role=roles[kind], index=i, cpu=str(cpu), gpu=gpu))
    order = sorted(members, key=lambda m: (list(Role).index(m.role), m.index))
    method = draw(st.sampled_from([Selection.SUBSET, Selection.PACK]))
    first = gang("g", members=order, min_member=draw(st.integers(1, len(members))), options={"selection": method})
    network = mesh(nodes, bad={"n0": {"delay_ms": 9.0}, "n2": {"loss_ratio": 0.01}}) if draw(st.booleans()) else None
    return snapshot(nodes, [first], network=network)


@given(small())
def test_admitted_exactly_when_there_is_a_way(state: Snapshot) -> None:
    """Up to 4 nodes × 4 pods: a gang that is first is admitted if and only if brute force places its minimum."""
    first = next(iter(state.gangs.values()))
    assert fits_somehow(state, minimum_members(first)) == (first.key in plan(state, POLICY, now_s=0.0).admitted)


@pytest.mark.slow
@given(clusters(zones="a", most_nodes=4, most_gangs=3))
def test_never_admitted_where_there_is_no_way(state: Snapshot) -> None:
    first = next((demand.gang for demand in in_order(state) if demand.pending), None)
    assume(first is not None and not state.commitments)
    assert first is not None
    demand = demand_of(first, POLICY)
    need = [m for _, pods in demand.need for m in pods]
    if need and not fits_somehow(state, need):
        assert first.key in plan(state, POLICY, now_s=LATE_S).waiting


@given(st.sampled_from([Metric.DELAY, Metric.THROUGHPUT]), st.integers(0, 2))
def test_a_better_zone_stays_chosen(metric: Metric, at: int) -> None:
    nodes = [node(f"{zone}{i}", zone=zone, cpu="1") for zone in "abc" for i in range(2)]
    score = ScorePolicy(reference_bps=1e9)
    worse = {
        f"{'abc'[(at + k) % 3]}{i}": {"delay_ms": 10.0 * (k + 1), "throughput_bps": 90e6 / (k + 1)}
        for k in range(3)
        for i in range(2)
    }
    better = {
        n: {**v, **({"delay_ms": 1.0} if metric is Metric.DELAY else {"throughput_bps": 500e6})}
        for n, v in worse.items()
        if n.startswith("abc"[at])
    }
    outcomes = [
        plan(snapshot(nodes, [gang("g", 2)], network=mesh(nodes, bad=bad)), Policy(score=score), now_s=0.0)
        for bad in (worse, worse | better)
    ]
    assert [o.admitted["default/g"].zones for o in outcomes] == [("abc"[at],)] * 2  # type: ignore[index]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.integers(1, 9), st.data())
def test_a_spill_takes_the_fewest_zones(rooms: list[int], size: int, data: st.DataObject) -> None:
    """Up to five zones: a gang is spread over as few as brute force needs, and waits when all are too small."""
    nodes = [node(f"{zone}0", zone=zone, cpu=str(cpu)) for zone, cpu in zip("vwxyz", rooms, strict=False)]
    load = [pod(f"x{i}", node=n.name) for i, n in enumerate(nodes) if rooms[i] and data.draw(st.booleans())]
    free = {n.zone: cpu - sum(x.node == n.name for x in load) for n, cpu in zip(nodes, rooms, strict=True)}
    first = gang("g", size, options={"zone-policy": "preferred"})
    bad = {str(n.name): {"delay_ms": data.draw(st.sampled_from([1.0, 5.0, 30.0]))} for n in nodes}
    network = mesh(nodes, bad=bad) if data.draw(st.booleans()) else None
    outcome = plan(snapshot(nodes, [first], pods=load, network=network), POLICY, now_s=LATE_S)
    enough = [k for k in range(1, len(free) + 1) for some in combinations(free.values(), k) if sum(some) >= size]
    if not enough:
        assert outcome.waiting[first.key].reason is (Reason.IMPOSSIBLE if sum(rooms) < size else Reason.NO_ROOM)
    else:
        assert len(outcome.admitted[first.key].zones) == min(enough)


Shapes: TypeAlias = list[tuple[int, int]]


def admitted(cpus: list[int], shapes: Shapes, *, zones: str = "a", **fields: object) -> list[bool]:
    """Whether each gang, in the queue's order, is admitted: members of one CPU each on nodes with these CPUs."""
    nodes = [node(f"n{i}", zone=zones[i % len(zones)], cpu=str(cpu)) for i, cpu in enumerate(cpus)]
    gangs = [gang(f"g{i}", size, min_member=least, created_s=float(i)) for i, (least, size) in enumerate(shapes)]
    outcome = plan(snapshot(nodes, gangs, **fields), POLICY, now_s=0.0)  # type: ignore[arg-type]
    gangs.sort(key=lambda g: (-g.min_member, g.created_s))  # members alike: more of them weigh more
    return [g.key in outcome.admitted for g in gangs]


@pytest.mark.slow
@given(equal_gangs(), st.data())
def test_more_room_never_unplaces_the_first_gang(case: tuple[list[int], Shapes], data: st.DataObject) -> None:
    """One kind of members, several zones: with more CPU anywhere the gang that is first stays admitted.

    Of gangs that ask for their minimum: else room in which a later one starts whole goes to that one.
    """
    cpus, shapes = case[0], [(size, size) for _, size in case[1]]
    more = [cpu + data.draw(st.integers(0, 2)) for cpu in cpus]
    before, after = (admitted(some, shapes, zones="ab")[0] for some in (cpus, more))
    assert after >= before


@given(equal_gangs(), st.data())
def test_more_room_only_helps_in_the_order_of_the_queue(case: tuple[list[int], Shapes], data: st.DataObject) -> None:
    """Equal members that are all needed, one zone: with more CPU a gang is lost only if one ahead of it is won."""
    cpus, shapes = case[0], [(size, size) for _, size in case[1]]
    more = [cpu + data.draw(st.integers(0, 2)) for cpu in cpus]
    assert admitted(more, shapes) >= admitted(cpus, shapes)  # the first difference is a gain


COUNTER_EXAMPLES = {  # case: (CPUs of nodes before, after, (minimum, size) of gangs, admitted before, after)
    "a gang ahead fits now": ([3], [4], [(4, 4), (3, 3)], [False, True], [True, False]),
    "a gang ahead takes more than its minimum": ([3], [4], [(4, 4), (1, 3), (1, 1)], [False, True, False],
        [True, False, False]),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after", "shapes", "then", "now"), COUNTER_EXAMPLES.values(), ids=COUNTER_EXAMPLES)
def test_more_room_can_unplace_a_gang_behind(
    before: list[int], after: list[int], shapes: Shapes, then: list[bool], now: list[bool]
) -> None:
    """The counter-examples: room that a gang ahead in the queue can use is its own, whoever used it before."""
    assert admitted(before, shapes) == then
    assert admitted(after, shapes) == now
