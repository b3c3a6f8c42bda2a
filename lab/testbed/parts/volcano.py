"""Volcano's scheduler as a part of the cluster, without its controllers and webhooks.

Why alone: what is compared is how pods are placed, not Volcano's jobs and queues. Rule: it runs with the settings of
its own chart. What its controllers would do for it is done here: the default queue is open, and each gang is a PodGroup
that the caller creates.
"""

import shutil

from lab.testbed.api import Api, Object
from lab.testbed.cluster import Cluster
from lab.testbed.processes.network import LOOPBACK, free_ports
from lab.testbed.processes.process import Child
from lab.testbed.programs.build import ensure_asset, ensure_program

VOLCANO = "volcano"
"""The scheduler's name in pods."""
PROGRAM = "vc-scheduler"
GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
API = "scheduling.volcano.sh/v1beta1"
_QUEUE = "default"


async def install_volcano(cluster: Cluster, api: Api) -> None:
    """Install its kinds, and open the default queue: one that is not open places nothing, and no component says so."""
    await cluster.install("volcano-crds")
    await api.create({"apiVersion": API, "kind": "Queue", "metadata": {"name": _QUEUE}, "spec": {"weight": 1}})
    await api.patch("Queue", _QUEUE, {"status": {"state": "Open"}}, subresource="status")


async def start_volcano(cluster: Cluster, *, name: str) -> Child:
    """Start it and wait until it answers; it looks at all nodes for a pod.

    It watches the directory of its settings for changes, so they get one in which nothing else is written.
    """
    settings = cluster.directory / name
    settings.mkdir(exist_ok=True)
    [source] = ensure_asset("volcano-settings").iterdir()
    (port,) = free_ports(1)
    return await cluster.start_part(
        name,
        [
            ensure_program(PROGRAM),
            f"--kubeconfig={cluster.kubeconfig()}",
            f"--scheduler-conf={shutil.copy(source, settings)}",
            "--percentage-nodes-to-find=100",
            "--leader-elect=false",
            "--kube-api-qps=5000",  # as kube-scheduler has them on the test bed
            "--kube-api-burst=10000",
            "--cache-dumper=false",
            "--enable-healthz",
            f"--healthz-address={LOOPBACK}:{port}",
        ],
        ready_url=f"http://{LOOPBACK}:{port}/healthz",
    )


def volcano_group(name: str, min_member: int, *, namespace: str = "default") -> Object:
    """A PodGroup of Volcano's in the default queue; its pods name it in GROUP_ANNOTATION."""
    spec = {"minMember": min_member, "queue": _QUEUE}
    return {"apiVersion": API, "kind": "PodGroup", "metadata": {"name": name, "namespace": namespace}, "spec": spec}
