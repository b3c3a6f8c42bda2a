"""What each kind of job says of itself, and the patch that gives it another worker count."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from extender.controllers.elastic.kinds import (
    KINDS,
    LAST_CHANGE,
    MAX_WORKERS,
    MIN_WORKERS,
    SCALING,
    Intent,
    NotNow,
    Requester,
    Seen,
    Unsafe,
    read,
    resize_patch,
)
from scoring import GangKey
from scoring.scaling.job import Wants
from tests.fakes.notes import notes_of_a_former_process

NOTES = notes_of_a_former_process()
INTENT = Intent(6, 3, 9.0, Requester.QUEUE, "room for a/heavy", GangKey("a/heavy"), 6, 6, (9.0,))


def job(
    kind: str, spec: Mapping[str, Any], *, annotations: Mapping[str, str] = {}, status: Any = None, **metadata: Any
) -> bytes:
    own = {"name": "low", "namespace": "a", "uid": "u1", "resourceVersion": "7", "annotations": annotations}
    named = {"apiVersion": KINDS[kind].api_version, "kind": KINDS[kind].kind, "metadata": {**own, **metadata}}
    return json.dumps({**named, "spec": spec, "status": status or {}}).encode()


def tf(*, specs: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A TFJob's spec: one ps and six workers that may come and go, three pods at least."""
    replicas = {"PS": {"replicas": 1}, "Worker": {"replicas": 6, "restartPolicy": "OnFailure"}}
    policy = {"schedulingPolicy": {"minAvailable": 3}}
    return {"enableDynamicWorker": True, "tfReplicaSpecs": specs or replicas, "runPolicy": policy, **more}


def torch(**more: Any) -> dict[str, Any]:
    policy = {"minReplicas": 2, "maxReplicas": 8}
    return {"elasticPolicy": policy, "pytorchReplicaSpecs": {"Worker": {"replicas": 6}}, **more}


def indexed(workers: int = 6, *, labels: Mapping[str, str] | None = None, **more: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": dict(labels or {})}}
    counts = {"parallelism": workers, "completions": workers}
    return {"completionMode": "Indexed", **counts, "template": template, **more}


def job_set(*parts: tuple[str, int], **more: Any) -> dict[str, Any]:
    jobs = [{"name": name, "replicas": 1, "template": {"spec": indexed(workers)}} for name, workers in parts]
    return {"replicatedJobs": jobs, **more}


LEAST_2 = {"schedulingPolicy": {"minAvailable": 2}}
LABELLED = {"pod-group.scheduling.sigs.k8s.io/min-available": "3"}
TF, TORCH, JOB, SET = "TFJob.kubeflow.org", "PyTorchJob.kubeflow.org", "Job.batch", "JobSet.jobset.x-k8s.io"
MPI = "MPIJob.kubeflow.org"

COUNTS = {  # case: ((workers, least, most), job)
    "TFJob": ((6, 2, None), job(TF, tf())),
    "TFJob, roles in other letters": (
        (4, None, None), job(TF, {"tfReplicaSpecs": {"ps": {"replicas": 2}, "WORKER": {"replicas": 4}}}),
    ),
    "TFJob, replicas missing": ((1, None, None), job(TF, {"tfReplicaSpecs": {"PS": {}, "Worker": {}}})),
    "TFJob, minAvailable is ps alone": (
        (6, None, None), job(TF, tf(runPolicy={"schedulingPolicy": {"minAvailable": 1}})),
    ),
    "TFJob, own minimum first": ((6, 4, 9), job(TF, tf(), annotations={MIN_WORKERS: "4", MAX_WORKERS: "9"})),
    "PyTorchJob": ((6, 2, 8), job(TORCH, torch())),
    "PyTorchJob, own maximum first": ((6, 2, 7), job(TORCH, torch(), annotations={MAX_WORKERS: "7"})),
    "MPIJob infers nothing": (
        (5, None, None), job(MPI, {"mpiReplicaSpecs": {"Worker": {"replicas": 5}}, "runPolicy": LEAST_2}),
    ),
    "MPIJob": (
        (5, 2, None),
        job(MPI, {"mpiReplicaSpecs": {"Launcher": {}, "Worker": {"replicas": 5}}}, annotations={MIN_WORKERS: "2"}),
    ),
    "Job": ((6, 2, None), job(JOB, indexed(), annotations={MIN_WORKERS: "2"})),
    "Job, the pods' label says nothing": ((6, None, None), job(JOB, indexed(labels=LABELLED))),
    "Job, never below the pods' label": (
        (6, 3, None), job(JOB, indexed(labels=LABELLED), annotations={MIN_WORKERS: "2"}),
    ),
    "Job, Kueue's minimum says nothing": (
        (6, None, None), job(JOB, indexed(), annotations={"kueue.x-k8s.io/job-min-parallelism": "5"}),
    ),
    "JobSet": (
        (4, 2, None),
        job(SET, job_set(("driver", 1), ("node", 4)), annotations={MIN_WORKERS: "2", "netgang.io/fixed": "driver"}),
    ),
}  # fmt: skip


def kind_of(raw: bytes) -> str:
    found = json.loads(raw)
    return f"{found['kind']}.{found['apiVersion'].partition('/')[0]}"


def seen(raw: bytes) -> Seen:
    return read(KINDS[kind_of(raw)], raw, notes=NOTES)


@pytest.mark.parametrize(("want", "raw"), COUNTS.values(), ids=COUNTS)
def test_counts(want: tuple[int, int | None, int | None], raw: bytes) -> None:
    """Workers and bounds are read where each kind writes them, and nothing is guessed."""
    found = seen(raw)
    assert want == (found.workers, found.bounds.least, found.bounds.most)


SAFE = {  # case: (reason, job)
    "TFJob": (None, job(TF, tf())),
    "TFJob, not dynamic": (Unsafe.STATIC_WORKERS, job(TF, tf(enableDynamicWorker=False))),
    "TFJob with a chief": (Unsafe.CHIEF, job(TF, tf(specs={"Chief": {}, "Worker": {"restartPolicy": "OnFailure"}}))),
    "TFJob, workers never restart": (Unsafe.NEVER_RESTARTS, job(TF, tf(specs={"Worker": {"replicas": 3}}))),
    "TFJob of another manager": (Unsafe.MANAGED, job(TF, tf(runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"}))),
    "TFJob of Kueue": (Unsafe.QUEUED, job(TF, tf(), labels={"kueue.x-k8s.io/queue-name": "q"})),
    "PyTorchJob": (None, job(TORCH, torch())),
    "PyTorchJob, not elastic": (Unsafe.NO_ELASTIC_POLICY, job(TORCH, {"pytorchReplicaSpecs": {"Worker": {}}})),
    "PyTorchJob with Master": (Unsafe.MASTER, job(TORCH, torch(pytorchReplicaSpecs={"Master": {}, "Worker": {}}))),
    "PyTorchJob with metrics": (Unsafe.AUTOSCALED, job(TORCH, torch(elasticPolicy={"metrics": [{}]}))),
    "MPIJob": (None, job(MPI, {"mpiReplicaSpecs": {"Launcher": {}, "Worker": {}}})),
    "MPIJob, launcher works": (
        Unsafe.LAUNCHER_WORKS, job(MPI, {"runLauncherAsWorker": True, "mpiReplicaSpecs": {"Worker": {}}}),
    ),
    "Job": (None, job(JOB, indexed())),
    "Job of Kueue, by its pods": (Unsafe.QUEUED, job(JOB, indexed(labels={"kueue.x-k8s.io/podset": "main"}))),
    "Job without indexes": (Unsafe.NOT_INDEXED, job(JOB, {"parallelism": 3})),
    "Job, more to do than at once": (Unsafe.UNEQUAL, job(JOB, indexed(completions=9))),
    "Job of a JobSet": (Unsafe.CONTROLLED, job(JOB, indexed(), ownerReferences=[{"controller": True}])),
    "JobSet": (None, job(SET, job_set(("node", 4)))),
    "JobSet, which are workers?": (Unsafe.SEVERAL_WORKER_JOBS, job(SET, job_set(("a", 4), ("b", 4)))),
    "bounds that are no numbers": (Unsafe.BAD_BOUNDS, job(JOB, indexed(), annotations={MIN_WORKERS: "two"})),
    "bounds that cross": (Unsafe.BAD_BOUNDS, job(JOB, indexed(), annotations={MIN_WORKERS: "5", MAX_WORKERS: "4"})),
}  # fmt: skip


@pytest.mark.parametrize(("want", "raw"), SAFE.values(), ids=SAFE)
def test_safety(want: Unsafe | None, raw: bytes) -> None:
    """A job is safe to resize, or one constant text says why it is not."""
    assert want == seen(raw).unsafe


def held(*types: str) -> dict[str, Any]:
    return {"conditions": [{"type": one, "status": "True"} for one in types]}


STATES = {  # case: (state, job)
    "TFJob runs": (None, job(TF, tf(), status=held("Created", "Running"))),
    "TFJob restarts": (NotNow.RESTARTING, job(TF, tf(), status=held("Restarting"))),
    "TFJob failed": (NotNow.ENDED, job(TF, tf(), status=held("Failed"))),
    "TFJob suspended": (NotNow.SUSPENDED, job(TF, tf(runPolicy={"suspend": True}))),
    "TFJob deleted": (NotNow.DELETED, job(TF, tf(), deletionTimestamp="2026-01-01T00:00:00Z")),
    "Job ended": (NotNow.ENDED, job(JOB, indexed(), status=held("Complete"))),
    "Job suspended": (NotNow.SUSPENDED, job(JOB, indexed(suspend=True))),
    "Job that its controller has yet to resume": (NotNow.SUSPENDED, job(JOB, indexed(), status=held("Suspended"))),
    "JobSet ended": (NotNow.ENDED, job(SET, job_set(("node", 2)), status=held("Completed"))),
}


@pytest.mark.parametrize(("want", "raw"), STATES.values(), ids=STATES)
def test_states(want: NotNow | None, raw: bytes) -> None:
    """Whether a job runs is read from its conditions and switches."""
    assert want == seen(raw).rests


PATCHES = {  # case: (spec of the patch, job)
    "TFJob": ({"tfReplicaSpecs": {"Worker": {"replicas": 3}}}, job(TF, tf())),
    "TFJob, key as stored": (
        {"tfReplicaSpecs": {"worker": {"replicas": 3}}}, job(TF, tf(specs={"PS": {}, "worker": {"replicas": 6}})),
    ),
    "TFJob without minAvailable": (
        {"tfReplicaSpecs": {"Worker": {"replicas": 3}}, "runPolicy": {"schedulingPolicy": {"minAvailable": 3}}},
        job(TF, tf(runPolicy={}), annotations={MIN_WORKERS: "2"}),
    ),
    "TFJob, the gang wants more than the job": (
        {"tfReplicaSpecs": {"Worker": {"replicas": 3}}, "runPolicy": {"schedulingPolicy": {"minAvailable": 3}}},
        job(TF, tf(runPolicy={"schedulingPolicy": {"minAvailable": 7}}), annotations={MIN_WORKERS: "2"}),
    ),
    "PyTorchJob": (
        {"pytorchReplicaSpecs": {"Worker": {"replicas": 3}}, "runPolicy": {"schedulingPolicy": {"minAvailable": 2}}},
        job(TORCH, torch()),
    ),
    "Job": ({"parallelism": 3, "completions": 3}, job(JOB, indexed())),
    "JobSet": (
        {"replicatedJobs": job_set(("driver", 1), ("node", 3))["replicatedJobs"]},
        job(SET, job_set(("driver", 1), ("node", 4)), annotations={"netgang.io/fixed": "driver"}),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("want", "raw"), PATCHES.values(), ids=PATCHES)
def test_patches(want: dict[str, Any], raw: bytes) -> None:
    """The patch changes the worker count and the gang's minimum, names the very version, and notes what was done."""
    patch = json.loads(resize_patch(KINDS[kind_of(raw)], raw, INTENT, notes=NOTES))
    assert want == patch["spec"]
    assert (patch["metadata"]["uid"], patch["metadata"]["resourceVersion"]) == ("u1", "7")
    assert list(patch["metadata"]["annotations"]) == [LAST_CHANGE]
    assert {"metadata", "spec"} == set(patch)


def test_wishes_are_one_of_the_words() -> None:
    for text, wants, bad in (({SCALING: "loss"}, Wants.LOSS, False), ({SCALING: "los"}, None, True), ({}, None, False)):
        said = seen(job(JOB, indexed(), annotations=text))
        assert (said.wants, said.bad_wants) == (wants, bad)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "raw",
    [b"", b"[]", b"null", b'{"metadata":{}}', b'{"metadata":[],"spec":[]}', b'{"metadata":{"name":"x"},"spec":"text"}',
     b'{"metadata":{"name":"x"},"spec":{"parallelism":-1,"tfReplicaSpecs":[]}}'],
)  # fmt: skip
def test_rubbish_is_a_value_error(kind: str, raw: bytes) -> None:
    with suppress(ValueError):
        assert read(KINDS[kind], raw).workers >= 0
