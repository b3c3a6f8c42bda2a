"""The pods and PodGroups that controllers make of a manifest, as far as netgang reads them.

Why not the controllers themselves: eleven of them, written in Go, would be needed to look at a few labels. Rule: names,
labels, owners and PodGroups are those of each framework's source or documentation (training-operator 1.9, mpi-operator
0.8, JobSet 0.12, Trainer 2.3, LeaderWorkerSet 0.10, KubeRay, kube-controller-manager 1.36); nothing else is added.
A kind that is not known here is an error, so that a new example needs a new maker.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

Object: TypeAlias = Mapping[str, Any]
SCHEDULER = "netgang"  # what the training operators are told: `--gang-scheduler-name`, `--gang-scheduling`
POD_GROUP = "scheduling.x-k8s.io/v1alpha1"
_POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
_KUBEFLOW = "training.kubeflow.org/"
_JOBSET = "jobset.sigs.k8s.io/"
_LWS = "leaderworkerset.sigs.k8s.io/"
_INDEX = "batch.kubernetes.io/job-completion-index"
_NO_PODS = frozenset({"Namespace", "Service", "ConfigMap", "PriorityClass", "Workload", "ClusterTrainingRuntime"})
_CHIEFS = frozenset({"master", "chief", "launcher"})
_ROLES = {  # kind → its field with roles
    "TFJob": "tfReplicaSpecs",
    "PyTorchJob": "pytorchReplicaSpecs",
}


def made(documents: Iterable[Object]) -> list[Object]:
    """All that netgang would see of these manifests. KeyError: it is not known what this kind's controller makes."""
    applied = list(documents)
    runtimes = {one["metadata"]["name"]: one for one in applied if one["kind"] == "ClusterTrainingRuntime"}
    found: list[Object] = []
    for one in applied:
        if one["kind"] in _NO_PODS:
            continue
        if one["kind"] == "TrainJob":
            found += _train_job(one, runtimes[one["spec"]["runtimeRef"]["name"]])
        else:
            found += _MAKERS[one["kind"]](one)
    return found


def _pod(
    owner: Object,
    template: Object,
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    scheduler: str | None = None,
) -> Object:
    metadata = template.get("metadata") or {}
    spec = dict(template["spec"])
    if scheduler is not None:
        spec.setdefault("schedulerName", scheduler)
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
    uid = f"{owner['kind']}-{owner['metadata']['name']}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": owner["metadata"].get("namespace", "default"),
            "labels": {**metadata.get("labels", {}), **(labels or {})},
            "annotations": {**metadata.get("annotations", {}), **(annotations or {})},
            "ownerReferences": [{**reference, "uid": uid, "controller": True}],
        },
        "spec": spec,
    }


def _pod_group(owner: Object, minimum: int) -> Object:
    metadata = {"name": owner["metadata"]["name"], "namespace": owner["metadata"]["namespace"]}
    return {"apiVersion": POD_GROUP, "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": minimum}}


def _itself(one: Object) -> list[Object]:
    return [one]


def _podgroup(one: Object) -> list[Object]:
    return [one] if one["apiVersion"] == POD_GROUP else []


def _job_pods(owner: Object, job: Object, name: str, labels: Mapping[str, str] | None = None) -> Iterator[Object]:
    for index in map(str, range(job.get("parallelism", 1))):
        own = {"batch.kubernetes.io/job-name": name, "job-name": name}
        indexed = {_INDEX: index} if job.get("completionMode") == "Indexed" else {}
        yield _pod(
            owner,
            job["template"],
            f"{name}-{index}-x",
            labels={**own, **indexed, **(labels or {})},
            annotations=indexed,
        )


def _a_job(name: str, whole: Object) -> Object:
    metadata = {"name": name, "namespace": whole["metadata"].get("namespace", "default")}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}


def _job(one: Object) -> list[Object]:
    return list(_job_pods(one, one["spec"], one["metadata"]["name"]))


def _stateful_set(one: Object) -> list[Object]:
    name, template = one["metadata"]["name"], one["spec"]["template"]
    return [
        _pod(one, template, f"{name}-{index}", labels={"apps.kubernetes.io/pod-index": str(index)})
        for index in range(one["spec"]["replicas"])
    ]


def _training(one: Object) -> list[Object]:
    """Of the training operator: a PodGroup of the job's name, the label that names it, and the scheduler."""
    spec, name = one["spec"], one["metadata"]["name"]
    roles = spec[_ROLES[one["kind"]]]
    policy = spec.get("runPolicy", {}).get("schedulingPolicy", {})
    every = sum(role.get("replicas", 1) for role in roles.values())
    found = [_pod_group(one, policy.get("minAvailable", every))]
    for role, replicas in roles.items():
        kind = role.lower()
        for index in range(replicas.get("replicas", 1)):
            labels = {
                _POD_GROUP_LABEL: name,
                _KUBEFLOW + "operator-name": f"{one['kind'].lower()}-controller",
                _KUBEFLOW + "job-name": name,
                _KUBEFLOW + "replica-type": kind,
                _KUBEFLOW + "replica-index": str(index),
            }
            if kind in _CHIEFS:
                labels[_KUBEFLOW + "job-role"] = "master"
            found.append(_pod(one, replicas["template"], f"{name}-{kind}-{index}", labels=labels, scheduler=SCHEDULER))
    return found


def _mpi_job(one: Object) -> list[Object]:
    """Of the mpi-operator (v2beta1): no replica-type, and the launcher is a Job's pod."""
    spec, name = one["spec"], one["metadata"]["name"]
    roles = spec["mpiReplicaSpecs"]
    workers = roles["Worker"].get("replicas", 1)
    policy = spec.get("runPolicy", {}).get("schedulingPolicy", {})
    found = [_pod_group(one, policy.get("minAvailable", workers + 1))]
    common = {
        _POD_GROUP_LABEL: name,
        _KUBEFLOW + "operator-name": "mpi-operator",
        _KUBEFLOW + "job-name": name,
    }
    launcher = {**common, _KUBEFLOW + "job-role": "launcher", "batch.kubernetes.io/job-name": f"{name}-launcher"}
    job = _a_job(f"{name}-launcher", one)
    found.append(_pod(job, roles["Launcher"]["template"], f"{name}-launcher-x", labels=launcher, scheduler=SCHEDULER))
    for index in map(str, range(workers)):
        labels = {**common, _KUBEFLOW + "job-role": "worker", _KUBEFLOW + "replica-index": index}
        found.append(
            _pod(one, roles["Worker"]["template"], f"{name}-worker-{index}", labels=labels, scheduler=SCHEDULER)
        )
    return found


def _job_set(one: Object) -> list[Object]:
    found: list[Object] = []
    name, number = one["metadata"]["name"], 0
    for part in one["spec"]["replicatedJobs"]:
        replicas = part.get("replicas", 1)
        for replica in range(replicas):
            labels = {
                _JOBSET + "jobset-name": name,
                _JOBSET + "jobset-uid": f"JobSet-{name}",
                _JOBSET + "replicatedjob-name": part["name"],
                _JOBSET + "replicatedjob-replicas": str(replicas),
                _JOBSET + "job-index": str(replica),
                _JOBSET + "job-global-index": str(number),
            }
            job = f"{name}-{part['name']}-{replica}"
            found += _job_pods(_a_job(job, one), part["template"]["spec"], job, labels)
            number += 1
    return found


def _train_job(one: Object, runtime: Object) -> list[Object]:
    """Of Trainer (v2): a JobSet of the runtime's template with numNodes pods, and a PodGroup for all of them."""
    trainer, name = one["spec"]["trainer"], one["metadata"]["name"]
    parts = []
    for part in runtime["spec"]["template"]["spec"]["replicatedJobs"]:
        job = part["template"]["spec"]
        template = job["template"]
        (container,) = template["spec"]["containers"]
        resources = trainer.get("resourcesPerNode", container.get("resources", {}))
        spec = {**template["spec"], "containers": [{**container, "resources": resources}]}
        labels = {**(template.get("metadata") or {}).get("labels", {}), _POD_GROUP_LABEL: name}
        nodes = trainer.get("numNodes", runtime["spec"]["mlPolicy"]["numNodes"])
        counts = {"completionMode": "Indexed", "parallelism": nodes, "completions": nodes}
        inner = {**job, **counts, "template": {"metadata": {"labels": labels}, "spec": spec}}
        parts.append({"name": part["name"], "replicas": 1, "template": {"spec": inner}})
    job_set = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": one["metadata"],
        "spec": {"replicatedJobs": parts},
    }
    pods = _job_set(job_set)
    groups = [_pod_group(one, len(pods))] if "coscheduling" in runtime["spec"].get("podGroupPolicy", {}) else []
    return [*groups, *pods]


def _leader_worker_set(one: Object) -> list[Object]:
    spec, name = one["spec"], one["metadata"]["name"]
    both = spec["leaderWorkerTemplate"]
    found = []
    for group in range(spec.get("replicas", 1)):
        for index in range(both["size"]):
            template = both.get("leaderTemplate", both["workerTemplate"]) if index == 0 else both["workerTemplate"]
            labels = {_LWS + "name": name, _LWS + "group-index": str(group), _LWS + "worker-index": str(index)}
            own = f"{name}-{group}" if index == 0 else f"{name}-{group}-{index}"
            found.append(_pod(one, template, own, labels=labels, annotations={_LWS + "size": str(both["size"])}))
    return found


def _ray_cluster(one: Object) -> list[Object]:
    spec, name = one["spec"], one["metadata"]["name"]
    head = {"ray.io/cluster": name, "ray.io/node-type": "head", "ray.io/group": "headgroup"}
    found = [_pod(one, spec["headGroupSpec"]["template"], f"{name}-head", labels=head)]
    for group in spec["workerGroupSpecs"]:
        labels = {"ray.io/cluster": name, "ray.io/node-type": "worker", "ray.io/group": group["groupName"]}
        found += [
            _pod(one, group["template"], f"{name}-{group['groupName']}-worker-{number}", labels=labels)
            for number in range(group["replicas"])
        ]
    return found


_MAKERS: Mapping[str, Callable[[Object], list[Object]]] = {  # kind → what its controller makes of one
    "Pod": _itself,
    "PodGroup": _podgroup,
    "Job": _job,
    "StatefulSet": _stateful_set,
    **dict.fromkeys(_ROLES, _training),
    "MPIJob": _mpi_job,
    "JobSet": _job_set,
    "LeaderWorkerSet": _leader_worker_set,
    "RayCluster": _ray_cluster,
}
