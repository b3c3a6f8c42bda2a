"""The cluster for people: the paper's 36 nodes, netgang, two kube-schedulers, and three things to try.

Why: a newcomer should see a gang start whole on a real kube-scheduler within a minute of `make cluster`.
Rule: it runs the files that users install (scheduler-config/, manifests/, examples/), prints what it started and
where, and leaves nothing behind when it is stopped.
"""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass

from rich.console import Console

from testbed.build import ensure_all, program_path
from testbed.cluster import JOB_CONTROLLERS, Cluster
from testbed.objects import zone_nodes
from testbed.programs import CORE
from testbed.progress import ShownProgress
from testbed.service import ROOT, Netgang, install_rights, start_netgang, start_second_scheduler

EXAMPLES = ROOT / "examples"
SETTINGS = {
    "network": {
        "sources": [{"kind": "file", "path": str(EXAMPLES / "mesh" / "paper-testbed.json")}],
        "soft_ttl_s": None,  # the file is never measured again, and must not fade while somebody tries things
        "hard_ttl_s": None,
    }
}
"""netgang measures nothing here: the paper's test bed, with its three impaired nodes in zone D, stands for a mesh."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the demo cluster looks like: nodes per zone, what each node has, and which parts run.

    The defaults are the network paper's test bed, as in examples/snapshot; without jobs kube-controller-manager is
    neither built nor started, so that only plain pods run.
    """

    nodes_per_zone: int = 9
    zones: tuple[str, ...] = ("A", "B", "C", "D")
    cpu: str = "16"
    memory: str = "64Gi"
    gpu: int = 2
    with_jobs: bool = True
    with_netgang: bool = True


async def up(console: Console, *, shape: Shape, port: int) -> None:
    """Start everything, say what to try, wait for Ctrl-C or SIGTERM, stop everything.

    Raises ControlPlaneError if a part cannot start, or ends by itself later.
    """
    with ShownProgress(console) as progress:
        controllers = JOB_CONTROLLERS if shape.with_jobs else ()
        built = (*CORE, *(["kube-controller-manager"] if controllers else []))
        ensure_all(built, reporter=progress)  # minutes when cold; Ctrl-C ends that the usual way
    cluster = Cluster(controllers=controllers)
    _stop_on_signals()
    try:
        with ShownProgress(console) as progress, progress.step("etcd, kube-apiserver, kwok"):
            await cluster.start()
        netgang = await _populate(console, cluster, shape, port=port)
        console.rule("the cluster is up; Ctrl-C stops it")
        console.print(what_to_try(cluster, netgang), highlight=False, soft_wrap=True)  # lines to copy stay whole
        while True:
            cluster.check_alive()
            await asyncio.sleep(1.0)
    except asyncio.CancelledError:  # a signal asked for the end, and an orderly end is a success
        console.print("stopping …")
    finally:
        await cluster.stop()
        console.print("stopped: no process is left, the kubeconfig is gone")


def what_to_try(cluster: Cluster, netgang: Netgang | None) -> str:
    """Lines for the terminal: environment, then commands to paste."""
    lines = [
        f"export KUBECONFIG={cluster.kubeconfig()}",
        f"alias kubectl={program_path('kubectl')}",
        "",
        "kubectl get nodes -L topology.kubernetes.io/zone",
    ]
    if netgang is not None:
        lines += [
            f"kubectl apply -f {EXAMPLES / 'case1.yaml'}   # six pods, all or none, in zone D; never on its bad links",
            "kubectl get pods -n demo -o wide -w",
            f"curl -s {netgang.url}/v1/plan   # who was admitted where, and why not; {netgang.url}/docs has the rest",
        ]
    lines += ["", f"logs: {cluster.directory / 'logs'}"]
    return "\n".join(lines)


async def _populate(console: Console, cluster: Cluster, shape: Shape, *, port: int) -> Netgang | None:
    """Nodes, the PodGroup definition, the schedulers and netgang."""
    with ShownProgress(console) as progress:
        with progress.step("PodGroup definition"):
            await cluster.install("podgroup-crd")
        count = shape.nodes_per_zone * len(shape.zones)
        with progress.step(f"{count} nodes"):
            zones = dict.fromkeys(shape.zones, shape.nodes_per_zone)
            await cluster.add_nodes(zone_nodes(zones, cpu=shape.cpu, memory=shape.memory, gpu=shape.gpu))
        with progress.step("kube-scheduler (default-scheduler)"):
            await cluster.start_scheduler()
        if not shape.with_netgang:
            return None
        with progress.step("netgang"):
            await install_rights(cluster)
            netgang = await start_netgang(cluster, SETTINGS, port=port)
        with progress.step("kube-scheduler (netgang)"):
            await start_second_scheduler(cluster, netgang)
        return netgang


def _stop_on_signals() -> None:
    """Make the first SIGINT or SIGTERM cancel this task; later ones do not disturb the stopping."""
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    asked: list[signal.Signals] = []

    def ask(number: signal.Signals) -> None:
        asked.append(number)
        if len(asked) == 1 and task is not None:
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ask, number)
