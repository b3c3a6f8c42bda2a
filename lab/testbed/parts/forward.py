"""A pod in whose place a running netgang is: `kubectl port-forward` and `kubectl logs` end at the process.

Why: people reach netgang by way of the API server and a kubelet, and both check rights and names on that way.
Rule: the kubelet's part is kwok's, whose port-forward and log servers are the ones that kubelets and container runtimes
use. The pod is made of the installed Deployment's template, so it is found by the installed labels.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import yaml

from lab.testbed.api import Api
from lab.testbed.cluster import INSTALLED_IN, Cluster
from lab.testbed.objects import node
from lab.testbed.parts.installed import installed_object
from lab.testbed.parts.service import Netgang
from lab.testbed.processes.network import LOOPBACK, free_ports
from lab.testbed.programs.build import ensure_program

PORT = 8889
"""The installed port for people."""
POD = "netgang-0"
_PART = "kubelet"
_KIND = {"apiVersion": "kwok.x-k8s.io/v1alpha1", "metadata": {"name": "netgang"}}


@asynccontextmanager
async def pod_of(
    cluster: Cluster, api: Api, netgang: Netgang, *, machine: str = "kubelet-machine"
) -> AsyncIterator[None]:
    """While the block runs there is the pod netgang-0, on a node whose kubelet leads to this netgang."""
    (port,) = free_ports(1)
    directory = cluster.directory
    log = directory / "netgang-0.log"
    log.write_text(_as_a_runtime_writes(netgang.part.log))
    files = {"forward.yaml": _forwards(netgang), "logs.yaml": _logs(log)}
    for name, document in files.items():
        (directory / name).write_text(yaml.safe_dump(document))
    stages = sorted((directory / "stages").iterdir())
    await cluster.start_part(
        _PART,
        [
            ensure_program("kwok"),
            f"--kubeconfig={cluster.kubeconfig()}",
            "--manage-nodes-with-label-selector=testbed.netgang.io/none",
            f"--server-address={LOOPBACK}:{port}",
            *(f"--config={one}" for one in (*(directory / name for name in files), *stages)),
        ],
        ready_url=f"http://{LOOPBACK}:{port}/healthz",
    )
    place = node(machine, cpu="1", zone="k")
    place["status"]["addresses"] = [{"type": "InternalIP", "address": LOOPBACK}]
    place["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": port}}
    await cluster.add_nodes([place])
    template = installed_object("Deployment")["spec"]["template"]
    labels = {**template["metadata"]["labels"], "netgang.io/role": "leader"}
    meta = {"name": POD, "namespace": INSTALLED_IN, "labels": labels}
    spec = {**template["spec"], "nodeName": machine}
    await api.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    async def phase() -> str:
        return str((await api.get("Pod", POD, namespace=INSTALLED_IN))["status"].get("phase"))

    try:
        await api.until(phase, lambda found: found == "Running", what="netgang's pod runs")
        yield
    finally:  # the cluster may be shared: a node left behind would be one more in the next test
        await api.delete("Pod", POD, namespace=INSTALLED_IN, grace_s=0)
        await api.delete("Node", machine)
        await cluster.remove(_PART)


def _forwards(netgang: Netgang) -> dict[str, object]:
    target = {"address": LOOPBACK, "port": int(netgang.debug_url.rpartition(":")[2])}
    selector = {"matchNamespaces": [INSTALLED_IN]}
    return {
        **_KIND,
        "kind": "ClusterPortForward",
        "spec": {"selector": selector, "forwards": [{"ports": [PORT], "target": target}]},
    }


def _logs(file: Path) -> dict[str, object]:
    logs = [{"containers": ["netgang"], "logsFile": str(file), "follow": False}]
    return {**_KIND, "kind": "ClusterLogs", "spec": {"selector": {"matchNamespaces": [INSTALLED_IN]}, "logs": logs}}


def _as_a_runtime_writes(log: Path) -> str:
    """A process's output in the form in which a container runtime keeps it: time, channel, whole line."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # noqa: TID251 - what a container runtime writes
    return "".join(f"{now} stdout F {line}\n" for line in log.read_text(errors="replace").splitlines())
