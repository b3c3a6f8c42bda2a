"""The kubelets of a cluster that runs what is installed: pods of netgang and of its scheduler are processes here.

Why: whether a rollout and a drain come to their end depends on readiness, on the disruption budget and on how long a
replica takes to leave, and only pods that are really something show that.
Rule: a pod on a node becomes a process and Ready when the process is; a deleted one gets SIGTERM and its own grace
period, and is gone when the process is. All other pods run at once and vanish at once. Use it in a cluster whose kwok
does nothing about pods (`STAGES`).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from lab.testbed.api import Api, Object
from lab.testbed.beside import beside
from lab.testbed.cluster import Cluster
from lab.testbed.errors import ControlPlaneError

STAGES = ("node-initialize", "node-heartbeat")
"""kwok's stages that leave pods alone."""
APP_LABEL = "app.kubernetes.io/name"

Start: TypeAlias = Callable[[str], Awaitable[Any]]
"""Start the part that a pod of this name stands for; returns when it is ready"""


class Kubelet:
    """Runs pods by the label `app.kubernetes.io/name`. Use `kubelet`."""

    def __init__(self, cluster: Cluster, api: Api, start: Mapping[str, Start]) -> None:
        self._cluster = cluster
        self._api = api
        self._start = start
        self._seen: dict[str, str] = {}
        """pod's uid → what was started with it: `start` or `stop`"""
        self.ended_s: list[float] = []
        """How long processes took to leave"""

    async def run(self, namespaces: tuple[str, ...]) -> None:
        """Follow the pods of these namespaces until cancelled; an error of one pod ends it."""
        async with asyncio.TaskGroup() as tasks:
            for namespace in namespaces:
                tasks.create_task(self._follow(namespace, tasks))

    async def _follow(self, namespace: str, tasks: asyncio.TaskGroup) -> None:
        while True:
            async for change, one in self._api.watch("Pod", namespace=namespace):
                uid = one["metadata"]["uid"]
                if change == "DELETED":
                    self._seen.pop(uid, None)
                elif "deletionTimestamp" in one["metadata"]:
                    if self._seen.get(uid) != "stop":
                        self._seen[uid] = "stop"
                        tasks.create_task(self._end(one))
                elif one["spec"].get("nodeName") and uid not in self._seen:
                    self._seen[uid] = "start"
                    tasks.create_task(self._begin(one))

    async def _begin(self, one: Object) -> None:
        start = self._start.get(one["metadata"].get("labels", {}).get(APP_LABEL, ""))
        name = one["metadata"]["name"]
        if start is not None:
            try:
                await start(name)
            except ControlPlaneError:
                if self._seen.get(one["metadata"]["uid"]) == "stop":
                    return  # it was deleted before it was ready
                raise
        conditions = [{"type": kind, "status": "True"} for kind in ("Initialized", "ContainersReady", "Ready")]
        status = {"phase": "Running", "conditions": conditions}
        place = one["metadata"]["namespace"]
        await self._api.patch("Pod", name, {"status": status}, namespace=place, subresource="status")

    async def _end(self, one: Object) -> None:
        name, namespace = one["metadata"]["name"], one["metadata"]["namespace"]
        if name in self._cluster.parts:
            began_s = asyncio.get_running_loop().time()
            await self._cluster.parts[name].stop(grace_s=one["metadata"].get("deletionGracePeriodSeconds", 30))
            self.ended_s.append(asyncio.get_running_loop().time() - began_s)
            await self._cluster.remove(name)
        await self._api.delete("Pod", name, namespace=namespace, grace_s=0)


@asynccontextmanager
async def kubelet(cluster: Cluster, start: Mapping[str, Start], *namespaces: str) -> AsyncIterator[Kubelet]:
    """Pods of these namespaces run while the block does; `start` says by app which are processes."""
    async with cluster.api() as api:
        made = Kubelet(cluster, api, start)
        async with beside(made.run(namespaces)):
            yield made
