"""People ask netgang through a real API server and a kubelet's port-forward, by `netgang` and by `kubectl netgang`.

The kubelet's part is kwok's: its port-forward server is the one that kubelets and container runtimes use.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from testbed.build import ensure_program
from testbed.network import LOOPBACK, free_ports
from testbed.objects import gang_pods, node, zone_nodes
from testbed.service import ROOT, Netgang
from tests.e2e.stage import Stage, document

INSTALLED = "netgang-system"
PORT = 8889
COMPONENTS = ROOT / "manifests/components"
PLUGINS = {"kubectl-netgang": "main", "kubectl_complete-netgang": "complete"}


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a kubeconfig and the programs on PATH."""

    kubeconfig: Path
    path: Path
    kubectl: Path

    async def says(self, *command: str | Path, code: int = 0, token: str = "") -> str:
        """What a program prints: on standard output, or on standard error if it is to end with another code."""
        env = {
            **{name: text for name, text in os.environ.items() if not name.startswith("NETGANG_")},
            **({"NETGANG_TOKEN": token} if token else {}),
            "KUBECONFIG": str(self.kubeconfig),
            "PATH": f"{self.path}:{os.environ['PATH']}",
            "COLUMNS": "160",
        }
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, env=env, cwd=ROOT)
        out, err = await process.communicate()
        assert process.returncode == code, (out + err).decode()
        return (err if code else out).decode()

    async def netgang(self, *arguments: str, code: int = 0, token: str = "") -> str:
        """`netgang …`."""
        return await self.says(sys.executable, "-m", "extender.cli", *arguments, code=code, token=token)

    async def plugin(self, *arguments: str, code: int = 0, token: str = "") -> str:
        """`kubectl netgang …`."""
        return await self.says(self.kubectl, "netgang", *arguments, code=code, token=token)


async def test_people_ask_through_the_api_server(stage: Stage, tmp_path: Path) -> None:
    """With the installed rights, without and with tokens: nothing but port-forward, and a token reaches netgang."""
    await stage.add_nodes(*zone_nodes({"a": 1}, cpu="4"))
    running = await stage.netgang()
    await stage.api.apply(ROOT / "manifests/people/rbac.yaml")
    await stage.api.create_all(
        gang_pods("g", 2, min_available=2, namespace=stage.namespace, cpu="3", scheduler="netgang")
    )
    ann = await _person(stage, tmp_path)
    await stage.api.until(lambda: _states(running), lambda found: found == ["WAITING"], what="the gang is in the queue")
    async with _pod_of(stage, running):
        said = await ann.netgang("queue", "--context", "site", code=1)
        assert f'cannot list resource "pods" in API group "" in the namespace "{INSTALLED}"' in said
        await _bind(stage, "ann-forwards", "netgang-port-forward")
        found = json.loads(await ann.netgang("queue", "--context", "site", "--json", "-n", stage.namespace))
        assert [one["gang"] for one in found["gangs"]] == [f"{stage.namespace}/g"]
        assert "would not fit into the empty cluster" in await ann.plugin("explain", "g")
        assert "would be let in" in await ann.plugin("what-if", "--suggestion", f"{stage.namespace}/g")
        completed = await ann.says(ann.kubectl, "__complete", "netgang", "expl")
        assert completed.startswith("explain\tSay why a gang is where it is")
        await _bind(stage, "ann-proxied", "netgang-service-proxy")
        refused = await ann.netgang("queue", "--through", "service-proxy", code=1)
        assert 'services "netgang" not found' in refused
    await stage.cluster.remove("netgang")
    await stage.api.apply(COMPONENTS / "debug-auth/rbac.yaml")
    guarded = await stage.start_netgang({"debug_auth": "token"}, name="netgang-guarded")
    async with _pod_of(stage, guarded):
        assert "status 401: show a token" in await ann.plugin("queue", code=1)
        await stage.cluster.kubectl(
            *("create", "clusterrolebinding", "ann-reads", "--clusterrole=netgang-viewer"),
            f"--serviceaccount={stage.namespace}:ann",
        )
        token = (await stage.cluster.kubectl("create", "token", "ann", "-n", stage.namespace)).strip()
        assert "order: weight" in await ann.plugin("queue", token=token)


async def _states(netgang: Netgang) -> list[str]:
    """What the gangs do, asked on this machine."""
    return [one["state"] for one in (await document(netgang, "/v1/queue"))["gangs"]]


async def _person(stage: Stage, directory: Path) -> Person:
    """A service account without rights, its kubeconfig, and the plugin's programs as an installation has them."""
    await stage.cluster.kubectl("create", "serviceaccount", "ann", "-n", stage.namespace)
    token = (await stage.cluster.kubectl("create", "token", "ann", "-n", stage.namespace)).strip()
    document = yaml.safe_load(stage.cluster.kubeconfig().read_text())
    document["users"][0]["user"] = {"token": token}
    document["contexts"][0] |= {"name": "site"}
    document["contexts"][0]["context"]["namespace"] = stage.namespace
    document["current-context"] = "site"
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(document))
    for name, function in PLUGINS.items():
        program = directory / name
        program.write_text(f"#!{sys.executable}\nfrom extender.cli_kubectl import {function}\n\n{function}()\n")
        program.chmod(0o755)
    return Person(kubeconfig, directory, ensure_program("kubectl"))


async def _bind(stage: Stage, name: str, role: str) -> None:
    """Give the person one of the installed roles."""
    await stage.cluster.kubectl(
        *("create", "rolebinding", name, "-n", INSTALLED, f"--role={role}"), f"--serviceaccount={stage.namespace}:ann"
    )


@asynccontextmanager
async def _pod_of(stage: Stage, netgang: Netgang) -> AsyncIterator[None]:
    """A pod in whose place this netgang is: on a node whose kubelet forwards the pod's port to it."""
    (port,) = free_ports(1)
    forwards = [{"ports": [PORT], "target": {"address": LOOPBACK, "port": int(netgang.debug_url.rpartition(":")[2])}}]
    rule = {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterPortForward",
        "metadata": {"name": "netgang"},
        "spec": {"selector": {"matchNamespaces": [INSTALLED]}, "forwards": forwards},
    }
    file = stage.cluster.directory / "forward.yaml"
    file.write_text(yaml.safe_dump(rule))
    await stage.cluster.start_part(
        "kubelet",
        [
            ensure_program("kwok"),
            f"--kubeconfig={stage.cluster.kubeconfig()}",
            "--manage-nodes-with-label-selector=testbed.netgang.io/none",
            f"--server-address={LOOPBACK}:{port}",
            *(f"--config={one}" for one in (file, *sorted((stage.cluster.directory / "stages").iterdir()))),
        ],
        ready_url=f"http://{LOOPBACK}:{port}/healthz",
    )
    machine = node("kubelet-machine", cpu="1", zone="k")
    machine["status"]["addresses"] = [{"type": "InternalIP", "address": LOOPBACK}]
    machine["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": port}}
    await stage.add_nodes(machine)
    template = yaml.safe_load((ROOT / "manifests/base/deployment.yaml").read_text())["spec"]["template"]
    labels = {**template["metadata"]["labels"], "netgang.io/role": "leader"}
    meta = {"name": "netgang-0", "namespace": INSTALLED, "labels": labels}
    spec = {**template["spec"], "nodeName": "kubelet-machine"}
    await stage.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    async def runs() -> bool:
        found = await stage.api.list_all("Pod", namespace=INSTALLED)
        return [one["status"].get("phase") for one in found] == ["Running"]

    await stage.api.until(runs, bool, what="netgang's pod runs")
    yield
    await stage.api.delete("Pod", "netgang-0", namespace=INSTALLED, grace_s=0)
    await stage.api.delete("Node", "kubelet-machine")
    await stage.cluster.remove("kubelet")
