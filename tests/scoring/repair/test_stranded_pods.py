"""Admitted pods whose nodes cannot take them any more: which are stranded, which are not, and why."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scoring import NodeName
from scoring.model import Gang, MemberClass, Node, NodeSelectorTerm, Phase, Pod, Requirement, Role, Taint
from scoring.model.gang import gang_key
from scoring.model.policy import Policy
from scoring.model.reasons import Reason
from scoring.model.snapshot import Snapshot
from scoring.plan import Plan, plan
from scoring.repair import PlaceLoss, is_pinned, stranded
from tests.builders import bound, gang, node, pod, snapshot

POLICY = Policy()
GATE = "netgang.io/gang"


def listed(*names: str) -> tuple[NodeSelectorTerm, ...]:
    """What admission to these nodes writes: one term per node."""
    return tuple(NodeSelectorTerm(fields=(Requirement("metadata.name", "In", (name,)),)) for name in names)


def in_zone(*zones: str) -> tuple[NodeSelectorTerm, ...]:
    return (NodeSelectorTerm(expressions=(Requirement("topology.kubernetes.io/zone", "In", zones),)),)


def pinned(name: str, *nodes: str, **fields: object) -> Pod:
    """A waiting member of gang g that was admitted to `nodes`."""
    defaults: dict[str, object] = {"gang": "g", "affinity": listed(*nodes), "admitted_to": NodeName(nodes[0])}
    return pod(name, **(defaults | fields))  # type: ignore[arg-type]


def losses(cluster: Snapshot) -> dict[str, str]:
    """Stranded pods by name and loss, over all gangs, by the plan of this snapshot."""
    names = {pod.uid: str(pod.name) for one in cluster.gangs.values() for pod in one.members}
    found = stranded(cluster, plan(cluster, POLICY, now_s=0.0), POLICY, now_s=0.0)
    return {names[uid]: loss.name.lower() for one in found.values() for uid, loss in one.items()}


N1, N2, N3 = (node(name) for name in ("n1", "n2", "n3"))
TAKEN = [pod("a", cpu="8", node="n1"), pod("b", cpu="7500m", node="n2")]
ONE_POD: dict[str, tuple[str | None, list[Node], list[Pod], dict[str, object]]] = {
    # case: (loss of a pod that was admitted to n1 and n2, nodes beside a free one of another zone, pods, its fields)
    "both there": (None, [N1, N2], [], {}),
    "one gone": (None, [N2], [], {}),
    "both gone": ("gone", [], [], {}),
    "both full": ("full", [N1, N2], TAKEN, {}),
    "one full": (None, [N1, N2], TAKEN[:1], {}),
    "one gone, one full": ("full", [N1], TAKEN[:1], {}),
    "one gone, one not ready": ("full", [node("n1", ready=False)], [], {}),
    "cordoned": ("full", [node("n1", unschedulable=True)], [], {}),
    "tainted": ("full", [node("n1", taints=[Taint("k", "", "NoSchedule")])], [], {}),
    "leaving": ("full", [node("n1", leaving=True)], [], {}),
    "too small even when empty": ("full", [node("n1", cpu="500m")], [], {}),
    "a resource that no allocatable shows any more": (None, [N1], [], {"gpu": 1}),
    "zone, a node of it is there": (None, [N1], [], {"affinity": in_zone("a")}),
    "zone, all its nodes are gone": ("gone", [], [], {"affinity": in_zone("a")}),
    "zone, all its nodes are full": ("full", [N1], TAKEN[:1], {"affinity": in_zone("a")}),
}


def one_pod(loss: str | None, nodes: list[Node], others: list[Pod], fields: dict[str, object]) -> tuple[Any, ...]:
    waiting = gang("g", members=[pinned("p", "n1", "n2", **fields)])
    return {"p": loss} if loss else {}, [*nodes, node("n3", zone="b")], [waiting], {"pods": others}


NOT_WAITING = {  # case: what keeps a pod from being stranded although its nodes are gone
    "gated": {"gates": (GATE,)},
    "behind another's gate": {"gates": ("example.com/quota",)},
    "never admitted": {"admitted_to": None},
    "admitted without a list": {"affinity": None},
    "being deleted": {"deleting": True},
    "finished": {"phase": Phase.SUCCEEDED},
    "failed": {"phase": Phase.FAILED},
    "bound": {"node": "n3", "phase": Phase.RUNNING},
}


@pytest.mark.parametrize("fields", NOT_WAITING.values(), ids=NOT_WAITING)
def test_pods_that_do_not_wait_for_a_listed_node(fields: dict[str, object]) -> None:
    """Only an admitted, ungated, unbound, living pod with a list can be stranded (docs/safety.md S8)."""
    one = pinned("p", "n1", **fields)
    assert not is_pinned(one)
    assert losses(snapshot([N3], [gang("g", members=[one, pinned("q", "n1")], min_member=1)])) == {"q": "gone"}


P = gang("g", members=[pinned("p", "n1", "n2")])
P5 = gang("g", members=[pinned("p", "n1", "n2", cpu="5")])
FAULTY = replace(gang("f", members=[pinned("p", "n1", gang="f")]), problem=Reason.INVALID_GROUP)
FOREIGN = replace(gang("h", members=[pinned("q", "n1", gang="h")]), own=False)
PROMISED = {"commitments": {"default/g": {"uid-default-p": "n1"}}}
LATE = gang("g", members=[pinned("p", "n1", cpu="5")], created_s=2.0)
AHEAD = gang("h", 1, cpu="5", created_s=1.0, node_selector={"kubernetes.io/hostname": "n1"})
BEHIND = replace(AHEAD, created_s=3.0)
H_ON_N1 = {"commitments": {"default/h": {"uid-default-h-0": "n1"}}}
OFF = {"backing_off_until_s": {gang_key("default", name): 9.0 for name in "gh"}}
REFUSED = {"exclusions": {P5.members[0].member_class: frozenset({NodeName("n1"), NodeName("n2")})}}
TWO = gang("g", members=[pinned(f"p{i}", "n1", "n2", cpu="5") for i in range(2)])
N1_REFUSED = {"exclusions": {TWO.members[0].member_class: frozenset({NodeName("n1")})}}
THREE = gang("g", members=[pinned(f"p{i}", "n1", "n2", cpu="5") for i in range(3)])
PS = pinned("ps", "n1", cpu="5", role=Role.PS, index=0)
WORKERS = [pinned(f"w{i}", "n1", "n2", cpu="5", role=Role.WORKER, index=i) for i in range(3)]
ELSEWHERE = pinned("w", "n9", cpu="5", role=Role.WORKER, index=0)
SUCCESSOR = gang("g", members=[pinned("p", "n1", cpu="5"), pod("q", gang="g", cpu="5", gates=(GATE,))])
FEW = gang("g", members=[pinned(name, "n1", cpu="5") for name in ("p", "q")], min_member=3)
BOTH = [gang(name, members=[pinned(f"{name}0", "n1", cpu="5", gang=name)]) for name in ("g", "h")]
STARTED = gang("g", members=[bound(pinned("p", "n1"), "n1"), pinned("q", "n9", created_s=5.0)])
Z1 = node("z1", zone="z")
IN_A = replace(P5, options=(("zones", "a"),))

GANGS: dict[str, tuple[Any, ...]] = {  # case: (losses, nodes, gangs, what else the snapshot has)
    **{case: one_pod(*told) for case, told in ONE_POD.items()},
    "gangs with a fault, and others' gangs": ({}, [N3], [FAULTY, FOREIGN], {}),
    "a committed place is a place": ({}, [N1, N2, N3], [P], {"pods": TAKEN, **PROMISED}),
    "on a node that is gone it is none": ({"p": "gone"}, [N3], [P], PROMISED),
    "the plan's place for a gang ahead is taken": ({"p": "full"}, [N1, N2], [LATE, AHEAD], {}),
    "a commitment is taken": ({"p": "full"}, [N1, N2], [LATE, BEHIND], H_ON_N1),
    "what is committed and planned counts once": ({}, [N1],
        [gang("g", members=[pinned("p", "n1", cpu="4")]), gang("h", 1, cpu="4")], H_ON_N1 | OFF),
    "refusals of filters that we do not model, and its successor could go elsewhere (docs/safety.md S7, S27)": (
        {"p": "refused"}, [N1, N2, N3], [P5], REFUSED),
    "into another zone": ({"p": "refused"}, [N1, N2, Z1], [P5], REFUSED),
    "its successor could go nowhere else": ({}, [N1, N2], [P5], REFUSED),
    "too little room elsewhere": ({}, [N1, N2, node("n3", cpu="4")], [P5], REFUSED),
    "only into a zone that it may not use": ({}, [N1, N2, Z1], [IN_A], REFUSED),
    "one open node is of no use to two members": ({}, [N1, N2], [TWO], N1_REFUSED),
    "two are": ({"p0": "refused", "p1": "refused"}, [N1, N2, N3], [TWO], N1_REFUSED),
    "each member fits somewhere on the list, and the gang does not": (
        dict.fromkeys(("p0", "p1", "p2"), "full"), [N1, N2, N3], [THREE], {}),
    "the worker beyond the minimum set stays, having room of its own": (
        dict.fromkeys(("ps", "w0", "w1"), "full"), [N1, N2], [gang("g", members=[PS, *WORKERS], min_member=3)], {}),
    "a sibling pins the zone": ({"ps": "full", "w": "gone"},
        [N1, node("n3", zone="b")], [gang("g", members=[PS, ELSEWHERE])], {}),
    "a gated sibling may go anywhere in the zone, so the gang fits": ({}, [N1, N2], [SUCCESSOR], OFF),
    "the zone is full": ({"p": "full"}, [N1, N2], [SUCCESSOR], {"pods": TAKEN[1:], **OFF}),
    "a back-off with room is no loss": ({}, [N1, N2],
        [gang("g", members=[pinned("p", "n1"), pinned("q", "n2")])], OFF),
    "too few pods wait for something else than nodes": ({}, [N1, N2], [FEW], {}),
    "two gangs back off, and each alone would fit": ({}, [N1], BOTH, OFF),
    "of a started gang only the successor, never what is bound (docs/safety.md S8)": (
        {"q": "gone"}, [N1, N2], [STARTED], {}),
}  # fmt: skip


@pytest.mark.parametrize(("want", "nodes", "gangs", "rest"), GANGS.values(), ids=GANGS)
def test_gangs(want: dict[str, str], nodes: list[Node], gangs: list[Gang], rest: dict[str, Any]) -> None:
    """Beside what runs, what is committed and what is planned for others, the whole gang must find its places.

    Gone: none of the nodes that a pod may go to exists; full: some do, and none of them can take it.
    """
    assert losses(snapshot(nodes, gangs, **rest)) == want


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
        fields: dict[str, Any] = {"gang": name, "cpu": str(cpu)}
        one = pinned(f"p{number}", *where, **fields) if where else pod(f"p{number}", gates=(GATE,), **fields)
        members[name].append(bound(one, at) if at is not None and at in names and where else one)
    gangs: list[Gang] = [
        gang(name, members=own, min_member=draw(st.integers(1, len(own)))) for name, own in members.items() if own
    ]
    return snapshot(nodes, gangs)


@given(clusters())
def test_only_pinned_members_without_a_place(cluster: Snapshot) -> None:
    """Each pod named waits on a list and is not planned; gone means that no node of the list exists.

    No pod is stranded by itself while a listed node could take it.
    """
    made = plan(cluster, POLICY, now_s=0.0)
    found = stranded(cluster, made, POLICY, now_s=0.0)
    for one in cluster.gangs.values():
        for member in one.members:
            loss = found.get(one.key, {}).get(member.uid)
            terms = member.member_class.constraints.affinity or ()
            exist = any(term.fields[0].values[0] in cluster.table.index for term in terms)
            if loss is not None:
                assert is_pinned(member)
                assert member.uid not in made.node_of
                assert (loss is PlaceLoss.GONE) == (not exist)
                assert one.key in made.waiting or not _fits_somewhere(member.member_class, cluster, made)
            elif is_pinned(member):
                assert exist


def _fits_somewhere(wanted: MemberClass, cluster: Snapshot, made: Plan) -> bool:
    """Whether a listed ready node has room beside what runs and what is planned, counted one by one."""
    table, members = cluster.table, [member for one in cluster.gangs.values() for member in one.members]
    for term in wanted.constraints.affinity or ():
        row = table.index.get(NodeName(term.fields[0].values[0]))
        if row is not None and table.nodes[row].ready:
            coming = [one for one in members if made.node_of.get(one.uid) == table.names[row]]
            free = table.allocatable[row] - cluster.used[row] - sum(table.vector(one.requests) for one in coming)
            if (table.vector(wanted.requests) <= free).all():
                return True
    return False
