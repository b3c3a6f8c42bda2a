"""A big cluster's objects as the API server lists them, made without chance: nodes, pods of every kind, a mesh.

Why generated and not recorded: each benchmark run must see the same cluster at any size, and a recording of 50,000 pods
is 300 MB. Rule: object `i` depends on `i` and the shape alone, and objects carry what real ones do (managedFields,
environment, statuses), because the bytes are what a first sync costs.

The cluster is fragmented: every node runs something, except the empty ones, so that gangs of whole nodes wait. Pods:
a fifth belong to DaemonSets (one pinned to each node by affinity, as the DaemonSet controller does), a fifth to other
schedulers, the others to gangs that run, and to those that wait, every second one of these behind our scheduling gate.
"""

import json
from collections.abc import Iterator

import msgspec

ZONES = 40
"""As many as `raw_node` deals its nodes out over."""
STARVE_LIMIT_S = 1800.0
"""What measured services are set to: half an hour in which gangs starve one after the other."""
GATE = "netgang.io/gang"
EMPTY_ZONES = 10
EMPTY_PER_ZONE = 9
"""Nodes without gang members in each of the zones with room: one gang of eight whole nodes, and a spare."""
_RUNNING_SIZE = 10
_SPREAD_EVERY = 20
"""Every so many-th waiting gang may be spread over zones."""
_TEMPLATES = 12
_CREATED = "2026-01-01T00:00:00Z"
_FIELDS: dict[str, object] = {f"f:field-{k}": {"f:nested": {}, "f:other": {}} for k in range(30)}
_MANAGED = [{"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": _FIELDS}]
"""1.5 KB of managedFields, as real objects have"""
_GROUP = "pod-group.scheduling.sigs.k8s.io"


class Shape(msgspec.Struct, frozen=True):
    """How big the cluster is."""

    nodes: int
    pods: int
    waiting: int
    """Gangs that wait."""
    size: int = 8
    """Members of each."""

    @property
    def daemons(self) -> int:
        """Pods of DaemonSets."""
        return self.pods // 5

    @property
    def foreign(self) -> int:
        """Pods of other schedulers."""
        return self.pods // 5

    @property
    def members(self) -> int:
        """Members of gangs that run."""
        return self.pods - self.daemons - self.foreign - self.waiting * self.size


def node_name(i: int) -> str:
    """The node's name, as `raw_node` writes it.

    >>> node_name(7)
    'node-00007'
    """
    return f"node-{i:05d}"


def nodes(shape: Shape) -> dict[tuple[str, str], bytes]:
    """Every node by the API's key."""
    return {("", node_name(i)): raw_node(i) for i in range(shape.nodes)}


def pods(shape: Shape) -> dict[tuple[str, str], bytes]:
    """Every pod by the API's key."""
    named = ((pod["metadata"], pod) for pod in _pods(shape))
    return {(of["namespace"], of["name"]): json.dumps(pod, separators=(",", ":")).encode() for of, pod in named}  # type: ignore[index]


def _pods(shape: Shape) -> Iterator[dict[str, object]]:
    busy = [i for i in range(shape.nodes) if not is_empty(i)]
    for i in range(shape.daemons):
        yield daemon(i, node_name(i % shape.nodes))
    for i in range(shape.foreign):
        yield foreign(i, node_name(busy[i % len(busy)]))
    gpus = max(1, 7 * len(busy) // max(shape.members, 1))
    for i in range(shape.members):
        yield member(i, node_name(busy[i % len(busy)]), gpus=gpus)
    for gang in range(shape.waiting):
        for index in range(shape.size):
            yield waiting(shape, gang, index)


def is_empty(i: int) -> bool:
    """Whether node `i` runs nothing but DaemonSet pods."""
    return i % ZONES < EMPTY_ZONES and i // ZONES < EMPTY_PER_ZONE


def daemon(i: int, node: str) -> dict[str, object]:
    """A DaemonSet's pod, pinned to its node by affinity."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return raw_pod(
        f"agent-{i:06d}", "kube-system", owner="DaemonSet", uid=f"agent-{i}", node=node,
        requests={"cpu": "100m", "memory": "128Mi"}, affinity={"nodeAffinity": required},
    )  # fmt: skip


def foreign(i: int, node: str | None) -> dict[str, object]:
    """A pod of the default scheduler; `None`: still pending."""
    requests = {"cpu": "250m", "memory": f"{64 * (1 + i % 8)}Mi"}
    return raw_pod(f"web-{i:06d}", f"shop-{i % 40}", owner="ReplicaSet", uid=f"web-{i}", node=node, requests=requests)


def member(i: int, node: str, *, gpus: int = 1) -> dict[str, object]:
    """A member of a gang of ten that runs."""
    gang, index = divmod(i, _RUNNING_SIZE)
    requests = {"cpu": "2", "memory": f"{8 + gang % _TEMPLATES}Gi", "nvidia.com/gpu": str(gpus)}
    labels = _job_labels(f"run-{gang:05d}", index, minimum=4)
    return raw_pod(
        f"run-{gang:05d}-worker-{index}", f"team-{gang % 50}", owner="TFJob", uid=f"run-{gang}-{index}", node=node,
        requests=requests, labels=labels, scheduler="netgang",
    )  # fmt: skip


def waiting(shape: Shape, gang: int, index: int) -> dict[str, object]:
    """A member of a gang that wants whole nodes."""
    requests = {"cpu": "32", "memory": f"{64 + gang % _TEMPLATES}Gi", "nvidia.com/gpu": "8"}
    may_spread = gang % _SPREAD_EVERY == _SPREAD_EVERY // 2
    return raw_pod(
        f"wait-{gang:04d}-worker-{index}", f"team-{gang % 50}", owner="PyTorchJob", uid=f"wait-{gang}-{index}",
        node=None, requests=requests, labels=_job_labels(f"wait-{gang:04d}", index, minimum=shape.size),
        scheduler="netgang", gated=is_gated(gang),
        annotations={"netgang.io/zone-policy": "preferred"} if may_spread else {},
    )  # fmt: skip


def is_gated(gang: int) -> bool:
    """Whether a waiting gang waits behind our scheduling gate."""
    return gang % 2 == 1


def mesh(shape: Shape, *, round_number: int = 0) -> bytes:
    """A mesh file: full meshes of the first nodes of each zone; another round has other values."""
    links = []
    for zone in range(ZONES):
        ends = [node_name(i) for i in range(zone, shape.nodes, ZONES)][:30]
        for a, source in enumerate(ends):
            for b, target in enumerate(ends):
                if a != b:
                    worse = 1.0 + 1e-3 * ((a * 31 + b * 17 + round_number * 7) % 97)
                    value = {"loss_ratio": 1e-4 * worse, "delay_ms": 0.3 * worse, "throughput_bps": 10e9 / worse}
                    links.append({"source": source, "target": target, **value})
    return json.dumps(links).encode()


def _job_labels(job: str, index: int, *, minimum: int) -> dict[str, str]:
    kubeflow = {"job-name": job, "replica-type": "worker", "replica-index": str(index)}
    labels = {f"training.kubeflow.org/{key}": value for key, value in kubeflow.items()}
    return labels | {f"{_GROUP}/name": job, f"{_GROUP}/min-available": str(minimum)}


def raw_pod(
    name: str,
    namespace: str,
    *,
    owner: str,
    uid: str,
    node: str | None,
    requests: dict[str, str],
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    scheduler: str = "default-scheduler",
    affinity: dict[str, object] | None = None,
    gated: bool = False,
    created: str = _CREATED,
) -> dict[str, object]:
    """A pod of about 5 KB: running if it has a node, else pending."""
    resources = {"requests": requests, "limits": requests}
    container = {
        "name": "main",
        "image": "registry.example/train:1",
        "resources": resources,
        "env": [{"name": f"SETTING_{k}", "value": "x" * 24} for k in range(18)],
    }
    tolerations = [
        {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for what in ("not-ready", "unreachable")
    ]
    spec: dict[str, object] = {"schedulerName": scheduler, "priority": 0, "containers": [container]}
    spec["tolerations"] = tolerations
    if affinity:
        spec["affinity"] = affinity
    if gated:
        spec["schedulingGates"] = [{"name": GATE}]
    status: dict[str, object] = {"phase": "Pending"}
    if node is not None:
        spec["nodeName"] = node
        kinds = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        running = {"name": "main", "ready": True, "resources": resources, "allocatedResources": requests}
        status = {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [{"type": kind, "status": "True", "lastTransitionTime": _CREATED} for kind in kinds],
            "containerStatuses": [running],
        }
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": uid,
        "resourceVersion": "1",
        "creationTimestamp": created,
        "labels": labels or {"app": name.partition("-")[0]},
        "annotations": annotations or {},
        "ownerReferences": [{"kind": owner, "name": name.rpartition("-")[0], "uid": "u", "controller": True}],
        "managedFields": _MANAGED,
    }
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": status}


def raw_node(i: int) -> bytes:
    """A node as the API server lists it, without the list of images."""
    name = f"node-{i:05d}"
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": f"zone-{i % 40:02d}",
        "topology.kubernetes.io/region": "region-1",
        "node.kubernetes.io/instance-type": "gpu-8",
    }
    conditions = [
        {"type": kind, "status": str(kind == "Ready"), "lastHeartbeatTime": "2026-11-20T10:00:00Z", "reason": "Kubelet"}
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]
    amounts = {"cpu": "63800m", "memory": f"{263_000_000 + i}Ki", "pods": "110", "nvidia.com/gpu": "8"}
    addresses = {"InternalIP": f"10.{i >> 8}.{i & 255}.1", "Hostname": name}
    node = {
        "metadata": {
            "name": name,
            "uid": f"{i:036d}",
            "resourceVersion": str(1_000_000 + i),
            "creationTimestamp": _CREATED,
            "labels": labels,
            "managedFields": _MANAGED,
        },
        "spec": {"podCIDR": "10.0.0.0/24", "providerID": "cloud://" + name},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": conditions,
            "addresses": [{"type": kind, "address": address} for kind, address in addresses.items()],
            "nodeInfo": {"kernelVersion": "6.1.0", "containerRuntimeVersion": "containerd://2.1"},
        },
    }
    return json.dumps(node).encode()
