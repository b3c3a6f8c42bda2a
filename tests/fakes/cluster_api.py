"""A ClusterApi in memory: keeps the port's promises, and breaks them on demand.

Its objects live in an ApiStore, so binding, patching and evicting change them and the watches tell. Verbs, for faults,
latency and counts: list, labelled, watch, bind, patch, admit, get, get_object, patch_object, evict, group_status,
create_event, create_object, delete_object.
"""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from bench.apiserver.store import ApiStore, Object
from extender.errors import ApiError, ConflictError
from extender.kube.calls import (
    BUDGETS,
    DAEMON_SETS,
    DEVICE_CLASSES,
    EVENTS,
    MADE,
    NODES,
    OWNERS,
    POD_GROUPS,
    PODS,
    QUOTAS,
    SUSPENDED,
    Resource,
    collection_path,
    owner_path,
    resource_of,
)
from extender.ports import Binding, Labelled, Page, WatchEvent
from scoring.ids import PodUid
from tests.fakes.key_store import KEY, FakeKeyStore

_OWNERS = {kind: resource for (_, kind), resource in OWNERS.items()}
_RESOURCES: dict[str, Resource] = {
    **{
        "Pod": PODS,
        "Node": NODES,
        "PodGroup": POD_GROUPS,
        "Event": EVENTS,
        "DeviceClass": DEVICE_CLASSES,
        "PodDisruptionBudget": BUDGETS,
    },
    "ResourceQuota": QUOTAS,
    "DaemonSet": DAEMON_SETS,
    **_OWNERS,
}


@dataclass(frozen=True, slots=True)
class _Fault:
    error: Exception
    applied: bool


@dataclass(slots=True, eq=False)
class _Watch:
    """A watch that is open now; `error` is what it ends with."""

    error: Exception | None = None


class FakeClusterApi:
    """The API server as the service sees it; `add` and `remove` are what other people do to the cluster."""

    def __init__(self, *objects: Mapping[str, Any], store: ApiStore | None = None, bookmark_s: float = 60.0) -> None:
        self.store = store if store is not None else ApiStore()
        self.store.install(BUDGETS)
        self.store.install(DEVICE_CLASSES)
        self.store.install(QUOTAS)
        self.bookmark_s = bookmark_s
        self.latency_s: dict[str, float] = {}
        """verb → time each call takes before it has an effect; verbs not named take none"""
        self.calls: Counter[str] = Counter()
        """verb → calls so far, failed ones included"""
        self.admitted: list[str] = []
        """Names of pods whose gate was removed, in order"""
        self.events: list[Object] = []
        """Events created"""
        self.status_patches: list[tuple[str, dict[str, Any]]] = []
        """PodGroups (by name) whose status was patched, and what with, in order"""
        self.status_fields = frozenset({"phase", "running", "succeeded", "failed", "occupiedBy", "scheduleStartTime"})
        """What the PodGroup's definition keeps of a status; the rest is dropped without a word"""
        self._faults: defaultdict[str, deque[_Fault]] = defaultdict(deque)
        self._held: dict[str, asyncio.Event] = {}
        self._watches: list[_Watch] = []
        self.keys = FakeKeyStore(KEY)
        """The Secret in netgang's namespace"""
        for one in objects:
            self.add(one)

    # The cluster.

    def add(self, obj: Mapping[str, Any]) -> Object:
        """Create or replace an object (a Pod unless `kind` says otherwise); returns it as stored."""
        kind = obj.get("kind", "Pod")
        if kind in _OWNERS:
            self.store.install(_OWNERS[kind])
        return self.store.put(_RESOURCES[kind], obj)

    def remove(self, name: str, *, namespace: str = "default", kind: str = "Pod") -> None:
        """Delete an object."""
        resource = _RESOURCES[kind]
        self.store.remove(resource, namespace if resource.namespaced else "", name)

    def pod(self, name: str, *, namespace: str = "default") -> Object:
        """A pod as stored."""
        return self.store.get(PODS, namespace, name)

    @property
    def bindings(self) -> list[Binding]:
        """Bindings in the order in which they took effect."""
        return self.store.bindings

    @property
    def evictions(self) -> list[PodUid]:
        """Pods evicted, in order."""
        return self.store.evictions

    @property
    def patches(self) -> list[tuple[PodUid, dict[str, str]]]:
        """Pods patched and the annotations each patch set, in order."""
        return self.store.patches

    # Faults.

    def fail_next(self, verb: str, error: Exception, *, times: int = 1, applied: bool = False) -> None:
        """Let the next calls of `verb` end with `error`; `applied`: after they took effect, as a lost answer does."""
        self._faults[verb].extend([_Fault(error, applied)] * times)

    def heal(self) -> None:
        """Forget all faults that were planned and not met."""
        self._faults.clear()

    @property
    def open_watches(self) -> int:
        """How many watches are open now."""
        return len(self._watches)

    def break_watches(self, error: Exception | None = None) -> None:
        """End all open watches, with `error` or cleanly."""
        for watch in self._watches:
            watch.error = error
        self.store.hang_up()

    def hold(self, verb: str) -> asyncio.Event:
        """Let calls of `verb` wait, before they have an effect, until the returned event is set."""
        self._held[verb] = asyncio.Event()
        return self._held[verb]

    # The port.

    async def list_page(self, path: str, *, limit: int, continue_token: str = "", not_older_than: str = "") -> Page:
        """GET one page."""
        resource, namespace, query = _target(path)
        fault = await self._begin("list")
        page = self.store.page(
            resource,
            namespace=namespace,
            limit=limit,
            continue_token=continue_token,
            not_older_than=not_older_than,
            labels=dict(pair.split("=", 1) for pair in query.get("labelSelector", "").split(",") if pair),
        )
        _end(fault)
        return page

    async def watch(self, path: str, *, resource_version: str, timeout_s: int) -> AsyncGenerator[WatchEvent, None]:
        """Watch a collection."""
        resource, namespace, _ = _target(path)
        _end(await self._begin("watch"))
        mine = _Watch()
        self._watches.append(mine)
        events = self.store.watch(
            resource,
            namespace=namespace,
            resource_version=resource_version,
            timeout_s=timeout_s,
            bookmark_s=self.bookmark_s,
        )
        try:
            async with aclosing(events):
                async for event in events:
                    yield event
            if mine.error is not None:
                raise mine.error
        finally:
            self._watches.remove(mine)

    async def bind(self, binding: Binding) -> None:
        """POST a Binding; a pod that is on that very node already counts as bound."""
        fault = await self._begin("bind")
        pod = self.store.get(PODS, binding.namespace, binding.name)
        there = pod["metadata"]["uid"] == binding.uid and pod.get("spec", {}).get("nodeName") == binding.node
        if not there:
            self.store.bind(binding)
        _end(fault)

    async def annotate_pod(self, namespace: str, name: str, uid: PodUid, annotations: Mapping[str, str]) -> None:
        """Patch annotations of the very pod."""
        fault = await self._begin("patch")
        if self.store.get(PODS, namespace, name)["metadata"]["uid"] != uid:
            raise ConflictError(409, f"pod {namespace}/{name} was replaced by another of the same name")
        self.store.merge_patch(PODS, namespace, name, {"metadata": {"uid": uid, "annotations": dict(annotations)}})
        _end(fault)

    async def admit_pod(self, namespace: str, name: str, uid: PodUid, patch: bytes) -> None:
        """Apply an admission patch to the very pod; 422 for one whose gate is gone already is success."""
        fault = await self._begin("admit")
        pod = self.store.get(PODS, namespace, name)
        if pod["metadata"]["uid"] != uid:
            raise ConflictError(409, f"pod {namespace}/{name} was replaced by another of the same name")
        try:
            self.store.admission_patch(namespace, name, msgspec.json.decode(patch))
        except ApiError as error:
            if error.status != 422 or self.store.get(PODS, namespace, name)["spec"].get("schedulingGates"):
                raise
        self.admitted.append(name)
        _end(fault)

    async def get_pod(self, namespace: str, name: str) -> bytes:
        """GET one pod."""
        fault = await self._begin("get")
        body = self.store.body(PODS, namespace, name)
        _end(fault)
        return body

    async def get_object(self, api_version: str, kind: str, namespace: str, name: str) -> bytes:
        """GET an owner of pods; any version of its kind is served."""
        owner_path(api_version, kind, namespace, name)
        fault = await self._begin("get_object")
        body = self.store.body(OWNERS[api_version.rpartition("/")[0], kind], namespace, name)
        _end(fault)
        return body

    async def labelled_owners(self, label: str) -> Sequence[Labelled]:
        """All owners of kinds that can be suspended and are served, that have this label."""
        fault = await self._begin("labelled")
        name, _, value = label.partition("=")
        found = [
            Labelled(f"{resource.group}/{resource.version}", kind, body)
            for (_, kind), resource in SUSPENDED.items()
            if resource in self.store.resources
            for body in self.store.bodies(resource).values()
            if msgspec.json.decode(body)["metadata"].get("labels", {}).get(name) == value
        ]
        _end(fault)
        return found

    async def patch_object(self, api_version: str, kind: str, namespace: str, name: str, patch: bytes) -> bytes:
        """Merge patch of an owner of pods; an old version is a conflict."""
        owner_path(api_version, kind, namespace, name, among=SUSPENDED)
        fault = await self._begin("patch_object")
        resource = OWNERS[api_version.rpartition("/")[0], kind]
        self.store.merge_patch(resource, namespace, name, msgspec.json.decode(patch))
        _end(fault)
        return self.store.body(resource, namespace, name)

    async def evict(self, namespace: str, name: str, uid: PodUid, *, resource_version: str = "") -> None:
        """Evict the very pod."""
        fault = await self._begin("evict")
        if resource_version not in ("", self.store.get(PODS, namespace, name)["metadata"]["resourceVersion"]):
            raise ConflictError(409, "the ResourceVersion in the precondition does not match that in record")
        self.store.evict(namespace, name, uid=uid)
        _end(fault)

    async def patch_group_status(self, namespace: str, name: str, patch: bytes) -> bytes:
        """Merge patch of a PodGroup's status: unknown fields are dropped, an old version is a conflict."""
        fault = await self._begin("group_status")
        self.write_status(name, msgspec.json.decode(patch), by="netgang", namespace=namespace)
        _end(fault)
        return self.store.body(POD_GROUPS, namespace, name)

    def write_status(self, name: str, patch: Mapping[str, Any], *, by: str, namespace: str = "default") -> None:
        """What a patch of the status subresource does, whoever sends it: `by` is noted as its field manager."""
        old = self.store.get(POD_GROUPS, namespace, name)
        version = old["metadata"]["resourceVersion"]
        if patch.get("metadata", {}).get("resourceVersion", version) != version:
            raise ConflictError(409, "the object has been modified; please apply your changes to the latest version")
        status = {**old.get("status", {}), **patch["status"]}
        status = {key: value for key, value in status.items() if key in self.status_fields and value is not None}
        if status == old.get("status", {}):
            return
        writers = [one for one in old["metadata"].get("managedFields", []) if one["manager"] != by]
        writers.append({"manager": by, "subresource": "status"})
        metadata = {**old["metadata"], "managedFields": writers}
        self.store.put(POD_GROUPS, {**old, "metadata": metadata, "status": status})
        if by == "netgang":
            self.status_patches.append((name, dict(patch["status"])))

    async def create_event(self, namespace: str, event: Mapping[str, Any]) -> None:
        """POST an Event."""
        fault = await self._begin("create_event")
        metadata = {**event.get("metadata", {}), "namespace": namespace}
        metadata.setdefault("name", f"event-{len(self.events)}")
        self.events.append(self.store.put(EVENTS, {**event, "metadata": metadata}))
        _end(fault)

    async def create_object(self, api_version: str, kind: str, namespace: str, content: Mapping[str, Any]) -> None:
        """POST an object; only of kinds that are installed."""
        collection_path(api_version, kind, namespace, among=MADE)
        fault = await self._begin("create_object")
        resource, metadata = MADE[api_version.rpartition("/")[0], kind], content["metadata"]
        if (namespace, metadata["name"]) in self.store.bodies(resource):
            raise ConflictError(409, f'{resource.plural} "{metadata["name"]}" already exists')
        self.store.put(resource, {**content, "metadata": {**metadata, "namespace": namespace}})
        _end(fault)

    async def delete_object(self, api_version: str, kind: str, namespace: str, name: str) -> None:
        """DELETE an object; what it owns stays."""
        owner_path(api_version, kind, namespace, name, among=MADE)
        fault = await self._begin("delete_object")
        self.store.remove(MADE[api_version.rpartition("/")[0], kind], namespace, name)
        _end(fault)

    async def _begin(self, verb: str) -> _Fault | None:
        """Count the call, let it take its time, and fail it if it must fail without an effect."""
        self.calls[verb] += 1
        if self.latency_s.get(verb):
            await asyncio.sleep(self.latency_s[verb])
        if verb in self._held:
            await self._held[verb].wait()
        fault = self._faults[verb].popleft() if self._faults[verb] else None
        if fault is not None and not fault.applied:
            raise fault.error
        return fault


def _end(fault: _Fault | None) -> None:
    if fault is not None:
        raise fault.error


def _target(path: str) -> tuple[Resource, str, dict[str, str]]:
    """What a collection path means: kind, namespace ("" for all), query."""
    resource = resource_of(path)
    bare, _, query = path.partition("?")
    inside = bare.removeprefix(f"{resource.root}/namespaces/")
    return resource, "" if inside == bare else inside.partition("/")[0], dict(parse_qsl(query))
