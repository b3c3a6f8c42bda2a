"""Objects of which several tests need the same, and what tests read in objects."""

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any

from lab.testbed.api import Api, Object
from lab.testbed.objects import GROUP_NAME_LABEL, HOST_LABEL, ZONE_LABEL, gang_labels, gang_pods, pod
from lab.testbed.processes.stages import DELETE_AFTER, HOLD

OURS = "netgang"
GATE = "netgang.io/gang"
ADMITTED = "netgang.io/admitted"


def gang(
    name: str, size: int, namespace: str, *, least: int | None = None, gated: bool = False, **fields: Any
) -> list[Object]:
    fields = {"scheduler": OURS, "gates": [GATE] if gated else [], **fields}
    return gang_pods(name, size, min_available=least or size, namespace=namespace, **fields)


def placed(one: Object, node: str) -> Object:
    one["spec"]["nodeName"] = node
    return one


def pinned(one: Object, node: str) -> Object:
    """As a DaemonSet's pods are: it may go to this node alone."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    one["spec"]["affinity"] = {"nodeAffinity": required}
    return one


def needs_anchor(one: Object, anchor: str = "yes") -> Object:
    """The pod may only go to a zone where a pod labelled `anchor` runs: not modelled, so it is planned all the same."""
    term = {"labelSelector": {"matchLabels": {"anchor": anchor}}, "topologyKey": ZONE_LABEL}
    one["spec"]["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return one


def shuns_gangs(one: Object, gangs: Collection[str] = ()) -> Object:
    """The pod wants no member of these gangs, or of any, on its node: not modelled either."""
    chosen = {"operator": "In", "values": list(gangs)} if gangs else {"operator": "Exists"}
    selector = {"matchExpressions": [{"key": GROUP_NAME_LABEL, **chosen}]}
    term = {"labelSelector": selector, "topologyKey": HOST_LABEL}
    one["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return one


def with_claim(pods: list[Object]) -> list[Object]:
    for one in pods:
        one["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return pods


async def silence(api: Api, node: str) -> None:
    """The node's kubelet dies: no heartbeats, and not ready for all that is known."""
    await api.patch("Node", node, {"metadata": {"annotations": {HOLD: "node-initialize"}}})
    unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "silent"}
    await api.patch("Node", node, {"status": {"conditions": [unknown]}}, subresource="status")


async def as_stored(api: Api, one: Object) -> Object:
    path = f"/api/v1/namespaces/{one['metadata']['namespace']}/pods"
    return await api.request("POST", path, body=one, params={"dryRun": "All"})


def name_of(one: Object) -> str:
    return str(one["metadata"]["name"])


def gang_of(name: str) -> str:
    return name.rpartition("-worker")[0]


def gates(one: Object) -> list[str]:
    return [gate["name"] for gate in one["spec"].get("schedulingGates", [])]


def runs(one: Object) -> bool:
    return one["status"].get("phase") == "Running" and "deletionTimestamp" not in one["metadata"]


def not_scheduled(one: Object) -> str | None:
    for condition in one["status"].get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", ""))
    return None


def listed_nodes(one: Object) -> set[str]:
    affinity = one["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
    lines = [line for term in terms for line in (*term.get("matchFields", []), *term.get("matchExpressions", []))]
    return {value for line in lines if line["key"] in ("metadata.name", HOST_LABEL) for value in line["values"]}


def planned_node(one: Object) -> str:
    return str(one["metadata"]["annotations"][ADMITTED].partition(" ")[0])


def indexed_job(
    name: str,
    namespace: str,
    size: int,
    *,
    gang: str | None = None,
    least: int | None = None,
    gated: bool = True,
    cpu: str = "1",
    priority_class: str = "",
    backoff_limit: int = 6,
    ends_after: str | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Object:
    """An Indexed Job that is a gang of all, or needs `least`; without `ends_after` deleted pods end at once."""
    spec = pod("unused", scheduler=OURS, gates=[GATE] if gated else [], cpu=cpu, priority_class=priority_class)["spec"]
    noted = dict(annotations or {})
    if ends_after is not None:
        noted[DELETE_AFTER] = ends_after
        spec["terminationGracePeriodSeconds"] = 30
    metadata = {"labels": gang_labels(gang or name, least or size), "annotations": noted}
    counts = {"parallelism": size, "completions": size, "completionMode": "Indexed", "backoffLimit": backoff_limit}
    template = {"metadata": metadata, "spec": {**spec, "restartPolicy": "Never"}}
    return kind("batch/v1", "Job", name, namespace, spec={**counts, "template": template})


def stateful_set(name: str, namespace: str, least: int, pod_spec: Object, *, size: int = 3) -> Object:
    """Its pods are a gang."""
    template = {"metadata": {"labels": {"app": name, **gang_labels(name, least)}}, "spec": pod_spec}
    spec = {"replicas": size, "serviceName": name, "podManagementPolicy": "Parallel", "template": template}
    return kind("apps/v1", "StatefulSet", name, namespace, spec={**spec, "selector": {"matchLabels": {"app": name}}})


def kind(api_version: str, kind: str, name: str, namespace: str = "", **fields: Any) -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **fields.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def budget(name: str, namespace: str, labels: Mapping[str, str] | None = None) -> Object:
    selector = {"matchLabels": dict(labels)} if labels else {}
    return kind("policy/v1", "PodDisruptionBudget", name, namespace, spec={"maxUnavailable": 0, "selector": selector})


@asynccontextmanager
async def volume_in(api: Api, namespace: str, zone: str) -> AsyncIterator[None]:
    """There are a volume of one zone and the claim that is bound to it, as the volume controller leaves them."""
    name, room = f"{namespace}-data", {"storage": "1Gi"}
    here = {"matchExpressions": [{"key": ZONE_LABEL, "operator": "In", "values": [zone]}]}
    mode: Object = {"accessModes": ["ReadWriteOnce"]}
    affinity = {"required": {"nodeSelectorTerms": [here]}}
    of = {"namespace": namespace, "name": "data"}
    volume = {**mode, "capacity": room, "hostPath": {"path": "/data"}, "nodeAffinity": affinity, "claimRef": of}
    bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    claim = {**mode, "resources": {"requests": room}, "volumeName": name, "storageClassName": ""}
    await api.create(kind("v1", "PersistentVolume", name, spec=volume))
    try:
        await api.create(kind("v1", "PersistentVolumeClaim", "data", namespace, metadata=bound, spec=claim))
        yield
    finally:
        await api.delete("PersistentVolume", name)
