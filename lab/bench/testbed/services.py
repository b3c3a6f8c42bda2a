"""Services, their names and the API server on the bed's nodes: what kube-proxy and the cluster's DNS are for.

Rule: what a node sends to a Service goes to a gateway beside the bridge, whose kernel leads it to the first of the
ready pods (DNAT, as kube-proxy has it on each node: connections that are open stay where they are); names are lines of
one /etc/hosts, which pods mount. The API server listens on the machine's loopback: at the address that its certificate
names, a relay of the gateway leads there. NetworkPolicies are nobody's.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from lab.bench.testbed.commands import in_namespace, ip_in, run_in
from lab.bench.testbed.nodes import SUBNET, Bed, address, pod_addresses, small_packets_only
from lab.testbed.api import Api, Object
from lab.testbed.beside import beside
from lab.testbed.cluster import Cluster, is_ready
from lab.testbed.parts.pod_process import port_of
from lab.testbed.processes.relay import relay

GATEWAY: Final = f"{SUBNET}.254"
_SERVICES, _API, _API_PORT = "10.96.0.0/16", "10.96.0.1", 443
API_ENV: Final[Mapping[str, str]] = {"KUBERNETES_SERVICE_HOST": _API, "KUBERNETES_SERVICE_PORT": str(_API_PORT)}
"""What pods are told"""
_KERNEL: Final = {
    "net/ipv4/ip_forward": 1,
    "net/ipv4/conf/all/send_redirects": 0,
    "net/ipv4/conf/br0/send_redirects": 0,
    "net/bridge/bridge-nf-call-iptables": 0,  # a pod that calls the Service it is behind would be bridged to itself
}
_BACK: Final = "-A POSTROUTING -m conntrack --ctstate DNAT -j MASQUERADE"
"""Answers come back by the gateway, too"""


@asynccontextmanager
async def services(cluster: Cluster, bed: Bed) -> AsyncIterator[Path]:
    """While the block runs, Services are reached from the bed's nodes; the file is their /etc/hosts."""
    ip_in(bed.switch, [f"addr add {GATEWAY}/24 dev br0", f"addr add {_API}/32 dev br0"])
    in_namespace(bed.switch, lambda: small_packets_only("br0"))
    for place, value in _KERNEL.items():
        run_in(bed.switch, "sh", "-c", f"test ! -e /proc/sys/{place} || echo {value} > /proc/sys/{place}")
    for node in bed.nodes:
        ip_in(bed.namespace(node), [f"route add {_SERVICES} via {GATEWAY}"])
        ip_in(bed.switch, [f"route add {pod_addresses(node)} via {address(node)}"])
    found: list[socket.socket] = []
    in_namespace(bed.switch, lambda: found.append(socket.create_server((_API, _API_PORT))))
    hosts, port = cluster.directory / "hosts", urlsplit(cluster.server).port
    hosts.write_text("127.0.0.1 localhost\n")
    async with relay(lambda: port, listening=found[0]), cluster.api() as api, beside(_follow(api, bed, hosts)):
        yield hosts


async def _follow(api: Api, bed: Bed, hosts: Path) -> None:
    held: dict[str, dict[str, Object]] = {"Service": {}, "Pod": {}}
    changed = asyncio.Event()

    async def watch(kind: str) -> None:
        async for change, one in api.watch(kind):
            uid = one["metadata"]["uid"]
            held[kind] |= {uid: one}
            if change == "DELETED":
                del held[kind][uid]
            changed.set()

    async with asyncio.TaskGroup() as tasks:
        for kind in held:
            tasks.create_task(watch(kind))
        was: tuple[list[str], list[str]] = ([], [])
        while True:
            await changed.wait()
            changed.clear()
            if (now := read(held["Service"].values(), list(held["Pod"].values()))) != was:
                names, rules = was = now
                text = "\n".join(["127.0.0.1 localhost", *names, ""])
                await asyncio.to_thread(hosts.write_text, text)  # in place: pods have this very file
                text = "\n".join(["*nat", *rules, _BACK, "COMMIT", ""])
                await asyncio.to_thread(run_in, bed.switch, "iptables-restore", given=text)


def read(services: Iterable[Object], pods: list[Object]) -> tuple[list[str], list[str]]:
    """Lines of /etc/hosts, and rules of the table nat; a Service without address has those of its pods."""
    names, rules = list[str](), list[str]()
    for service in services:
        meta, spec = service["metadata"], service["spec"]
        short = f"{meta['name']}.{meta['namespace']}"
        known_as = f"{meta['name']} {short} {short}.svc {short}.svc.cluster.local"
        behind = [pod for pod in pods if _is_behind(service, pod)]
        if spec.get("clusterIP", "None") == "None":
            names += [f"{pod['status']['podIP']} {known_as}" for pod in behind]
            continue
        names.append(f"{spec['clusterIP']} {known_as}")
        for pod in list(filter(is_ready, behind))[:1]:
            for port in spec["ports"]:
                to = f"{pod['status']['podIP']}:{port_of(pod, port.get('targetPort', port['port']))}"
                asked = f"-d {spec['clusterIP']} -p tcp --dport {port['port']}"
                rules.append(f"-A PREROUTING {asked} -j DNAT --to-destination {to}")
    return sorted(names), sorted(rules)


def _is_behind(service: Object, pod: Object) -> bool:
    wanted, meta = service["spec"].get("selector") or {"": ""}, pod["metadata"]
    runs = pod["status"]["phase"] == "Running" and "deletionTimestamp" not in meta
    return (
        runs
        and meta["namespace"] == service["metadata"]["namespace"]
        and wanted.items() <= meta.get("labels", {}).items()
    )
