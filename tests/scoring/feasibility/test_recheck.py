"""The check before commit: who lost the place that was planned."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scoring import NodeName, PodUid
from scoring.feasibility.filters import node_allows, ports_conflict
from scoring.feasibility.recheck import members_without_room
from scoring.model import Gang, HostPort, Taint
from scoring.model.snapshot import Snapshot
from tests.builders import bound, gang, node, pod, snapshot
from tests.scoring.plan.planned import dressed

WEB = HostPort("TCP", "0.0.0.0", 80)


def lost(state: Snapshot, wish: Gang, **where: str) -> list[str]:
    """Names of members without room; `where`: member → node, with _ for -."""
    assignment = {PodUid(f"uid-default-{name.replace('_', '-')}"): NodeName(at) for name, at in where.items()}
    return sorted(uid.removeprefix("uid-default-") for uid in members_without_room(state, wish, assignment))


PAIR = gang("g", 2)
PORTED = gang("g", members=[dressed(m, host_ports=(WEB,)) for m in PAIR.members])
TWO = [node("n0", cpu="2"), node("n1", cpu="1")]
TAINT = Taint("k", "v", "NoSchedule")

CASES = {  # case: (members that lost their place, snapshot, gang, members' nodes)
    "all is well": ([], snapshot(TWO, [PAIR]), PAIR, {"g_0": "n0", "g_1": "n0"}),
    "the node is gone": (["g-1"], snapshot(TWO, [PAIR]), PAIR, {"g_0": "n0", "g_1": "n9"}),
    "the node is tainted now": (["g-0"], snapshot([node("n0", taints=[TAINT]), TWO[1]], [PAIR]), PAIR,
        {"g_0": "n0", "g_1": "n1"}),
    "the node is not ready": (["g-1"], snapshot([TWO[0], node("n1", ready=False)]), PAIR, {"g_0": "n0", "g_1": "n1"}),
    "room for one of two: both are told": (["g-0", "g-1"], snapshot(TWO, [PAIR], pods=[pod("x", node="n0")]), PAIR,
        {"g_0": "n0", "g_1": "n0"}),
    "overdrawn by others": (["g-1"], snapshot(TWO, pods=[pod("x", cpu="3", node="n1")]), PAIR, {"g_1": "n1"}),
    "overdrawn, but not in what is asked": ([],
        snapshot([node("n0", memory="1Gi")], pods=[pod("x", cpu="0", memory="2Gi", node="n0")]), PAIR, {"g_0": "n0"}),
    "a resource that no allocatable shows is not counted": ([], snapshot(TWO), gang("g", 1, gpu=1), {"g_0": "n0"}),
    "a member that is gone takes no room": ([], snapshot(TWO), gang("g", 1), {"g_0": "n1", "g_1": "n1"}),
    "a bound member is counted on its node already": ([], snapshot([node("n0", cpu="1")], [gang("g",
        members=[bound(PAIR.members[0], "n0")])]), gang("g", members=[bound(PAIR.members[0], "n0")]), {"g_0": "n0"}),
    "another gang is committed there": (["g-0"],
        snapshot(TWO, [PAIR, gang("h", 1)], commitments={"default/h": {"uid-default-h-0": "n1"}}), PAIR, {"g_0": "n1"}),
    "another gang is committed elsewhere": ([],
        snapshot(TWO, [PAIR, gang("h", 1)], commitments={"default/h": {"uid-default-h-0": "n0"}}), PAIR, {"g_0": "n1"}),
    "a commitment of a gang that is gone": ([],
        snapshot(TWO, [PAIR], commitments={"default/h": {"uid-default-h-0": "n1"}}), PAIR, {"g_0": "n1"}),
    "a committed member that nobody knows yet": ([],
        snapshot(TWO, [PAIR, gang("h", 1)], commitments={"default/h": {"uid-default-h-7": "n1"}}), PAIR, {"g_0": "n1"}),
    "a committed member takes what is counted of its request": (["g-0"], snapshot(TWO,
        [PAIR, gang("h", 1, gpu=1)], commitments={"default/h": {"uid-default-h-0": "n1"}}), PAIR, {"g_0": "n1"}),
    "the host port is taken": (["g-0"], snapshot(TWO,
        host_ports={NodeName("n0"): frozenset({HostPort("TCP", "10.0.0.1", 80)})}), PORTED, {"g_0": "n0", "g_1": "n1"}),
    "two members want the same host port": (["g-0", "g-1"], snapshot(TWO), PORTED, {"g_0": "n0", "g_1": "n0"}),
    "another gang is committed to the host port": (["g-0"],
        snapshot(TWO, [PORTED, gang("h", members=[dressed(pod("h-0", gang="h"), host_ports=(WEB,))])],
        commitments={"default/h": {"uid-default-h-0": "n0"}},), PORTED, {"g_0": "n0"}),
}  # fmt: skip


@pytest.mark.parametrize(("want", "state", "wish", "where"), CASES.values(), ids=CASES)
def test_members_without_room(want: list[str], state: Snapshot, wish: Gang, where: dict[str, str]) -> None:
    """All that is known counts: pods, commitments, host ports, the node's state, and the gang's other members."""
    assert want == lost(state, wish, **where)


def recount(state: Snapshot, wish: Gang, assignment: Mapping[PodUid, NodeName]) -> set[PodUid]:
    """The same, member by member and resource by resource, without arrays."""
    members = {m.uid: m for m in wish.members if m.node is None}
    nodes = {n.name: n for n in state.table.nodes}
    going = [(members[uid], at) for uid, at in assignment.items() if uid in members]
    others = [
        (m, commitment.assignment[m.uid])
        for key, commitment in state.commitments.items()
        if key in state.gangs
        for m in state.gangs[key].pending
        if m.uid in commitment.assignment
    ]
    unsuitable = {m.uid for m, at in going if at not in nodes or not node_allows(nodes[at], m.member_class.constraints)}
    bad: set[PodUid] = set(unsuitable)
    for name, on in nodes.items():
        here = [m for m, at in going if at == name and m.uid not in unsuitable]
        asked: Counter[str] = Counter()
        for m in here:
            asked.update(dict(m.requests.items))
        used = state.used[state.table.index[name]].tolist()
        taken: Counter[str] = Counter(dict(zip(state.table.axis, used, strict=True)))
        for m, at in others:
            if at == name:
                taken.update(dict(m.requests.items))
        counted = {r: amount for r, amount in asked.items() if amount and r in state.table.axis}
        short = any(amount + taken[r] > on.allocatable.get(r) for r, amount in counted.items())  # type: ignore[arg-type]
        ports = [p for m, at in others if at == name for p in m.member_class.constraints.host_ports]
        ports += state.host_ports.get(name, ())
        clash = False
        for m in here:
            clash = clash or ports_conflict(m.member_class.constraints.host_ports, ports)
            ports += m.member_class.constraints.host_ports
        if short or clash:
            bad |= {m.uid for m in here}
    return bad


MEMBERS = st.builds(
    lambda cpu, gpu, port: dressed(pod("p", cpu=cpu, gpu=gpu), host_ports=(WEB,) if port else ()),
    st.sampled_from(["0", "1", "2"]),
    st.integers(0, 1),
    st.integers(0, 4).map(lambda i: i == 4),
)


@st.composite
def states(draw: st.DrawFn) -> tuple[Snapshot, Gang, dict[PodUid, NodeName]]:
    nodes = [
        node(f"n{i}", cpu=str(draw(st.integers(1, 4))), gpu=draw(st.integers(0, 2)), ready=draw(st.integers(0, 5)) > 0)
        for i in range(draw(st.integers(1, 3)))
    ]
    names = st.sampled_from([*(n.name for n in nodes), NodeName("gone")])

    def one(name: str) -> Gang:
        members = []
        for i, shape in enumerate(draw(st.lists(MEMBERS, min_size=1, max_size=4))):
            member = replace(pod(f"{name}-{i}", gang=name), member_class=shape.member_class)
            runs = draw(st.integers(0, 4)) == 0 and not member.requests.get("nvidia.com/gpu")  # type: ignore[arg-type]
            members.append(bound(member, draw(st.sampled_from(nodes)).name) if runs else member)
        return gang(name, members=members)

    wish, other = one("g"), one("h")
    assignment = {m.uid: draw(names) for m in wish.members}
    commitments = {"default/h": {m.uid: draw(names) for m in other.members if draw(st.booleans())}}
    taken = {draw(names): frozenset({HostPort("TCP", "10.0.0.1", 80)})} if draw(st.booleans()) else {}
    state = snapshot(nodes, [wish, other], commitments=commitments, host_ports=taken)  # type: ignore[arg-type]
    return state, wish, assignment


@given(states())
def test_agrees_with_a_recount(case: tuple[Snapshot, Gang, dict[PodUid, NodeName]]) -> None:
    assert recount(*case) == members_without_room(*case)
