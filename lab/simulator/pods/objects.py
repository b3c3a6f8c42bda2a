"""The Kubernetes objects of a scenario: nodes, training jobs and their pods, in JSON as the API server shows them.

Rules: a job is a TFJob with parameter servers and workers, because that is a kind that the service also resizes; its
gang is said in one of two dialects; quantities are written so that reading them gives the scenario's numbers back.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from lab.simulator.apiserver.store import Object
from lab.simulator.model import SimJob
from scoring.model import GATE, Node, Role
from scoring.model.resources import CPU, Resources

ZONE_LABEL = "topology.kubernetes.io/zone"
GROUP_NAME = "pod-group.scheduling.sigs.k8s.io/name"
MIN_AVAILABLE = "pod-group.scheduling.sigs.k8s.io/min-available"
POD_GROUP = "scheduling.x-k8s.io/pod-group"
JOB_NAME = "training.kubeflow.org/job-name"
_ROLE = "training.kubeflow.org/replica-type"
_INDEX = "training.kubeflow.org/replica-index"
_API_VERSION = "kubeflow.org/v1"
_EVERYTHING = [{"operator": "Exists"}]


class Dialect(StrEnum):
    """How pods say which gang they belong to."""

    LABELS = "labels"
    """Name and minimum in two pod labels."""
    POD_GROUP = "pod-group"
    """A label that names a PodGroup, which has the minimum."""
    NONE = "none"
    """They say nothing: pods of a job without a gang."""


def quantities(amounts: Resources) -> dict[str, str]:
    """Kubernetes quantities of amounts.

    >>> quantities(Resources.parse({"cpu": "1500m", "memory": "2Ki"}))
    {'cpu': '1500m', 'memory': '2048'}
    """
    return {str(name): f"{value}m" if name == CPU else str(value) for name, value in amounts}


def node_object(node: Node) -> Object:
    """A v1.Node."""
    labels = dict(node.labels)
    if node.zone:
        labels[ZONE_LABEL] = str(node.zone)
    room = quantities(node.allocatable)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": str(node.name), "labels": labels, "annotations": dict(node.annotations)},
        "spec": {
            "unschedulable": node.unschedulable,
            "taints": [{"key": one.key, "value": one.value, "effect": one.effect} for one in node.taints],
        },
        "status": {
            "allocatable": room,
            "capacity": room,
            "conditions": [{"type": "Ready", "status": "True" if node.ready else "Unknown"}],
            "addresses": [{"type": "InternalIP", "address": one} for one in node.addresses],
        },
    }


def job_object(job: SimJob, *, elastic: bool) -> Object:
    """A TFJob; an `elastic` one says between which counts it may be resized."""
    annotations = {}
    if elastic:
        most = job.max_workers if job.max_workers is not None else job.workers
        annotations = {"netgang.io/min-workers": str(job.min_workers), "netgang.io/max-workers": str(most)}
    roles: dict[str, Any] = {"Worker": {"replicas": job.workers, "restartPolicy": "ExitCode"}}
    if job.ps_count:
        roles["PS"] = {"replicas": job.ps_count, "restartPolicy": "Never"}
    return {
        "apiVersion": _API_VERSION,
        "kind": "TFJob",
        "metadata": {"name": job.name, "namespace": job.namespace, "annotations": annotations},
        "spec": {
            "enableDynamicWorker": True,
            "runPolicy": {"schedulingPolicy": {"minAvailable": job.min_pods}},
            "tfReplicaSpecs": roles,
        },
    }


def workers_of(tf_job: Object) -> int:
    """How many workers the TFJob asks for now."""
    return int(tf_job["spec"]["tfReplicaSpecs"]["Worker"]["replicas"])


def is_suspended(tf_job: Object) -> bool:
    """Whether it is to have no pods for the time being."""
    return bool(tf_job["spec"]["runPolicy"].get("suspend"))


def group_object(job: SimJob) -> Object:
    """The coscheduling PodGroup of a job."""
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": job.name, "namespace": job.namespace},
        "spec": {"minMember": job.min_pods},
    }


def member_name(job: SimJob, role: Role, index: int) -> str:
    """What the job's operator calls a pod."""
    return f"{job.name}-{role}-{index}"


def member_object(
    job: SimJob, uid: str, role: Role, index: int, *, scheduler: str, dialect: Dialect, gated: bool
) -> Object:
    """A pod of the job, whose object has this `uid`."""
    marks: Mapping[Dialect, dict[str, str]] = {
        Dialect.LABELS: {GROUP_NAME: job.name, MIN_AVAILABLE: str(job.min_pods)},
        Dialect.POD_GROUP: {POD_GROUP: job.name},
        Dialect.NONE: {},
    }
    spec: dict[str, Any] = {
        "schedulerName": scheduler,
        "priority": job.priority,
        "tolerations": _EVERYTHING,
        "containers": [
            {"name": "main", "resources": {"requests": quantities(job.ps if role is Role.PS else job.worker)}}
        ],
    }
    if gated:
        spec["schedulingGates"] = [{"name": GATE}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": member_name(job, role, index),
            "namespace": job.namespace,
            "labels": {**marks[dialect], JOB_NAME: job.name, _ROLE: str(role), _INDEX: str(index)},
            "annotations": {"netgang.io/zones": ",".join(job.zones)} if job.zones else {},
            "ownerReferences": [
                {"apiVersion": _API_VERSION, "kind": "TFJob", "name": job.name, "uid": uid, "controller": True}
            ],
        },
        "spec": spec,
        "status": {"phase": "Pending"},
    }
