"""Pods of the training operator's kinds (kubeflow.org/v1, release 1.9 with `--gang-scheduler-name=netgang`).

The operator names each pod JOB-ROLE-INDEX, makes a PodGroup of the job's name, and where a template names no scheduler
it names its own. `schedulingPolicy.priorityClass` reaches no pod: PodGroups of Volcano alone have it.
"""

from collections.abc import Mapping
from typing import Final

from cli.job_manifests.manifest import Object
from cli.job_manifests.pods import (
    SCHEDULER,
    Made,
    called,
    count_of,
    mapping,
    name_of,
    names_its_gang,
    pod_group,
    pod_set,
)
from extender.convert.pod.gang_labels import POD_GROUP_LABEL

LABELS: Final = "training.kubeflow.org/"
REPLICAS: Final[Mapping[str, str]] = {  # kind → its field with the replicas of each role
    "TFJob": "tfReplicaSpecs",
    "PyTorchJob": "pytorchReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
}


def training_job(one: Object) -> Made:
    """Its PodGroup and the pods of each role. Errors: KeyError, TypeError, ValueError, ConfigError."""
    name, kind = name_of(one), one["kind"]
    roles = mapping(one, "spec", REPLICAS[kind])
    counts = {role: count_of(part, "replicas", usual_count(kind, role)) for role, part in roles.items()}
    own = names_its_gang(part["template"] for part in roles.values())
    policy = scheduling_policy(one)
    pods = []
    for role, part in roles.items():
        labels = {LABELS + "job-name": name, LABELS + "replica-type": role.lower()}
        labels |= {} if own else {POD_GROUP_LABEL: name}
        template = part["template"] if own else {**part["template"], "spec": _scheduled(part["template"]["spec"])}
        if counts[role]:
            alone = "-0" if counts[role] == 1 else ""
            pods.append(pod_set(one, template, f"{name}-{role.lower()}{alone}", counts[role], labels))
    groups = () if own else (pod_group(one, count_of(policy, "minAvailable", sum(counts.values()))),)
    return Made(tuple(pods), groups, priority_notes(one))


def usual_count(kind: str, role: str) -> int:
    """Pods of a role whose replicas are not given: one, but an MPIJob's workers are none."""
    return 0 if kind == "MPIJob" and role.lower() == "worker" else 1


def scheduling_policy(one: Object) -> Object:
    """`spec.runPolicy.schedulingPolicy`."""
    return mapping(one, "spec", "runPolicy", "schedulingPolicy")


def priority_notes(one: Object) -> tuple[str, ...]:
    """What to say of a priority class that the operator gives to no pod."""
    named = scheduling_policy(one).get("priorityClass")
    if not named:
        return ()
    return (
        f"{called(one)}: schedulingPolicy.priorityClass {named} reaches no pod and counts for nothing; set "
        "priorityClassName in the pod templates",
    )


def _scheduled(spec: Object) -> Object:
    return {**spec, "schedulerName": spec.get("schedulerName") or SCHEDULER}
