"""People ask netgang through the API server's proxy to its Service (docs/developers/decisions.md).

The API server leads to no address of the loopback, and only to one that Kubernetes' endpoints controller found for a
pod. So everything runs in a network of the test's own, without a way out, in which the loopback has an address more.
"""

import asyncio
import ctypes
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from lab.bench.testbed.commands import run
from lab.testbed.api import Api
from lab.testbed.cluster import INSTALLED_IN, Cluster
from lab.testbed.objects import namespace, zone_nodes
from lab.testbed.parts.installed import installed_object, installed_settings
from lab.testbed.parts.replicas import replica
from lab.testbed.parts.service import ROOT, install_rights, start_netgang
from lab.testbed.programs.build import ensure_program
from tests.authority import Authority
from tests.e2e.objects import gang
from tests.e2e.stage import document

ADDRESS = "198.51.100.7"  # of a range that is for examples and belongs to none
NEW_NETWORK = 0x40000000  # CLONE_NEWNET
POD = "netgang-0"
WHO = {"POD_NAME": POD, "POD_NAMESPACE": INSTALLED_IN}
OPENED = {"debug_host": ADDRESS, "debug_open": True}
TEAM = "team"


@contextmanager
def own_network() -> Iterator[None]:
    """A network of this thread's own, with ADDRESS on its loopback; the API server finds it by the default route."""
    if os.geteuid() != 0:
        pytest.skip("a network of the test's own needs root: the proxy to the Service is NOT tested")
    kernel = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/thread-self/ns/net").open() as before:
        if kernel.unshare(NEW_NETWORK) != 0:
            pytest.skip(f"no network namespaces here ({os.strerror(ctypes.get_errno())}): the proxy is NOT tested")
        try:
            for words in ("link set lo up", f"address add {ADDRESS}/32 dev lo", "route add default dev lo"):
                run("ip", *words.split())
            yield
        finally:
            if kernel.setns(before.fileno(), NEW_NETWORK) != 0:
                raise OSError(ctypes.get_errno(), "no way back into the machine's network")


class Person(msgspec.Struct, frozen=True):
    kubeconfig: Path
    kubectl: Path

    async def says(self, *command: str | Path, code: int = 0) -> str:
        """What a program prints: on standard output, or on standard error if it is to end with another code."""
        path = f"{self.kubeconfig.parent}:{os.environ['PATH']}"
        env = {name: text for name, text in os.environ.items() if not name.startswith("NETGANG_")}
        env |= {"KUBECONFIG": str(self.kubeconfig), "PATH": path, "COLUMNS": "160"}
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, env=env, cwd=ROOT)
        out, err = await process.communicate()
        assert process.returncode == code, (out + err).decode()
        return (err if code else out).decode()

    async def netgang(self, *arguments: str, code: int = 0) -> str:
        return await self.says(sys.executable, "-m", "cli.main", *arguments, code=code)

    async def plugin(self, *arguments: str, code: int = 0) -> str:
        return await self.says(self.kubectl, "netgang", *arguments, code=code)


async def person(cluster: Cluster, directory: Path) -> Person:
    await cluster.kubectl("create", "serviceaccount", "ann", "-n", TEAM)
    document = yaml.safe_load(cluster.kubeconfig().read_text())
    token = (await cluster.kubectl("create", "token", "ann", "-n", TEAM)).strip()
    document["users"][0]["user"] = {"token": token}
    document["contexts"][0] |= {"name": "site"}
    document["contexts"][0]["context"]["namespace"] = TEAM
    document["current-context"] = "site"
    ann = Person(directory / "kubeconfig", ensure_program("kubectl"))
    ann.kubeconfig.write_text(yaml.safe_dump(document))
    program = directory / "kubectl-netgang"
    program.write_text(f"#!{sys.executable}\nfrom cli.main import kubectl\n\nkubectl()\n")
    program.chmod(0o755)
    return ann


@pytest.fixture
def proxied_cluster() -> Iterator[Cluster]:
    with own_network(), Cluster(controllers=["endpoints-controller"]) as cluster:
        yield cluster


async def test_people_ask_through_the_service(proxied_cluster: Cluster, tmp_path: Path) -> None:
    cluster = proxied_cluster
    await install_rights(cluster)
    async with cluster.api() as api:
        await api.create(namespace(TEAM))
        await cluster.add_nodes(zone_nodes({"a": 1}, cpu="4"))
        await api.create_all(gang("g", 2, TEAM, cpu="3"))
        made = replica(POD)  # nobody runs it, and it has the address; the leader's label on it is netgang's own doing
        await api.create({**made, "spec": {**made["spec"], "nodeName": "nowhere"}})
        ready = [{"type": "Ready", "status": "True"}]
        status = {"phase": "Running", "podIP": ADDRESS, "podIPs": [{"ip": ADDRESS}], "conditions": ready}
        await api.patch("Pod", POD, {"status": status}, namespace=INSTALLED_IN, subresource="status")
        running = await start_netgang(cluster, installed_settings() | OPENED, env=WHO)
        await _serve(api, int(running.debug_url.rpartition(":")[2]))
        queue = partial(document, running, "/v1/queue")
        await api.until(queue, lambda found: _states(found) == ["WAITING"], what="the gang is in the queue")
        ann = await person(cluster, tmp_path)
        said = await ann.netgang("queue", "--context", "site", code=1)
        assert f'cannot get resource "services/proxy" in API group "" in the namespace "{INSTALLED_IN}"' in said
        granted = ("--role=netgang-service-proxy", f"--serviceaccount={TEAM}:ann")
        await cluster.kubectl("create", "rolebinding", "ann", "-n", INSTALLED_IN, *granted)
        found = json.loads(await ann.netgang("queue", "--context", "site", "--json"))
        assert (_states(found), found["gangs"][0]["gang"]) == (["WAITING"], f"{TEAM}/g")
        assert "would not fit into the empty cluster" in await ann.plugin("explain", "g")
        assert "g  waiting  gone" in await ann.plugin("what-if", "--remove-job", f"{TEAM}/g")
        assert "nobody" in await ann.plugin("explain", f"{TEAM}/nobody", code=2)
        await cluster.remove("netgang")
        pair = Authority.made(tmp_path, "ours").server()  # a certificate that the API server cannot check
        tls = {"tls": {"cert_file": str(pair.cert), "key_file": str(pair.key)}}
        guarded = await start_netgang(cluster, installed_settings() | OPENED | tls, env=WHO, tls=True)
        await _serve(api, int(guarded.debug_url.rpartition(":")[2]))
        assert "order: weight" in await ann.plugin("queue")
        await guarded.part.kill()  # one that ends well takes its label away first
        assert "error trying to reach service" in await ann.plugin("queue", code=1)


def _states(queue: Mapping[str, Any]) -> list[str]:
    return [one["state"] for one in queue["gangs"]]


async def _serve(api: Api, target: int) -> None:
    """The installed Service, which leads to this port of the pod too; returns when Kubernetes has found the pod."""
    service = installed_object("Service")
    service["spec"]["ports"].append({"name": "people", "port": 8889, "targetPort": target})
    await api.apply(service)

    async def reached() -> list[str]:
        endpoints = await api.list_all("Endpoints", namespace=INSTALLED_IN)
        subsets = [subset for one in endpoints for subset in one.get("subsets", [])]
        to_it = [subset for subset in subsets if target in [port["port"] for port in subset["ports"]]]
        return [address["ip"] for subset in to_it for address in subset.get("addresses", [])]

    await api.until(reached, lambda found: found == [ADDRESS], what="the Service has netgang's address")
