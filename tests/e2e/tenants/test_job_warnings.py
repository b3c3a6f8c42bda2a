"""What `kubectl apply` says of probable mistakes in pods and in jobs of Kubernetes and of the training frameworks."""

from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any

import pytest
import yaml

from lab.testbed.api import Api, Object
from lab.testbed.cluster import Cluster
from lab.testbed.objects import GROUP_NAME_LABEL, MIN_AVAILABLE_LABEL, POD_GROUP_LABEL, pod
from lab.testbed.parts.installed import installed
from lab.testbed.programs.build import ensure_asset
from tests.e2e.objects import kind, name_of
from tests.e2e.site import define, fresh_namespace

Fields = Mapping[str, Any]
Make = Callable[[str, str], Object]  # name of the job, its namespace → what is created
DEFINED = ("training-crds", "jobset-crds", "trainer-crds", "mpi-crds")
POLICIES = ("netgang-warnings", "netgang-job-warnings")
PATHS = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "PyTorchJob": "/apis/kubeflow.org/v1/namespaces/{}/pytorchjobs",
    "TFJob": "/apis/kubeflow.org/v1/namespaces/{}/tfjobs",
    "MPIJob": "/apis/kubeflow.org/v2beta1/namespaces/{}/mpijobs",
    "JobSet": "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets",
    "TrainJob": "/apis/trainer.kubeflow.org/v1alpha1/namespaces/{}/trainjobs",
}


def plain(**fields: Any) -> Make:
    return lambda name, namespace: pod(name, namespace=namespace, **fields)


def role(replicas: int = 1, *, cpu: str = "100m", scheduler: str = "", **metadata: Any) -> dict[str, Any]:
    """One role of a training job; every container is named as all its operators want it."""
    container: dict[str, Any] = {"name": "pytorch", "image": "x"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    named = {"schedulerName": scheduler} if scheduler else {}
    template = {"metadata": metadata, "spec": {"containers": [container], **named}}
    return {"replicas": replicas, "restartPolicy": "OnFailure", "template": template}


def training(
    *, policy: Fields | None = None, job: str = "PyTorchJob", spec: Fields | None = None,
    metadata: Fields | None = None, **roles: Any,
) -> Make:  # fmt: skip

    def make(name: str, namespace: str) -> Object:
        version = "v2beta1" if job == "MPIJob" else "v1"
        stem = {"PyTorchJob": "pytorch", "MPIJob": "mpi", "TFJob": "tf"}[job]
        specs = {f"{stem}ReplicaSpecs": roles or {"Master": role(), "Worker": role(3)}}
        given = {"runPolicy": {"schedulingPolicy": dict(policy or {})}, **(spec or {}), **specs}
        return kind(f"kubeflow.org/{version}", job, name, namespace, metadata=metadata or {}, spec=given)

    return make


def labels(least: int, name: str = "NAME") -> dict[str, str]:
    return {GROUP_NAME_LABEL: name, MIN_AVAILABLE_LABEL: str(least)}


def part(name: str, size: int = 1, *, scheduler: str = "netgang", **metadata: Any) -> Object:
    pod = role(scheduler=scheduler, **metadata)["template"]
    template = {**pod, "spec": {**pod["spec"], "restartPolicy": "Never"}}
    counts = {"completionMode": "Indexed", "completions": size, "parallelism": size}
    return {"name": name, "replicas": 1, "template": {"spec": {**counts, "template": template}}}


def job_set(*parts: Object, **spec: Any) -> Make:
    """A JobSet; NAME in the labels of its templates is its name."""

    def make(name: str, namespace: str) -> Object:
        given = {"replicatedJobs": [_named(one, name) for one in parts], **spec}
        return kind("jobset.x-k8s.io/v1alpha2", "JobSet", name, namespace, spec=given)

    return make


def batch(
    *, metadata: Fields | None = None, pod: Fields | None = None, scheduler: str = "netgang", **spec: Any
) -> Make:
    """An Indexed Job of four, marked as a gang unless `pod`, the metadata of its template, says something else."""

    def make(name: str, namespace: str) -> Object:
        marks = {"labels": labels(4)} if pod is None else pod
        template = role(scheduler=scheduler, **_named(marks, name))["template"]
        template["spec"]["restartPolicy"] = "Never"
        given = {"completionMode": "Indexed", "completions": 4, "parallelism": 4, **spec, "template": template}
        return kind("batch/v1", "Job", name, namespace, metadata=_named(metadata or {}, name), spec=given)

    return make


def train_job(*, metadata: Fields | None = None, **spec: Any) -> Make:
    def make(name: str, namespace: str) -> Object:
        about = _named(metadata or {}, name)
        runtime = {"apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": "torch"}
        given = {"runtimeRef": runtime, **spec}
        return kind("trainer.kubeflow.org/v1alpha1", "TrainJob", name, namespace, metadata=about, spec=given)

    return make


def _named(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _named(one, name) for key, one in value.items()}
    if isinstance(value, list):
        return [_named(one, name) for one in value]
    return name if value == "NAME" else value


LEAST, MINIMUM = {"minAvailable": 4}, "schedulingPolicy.minAvailable is 9"
ZONES, WORKERS = {"netgang.io/zones": "b"}, {"netgang.io/min-workers": "2"}

WRONG: dict[str, tuple[Make, tuple[str, ...]]] = {  # job or pod → words of the warning
    "a misspelt name": (
        batch(pod={"labels": {GROUP_NAME_LABEL.replace("name", "nmae"): "g", MIN_AVAILABLE_LABEL: "2"}}), ("nmae",)),
    "a misspelt prefix": (
        batch(pod={"labels": {GROUP_NAME_LABEL.replace("pod-group", "podgroup"): "g"}}), ("podgroup",)),
    "a label that is an annotation": (plain(labels=ZONES), ("netgang.io/zones",)),
    "an annotation that is a label": (
        plain(annotations={GROUP_NAME_LABEL: "g"}, scheduler="netgang"), (f"annotation {GROUP_NAME_LABEL}",)),
    "an unknown option": (
        batch(pod={"labels": labels(4), "annotations": {"netgang.io/zonez": "D"}}), ("netgang.io/zonez",)),
    "a scheduler that is not ours": (batch(scheduler="net-gang"), ("schedulerName net-gang",)),
    "more workers at least than at most": (
        batch(metadata={"annotations": {**WORKERS, "netgang.io/max-workers": "1"}}), ("is below min-workers",)),
    "a pod that may be suspended": (
        plain(scheduler="netgang", annotations={"netgang.io/suspendable": "true"}), ("suspendable has no effect",)),
    "no scheduler": (plain(labels=labels(1, "g")), ("default-scheduler",)),
    "a PyTorchJob of less than its minimum": (
        training(policy={"minAvailable": 9}), (MINIMUM, "replicas of all roles are 4 together", "never start")),
    "an MPIJob of less than its minimum": (
        training(job="MPIJob", policy={"minAvailable": 9}, Launcher=role(), Worker=role(2)),
        (MINIMUM, "are 3 together")),
    "a JobSet of less than its minimum": (
        job_set(part("node", 3, labels=labels(5))), ("min-available is 5", "makes 3 pods", "never start")),
    "a gang's label on a PyTorchJob": (
        training(policy=LEAST, metadata={"labels": {POD_GROUP_LABEL: "g"}}),
        (f"label {POD_GROUP_LABEL}", "pod templates")),
    "a gang's labels on a Job": (
        batch(metadata={"labels": labels(4)}, pod={}), ("The job itself has label", "pod template")),
    "a gang's labels on a TrainJob": (
        train_job(metadata={"labels": labels(4)}), ("The job itself has label", "pod template")),
    "a gang's annotation on a Job": (
        batch(metadata={"annotations": {"scheduling.k8s.io/group-name": "NAME"}}, pod={}), ("group-name", "of pods")),
    "zones on a PyTorchJob": (
        training(policy=LEAST, metadata={"annotations": ZONES}), ("annotation netgang.io/zones", "of pods")),
    "a JobSet of which one role names netgang": (
        job_set(part("driver"), part("node", 2, scheduler="")), ("Role node has no schedulerName netgang",)),
    "a JobSet in order": (
        job_set(part("driver", labels=labels(3)), part("node", 2, labels=labels(3)),
            startupPolicy={"startupPolicyOrder": "InOrder"}),
        ("startupPolicy: InOrder", "waits without end")),
    "an MPIJob whose launcher waits": (
        training(job="MPIJob", policy={"minAvailable": 4}, Launcher=role(), Worker=role(3),
            spec={"launcherCreationPolicy": "WaitForWorkersReady"}),
        ("WaitForWorkersReady", "waits without end")),
    "min-workers on a PyTorchJob with a Master": (
        training(policy=LEAST, metadata={"annotations": WORKERS}), ("min-workers", "spec.elasticPolicy is missing")),
    "min-workers on a TFJob": (
        training(job="TFJob", policy=LEAST, metadata={"annotations": WORKERS}), ("spec.enableDynamicWorker is not",)),
    "min-workers on a Job that is not Indexed": (
        batch(completionMode="NonIndexed", metadata={"annotations": WORKERS}), ("completionMode is not Indexed",)),
    "min-workers on a TrainJob": (
        train_job(metadata={"annotations": WORKERS}), ("a job of this kind keeps its size",)),
    "a Job that stays suspended": (batch(suspend=True), ("suspend: true",)),
    "requests of one role": (
        training(policy=LEAST, Master=role(cpu=""), Worker=role(3)), ("Role Master requests no resources", "Worker")),
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
    "pod": plain(labels=labels(1, "g"), annotations=ZONES, scheduler="netgang"),
    "pod of others": plain(labels={"app.kubernetes.io/name": "x"}),
}  # fmt: skip


@pytest.fixture
async def site(controlled_cluster: Cluster, controlled_api: Api) -> AsyncIterator[str]:
    policies = [one for one in installed() if one["metadata"]["name"] in POLICIES]
    for asset in DEFINED:
        await define(controlled_cluster, controlled_api, asset)
    await controlled_api.apply(policies)
    yield await fresh_namespace(controlled_api, "job-warnings")
    for one in reversed(policies):
        await controlled_api.delete(one["kind"], name_of(one))
    for asset in DEFINED[1:]:
        await controlled_cluster.kubectl("delete", "--ignore-not-found", "--filename", str(ensure_asset(asset)))


@pytest.mark.timeout(240)
async def test_probable_mistakes_are_said_and_nothing_else(controlled_api: Api, site: str) -> None:
    async def said(make: Make) -> list[str]:
        one = make("mistake", site)
        path = PATHS[one["kind"]].format(site)
        return await controlled_api.warnings("POST", path, body=one, params={"dryRun": "All"})

    first, _ = next(iter(WRONG.values()))
    await controlled_api.until(partial(said, first), bool, what="the warnings are in force")
    heard = {name: await said(make) for name, (make, _) in WRONG.items()}
    told = [name for name, (_, words) in WRONG.items() if any(all(w in text for w in words) for text in heard[name])]
    silent = {name: heard[name] for name in WRONG.keys() - told}
    loud = {name: warned for name, make in RIGHT.items() if (warned := await said(make))}
    assert (silent, loud) == ({}, {}), yaml.safe_dump([silent, loud])
