"""The ClusterApi port over an ApiStore: what netgang calls, without HTTP.

Why: the simulated cluster and the tests' fake differ only in how long a call takes and how it fails. Rule: each call is
made inside `around(verb)`, which may wait or raise before the call takes effect, and after it. Verbs: list, labelled,
watch, bind, patch, admit, get, get_object, patch_object, evict, group_status, pod_status, create_event, create_object,
delete_object.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

import msgspec

from extender.errors import ApiError, ConflictError
from extender.kube.calls import (
    EVENTS,
    MADE,
    OWNERS,
    POD_GROUPS,
    PODS,
    SUSPENDED,
    Resource,
    resource_of,
    served_as,
)
from extender.ports import Binding, Labelled, Page, WatchEvent
from lab.simulator.apiserver.store import ApiStore, Object
from scoring.ids import PodUid

Around: TypeAlias = Callable[[str], AbstractAsyncContextManager[None]]
_STATUS_FIELDS = frozenset({"phase", "running", "succeeded", "failed", "occupiedBy", "scheduleStartTime"})
"""What the PodGroup's definition keeps of a status; the rest is dropped without a word"""


class StoreApi:
    """ClusterApi over an ApiStore."""

    def __init__(
        self, store: ApiStore, *, around: Around = lambda verb: nullcontext(), bookmark_s: float = 60.0
    ) -> None:
        self.store = store
        self.bookmark_s = bookmark_s
        self.calls: Counter[str] = Counter()
        """verb → calls so far, failed ones included"""
        self.admitted: list[str] = []
        """Names of pods whose gate was removed, in order"""
        self.events: list[Object] = []
        """Events created; none where the store does not serve them"""
        self.status_patches: list[tuple[str, dict[str, Any]]] = []
        """PodGroups (by name) whose status was patched, and what with, in order"""
        self.status_fields = _STATUS_FIELDS
        self._around = around

    def call(self, verb: str) -> AbstractAsyncContextManager[None]:
        """Count a call, which then takes effect inside this context."""
        self.calls[verb] += 1
        return self._around(verb)

    async def list_page(self, path: str, *, limit: int, continue_token: str = "", not_older_than: str = "") -> Page:
        """See ClusterApi."""
        resource, namespace, query = _target(path)
        async with self.call("list"):
            return self.store.page(
                resource,
                namespace=namespace,
                limit=limit,
                continue_token=continue_token,
                not_older_than=not_older_than,
                labels=dict(pair.split("=", 1) for pair in query.get("labelSelector", "").split(",") if pair),
            )

    async def watch(self, path: str, *, resource_version: str, timeout_s: int) -> AsyncGenerator[WatchEvent, None]:
        """See ClusterApi."""
        resource, namespace, _ = _target(path)
        async with self.call("watch"):
            pass
        events = self.store.watch(
            resource,
            namespace=namespace,
            resource_version=resource_version,
            timeout_s=timeout_s,
            bookmark_s=self.bookmark_s,
        )
        async with aclosing(events):
            async for event in events:
                yield event

    async def bind(self, binding: Binding) -> None:
        """See ClusterApi; a pod that is on that very node already counts as bound."""
        async with self.call("bind"):
            pod = self.store.state(PODS, binding.namespace, binding.name).new
            if (pod["metadata"]["uid"], pod["spec"].get("nodeName")) != (binding.uid, binding.node):
                self.store.bind(binding)

    async def annotate_pod(self, namespace: str, name: str, uid: PodUid, annotations: Mapping[str, str]) -> None:
        """See ClusterApi."""
        async with self.call("patch"):
            self._pod(namespace, name, uid)
            self.store.merge_patch(PODS, namespace, name, {"metadata": {"annotations": dict(annotations)}})

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
        """See ClusterApi."""
        async with self.call("get"):
            return self.store.body(PODS, namespace, name)

    async def get_object(self, api_version: str, kind: str, namespace: str, name: str) -> bytes:
        """See ClusterApi; any version of a kind is served."""
        served_as(api_version, kind)
        async with self.call("get_object"):
            return self.store.body(OWNERS[api_version.rpartition("/")[0], kind], namespace, name)

    async def labelled_owners(self, label: str) -> Sequence[Labelled]:
        """See ClusterApi."""
        name, _, value = label.partition("=")
        async with self.call("labelled"):
            return [
                Labelled(f"{resource.group}/{resource.version}", kind, one.body)
                for (_, kind), resource in SUSPENDED.items()
                if resource in self.store.resources
                for one in self.store.all(resource)
                if (one.new["metadata"].get("labels") or {}).get(name) == value
            ]

    async def patch_object(self, api_version: str, kind: str, namespace: str, name: str, patch: bytes) -> bytes:
        """See ClusterApi."""
        served_as(api_version, kind, among=SUSPENDED)
        resource = SUSPENDED[api_version.rpartition("/")[0], kind]
        async with self.call("patch_object"):
            self.store.merge_patch(resource, namespace, name, msgspec.json.decode(patch))
        return self.store.body(resource, namespace, name)

    async def evict(self, namespace: str, name: str, uid: PodUid, *, resource_version: str = "") -> None:
        """See ClusterApi."""
        async with self.call("evict"):
            self.store.evict(namespace, name, uid=uid, resource_version=resource_version)

    async def patch_group_status(self, namespace: str, name: str, patch: bytes) -> bytes:
        """See ClusterApi: unknown fields are dropped."""
        async with self.call("group_status"):
            self.write_status(name, msgspec.json.decode(patch), by="netgang", namespace=namespace)
        return self.store.body(POD_GROUPS, namespace, name)

    def write_status(self, name: str, patch: Mapping[str, Any], *, by: str, namespace: str = "default") -> None:
        """What a patch of the status subresource does, from any client: `by` is noted as its field manager."""
        old = self.store.state(POD_GROUPS, namespace, name).new
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
        self.store.replace(POD_GROUPS, {**old, "metadata": metadata, "status": status})
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
            if EVENTS in self.store.resources:
                metadata = {**event.get("metadata", {}), "namespace": namespace}
                metadata.setdefault("name", f"event-{len(self.events)}")
                self.events.append(self.store.put(EVENTS, {**event, "metadata": metadata}))

    async def create_object(self, api_version: str, kind: str, namespace: str, content: Mapping[str, Any]) -> None:
        """See ClusterApi; only of kinds that are installed."""
        served_as(api_version, kind, among=MADE)
        resource, metadata = MADE[api_version.rpartition("/")[0], kind], content["metadata"]
        async with self.call("create_object"):
            self.store.create(resource, {**content, "metadata": {**metadata, "namespace": namespace}})

    async def delete_object(self, api_version: str, kind: str, namespace: str, name: str) -> None:
        """See ClusterApi; what it owns stays."""
        served_as(api_version, kind, among=MADE)
        async with self.call("delete_object"):
            self.store.remove(MADE[api_version.rpartition("/")[0], kind], namespace, name)

    def _pod(self, namespace: str, name: str, uid: PodUid) -> Object:
        """The very pod. NotFoundError, ConflictError: it is gone, or another has its name."""
        pod = self.store.state(PODS, namespace, name).new
        if pod["metadata"]["uid"] != uid:
            raise ConflictError(409, f"pod {namespace}/{name} was replaced by another of the same name")
        return pod


def _target(path: str) -> tuple[Resource, str, dict[str, str]]:
    """What a collection path means: kind, namespace ("" for all), query. ValueError: not a known kind."""
    resource = resource_of(path)
    bare, _, query = path.partition("?")
    inside = bare.removeprefix(f"{resource.root}/namespaces/")
    return resource, "" if inside == bare else inside.partition("/")[0], dict(parse_qsl(query))
