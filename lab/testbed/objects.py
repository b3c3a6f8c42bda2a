"""One-line Kubernetes objects for tests and the demo: what is not said has the plainest value.

Why: a scenario should show the numbers that matter and nothing else.
Rule: builders return fresh dicts that the API server accepts as they are; both ways of naming a gang are built from
the same arguments, so a test can run over both.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from lab.testbed.api import Object

ZONE_LABEL = "topology.kubernetes.io/zone"
HOST_LABEL = "kubernetes.io/hostname"
GROUP_NAME_LABEL = "pod-group.scheduling.sigs.k8s.io/name"
MIN_AVAILABLE_LABEL = "pod-group.scheduling.sigs.k8s.io/min-available"
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
_IMAGE = "registry.invalid/trainer:1"  # never pulled: kwok runs no containers


class GangDialect(StrEnum):
    """How pods say which gang they belong to."""

    LABELS = "labels"
    """Name and minimum in two pod labels."""
    POD_GROUP = "pod-group"
    """A label that names a PodGroup object, which holds the minimum."""


def namespace(name: str) -> Object:
    """A namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def restricted(one: Object) -> Object:
    """A pod as Pod Security's level `restricted` wants it."""
    closed = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    containers = [{**container, "securityContext": closed} for container in one["spec"]["containers"]]
    user = {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
    return {**one, "spec": {**one["spec"], "containers": containers, "securityContext": user}}


def priority_class(name: str, value: int) -> Object:
    """A priority class without the right to be the default."""
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**kind, "metadata": {"name": name}, "value": value, "globalDefault": False}


def node(
    name: str,
    *,
    cpu: str = "8",
    memory: str = "32Gi",
    gpu: int = 0,
    zone: str = "",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
) -> Object:
    """A Ready node; without `zone` it has no zone label, without `gpu` no such resource."""
    room = {"cpu": cpu, "memory": memory, "pods": str(pods), **_gpus(gpu)}
    marks = {HOST_LABEL: name, **({ZONE_LABEL: zone} if zone else {}), **(labels or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": marks},
        "status": {
            "capacity": room,
            "allocatable": dict(room),
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}],
        },
    }


def pod(
    name: str,
    *,
    namespace: str = "default",
    cpu: str = "1",
    memory: str = "64Mi",
    gpu: int = 0,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    scheduler: str = "default-scheduler",
    node_selector: Mapping[str, str] | None = None,
    priority_class: str = "",
    gates: Sequence[str] = (),
) -> Object:
    """A pod with one container that asks for `cpu`, `memory` and `gpu`, and tolerates every taint.

    It tolerates everything because without a node lifecycle controller nothing removes taints from new nodes.
    """
    resources = {"requests": {"cpu": cpu, "memory": memory, **_gpus(gpu)}, "limits": _gpus(gpu)}
    spec: Object = {
        "schedulerName": scheduler,
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "main", "image": _IMAGE, "resources": resources}],
    }
    if node_selector:
        spec["nodeSelector"] = dict(node_selector)
    if priority_class:
        spec["priorityClassName"] = priority_class
    if gates:
        spec["schedulingGates"] = [{"name": gate} for gate in gates]
    marks = {"labels": dict(labels or {}), "annotations": dict(annotations or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, **marks},
        "spec": spec,
    }


def pod_group(name: str, min_member: int, *, namespace: str = "default") -> Object:
    """A PodGroup of scheduling.x-k8s.io; needs the definition from `podgroup-crd`."""
    kind = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
    return {**kind, "metadata": {"name": name, "namespace": namespace}, "spec": {"minMember": min_member}}


def gang_labels(name: str, min_available: int, *, dialect: GangDialect = GangDialect.LABELS) -> dict[str, str]:
    """The pod labels that make a pod a member of gang `name`.

    >>> gang_labels("job", 3, dialect=GangDialect.POD_GROUP)
    {'scheduling.x-k8s.io/pod-group': 'job'}
    """
    if dialect is GangDialect.POD_GROUP:
        return {POD_GROUP_LABEL: name}
    return {GROUP_NAME_LABEL: name, MIN_AVAILABLE_LABEL: str(min_available)}


def role_labels(job: str, role: str, index: int) -> dict[str, str]:
    """What Kubeflow's training operator writes on the pod of `role` (ps, worker, chief, …) and `index`."""
    said = {"job-name": job, "replica-type": role, "replica-index": str(index)}
    return {f"training.kubeflow.org/{name}": value for name, value in said.items()}


def gang_pods(
    name: str,
    size: int,
    *,
    min_available: int,
    dialect: GangDialect = GangDialect.LABELS,
    first: int = 0,
    **of_each: Any,
) -> list[Object]:
    """Pods `NAME-worker-0…` of one gang, alike (see `pod`); `first` continues the numbers of an earlier call."""
    marks = gang_labels(name, min_available, dialect=dialect)
    return [
        pod(f"{name}-worker-{index}", labels={**marks, **role_labels(name, "worker", index)}, **of_each)
        for index in range(first, first + size)
    ]


def training_job(
    name: str, *, workers: int, worker_gpu: int, namespace: str = "default", scheduler: str = "default-scheduler"
) -> list[Object]:
    """A parameter server without GPUs, then workers with GPUs, all of them a gang."""
    marks = gang_labels(name, 1 + workers)
    how: dict[str, Any] = {"namespace": namespace, "scheduler": scheduler}
    members = [("ps", 0, 0), *(("worker", index, worker_gpu) for index in range(workers))]
    return [
        pod(f"{name}-{role}-{index}", gpu=gpu, labels={**marks, **role_labels(name, role, index)}, **how)
        for role, index, gpu in members
    ]


def zone_nodes(
    zones: Mapping[str, int], *, cpu: str = "8", memory: str = "32Gi", gpu: int = 0, prefix: str = "node"
) -> list[Object]:
    """Nodes numbered through from 1 over the zones, as in the paper's test bed: {"A": 9, …, "D": 9}.

    >>> [one["metadata"]["name"] for one in zone_nodes({"A": 1, "B": 2})]
    ['node1', 'node2', 'node3']
    """
    places = [zone for zone, count in zones.items() for _ in range(count)]
    return [
        node(f"{prefix}{number}", cpu=cpu, memory=memory, gpu=gpu, zone=zone)
        for number, zone in enumerate(places, start=1)
    ]


def _gpus(count: int) -> dict[str, str]:
    return {"nvidia.com/gpu": str(count)} if count else {}
