"""The cluster for people: the paper's 36 nodes, netgang, two kube-schedulers, and three things to try.

Why: a newcomer should see a gang start whole on a real kube-scheduler within a minute of `make cluster`.
Rule: it runs the files that users install (scheduler-config/, manifests/, examples/), prints what it started and
where, and leaves nothing behind when it is stopped.
"""

import asyncio
import shlex
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from lab.testbed.cluster import JOB_CONTROLLERS, Cluster
from lab.testbed.errors import ControlPlaneError
from lab.testbed.objects import zone_nodes
from lab.testbed.parts.service import ROOT, install_rights, start_netgang, start_second_scheduler
from lab.testbed.processes.network import LOOPBACK
from lab.testbed.programs.build import ensure_all, program_path
from lab.testbed.programs.catalogue import CORE

EXAMPLES = ROOT / "examples"
SHELL_FILE = ROOT / "build" / "cluster.env"
"""What a second terminal sources; docs/start/tutorial.md names it."""
MESH = EXAMPLES / "mesh" / "paper-testbed.json"
"""The paper's test bed, with its three impaired nodes in zone D, stands for a mesh that was measured before."""
NODES = zone_nodes(dict.fromkeys("ABCD", 9), cpu="16", memory="64Gi", gpu=2)
"""The paper's test bed, as in examples/snapshot."""


def settings(mesh: Path) -> dict[str, Any]:
    """netgang's: what the mesh file says does not fade."""
    ages: dict[str, float | None] = dict.fromkeys(("loss", "delay", "throughput"))
    return {"network": {"sources": [{"kind": "file", "path": str(mesh)}], "soft_ttl_s": ages, "hard_ttl_s": ages}}


async def up(console: Console, *, port: int) -> None:
    """Start everything, say what to try, wait for Ctrl-C or SIGTERM, stop everything.

    Raises ControlPlaneError if netgang's port is taken, a part cannot start, or one ends by itself later.
    """
    check_port(port)
    ensure_all((*CORE, "kube-controller-manager"))  # minutes when cold; Ctrl-C ends that the usual way
    cluster = Cluster(controllers=JOB_CONTROLLERS)
    _stop_on_signals()
    try:
        with _step(console, "etcd, kube-apiserver, kwok"):
            await cluster.start()
        url = await _populate(console, cluster, port=port)
        variables = {"KUBECONFIG": str(cluster.kubeconfig()), "NETGANG_URL": url}
        with _shell_file(cluster.directory, variables):
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


def what_to_try(url: str, *, logs: Path) -> str:
    """Lines for the terminal: what to type in another one, and where to look. `url` is netgang's."""
    typed = {  # command → what it is for
        f"source {_from_here(SHELL_FILE)}": "kubectl and netgang, for this cluster",
        "kubectl get nodes -L topology.kubernetes.io/zone": "",
        f"kubectl apply -f {_from_here(EXAMPLES / 'case1.yaml')}": "six pods, all or none, in zone D",
        "kubectl get pods -n demo -o wide": "",
        "netgang explain demo/case1": "why they are where they are",
    }
    look = f"The page: {url}/ – all documents: {url}/docs – step by step: docs/start/tutorial.md"
    lines = [f"  {command:<40} # {why}" if why else f"  {command}" for command, why in typed.items()]
    return "\n".join(["In a second terminal, in this folder:", "", *lines, "", look, "", f"Logs: {logs}"])


@contextmanager
def _shell_file(directory: Path, variables: Mapping[str, str]) -> Iterator[None]:
    """While the context lasts: a file for bash or zsh that points kubectl and netgang of that terminal to this cluster.

    Why: nobody should copy paths of temporary directories, or find old clusters in ~/.kube afterwards.
    """
    commands = directory / "bin"
    commands.mkdir()
    (commands / "kubectl").symlink_to(program_path("kubectl"))
    for program in Path(sys.executable).parent.glob("*netgang"):
        (commands / program.name).symlink_to(program)
    values = {**variables, "KUBECACHEDIR": str(directory / "kubectl-cache")}
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in values.items()]
    SHELL_FILE.parent.mkdir(exist_ok=True)
    SHELL_FILE.write_text("".join([*lines, f'export PATH={shlex.quote(str(commands))}:"$PATH"\n']))
    try:
        yield
    finally:
        SHELL_FILE.unlink(missing_ok=True)


def _from_here(path: Path) -> str:
    """The path as it is typed in the working directory."""
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


async def _populate(console: Console, cluster: Cluster, *, port: int) -> str:
    """Nodes, the PodGroup definition, the schedulers and netgang, whose URL this gives."""
    with _step(console, "PodGroup definition"):
        await cluster.install("podgroup-crd")
    with _step(console, f"{len(NODES)} nodes"):
        await cluster.add_nodes(NODES)
    with _step(console, "kube-scheduler (default-scheduler)"):
        await cluster.start_scheduler()
    with _step(console, "netgang"):
        await install_rights(cluster)
        mesh = cluster.directory / MESH.name
        shutil.copyfile(MESH, mesh)  # so that it is as old as the cluster
        netgang = await start_netgang(cluster, settings(mesh), port=port)
    with _step(console, "kube-scheduler (netgang)"):
        await start_second_scheduler(cluster, netgang.url)
    return netgang.url


@contextmanager
def _step(console: Console, label: str) -> Iterator[None]:
    """Say how long a start took."""
    began_s = time.monotonic()
    yield
    console.print(f"[green]started[/green] {label} in {time.monotonic() - began_s:.1f} s", highlight=False)


def _stop_on_signals() -> None:
    """Make the first SIGINT or SIGTERM cancel this task; later ones do not disturb the stopping."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, lambda: task.cancelling() or task.cancel())
