"""kube-scheduler as the soak plays it: asks netgang about pods without a gate, one after the other, and lets it bind.

Why played: the real one beside a real API server would take both cores of a small machine, and what is measured is
netgang. Rule: what counts for netgang is as with the real one: a pod at a gate is never asked about, a pod is asked
about with the nodes that its affinity and its requests allow, /prioritize only follows when several are left, the bind
call is made beside the next pod's turn and may be held, and a refused pod comes again after a back-off.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

import aiohttp
import msgspec

from extender.errors import NotFoundError
from extender.kube.calls import NODES, PODS
from lab.testbed.apiserver.store import ApiStore

_Pod: TypeAlias = dict[str, Any]
_BIND_LIMIT_S = 90.0
_FIRST_BACKOFF_S = 1.0
_LONGEST_BACKOFF_S = 10.0
_AGENT = {"User-Agent": "Go-http-client/1.1", "Content-Type": "application/json"}
_GPU = "nvidia.com/gpu"


class Scheduler:
    """One scheduling loop over all pods of netgang's scheduler."""

    def __init__(
        self, store: ApiStore, port: int, *, let_in: Callable[[_Pod], None], bound: Callable[[_Pod], None]
    ) -> None:
        self.counts = dict.fromkeys(("asked", "refused", "binds", "failed_binds", "asked_at_the_gate"), 0)
        self._store = store
        self._url = f"http://127.0.0.1:{port}"
        self._let_in = let_in
        self._bound = bound
        self._known: dict[str, str] = {}
        """uid of a pod that was asked about and has no node yet → where it is"""
        self._queue: asyncio.Queue[_Pod] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._assumed: dict[str, str] = {}
        """uid → node that it is to be bound to"""

    async def run(self) -> None:
        """Follow the pods until cancelled."""
        limit = aiohttp.ClientTimeout(total=_BIND_LIMIT_S)
        session = aiohttp.ClientSession(timeout=limit, headers=_AGENT)
        async with session, asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            tasks.create_task(self._schedule(session))

    async def _follow(self) -> None:
        while True:
            version = str(self._store.version)
            async for event in self._store.watch(PODS, resource_version=version, timeout_s=3600.0, bookmark_s=3600.0):
                if event.type in ("ADDED", "MODIFIED") and b'"schedulerName":"netgang"' in event.object:
                    self._seen(msgspec.json.decode(event.object))

    def _seen(self, pod: _Pod) -> None:
        uid, spec = pod["metadata"]["uid"], pod["spec"]
        if spec.get("schedulingGates") or uid in self._known:
            return
        self._known[uid] = "queued"
        if spec.get("nodeName"):
            return
        self._let_in(pod)
        self._queue.put_nowait(pod)

    async def _schedule(self, session: aiohttp.ClientSession) -> None:
        backoffs: dict[str, float] = {}
        while True:
            pod = await self._queue.get()
            namespace, name, uid = (pod["metadata"][key] for key in ("namespace", "name", "uid"))
            try:
                pod = self._store.get(PODS, namespace, name)
            except NotFoundError:
                continue
            if pod["metadata"]["uid"] != uid or pod["spec"].get("nodeName"):
                continue
            self.counts["asked"] += 1
            self.counts["asked_at_the_gate"] += bool(pod["spec"].get("schedulingGates"))
            node = await self._node_for(session, pod)
            if node is None:
                self.counts["refused"] += 1
                again_s = backoffs[uid] = min(2.0 * backoffs.get(uid, 0.5 * _FIRST_BACKOFF_S), _LONGEST_BACKOFF_S)
                asyncio.get_running_loop().call_later(again_s, self._queue.put_nowait, pod)
                continue
            self._assumed[uid] = node
            task = asyncio.create_task(self._bind(session, pod, node))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _node_for(self, session: aiohttp.ClientSession, pod: _Pod) -> str | None:
        names = self._with_room(_allowed(pod))
        if not names:
            return None
        found = await self._ask(session, "filter", {"Pod": pod, "Nodes": None, "NodeNames": names})
        passed = found.get("NodeNames") or []
        if found.get("Error") or not passed:
            return None
        if len(passed) == 1:
            return str(passed[0])
        scores = await self._ask(session, "prioritize", {"Pod": pod, "Nodes": None, "NodeNames": passed})
        return str(max(scores, key=lambda one: (one["Score"], one["Host"]))["Host"])

    async def _bind(self, session: aiohttp.ClientSession, pod: _Pod, node: str) -> None:
        metadata = pod["metadata"]
        args = {"PodName": metadata["name"], "PodNamespace": metadata["namespace"], "PodUID": metadata["uid"]}
        answer = await self._ask(session, "bind", {**args, "Node": node})
        del self._assumed[metadata["uid"]]
        if answer.get("Error"):
            self.counts["failed_binds"] += 1
            asyncio.get_running_loop().call_later(_FIRST_BACKOFF_S, self._queue.put_nowait, pod)
        else:
            self.counts["binds"] += 1
            self._bound(pod)

    async def _ask(self, session: aiohttp.ClientSession, verb: str, body: object) -> Any:
        async with session.post(f"{self._url}/{verb}", data=msgspec.json.encode(body)) as answer:
            return msgspec.json.decode(await answer.read())

    def _with_room(self, names: list[str]) -> list[str]:
        """In-tree filters: nodes that exist and whose GPUs are free. Few names are asked for at a time."""
        nodes = self._store.bodies(NODES)
        taken = set(self._assumed.values())
        for body in self._store.bodies(PODS).values():
            if _GPU.encode() in body and b'"nodeName"' in body:
                taken.add(_NODE_NAME.decode(body).spec.nodeName)
        return [name for name in names if ("", name) in nodes and name not in taken]


class _Spec(msgspec.Struct):
    nodeName: str = ""


class _Placed(msgspec.Struct):
    spec: _Spec


_NODE_NAME = msgspec.json.Decoder(_Placed)


def _allowed(pod: _Pod) -> list[str]:
    """Nodes that the pod's required affinity names."""
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
    lines = [line for term in terms for line in (*term.get("matchFields", ()), *term.get("matchExpressions", ()))]
    return sorted({value for line in lines if line["key"] in _BY_NAME for value in line["values"]})


_BY_NAME = ("metadata.name", "kubernetes.io/hostname")
