"""What holds of every plan, and, where the obvious does not hold, the counter-example.

Small clusters are planned by brute force as well: every way to place the members of the gang that is first in order.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scoring.feasible import node_allows, ports_conflict
from scoring.ids import NodeName
from scoring.model import Gang, HostPort, Node, Pod, Role, Taint, Toleration
from scoring.network import Metric
from scoring.plan import Memo, plan
from scoring.plan.ask import Ask, ask_of
from scoring.plan.run import Run, When
from scoring.plan.turns import Turns
from scoring.policy import Policy, ScorePolicy, Selection
from scoring.quorum import minimum_members
from scoring.reasons import Reason
from scoring.snapshot import Snapshot
from tests.builders import bound, gang, mesh, node, pod, snapshot

POLICY = Policy()
LATE_S = POLICY.spill_wait_s
TAINT = Taint("k", "v", "NoSchedule")


def in_order(state: Snapshot) -> list[Ask]:
    """The wishes in the order of their turns."""
    run = Run(state, POLICY, Memo())
    return sorted(map(run.ask, state.gangs.values()), key=Turns(run, now_s=0.0).key)


def first_in_order(state: Snapshot) -> Gang | None:
    """The gang that is planned first."""
    return next((ask.gang for ask in in_order(state) if ask.pending), None)


# -- strategies ------------------------------------------------------------------------------------------------


def dressed(member: Pod, **constraints: object) -> Pod:
    """The same pod with other constraints."""
    changed = replace(member.member_class.constraints, **constraints)  # type: ignore[arg-type]
    return replace(member, member_class=replace(member.member_class, constraints=changed))


CONSTRAINTS: tuple[dict[str, object], ...] = (
    {},
    {},
    {},
    {"tolerations": (Toleration("k", "Exists"),)},
    {"node_selector": (("disk", "ssd"),)},
    {"host_ports": (HostPort("TCP", "0.0.0.0", 80),)},
    {"host_ports": (HostPort("TCP", "10.0.0.1", 80), HostPort("TCP", "0.0.0.0", 81))},
)


@st.composite
def clusters(draw: st.DrawFn, *, zones: str = "ab", most_nodes: int = 6, most_gangs: int = 4) -> Snapshot:
    """Clusters with taints, labels, ports, gates, refusals, commitments, and gangs of several shapes."""
    nodes = [
        node(
            f"n{i}",
            zone=draw(st.sampled_from(zones)),
            cpu=str(draw(st.integers(1, 4))),
            gpu=draw(st.integers(0, 2)),
            labels={"disk": "ssd"} if draw(st.booleans()) else {},
            taints=[TAINT] if draw(st.integers(0, 4)) == 0 else [],
            ready=draw(st.integers(0, 9)) > 0,
        )
        for i in range(draw(st.integers(1, most_nodes)))
    ]
    gangs = [_gang(draw, f"g{i}", nodes) for i in range(draw(st.integers(1, most_gangs)))]
    names = st.sampled_from([n.name for n in nodes])
    committed = {
        str(g.key): {str(m.uid): str(draw(names)) for m in g.pending if draw(st.booleans())}
        for g in gangs
        if draw(st.integers(0, 4)) == 0
    }
    excluded = {
        m.member_class: frozenset({draw(names)}) for g in gangs for m in g.members[:1] if draw(st.integers(0, 3)) == 0
    }
    taken = {draw(names): frozenset({HostPort("TCP", "10.0.0.2", 80)})} if draw(st.booleans()) else {}
    network = mesh(nodes, bad={nodes[0].name: {"delay_ms": 20.0}}) if draw(st.booleans()) else None
    return snapshot(nodes, gangs, network=network, commitments=committed, exclusions=excluded, host_ports=taken)


def _gang(draw: st.DrawFn, name: str, nodes: list[Node]) -> Gang:
    size = draw(st.integers(1, 4))
    roles = [Role.PS, *[Role.WORKER] * (size - 1)] if draw(st.booleans()) else [Role.OTHER] * size
    kinds = draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.sampled_from(CONSTRAINTS)), min_size=2, max_size=2)
    )
    members: list[Pod] = []
    for i, role in enumerate(roles):
        cpu, gpu, constraints = kinds[min(i, 1)]
        gates = ("example.com/gate",) if draw(st.integers(0, 9)) == 0 else ()
        member = pod(f"{name}-{i}", gang=name, role=role, index=i, cpu=str(cpu), gpu=gpu, gates=gates)
        if draw(st.integers(0, 6)) == 0 and not gpu:
            members.append(bound(dressed(replace(member, gates=()), **constraints), draw(st.sampled_from(nodes)).name))
        else:
            members.append(dressed(member, **constraints))
    options = {
        "zone-policy": draw(st.sampled_from(["required", "preferred"])),
        "selection": draw(st.sampled_from(list(Selection))),
    }
    if draw(st.integers(0, 3)) == 0:
        options["zones"] = draw(st.sampled_from(["a", "b", "b,a"]))
    return gang(
        name,
        members=members,
        min_member=draw(st.integers(1, size)),
        priority=draw(st.integers(0, 1)),
        created_s=float(draw(st.integers(0, 3))),
        options=options,
    )


def equal_gangs() -> st.SearchStrategy[tuple[list[int], list[tuple[int, int]]]]:
    """CPUs of nodes, and (minimum, size) of gangs whose members all ask for one CPU."""
    shape = st.integers(1, 5).flatmap(lambda size: st.tuples(st.integers(1, size), st.just(size)))
    return st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.lists(shape, min_size=1, max_size=4))


# -- soundness -------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(clusters(), st.sampled_from([0.0, LATE_S]), st.sampled_from([0, 1, 2]))
def test_members_go_only_where_they_may(state: Snapshot, now_s: float, known: int) -> None:
    """No member is sent where its constraints, its class's refusals, host ports or its gang's zones exclude it.

    Also not to a former place: `known` gangs were planned before, when nothing was refused, committed or taken.
    """
    early = replace(state, gangs=dict(list(state.gangs.items())[:known]), commitments={}, exclusions={}, host_ports={})
    before = plan(early, POLICY, now_s=now_s)
    outcome = plan(state, POLICY, now_s=now_s, previous=before)
    ports: dict[NodeName, list[HostPort]] = {name: list(state.host_ports.get(name, ())) for name in state.table.names}
    members = {m.uid: m for g in state.gangs.values() for m in g.members}
    committed = {uid: at for c in state.commitments.values() for uid, at in c.assignment.items()}
    for uid, at in committed.items():
        ports[at] += members[uid].member_class.constraints.host_ports
    for key, admission in outcome.admitted.items():
        zones = dict(state.gangs[key].options).get("zones")
        runs_at = {m.node for m in state.gangs[key].placed}
        for uid, at in admission.members.items():
            if uid in committed:
                continue
            constraints = members[uid].member_class.constraints
            on = state.table.nodes[state.table.index[at]]
            assert not members[uid].gates
            assert node_allows(on, constraints)
            assert at not in state.exclusions.get(members[uid].member_class, ())
            assert not ports_conflict(constraints.host_ports, ports[at])
            ports[at] += constraints.host_ports
            assert not zones or on.zone in zones.split(",") or runs_at or key in state.commitments


@settings(deadline=None)
@given(clusters(), st.sampled_from([0.0, LATE_S]), st.sampled_from([0, 1, 2]))
def test_room_is_given_once(state: Snapshot, now_s: float, known: int) -> None:
    """What members of all gangs take together, commitments and former places included, is nowhere more than is free."""
    early = replace(state, gangs=dict(list(state.gangs.items())[:known]), commitments={}, used=0 * state.used)
    outcome = plan(state, POLICY, now_s=now_s, previous=plan(early, POLICY, now_s=now_s))
    used = {name: Counter[str]() for name in state.table.names}
    members = {m.uid: m for g in state.gangs.values() for m in g.members}
    committed = {uid: at for c in state.commitments.values() for uid, at in c.assignment.items()}
    for uid, at in committed.items():
        used[at].update(dict(members[uid].requests.items))
    for uid, at in outcome.node_of.items():
        if uid in committed:
            assert committed[uid] == at
            continue
        used[at].update(dict(members[uid].requests.items))
        row = state.table.index[at]
        for resource, amount in members[uid].requests:
            free = state.table.allocatable[row] - state.used[row]
            assert not amount or used[at][resource] <= free[state.table.axis.index(resource)]


@settings(deadline=None)
@given(clusters(), st.sampled_from([0.0, LATE_S]))
def test_whole_or_not_at_all(state: Snapshot, now_s: float) -> None:
    """A gang that is admitted reaches its minimum set with what runs, unless it was committed before."""
    outcome = plan(state, POLICY, now_s=now_s)
    for key, admission in outcome.admitted.items():
        wish = state.gangs[key]
        assert admission.members
        if key in state.commitments:
            continue
        able = replace(wish, members=tuple(m for m in wish.members if not m.gates))
        have = admission.members.keys() | {m.uid for m in wish.placed}
        assert {m.uid for m in minimum_members(able)} <= have
        assert len(have) >= wish.min_member
        if dict(wish.options)["zone-policy"] == "required" and not wish.placed:
            assert len(admission.zones) == 1


@settings(deadline=None)
@given(clusters())
def test_every_gang_with_something_to_place_is_answered(state: Snapshot) -> None:
    """Each is admitted or waits with a rank of its own, and nothing else is in the plan."""
    outcome = plan(state, POLICY, now_s=0.0)
    wishes = {ask.gang.key for ask in (ask_of(g, POLICY) for g in state.gangs.values()) if ask.pending}
    assert outcome.admitted.keys() | outcome.waiting.keys() == wishes
    assert not outcome.admitted.keys() & outcome.waiting.keys()
    ranks = [*(a.rank for a in outcome.admitted.values()), *(w.rank for w in outcome.waiting.values())]
    assert sorted(ranks) == list(range(1, len(wishes) + 1))


@settings(deadline=None)
@given(clusters(), st.randoms(use_true_random=False))
def test_input_order_is_irrelevant(state: Snapshot, order: object) -> None:
    """Nodes, gangs, commitments and refusals listed in another order give the same plan."""

    def shuffled(mapping: dict) -> dict:
        """The same mapping in another order."""
        keys = list(mapping)
        order.shuffle(keys)  # type: ignore[attr-defined]
        return {key: mapping[key] for key in keys}

    nodes = list(state.table.nodes)
    order.shuffle(nodes)  # type: ignore[attr-defined]
    other = replace(
        state,
        table=type(state.table).of(nodes),
        gangs=shuffled(dict(state.gangs)),
        commitments=shuffled(dict(state.commitments)),
        exclusions=shuffled(dict(state.exclusions)),
    )
    assert plan(other, POLICY, now_s=LATE_S) == plan(state, POLICY, now_s=LATE_S)


@settings(deadline=None)
@given(clusters())
def test_commitments_are_never_moved(state: Snapshot) -> None:
    """A committed gang is told its nodes or why it cannot go on; a previous plan changes nothing of it (S4)."""
    before = plan(replace(state, commitments={}), POLICY, now_s=0.0)
    for previous in (None, before):
        outcome = plan(state, POLICY, now_s=0.0, previous=previous)
        for key, commitment in state.commitments.items():
            if key not in {*outcome.admitted, *outcome.waiting}:
                assert not ask_of(state.gangs[key], POLICY).pending
                continue
            held = {
                m.uid: commitment.assignment[m.uid] for m in state.gangs[key].pending if m.uid in commitment.assignment
            }
            if key in outcome.admitted:
                assert held.items() <= outcome.admitted[key].members.items()
                assert outcome.admitted[key].committed
            else:
                assert outcome.waiting[key].reason in (Reason.INCOMPLETE, Reason.SURPLUS)
                assert outcome.waiting[key].reason is Reason.INCOMPLETE or not held


@settings(deadline=None)
@given(clusters(), st.sampled_from(When))
def test_rooms_are_never_negative(state: Snapshot, when: When) -> None:
    """However overdrawn nodes are, a zone holds at least none of each kind and at most all members count."""
    run = Run(state, POLICY, Memo())
    for one in state.gangs.values():
        ask = run.ask(one)
        wish = run.wish(ask.need, ask)
        assert (run.zone_fits(wish, when) >= 0).all()
        assert (run.zone_rooms(wish, when) >= 0).all()
        assert ((run.zone_members(wish, when) >= 0) & (run.zone_members(wish, when) <= wish.size)).all()
        assert ((run.zone_rooms(wish, when) >= wish.size) == (run.zone_members(wish, when) == wish.size)).all()


# -- brute force -----------------------------------------------------------------------------------------------


def fits_somehow(free: dict[NodeName, Counter[str]], members: Sequence[Pod], nodes: dict[NodeName, Node]) -> bool:
    """Whether there is any way to place the members, tried one by one on every node."""

    @cache
    def rest(at: int, left: tuple[tuple[NodeName, tuple[tuple[str, int], ...], tuple[HostPort, ...]], ...]) -> bool:
        """Place the members from `at` on into what is left."""
        if at == len(members):
            return True
        constraints = members[at].member_class.constraints
        for i, (name, amounts, ports) in enumerate(left):
            have = dict(amounts)
            asked = dict(members[at].requests.items)
            if (
                node_allows(nodes[name], constraints)
                and all(have.get(r, 0) >= amount for r, amount in asked.items())
                and not ports_conflict(constraints.host_ports, ports)
            ):
                less = tuple((r, amount - asked.get(r, 0)) for r, amount in amounts)  # type: ignore[call-overload]
                then = (*left[:i], (name, less, (*ports, *constraints.host_ports)), *left[i + 1 :])
                if rest(at + 1, then):
                    return True
        return False

    return rest(0, tuple((name, tuple(sorted(amounts.items())), ()) for name, amounts in sorted(free.items())))


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
    wish = gang("g", members=order, min_member=draw(st.integers(1, len(members))), options={"selection": method})
    network = mesh(nodes, bad={"n0": {"delay_ms": 9.0}, "n2": {"loss_ratio": 0.01}}) if draw(st.booleans()) else None
    return snapshot(nodes, [wish], network=network)


@settings(deadline=None)
@given(small())
def test_admitted_exactly_when_there_is_a_way(state: Snapshot) -> None:
    """Up to 4 nodes × 4 pods: a gang that is first is admitted if and only if brute force places its minimum."""
    wish = next(iter(state.gangs.values()))
    nodes = {n.name: n for n in state.table.nodes}
    free = {n.name: Counter[str]({str(r): n.allocatable.get(r) for r in state.table.axis}) for n in state.table.nodes}
    want = fits_somehow(free, minimum_members(wish), nodes)
    assert want == (wish.key in plan(state, POLICY, now_s=0.0).admitted)


@settings(deadline=None)
@given(clusters(zones="a", most_nodes=4, most_gangs=3))
def test_never_admitted_where_there_is_no_way(state: Snapshot) -> None:
    """With ports, taints, refusals and foreign load too, what brute force cannot place is not admitted."""
    wish = first_in_order(state)
    assume(wish is not None and not state.commitments)
    assert wish is not None
    ask = ask_of(wish, POLICY)
    need = [m for _, pods in ask.need for m in pods]
    nodes = {n.name: n for n in state.table.nodes}
    free = {
        n.name: Counter[str](
            {str(r): int(state.table.allocatable[i, c] - state.used[i, c]) for c, r in enumerate(state.table.axis)}
        )
        for i, n in enumerate(state.table.nodes)
    }
    if need and not fits_somehow(free, need, nodes):
        assert wish.key in plan(state, POLICY, now_s=LATE_S).waiting


# -- more room -------------------------------------------------------------------------------------------------


def admitted(
    cpus: Sequence[int], shapes: Sequence[tuple[int, int]], *, zones: str = "a", **fields: object
) -> list[bool]:
    """Whether each gang, in the queue's order, is admitted: members of one CPU each on nodes with these CPUs."""
    nodes = [node(f"n{i}", zone=zones[i % len(zones)], cpu=str(cpu)) for i, cpu in enumerate(cpus)]
    gangs = [gang(f"g{i}", size, min_member=least, created_s=float(i)) for i, (least, size) in enumerate(shapes)]
    outcome = plan(snapshot(nodes, gangs, **fields), POLICY, now_s=0.0)  # type: ignore[arg-type]
    gangs.sort(key=lambda g: (-g.min_member, g.created_s))  # members alike: more of them weigh more
    return [g.key in outcome.admitted for g in gangs]


@settings(deadline=None)
@given(equal_gangs(), st.data())
def test_more_room_never_unplaces_the_first_gang(
    case: tuple[list[int], list[tuple[int, int]]], data: st.DataObject
) -> None:
    """One kind of members, several zones: with more CPU anywhere the gang that is first stays admitted."""
    cpus, shapes = case
    more = [cpu + data.draw(st.integers(0, 2)) for cpu in cpus]
    before, after = (admitted(some, shapes, zones="ab")[0] for some in (cpus, more))
    assert after >= before


@settings(deadline=None)
@given(equal_gangs(), st.data())
def test_more_room_only_helps_in_the_order_of_the_queue(
    case: tuple[list[int], list[tuple[int, int]]], data: st.DataObject
) -> None:
    """Equal members, one zone: with more CPU a gang is lost only if one ahead of it is won."""
    cpus, shapes = case
    more = [cpu + data.draw(st.integers(0, 2)) for cpu in cpus]
    assert admitted(more, shapes) >= admitted(cpus, shapes)  # the first difference is a gain


COUNTER_EXAMPLES = {  # case: (CPUs of nodes before, after, (minimum, size) of gangs, admitted before, after)
    "a gang ahead fits now": ([3], [4], [(4, 4), (3, 3)], [False, True], [True, False]),
    "a gang ahead takes more than its minimum": (
        [3],
        [4],
        [(4, 4), (1, 3), (1, 1)],
        [False, True, False],
        [True, False, False],
    ),
}


@pytest.mark.parametrize(("before", "after", "shapes", "then", "now"), COUNTER_EXAMPLES.values(), ids=COUNTER_EXAMPLES)
def test_more_room_can_unplace_a_gang_behind(
    before: list[int], after: list[int], shapes: list[tuple[int, int]], then: list[bool], now: list[bool]
) -> None:
    """The counter-examples: room that a gang ahead in the queue can use is its own, whoever used it before."""
    assert admitted(before, shapes) == then
    assert admitted(after, shapes) == now


# -- the network -----------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([5e6, 10e6, 40e6, 90e6]), min_size=6, max_size=6),
    st.sampled_from([0.5, 8.0, 1024.0]),
    st.integers(2, 3),
)
def test_scaling_all_throughputs_moves_nobody(rates: list[float], factor: float, size: int) -> None:
    """Zones and nodes are chosen by ratios of rates: all of them times a factor is the same network."""
    nodes = [node(f"{zone}{i}", zone=zone, cpu="1") for zone in "ab" for i in range(3)]

    def places(scale: float) -> dict:
        """Where the gang goes."""
        bad = {str(n.name): {"throughput_bps": rate * scale} for n, rate in zip(nodes, rates, strict=True)}
        state = snapshot(nodes, [gang("g", size)], network=mesh(nodes, bad=bad, throughput_bps=100e6 * scale))
        return dict(plan(state, POLICY, now_s=0.0).node_of)

    assert places(factor) == places(1.0)


@settings(deadline=None)
@given(st.sampled_from([Metric.DELAY, Metric.THROUGHPUT]), st.integers(0, 2))
def test_a_better_zone_stays_chosen(metric: Metric, at: int) -> None:
    """Bettering all links of the zone that is chosen does not drive the gang away."""
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


# -- spilling over zones ---------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.integers(1, 9), st.data())
def test_a_spill_takes_the_fewest_zones(rooms: list[int], size: int, data: st.DataObject) -> None:
    """Up to five zones: a gang is spread over as few as brute force needs, and waits when all are too small."""
    nodes = [node(f"{zone}0", zone=zone, cpu=str(cpu)) for zone, cpu in zip("vwxyz", rooms, strict=False)]
    load = [pod(f"x{i}", node=n.name) for i, n in enumerate(nodes) if rooms[i] and data.draw(st.booleans())]
    free = {n.zone: cpu - sum(x.node == n.name for x in load) for n, cpu in zip(nodes, rooms, strict=True)}
    wish = gang("g", size, options={"zone-policy": "preferred"})
    bad = {str(n.name): {"delay_ms": data.draw(st.sampled_from([1.0, 5.0, 30.0]))} for n in nodes}
    network = mesh(nodes, bad=bad) if data.draw(st.booleans()) else None
    outcome = plan(snapshot(nodes, [wish], pods=load, network=network), POLICY, now_s=LATE_S)
    enough = [k for k in range(1, len(free) + 1) for some in combinations(free.values(), k) if sum(some) >= size]
    if not enough:
        assert outcome.waiting[wish.key].reason is (Reason.IMPOSSIBLE if sum(rooms) < size else Reason.NO_ROOM)
    else:
        assert len(outcome.admitted[wish.key].zones) == min(enough)


# -- kept places -----------------------------------------------------------------------------------------------


def with_gang(state: Snapshot, heavy: Gang) -> Snapshot:
    """The same cluster a moment later, with one more gang."""
    return replace(state, version=2, gangs={**state.gangs, heavy.key: heavy})


HEAVY = st.builds(
    lambda size, least, cpu: gang("heavy", size, min_member=min(size, least), cpu=str(cpu), priority=9),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 2),
)


@settings(deadline=None)
@given(clusters(), HEAVY)
def test_a_heavier_gang_loses_nothing_to_places_kept(state: Snapshot, heavy: Gang) -> None:
    """Places of the former plan never stand in the way of a heavier gang: it is admitted to the very same nodes."""
    assume(not any(ask_of(g, POLICY).partial for g in state.gangs.values()))  # those go before everybody
    before = plan(state, POLICY, now_s=LATE_S)
    after = with_gang(state, heavy)
    kept, fresh = plan(after, POLICY, now_s=LATE_S, previous=before), plan(after, POLICY, now_s=LATE_S)
    assert kept.admitted.get(heavy.key) == fresh.admitted.get(heavy.key)
    assert kept.waiting.get(heavy.key) == fresh.waiting.get(heavy.key)


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 1)), min_size=1, max_size=4),
    st.integers(1, 5),
)
def test_equal_members_lose_nothing_to_places_kept(cpus: list[int], gangs: list[tuple[int, int]], size: int) -> None:
    """Members that all ask for one CPU, one zone: the same gangs are admitted with former places as without."""
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


@settings(deadline=None)
@given(crowded())
def test_no_gang_loses_to_places_kept_behind_it(case: tuple[Snapshot, Gang]) -> None:
    """As long as all gangs ahead are placed as in a fresh plan, who is admitted there is admitted with places kept."""
    state, heavy = case
    before, after = plan(state, POLICY, now_s=0.0), with_gang(state, heavy)
    kept, fresh = plan(after, POLICY, now_s=0.0, previous=before), plan(after, POLICY, now_s=0.0)
    for ask in in_order(after):
        one, other = kept.admitted.get(ask.gang.key), fresh.admitted.get(ask.gang.key)
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
