"""Each cause for which a gang waits: the smallest cluster in which it happens. What is said of it is in causes.toml.

A table of its own, because every output that shows the cause is tested with each row: Event, `/v1/explain`, CLI, page.
"""

from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from scoring import NodeName, ResourceName
from scoring.explain.gang import explain
from scoring.model import Gang, GangSource, HostPort, Node, NodeSelectorTerm, Pod, Reason, Resources, Role
from scoring.model.pod import Controller, Requirement, RunRef, Taint, Toleration
from scoring.model.policy import Policy
from scoring.model.snapshot import Reservation, Snapshot
from scoring.plan import Plan, plan
from scoring.records import Explained
from tests.builders import bound, gang, mesh, node, pod, snapshot
from tests.scoring.plan.planned import ported


@dataclass(frozen=True)
class Case:
    """One cause: the gang and its cluster."""

    wanted: Gang
    nodes: list[Node]
    others: list[Gang] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    policy: Policy = field(default_factory=Policy)
    notes: tuple[str, ...] = ()
    rest: dict[str, Any] = field(default_factory=dict)


def row(count: int, *, zone: str = "a", **fields: Any) -> list[Node]:
    return [node(f"{zone}{i}", zone=zone, **fields) for i in range(count)]


def some_are(count: int, of: int, **state: Any) -> list[Node]:
    """`of` nodes for one pod each, of which `count` are as `state` says."""
    return [*row(of, cpu="1")[count:], *(node(f"a{i}", cpu="1", **state) for i in range(count))]


def with_ports(wanted: Gang, port: int) -> Gang:
    return replace(wanted, members=tuple(ported(member, port) for member in wanted.members))


def asking(wanted: Gang, resource: str) -> Gang:
    [member] = wanted.members
    requests = Resources.from_amounts([*member.requests, (ResourceName(resource), 1)])
    return replace(wanted, members=(replace(member, member_class=replace(member.member_class, requests=requests)),))


def refused(of: Gang, *nodes: str) -> dict[str, Any]:
    return {"exclusions": {of.members[0].member_class: frozenset(map(NodeName, nodes))}}


PS = pod("g-ps-0", gang="g", role=Role.PS, index=0, cpu="1", memory="1Gi")
WORKERS = [pod(f"g-w-{i}", gang="g", role=Role.WORKER, index=i, cpu="16", memory="6Gi") for i in range(2)]
PS_AND_WORKERS = gang("g", members=[PS, *WORKERS])
ML = Taint("dedicated", "ml", "NoSchedule")
G3 = gang("g", 3)
APART = gang("g", 3, unmodelled=("podAntiAffinity",))
SPREAD = gang("g", 3, unmodelled=("topologySpreadConstraints",))
PLUGIN = gang("g", 1, refusal="0/1 nodes are available: 1 node(s) didn't match pod affinity rules.")
VOLUME = 'persistentvolumeclaim "data" not found'
TRAINING = Controller("kubeflow.org/v1", "PyTorchJob", "g", "g-uid")
QUOTA = ("ResourceQuota team leaves 1 of requests.cpu, and a member asks for 2",)
NO_GPUS = "0/1 nodes are available: 1 Insufficient nvidia.com/gpus."
MISSPELT = asking(gang("g", 1), "nvidia.com/gpus")
CLAIMS = gang("g", 1, unmodelled=("resourceClaims",), refusal="0/1 nodes are available: 1 cannot allocate all claims.")
BUSY = [pod("other", cpu="7", node="a0", scheduler_name="x")]
BIG = gang("big", 2, cpu="8", namespace="secret", priority=5)
LEFT = Reservation(BIG.key, {BIG.members[0].uid: NodeName("a0"), BIG.members[1].uid: NodeName("a1")})
NEXT_RUN = replace(
    gang("g", members=[bound(pod("g-0", gang="g", run=RunRef("1", "Job", "old")), "a0")]),
    later=(pod("g-1", gang="g", run=RunRef("2", "Job", "new")),),
)
IN_PART = [bound(pod("g-0", gang="g"), "a0"), pod("g-1", gang="g"), pod("g-2", gang="g", cpu="16")]
TWO_FULL_ZONES = [*row(1), *row(1, zone="b")]
SMALL_SHUT = [*row(1), *(node(f"c{i}", cpu="4", unschedulable=True) for i in range(4))]
CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")

CASES: dict[str, Case] = {
    "six of nine nodes are cordoned": Case(gang("g", 5), [*some_are(6, 9, unschedulable=True), *row(1, zone="b",
        cpu="1")]),
    "one node is cordoned": Case(gang("g", 2), some_are(1, 2, unschedulable=True)),
    "nodes are not ready": Case(G3, some_are(2, 3, ready=False)),
    "nodes are about to be removed": Case(G3, some_are(2, 3, leaving=True)),
    "a taint that the pods do not tolerate": Case(G3, some_are(2, 3, taints=[ML])),
    "two things at once: the greater first": Case(gang("g", 4), [*some_are(2, 3, taints=[ML]), node("a9", cpu="1",
        unschedulable=True)]),
    "the nodes with its label are cordoned, and other zones lack the label": Case(gang("g", 1,
        node_selector={"pool": "ml"}), [*row(1, labels={"pool": "ml"}, unschedulable=True), *row(2, zone="b",
        taints=[ML])]),
    "the taint is tolerated, the node cordoned": Case(gang("g", 1, tolerations=[Toleration("dedicated", "Exists")]),
        row(1, taints=[ML], unschedulable=True)),
    "nodeSelector: a value misspelt": Case(gang("g", 1, node_selector={"disk": "sdd"}), row(2, labels={"disk": "ssd"})),
    "nodeSelector: a value unlike all": Case(gang("g", 1, node_selector={"disk": "tape"}), [node("a",
        labels={"disk": "ssd"}), node("b", labels={"disk": "nvme"})]),
    "nodeSelector: a key misspelt": Case(gang("g", 1, node_selector={"accelarator": "a100"}), row(1,
        labels={"accelerator": "a100"})),
    "node affinity that no node meets": Case(gang("g", 1, affinity=(NodeSelectorTerm((Requirement("gpu", "In", ("a100",
        "h100")),)),)), row(1)),
    "the label exists, on nodes of another zone": Case(gang("g", 1, node_selector={"disk": "ssd"},
        options={"zones": "a"}), [*row(1), *row(1, zone="b", labels={"disk": "ssd"})]),
    "the label exists, on nodes without a zone": Case(gang("g", 1, node_selector={"pool": "ml"}), [*row(1), node("n",
        zone="", labels={"pool": "ml"})]),
    "too few nodes have the label": Case(gang("g", 3, node_selector={"disk": "ssd"}), [*row(1, cpu="1",
        labels={"disk": "ssd"}), *row(3, cpu="1")[1:]]),
    "an extended resource that no node has": Case(MISSPELT, row(1, gpu=4), rest=refused(MISSPELT, "a0")),
    "it backs off, and no node has what it asks for": Case(asking(gang("g", 1, refusal=NO_GPUS), "nvidia.com/gpus"),
        row(1, gpu=4), rest={"backing_off_until_s": {"default/g": 20.0}}),
    "a pod larger than the largest node": Case(gang("g", 1, cpu="32"), [*row(1, cpu="8"), *row(1, zone="b", cpu="16")]),
    "a pod larger than the largest node with its label": Case(gang("g", 1, cpu="16", node_selector={"disk": "ssd"}),
        [node("a0", cpu="8", labels={"disk": "ssd"}), node("a1", cpu="64")]),
    "larger nodes are outside netgang.io/zones": Case(gang("g", 1, cpu="32", options={"zones": "a"}), [*row(1), *row(1,
        zone="b", cpu="64")]),
    "the minimum is more than the empty zone": Case(gang("g", 3, cpu="5"), row(2)),
    "each kind of member fits the empty zone, all of them do not": Case(PS_AND_WORKERS, row(2, cpu="16")),
    "netgang.io/zones leaves out a free zone": Case(gang("g", 3, options={"zones": "a"}), [*row(1), *row(1, zone="b")],
        pods=BUSY),
    "netgang.io/zones leaves out a free zone, and nodes without a zone are free": Case(gang("g", 1,
        options={"zones": "a"}), [*row(1), node("n", zone=""), *row(1, zone="b")], pods=[pod("other", cpu="8",
        node="a0", scheduler_name="x")]),
    "netgang.io/zones names no zone of the cluster": Case(gang("g", 1, options={"zones": "zone-aa"}), row(1,
        zone="zone-a")),
    "netgang.io/zones names a node": Case(gang("g", 1, options={"zones": "a0"}), row(1)),
    "a host port is taken": Case(with_ports(gang("g", 1), 8080), row(1),
        rest={"host_ports": {NodeName("a0"): frozenset({HostPort("TCP", "0.0.0.0", 8080)})}}),
    "more pods with a host port than nodes": Case(with_ports(gang("g", 2), 8080), row(1)),
    "the limit of pods of a node": Case(gang("g", 2), row(1, pods=2), pods=[pod(f"o{i}", cpu="0",
        node="a0") for i in range(2)]),
    "running pods take the room": Case(G3, row(1), pods=BUSY),
    "running pods leave each worker 12 of 16 cpu, beside a ps": Case(PS_AND_WORKERS, row(2, cpu="17"),
        pods=[pod(f"o{i}", cpu=f"{5 - i}", node=f"a{i}", scheduler_name="x") for i in range(2)]),
    "running pods leave each worker 6Gi of 8Gi": Case(gang("g", 2, memory="8Gi"), row(2, memory="8Gi"),
        pods=[pod(f"o{i}", cpu="1", memory="1500Mi", node=f"a{i}", scheduler_name="x") for i in range(2)]),
    "neither resource alone would do": Case(gang("g", 1, cpu="8", memory="8Gi"), row(1, memory="8Gi"),
        pods=[pod("other", cpu="2", memory="2Gi", node="a0", scheduler_name="x")]),
    "running pods take the room of the nodes with its label": Case(gang("g", 1, node_selector={"pool": "ml"}), [*row(1,
        labels={"pool": "ml"}), *row(2, zone="b")], pods=[pod("other", cpu="8", node="a0", scheduler_name="x")]),
    "running pods take the room, and one node is cordoned besides": Case(gang("g", 4), [*row(1), node("a1", cpu="1",
        unschedulable=True)], pods=BUSY),
    "gangs ahead were given the room": Case(gang("g", 1, cpu="8", created_s=9.0), row(1), [gang("f", 1, cpu="8",
        priority=1)]),
    "the room is committed to a gang that starts": Case(gang("g", 1, cpu="8"), row(1), [(STARTING := gang("s", 1,
        cpu="8", namespace="secret"))], rest={"commitments": {"secret/s": {str(STARTING.members[0].uid): "a0"}}}),
    "it waits for one zone": Case(gang("g", 9, options={"zone-policy": "preferred"}), [*row(1), *row(1, zone="b")]),
    "filters that netgang does not model, in kube-scheduler's words": Case(PLUGIN, row(1), rest=refused(PLUGIN, "a0")),
    "anti-affinity on more nodes than there are": Case(APART, row(2), rest=refused(APART, "a0", "a1")),
    "topology spread on more nodes than there are": Case(SPREAD, row(2), rest=refused(SPREAD, "a0", "a1")),
    "devices that kube-scheduler counts": Case(CLAIMS, row(1), rest=refused(CLAIMS, "a0")),
    "a PersistentVolumeClaim is missing": Case(gang("g", 1, obstacle=VOLUME), row(1)),
    "a ResourceClaim is missing": Case(gang("g", 1, obstacle='resourceclaim "gpu" not found'), row(1)),
    "kube-scheduler refuses the pod itself": Case(gang("g", 1, obstacle="a plugin says no"), row(1)),
    "a foreign scheduling gate": Case(gang("g", 2, gates=("kueue.x-k8s.io/admission",)), row(1)),
    "too few members": Case(gang("g", 2, min_member=3), row(1)),
    "too few members of a PodGroup": Case(replace(gang("g", 1, min_member=2), source=GangSource.POD_GROUP), row(1)),
    "too few members of a job of the training operator": Case(replace(gang("g", members=[replace(pod("g-0", gang="g"),
        owner=TRAINING)], min_member=2), source=GangSource.POD_GROUP), row(1)),
    "members are still being deleted": Case(gang("g", members=[pod("g-0", gang="g"), pod("g-1", gang="g",
        deleting=True)]), row(1)),
    "a ResourceQuota forbids the rest": Case(gang("g", 2, min_member=3), row(1), notes=QUOTA),
    "members were on a node that is gone": Case(gang("g", members=[bound(pod("g-0", gang="g"), "a9"), pod("g-1",
        gang="g")]), row(1)),
    "bad links that it refuses": Case(gang("g", 2, options={"bad-links": "refuse"}), row(2, cpu="1"),
        rest={"network": mesh(row(2), loss_ratio=0.13)}),
    "labels that contradict each other": Case(replace(gang("g", 1), problem=Reason.INVALID_GROUP,
        problem_detail="min-available 2 and 3"), row(1)),
    "it backs off": Case(gang("g", 1), row(1), rest={"backing_off_until_s": {"default/g": 20.0}}),
    "it backs off, and its pods can never be on so few nodes": Case(APART, row(2),
        rest={"backing_off_until_s": {"default/g": 20.0}}),
    "room that others leave is reserved": Case(gang("g", 1, cpu="8"), row(2), [BIG], [pod("late", cpu="8", node="a1")],
        rest={"claims": {BIG.key: LEFT}}),
    "an earlier run has not ended": Case(NEXT_RUN, row(1)),
    "pods beyond the minimum": Case(gang("g", members=[bound(pod("g-0", gang="g", cpu="8"), "a0"), pod("g-1",
        gang="g")], min_member=1), row(1)),
    "pods beyond the minimum, another zone has room": Case(gang("g", members=[bound(pod("g-0", gang="g", cpu="8"),
        "a0"), pod("g-1", gang="g")], min_member=1), [*row(1), *row(1, zone="b")]),
    "two zones together hold the minimum": Case(gang("g", 2, cpu="5"), TWO_FULL_ZONES),
    "no two zones together hold the minimum": Case(gang("g", 3, cpu="5"), TWO_FULL_ZONES),
    "nothing but more nodes helps": Case(gang("g", 3, cpu="8", memory="1Gi"), row(2, cpu="4", memory="512Mi")),
    "nodes that are cordoned would be too small": Case(gang("g", 2, cpu="8"), SMALL_SHUT),
    "other zones are cordoned or lack the label": Case(gang("g", 4, cpu="8", node_selector={"pool": "ml"}), [*row(1,
        labels={"pool": "ml"}), *row(2, zone="b"), *row(1, zone="c", labels={"pool": "ml"}, unschedulable=True)]),
    "each kind of member fits, and beside a node that is cordoned all of them": Case(PS_AND_WORKERS, [*row(2, cpu="16"),
        node("c0", cpu="16", unschedulable=True)]),
    "with all nodes in service there is too little": Case(gang("g", 3, cpu="8"), row(1, unschedulable=True)),
    "cordoned, with the control plane's taint": Case(gang("g", 2), some_are(1, 2, unschedulable=True, taints=[CORDON])),
    "tainted and cordoned": Case(gang("g", 2), some_are(1, 2, unschedulable=True, taints=[ML])),
    "kube-scheduler refuses nodes, another is cordoned": Case(gang("g", 3), [*row(1, cpu="1"), *row(3, cpu="1")[1:2],
        node("a2", cpu="1", unschedulable=True)], rest=refused(gang("g", 3), "a0")),
    "some of it run, and one of the rest is too large for any node": Case(gang("g", members=IN_PART), row(2)),
    "no node has a zone": Case(gang("g", 1), row(2, zone="")),
    "what another extender counts, and too little of the rest": Case(asking(gang("g", 1, cpu="2"), "nvidia.com/gpumem"),
        row(1), pods=[pod("x", cpu="7", node="a0")]),
}  # fmt: skip


def explained(case: Case) -> tuple[Explained, Plan, Snapshot]:
    state: Snapshot = snapshot(case.nodes, [case.wanted, *case.others], pods=case.pods, **case.rest)
    made = plan(state, case.policy, now_s=0.0)
    return explain(state, made, case.wanted, case.policy, now_s=0.0, notes=case.notes), made, state
