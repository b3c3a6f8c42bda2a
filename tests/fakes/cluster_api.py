"""A ClusterApi in memory (the real client, an API server without HTTP): breaks the port's promises on demand.

Each call takes effect inside `call(verb)`, which may wait or raise before and after it.
"""

import asyncio
import random
from collections import Counter, defaultdict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

import msgspec

from extender.errors import ConflictError
from extender.kube import calls
from extender.kube.client import KubeClient
from extender.kube.transport import Transport
from extender.ports import Page, WatchEvent
from lab.testbed.apiserver.server import InProcess, LoopbackApi
from lab.testbed.apiserver.store import ApiStore, Object
from scoring import PodUid
from tests.fakes.clock import LoopClock
from tests.fakes.reviews import FakeReviews
from tests.fakes.text_store import FakeTextStore

_STATUS_FIELDS = frozenset({"phase", "running", "succeeded", "failed", "occupiedBy", "scheduleStartTime"})
"""What the PodGroup's definition keeps of a status; the rest is dropped without a word"""

_OWNERS = {kind: resource for (_, kind), resource in {**calls.OWNERS, **calls.PATCHED}.items()}
_RESOURCES = _OWNERS | {
    "Pod": calls.PODS, "Node": calls.NODES, "PodGroup": calls.POD_GROUPS, "Event": calls.EVENTS,
    "PodDisruptionBudget": calls.BUDGETS, "ResourceQuota": calls.QUOTAS, "DaemonSet": calls.DAEMON_SETS,
}  # fmt: skip
_VERBS = {  # call of the client → verb; others are below: list, labelled, watch, admit and group_status
    "bind": "bind", "evict": "evict", "annotate_pod": "patch", "get_pod": "get", "get_object": "get_object",
    "patch_object": "patch_object", "patch_pod_status": "pod_status", "create_event": "create_event",
    "patch_node_status": "node_status",
}  # fmt: skip


class FakeClusterApi(KubeClient):
    """The API server as the service sees it; `add` and `remove` are what other people do to the cluster."""

    def __init__(self, *objects: Mapping[str, Any], store: ApiStore | None = None, bookmark_s: float = 60.0) -> None:
        self.store = store if store is not None else ApiStore()
        self.store.install(calls.BUDGETS, calls.QUOTAS, calls.NATIVE_GROUPS[0])
        self.bindings, self.evictions, self.patches = self.store.bindings, self.store.evictions, self.store.patches
        self.server = LoopbackApi(self.store, bookmark_s=bookmark_s)
        wire = cast(Transport, InProcess(self.server))
        super().__init__(wire, LoopClock(), random.Random(0))
        self.client = KubeClient(wire, self.clock, self.rng)  # whose own calls of others do not count
        self.calls: Counter[str] = Counter()  # verb → calls so far, failed ones included
        self.admitted: list[str] = []  # names of pods whose gate was removed, in order
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

    @property
    def events(self) -> list[Object]:
        return [one.new for one in sorted(self.store.all(calls.EVENTS), key=lambda one: one.version)]

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

    # The port, where a call is more than the client's.

    async def list_page(self, path: str, **how: Any) -> Page:
        async with self.call("labelled" if "netgang.io" in path else "list"):  # owners that carry a mark of ours
            return await self.client.list_page(path, **how)

    async def admit_pod(self, namespace: str, name: str, uid: PodUid, patch: bytes) -> None:
        async with self.call("admit"):
            await self.client.admit_pod(namespace, name, uid, patch)
            self.admitted.append(name)

    async def watch(self, path: str, *, resource_version: str, timeout_s: int) -> AsyncGenerator[WatchEvent, None]:
        async with self.call("watch"):
            pass
        watch = self.client.watch(path, resource_version=resource_version, timeout_s=timeout_s)
        async with aclosing(watch) as events:
            async for event in events:
                yield event

    async def patch_group_status(self, namespace: str, name: str, patch: bytes) -> bytes:
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


def _counted(method: str, verb: str) -> Callable[..., Any]:
    async def called(self: FakeClusterApi, *args: Any, **how: Any) -> Any:
        async with self.call(verb):
            return await getattr(self.client, method)(*args, **how)

    return called


for _method, _verb in _VERBS.items():
    setattr(FakeClusterApi, _method, _counted(_method, _verb))
