"""Pods of an MPIJob of the mpi-operator (kubeflow.org/v2beta1, release 0.8 with `--gang-scheduling=netgang`).

The launcher is the pod of a Job of its own, and counts in the PodGroup; pods have no label for the type of replica,
and the operator overwrites the templates' scheduler. Workers that are not given are none.
"""

from typing import Final

from cli.job_manifests.manifest import Object
from cli.job_manifests.pods import (
    BATCH,
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
from cli.job_manifests.training import LABELS, REPLICAS, priority_notes, scheduling_policy
from extender.convert.pod.gang_labels import POD_GROUP_LABEL

_WAITS: Final = "WaitForWorkersReady"


def mpi_job(one: Object) -> Made:
    """Launcher, workers and PodGroup. Errors: KeyError, TypeError, ValueError, ConfigError."""
    name, spec = name_of(one), one["spec"]
    roles = {role.lower(): part for role, part in mapping(spec, REPLICAS["MPIJob"]).items()}
    worker, launcher = roles.get("worker"), roles["launcher"]
    workers = count_of(worker, "replicas", 0) if worker is not None else 0
    own = names_its_gang(part["template"] for part in roles.values())
    launch = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{name}-launcher", "namespace": one["metadata"]["namespace"]},
    }
    shown = {BATCH + "job-name": f"{name}-launcher"}
    pods = [pod_set(launch, _template(launcher, own), f"{name}-launcher", 1, _labels(one, "launcher", own) | shown)]
    if worker is not None and workers:
        alone = "-0" if workers == 1 else ""
        labels = _labels(one, "worker", own)
        pods.append(pod_set(one, _template(worker, own), f"{name}-worker{alone}", workers, labels))
    least = count_of(scheduling_policy(one), "minAvailable", workers + 1)
    notes = priority_notes(one)
    if spec.get("launcherCreationPolicy") == _WAITS and least > workers:
        notes += (
            f"{called(one)}: with launcherCreationPolicy {_WAITS} the launcher is made when the workers run, and they "
            f"wait for a gang of {least} with the launcher: neither starts; set minAvailable to {workers} or less",
        )
    return Made(tuple(pods), () if own else (pod_group(one, least),), notes)


def _template(part: Object, own: bool) -> Object:
    template: Object = part["template"]
    return template if own else {**template, "spec": {**template["spec"], "schedulerName": SCHEDULER}}


def _labels(one: Object, role: str, own: bool) -> dict[str, str]:
    name = name_of(one)
    labels = {LABELS + "operator-name": "mpi-operator", LABELS + "job-name": name, LABELS + "job-role": role}
    return labels | ({} if own else {POD_GROUP_LABEL: name})
