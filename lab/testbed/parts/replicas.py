"""Several netgangs behind one address, as the installed Deployment and Service have it.

Why: what matters is where kube-scheduler's calls go while leaders die, and that is decided by a label on pods.
Rule: each process has a Pod object (that no kubelet runs) whose name it gets as the downward API would; the address
leads new connections to the process whose pod carries the labels of the installed Service's selector.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import yaml

from lab.testbed.api import Api, Object
from lab.testbed.beside import beside
from lab.testbed.cluster import INSTALLED_IN, Cluster
from lab.testbed.parts.installed import installed_object
from lab.testbed.parts.service import Netgang, start_netgang
from lab.testbed.processes.network import LOOPBACK
from lab.testbed.processes.pace import LIVENESS_S
from lab.testbed.processes.relay import Relay, relay

_NOBODY = "nobody"  # schedules the pods that stand for processes


def replica(name: str) -> Object:
    """A pod of the installed Deployment that stays pending."""
    template = installed_object("Deployment")["spec"]["template"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], "name": name, "namespace": INSTALLED_IN},
        "spec": {**template["spec"], "schedulerName": _NOBODY},
    }


class Replicas(msgspec.Struct):
    """The processes by pod name, and the selected one."""

    cluster: Cluster
    api: Api
    settings: Mapping[str, Any]
    running: dict[str, Netgang] = {}
    selected: tuple[str, ...] = ()
    """Names of the pods that the Service selects"""
    changed: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    """Set by each change of a pod"""

    async def start(self, name: str, *, kubeconfig: Path | None = None) -> Netgang:
        """Start a process and its pod; returns when it is ready."""
        await self.api.create(replica(name))
        own = {"POD_NAME": name, "POD_NAMESPACE": INSTALLED_IN}
        self.running[name] = await start_netgang(self.cluster, self.settings, name=name, env=own, kubeconfig=kubeconfig)
        return self.running[name]

    def leader_port(self) -> int | None:
        """Where a new connection goes; the first by name, should several be selected."""
        ports = [urlsplit(self.running[name].url).port for name in self.selected if name in self.running]
        return ports[0] if ports else None

    async def until_selected(self, accept: Callable[[tuple[str, ...]], bool], *, limit_s: float = LIVENESS_S) -> str:
        """Wait until the selected names are accepted; the first of them."""
        async with asyncio.timeout(limit_s):
            while not accept(self.selected):
                self.changed.clear()
                await self.changed.wait()
        return self.selected[0]

    async def follow(self) -> None:
        """Keep `selected` until cancelled."""
        wanted = installed_object("Service")["spec"]["selector"].items()
        found: set[str] = set()
        async for change, one in self.api.watch("Pod", namespace=INSTALLED_IN):
            name = one["metadata"]["name"]
            if change != "DELETED" and wanted <= one["metadata"].get("labels", {}).items():
                found.add(name)
            else:
                found.discard(name)
            self.selected = tuple(sorted(found))
            self.changed.set()


@asynccontextmanager
async def replicas(cluster: Cluster, settings: Mapping[str, Any]) -> AsyncIterator[tuple[Replicas, Relay]]:
    """No process yet, and the address that leads to the leader; all processes started are stopped with the block."""
    async with cluster.api() as api:
        made = Replicas(cluster, api, settings)
        try:
            async with beside(made.follow()), relay(made.leader_port) as address:
                yield made, address
        finally:
            for name in made.running:
                if name in cluster.parts:
                    await cluster.remove(name)
                await api.delete("Pod", name, namespace=INSTALLED_IN, grace_s=0)


def kubeconfig_by_way_of(cluster: Cluster, account: str, port: int) -> Path:
    """The account's kubeconfig with the API server behind this loopback port: a cable of its own."""
    document = yaml.safe_load(cluster.kubeconfig(account).read_text())
    document["clusters"][0]["cluster"]["server"] = f"https://{LOOPBACK}:{port}"
    path = cluster.directory / f"{account}-by-{port}.kubeconfig"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    path.chmod(0o600)
    return path
