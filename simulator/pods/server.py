"""The API server of a simulated cluster, as the service sees it through its ClusterApi port.

Why not a loopback server: nothing of HTTP is simulated, and a call costs a timer. Rules: a call takes effect after its
latency, in one step, and is answered then; it is refused for the reasons of the real one (an object that was replaced,
a pod that is bound, gated or going, an old version). Events are counted and dropped: no client reads them.
"""

import asyncio
import random
from collections import Counter, deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from extender.errors import ApiError, ConflictError, GoneError, NotFoundError
from extender.kube.calls import BUDGETS, OWNERS, POD_GROUPS, PODS, SUSPENDED, Resource, owner_path, resource_of
from extender.ports import Binding, Labelled, Page, WatchEvent
from scoring.ids import PodUid
from simulator.pods.latency import Latencies
from simulator.pods.store import Changed, Object, Store

_BOOKMARK_S = 60.0
_NOTHING = Page((), "1")


class ApiServer:
    """ClusterApi over a Store."""

    def __init__(self, store: Store, latencies: Latencies, rng: random.Random) -> None:
        self.store = store
        self.calls: Counter[str] = Counter()
        """call → how often it was made"""
        self._latencies = latencies
        self._rng = rng
        self._pages: dict[str, tuple[list[Changed], str]] = {}
        """continue token → what is still to come, and the version it is of"""
        self._tokens = 0

    # -- what the service calls ---------------------------------------------------------------------------------------

    async def list_page(self, path: str, *, limit: int, continue_token: str = "", not_older_than: str = "") -> Page:
        """See ClusterApi; every page is of the moment of the first."""
        self.calls["list"] += 1
        kind, namespace, labels = _target(path)
        await asyncio.sleep(self._latencies.page.draw(self._rng))
        if continue_token:
            if continue_token not in self._pages:
                raise GoneError(410, "the continue token is not known")
            found, version = self._pages.pop(continue_token)
        else:
            if kind == BUDGETS and not self.store.serves(kind):
                return _NOTHING
            found, version = self.store.all(kind, namespace), str(self.store.version)
            if labels:
                found = [one for one in found if labels.items() <= (one.new["metadata"].get("labels") or {}).items()]
        now, later = (found[:limit], found[limit:]) if limit else (found, [])
        token = ""
        if later:
            self._tokens += 1
            token = str(self._tokens)
            self._pages[token] = later, version
        return Page([one.body for one in now], version, token)

    async def watch(self, path: str, *, resource_version: str, timeout_s: int) -> AsyncGenerator[WatchEvent, None]:
        """See ClusterApi. Changes come after the watch's latency, a bookmark in each minute of silence."""
        self.calls["watch"] += 1
        kind, namespace, _ = _target(path)
        heard: deque[Changed] = deque()
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] | None = None

        def hear(change: Changed) -> None:
            heard.append(change)
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

        feed = self.store.follow(kind, hear, delay_s=self._latencies.watch_s, since=int(resource_version))
        ends_s = loop.time() + timeout_s
        try:
            while True:
                while heard:
                    change = heard.popleft()
                    if namespace in ("", change.new["metadata"].get("namespace", "")):
                        yield WatchEvent(change.type, change.body)
                left_s = ends_s - loop.time()
                if left_s <= 0.0:
                    return
                waiter = loop.create_future()
                alarm = loop.call_later(min(left_s, _BOOKMARK_S), _wake, waiter)
                seen = 0 if feed.pending else self.store.version  # a bookmark must not be ahead of what was sent
                await waiter
                alarm.cancel()
                if not heard and seen:
                    yield WatchEvent("BOOKMARK", _bookmark(seen))
        finally:
            self.store.unfollow(kind, feed)

    async def bind(self, binding: Binding) -> None:
        """See ClusterApi. A pod that is on that node already counts as bound."""
        await self._write("bind")
        pod = self._pod(binding.namespace, binding.name, binding.uid)
        spec = pod["spec"]
        if spec.get("nodeName") == binding.node:
            return
        if spec.get("nodeName"):
            raise ConflictError(409, f"pod {binding.name} is assigned to node {spec['nodeName']}")
        if "deletionTimestamp" in pod["metadata"] or spec.get("schedulingGates"):
            raise ConflictError(409, f"pod {binding.name} is being deleted or has scheduling gates")
        stamp = self.store.stamp()
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp}
        self.store.replace(
            PODS, {**pod, "spec": {**spec, "nodeName": binding.node}, "status": with_condition(pod, scheduled)}
        )

    async def annotate_pod(self, namespace: str, name: str, uid: PodUid, annotations: Mapping[str, str]) -> None:
        """See ClusterApi."""
        await self._write("annotate")
        self._pod(namespace, name, uid)
        self.store.merge(PODS, namespace, name, {"metadata": {"annotations": dict(annotations)}})

    async def admit_pod(self, namespace: str, name: str, uid: PodUid, patch: bytes) -> None:
        """See ClusterApi: gates leave by name; the affinity of a pod without gates cannot be changed any more."""
        await self._write("admit")
        gates = self._pod(namespace, name, uid)["spec"].get("schedulingGates") or []
        wanted = msgspec.json.decode(patch)
        gone = {one["name"] for one in wanted["spec"].get("schedulingGates", ()) if one.get("$patch") == "delete"}
        left = [one for one in gates if one["name"] not in gone]
        if left == gates:
            return  # it took effect before
        metadata = {key: value for key, value in wanted.get("metadata", {}).items() if key != "uid"}
        spec = {**wanted["spec"], "schedulingGates": left or None}
        self.store.merge(PODS, namespace, name, {"metadata": metadata, "spec": spec})

    async def get_pod(self, namespace: str, name: str) -> bytes:
        """See ClusterApi."""
        await self._write("get")
        return self.store.state(PODS, namespace, name).body

    async def get_object(self, api_version: str, kind: str, namespace: str, name: str) -> bytes:
        """See ClusterApi."""
        owner_path(api_version, kind, namespace, name)
        await self._write("get")
        return self.store.state(OWNERS[api_version.rpartition("/")[0], kind], namespace, name).body

    async def labelled_owners(self, label: str) -> Sequence[Labelled]:
        """See ClusterApi."""
        await self._write("labelled")
        name, _, value = label.partition("=")
        return [
            Labelled(f"{where.group}/{where.version}", kind, one.body)
            for (_, kind), where in SUSPENDED.items()
            if self.store.serves(where)
            for one in self.store.all(where)
            if (one.new["metadata"].get("labels") or {}).get(name) == value
        ]

    async def patch_object(self, api_version: str, kind: str, namespace: str, name: str, patch: bytes) -> bytes:
        """See ClusterApi."""
        owner_path(api_version, kind, namespace, name, among=SUSPENDED)
        await self._write("patch_owner")
        where = SUSPENDED[api_version.rpartition("/")[0], kind]
        self.store.merge(where, namespace, name, msgspec.json.decode(patch))
        return self.store.state(where, namespace, name).body

    async def evict(self, namespace: str, name: str, uid: PodUid, *, resource_version: str = "") -> None:
        """See ClusterApi: no disruption budget objects."""
        await self._write("evict")
        metadata = self._pod(namespace, name, uid)["metadata"]
        if resource_version not in ("", metadata["resourceVersion"]):
            raise ConflictError(409, f"pod {name} changed since version {resource_version}")
        self.delete_pod(namespace, name)

    async def patch_group_status(self, namespace: str, name: str, patch: bytes) -> bytes:
        """See ClusterApi."""
        await self._write("group_status")
        wanted = msgspec.json.decode(patch)
        by_us = [{"manager": "netgang", "subresource": "status"}]
        wanted["metadata"] = {**wanted.get("metadata", {}), "managedFields": by_us}
        self.store.merge(POD_GROUPS, namespace, name, wanted)
        return self.store.state(POD_GROUPS, namespace, name).body

    async def create_event(self, namespace: str, event: Mapping[str, Any]) -> None:
        """Count it and drop it."""
        await self._write("event")

    async def create_object(self, api_version: str, kind: str, namespace: str, content: Mapping[str, Any]) -> None:
        """There is no autoscaler here that could be asked."""
        raise NotFoundError(404, f"{kind} of {api_version} is not served")

    async def delete_object(self, api_version: str, kind: str, namespace: str, name: str) -> None:
        """None was made."""
        raise NotFoundError(404, f"{kind} {namespace}/{name} not found")

    # -- what others of the cluster do --------------------------------------------------------------------------------

    def delete_pod(self, namespace: str, name: str) -> None:
        """What DELETE does: a pod on a node that has not ended is asked to end, any other is gone at once."""
        pod = self.store.get(PODS, namespace, name)
        if pod["spec"].get("nodeName") and pod["status"].get("phase") not in ("Succeeded", "Failed"):
            self.store.merge(PODS, namespace, name, {"metadata": {"deletionTimestamp": self.store.stamp()}})
        else:
            self.store.delete(PODS, namespace, name)

    async def set_condition(self, namespace: str, name: str, uid: PodUid, condition: Object) -> None:
        """What kube-scheduler writes into a pod's status; a pod that is gone or has that condition is left alone."""
        await self._write("condition")
        try:
            pod = self._pod(namespace, name, uid)
        except ApiError:
            return
        said = ("type", "status", "reason", "message")
        for one in pod["status"].get("conditions", ()):
            if all(one.get(key) == condition.get(key) for key in said):
                return
        dated = {**condition, "lastTransitionTime": self.store.stamp()}
        self.store.replace(PODS, {**pod, "status": with_condition(pod, dated)})

    async def _write(self, call: str) -> None:
        self.calls[call] += 1
        await asyncio.sleep(self._latencies.write.draw(self._rng))

    def _pod(self, namespace: str, name: str, uid: PodUid) -> Object:
        """The very pod. NotFoundError, ConflictError: it is gone, or another has its name."""
        pod = self.store.get(PODS, namespace, name)
        if uid and pod["metadata"]["uid"] != uid:
            raise ConflictError(409, f"pod {namespace}/{name} was replaced by another of its name")
        return pod


def with_condition(pod: Object, condition: Object) -> Object:
    """A pod's status with this condition in place of the one of its type."""
    status = pod.get("status") or {}
    others = [one for one in status.get("conditions", ()) if one["type"] != condition["type"]]
    return {**status, "conditions": [*others, condition]}


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _bookmark(version: int) -> bytes:
    return msgspec.json.encode({"metadata": {"resourceVersion": str(version)}})


def _target(path: str) -> tuple[Resource, str, dict[str, str]]:
    """What a collection's address means: kind, namespace, labels to select by. NotFoundError: not a known kind."""
    try:
        kind = resource_of(path)
    except ValueError as error:
        raise NotFoundError(404, f"{path}: the server could not find the requested resource") from error
    bare, _, query = path.partition("?")
    inside = bare.removeprefix(f"{kind.root}/namespaces/")
    selector = dict(parse_qsl(query)).get("labelSelector", "")
    labels = dict(pair.split("=", 1) for pair in selector.split(",") if pair)
    return kind, "" if inside == bare else inside.partition("/")[0], labels
