"""The pods and PodGroups that controllers would make of a manifest: a change for `netgang what-if -f`.

Rule: names, labels, minimum and PodGroups are those of the controllers' sources (which releases: in each kind's
module). A kind whose pods are not known here is refused: an answer about half a job would be wrong.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from cli.job_manifests import batch
from cli.job_manifests.job_set import job_set
from cli.job_manifests.manifest import Object
from cli.job_manifests.mpi import mpi_job
from cli.job_manifests.pods import Made, called, mapping, name_of
from cli.job_manifests.runtimes import ELSEWHERE_NONE, RUNTIME_KINDS, Elsewhere, runtime_of
from cli.job_manifests.train_job import train_job
from cli.job_manifests.training import REPLICAS, training_job
from extender.errors import ConfigError

Maker: TypeAlias = Callable[[Object], Made]
_TRAIN_JOB: Final = "TrainJob"
_MAKERS: Final[Mapping[str, tuple[str, Maker]]] = {  # kind → its API group, and what its controller makes of one
    "Pod": ("", batch.pod),
    "Job": ("batch", batch.job),
    **dict.fromkeys(REPLICAS, ("kubeflow.org", training_job)),
    "JobSet": ("jobset.x-k8s.io", job_set),
}
READ: Final = (*_MAKERS, _TRAIN_JOB)
"""Kinds whose pods are known, beside PodGroup"""
_NO_PODS: Final = frozenset(
    (
        *("Namespace", "Service", "ConfigMap", "Secret", "ServiceAccount", "PriorityClass", "PersistentVolumeClaim"),
        *("PersistentVolume", "Role", "RoleBinding", "NetworkPolicy", "PodDisruptionBudget", "Workload"),
        *RUNTIME_KINDS,
    )
)


def add_job(
    objects: Iterable[Object], *, namespace: str, priority: int | None = None, elsewhere: Elsewhere = ELSEWHERE_NONE
) -> tuple[Object, list[str]]:
    """The change of `/v1/what-if` that submits them, and notes on what is not known or would not start.

    `namespace` is that of objects that name none; `priority` that of pods whose class is not in the manifest;
    `elsewhere` has the runtimes of TrainJobs that are not in it. Errors: ConfigError names the kind and the object.
    """
    listed = [{**one, "metadata": {"namespace": namespace, **mapping(one, "metadata")}} for one in objects]
    made = [_made(one, listed, elsewhere) for one in listed if one["kind"] not in _NO_PODS]
    sets = [one for each in made for one in each.pods]
    groups = [one for each in made for one in each.pod_groups]
    notes = {note for each in made for note in each.notes}
    classes = {name_of(one): one.get("value", 0) for one in listed if one["kind"] == "PriorityClass"}
    for spec in (one["pod"]["spec"] for one in sets):
        named = spec.pop("priorityClassName", None)
        if named is not None and "priority" not in spec:
            value = classes.get(str(named), priority)
            spec["priority"] = value or 0
            if value is None:
                notes.add(f"the value of PriorityClass {named} is not known here and counts as 0; give --priority")
    if not sets:
        raise ConfigError(f"the manifest has no pods: {', '.join(READ)} are read")
    return {"change": "add-job", "pods": sets, "pod_groups": groups}, sorted(notes)


def _made(one: Object, listed: Iterable[Object], elsewhere: Elsewhere) -> Made:
    try:
        if one["kind"] == "PodGroup":
            return batch.pod_group_itself(one)
        if one["kind"] == _TRAIN_JOB:
            return train_job(one, runtime_of(one, listed, elsewhere))
        group, maker = _MAKERS.get(one["kind"], ("", None))
        version = one.get("apiVersion")
        if maker is None or (version is not None and str(version).rpartition("/")[0] != group):
            kinds = ", ".join(READ)
            raise ConfigError(f"{called(one)}: this kind{_of(version)} is not read, but {kinds}; give its pods as Pods")
        return mpi_job(one) if one["kind"] == "MPIJob" and version != "kubeflow.org/v1" else maker(one)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ConfigError(f"{called(one)}: not as its kind is written: {error}") from error


def _of(version: object) -> str:
    return f" of {version}" if version is not None else ""
