"""The kubelets of nodes that are network namespaces: every pod that is bound to one is a process in it.

Why: what a chart installs and what a job trains is only shown by its own commands, with its own volumes, tokens, rights
and network. Rule: the pod's container runs in a network of its own behind its node's (with `hostNetwork`: in that), and
in the pod's control group, on this machine's own programs: no image is pulled, an `Image` says what stands for it. A
deleted pod gets SIGTERM and its grace period. Init containers, further containers, hooks and liveness probes are left
out. The cluster is to have kwok's `STAGES`, and `POD_CONTROLLERS`.
"""

import asyncio
import json
import shutil
import ssl
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing, nullcontext, suppress
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path

import msgspec

from lab.testbed.api import Api, Object
from lab.testbed.beside import beside
from lab.testbed.cluster import CONTROLLERS, Cluster
from lab.testbed.errors import ApiRefused, ControlPlaneError
from lab.testbed.parts.pod_process import Image, Nodes, Place, PodProcesses, port_of
from lab.testbed.processes import contained
from lab.testbed.processes.groups import Group
from lab.testbed.processes.process import Child
from scoring.model.pod import amount

STAGES = ("node-initialize", "node-heartbeat")
"""kwok's stages that leave pods alone."""
POD_CONTROLLERS = (
    *CONTROLLERS,
    "deployment-controller",
    "replicaset-controller",
    "root-ca-certificate-publisher-controller",  # the authority that pods find beside their token
)
_BACKOFF_S, _LONGEST_BACKOFF_S = 10.0, 300.0
_LINGERS_S = 1.0
"""So long a network outlives its pod, as sandboxes do: what was sent last gets out, and peers hear of the end"""


class Running(msgspec.Struct):
    """A pod that has, or had, a process; `group.usage()` is what it uses."""

    child: Child
    group: Group
    place: Place


class _Seen(msgspec.Struct):
    """A pod as it was first seen, and whether it is to end."""

    pod: Object
    running: Running | None = None
    grace_s: float = 0.0
    deleted: asyncio.Event = msgspec.field(default_factory=asyncio.Event)


class NodeKubelet:
    """Runs the pods of these nodes. Use `node_kubelet`."""

    def __init__(self, cluster: Cluster, api: Api, nodes: Nodes, begin: PodProcesses) -> None:
        self._cluster = cluster
        self._api = api
        self._nodes = nodes
        self._begin = begin
        self._seen: dict[str, _Seen] = {}  # by uid
        self.running: dict[tuple[str, str], Running] = {}
        """(namespace, pod) → its process, until the pod is removed"""
        self.ended_s: list[float] = []
        """How long processes of deleted pods took to leave"""

    async def run(self) -> None:
        """Follow the pods until cancelled; then none of their processes is left."""
        places = self._nodes.places
        async with asyncio.TaskGroup() as tasks:
            async for change, pod in self._api.watch("Pod"):
                meta, uid = pod["metadata"], pod["metadata"]["uid"]
                is_new = uid not in self._seen and pod["status"].get("phase") in ("Pending", "Running")
                if is_new and change != "DELETED" and pod["spec"].get("nodeName") in places:
                    self._seen[uid] = _Seen(pod)
                    tasks.create_task(self._live(self._seen[uid]))
                if uid in self._seen and (change == "DELETED" or "deletionTimestamp" in meta):
                    self._seen[uid].grace_s = meta.get("deletionGracePeriodSeconds", 0.0)
                    self._seen[uid].deleted.set()
                if change == "DELETED":
                    self._seen.pop(uid, None)

    async def _live(self, seen: _Seen) -> None:
        meta = seen.pod["metadata"]
        key, folder = (meta["namespace"], meta["name"]), self._cluster.directory / "pods" / meta["uid"]
        (folder / "root").mkdir(parents=True)
        deleted, node = asyncio.create_task(seen.deleted.wait()), seen.pod["spec"]["nodeName"]
        has_own = not seen.pod["spec"].get("hostNetwork", False)
        own = self._nodes.pod_place(node) if has_own else nullcontext(self._nodes.places[node])
        place = await asyncio.to_thread(own.__enter__)
        work = asyncio.create_task(self._work(seen, folder, place))
        try:
            await asyncio.wait((work, deleted), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
            await deleted
            work.cancel()
            if (one := seen.running) is not None and one.child.alive:
                ended, began_s = asyncio.create_task(one.child.ended()), asyncio.get_running_loop().time()
                await asyncio.sleep(0)  # it begins to wait before the process may be gone
                await one.child.stop(grace_s=seen.grace_s)
                self.ended_s.append(asyncio.get_running_loop().time() - began_s)
                await self._report(seen.pod, place, code=await ended)
            await self._api.delete("Pod", key[1], namespace=key[0], grace_s=0, uid=meta["uid"])
        finally:
            deleted.cancel()
            work.cancel()
            if one := seen.running:
                if self.running.get(key) is one:  # else it is that of a successor
                    del self.running[key]
                await one.child.kill()
                while not one.group.remove():  # noqa: ASYNC110 - the kernel says it nowhere
                    await asyncio.sleep(0.02)
            await asyncio.sleep(_LINGERS_S)
            await asyncio.to_thread(own.__exit__, None, None, None)
            shutil.rmtree(folder)

    async def _work(self, seen: _Seen, folder: Path, place: Place) -> None:
        """Run the pod's container until it is through."""
        pod, meta, spec = seen.pod, seen.pod["metadata"], seen.pod["spec"]
        try:
            how = await self._begin.prepare(pod, place, folder)
            limits = spec["containers"][0].get("resources", {}).get("limits") or {}
            group = Group(meta["uid"], cpus=amount("cpu", limits["cpu"]) / 1e3 if "cpu" in limits else None)
        except ControlPlaneError as wrong:
            await self._report(pod, place, code=128, why=str(wrong))
            return
        where = {"place": str(folder / "root"), "groups": [str(one) for one in group.places]}
        (folder / "how.json").write_text(json.dumps(how | where))
        name = f"{meta['namespace']}-{meta['name']}"
        file, loaded = str(folder / "how.json"), how["loaded"] if how["command"][:2] == ["python", "-m"] else ()
        argv = [sys.executable, "-I", "-S", contained.__file__, file]
        child = Child(name, argv, log=self._cluster.directory / "logs" / f"{name}.log")
        self.running[meta["namespace"], meta["name"]] = seen.running = Running(child, group, place)
        restarts, policy = 0, spec.get("restartPolicy", "Always")
        while True:
            child.fork(contained.begin, file, str(child.log), loaded=loaded) if loaded else child.start()
            async with beside(self._ask(pod, place, restarts)):
                code = await child.ended()
            if policy == "Never" or (policy == "OnFailure" and code == 0):
                await self._report(pod, place, code=code, again=restarts)
                return
            await self._report(pod, place, again=restarts)
            if restarts > 0:
                await asyncio.sleep(min(_BACKOFF_S * 2.0 ** (restarts - 1), _LONGEST_BACKOFF_S))
            restarts += 1

    async def _ask(self, pod: Object, place: Place, restarts: int) -> None:
        """Say that the pod runs, and whether it is ready, whenever that changes by its readiness probe."""
        probe, was = pod["spec"]["containers"][0].get("readinessProbe", {}), None
        while True:
            ready = await asyncio.to_thread(_answers, pod, probe, place)
            if ready != was:
                await self._report(pod, place, ready=ready, again=restarts)
            was = ready
            await asyncio.sleep(probe.get("periodSeconds", 10) if ready else 1.0)

    async def _report(
        self, pod: Object, place: Place, *, ready: bool = False, code: int | None = None, again: int = 0, why: str = ""
    ) -> None:
        """Write the pod's status: it runs, or ended with this code; so often it began `again`."""
        meta, container = pod["metadata"], pod["spec"]["containers"][0]
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: TID251 - what a kubelet writes
        state: Object = {"running": {"startedAt": now}}
        if code is not None:
            reason = "Error" if code else "Completed"
            state = {"terminated": {"exitCode": code, "reason": reason, "message": why, "finishedAt": now}}
        told = {"name": container["name"], "image": container.get("image", ""), "imageID": "", "ready": ready}
        conditions = {"Initialized": True, "ContainersReady": ready, "Ready": ready}
        status = {
            "phase": "Running" if code is None else "Failed" if code else "Succeeded",
            "startTime": now,
            "hostIP": place.host,
            "podIP": place.address,
            "podIPs": [{"ip": place.address}],
            "conditions": [{"type": one, "status": str(holds)} for one, holds in conditions.items()],
            "containerStatuses": [{**told, "started": code is None, "restartCount": again, "state": state}],
        }
        where = {"namespace": meta["namespace"], "subresource": "status"}
        with suppress(ApiRefused):  # it is gone, by force, perhaps with a successor
            await self._api.patch("Pod", meta["name"], {"metadata": {"uid": meta["uid"]}, "status": status}, **where)


def _answers(pod: Object, probe: Object, place: Place) -> bool:
    """Whether a readiness probe is answered, asked in the pod's network; one that is not by HTTP always is."""
    if "httpGet" not in probe:
        return True
    asked, found = probe["httpGet"], list[int]()
    where, limit_s = (place.address, port_of(pod, asked["port"])), probe.get("timeoutSeconds", 1)

    def ask() -> None:
        connection = HTTPConnection(*where, timeout=limit_s)
        if asked.get("scheme") == "HTTPS":
            trusting = ssl._create_unverified_context()  # noqa: S323 - as a kubelet asks
            connection = HTTPSConnection(*where, timeout=limit_s, context=trusting)
        with closing(connection):
            connection.request("GET", asked["path"])
            with closing(connection.getresponse()) as answer:
                found.append(answer.status)

    with suppress(OSError, HTTPException):
        contained.in_network(place.network, ask)
    return bool(found) and found[0] < 400


@asynccontextmanager
async def node_kubelet(
    cluster: Cluster,
    nodes: Nodes,
    images: Mapping[str, Image] = {},
    *,
    env: Mapping[str, str] = {},
    hosts: Path | None = None,
) -> AsyncIterator[NodeKubelet]:
    """Pods of these nodes run while the block does: see `PodProcesses` for images, environment and hosts."""
    async with cluster.api() as api:
        made = NodeKubelet(cluster, api, nodes, PodProcesses(api, images, env, hosts))
        async with beside(made.run()):
            yield made
