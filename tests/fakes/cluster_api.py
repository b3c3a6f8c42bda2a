"""A ClusterApi in memory (an ApiStore, without HTTP): keeps the port's promises, and breaks them on demand.

Each call takes effect inside `call(verb)`, which may wait or raise before and after it. Verbs: list, labelled, watch,
bind, patch, admit, get, get_object, patch_object, evict, group_status, pod_status, create_event.
"""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from extender.errors import ApiError, ConflictError
from extender.kube import calls
from extender.ports import Binding, Labelled, Page, WatchEvent
from lab.testbed.apiserver.store import ApiStore, Object
from scoring.ids import PodUid
from tests.fakes.reviews import FakeReviews
from tests.fakes.text_store import FakeTextStore

_STATUS_FIELDS = frozenset({"phase", "running", "succeeded", "failed", "occupiedBy", "scheduleStartTime"})
"""What the PodGroup's definition keeps of a status; the rest is dropped without a word"""

_OWNERS = {kind: resource for (_, kind), resource in calls.OWNERS.items()}
_RESOURCES = _OWNERS | {
    "Pod": calls.PODS, "Node": calls.NODES, "PodGroup": calls.POD_GROUPS, "Event": calls.EVENTS,
    "PodDisruptionBudget": calls.BUDGETS, "ResourceQuota": calls.QUOTAS, "DaemonSet": calls.DAEMON_SETS,
}  # fmt: skip


class FakeClusterApi:
    """The API server as the service sees it; `add` and `remove` are what other people do to the cluster."""

    def __init__(self, *objects: Mapping[str, Any], store: ApiStore | None = None, bookmark_s: float = 60.0) -> None:
        self.store = store if store is not None else ApiStore()
        self.store.install(calls.BUDGETS, calls.QUOTAS, calls.NATIVE_GROUPS[0])
        self.bindings, self.evictions, self.patches = self.store.bindings, self.store.evictions, self.store.patches
        self.bookmark_s = bookmark_s
        self.calls: Counter[str] = Counter()  # verb → calls so far, failed ones included
        self.admitted: list[str] = []  # names of pods whose gate was removed, in order
        self.events: list[Object] = []  # events created; none where the store does not serve them
        self.status_patches: list[tuple[str, dict[str, Any]]] = []  # PodGroups' names and patches, in order
        self.status_fields = _STATUS_FIELDS
        self.latency_s: dict[str, float] = {}  # verb → time each call takes before it has an effect
        self._faults: defaultdict[str, deque[tuple[Exception | None, bool]]] = defaultdict(deque)
        self._held: dict[str, asyncio.Event] = {}
        self.reviews = FakeReviews()
        self.started = FakeTextStore()  # a ConfigMap in netgang's namespace
        for one in objects:
            self.add(one)

    # The cluster.

    def add(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Create or replace an object (a Pod unless `kind` says otherwise); returns it as stored."""
        kind = obj.get("kind", "Pod")
        if kind in _OWNERS:
            self.store.install(_OWNERS[kind])
        native = str(obj.get("apiVersion", "")).startswith("scheduling.k8s.io/")
        return self.store.put(calls.NATIVE_GROUPS[0] if native else _RESOURCES[kind], obj)

    def remove(self, name: str, *, namespace: str = "default", kind: str = "Pod") -> None:
        resource = _RESOURCES[kind]
        self.store.remove(resource, namespace if resource.namespaced else "", name)

    def pod(self, name: str, *, namespace: str = "default") -> dict[str, Any]:
        return self.store.get(calls.PODS, namespace, name)

    # Faults.

    def fail_next(self, verb: str, error: Exception, *, times: int = 1, applied: bool = False) -> None:
        """Let the next calls of `verb` end with `error`; `applied`: after they took effect, as a lost answer does."""
        self._faults[verb].extend([(error, applied)] * times)

    def heal(self) -> None:
        self._faults.clear()

    def break_watches(self, error: Exception | None = None) -> None:
        self.store.hang_up(error)

    def hold(self, verb: str) -> asyncio.Event:
        """Let calls of `verb` wait, before they have an effect, until the returned event is set."""
        self._held[verb] = asyncio.Event()
        return self._held[verb]

    @asynccontextmanager
    async def call(self, verb: str) -> AsyncIterator[None]:
        """Count a call, let it take its time, and fail it as planned: without an effect, or after it took effect."""
        self.calls[verb] += 1
        if self.latency_s.get(verb):
            await asyncio.sleep(self.latency_s[verb])
        if verb in self._held:
            await self._held[verb].wait()
        error, applied = self._faults[verb].popleft() if self._faults[verb] else (None, False)
        if error is not None and not applied:
            raise error
        yield
        if error is not None:
            raise error

    # The port.

    async def list_page(self, path: str, *, limit: int, continue_token: str = "", not_older_than: str = "") -> Page:
        resource, namespace, query = _target(path)
        labels = dict(pair.split("=", 1) for pair in query.get("labelSelector", "").split(",") if pair)
        async with self.call("list"):
            return self.store.page(
                resource, namespace=namespace, limit=limit, continue_token=continue_token,
                not_older_than=not_older_than, labels=labels,
            )  # fmt: skip

    async def watch(self, path: str, *, resource_version: str, timeout_s: int) -> AsyncGenerator[WatchEvent, None]:
        resource, namespace, _ = _target(path)
        async with self.call("watch"):
            pass
        events = self.store.watch(
            resource, namespace=namespace, resource_version=resource_version, timeout_s=timeout_s,
            bookmark_s=self.bookmark_s,
        )  # fmt: skip
        async with aclosing(events):
            async for event in events:
                yield event

    async def bind(self, binding: Binding) -> None:
        """See ClusterApi; a pod that is on that very node already counts as bound."""
        async with self.call("bind"):
            pod = self.store.state(calls.PODS, binding.namespace, binding.name).new
            if (pod["metadata"]["uid"], pod["spec"].get("nodeName")) != (binding.uid, binding.node):
                self.store.bind(binding)

    async def annotate_pod(self, namespace: str, name: str, uid: PodUid, annotations: Mapping[str, str]) -> None:
        async with self.call("patch"):
            self._pod(namespace, name, uid)
            self.store.merge_patch(calls.PODS, namespace, name, {"metadata": {"annotations": dict(annotations)}})

    async def admit_pod(self, namespace: str, name: str, uid: PodUid, patch: bytes) -> None:
        """See ClusterApi; 422 for a pod whose gate is gone already is success."""
        async with self.call("admit"):
            self._pod(namespace, name, uid)
            try:
                self.store.admission_patch(namespace, name, msgspec.json.decode(patch))
            except ApiError as error:
                if error.status != 422 or self._pod(namespace, name, uid)["spec"].get("schedulingGates"):
                    raise
            self.admitted.append(name)

    async def get_pod(self, namespace: str, name: str) -> bytes:
        async with self.call("get"):
            return self.store.body(calls.PODS, namespace, name)

    async def get_object(self, api_version: str, kind: str, namespace: str, name: str) -> bytes:
        """See ClusterApi; any version of a kind is served."""
        calls.served_as(api_version, kind)
        async with self.call("get_object"):
            return self.store.body(calls.OWNERS[api_version.rpartition("/")[0], kind], namespace, name)

    async def labelled_owners(self, label: str) -> Sequence[Labelled]:
        name, _, value = label.partition("=")
        async with self.call("labelled"):
            return [
                Labelled(f"{resource.group}/{resource.version}", kind, one.body)
                for (_, kind), resource in calls.SUSPENDED.items()
                if resource in self.store.resources
                for one in self.store.all(resource)
                if (one.new["metadata"].get("labels") or {}).get(name) == value
            ]

    async def patch_object(self, api_version: str, kind: str, namespace: str, name: str, patch: bytes) -> bytes:
        calls.served_as(api_version, kind, among=calls.SUSPENDED)
        resource = calls.SUSPENDED[api_version.rpartition("/")[0], kind]
        async with self.call("patch_object"):
            self.store.merge_patch(resource, namespace, name, msgspec.json.decode(patch))
        return self.store.body(resource, namespace, name)

    async def evict(self, namespace: str, name: str, uid: PodUid, *, resource_version: str = "") -> None:
        async with self.call("evict"):
            self.store.evict(namespace, name, uid=uid, resource_version=resource_version)

    async def patch_group_status(self, namespace: str, name: str, patch: bytes) -> bytes:
        """See ClusterApi: unknown fields are dropped."""
        async with self.call("group_status"):
            self.write_status(name, msgspec.json.decode(patch), by="netgang", namespace=namespace)
        return self.store.body(calls.POD_GROUPS, namespace, name)

    def write_status(self, name: str, patch: Mapping[str, Any], *, by: str, namespace: str = "default") -> None:
        """What a patch of the status subresource does, from any client: `by` is noted as its field manager."""
        old = self.store.state(calls.POD_GROUPS, namespace, name).new
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
        self.store.replace(calls.POD_GROUPS, {**old, "metadata": metadata, "status": status})
        if by == "netgang":
            self.status_patches.append((name, dict(patch["status"])))

    async def patch_pod_status(self, namespace: str, name: str, uid: PodUid, patch: bytes) -> None:
        """See ClusterApi: of a strategic merge patch, what concerns conditions."""
        async with self.call("pod_status"):
            self._pod(namespace, name, uid)
            self.store.conditions_patch(namespace, name, msgspec.json.decode(patch))

    async def create_event(self, namespace: str, event: Mapping[str, Any]) -> None:
        """See ClusterApi; one that the store does not serve is dropped."""
        async with self.call("create_event"):
            if calls.EVENTS in self.store.resources:
                metadata = {**event.get("metadata", {}), "namespace": namespace}
                metadata.setdefault("name", f"event-{len(self.events)}")
                self.events.append(self.store.put(calls.EVENTS, {**event, "metadata": metadata}))

    def _pod(self, namespace: str, name: str, uid: PodUid) -> Object:
        """The very pod. NotFoundError, ConflictError: it is gone, or another has its name."""
        pod = self.store.state(calls.PODS, namespace, name).new
        if pod["metadata"]["uid"] != uid:
            raise ConflictError(409, f"pod {namespace}/{name} was replaced by another of the same name")
        return pod


def _target(path: str) -> tuple[calls.Resource, str, dict[str, str]]:
    """What a collection path means: kind, namespace ("" for all), query. ValueError: not a known kind."""
    resource = calls.resource_of(path)
    bare, _, query = path.partition("?")
    inside = bare.removeprefix(f"{resource.root}/namespaces/")
    return resource, "" if inside == bare else inside.partition("/")[0], dict(parse_qsl(query))
