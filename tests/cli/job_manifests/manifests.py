"""Manifests of upstream's examples, small, and the gangs that netgang would see of them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import msgspec

from cli.job_manifests.add_job import add_job
from extender.api.what_if.job_objects import gangs_of
from extender.bootstrap import empty_cache
from extender.settings.settings import Settings
from scoring.model import Gang
from scoring.what_if.changes import AddJob

Object = Mapping[str, Any]
GANG = {
    "pod-group.scheduling.sigs.k8s.io/name": "own",
    "pod-group.scheduling.sigs.k8s.io/min-available": "2",
}
_CPU = {"limits": {"cpu": 1, "memory": "1Gi"}}


def template(*, labels: Object | None = None, name: str = "node", **spec: Any) -> Object:
    return {
        "metadata": {"labels": dict(labels or {})},
        "spec": {"containers": [{"name": name, "image": "i", "resources": _CPU}], **spec},
    }


def mpi_pi(version: str = "v2beta1", workers: int | None = 2, **spec: Any) -> Object:
    """mpi-operator, examples/v2beta1/pi."""
    roles = {
        "Launcher": {"replicas": 1, "template": template(name="mpi-launcher")},
        "Worker": {"template": template(name="mpi-worker"), **({} if workers is None else {"replicas": workers})},
    }
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "MPIJob",
        "metadata": {"name": "pi"},
        "spec": {"slotsPerWorker": 1, "mpiReplicaSpecs": roles, **spec},
    }


def pytorch(version: str = "v1", **policy: Any) -> Object:
    """training-operator, examples/pytorch/simple.yaml."""
    part = {"replicas": 1, "restartPolicy": "OnFailure", "template": template(name="pytorch")}
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "PyTorchJob",
        "metadata": {"name": "pytorch-simple", "namespace": "kubeflow"},
        "spec": {"runPolicy": {"schedulingPolicy": policy}, "pytorchReplicaSpecs": {"Master": part, "Worker": part}},
    }


def job_set(*parts: tuple[str, int, int], depends: str = "", **spec: Any) -> Object:
    """JobSet, examples/simple; `parts`: name, replicas, parallelism."""
    listed: list[dict[str, Any]] = [
        {
            "name": name,
            "replicas": replicas,
            "template": {
                "spec": {
                    "parallelism": pods,
                    "completions": pods,
                    "template": template(labels=GANG, schedulerName="netgang"),
                }
            },
        }
        for name, replicas, pods in parts
    ]
    if depends:
        listed[-1]["dependsOn"] = [{"name": listed[0]["name"], "status": depends}]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "paralleljobs"},
        "spec": {"replicatedJobs": listed, **spec},
    }


def step(name: str, ancestor: str | None = "trainer", **job: Any) -> dict[str, Any]:
    labels = {} if ancestor is None else {"trainer.kubeflow.org/trainjob-ancestor-step": ancestor}
    inner = {"template": template(name=name, schedulerName="netgang"), **job}
    return {"name": name, "template": {"metadata": {"labels": labels}, "spec": inner}}


def runtime(
    *steps: Object, kind: str = "ClusterTrainingRuntime", groups: str | None = "coscheduling", **policy: Any
) -> dict[str, Any]:
    """Trainer, manifests/base/runtimes/torch_distributed.yaml, with a PodGroup and netgang's scheduler."""
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": kind,
        "metadata": {"name": "torch-distributed"},
        "spec": {
            "mlPolicy": {"numNodes": 1, **(policy or {"torch": {}})},
            **({"podGroupPolicy": {groups: {}}} if groups is not None else {}),
            "template": {"spec": {"replicatedJobs": list(steps or (step("node"),))}},
        },
    }


def train_job(kind: str | None = "ClusterTrainingRuntime", patches: Iterable[Object] = (), **trainer: Any) -> Object:
    """Trainer, examples/yaml/01-multi-node.yaml; `patches`: of a JobSet's spec."""
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "multi-node"},
        "spec": {
            "runtimeRef": {"name": "torch-distributed", **({} if kind is None else {"kind": kind})},
            "trainer": trainer,
            "runtimePatches": [
                {"manager": "example.io/team", "trainingRuntimeSpec": {"template": {"spec": one}}} for one in patches
            ],
        },
    }


def gang_of(*objects: Object, **how: Any) -> tuple[Gang, list[str]]:
    """The one gang of these objects as the service would see it, and the notes."""
    change, notes = add_job(objects, namespace="team", **how)
    job = msgspec.json.decode(msgspec.json.encode(change), type=AddJob)
    (gang,) = gangs_of(partial(empty_cache, Settings()), job)
    return gang, notes


def roles_of(gang: Gang) -> Counter[str]:
    return Counter(pod.role.value for pod in gang.members)
