"""Pods of a JobSet (jobset.x-k8s.io, release 0.12): those of all Jobs of all its replicated Jobs.

JobSet makes no PodGroups: the templates name the gang and the scheduler. Jobs of one replicated Job differ in their
numbers alone, so that their pods are one set. A replicated Job that waits for another is said in a note, because a
gang that counts its pods would wait without end.
"""

from collections.abc import Iterable
from typing import Final

from cli.job_manifests.batch import parallel
from cli.job_manifests.manifest import Object
from cli.job_manifests.pods import BATCH, Made, called, count_of, mapping, name_of, pod_set
from extender.errors import ConfigError

_LABELS: Final = "jobset.sigs.k8s.io/"
_EXCLUSIVE: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"


def job_set(one: Object) -> Made:
    """Its pods. Errors: KeyError, TypeError, ValueError, ConfigError."""
    listed = one["spec"]["replicatedJobs"]
    sets = [made for part in listed if (made := _pods(one, part)) is not None]
    if not sets:
        raise ConfigError(f"{called(one)}: it makes no pods: 0 replicas")
    return Made(tuple(sets), (), (*waiting_notes(one, listed), *_exclusive_notes(one, listed)))


def _pods(one: Object, part: Object) -> Object | None:
    name, kind = name_of(one), part["name"]
    spec, replicas = part["template"]["spec"], count_of(part, "replicas", 1)
    count, inside = replicas * parallel(spec), f"{name}-{kind}-0"
    if not count:
        return None
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": inside, "namespace": one["metadata"]["namespace"]},
    }
    labels = {
        _LABELS + "jobset-name": name,
        _LABELS + "jobset-uid": "what-if",
        _LABELS + "replicatedjob-name": kind,
        _LABELS + "replicatedjob-replicas": str(replicas),
        BATCH + "job-name": inside,
    }
    shown = f"{name}-{kind}" if replicas > 1 else inside
    return pod_set(owner, spec["template"], f"{shown}-0" if count == 1 else shown, count, labels)


def waiting_notes(one: Object, listed: Iterable[Object]) -> tuple[str, ...]:
    """Which replicated Jobs begin only when others are ready or done."""
    if mapping(one, "spec", "startupPolicy").get("startupPolicyOrder") == "InOrder":
        return (f"{called(one)}: with startupPolicy InOrder its Jobs are made one after the other{_ENDLESS}",)
    return tuple(
        f"{called(one)}: {part['name']} is made when {_all(part['dependsOn'])}{_ENDLESS}"
        for part in listed
        if part.get("dependsOn")
    )


_ENDLESS: Final = "; a gang that needs pods of a later one waits without end"


def _all(listed: Iterable[Object]) -> str:
    return " and ".join(f"{one['name']} is {one.get('status', 'Ready')}" for one in listed)


def _exclusive_notes(one: Object, listed: Iterable[Object]) -> tuple[str, ...]:
    marked = [one["metadata"], *(mapping(part, "template", "metadata") for part in listed)]
    if not any(_EXCLUSIVE in mapping(each, "annotations") for each in marked):
        return ()
    return (f"{called(one)}: {_EXCLUSIVE} is not looked at: JobSet adds affinity to its pods",)
