"""Mistakes in jobs with several roles, and the words that name each: what `kubectl apply` says, and what is said later.

Rule: a row is what somebody writes, not a state that a test makes; no row takes room that another one wants, so all can
be made at once. The name of a row of `JOBS` is the name of its job, and of the gang that its operator makes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.testbed.api import Object
from lab.testbed.objects import GROUP_NAME_LABEL, MIN_AVAILABLE_LABEL, POD_GROUP_LABEL
from lab.testbed.parts.service import Netgang
from tests.e2e.objects import gang, kind
from tests.e2e.stage import plain_client

Fields = Mapping[str, Any]
Make = Callable[[str, str], list[Object]]  # name of the gang, its namespace → what is created
Heard = dict[tuple[str, str], list[str]]  # (where, gang) → the texts

EVENT, ADMITTED, EXPLAIN = "Event", "condition netgang.io/Admitted", "/v1/explain"
ON_JOB = "Event on the job"


@dataclass(frozen=True)
class Mistake:
    """A manifest, the words that name what is wrong with it, and where they are."""

    make: Make
    says: tuple[str, ...]
    where: tuple[str, ...] = (EVENT, ADMITTED, EXPLAIN)


def named(says: Sequence[str], heard: Iterable[str]) -> bool:
    """Whether one of the texts has all the words."""
    return any(all(words in text for words in says) for text in heard)


async def cause_of(netgang: Netgang, name: str) -> list[str]:
    """What /v1/explain says of a gang, and suggests."""
    async with plain_client(timeout=20.0) as client:
        reply = await client.get(f"{netgang.url}/v1/explain/{name}")
    cause = (reply.json().get("cause") if reply.is_success else None) or {}
    return [f"{cause.get('message', reply.text[:300])} {cause.get('suggestion', '')}"]


def pod(name: str, namespace: str) -> list[Object]:
    """A gang of one pod."""
    made = gang(name, 1, namespace, cpu="100m")
    for one in made:
        one["spec"] |= {"tolerations": []}
    return made


def role(replicas: int = 1, *, cpu: str = "100m", scheduler: str = "", **metadata: Any) -> dict[str, Any]:
    """One role of a training job; every container is named as all its operators want it."""
    container: dict[str, Any] = {"name": "pytorch", "image": "x"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    named = {"schedulerName": scheduler} if scheduler else {}
    template = {"metadata": metadata, "spec": {"containers": [container], **named}}
    return {"replicas": replicas, "restartPolicy": "OnFailure", "template": template}


def training(
    *, policy: Fields | None = None, run: Fields | None = None, job: str = "PyTorchJob", spec: Fields | None = None,
    metadata: Fields | None = None, **roles: Any,
) -> Make:  # fmt: skip
    """A job of Kubeflow's; `policy` is its schedulingPolicy, `run` the rest of its runPolicy."""

    def make(name: str, namespace: str) -> list[Object]:
        version = "v2beta1" if job == "MPIJob" else "v1"
        stem = {"PyTorchJob": "pytorch", "MPIJob": "mpi", "TFJob": "tf"}[job]
        given = {"runPolicy": {**(run or {}), "schedulingPolicy": dict(policy or {})}, **(spec or {})}
        specs = {f"{stem}ReplicaSpecs": roles or {"Master": role(), "Worker": role(3)}}
        return [kind(f"kubeflow.org/{version}", job, name, namespace, metadata={"name": name, "namespace": namespace,
            **(metadata or {})}, spec={**given, **specs})]  # fmt: skip

    return make


def labels(least: int, name: str = "NAME") -> dict[str, str]:
    return {GROUP_NAME_LABEL: name, MIN_AVAILABLE_LABEL: str(least)}


def part(name: str, size: int = 1, *, cpu: str = "100m", scheduler: str = "netgang", **metadata: Any) -> Object:
    """One replicated Job of a JobSet."""
    pod = role(cpu=cpu, scheduler=scheduler, **metadata)["template"]
    template = {**pod, "spec": {**pod["spec"], "restartPolicy": "Never"}}
    counts = {"completionMode": "Indexed", "completions": size, "parallelism": size}
    return {"name": name, "replicas": 1, "template": {"spec": {**counts, "template": template}}}


def job_set(*parts: Object, metadata: Fields | None = None, **spec: Any) -> Make:
    """A JobSet; NAME in the labels of its templates is its name."""

    def make(name: str, namespace: str) -> list[Object]:
        made = [_named(one, name) for one in parts]
        about = {"name": name, "namespace": namespace, **_named(dict(metadata or {}), name)}
        return [kind("jobset.x-k8s.io/v1alpha2", "JobSet", name, namespace, metadata=about,
            spec={"replicatedJobs": made, **spec})]  # fmt: skip

    return make


def batch(
    *, metadata: Fields | None = None, pod: Fields | None = None, scheduler: str = "netgang", **spec: Any
) -> Make:
    """An Indexed Job of four, marked as a gang unless `pod`, the metadata of its template, says something else."""

    def make(name: str, namespace: str) -> list[Object]:
        template = role(scheduler=scheduler, **_named(dict(pod if pod is not None else {"labels": labels(4)}), name))
        template["template"]["spec"]["restartPolicy"] = "Never"
        counts = {"completionMode": "Indexed", "completions": 4, "parallelism": 4}
        about = {"name": name, "namespace": namespace, **_named(dict(metadata or {}), name)}
        return [kind("batch/v1", "Job", name, namespace, metadata=about,
            spec={**counts, **spec, "template": template["template"]})]  # fmt: skip

    return make


def train_job(*, metadata: Fields | None = None, **spec: Any) -> Make:
    def make(name: str, namespace: str) -> list[Object]:
        about = {"name": name, "namespace": namespace, **_named(dict(metadata or {}), name)}
        runtime = {"apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": "torch"}
        return [kind("trainer.kubeflow.org/v1alpha1", "TrainJob", name, namespace, metadata=about,
            spec={"runtimeRef": runtime, **spec})]  # fmt: skip

    return make


def _named(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _named(one, name) for key, one in value.items()}
    if isinstance(value, list):
        return [_named(one, name) for one in value]
    return name if value == "NAME" else value


LEAST, MINIMUM = {"minAvailable": 4}, "schedulingPolicy.minAvailable is 9"
ZONES, WORKERS = {"netgang.io/zones": "b"}, {"netgang.io/min-workers": "2"}

JOBS: dict[str, Mistake] = {  # made by the real operators
    "torch-minimum": Mistake(
        training(policy={"minAvailable": 9}), ("4 of 9 pods exist", "schedulingPolicy.minAvailable")),
    "torch-schedulers": Mistake(
        training(policy=LEAST, Master=role(scheduler="default-scheduler"), Worker=role(3)),
        ("schedulerName differs: ", "default-scheduler (torch-schedulers-master-0)")),
    "torch-priorities": Mistake(
        training(policy=LEAST, Master=role(), Worker={**role(3), "template": {"spec": {
            "containers": [{"name": "pytorch", "image": "x"}], "priorityClassName": "mistake-high"}}}),
        ("priority differs: 0 (torch-priorities-master-0), 10 (", "one priorityClassName")),
    "torch-zones": Mistake(
        training(policy=LEAST, Master=role(annotations={"netgang.io/zones": "n1"}),
            Worker=role(3, annotations={"netgang.io/zones": "n1"})),
        ("n1", "is a node of zone a")),
    "torch-near": Mistake(
        training(policy=LEAST, Master=role(annotations={"netgang.io/near": "n1"}),
            Worker=role(3, annotations={"netgang.io/near": "n1"})),
        ("netgang.io/near: 'n1'", "is a node of zone a"), (EVENT,)),
    "torch-elastic": Mistake(
        training(policy=LEAST, metadata={"annotations": WORKERS}), ("spec.elasticPolicy is missing",), (ON_JOB,)),
    "torch-bounds": Mistake(
        training(policy={"minAvailable": 2}, Worker=role(3), metadata={"annotations": {
            "netgang.io/min-workers": "5", "netgang.io/max-workers": "2"}},
            spec={"elasticPolicy": {"minReplicas": 2, "maxReplicas": 3}}),
        ("its minimum and maximum are not whole numbers",), (ON_JOB,)),
    "tf-static": Mistake(
        training(job="TFJob", policy=LEAST, metadata={"annotations": WORKERS},
            PS=role(), Worker=role(3)), ("spec.enableDynamicWorker is not true",), (ON_JOB,)),
    "set-minimum": Mistake(job_set(part("node", 3, labels=labels(5))), ("3 of 5 pods exist", "min-available")),
    "set-one-role": Mistake(
        job_set(part("driver", labels=labels(3)), part("node", 2)), ("1 of 3 pods exist", "min-available")),
    "set-schedulers": Mistake(
        job_set(part("driver", labels=labels(3)), part("node", 2, labels=labels(3), scheduler="")),
        ("schedulerName differs: netgang (set-schedulers-driver-0-0-", "default-scheduler (set-schedulers-node-0-")),
    "set-labels": Mistake(
        job_set(part("driver", labels=labels(3)), part("node", 2, labels=labels(2))),
        ("different min-available: ", "make them equal")),
    "set-elastic": Mistake(
        job_set(part("driver", labels=labels(3)), part("node", 2, labels=labels(3)), part("more", 1),
            metadata={"annotations": {"netgang.io/min-workers": "1"}}),
        ("it has not exactly one replicated Job of workers",), (ON_JOB,)),
    "job-elastic": Mistake(
        batch(completionMode="NonIndexed", metadata={"annotations": WORKERS}),
        ("its completionMode is not Indexed",), (ON_JOB,)),
    "job-limited": Mistake(
        batch(metadata={"annotations": WORKERS}), ("label min-available 4", "min-workers=2 has no effect"), (ON_JOB,)),
    "job-minimum": Mistake(batch(pod={"labels": labels(6)}), ("4 of 6 pods exist", "min-available")),
}  # fmt: skip

APPLIED: dict[str, Mistake] = {  # said by `kubectl apply` itself
    "a PyTorchJob of less than its minimum": Mistake(
        training(policy={"minAvailable": 9}), (MINIMUM, "replicas of all roles are 4 together", "never start")),
    "an MPIJob of less than its minimum": Mistake(
        training(job="MPIJob", policy={"minAvailable": 9}, Launcher=role(), Worker=role(2)),
        (MINIMUM, "are 3 together")),
    "a JobSet of less than its minimum": Mistake(
        job_set(part("node", 3, labels=labels(5))), ("min-available is 5", "makes 3 pods", "never start")),
    "a JobSet of which one role is labelled": Mistake(
        job_set(part("driver", labels=labels(3)), part("node", 2)), ("min-available is 3", "makes 1 pods")),
    "a Job of less than its minimum": Mistake(
        batch(pod={"labels": labels(6)}), ("min-available is 6", "makes 4 pods")),
    "a gang's label on a PyTorchJob": Mistake(
        training(policy=LEAST, metadata={"labels": {POD_GROUP_LABEL: "g"}}),
        (f"label {POD_GROUP_LABEL}", "pod templates")),
    "a gang's labels on a JobSet": Mistake(
        job_set(part("node", 3), metadata={"labels": labels(3)}), ("The job itself has label", "pod template")),
    "a gang's labels on a Job": Mistake(
        batch(metadata={"labels": labels(4)}, pod={}), ("The job itself has label", "pod template")),
    "a gang's labels on a TrainJob": Mistake(
        train_job(metadata={"labels": labels(4)}), ("The job itself has label", "pod template")),
    "zones on a PyTorchJob": Mistake(
        training(policy=LEAST, metadata={"annotations": ZONES}), ("annotation netgang.io/zones", "of pods")),
    "zones on a JobSet": Mistake(
        job_set(part("node", 3, labels=labels(3)), metadata={"annotations": ZONES}), ("netgang.io/zones", "of pods")),
    "a JobSet of which one role names netgang": Mistake(
        job_set(part("driver"), part("node", 2, scheduler="")), ("Role node has no schedulerName netgang",)),
    "a PyTorchJob of which one role names another scheduler": Mistake(
        training(policy=LEAST, Master=role(scheduler="default-scheduler"), Worker=role(3)),
        ("Role Master has no schedulerName netgang",)),
    "a queue": Mistake(
        training(policy={**LEAST, "queue": "research"}), ("does not read", "schedulingPolicy.queue")),
    "a priority class of the policy": Mistake(
        training(policy={**LEAST, "priorityClass": "high"}), ("schedulingPolicy.priorityClass", "priorityClassName")),
    "a time limit": Mistake(
        training(policy={**LEAST, "scheduleTimeoutSeconds": 60}), ("schedulingPolicy.scheduleTimeoutSeconds",)),
    "a JobSet in order": Mistake(
        job_set(part("driver", labels=labels(3)), part("node", 2, labels=labels(3)),
            startupPolicy={"startupPolicyOrder": "InOrder"}),
        ("startupPolicy: InOrder", "waits without end")),
    "an MPIJob whose launcher waits": Mistake(
        training(job="MPIJob", policy={"minAvailable": 4}, Launcher=role(), Worker=role(3),
            spec={"launcherCreationPolicy": "WaitForWorkersReady"}),
        ("WaitForWorkersReady", "waits without end")),
    "min-workers on a PyTorchJob with a Master": Mistake(
        training(policy=LEAST, metadata={"annotations": WORKERS}), ("min-workers", "spec.elasticPolicy is missing")),
    "min-workers on a TFJob": Mistake(
        training(job="TFJob", policy=LEAST, metadata={"annotations": WORKERS}), ("spec.enableDynamicWorker is not",)),
    "min-workers on a Job that is not Indexed": Mistake(
        batch(completionMode="NonIndexed", metadata={"annotations": WORKERS}), ("completionMode is not Indexed",)),
    "min-workers on a TrainJob": Mistake(
        train_job(metadata={"annotations": WORKERS}), ("a job of this kind keeps its size",)),
    "a PyTorchJob that stays suspended": Mistake(training(policy=LEAST, run={"suspend": True}), ("suspend: true",)),
    "a JobSet that stays suspended": Mistake(
        job_set(part("node", 3, labels=labels(3)), suspend=True), ("suspend: true", "makes no pods")),
    "a Job that stays suspended": Mistake(batch(suspend=True), ("suspend: true",)),
    "a TrainJob that stays suspended": Mistake(
        train_job(metadata={"annotations": ZONES}, suspend=True), ("suspend: true",)),
    "a PyTorchJob without replicas": Mistake(
        training(policy={}, metadata={"annotations": WORKERS}, Worker=role(0)), ("makes no pods",)),
    "a Job without replicas": Mistake(batch(parallelism=0), ("makes no pods",)),
    "requests of one role": Mistake(
        training(policy=LEAST, Master=role(cpu=""), Worker=role(3)), ("Role Master requests no resources", "Worker")),
    "requests of one role of an MPIJob": Mistake(
        training(job="MPIJob", policy=LEAST, Launcher=role(), Worker=role(3, cpu="")), ("Role Worker requests no",)),
    "requests of one role of a JobSet": Mistake(
        job_set(part("driver", labels=labels(3)), part("node", 2, cpu="", labels=labels(3))),
        ("Role node requests no resources",)),
    "a minimum that is no number": Mistake(training(policy={"minAvailable": "four"}), ("minAvailable", "integer")),
    "replicas below 0": Mistake(training(policy=LEAST, Worker=role(-1)), ("replicas",)),
}  # fmt: skip

RIGHT: dict[str, Make] = {  # nothing is said of these
    "PyTorchJob": training(policy=LEAST),
    "MPIJob": training(job="MPIJob", policy={"minAvailable": 3}, Launcher=role(), Worker=role(2)),
    "elastic PyTorchJob": training(
        policy={"minAvailable": 2}, Worker=role(4), metadata={"annotations": WORKERS},
        spec={"elasticPolicy": {"minReplicas": 2, "maxReplicas": 4}}),
    "MPIJob whose launcher counts for nothing": training(
        job="MPIJob", policy={"minAvailable": 3}, Launcher=role(), Worker=role(3),
        spec={"launcherCreationPolicy": "WaitForWorkersReady"}),
    "JobSet": job_set(part("driver", labels=labels(3)), part("node", 2, labels=labels(3))),
    "Job": batch(pod={"labels": labels(2)}, metadata={"annotations": WORKERS}),
    "TrainJob": train_job(),
    "job that Kueue starts": batch(suspend=True, metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}}),
    "Job of others": batch(pod={}, scheduler="", completions=1, parallelism=0),
    "pod": pod,
}  # fmt: skip
