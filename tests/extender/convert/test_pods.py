"""Pods from the API become our records."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from extender.convert import NUDGE_ANNOTATION, pod_from_json
from scoring.model import Constraints, HostPort, NodeSelectorTerm, Phase, Pod, Requirement, Role, Toleration

IN_GANG = {"pod-group.scheduling.sigs.k8s.io/name": "g", "pod-group.scheduling.sigs.k8s.io/min-available": "2"}


def read(metadata: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, **status: Any) -> Pod:
    pod = {"metadata": {"name": "p"} | (metadata or {}), "spec": spec or {}, "status": status}
    return pod_from_json(json.dumps(pod).encode())


def test_every_plain_field() -> None:
    metadata: dict[str, Any] = {
        "name": "w-2",
        "namespace": "team",
        "uid": "u1",
        "resourceVersion": "77",
        "managedFields": [{"f": {}}],
    }
    metadata |= {"creationTimestamp": "2026-11-20T10:00:00Z", "deletionTimestamp": "2026-11-20T11:00:00Z"}
    metadata["annotations"] = {"netgang.io/near": "D", "netgang.io/zones": "D,C", NUDGE_ANNOTATION: "17", "note": "x"}
    gates = [{"name": "x"}, {"name": "y"}]
    spec = {"nodeName": "n1", "schedulerName": "netgang", "priority": 7, "schedulingGates": gates}
    pod = read(metadata, spec, phase="Running", nominatedNodeName="n2")
    assert (pod.uid, pod.namespace, pod.name, pod.resource_version) == ("u1", "team", "w-2", "77")
    assert (pod.node, pod.nominated_node, pod.scheduler_name, pod.priority) == ("n1", "n2", "netgang", 7)
    assert (pod.phase, pod.deleting, pod.gates, pod.created_s) == (Phase.RUNNING, True, ("x", "y"), 1795168800.0)
    assert pod.options == (("near", "D"), ("zones", "D,C"))


def test_defaults_of_a_bare_pod() -> None:
    """What the API server would fill in is filled in, also where Go writes null; a pod from a file has its name."""
    pod = read()
    assert (pod.uid, pod.namespace, pod.scheduler_name) == ("default/p", "default", "default-scheduler")
    assert (pod.node, pod.nominated_node, pod.phase, pod.priority) == (None, None, Phase.PENDING, 0)
    assert (pod.deleting, pod.gates, pod.group, pod.job) == (False, (), None, None)
    assert (pod.index, pod.role, read(phase="Dreaming").phase) == (None, Role.OTHER, Phase.UNKNOWN)
    spec = "nodeName containers initContainers overhead resources nodeSelector affinity tolerations schedulingGates"
    fields = dict.fromkeys([*spec.split(), "schedulingGroup", "priority", "hostNetwork"])
    metadata = dict.fromkeys(["creationTimestamp", "labels", "annotations"])
    assert pod == read(metadata, fields, phase=None, conditions=None, containerStatuses=None)
    assert pod == pod_from_json(b'{"metadata": {"name": "p"}, "spec": null, "status": null}')


def test_when_a_member_got_its_node() -> None:
    member, on_node = {"labels": IN_GANG}, {"nodeName": "n1"}
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": "1970-01-01T00:02:00Z"}
    seen = [ready, ready | {"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:01:00Z"}]
    assert read(member, on_node, conditions=seen).scheduled_s == 60.0
    others = (member, on_node, None), (member, on_node, seen[:1]), (member, None, seen), (None, on_node, seen)
    assert [read(meta, spec, conditions=listed).scheduled_s for meta, spec, listed in others] == [None] * 4


BROKEN = {  # what the message must hold: raw bytes
    "Pod: Input data was truncated": b'{"metadata": ',
    "Pod: ": b"",
    "missing required field `name` - at `$.metadata`": b'{"metadata": {}}',
    "`str | null`, got `int` - at `$.spec.nodeName`": b'{"metadata": {"name": "p"}, "spec": {"nodeName": 1}}',
    "$.metadata.creationTimestamp": b'{"metadata": {"name": "p", "creationTimestamp": "yesterday"}}',
    "Pod default/p: spec.nodeSelector: ": b'{"metadata": {"name": "p"}, "spec": {"nodeSelector": [1]}}',
    "text is not UTF-8": b'{"metadata": {"name": "\xff"}}',
}


@pytest.mark.parametrize(("words", "raw"), BROKEN.items(), ids=BROKEN)
def test_what_cannot_be_read_is_a_value_error(words: str, raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"^Pod.*" + re.escape(words).removeprefix("Pod")):
        pod_from_json(raw)


def test_constraints() -> None:
    """Selector, required affinity and tolerations are read; preferred affinity is not."""
    expression = {"key": "disk", "operator": "In", "values": ["ssd", "nvme"]}
    affinity = required([{"matchExpressions": [expression]}, named("n1")])
    affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = [{"weight": 1, "preference": {}}]
    bearable = {"key": "k", "value": "v", "effect": "NoExecute", "tolerationSeconds": None}
    spec = {"nodeSelector": {"zone": "a", "arch": "amd64"}, "tolerations": [bearable, {"operator": "Exists"}]}
    limits = read(spec=spec | {"affinity": affinity}).member_class.constraints
    assert limits.node_selector == (("arch", "amd64"), ("zone", "a"))
    assert limits.affinity == (
        NodeSelectorTerm(expressions=(Requirement("disk", "In", ("ssd", "nvme")),)),
        NodeSelectorTerm(fields=(Requirement("metadata.name", "In", ("n1",)),)),
    )
    assert {Toleration("k", "Equal", "v", "NoExecute"), Toleration("", "Exists", "", "")} == set(limits.tolerations)
    without: tuple[dict[str, Any], ...] = ({"affinity": required([])}, {"affinity": {"nodeAffinity": {}}})
    assert [read(spec=one).member_class.constraints.affinity for one in without] == [(), None], "() matches nothing"


def test_what_is_tolerated_for_a_time_is_not_tolerated() -> None:
    """A node with such a taint evicts the pod, and its successor again; what admission adds changes no class (S12)."""
    minute = {"effect": "NoExecute", "operator": "Exists", "tolerationSeconds": 60}
    added = [minute | {"key": f"node.kubernetes.io/{key}"} for key in ("not-ready", "unreachable")]
    plain, stays = read(), read(spec={"tolerations": [{"operator": "Exists", "effect": "NoExecute"}, *added]})
    for seconds in (0, -1, 60):
        assert read(spec={"tolerations": [minute | {"tolerationSeconds": seconds}]}).member_class is plain.member_class
    assert read(spec={"tolerations": added}).member_class is plain.member_class
    assert stays.member_class.constraints.tolerations == (Toleration("", "Exists", "", "NoExecute"),)


def required(terms: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def named(node: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}


GPU = {"key": "gpu", "operator": "Exists"}

MOST: dict[str, tuple[int, Callable[[int], dict[str, Any]]]] = {  # what is said of one more: (most, so many)
    "65 terms of node affinity": (64, lambda n: {"affinity": required([{"matchExpressions": [GPU]}] * n)}),
    "769 expressions": (767, lambda n: {"affinity": required([{"matchExpressions": [GPU | {"values": ["v"] * n}]}])}),
    "770 expressions and": (384, lambda n: {"affinity": required([named(f"n{i}") for i in range(n)])}),
    "65 tolerations": (64, lambda n: {"tolerations": [{"key": "k", "operator": "Exists"}] * n}),
    "65 host ports": (64, lambda n: {"containers": [{"ports": [{"hostPort": i + 1} for i in range(n)]}]}),
}


@pytest.mark.parametrize(("words", "most", "spec"), [(words, *case) for words, case in MOST.items()], ids=MOST)
def test_the_most_that_is_read_of_where_it_may_go(words: str, most: int, spec: Callable[[int], dict[str, Any]]) -> None:
    """Each line and value is looked up wherever nodes are selected; placed, a pod is load like any other (S21).

    Terms that only name a node are no more than lines: admissions write 128 of them.
    """
    with pytest.raises(ValueError, match=f"^Pod default/p: spec: {words}"):
        read(spec=spec(most + 1))
    assert read(spec=spec(most)).member_class.constraints != Constraints()
    assert read(spec=spec(most + 1) | {"nodeName": "n"}).member_class.constraints == Constraints()


def test_host_ports() -> None:
    """Containers and sidecars occupy host ports, init containers do not; defaults are TCP on every address."""
    init, dns = {"containerPort": 1, "hostPort": 1}, {"containerPort": 53, "hostPort": 53, "protocol": "UDP"}
    spec = {
        "containers": [{"name": "a", "ports": [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81}]}],
        "initContainers": [{"ports": [init]}, {"restartPolicy": "Always", "ports": [dns | {"hostIP": "10.0.0.1"}]}],
    }
    ports = read(spec=spec).member_class.constraints.host_ports
    assert (HostPort("TCP", "0.0.0.0", 8080), HostPort("UDP", "10.0.0.1", 53)) == ports
    on_host = read(spec=spec | {"hostNetwork": True}).member_class.constraints.host_ports
    assert {8080, 81, 53} == {port.port for port in on_host}


NEAR = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}
SOFT = {"whenUnsatisfiable": "ScheduleAnyway"}
UNMODELLED: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {  # case: (names, spec)
    "nothing": ((), {"volumes": [{"name": "t", "projected": {}}], "topologySpreadConstraints": None}),
    "claim": (("persistentVolumeClaim",), {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]}),
    "ephemeral": (("ephemeral",), {"volumes": [{"name": "d", "ephemeral": {"volumeClaimTemplate": {}}}]}),
    "device": (("resourceClaims",), {"resourceClaims": [{"name": "gpu"}]}),
    "apart": (("podAntiAffinity",), {"affinity": {"podAntiAffinity": NEAR, "podAffinity": {}}}),
    "together": (("podAffinity",), {"affinity": {"podAffinity": NEAR}}),
    "spread": (("topologySpreadConstraints",), {"topologySpreadConstraints": [SOFT, {}]}),
    "soft spread": ((), {"topologySpreadConstraints": [SOFT]}),
}


@pytest.mark.parametrize(("names", "spec"), UNMODELLED.values(), ids=UNMODELLED)
def test_unmodelled_constraints(names: tuple[str, ...], spec: dict[str, Any]) -> None:
    """Fields by which kube-scheduler may refuse more than we model are shown by name, of what is ours."""
    assert (names, read(spec=spec).unmodelled) == (read({"labels": IN_GANG}, spec).unmodelled, ())


CLAIM = '0/3 nodes are available: persistentvolumeclaim "x" not found.'
VOLUME = "0/3 nodes are available: 3 node(s) had volume node affinity conflict."
TWO = "0/3 nodes are available: node(s) didn't satisfy plugin(s) [NodeAffinity VolumeBinding] simultaneously."
LONG = f"0/3 nodes are available: claim {'x' * 400}"
REFUSALS = {  # case: (what is said, what holds whatever the node; message)
    "the claim is missing": (CLAIM, 'persistentvolumeclaim "x" not found', CLAIM),
    "and no pod to preempt": (CLAIM, 'persistentvolumeclaim "x" not found', f"{CLAIM} preemption: 0/3 nodes."),
    "and another PostFilter plugin": (CLAIM, 'persistentvolumeclaim "x" not found', f"{CLAIM} not found"),
    "each node has its fault": (VOLUME, "", VOLUME),
    "two filters leave no node": (TWO, "", TWO),
    "there are no nodes": ("no nodes available to schedule pods", "", "no nodes available to schedule pods"),
    "we refused it": ("", "", "0/3 nodes are available: 3 netgang: the gang is about to be planned."),
    "too long": (LONG[:299] + "…", LONG[25:324] + "…", LONG),
    "nothing": ("", "", ""),
}


@pytest.mark.parametrize(("text", "obstacle", "message"), REFUSALS.values(), ids=REFUSALS)
def test_why_kube_scheduler_did_not_place_a_member(text: str, obstacle: str, message: str) -> None:
    """Its own words without what preemption would do, bounded; a PreFilter's words hold whatever the node."""
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    member = {"labels": IN_GANG}
    waits = read(member, conditions=[{"type": "Ready", "status": "False"}, said])
    assert (text, obstacle, True) == (waits.refusal, waits.obstacle, waits.parked)
    gated, scheduled = {"schedulingGates": [{"name": "x"}]}, said | {"status": "True"}
    others = (member, {"nodeName": "n1"}, said), (member, gated, said), (None, None, said), (member, None, scheduled)
    for other in (read(meta, spec, conditions=[one]) for meta, spec, one in others):
        assert (other.refusal, other.obstacle, other.parked) == ("", "", False)
    assert not read(member, conditions=[said | {"reason": "SchedulerError"}]).parked


def test_what_is_learned_of_nodes_stays_with_its_tenant() -> None:
    """Refusals of filters that are not modelled hold in the namespace, or for one gang (docs/safety.md S27)."""
    team, other = ({"namespace": namespace, "labels": IN_GANG} for namespace in ("team", "other"))
    beside = team | {"labels": IN_GANG | {"pod-group.scheduling.sigs.k8s.io/name": "h"}}
    found = [read(metadata).member_class.lineage for metadata in (team, beside, other)]
    found.append(read(team, {"affinity": {"podAffinity": NEAR}}).member_class.lineage)
    assert found == ["team", "team", "other", "team/g"]
