"""First sync at full size: how long reading 50,000 pods and 5,000 nodes takes, and what they cost in memory.

Why: a replica that comes up is useless until it has read the cluster, and pods as generated models would take 3 GB
(docs/safety.md S15). The raw lists are made page by page outside the clock, then go the reflector's way: page → items →
records, and one `replace` at the end. Goals: 10 s, 400 MiB for the whole process, 2 ms for a snapshot after one event.
Run `python -m lab.bench.sync`; it prints one JSON line per result.
"""

import argparse
import gc
import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import msgspec

from extender.cache import ClusterCache
from extender.convert import node_from_json, pod_from_json
from scoring.model import Node, Phase, Pod

T = TypeVar("T")
PAGE = 500
GANG_SIZE = 10
DAEMONS_PER_NODE = 2


class _Page(msgspec.Struct):
    items: list[msgspec.Raw]


_page = msgspec.json.Decoder(_Page)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--nodes", type=int, default=5_000)
    options = parser.parse_args()
    print(json.dumps(measure(options.pods, options.nodes)))


def measure(pods: int, nodes: int) -> dict[str, float]:
    """Sync an empty cache with a cluster of that size and time what the service then does all day."""
    cache = ClusterCache()
    node_list, node_s, _ = _read_pages(_pages(nodes, raw_node), node_from_json)
    pod_list, pod_s, pod_bytes = _read_pages(_pages(pods, lambda i: raw_pod(i, nodes)), pod_from_json)
    _, replace_nodes_s = _timed(lambda: cache.nodes.replace(node_list))
    _, replace_s = _timed(lambda: cache.pods.replace(pod_list))
    snapshot, full_s = _timed(cache.snapshot)
    _, relist_s = _timed(lambda: cache.pods.replace(pod_list))
    result = {
        "pods": pods,
        "nodes": nodes,
        "pod_json_bytes": pod_bytes // pods,
        "seconds": node_s + pod_s + replace_nodes_s + replace_s + full_s,
        "convert_us_per_pod": pod_s / pods * 1e6,
        "convert_us_per_node": node_s / nodes * 1e6,
        "replace_ms": replace_s * 1e3,
        "relist_unchanged_ms": relist_s * 1e3,
        "snapshot_ms_full": full_s * 1e3,
        "snapshot_ms_after_one_pod_event": _after_events(cache, [p for p in pod_list if p.group is not None][:200]),
        "snapshot_ms_after_one_node_event": _after_node_event(cache),
        "longest_step_ms": _longest_step(node_list, pod_list),
        "gangs": len(snapshot.gangs),
    }
    gc.collect()
    return {
        name: round(value, 3) for name, value in (result | {"rss_mib": _rss_mib(), "peak_mib": _peak_mib()}).items()
    }


def _read_pages(pages: Iterator[bytes], convert: Callable[[bytes], T]) -> tuple[list[T], float, int]:
    """Decode and reduce page by page, as the reflector does; only one page of raw JSON is alive at a time."""
    records: list[T] = []
    spent_s = 0.0
    size = 0
    for page in pages:
        started_s = perf_counter()
        records.extend(convert(bytes(item)) for item in _page.decode(page).items)
        spent_s += perf_counter() - started_s
        size += len(page)
    return records, spent_s, size


def _pages(count: int, raw: Callable[[int], bytes]) -> Iterator[bytes]:
    for start in range(0, count, PAGE):
        items = b",".join(raw(i) for i in range(start, min(start + PAGE, count)))
        yield b'{"kind":"List","metadata":{"resourceVersion":"1"},"items":[' + items + b"]}"


def _after_events(cache: ClusterCache, pods: list[Pod]) -> float:
    """Median milliseconds of a snapshot right after a gang member turned from running to succeeded."""
    times: list[float] = []
    for pod in pods:
        cache.pods.upsert(replace(pod, phase=Phase.SUCCEEDED))
        times.append(_timed(cache.snapshot)[1] * 1e3)
    return statistics.median(times)


def _after_node_event(cache: ClusterCache) -> float:
    """Milliseconds of a snapshot after one node was cordoned."""
    cache.nodes.upsert(replace(cache.snapshot().table.nodes[0], unschedulable=True))
    return _timed(cache.snapshot)[1] * 1e3


def _longest_step(nodes: list[Node], pods: list[Pod]) -> float:
    """Longest pause of the event loop in milliseconds when the first sync is done in steps (docs/safety.md S15)."""
    cache = ClusterCache()
    cache.nodes.replace(nodes)
    cache.snapshot()
    longest_s = 0.0
    steps = cache.pods.replace_in_steps(pods)
    while True:
        started_s = perf_counter()
        if next(steps, cache) is cache:
            break
        longest_s = max(longest_s, perf_counter() - started_s)
    longest_s = max(longest_s, _timed(cache.snapshot)[1])
    return longest_s * 1e3


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    started_s = perf_counter()
    return work(), perf_counter() - started_s


def _rss_mib() -> float:
    return _status_mib("VmRSS")


def _peak_mib() -> float:
    return _status_mib("VmHWM")


def _status_mib(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


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
        "metadata": _metadata(name, i, labels=labels),
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


def raw_pod(i: int, nodes: int) -> bytes:
    """A running pod of about 4 KB: two in ten belong to a DaemonSet, the others are members of training jobs."""
    node = f"node-{i % nodes:05d}"
    daemon = i % 10 < DAEMONS_PER_NODE
    job = f"job-{i // GANG_SIZE:05d}"
    name = f"agent-{i}" if daemon else f"{job}-worker-{i % GANG_SIZE}"
    labels = {"app": "agent"}
    if not daemon:
        kubeflow = {"job-name": job, "replica-type": "worker", "replica-index": str(i % GANG_SIZE)}
        labels = {f"training.kubeflow.org/{key}": value for key, value in kubeflow.items()}
        labels |= {f"pod-group.scheduling.sigs.k8s.io/{k}": v for k, v in {"name": job, "min-available": "4"}.items()}
    requests = {"cpu": "100m", "memory": "128Mi"} if daemon else {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    resources = {"requests": requests, "limits": requests}
    spec: dict[str, object] = {
        "nodeName": node,
        "schedulerName": "default-scheduler" if daemon else "netgang",
        "priority": 0,
        "containers": [
            {
                "name": "main",
                "image": "registry.example/train:1",
                "resources": resources,
                "env": [{"name": f"SETTING_{k}", "value": "x" * 24} for k in range(18)],
            }
        ],
        "tolerations": [
            {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for what in ("not-ready", "unreachable")
        ],
    }
    if daemon:
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    running = {"name": "main", "containerID": f"containerd://{i:064d}", "ready": True, "allocatedResources": requests}
    conditions = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    pod = {
        "metadata": _metadata(name, i, namespace=f"team-{i // GANG_SIZE % 50}", labels=labels),
        "spec": spec,
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": "2026-11-20T10:00:00Z"} for kind in conditions
            ],
            "containerStatuses": [running | {"resources": resources}],
        },
    }
    return json.dumps(pod).encode()


def _metadata(name: str, i: int, **more: object) -> dict[str, object]:
    """Metadata with an owner and 1.5 KB of managedFields, as real objects have."""
    fields: dict[str, object] = {f"f:field-{k}": {"f:nested": {}, "f:other": {}} for k in range(30)}
    return {
        "name": name,
        "uid": f"{i:036d}",
        "resourceVersion": str(1_000_000 + i),
        "creationTimestamp": "2026-11-20T10:00:00Z",
        "ownerReferences": [{"kind": "TFJob", "name": name, "uid": "u", "controller": True}],
        "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": fields}],
        **more,
    }


if __name__ == "__main__":
    main()
