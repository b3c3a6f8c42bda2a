"""What is advised helps: each sentence is followed to the letter on the snapshot, and planned again the gang starts."""

from collections.abc import Callable
from dataclasses import replace as but

import pytest
from msgspec.structs import replace

from scoring.model import Gang, Node, Toleration
from scoring.plan import plan
from tests.builders import gang, pod, snapshot
from tests.scoring.explain.cases import CASES, IN_PART, Case, explained, row
from tests.scoring.plan.planned import LATE_S, dressed

Follow = Callable[[Case], Case]


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


SPREAD = annotated(zone_policy="preferred")
SERVING = {"unschedulable": False, "ready": True, "leaving": False, "taints": ()}
TOLERATES = in_templates(tolerations=(Toleration("dedicated", "Equal", "ml", "NoSchedule"),))
FEWER_LABELS, NO_PORT = in_templates(node_selector=(), affinity=None), in_templates(host_ports=())

WAYS: dict[str, tuple[Follow, ...]] = {  # case → each way to follow the advice that causes.toml has for it
    "six of nine nodes are cordoned": (on_nodes("a0", "a1", **SERVING),),
    "one node is cordoned": (on_nodes("a0", **SERVING),),
    "cordoned, with the control plane's taint": (on_nodes("a0", **SERVING),),
    "each kind of member fits, and beside a node that is cordoned all of them": (on_nodes("c0", **SERVING),),
    "the nodes with its label are cordoned, and other zones lack the label": (on_nodes("a0", **SERVING),),
    "the taint is tolerated, the node cordoned": (on_nodes("a0", unschedulable=False),),
    "nodes are not ready": (on_nodes("a0", "a1", **SERVING),),
    "nodes are about to be removed": (on_nodes("a0", "a1", **SERVING),),
    "a taint that the pods do not tolerate": (TOLERATES,),
    "two things at once: the greater first": (lambda case: TOLERATES(on_nodes("a9", **SERVING)(case)),),
    "kube-scheduler refuses nodes, another is cordoned": (lambda case: unrefused(on_nodes("a2", **SERVING)(case)),),
    "nodeSelector: a value misspelt": (FEWER_LABELS, labelled("disk", "sdd")),
    "nodeSelector: a value unlike all": (FEWER_LABELS, labelled("disk", "tape")),
    "nodeSelector: a key misspelt": (FEWER_LABELS, labelled("accelarator", "a100")),
    "node affinity that no node meets": (FEWER_LABELS, labelled("gpu", "h100")),
    "the label exists, on nodes of another zone": (FEWER_LABELS, labelled("disk", "ssd"), annotated()),
    "the label exists, on nodes without a zone": (FEWER_LABELS, SPREAD, labelled("pool", "ml")),
    "too few nodes have the label": (FEWER_LABELS, labelled("disk", "ssd")),
    "an extended resource that no node has": (unrefused,),
    "devices that kube-scheduler counts": (unrefused,),
    "a pod larger than the largest node": (instead(gang("g", 1, cpu="16")),),
    "a pod larger than the largest node with its label": (instead(gang("g", 1, cpu="8",
        node_selector={"disk": "ssd"})),),
    "larger nodes are outside netgang.io/zones": (instead(gang("g", 1, cpu="8", options={"zones": "a"})), annotated()),
    "the minimum is more than the empty zone": (minimum(2),),
    "each kind of member fits the empty zone, all of them do not": (minimum(2),),
    "tainted and cordoned": (minimum(1),),
    "two zones together hold the minimum": (SPREAD, minimum(1)),
    "no two zones together hold the minimum": (minimum(1),),
    "nodes that are cordoned would be too small": (minimum(1),),
    "other zones are cordoned or lack the label": (minimum(1),),
    "netgang.io/zones leaves out a free zone": (annotated(zones="a,b"), annotated()),
    "netgang.io/zones leaves out a free zone, and nodes without a zone are free": (annotated(zones="a,b"), annotated()),
    "netgang.io/zones names no zone of the cluster": (annotated(),),
    "netgang.io/zones names a node": (annotated(),),
    "no node has a zone": (SPREAD,),
    "a host port is taken": (NO_PORT,),
    "more pods with a host port than nodes": (NO_PORT, minimum(1)),
    "the limit of pods of a node": (lambda case: but(case, pods=[]), lambda case: but(case, nodes=row(1, pods=4))),
    "filters that netgang does not model, in kube-scheduler's words": (unrefused,),
    "anti-affinity on more nodes than there are": (unrefused, lambda case: minimum(2)(unrefused(case))),
    "topology spread on more nodes than there are": (unrefused, lambda case: minimum(2)(unrefused(case))),
    "it backs off, and its pods can never be on so few nodes": (unrefused, lambda case: minimum(2)(unrefused(case))),
    "it backs off": (unrefused,),
    "it backs off, and no node has what it asks for": (unrefused,),
    "a PersistentVolumeClaim is missing": (instead(gang("g", 1)),),
    "a ResourceClaim is missing": (instead(gang("g", 1)),),
    "bad links that it refuses": (unrefused, annotated(bad_links="avoid")),
    "some of it run, and one of the rest is too large for any node": (instead(gang("g", members=[*IN_PART[:2],
        pod("g-2", gang="g", cpu="8")])), minimum(2)),
    "too few members": (minimum(2),),
    "too few members of a PodGroup": (minimum(1),),
    "too few members of a job of the training operator": (minimum(1),),
    "members are still being deleted": (minimum(1),),
    "a ResourceQuota forbids the rest": (instead(gang("g", 3)),),
}  # fmt: skip


def starts(case: Case, *, now_s: float) -> bool:
    state = snapshot(case.nodes, [case.wanted, *case.others], pods=case.pods, **case.rest)
    return case.wanted.key in plan(state, case.policy, now_s=now_s).admitted


@pytest.mark.parametrize("name", sorted({*CASES, *WAYS}))
def test_what_is_advised_helps(name: str) -> None:
    """By each way of the table; where it has none, nothing is advised, for nothing would help."""
    case, ways = CASES[name], WAYS.get(name, ())
    found = explained(case)[0].cause
    assert found is not None
    assert bool(found.suggestion) is bool(ways), found.suggestion
    now_s = 0.0 if "backing_off_until_s" in case.rest else LATE_S
    assert not [at for at, way in enumerate(ways) if starts(case, now_s=now_s) or not starts(way(case), now_s=LATE_S)]
