"""Somebody with a cluster types what the how-tos and the other pages print, by kubectl and helm, in their order.

The API server is a real one, and so are kubectl, helm, netgang and its scheduler. There is no kubelet: netgang is
started here when its Deployment has been applied and stopped before Helm takes it away, a port-forward leads to it by
way of kwok, and the pods of `netgang uninstall` are run by hand.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import pytest
import yaml

from extender.runtime.clock import SystemClock
from lab.testbed.api import Api, Object
from lab.testbed.cluster import INSTALLED_IN, JOB_CONTROLLERS, NETGANG_SCHEDULER, Cluster
from lab.testbed.objects import zone_nodes
from lab.testbed.parts.forward import POD, pod_of
from lab.testbed.parts.helm import find_helm
from lab.testbed.parts.operator import CRDS
from lab.testbed.parts.service import ROOT
from lab.testbed.processes.credentials import service_account
from lab.testbed.processes.network import free_ports
from lab.testbed.programs.build import ensure_asset, ensure_program
from lab.testbed.shell import shell_file
from tests.e2e.people.installed import run_installed
from tests.e2e.stage import say
from tests.fakes.maddash_server import MaddashServer, paper_mesh
from tests.newcomer.reader import Reader, typed_of
from tests.newcomer.site_pages import GANG_JOB, MADDASH, PAGES

UNINSTALL = "netgang-uninstall"
CLONED = ("charts", "examples", "manifests", "scheduler-config")
MORE_SETTINGS = {"elastic": {"enabled": True}}  # of how-to/elastic.md
_BESIDE_LIMIT_S = 60.0


@dataclass(slots=True)
class Site:
    cluster: Cluster
    api: Api
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    begun: bool = False
    began_s: float = field(default_factory=monotonic)

    async def beside(self, command: str) -> None:
        say(f"{monotonic() - self.began_s:5.1f} s  {command}")
        if command == GANG_JOB and not self.begun:
            await self._begin()
        elif command.startswith("helm uninstall "):
            await self.end()

    async def _begin(self) -> None:
        self.begun = True
        own = {"POD_NAME": POD, "POD_NAMESPACE": INSTALLED_IN}
        running = await run_installed(self.cluster, self.api, own, MORE_SETTINGS)
        for name in (running.part.name, NETGANG_SCHEDULER):
            self.stack.push_async_callback(self.cluster.remove, name)
        await self.stack.enter_async_context(pod_of(self.cluster, self.api, running, machine="node5"))

    async def end(self) -> None:
        self.begun = False
        await self.stack.aclose()


@pytest.fixture(scope="module")
def programs() -> dict[str, Path]:
    """Name on PATH → program, built if need be, as `make e2e` has done."""
    jq = shutil.which("jq")
    built = {"helm": find_helm() or ensure_program("helm"), "jq": Path(jq) if jq else ensure_program("gojq")}
    for name in ("kubectl", "kube-controller-manager"):
        ensure_program(name)
    return built


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """Four nodes of one zone, whose room is four pods, and the kinds of which the pages speak; nothing is installed."""
    users = [service_account(INSTALLED_IN, UNINSTALL)]
    async with Cluster(controllers=JOB_CONTROLLERS, users=users) as cluster, cluster.api() as api:
        crds = ("--server-side", "--force-conflicts", "-f", str(ensure_asset(CRDS)))
        await asyncio.gather(
            cluster.kubectl("apply", *crds),
            cluster.install("podgroup-crd"),
        )
        nodes = zone_nodes({"A": 4}, cpu="1")
        for number, one in enumerate(nodes, start=1):
            one["status"]["addresses"] = [{"type": "InternalIP", "address": f"10.0.0.{number}"}]
        await cluster.add_nodes(nodes)
        made = Site(cluster, api)
        async with _uninstall_by_hand(cluster, api):
            yield made
        await made.end()
        cluster.check_alive()


@pytest.mark.timeout(900, func_only=True)  # about 90 s when nothing else runs
async def test_the_pages_do_what_they_say(site: Site, programs: dict[str, Path], tmp_path: Path) -> None:
    """Every command succeeds, has the effect that its page states, and none is left out but those that are named."""
    clone = tmp_path / "netgang"
    clone.mkdir()
    for name in CLONED:
        shutil.copytree(ROOT / name, clone / name, symlinks=True)
    (port,) = free_ports(1)
    loop = asyncio.get_running_loop()
    with (
        MaddashServer(paper_mesh(), checked_at_s=SystemClock().now_s) as maddash,
        shell_file(tmp_path / "site" / "env", directory=site.cluster.directory, variables={}),
    ):
        path = site.cluster.directory / "bin"
        for name, program in programs.items():
            (path / name).symlink_to(program)
        reader = Reader(
            clone,
            environment={
                "KUBECONFIG": str(_kubeconfig(site.cluster, tmp_path)),
                "KUBECACHEDIR": str(tmp_path / "kubectl"),
                "PATH": f"{path}:{os.environ['PATH']}",
            }
            | {f"HELM_{one}_HOME": str(tmp_path / one.lower()) for one in ("CACHE", "CONFIG", "DATA")},
            words={
                MADDASH: maddash.url,
                "deploy/netgang 8889": f"deploy/netgang {port}:8889",
                "127.0.0.1:8889": f"127.0.0.1:{port}",
                "localhost:8889": f"localhost:{port}",
            },
            say=lambda command: asyncio.run_coroutine_threadsafe(site.beside(command), loop).result(_BESIDE_LIMIT_S),
        )
        for walk in PAGES:
            assert await asyncio.to_thread(reader.read, walk) == typed_of(walk)


def _kubeconfig(cluster: Cluster, directory: Path) -> Path:
    document = yaml.safe_load(cluster.kubeconfig().read_text())
    document["contexts"][0]["name"] = document["current-context"] = "site"
    file = directory / "kubeconfig"
    file.write_text(yaml.safe_dump(document))
    return file


@asynccontextmanager
async def _uninstall_by_hand(cluster: Cluster, api: Api) -> AsyncIterator[None]:
    """While the block runs, pods of Jobs in netgang's namespace are run once each, as their kubelet would."""

    async def follow() -> None:
        seen: set[str] = set()
        while True:
            async for change, one in api.watch("Pod", namespace=INSTALLED_IN):
                uid = one["metadata"]["uid"]
                if change == "ADDED" and uid not in seen and one["metadata"]["name"].startswith(UNINSTALL):
                    seen.add(uid)
                    await _run(cluster, api, one)

    following = asyncio.create_task(follow(), name="pods of netgang uninstall")
    try:
        yield
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


async def _run(cluster: Cluster, api: Api, pod: Object) -> None:
    """The command of a pod's container with the rights of its account, and how it ended."""
    (container,) = pod["spec"]["containers"]
    access = cluster.kubeconfig(pod["spec"]["serviceAccountName"])
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cli.main", *container["args"], f"--kubeconfig={access}"
    )
    status = {"phase": "Failed" if await process.wait() else "Succeeded"}
    await api.patch("Pod", pod["metadata"]["name"], {"status": status}, namespace=INSTALLED_IN, subresource="status")
