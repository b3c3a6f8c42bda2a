"""Kueue's queues, and Jobs that wait in them: what users of Kueue write, for tenants of one namespace.

Rule: where there is one tenant, its queue has the whole quota. Where there are several, none has a quota of its own:
all borrow from one queue that lends everything, each by its weight, and get back what another has beyond its share.
"""

from collections.abc import Mapping, Sequence

from lab.testbed.api import Object

KUEUE_API = "kueue.x-k8s.io/v1beta2"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
JOB_CONTROLLER = "job-controller"
_FLAVOR = "nodes"
_LENDER = "lender"
_INDEX_LABEL = "training.kubeflow.org/replica-index"


def queues(weights: Mapping[str, int], quota: Mapping[str, int | str], *, namespace: str) -> list[Object]:
    """A LocalQueue and a ClusterQueue for each tenant (tenant → weight), which share `quota` (resource → quantity).

    ValueError without tenants.

    >>> made = queues({"a": 2, "b": 1}, {"cpu": 8}, namespace="n")
    >>> [(one["kind"], one["metadata"]["name"]) for one in made if one["kind"] == "ClusterQueue"]
    [('ClusterQueue', 'lender'), ('ClusterQueue', 'a'), ('ClusterQueue', 'b')]
    """
    if not weights:
        raise ValueError("no tenants")
    alone = len(weights) == 1
    made = [_object("ResourceFlavor", _FLAVOR)]
    made += [] if alone else [_cluster_queue(_LENDER, quota, weight=1)]
    for name, weight in weights.items():
        own = quota if alone else dict.fromkeys(quota, 0)
        made.append(_cluster_queue(name, own, weight=weight))
        made.append(_object("LocalQueue", name, namespace=namespace, spec={"clusterQueue": name}))
    return made


def _cluster_queue(name: str, quota: Mapping[str, int | str], *, weight: int) -> Object:
    resources = [{"name": kind, "nominalQuota": str(amount)} for kind, amount in quota.items()]
    spec = {
        "cohortName": "all",
        "namespaceSelector": {},
        "fairSharing": {"weight": str(weight)},
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "Never"},
        "resourceGroups": [
            {"coveredResources": list(quota), "flavors": [{"name": _FLAVOR, "resources": resources}]},
        ],
    }
    return _object("ClusterQueue", name, spec=spec)


def _object(kind: str, name: str, *, namespace: str = "", spec: Object | None = None) -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": KUEUE_API, "kind": kind, "metadata": metadata, "spec": spec or {}}


def queued_job(name: str, members: Sequence[Object], *, queue: str) -> Object:
    """A suspended Job in a queue whose pods are these, which are alike; Kueue ends its suspension.

    ValueError without members.
    """
    if not members:
        raise ValueError(f"Job {name} has no members")
    first = members[0]
    labels = {key: value for key, value in first["metadata"]["labels"].items() if key != _INDEX_LABEL}
    template = {
        "metadata": {"labels": labels, "annotations": first["metadata"]["annotations"]},
        "spec": {**first["spec"], "restartPolicy": "Never"},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": first["metadata"]["namespace"], "labels": {QUEUE_LABEL: queue}},
        "spec": {
            "suspend": True,
            "completionMode": "Indexed",
            "completions": len(members),
            "parallelism": len(members),
            "template": template,
        },
    }


def pod_names(job: Object) -> list[str]:
    """What `member_name` calls the pods that a Job makes."""
    return [f"{job['metadata']['name']}-{index}" for index in range(job["spec"]["parallelism"])]


def member_name(pod: str) -> str:
    """The name of an indexed Job's pod without the five characters that are made up for each new one.

    >>> member_name("train-worker-3-x7k2p")
    'train-worker-3'
    """
    return pod.rpartition("-")[0]
