"""What is advised helps: each sentence is followed to the letter on the snapshot, and planned again the gang starts."""

from collections.abc import Callable
from dataclasses import replace as but

import pytest
from msgspec.structs import replace

from scoring.model import Gang, Node, Taint, Toleration
from scoring.model.policy import Policy
from scoring.plan import plan
from tests.builders import bound, gang, node, pod, snapshot
from tests.scoring.explain.cases import CASES, ML, PS_AND_WORKERS, Case, asking, explained, refused, row, some_are
from tests.scoring.plan.planned import LATE_S, dressed

Follow = Callable[[Case], Case]
CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def on_nodes(*names: str, **state: object) -> Follow:
    def follow(case: Case) -> Case:
        return but(case, nodes=[replace(one, **state) if one.name in names else one for one in case.nodes])

    return follow


def in_templates(**constraints: object) -> Follow:
    def follow(case: Case) -> Case:
        members = tuple(dressed(member, **constraints) for member in case.wanted.members)
        return but(case, wanted=replace(case.wanted, members=members))

    return follow


def instead(wanted: Gang) -> Follow:
    return lambda case: but(case, wanted=wanted)


def minimum(least: int) -> Follow:
    return lambda case: but(case, wanted=replace(case.wanted, min_member=least))


def annotated(**options: str) -> Follow:
    named = tuple((name.replace("_", "-"), value) for name, value in options.items())
    return lambda case: but(case, wanted=replace(case.wanted, options=named))


def labelled(key: str, value: str) -> Follow:
    def more(one: Node) -> Node:
        return replace(one, labels=tuple(sorted({**dict(one.labels), key: value}.items())))

    return lambda case: but(case, nodes=[more(one) for one in case.nodes])


def unrefused(case: Case) -> Case:
    """Kube-scheduler's own filters pass."""
    return but(case, rest={})


IN_PART = [bound(pod("g-0", gang="g"), "a0"), pod("g-1", gang="g"), pod("g-2", gang="g", cpu="16")]
TWO_FULL_ZONES = [*row(1), *row(1, zone="b")]
SMALL_SHUT = [*row(1), *(node(f"c{i}", cpu="4", unschedulable=True) for i in range(4))]
MORE_CASES = {
    "two zones together hold the minimum": Case("ZoneTooSmall", (), gang("g", 2, cpu="5"), TWO_FULL_ZONES),
    "no two zones together hold the minimum": Case("ZoneTooSmall", (), gang("g", 3, cpu="5"), TWO_FULL_ZONES),
    "nothing but more nodes helps": Case("RequestTooLarge", (), gang("g", 3, cpu="8", memory="1Gi"),
        row(2, cpu="4", memory="512Mi")),
    "nodes that are cordoned would be too small": Case("ZoneTooSmall",
        ("Even empty, zone a has room for 1 of 2 pods (cpu 8 each); 4 of 5 nodes of zone a are cordoned.",),
        gang("g", 2, cpu="8"), SMALL_SHUT),
    "other zones are cordoned or lack the label": Case("ZoneTooSmall", ("zone a has room for 1 of 4 pods (cpu 8 each); "
        "2 of 4 nodes of its zones lack labels of the pods' nodeSelector or node affinity; 1 of 4 nodes of ",),
        gang("g", 4, cpu="8", node_selector={"pool": "ml"}), [*row(1, labels={"pool": "ml"}), *row(2, zone="b"),
        *row(1, zone="c", labels={"pool": "ml"}, unschedulable=True)]),
    "each kind of member fits, and beside a node that is cordoned all of them": Case("NodesUnavailable",
        ("1 of 3 nodes of zone a is cordoned; zone a has room for each kind of its pods, not for all of them at once",),
        PS_AND_WORKERS, [*row(2, cpu="16"), node("c0", cpu="16", unschedulable=True)]),
    "with all nodes in service there is too little": Case("NodesUnavailable", (),
        gang("g", 3, cpu="8"), row(1, unschedulable=True)),
    "cordoned, with the control plane's taint": Case("NodesUnavailable", ("1 of 2 nodes of zone a is cordoned",),
        gang("g", 2), some_are(1, 2, unschedulable=True, taints=[CORDON])),
    "tainted and cordoned": Case("TaintNotTolerated", (), gang("g", 2),
        some_are(1, 2, unschedulable=True, taints=[ML])),
    "kube-scheduler refuses nodes, another is cordoned": Case("NodesUnavailable", (), gang("g", 3), [*row(1, cpu="1"),
        *row(3, cpu="1")[1:2], node("a2", cpu="1", unschedulable=True)], rest=refused(gang("g", 3), "a0")),
    "some of it run, and one of the rest is too large for any node": Case("RequestTooLarge", (),
        gang("g", members=IN_PART), row(2)),
    "no node has a zone": Case("NoAllowedZone", ("no node has zone label topology.kubernetes.io/zone",), gang("g", 1),
        row(2, zone="")),
    "what another extender counts, and too little of the rest": Case(
        "InsufficientRoom", ("1 more cpu would do.",),
        asking(gang("g", 1, cpu="2"), "nvidia.com/gpumem"), row(1), pods=[pod("x", cpu="7", node="a0")]),
}  # fmt: skip
CASES_HERE = CASES | MORE_CASES
ZONES, SPREAD = "annotation netgang.io/zones", annotated(zone_policy="preferred")
SERVING = {"unschedulable": False, "ready": True, "leaving": False, "taints": ()}
TOLERATES = in_templates(tolerations=(Toleration("dedicated", "Equal", "ml", "NoSchedule"),))
LABEL, FEWER_LABELS = "Label more nodes, or ask for fewer labels.", in_templates(node_selector=(), affinity=None)
APART = "Make the rule preferred, not required, or lower min-available to 2."
CLAIM = "Create the claim, or correct its name in the pod template."
DEVICES = "Correct its name, have what offers it installed on nodes, or wait for room."
NO_PORT = in_templates(host_ports=())

ADVICE: dict[str, tuple[str, *tuple[Follow, ...]]] = {  # case → what is advised, and each way to follow it
    "six of nine nodes are cordoned": ("Run `kubectl uncordon a0 a1`.", on_nodes("a0", "a1", **SERVING)),
    "one node is cordoned": ("Run `kubectl uncordon a0`.", on_nodes("a0", **SERVING)),
    "cordoned, with the control plane's taint": ("Run `kubectl uncordon a0`.", on_nodes("a0", **SERVING)),
    "each kind of member fits, and beside a node that is cordoned all of them": (
        "Run `kubectl uncordon c0`.", on_nodes("c0", **SERVING)),
    "the nodes with its label are cordoned, and other zones lack the label": (
        "Run `kubectl uncordon a0`.", on_nodes("a0", **SERVING)),
    "the taint is tolerated, the node cordoned": ("Run `kubectl uncordon a0`.", on_nodes("a0", unschedulable=False)),
    "nodes are not ready": ("See why a0, a1 are not ready (kubectl describe node).", on_nodes("a0", "a1", **SERVING)),
    "nodes are about to be removed": ("Have nodes in place of a0, a1.", on_nodes("a0", "a1", **SERVING)),
    "a taint that the pods do not tolerate": (
        "Add a toleration of dedicated=ml:NoSchedule to the pod template, if the pods may run there.", TOLERATES),
    "two things at once: the greater first": ("Add a toleration of dedicated=ml:NoSchedule to the pod template, if the "
        "pods may run there, and run `kubectl uncordon a9`.", lambda case: TOLERATES(on_nodes("a9", **SERVING)(case))),
    "kube-scheduler refuses nodes, another is cordoned": (
        "Run `kubectl uncordon a2`, and see which filter in the Event FailedScheduling of its pods.",
        lambda case: unrefused(on_nodes("a2", **SERVING)(case))),
    "nodeSelector: a value misspelt": (LABEL, FEWER_LABELS, labelled("disk", "sdd")),
    "nodeSelector: a value unlike all": (LABEL, FEWER_LABELS, labelled("disk", "tape")),
    "nodeSelector: a key misspelt": (LABEL, FEWER_LABELS, labelled("accelarator", "a100")),
    "node affinity that no node meets": (LABEL, FEWER_LABELS, labelled("gpu", "h100")),
    "the label exists, on nodes of another zone": (
        LABEL[:-1] + f", or remove {ZONES}.", FEWER_LABELS, labelled("disk", "ssd"), annotated()),
    "the label exists, on nodes without a zone": (
        LABEL[:-1] + ", or set annotation netgang.io/zone-policy to preferred.", FEWER_LABELS, SPREAD,
        labelled("pool", "ml")),
    "too few nodes have the label": (LABEL, FEWER_LABELS, labelled("disk", "ssd")),
    "an extended resource that no node has": (DEVICES, unrefused),
    "devices that kube-scheduler counts": (DEVICES, unrefused),
    "a pod larger than the largest node": ("Ask for at most 16 cpu a pod.", instead(gang("g", 1, cpu="16"))),
    "a pod larger than the largest node with its label": (
        "Ask for at most 8 cpu a pod.", instead(gang("g", 1, cpu="8", node_selector={"disk": "ssd"}))),
    "larger nodes are outside netgang.io/zones": (
        f"Ask for at most 8 cpu a pod, or remove {ZONES}.", instead(gang("g", 1, cpu="8", options={"zones": "a"})),
        annotated()),
    "the minimum is more than the empty zone": ("Lower min-available to 2.", minimum(2)),
    "each kind of member fits the empty zone, all of them do not": ("Lower min-available to 2.", minimum(2)),
    "tainted and cordoned": ("Lower min-available to 1.", minimum(1)),
    "two zones together hold the minimum": ("Set annotation netgang.io/zone-policy to preferred, or lower "
        "min-available to 1.", SPREAD, minimum(1)),
    "no two zones together hold the minimum": ("Lower min-available to 1.", minimum(1)),
    "nodes that are cordoned would be too small": ("Lower min-available to 1.", minimum(1)),
    "other zones are cordoned or lack the label": ("Lower min-available to 1.", minimum(1)),
    "netgang.io/zones leaves out a free zone": (
        f"Add b to {ZONES}, or remove it.", annotated(zones="a,b"), annotated()),
    "netgang.io/zones leaves out a free zone, and nodes without a zone are free": (
        f"Add b to {ZONES}, or remove it.", annotated(zones="a,b"), annotated()),
    "netgang.io/zones names no zone of the cluster": (f"Remove {ZONES}.", annotated()),
    "netgang.io/zones names a node": (f"Remove {ZONES}.", annotated()),
    "no node has a zone": ("Set annotation netgang.io/zone-policy to preferred.", SPREAD),
    "a host port is taken": ("Drop hostPort from the pod template.", NO_PORT),
    "more pods with a host port than nodes": (
        "Drop hostPort from the pod template, or lower min-available to 1.", NO_PORT, minimum(1)),
    "the limit of pods of a node": ("Wait until pods end, or raise maxPods of the kubelets.",
        lambda case: but(case, pods=[]), lambda case: but(case, nodes=row(1, pods=4))),
    "the namespace has its share": ("Have the share of its namespace raised.", lambda case: but(case, policy=Policy())),
    "filters that netgang does not model, in kube-scheduler's words": (
        "The Event FailedScheduling of its pods says which filter.", unrefused),
    "anti-affinity on more nodes than there are": (APART, unrefused, lambda case: minimum(2)(unrefused(case))),
    "topology spread on more nodes than there are": (APART, unrefused, lambda case: minimum(2)(unrefused(case))),
    "it backs off, and its pods can never be on so few nodes": (
        APART, unrefused, lambda case: minimum(2)(unrefused(case))),
    "it backs off": (
        "The Events AdmissionLapsed and FailedScheduling of its pods say what kept them.", unrefused),
    "a PersistentVolumeClaim is missing": (CLAIM, instead(gang("g", 1))),
    "a ResourceClaim is missing": (CLAIM, instead(gang("g", 1))),
    "bad links that it refuses": (
        "Mend the link, or set annotation netgang.io/bad-links to avoid.", unrefused, annotated(bad_links="avoid")),
    "some of it run, and one of the rest is too large for any node": ("Ask for at most 8 cpu a pod, or lower "
        "min-available to 2.", instead(gang("g", members=[*IN_PART[:2], pod("g-2", gang="g", cpu="8")])), minimum(2)),
    "too few members": ("Lower min-available to 2.", minimum(2)),
    "too few members of a PodGroup": ("Lower minMember of the PodGroup to 1.", minimum(1)),
    "too few members of a job of the training operator": (
        "Lower spec.runPolicy.schedulingPolicy.minAvailable to 1.", minimum(1)),
    "members are still being deleted": ("Lower min-available to 1.", minimum(1)),
    "a ResourceQuota forbids the rest": ("Have the ResourceQuota raised, or ask for less.", instead(gang("g", 3))),
}  # fmt: skip


def starts(case: Case, *, now_s: float) -> bool:
    state = snapshot(case.nodes, [case.wanted, *case.others], pods=case.pods, **case.rest)
    return case.wanted.key in plan(state, case.policy, now_s=now_s).admitted


@pytest.mark.parametrize(("name", "case"), CASES_HERE.items(), ids=CASES_HERE)
def test_what_is_advised_helps(name: str, case: Case) -> None:
    """Exactly what the table has; where it has nothing, nothing would help. A new case needs its row here."""
    found, (advice, *ways) = explained(case)[0].cause, ADVICE.get(name, ("",))
    assert found is not None
    assert (found.suggestion, found.reason, bool(advice)) == (advice, case.reason, bool(ways)), found.message
    assert name in CASES or not [words for words in case.says if words not in found.message], found.message
    now_s = 0.0 if "backing_off_until_s" in case.rest else LATE_S
    assert not [at for at, way in enumerate(ways) if starts(case, now_s=now_s) or not starts(way(case), now_s=LATE_S)]
