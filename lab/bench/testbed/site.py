"""netgang as installed, on the bed: Helm installs the chart, and each of its pods is a process on its node.

Rule: no value but the image is given. netgang and its kube-scheduler come to the nodes that are there first; when they
are ready the others join, so that no fault of those is one of theirs. The cluster is one for `node_kubelet`.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import msgspec

from lab.bench.testbed.commands import in_namespace
from lab.bench.testbed.nodes import Bed
from lab.bench.testbed.services import API_ENV, services
from lab.testbed.api import Api, Object
from lab.testbed.cluster import INSTALLED_IN, Cluster, is_ready
from lab.testbed.parts.helm import CHART, Helm, find_helm
from lab.testbed.parts.node_kubelet import NodeKubelet, Running, node_kubelet
from lab.testbed.parts.pod_process import Image
from lab.testbed.programs.build import ensure_program

_LIMIT_S = 120.0
_DOCUMENTS = ("127.0.0.1", 8889)


class Site(msgspec.Struct, frozen=True):
    """An installed netgang, and the pods of its nodes."""

    api: Api
    cluster: Cluster
    kubelet: NodeKubelet
    helm: Helm

    async def configure(self, *values: str) -> None:
        """Have these of the chart's values in place of all before (`settings.queue.order=fifo`), until that is done."""
        asked = (word for value in values for word in ("--set", value))
        await asyncio.to_thread(self.helm.good, "upgrade", "netgang", *_GIVEN, *asked)
        rollout = ("-n", INSTALLED_IN, "rollout", "status", "deploy/netgang", f"--timeout={_LIMIT_S:g}s")
        await self.cluster.kubectl(*rollout)
        await self.leader()

    async def document(self, path: str) -> dict[str, Any]:
        """Asked of the leader, on its pod's loopback, as by `kubectl port-forward`."""
        answers, leader = list[bytes](), (await self.leader())["metadata"]["name"]
        network = self.kubelet.running[INSTALLED_IN, leader].place.network

        def ask() -> None:
            with closing(HTTPConnection(*_DOCUMENTS, timeout=30.0)) as connection:
                connection.request("GET", path)
                answers.append(connection.getresponse().read())

        await asyncio.to_thread(in_namespace, network, ask)
        return dict(json.loads(answers[0]))

    async def leader(self) -> Object:
        """The pod that leads, once one does."""
        led = partial(self._pods, f"{_APP}=netgang,netgang.io/role=leader")
        return (await self.api.until(led, lambda found: len(found) == 1, what="a leader", limit_s=_LIMIT_S))[0]

    async def agents(self) -> dict[str, Running]:
        """Node → its agent."""
        pods = {one["spec"]["nodeName"]: one["metadata"]["name"] for one in await self._pods(f"{_APP}=netgang-probe")}
        return {node: self.kubelet.running[INSTALLED_IN, name] for node, name in pods.items()}

    async def until_ready(self, app: str, count: int) -> None:
        """Wait for so many pods."""
        pods = partial(self._pods, f"{_APP}={app}")
        what = f"{count} pods of {app} ready"
        await self.api.until(pods, lambda found: sum(map(is_ready, found)) >= count, what=what, limit_s=_LIMIT_S)

    async def _pods(self, labels: str) -> list[Object]:
        return await self.api.list_all("Pod", namespace=INSTALLED_IN, labels=labels)


_APP = "app.kubernetes.io/name"
_GIVEN = (str(CHART), "--namespace", INSTALLED_IN, "--set", "image.repository=netgang")


def _images(folder: Path) -> dict[str, Image]:
    """What is in them, by the Dockerfile of the one, and as the other is known."""
    scheduler = ensure_program("kube-scheduler")
    (folder / "kube-scheduler").symlink_to(scheduler)
    paths = f"{folder}:{scheduler.parent}:{os.environ['PATH']}"
    ours = {"PATH": f"{sys.prefix}/bin:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
    return {
        "netgang": Image(("netgang",), ("serve",), ours),
        "registry.k8s.io/kube-scheduler": Image(env={"PATH": paths}),
    }


@asynccontextmanager
async def installed(
    cluster: Cluster, bed: Bed, *, first: Sequence[Object], then: Sequence[Object], images: Mapping[str, Image] = {}
) -> AsyncIterator[Site]:
    """The chart on these of the bed's nodes, until the end of the block; `images` are those of jobs."""
    (folder := cluster.directory / "helm").mkdir()
    known = {**_images(folder), **images}
    async with (
        cluster.api() as api,
        services(cluster, bed) as hosts,
        node_kubelet(cluster, bed, known, env=API_ENV, hosts=hosts) as kubelet,
    ):
        helm = Helm(find_helm() or ensure_program("helm"), folder, cluster.kubeconfig())
        site = Site(api, cluster, kubelet, helm)
        await cluster.install("podgroup-crd")
        await cluster.add_nodes(first)
        await cluster.start_scheduler()
        await asyncio.to_thread(helm.good, "install", "netgang", *_GIVEN, "--create-namespace")
        for app in ("netgang", "netgang-scheduler"):
            await site.until_ready(app, 1)
        await cluster.add_nodes(then)
        await site.until_ready("netgang-probe", len(first) + len(then))
        yield site
