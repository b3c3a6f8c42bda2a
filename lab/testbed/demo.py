"""The cluster for people: the paper's 36 nodes, netgang, two kube-schedulers, and three things to try.

Why: a newcomer should see a gang start whole on a real kube-scheduler within a minute of `make cluster`.
Rule: it runs the files that users install (scheduler-config/, manifests/, examples/), prints what it started and
where, and leaves nothing behind when it is stopped.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from lab.testbed.cluster import JOB_CONTROLLERS, Cluster
from lab.testbed.errors import ControlPlaneError
from lab.testbed.objects import zone_nodes
from lab.testbed.parts.agents import start_agents
from lab.testbed.parts.service import ROOT, Netgang, install_rights, start_netgang, start_second_scheduler
from lab.testbed.processes.network import LOOPBACK, free_ports
from lab.testbed.programs.build import ensure_all
from lab.testbed.programs.catalogue import CORE
from lab.testbed.programs.progress import ShownProgress
from lab.testbed.shell import from_here, shell_file

EXAMPLES = ROOT / "examples"
SHELL_FILE = ROOT / "build" / "cluster.env"
"""What a second terminal sources; docs/start/tutorial.md names it."""
MESH = EXAMPLES / "mesh" / "paper-testbed.json"
"""The paper's test bed, with its three impaired nodes in zone D, stands for a mesh that was measured before."""
PROBED_NODES = 64
"""Agents run on so many nodes at most; a larger cluster has the mesh alone."""
_PROBE = {"enabled": True, "packets_per_s": 4.0}  # a twenty-fifth of the usual: the machine is shared with much else


def settings(mesh: Path, *, reports_port: int | None) -> dict[str, Any]:
    """netgang's; with a port for reports, loss and delay are from agents as soon as the mesh file is a minute old."""
    ages: dict[str, float | None] = dict.fromkeys(("loss", "delay", "throughput"))  # the mesh must not fade
    if reports_port is None:
        return {"network": {"sources": [{"kind": "file", "path": str(mesh)}], "soft_ttl_s": ages, "hard_ttl_s": ages}}
    soft, hard = ages | {"loss": 60.0, "delay": 60.0}, ages | {"loss": 300.0, "delay": 300.0}
    network = {"sources": [{"kind": "file", "path": str(mesh)}], "soft_ttl_s": soft, "hard_ttl_s": hard}
    return {"network": network, "reports": {"port": reports_port}, "probe": _PROBE}


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

    Raises ControlPlaneError if netgang's port is taken, a part cannot start, or one ends by itself later.
    """
    if shape.with_netgang:
        check_port(port)
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
        url = netgang.url if netgang else None
        variables = {"KUBECONFIG": str(cluster.kubeconfig())} | ({"NETGANG_URL": url} if url else {})
        with shell_file(SHELL_FILE, directory=cluster.directory, variables=variables):
            console.rule("the cluster is up; Ctrl-C stops it")
            said = what_to_try(url, logs=cluster.directory / "logs")
            console.print(said, highlight=False, markup=False, soft_wrap=True)  # lines to copy stay whole
            while True:
                cluster.check_alive()
                await asyncio.sleep(1.0)
    except asyncio.CancelledError:  # a signal asked for the end, and an orderly end is a success
        console.print("stopping …")
    finally:
        await cluster.stop()
        console.print("stopped: no process is left, the kubeconfig is gone")


def check_port(port: int) -> None:
    """Refuse a port that is in use, before minutes are spent on building: ControlPlaneError."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((LOOPBACK, port))
        except OSError as taken:
            raise ControlPlaneError(
                f"port {port} is taken: is `make run` or another cluster still up? Stop it, or choose another port:\n"
                f"  .venv/bin/python -m lab.testbed up --port {port + 1}"
            ) from taken


def what_to_try(url: str | None, *, logs: Path) -> str:
    """Lines for the terminal: what to type in another one, and where to look. `url` is netgang's, if it runs."""
    typed = {  # command → what it is for
        f"source {from_here(SHELL_FILE)}": "kubectl and netgang, for this cluster",
        "kubectl get nodes -L topology.kubernetes.io/zone": "",
    }
    look: list[str] = []
    if url is not None:
        typed |= {
            f"kubectl apply -f {from_here(EXAMPLES / 'case1.yaml')}": "six pods, all or none, in zone D",
            "kubectl get pods -n demo -o wide": "",
            "netgang explain demo/case1": "why they are where they are",
        }
        look = [f"The page: {url}/ – all documents: {url}/docs – step by step: docs/start/tutorial.md", ""]
    lines = [f"  {command:<40} # {why}" if why else f"  {command}" for command, why in typed.items()]
    return "\n".join(["In a second terminal, in this folder:", "", *lines, "", *look, f"Logs: {logs}"])


async def _populate(console: Console, cluster: Cluster, shape: Shape, *, port: int) -> Netgang | None:
    """Nodes, the PodGroup definition, the schedulers and netgang."""
    with ShownProgress(console) as progress:
        with progress.step("PodGroup definition"):
            await cluster.install("podgroup-crd")
        count = shape.nodes_per_zone * len(shape.zones)
        with progress.step(f"{count} nodes"):
            zones = dict.fromkeys(shape.zones, shape.nodes_per_zone)
            nodes = zone_nodes(zones, cpu=shape.cpu, memory=shape.memory, gpu=shape.gpu)
            await cluster.add_nodes(nodes)
        with progress.step("kube-scheduler (default-scheduler)"):
            await cluster.start_scheduler()
        if not shape.with_netgang:
            return None
        with progress.step("netgang"):
            await install_rights(cluster)
            mesh = cluster.directory / MESH.name
            shutil.copyfile(MESH, mesh)  # so that it is as old as the cluster
            can_probe = sys.platform == "linux" and count <= PROBED_NODES  # elsewhere 127.0.0.1 is the only loopback
            probed = [str(one["metadata"]["name"]) for one in nodes if can_probe]
            reports_port = free_ports(1)[0] if probed else None
            netgang = await start_netgang(cluster, settings(mesh, reports_port=reports_port), port=port)
        with progress.step("kube-scheduler (netgang)"):
            await start_second_scheduler(cluster, netgang.url)
        if probed:
            with progress.step(f"{count} agents of the probe"):
                url = f"http://{LOOPBACK}:{reports_port}"
                await start_agents(cluster, probed, url=url, ready_url=f"{netgang.url}/readyz", mesh=mesh)
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
