"""Admitted pods whose nodes cannot take them any more: who is stranded, who is not, and whose fault it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.ids import GangKey, NodeName, PodUid, gang_key
from scoring.model import Gang, MemberClass, Node, NodeSelectorTerm, Phase, Pod, Requirement, Role, Taint
from scoring.model.policy import Policy
from scoring.model.reasons import Reason
from scoring.model.snapshot import Snapshot
from scoring.plan import Plan, plan
from scoring.repair.stranded_pods import Loss, is_pinned, stranded, stranded_in_steps
from tests.builders import bound, gang, node, pod, snapshot

POLICY = Policy()
GATE = "netgang.io/gang"


def listed(*names: str) -> tuple[NodeSelectorTerm, ...]:
    """What admission to these nodes writes: one term per node."""
    return tuple(NodeSelectorTerm(fields=(Requirement("metadata.name", "In", (name,)),)) for name in names)


def in_zone(*zones: str) -> tuple[NodeSelectorTerm, ...]:
    """What admission to a zone writes."""
    return (NodeSelectorTerm(expressions=(Requirement("topology.kubernetes.io/zone", "In", zones),)),)


def pinned(name: str, *nodes: str, **fields: object) -> Pod:
    """A waiting member of gang g that was admitted to `nodes`."""
    defaults: dict[str, object] = {"gang": "g", "affinity": listed(*nodes), "admitted_to": NodeName(nodes[0])}
    return pod(name, **(defaults | fields))  # type: ignore[arg-type]


def found_in(
    cluster: Snapshot, *, made: Plan | None = None, now_s: float = 0.0
) -> Mapping[GangKey, dict[PodUid, Loss]]:
    """Who is stranded by the plan of this snapshot."""
    current = made if made is not None else plan(cluster, POLICY, now_s=now_s)
    return stranded(cluster, current, POLICY, now_s=now_s)


def losses(cluster: Snapshot, **how: object) -> dict[str, str]:
    """The same by pod name and loss, over all gangs."""
    names = {pod.uid: str(pod.name) for one in cluster.gangs.values() for pod in one.members}
    found = found_in(cluster, **how)  # type: ignore[arg-type]
    return {names[uid]: loss.value for one in found.values() for uid, loss in one.items()}


@dataclass(frozen=True)
class Case:
    """One waiting pod p, admitted to n1 and n2; n3 is always there and free."""

    nodes: tuple[Node, ...]
    want: str | None
    others: tuple[Pod, ...] = ()
    fields: dict[str, object] = field(default_factory=dict)


N1, N2 = node("n1"), node("n2")
TAKEN = (pod("a", cpu="8", node="n1"), pod("b", cpu="7500m", node="n2"))
ONE_POD = {
    "both there": Case((N1, N2), None),
    "one gone": Case((N2,), None),
    "both gone": Case((), "gone"),
    "both full": Case((N1, N2), "full", TAKEN),
    "one full": Case((N1, N2), None, TAKEN[:1]),
    "one gone, one full": Case((N1,), "full", TAKEN[:1]),
    "one gone, one not ready": Case((node("n1", ready=False),), "full"),
    "cordoned": Case((node("n1", unschedulable=True),), "full"),
    "tainted": Case((node("n1", taints=[Taint("k", "", "NoSchedule")]),), "full"),
    "leaving": Case((node("n1", leaving=True),), "full"),
    "too small even when empty": Case((node("n1", cpu="500m"),), "full"),
    "a resource that no node has any more": Case((N1,), "full", (), {"gpu": 1}),
    "zone, a node of it is there": Case((N1,), None, (), {"affinity": in_zone("a")}),
    "zone, all its nodes are gone": Case((), "gone", (), {"affinity": in_zone("a")}),
    "zone, all its nodes are full": Case((N1,), "full", TAKEN[:1], {"affinity": in_zone("a")}),
}


@pytest.mark.parametrize("case", ONE_POD.values(), ids=ONE_POD)
def test_one_pod(case: Case) -> None:
    """Gone: none of the nodes it may go to exists; full: some do, and none of them can take it."""
    waiting = gang("g", members=[pinned("p", "n1", "n2", **case.fields)])
    cluster = snapshot([*case.nodes, node("n3", zone="b")], [waiting], pods=case.others)
    assert losses(cluster) == ({"p": case.want} if case.want else {})


NOT_WAITING = {  # case: what makes it no business of ours although its nodes are gone
    "gated": {"gates": (GATE,)},
    "behind somebody else's gate": {"gates": ("example.com/quota",)},
    "never admitted": {"admitted_to": None},
    "admitted without a list": {"affinity": None},
    "being deleted": {"deleting": True},
    "finished": {"phase": Phase.SUCCEEDED},
    "failed": {"phase": Phase.FAILED},
    "bound": {"node": "n3", "phase": Phase.RUNNING},
}


@pytest.mark.parametrize("fields", NOT_WAITING.values(), ids=NOT_WAITING)
def test_pods_that_do_not_wait_for_a_listed_node(fields: dict[str, object]) -> None:
    """Only an admitted, ungated, unbound, living pod with a list can be stranded."""
    one = pinned("p", "n1", **fields)
    assert not is_pinned(one)
    assert losses(snapshot([node("n3")], [gang("g", members=[one, pinned("q", "n1")], min_member=1)])) == {"q": "gone"}


def test_gangs_that_are_not_ours_to_help() -> None:
    """A gang with a fault cannot be admitted anywhere, and others' gangs are others' business."""
    faulty = replace(gang("f", members=[pinned("p", "n1", gang="f")]), problem=Reason.INVALID_GROUP)
    foreign = replace(gang("h", members=[pinned("q", "n1", gang="h")]), own=False)
    assert losses(snapshot([node("n3")], [faulty, foreign])) == {}


def test_a_planned_or_committed_place_is_a_place() -> None:
    """Whoever has one on a node that exists is not stranded; on a node that is gone it is none."""
    one = pinned("p", "n1", "n2")
    waiting = gang("g", members=[one])
    commitment = {"default/g": {str(one.uid): "n1"}}
    cluster = snapshot([N1, N2, node("n3")], [waiting], pods=TAKEN, commitments=commitment)
    assert losses(cluster) == {}
    assert losses(snapshot([node("n3")], [waiting], commitments=commitment)) == {"p": "gone"}


def test_room_that_others_were_promised_is_not_there() -> None:
    """A commitment, or the plan's place for a gang ahead, takes the only listed node: the pod is stranded by it."""
    waiting = gang("g", members=[pinned("p", "n1", cpu="5")], created_s=2.0)
    ahead = gang("h", 1, cpu="5", created_s=1.0, node_selector={"kubernetes.io/hostname": "n1"})
    assert losses(snapshot([N1, N2], [waiting, ahead])) == {"p": "full"}
    member = str(ahead.members[0].uid)
    late = replace(ahead, created_s=3.0)
    assert losses(snapshot([N1, N2], [waiting, late], commitments={"default/h": {member: "n1"}})) == {"p": "full"}


def test_committed_room_is_counted_once() -> None:
    """The plan repeats what is committed; beside it there is room for the pod, whose gang only backs off."""
    ahead = gang("h", 1, cpu="4")
    waiting = gang("g", members=[pinned("p", "n1", cpu="4")])
    commitment = {"default/h": {str(ahead.members[0].uid): "n1"}}
    off = {waiting.key: 9.0}
    assert losses(snapshot([N1], [waiting, ahead], commitments=commitment, backing_off_until_s=off)) == {}


def test_refusals_of_filters_that_we_do_not_model_count() -> None:
    """Nodes that kube-scheduler refused for this kind of pod are no places for it; nor for its successor.

    docs/safety.md S7, S27.

    So it is stranded by them only where its successor could go elsewhere, and must wait where it could not.
    """
    one = pinned("p", "n1", "n2", cpu="5")
    refused = {one.member_class: frozenset({NodeName("n1"), NodeName("n2")})}
    waits = gang("g", members=[one])
    assert losses(snapshot([N1, N2, node("n3")], [waits], exclusions=refused)) == {"p": "refused"}
    assert losses(snapshot([N1, N2, node("z1", zone="z")], [waits], exclusions=refused)) == {"p": "refused"}
    assert losses(snapshot([N1, N2], [waits], exclusions=refused)) == {}
    assert losses(snapshot([N1, N2, node("n3", cpu="4")], [waits], exclusions=refused)) == {}
    own = replace(waits, options=(("zones", "a"),))
    assert losses(snapshot([N1, N2, node("z1", zone="z")], [own], exclusions=refused)) == {}


def test_a_gang_that_is_refused_goes_only_where_all_of_it_fits() -> None:
    """One open node elsewhere is of no use to two members that want a node each."""
    members = [pinned(f"p{i}", "n1", "n2", cpu="5") for i in range(2)]
    refused = {members[0].member_class: frozenset({NodeName("n1")})}
    waits = gang("g", members=members)
    assert losses(snapshot([N1, N2], [waits], exclusions=refused)) == {}
    found = losses(snapshot([N1, N2, node("n3")], [waits], exclusions=refused))
    assert found == {"p0": "refused", "p1": "refused"}


class TestGangsAsAWhole:
    """Members that could go alone and cannot go together."""

    def test_three_members_and_room_for_two(self) -> None:
        """Each fits somewhere on the list; as a gang they do not, so all are stranded."""
        members = [pinned(f"p{i}", "n1", "n2", cpu="5") for i in range(3)]
        assert losses(snapshot([N1, N2, node("n3")], [gang("g", members=members)])) == dict.fromkeys(
            ("p0", "p1", "p2"), "full"
        )

    def test_what_the_minimum_does_not_need_is_not_blamed(self) -> None:
        """With roles known the minimum set is fixed: the worker beyond it stays, having room of its own."""
        ps = pinned("ps", "n1", cpu="5", role=Role.PS, index=0)
        workers = [pinned(f"w{i}", "n1", "n2", cpu="5", role=Role.WORKER, index=i) for i in range(3)]
        cluster = snapshot([N1, N2], [gang("g", members=[ps, *workers], min_member=3)])
        assert losses(cluster) == dict.fromkeys(("ps", "w0", "w1"), "full")

    def test_a_sibling_pins_the_zone(self) -> None:
        """The worker's nodes are gone; the ps could run, but not beside any worker of its zone."""
        ps = pinned("ps", "n1", cpu="5", role=Role.PS, index=0)
        worker = pinned("w", "n9", cpu="5", role=Role.WORKER, index=0)
        assert losses(snapshot([N1, node("n3", zone="b")], [gang("g", members=[ps, worker])])) == {
            "ps": "full",
            "w": "gone",
        }

    def test_gated_siblings_belong_to_the_whole(self) -> None:
        """The successor of a removed member waits at its gate: it may go anywhere in the zone, so the gang fits."""
        members = [pinned("p", "n1", cpu="5"), pod("q", gang="g", cpu="5", gates=(GATE,))]
        waiting = gang("g", members=members)
        backing_off = {gang_key("default", "g"): 9.0}
        there = snapshot([N1, N2], [waiting], backing_off_until_s=backing_off)
        assert losses(there) == {}
        full = snapshot([N1, N2], [waiting], pods=TAKEN[1:], backing_off_until_s=backing_off)
        assert losses(full) == {"p": "full"}

    def test_patience_is_not_a_loss(self) -> None:
        """A gang that backs off with room for it, or has too few pods, waits for something else than nodes."""
        whole = gang("g", members=[pinned("p", "n1"), pinned("q", "n2")])
        assert losses(snapshot([N1, N2], [whole], backing_off_until_s={gang_key("default", "g"): 9.0})) == {}
        crowded = gang("g", members=[pinned(name, "n1", cpu="5") for name in ("p", "q")], min_member=3)
        assert losses(snapshot([N1, N2], [crowded])) == {}

    def test_asking_for_one_gang_takes_no_room_from_the_next(self) -> None:
        """Two gangs back off, and each alone would fit: neither is stranded."""
        both = [gang(name, members=[pinned(f"{name}0", "n1", cpu="5", gang=name)]) for name in ("g", "h")]
        off = {one.key: 9.0 for one in both}
        assert losses(snapshot([N1], both, backing_off_until_s=off)) == {}


def test_what_is_bound_is_never_named() -> None:
    """Of a started gang that lost a member only the successor, pinned to a node that is gone, is stranded.

    docs/safety.md S8.
    """
    members = [bound(pinned("p", "n1"), "n1"), pinned("q", "n9", created_s=5.0)]
    assert losses(snapshot([N1, N2], [gang("g", members=members)])) == {"q": "gone"}


NODES = st.lists(
    st.tuples(st.sampled_from(["n1", "n2", "n3", "n4"]), st.sampled_from("ab"), st.integers(1, 6), st.booleans()),
    unique_by=lambda one: one[0],
)
MEMBERS = st.lists(
    st.tuples(
        st.sampled_from(["g", "h"]),
        st.integers(1, 4),
        st.sampled_from([("n1",), ("n1", "n2"), ("n3", "n4"), ()]),
        st.sampled_from([None, None, "n1", "n3"]),
    ),
    max_size=6,
)


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    """Up to four nodes, two gangs of pinned, gated and bound members."""
    nodes = [node(name, zone=zone, cpu=str(cpu), ready=ready) for name, zone, cpu, ready in draw(NODES)]
    names = {one.name for one in nodes}
    members: dict[str, list[Pod]] = {"g": [], "h": []}
    for number, (name, cpu, where, at) in enumerate(draw(MEMBERS)):
        if where:
            one = pinned(f"p{number}", *where, gang=name, cpu=str(cpu))
        else:
            one = pod(f"p{number}", gang=name, cpu=str(cpu), gates=(GATE,))
        members[name].append(bound(one, at) if at is not None and at in names and where else one)
    gangs: list[Gang] = [
        gang(name, members=own, min_member=draw(st.integers(1, len(own)))) for name, own in members.items() if own
    ]
    return snapshot(nodes, gangs)


@given(clusters())
def test_only_pinned_members_without_a_place(cluster: Snapshot) -> None:
    """Whoever is named waits on a list and is not planned; gone means that no node of the list exists."""
    made = plan(cluster, POLICY, now_s=0.0)
    found = found_in(cluster, made=made)
    for one in cluster.gangs.values():
        for member in one.members:
            loss = found.get(one.key, {}).get(member.uid)
            exist = [term for term in member.member_class.constraints.affinity or () if _there(term, cluster)]
            if loss is not None:
                assert is_pinned(member)
                assert member.uid not in made.node_of
                assert (loss is Loss.GONE) == (not exist)
            elif is_pinned(member):
                assert exist


@given(clusters())
def test_an_empty_ready_node_on_the_list_helps_the_pod_itself(cluster: Snapshot) -> None:
    """Nobody is stranded by itself while a listed node could take it; `FULL` of a planned gang is never the gang's."""
    made = plan(cluster, POLICY, now_s=0.0)
    for key, lost in found_in(cluster, made=made).items():
        if key in made.waiting:
            continue
        for uid in lost:
            member = next(one for one in cluster.gangs[key].members if one.uid == uid)
            assert not _fits_somewhere(member.member_class, cluster, made)


def _there(term: NodeSelectorTerm, cluster: Snapshot) -> bool:
    return term.fields[0].values[0] in cluster.table.index


def _fits_somewhere(wanted: MemberClass, cluster: Snapshot, made: Plan) -> bool:
    """Whether a listed ready node has room beside what runs and what is planned, counted one by one."""
    table = cluster.table
    request = table.vector(wanted.requests)
    if request is None:
        return False
    for term in wanted.constraints.affinity or ():
        row = table.index.get(NodeName(term.fields[0].values[0]))
        if row is None or not table.nodes[row].ready:
            continue
        free = table.allocatable[row] - cluster.used[row]
        for one in cluster.gangs.values():
            for member in one.members:
                vector = table.vector(member.requests)
                if made.node_of.get(member.uid) == table.names[row] and vector is not None:
                    free = free - vector
        if (request <= free).all():
            return True
    return False


def test_a_large_cluster_is_looked_at_in_steps() -> None:
    """Between two gangs with admitted members, and every few without, others have a turn; the answer is the same."""
    stuck = [gang(f"s{i}", members=[pinned(f"s{i}", "gone", gang=f"s{i}")]) for i in range(5)]
    others = [gang(f"g{i:03}", 2, cpu="9") for i in range(300)]
    cluster = snapshot([node("n1")], [*stuck, *others])
    made = plan(cluster, POLICY, now_s=0.0)
    steps = stranded_in_steps(cluster, made, POLICY, now_s=0.0)
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found = done.value
            break
        pauses += 1
    assert pauses >= 5 + 300 // 64
    assert found == stranded(cluster, made, POLICY, now_s=0.0)
    assert set(found) == {one.key for one in stuck}
