"""Write the demonstration's cluster and requests: examples/snapshot/paper-testbed.json and examples/requests/*.json.

Why a script: 36 nodes and 47 pods by hand hide mistakes, and a test runs it again and compares. Rule: no clock, no
chance, the same bytes every time. The cluster is the test bed of the network paper: node1…node36, nine in each of the
zones A to D (node28…node36 = D), a perfSONAR pod on each. Two gangs wait:

- `demo/case1`: 6 pods of 10 CPU, one per node, near zone D; in D three nodes have bad links (examples/mesh);
- `demo/tf-smoke-gpu`: 1 ps and 4 workers of 2 GPUs; the cluster has 4 GPUs, so all five pods wait.

Run it: .venv/bin/python examples/make_snapshot.py
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

Object: TypeAlias = dict[str, Any]

HERE = Path(__file__).parent
SNAPSHOT = HERE / "snapshot/paper-testbed.json"
NODES = tuple(f"node{number}" for number in range(1, 37))
GPU_NODES = ("node1", "node2")
CREATED = "2026-11-02T09:00:00Z"
SUBMITTED = {"case1": "2026-11-02T10:00:00Z", "tf-smoke-gpu": "2026-11-02T10:05:00Z"}
GPU = "nvidia.com/gpu"


def snapshot() -> Object:
    """What `kubectl get nodes,pods,podgroups -A -o json` would print for the demonstration."""
    agents = [perfsonar_pod(node) for node in NODES]
    return {
        "apiVersion": "v1",
        "items": [*map(cluster_node, NODES), *case1(), *agents, *tf_smoke_gpu(), tf_smoke_gpu_group()],
        "kind": "List",
        "metadata": {"resourceVersion": ""},
    }


def requests() -> Mapping[str, Object]:
    """File name → request as kube-scheduler sends it (nodeCacheCapable: names instead of nodes)."""
    first, (ps, worker, *_) = case1()[0], tf_smoke_gpu()
    return {
        "filter-case1.json": args(first),
        "prioritize-case1.json": args(first),
        "bind-case1.json": {
            "PodName": first["metadata"]["name"],
            "PodNamespace": first["metadata"]["namespace"],
            "PodUID": first["metadata"]["uid"],
            "Node": "node28",
        },
        "filter-tf-smoke-gpu.json": args(worker),
        "filter-tf-smoke-gpu-ps.json": args(ps),
    }


def args(pod: Object) -> Object:
    """ExtenderArgs for `pod` and all nodes."""
    return {"Pod": pod, "Nodes": None, "NodeNames": list(NODES)}


def cluster_node(name: str) -> Object:
    """A node of 16 CPU and 64 GiB; the first two have 2 GPUs each."""
    number = int(name.removeprefix("node"))
    room = {"cpu": "16", "memory": "64Gi", "pods": "110", **({GPU: "2"} if name in GPU_NODES else {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "creationTimestamp": CREATED,
            "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "ABCD"[(number - 1) // 9]},
            "name": name,
            "resourceVersion": str(number),
            "uid": name,
        },
        "spec": {},
        "status": {
            "addresses": [
                {"address": f"192.0.2.{number}", "type": "InternalIP"},
                {"address": name, "type": "Hostname"},
            ],
            "allocatable": room,
            "capacity": room,
            "conditions": [{"reason": "KubeletReady", "status": "True", "type": "Ready"}],
        },
    }


def perfsonar_pod(node: str) -> Object:
    """The measurement agent that runs on every node: load of another scheduler."""
    return pod(
        f"perfsonar-{node}",
        namespace="perfsonar",
        requests={"cpu": "500m", "memory": "512Mi"},
        spec={"nodeName": node, "schedulerName": "default-scheduler"},
        status={"phase": "Running"},
    )


def case1() -> list[Object]:
    """Test case I of the paper: six pods that need a node each."""
    return [
        pod(
            f"case1-{index}",
            labels={
                "pod-group.scheduling.sigs.k8s.io/name": "case1",
                "pod-group.scheduling.sigs.k8s.io/min-available": "6",
            },
            annotations={"netgang.io/near": "D"},
            requests={"cpu": "10", "memory": "8Gi"},
            created=SUBMITTED["case1"],
        )
        for index in range(6)
    ]


def tf_smoke_gpu() -> list[Object]:
    """The pods of a TFJob, as the training operator makes them: a ps without GPU and four workers with two each."""
    members = [("ps", 0, 0), *(("worker", index, 2) for index in range(4))]
    return [
        pod(
            f"tf-smoke-gpu-{role}-{index}",
            labels={
                "scheduling.x-k8s.io/pod-group": "tf-smoke-gpu",
                "training.kubeflow.org/job-name": "tf-smoke-gpu",
                "training.kubeflow.org/operator-name": "tfjob-controller",
                "training.kubeflow.org/replica-index": str(index),
                "training.kubeflow.org/replica-type": role,
            },
            requests={"cpu": "1", "memory": "2Gi", **({GPU: str(gpus)} if gpus else {})},
            created=SUBMITTED["tf-smoke-gpu"],
        )
        for role, index, gpus in members
    ]


def tf_smoke_gpu_group() -> Object:
    """The PodGroup that the training operator makes for the TFJob."""
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {
            "creationTimestamp": SUBMITTED["tf-smoke-gpu"],
            "name": "tf-smoke-gpu",
            "namespace": "demo",
            "resourceVersion": "1",
            "uid": "demo-tf-smoke-gpu",
        },
        "spec": {"minMember": 5},
    }


def pod(
    name: str,
    *,
    requests: Mapping[str, str],
    namespace: str = "demo",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    created: str = CREATED,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> Object:
    """A pod of one container, waiting for scheduler netgang unless `spec` says otherwise; its uid can be read."""
    limits = {GPU: requests[GPU]} if GPU in requests else {}
    resources = {"requests": dict(requests), **({"limits": limits} if limits else {})}
    marks = {key: dict(value) for key, value in (("labels", labels), ("annotations", annotations)) if value}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **marks,
            "creationTimestamp": created,
            "name": name,
            "namespace": namespace,
            "resourceVersion": "1",
            "uid": f"{namespace}-{name}",
        },
        "spec": {
            "containers": [{"image": "registry.invalid/trainer:1", "name": "main", "resources": resources}],
            "priority": 0,
            "schedulerName": "netgang",
            **(spec or {}),
        },
        "status": {"phase": "Pending", **(status or {})},
    }


def files() -> dict[Path, str]:
    """Every generated file with its content."""
    written = {SNAPSHOT: snapshot(), **{HERE / "requests" / name: body for name, body in requests().items()}}
    return {path: json.dumps(content, indent=1) + "\n" for path, content in written.items()}


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text)
