"""Job, role and index from the labels of job controllers."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from extender.convert import pod_from_json
from extender.convert.decode import OwnerReference
from extender.convert.pod import NO_PLACE, membership, run_of
from scoring import JobKey
from scoring.model import Role, RunRef
from scoring.model.policy import Policy, gang_options

BATCH = "batch.kubernetes.io/"
JOB, COMPLETION = BATCH + "job-name", BATCH + "job-completion-index"


def keys(prefix: str, **always: str) -> Callable[..., dict[str, str]]:
    """Labels with this prefix; keyword `job_name` is label `job-name`."""
    return lambda **words: {prefix + key.replace("_", "-"): value for key, value in (always | words).items()}


kubeflow = keys("training.kubeflow.org/", job_name="j")
volcano = keys("volcano.sh/")
lws = keys("leaderworkerset.sigs.k8s.io/")


def jobset(role: str, replicas: str, **labels: str) -> dict[str, str]:
    named = keys("jobset.sigs.k8s.io/", jobset_name="j", replicatedjob_name=role, replicatedjob_replicas=replicas)
    return named(**labels)


OWN = {"netgang.io/role": "ps", "netgang.io/index": "9"}
FRAMEWORKS = {  # case: ((role, index), labels, annotations); the job is ns/j in all of them
    "TFJob ps": ((Role.PS, 0), kubeflow(replica_type="ps", replica_index="0"), {}),
    "TFJob chief": ((Role.CHIEF, 0), kubeflow(replica_type="chief", replica_index="0", job_role="master"), {}),
    "TFJob worker 0": ((Role.WORKER, 0), kubeflow(replica_type="worker", replica_index="0", job_role="master"), {}),
    "TFJob evaluator": ((Role.OTHER, 0), kubeflow(replica_type="evaluator", replica_index="0"), {}),
    "PyTorchJob master": ((Role.CHIEF, 0), kubeflow(replica_type="master", replica_index="0"), {}),
    "role in capitals": ((Role.WORKER, 3), kubeflow(replica_type="Worker", replica_index="3"), {}),
    "MPIJob v1 launcher": ((Role.CHIEF, None), kubeflow(replica_type="launcher"), {}),
    "MPIJob v2 launcher": ((Role.CHIEF, None), kubeflow(job_role="launcher") | {JOB: "j-launcher"}, {}),
    "MPIJob v2 worker": ((Role.WORKER, 1), kubeflow(job_role="worker", replica_index="1"), {}),
    "Volcano task": ((Role.PS, 2), volcano(job_name="j", task_spec="ps", task_index="2"), {}),
    "Volcano task by annotation": ((Role.WORKER, None), volcano(job_name="j"), volcano(task_spec="train")),
    "Indexed Job": ((Role.WORKER, 5), {JOB: "j", COMPLETION: "5"}, {}),
    "Indexed Job of an old cluster": ((Role.WORKER, 5), {"job-name": "j"}, {COMPLETION: "5"}),
    "Job": ((Role.WORKER, None), {JOB: "j"}, {}),
    "JobSet with one Job": (
        (Role.WORKER, 7),
        jobset("node", "1", job_global_index="2") | {JOB: "x", COMPLETION: "7"},
        {},
    ),
    "JobSet, many": ((Role.WORKER, 200_001), jobset("node", "4", job_global_index="2") | {COMPLETION: "1"}, {}),
    "JobSet initialiser": ((Role.OTHER, 0), jobset("dataset-initializer", replicas="1"), {COMPLETION: "0"}),
    "leader": ((Role.CHIEF, 8), lws(name="j", group_index="2", worker_index="0"), lws(size="4")),
    "worker of a leader": ((Role.WORKER, 11), lws(name="j", group_index="2", worker_index="3"), lws(size="4")),
    "worker without index": ((Role.WORKER, None), lws(name="j"), {}),
    "Ray head": ((Role.CHIEF, None), {"ray.io/cluster": "j", "ray.io/node-type": "head"}, {}),
    "Ray worker": ((Role.WORKER, None), {"ray.io/cluster": "j", "ray.io/node-type": "worker"}, {}),
    "index not a number": ((Role.WORKER, None), kubeflow(replica_type="worker", replica_index="first"), {}),
    "own annotations override": ((Role.PS, 9), kubeflow(replica_type="worker", replica_index="1"), OWN),
}


@pytest.mark.parametrize(("want", "labels", "annotations"), FRAMEWORKS.values(), ids=FRAMEWORKS)
def test_frameworks(want: tuple[Role, int | None], labels: dict[str, str], annotations: dict[str, str]) -> None:
    role, job, index = membership("ns", labels, annotations)
    assert (*want, "ns/j") == (role, index, job)


def test_unknown_controller() -> None:
    """Pods of a controller of unknown kind are workers of a job when they form a gang, else plain pods."""
    owners = [OwnerReference(kind="Note", name="x"), OwnerReference(kind="StatefulSet", name="s", controller=True)]
    labels = {"apps.kubernetes.io/pod-index": "4"}
    assert membership("ns", labels, {}, owners) == NO_PLACE
    assert membership("ns", labels, {}, owners, in_gang=True) == (Role.WORKER, JobKey("ns/s"), 4)
    assert membership("ns", {}, {}, [OwnerReference(kind="Node", name="n", controller=True)], in_gang=True) == NO_PLACE


def test_wrong_own_annotations_are_reported() -> None:
    def read(**annotations: str) -> Any:
        metadata = {"name": "p", "labels": kubeflow(replica_type="worker", replica_index="1")}
        metadata["annotations"] = {f"netgang.io/{name}": value for name, value in annotations.items()}
        return pod_from_json(json.dumps({"metadata": metadata}).encode())

    wrong = read(role="boss", index="-2")
    assert (wrong.role, wrong.index) == (Role.WORKER, 1)
    problems = gang_options(dict(wrong.options), Policy()).problems
    assert [text.split(":")[0] for text in problems] == ["netgang.io/index", "netgang.io/role"]
    right = read(role="chief", index="2")
    assert (right.role, right.index, right.options) == (Role.CHIEF, 2, ())


def controller(api_version: str, kind: str, name: str) -> OwnerReference:
    return OwnerReference(api_version=api_version, kind=kind, name=name, uid=f"uid-{name}", controller=True)


FAMILY, IN_SET = "training.kubeflow.org/", {"jobset.sigs.k8s.io/jobset-uid": "set"}
TF, MPI = kubeflow(operator_name="tfjob-controller"), kubeflow(operator_name="mpi-operator") | {JOB: "m"}
LAUNCHER = [controller("batch/v1", "Job", "m")]
RUNS = {  # case: (labels, owners, the object whose pods are its run)
    "a Job": ({}, [controller("batch/v1", "Job", "j")], RunRef("uid-j", "Job.batch", "j")),
    "a Job of a JobSet": (IN_SET, [controller("batch/v1", "Job", "s-0")], RunRef("uid-s-0", "Job.batch", "s-0", "set")),
    "a TFJob": (TF, [controller("kubeflow.org/v1", "TFJob", "j")], RunRef("uid-j", FAMILY + "tfjob-controller", "j")),
    "an MPIJob's launcher is of the MPIJob's family": (MPI, LAUNCHER, RunRef("uid-m", FAMILY + "mpi-operator", "m")),
    "a pod's pod": ({}, [controller("v1", "Pod", "driver")], RunRef("uid-driver", "Pod", "driver")),
    "left by a Job": ({BATCH + "controller-uid": "gone", JOB: "j"}, [], RunRef("gone", "Job.batch", "j")),
    "a ReplicaSet has no runs": ({BATCH + "controller-uid": "x"}, [controller("apps/v1", "ReplicaSet", "r")], None),
    "a ReplicationController neither": ({}, [controller("v1", "ReplicationController", "r")], None),
    "no controller": ({}, [OwnerReference(api_version="v1", kind="ConfigMap", name="c", uid="u")], None),
    "no owner": ({}, [], None),
}


@pytest.mark.parametrize(("labels", "owners", "want"), RUNS.values(), ids=RUNS)
def test_which_run_a_pod_is_of(labels: dict[str, str], owners: list[OwnerReference], want: RunRef | None) -> None:
    """By its controller, or what its labels still say of it (docs/safety.md S23)."""
    assert run_of(labels, owners) == want


def test_texts_of_owners_are_bounded() -> None:
    """An ownerReference may hold any text; no more of it is kept than a name may have (docs/safety.md S21)."""
    found = run_of({}, [controller("example.com/" + "v" * 9999, "K" * 9999, "n" * 9999)])
    assert found is not None
    assert max(len(found.uid), len(found.kind), len(found.name)) <= 253
