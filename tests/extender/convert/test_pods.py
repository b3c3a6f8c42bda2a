"""Pods from the API become our records."""

import json
from typing import Any

import pytest

from extender.convert import NUDGE_ANNOTATION, pinned_node, pod_from_json
from scoring.model import HostPort, NodeSelectorTerm, Phase, Pod, Requirement, Role, Toleration


def read(metadata: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, **status: Any) -> Pod:
    """The record of a pod `p` with these parts."""
    pod = {"metadata": {"name": "p"} | (metadata or {}), "spec": spec or {}, "status": status}
    return pod_from_json(json.dumps(pod).encode())


def test_every_plain_field() -> None:
    """Identity, place, phase, priority, time, gates and owner of a full pod are taken over as they are."""
    pod = read(
        {
            "name": "resnet-worker-2",
            "namespace": "team",
            "uid": "u1",
            "resourceVersion": "77",
            "creationTimestamp": "2026-11-20T10:00:00Z",
            "deletionTimestamp": "2026-11-20T11:00:00Z",
            "managedFields": [{"fieldsV1": {"f:x": {}}}],
        },
        {
            "nodeName": "n1",
            "schedulerName": "netgang",
            "priority": 7,
            "schedulingGates": [{"name": "netgang.io/gang"}, {"name": "other"}],
        },
        phase="Running",
        nominatedNodeName="n2",
    )
    assert (pod.uid, pod.namespace, pod.name, pod.resource_version) == ("u1", "team", "resnet-worker-2", "77")
    assert (pod.node, pod.nominated_node, pod.scheduler_name, pod.priority) == ("n1", "n2", "netgang", 7)
    assert (pod.phase, pod.deleting, pod.gates) == (Phase.RUNNING, True, ("netgang.io/gang", "other"))
    assert pod.created_s == 1795168800.0


def test_defaults_of_a_bare_pod() -> None:
    """What the API server would fill in is filled in; a pod from a file is known by its name."""
    pod = read()
    assert (pod.uid, pod.namespace, pod.scheduler_name) == ("default/p", "default", "default-scheduler")
    assert (
        pod.node,
        pod.nominated_node,
        pod.phase,
        pod.priority,
        pod.deleting,
        pod.gates,
    ) == (None, None, Phase.PENDING, 0, False, ())
    assert (pod.group, pod.job, pod.index, pod.role) == (None, None, None, Role.OTHER)
    assert Phase.UNKNOWN is read(phase="Dreaming").phase


def test_null_means_absent() -> None:
    """Go writes null for what is not there, at every level."""
    nothing = dict.fromkeys(
        (
            "nodeName",
            "containers",
            "initContainers",
            "overhead",
            "resources",
            "nodeSelector",
            "affinity",
            "tolerations",
            "schedulingGates",
            "schedulingGroup",
            "priority",
            "hostNetwork",
        )
    )
    raw = {
        "metadata": {"name": "p", "creationTimestamp": None, "labels": None, "annotations": None},
        "spec": nothing,
        "status": {"phase": None, "conditions": None, "containerStatuses": None},
    }
    assert read() == pod_from_json(json.dumps(raw).encode())
    assert read() == pod_from_json(b'{"metadata": {"name": "p"}, "spec": null, "status": null}')


def test_when_a_member_got_its_node() -> None:
    """Of bound members of a group the time of PodScheduled=True is known; of plain and waiting pods it is not asked."""
    grouped = {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}
    told = [
        {"type": "Ready", "status": "False", "lastTransitionTime": "1970-01-01T00:02:00Z"},
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:01:00Z"},
    ]
    on_node = {"nodeName": "n1"}
    assert read(grouped, on_node, conditions=told).scheduled_s == 60.0
    assert read(grouped, on_node, conditions=None).scheduled_s is None
    assert read(grouped, on_node, conditions=told[:1]).scheduled_s is None
    assert read(grouped, conditions=told).scheduled_s is None
    assert read(None, on_node, conditions=told).scheduled_s is None


BROKEN = {
    # case: (what the message must hold, raw bytes)
    "no JSON": ("Pod: Input data was truncated", b'{"metadata": '),
    "empty": ("Pod: ", b""),
    "no name": ("missing required field `name` - at `$.metadata`", b'{"metadata": {}}'),
    "wrong type": (
        "Expected `str | null`, got `int` - at `$.spec.nodeName`",
        b'{"metadata": {"name": "p"}, "spec": {"nodeName": 1}}',
    ),
    "bad time": ("$.metadata.creationTimestamp", b'{"metadata": {"name": "p", "creationTimestamp": "yesterday"}}'),
    "bad selector": (
        "Pod default/p: spec.nodeSelector: ",
        b'{"metadata": {"name": "p"}, "spec": {"nodeSelector": [1]}}',
    ),
    "not UTF-8": ("Pod: ", b'{"metadata": {"name": "\xff"}}'),
}


@pytest.mark.parametrize(("told", "raw"), BROKEN.values(), ids=BROKEN)
def test_what_cannot_be_read_is_a_value_error(told: str, raw: bytes) -> None:
    """Broken input raises ValueError that names kind and field, and nothing else."""
    with pytest.raises(ValueError, match=r"^Pod") as error:
        pod_from_json(raw)
    assert told in str(error.value)


def test_constraints() -> None:
    """Selector, required affinity and tolerations are read; preferred affinity and toleration seconds are not."""
    expression = {"key": "disk", "operator": "In", "values": ["ssd", "nvme"]}
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}, {"matchFields": [field]}]}
    node_affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": required,
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}],
    }
    limits = read(
        spec={
            "nodeSelector": {"zone": "a", "arch": "amd64"},
            "affinity": {"nodeAffinity": node_affinity},
            "tolerations": [
                {"key": "k", "value": "v", "effect": "NoExecute", "tolerationSeconds": 3},
                {"operator": "Exists"},
            ],
        }
    ).member_class.constraints
    assert limits.node_selector == (("arch", "amd64"), ("zone", "a"))
    assert (
        NodeSelectorTerm(expressions=(Requirement("disk", "In", ("ssd", "nvme")),)),
        NodeSelectorTerm(fields=(Requirement("metadata.name", "In", ("n1",)),)),
    ) == limits.affinity
    assert {Toleration("k", "Equal", "v", "NoExecute"), Toleration("", "Exists", "", "")} == set(limits.tolerations)


def test_affinity_without_terms_matches_nothing() -> None:
    """Required affinity with no terms is kept apart from no required affinity."""
    asked: dict[str, Any] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
    }
    assert read(spec={"affinity": asked}).member_class.constraints.affinity == ()
    assert None is read(spec={"affinity": {"nodeAffinity": {}}}).member_class.constraints.affinity


def named(node: str, operator: str = "In", **more: Any) -> dict[str, Any]:
    """A node selector term on the node's name."""
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": [node]}]} | more


LABELLED = [{"key": "gpu", "operator": "Exists"}]
PINS: dict[str, tuple[str | None, list[dict[str, Any]]]] = {
    # case: (node, terms)
    "one name": ("n1", [named("n1")]),
    "one name and a label": ("n1", [named("n1", matchExpressions=LABELLED)]),
    "two terms, one node": ("n1", [named("n1"), named("n1")]),
    "two nodes": (None, [named("n1"), named("n2")]),
    "a node or a label": (None, [named("n1"), {"matchExpressions": LABELLED}]),
    "not in": (None, [named("n1", "NotIn")]),
    "labels only": (None, [{"matchExpressions": LABELLED}]),
    "no terms": (None, []),
}


@pytest.mark.parametrize(("node", "terms"), PINS.values(), ids=PINS)
def test_pinned_node(node: str | None, terms: list[dict[str, Any]]) -> None:
    """A pod is pinned when all its terms name the same single node by metadata.name."""
    asked = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    assert node == pinned_node(read(spec={"affinity": asked}).member_class.constraints)


def test_host_ports() -> None:
    """Containers and sidecars occupy host ports, init containers do not; defaults are TCP on every address."""
    spec = {
        "containers": [{"name": "a", "ports": [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81}]}],
        "initContainers": [
            {"name": "i", "ports": [{"containerPort": 1, "hostPort": 1}]},
            {
                "name": "s",
                "restartPolicy": "Always",
                "ports": [{"containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}],
            },
        ],
    }
    ports = read(spec=spec).member_class.constraints.host_ports
    assert (HostPort("TCP", "0.0.0.0", 8080), HostPort("UDP", "10.0.0.1", 53)) == ports
    on_host = read(spec=spec | {"hostNetwork": True}).member_class.constraints.host_ports
    assert {8080, 81, 53} == {port.port for port in on_host}


def test_options_are_our_annotations() -> None:
    """Annotations with our prefix are kept without it, sorted; a nudge is no option, and neither are others' notes."""
    annotations = {"netgang.io/near": "D", "netgang.io/zones": "D,C", NUDGE_ANNOTATION: "17", "note": "x"}
    assert read({"annotations": annotations}).options == (("near", "D"), ("zones", "D,C"))


IN_GANG = {"pod-group.scheduling.sigs.k8s.io/name": "g", "pod-group.scheduling.sigs.k8s.io/min-available": "2"}
UNMODELLED: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    # case: (names, spec)
    "nothing": ((), {"volumes": [{"name": "t", "projected": {}}], "topologySpreadConstraints": None}),
    "claim": (("persistentVolumeClaim",), {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]}),
    "ephemeral": (("ephemeral",), {"volumes": [{"name": "d", "ephemeral": {"volumeClaimTemplate": {}}}]}),
    "device": (("resourceClaims",), {"resourceClaims": [{"name": "gpu"}]}),
    "apart": (
        ("podAntiAffinity",),
        {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}, "podAffinity": {}}},
    ),
    "spread": (
        ("topologySpreadConstraints",),
        {
            "topologySpreadConstraints": [
                {"whenUnsatisfiable": "ScheduleAnyway"},
                {"whenUnsatisfiable": "DoNotSchedule"},
            ]
        },
    ),
}


@pytest.mark.parametrize(("names", "spec"), UNMODELLED.values(), ids=UNMODELLED)
def test_unmodelled_constraints(names: tuple[str, ...], spec: dict[str, Any]) -> None:
    """Fields by which kube-scheduler may refuse more than we model are shown by name, of what is ours."""
    assert names == read({"labels": IN_GANG}, spec).unmodelled
    assert read(spec=spec).unmodelled == ()


CLAIM = '0/3 nodes are available: persistentvolumeclaim "x" not found.'
VOLUME = "0/3 nodes are available: 3 node(s) had volume node affinity conflict."
TWO = "0/3 nodes are available: node(s) didn't satisfy plugin(s) [NodeAffinity VolumeBinding] simultaneously."
LONG = f"0/3 nodes are available: claim {'x' * 400}"
REFUSALS = {
    # case: (what is said, what holds whatever the node; message)
    "the claim is missing": (CLAIM, 'persistentvolumeclaim "x" not found', CLAIM),
    "and no pod to preempt": (CLAIM, 'persistentvolumeclaim "x" not found', f"{CLAIM} preemption: 0/3 nodes."),
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
    labels = {"pod-group.scheduling.sigs.k8s.io/name": "g", "pod-group.scheduling.sigs.k8s.io/min-available": "2"}
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    waits = read({"labels": labels}, conditions=[{"type": "Ready", "status": "False"}, said])
    assert (text, obstacle) == (waits.refusal, waits.obstacle)
    for other in (
        read({"labels": labels}, {"nodeName": "n1"}, conditions=[said]),
        read({"labels": labels}, {"schedulingGates": [{"name": "x"}]}, conditions=[said]),
        read(conditions=[said]),
        read({"labels": labels}, conditions=[said | {"status": "True"}]),
        read({"labels": labels}, conditions=[]),
    ):
        assert (other.refusal, other.obstacle) == ("", "")


BESIDE = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}
LINEAGES = {  # case: (namespace, gang, affinity, lineage)
    "alike in a namespace": ("team", "g", None, "team"),
    "another gang of it": ("team", "h", None, "team"),
    "another tenant's": ("other", "g", None, "other"),
    "constraints that are not modelled": ("team", "g", BESIDE, "team/g"),
}


@pytest.mark.parametrize(("namespace", "gang", "affinity", "lineage"), LINEAGES.values(), ids=LINEAGES)
def test_what_is_learned_of_nodes_stays_with_its_tenant(
    namespace: str, gang: str, affinity: dict[str, Any] | None, lineage: str
) -> None:
    """Refusals of filters that are not modelled hold in the namespace, or for one gang (docs/safety.md S27)."""
    labels = {
        "pod-group.scheduling.sigs.k8s.io/name": gang,
        "pod-group.scheduling.sigs.k8s.io/min-available": "2",
    }
    raw = {
        "metadata": {"name": "p", "namespace": namespace, "uid": "u", "labels": labels},
        "spec": {"containers": [], **({"affinity": affinity} if affinity else {})},
    }
    assert pod_from_json(json.dumps(raw).encode()).member_class.lineage == lineage
