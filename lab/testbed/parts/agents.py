"""Agents of the probe for simulated nodes: all in one process, each at a loopback address, with the links of a mesh.

Why one process: an agent alone takes 23 MiB. Why a mesh: on the loopback all links are alike, so packets between two
nodes are dropped and held back as a mesh file says of them; what netgang shows is then measured, and looks like it.
Rule: nodes, pods and tokens are the API server's, and agents are the installed ones; only their sockets are not.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import json
import logging
import random
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Condition, Thread
from time import monotonic
from typing import Any, TypeAlias

from lab.testbed.api import Api, Object
from lab.testbed.cluster import INSTALLED_IN, Cluster
from lab.testbed.objects import pod, restricted
from lab.testbed.processes.process import Child
from probe.agent import Agent
from probe.burst import BurstRunner
from probe.clock import SystemClock
from probe.exchange import Exchange, Netgang
from probe.settings import PORT
from probe.udp import UdpSocket

_ACCOUNT = "netgang-probe"
_LEAST_S = 0.001
"""Shorter delays are the loopback's own"""
_TOKEN_S = 7 * 24 * 3600


async def start_agents(cluster: Cluster, nodes: Sequence[str], *, url: str, ready_url: str, mesh: Path) -> Child:
    """An agent for each node, which reports to `url`; the pods are made here. At most 254 nodes.

    netgang takes the reports with `probe.enabled` and a `reports.port`. Stops with the cluster.
    """
    third, second = divmod(int(url.rpartition(":")[2]), 256)  # of 127.…: two clusters are not in each other's way
    addresses = {node: f"127.{third}.{second}.{number}" for number, node in enumerate(nodes, 1)}
    account = {"name": _ACCOUNT, "namespace": INSTALLED_IN}
    async with cluster.api() as api:
        await api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        await api.create_all([_pod(node) for node in nodes])

        async def without_address() -> int:
            there = await api.list_all("Pod", namespace=INSTALLED_IN)
            named = [one for one in there if one["metadata"]["name"].startswith(f"{_ACCOUNT}-")]
            return sum(not one["status"].get("podIP") for one in named)

        await api.until(without_address, lambda count: count == 0, what="the agents' pods have addresses")
        found = await asyncio.gather(*(_token(api, node, address) for node, address in addresses.items()))
    file = cluster.directory / "agents.json"
    file.touch(mode=0o600)
    file.write_text(json.dumps({"url": url, "mesh": str(mesh), "addresses": addresses, "tokens": dict(found)}))
    return await cluster.start_part("agents", [sys.executable, "-m", __name__, file], ready_url=ready_url)


def _pod(node: str) -> Object:
    """One pod of the chart's DaemonSet, but for what it asks for: the simulated nodes keep all of their room."""
    labels = {"app.kubernetes.io/name": _ACCOUNT}
    made = restricted(pod(f"{_ACCOUNT}-{node}", namespace=INSTALLED_IN, cpu="0", memory="0", labels=labels))
    return {**made, "spec": {**made["spec"], "serviceAccountName": _ACCOUNT, "nodeName": node}}


async def _token(api: Api, node: str, address: str) -> tuple[str, str]:
    name = f"{_ACCOUNT}-{node}"
    change: list[Object] = [
        {"op": "add", "path": "/status/podIP", "value": address},
        {"op": "add", "path": "/status/podIPs", "value": [{"ip": address}]},
    ]
    await api.patch("Pod", name, change, namespace=INSTALLED_IN, subresource="status")
    path = f"/api/v1/namespaces/{INSTALLED_IN}/serviceaccounts/{_ACCOUNT}/token"
    bound = {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name}, "expirationSeconds": _TOKEN_S}
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": bound}
    return node, str((await api.request("POST", path, body=asked))["status"]["token"])


class Wire(Thread):
    """Calls functions at their time."""

    def __init__(self) -> None:
        super().__init__(name="wire", daemon=True)
        self._waiting: list[tuple[float, int, Callable[[], object]]] = []
        self._number = itertools.count()
        self._changed = Condition()

    def after(self, delay_s: float, act: Callable[[], object]) -> None:
        """Call it then, in this thread."""
        with self._changed:
            heapq.heappush(self._waiting, (monotonic() + delay_s, next(self._number), act))
            self._changed.notify()

    def run(self) -> None:
        """Without end."""
        while True:
            with self._changed:
                while not self._waiting or self._waiting[0][0] > monotonic():
                    self._changed.wait(self._waiting[0][0] - monotonic() if self._waiting else None)
                _, _, act = heapq.heappop(self._waiting)
            act()


class LinkSocket(UdpSocket):
    """An agent's socket, whose packets get lost and are late as `links` says: address → (loss as a ratio, delay s)."""

    def __init__(self, address: str, port: int, wire: Wire, links: Mapping[str, tuple[float, float]]) -> None:
        super().__init__(address, port, SystemClock().unix_ns, ttl=port != 0)
        self._wire, self._links = wire, links

    def send(self, content: bytes, target: tuple[str, int]) -> bool:
        """As if the kernel took it."""
        loss_ratio, delay_s = self._links.get(target[0], (0.0, 0.0))
        if random.random() < loss_ratio:  # noqa: S311 - no secret
            return True
        if delay_s < _LEAST_S:
            return super().send(content, target)
        self._wire.after(delay_s, lambda: UdpSocket.send(self, content, target))
        return True


_Links: TypeAlias = dict[str, dict[str, tuple[float, float]]]


def links_of(mesh: Sequence[Mapping[str, Any]], addresses: Mapping[str, str]) -> _Links:
    """Node → address of another → (loss as a ratio, delay in seconds) of what the first sends to the other.

    >>> links_of([{"source": "a", "target": "b", "loss_ratio": 0.1, "delay_ms": 20.0}], {"a": "1", "b": "2"})
    {'a': {'2': (0.1, 0.02)}, 'b': {}}
    """
    found: _Links = {node: {} for node in addresses}
    for one in mesh:
        if one["source"] in found and one["target"] in addresses:
            link = float(one["loss_ratio"]), float(one["delay_ms"]) / 1000.0
            found[one["source"]][addresses[one["target"]]] = link
    return found


def run(file: Path) -> None:
    """Agents of a file that `start_agents` wrote, until SIGTERM."""
    given = json.loads(file.read_text())
    links = links_of(json.loads(Path(given["mesh"]).read_text()), given["addresses"])
    wire, clock = Wire(), SystemClock()
    wire.start()
    stop, stopped = socket.socketpair()
    threads = []
    for node, address in given["addresses"].items():
        token_file = file.with_name(f"agent-{node}.token")
        token_file.touch(mode=0o600)
        token_file.write_text(given["tokens"][node])
        sockets = (LinkSocket(address, PORT, wire, links[node]), LinkSocket(address, 0, wire, links[node]))
        exchange = Exchange(Netgang(given["url"], token_file=token_file))
        agent = Agent(node, clock, sockets, exchange, stop, bursts=BurstRunner(address))
        threads.append(Thread(target=agent.run, name=node))
    for thread in threads:
        thread.start()
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    stopped.send(b".")
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    run(Path(sys.argv[1]))
