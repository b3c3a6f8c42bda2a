"""Objects as an API server keeps them: one counter of versions, consistent pages, watches, bind, patch, evict.

Why: the loopback server (`bench.apiserver`) and the tests' fake must agree on what the API promises; both are thin
shells around this.
Rule: objects go in and out as copies (stored as bytes). Each change gives one new version and one event. History that
was compacted, and pages started before that, are gone (410). Everything is synchronous; only watching waits.
"""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from extender.errors import ApiError, ConflictError, GoneError, NotFoundError
from extender.kube.calls import DAEMON_SETS, EVENTS, NODES, POD_GROUPS, PODS, Resource
from extender.ports import Binding, Page, WatchEvent
from scoring.ids import NodeName, PodUid

Object: TypeAlias = dict[str, Any]
"""A Kubernetes object as JSON."""

_TICK_S = 0.001
_HISTORY = 10_000  # changes of a kind that can be watched at least
_KINDS = {"pods": "Pod", "nodes": "Node", "podgroups": "PodGroup", "events": "Event"}


@dataclass(frozen=True, slots=True)
class Change:
    """One change: what a watch sends. For DELETED, `body` is the last state with the version of the deletion."""

    version: int
    type: str
    namespace: str
    body: bytes


@dataclass(slots=True)
class Collection:
    """All objects of one kind, and the changes that watches may still ask for."""

    objects: dict[tuple[str, str], bytes] = field(default_factory=dict)
    """(namespace, name) → the object"""
    changes: list[Change] = field(default_factory=list)
    compacted: int = 0
    """changes up to this version can no longer be watched"""


class ApiStore:
    """The objects of a cluster in memory."""

    def __init__(self, *, resources: tuple[Resource, ...] = (PODS, NODES, POD_GROUPS, DAEMON_SETS, EVENTS)) -> None:
        self.version = 1
        self.bindings: list[Binding] = []
        """Bindings in the order in which they took effect"""
        self.evictions: list[PodUid] = []
        self.patches: list[tuple[PodUid, dict[str, str]]] = []
        self._collections = {resource: Collection() for resource in resources}
        self._changed = asyncio.Event()
        self._silent = False
        self._hung_up = 0
        self._pages: dict[str, tuple[int, list[bytes]]] = {}  # continue token → version, items still to come
        self._tokens = 0
        self._uids = 0
        self._names = 0
        """Names made of `generateName` so far"""

    # What tests and benchmarks do to the cluster.

    def put(self, resource: Resource, obj: Mapping[str, Any]) -> Object:
        """Create or replace an object; uid and resourceVersion are filled in. Returns it as stored."""
        copy: Object = msgspec.json.decode(msgspec.json.encode(obj))
        metadata: Object = copy.setdefault("metadata", {})
        if resource.namespaced:
            metadata.setdefault("namespace", "default")
        key = (metadata.get("namespace", ""), self._name(metadata))
        old = self._in(resource).objects.get(key)
        if "uid" not in metadata:
            if old is not None:
                metadata["uid"] = msgspec.json.decode(old)["metadata"]["uid"]
            else:
                self._uids += 1
                metadata["uid"] = f"uid-{self._uids}"
        if resource == PODS:
            copy.setdefault("spec", {})  # a stored pod always has one
        copy.setdefault("kind", _KINDS.get(resource.plural, resource.plural))
        copy.setdefault("apiVersion", f"{resource.group}/{resource.version}".lstrip("/"))
        return self._store(resource, key, copy, "ADDED" if old is None else "MODIFIED")

    def _name(self, metadata: Object) -> str:
        """The object's name; one is made of `generateName` for those that have no own, such as Events."""
        if not metadata.get("name"):
            if not metadata.get("generateName"):
                raise ApiError(422, "metadata.name: Required value: name or generateName is required")
            self._names += 1
            metadata["name"] = f"{metadata['generateName']}{self._names:05x}"
        return str(metadata["name"])

    def load(self, resource: Resource, bodies: Mapping[tuple[str, str], bytes]) -> None:
        """Add many encoded objects at once, without events; they must carry their own metadata."""
        self._in(resource).objects.update(bodies)
        self.version += 1
        self.compact()

    def remove(self, resource: Resource, namespace: str, name: str) -> None:
        """Delete an object; NotFoundError when there is none."""
        copy = self.get(resource, namespace, name)
        collection = self._in(resource)
        del collection.objects[(namespace, name)]
        self.version += 1
        copy["metadata"]["resourceVersion"] = str(self.version)
        self._tell(collection, Change(self.version, "DELETED", namespace, msgspec.json.encode(copy)))

    def compact(self) -> None:
        """Forget all history: watches from older versions and pages started earlier get 410."""
        for collection in self._collections.values():
            collection.changes.clear()
            collection.compacted = self.version
        self._pages.clear()
        self._changed.set()

    def install(self, resource: Resource) -> None:
        """Serve this kind from now on, empty, as after creating its CustomResourceDefinition."""
        self.version += 1
        self._collections.setdefault(resource, Collection(compacted=self.version))

    @property
    def resources(self) -> frozenset[Resource]:
        """The kinds that are served."""
        return frozenset(self._collections)

    def uninstall(self, resource: Resource) -> None:
        """Stop serving this kind; its objects are gone and its watches end."""
        self._collections.pop(resource, None)
        self.hang_up()

    def hang_up(self) -> None:
        """End all watches now, without an error."""
        self._hung_up += 1
        self._changed.set()

    def silence(self) -> None:
        """Send nothing more on watches, as a connection does whose other end is gone; `hang_up` ends that."""
        self._silent = True

    def speak(self) -> None:
        """Send on watches again, what was held back first."""
        self._silent = False
        self._changed.set()

    def touch(self) -> None:
        """Use up one version, as a change to some other kind does."""
        self.version += 1

    def bodies(self, resource: Resource) -> dict[tuple[str, str], bytes]:
        """(namespace, name) → object of all objects now."""
        return dict(self._in(resource).objects)

    # What the API offers.

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """One object; NotFoundError when there is none."""
        return dict(msgspec.json.decode(self.body(resource, namespace, name)))

    def body(self, resource: Resource, namespace: str, name: str) -> bytes:
        """One object as stored; NotFoundError when there is none."""
        body = self._in(resource).objects.get((namespace, name))
        if body is None:
            raise NotFoundError(404, f'{resource.plural} "{name}" not found')
        return body

    def page(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        limit: int,
        continue_token: str = "",
        not_older_than: str = "",
        labels: Mapping[str, str] | None = None,
    ) -> Page:
        """A part of a list. All pages show the state at the first one; `limit` 0 means everything."""
        collection = self._in(resource)
        if continue_token:
            if continue_token not in self._pages:
                raise GoneError(410, "The provided continue parameter is too old")
            version, items = self._pages.pop(continue_token)
        else:
            if not_older_than and int(not_older_than) > self.version:
                raise ApiError(504, f"Timeout: Too large resource version: {not_older_than}", retry_after_s=1.0)
            version = self.version
            keys = sorted(key for key in collection.objects if namespace in ("", key[0]))
            items = [collection.objects[key] for key in keys]
            if labels:
                items = [item for item in items if _has_labels(item, labels)]
        now, later = (items[:limit], items[limit:]) if limit else (items, [])
        if not later:
            return Page(now, str(version))
        self._tokens += 1
        token = f"page-{self._tokens}"
        self._pages[token] = (version, later)
        return Page(now, str(version), token)

    def check_watch(self, resource: Resource, resource_version: str) -> Collection:
        """The collection, if its history since that version is there: NotFoundError or GoneError otherwise."""
        collection = self._in(resource)
        if int(resource_version) < collection.compacted:
            raise GoneError(410, f"too old resource version: {resource_version} ({collection.compacted})")
        return collection

    async def watch(
        self, resource: Resource, *, namespace: str = "", resource_version: str, timeout_s: float, bookmark_s: float
    ) -> AsyncGenerator[WatchEvent, None]:
        """Changes after `resource_version`, a bookmark each `bookmark_s`; ends after `timeout_s`.

        Errors: GoneError when the history is compacted; in the stream an ERROR event with code 410.
        """
        collection = self.check_watch(resource, resource_version)
        position = int(resource_version)
        loop = asyncio.get_running_loop()
        ends_s, bookmark_at_s, calls = loop.time() + timeout_s, loop.time() + bookmark_s, self._hung_up
        while self._hung_up == calls:
            if not self._silent:
                if position < collection.compacted:
                    yield WatchEvent("ERROR", _expired(position))
                    return
                first = bisect_right(collection.changes, position, key=lambda change: change.version)
                for change in collection.changes[first:]:
                    position = change.version
                    if namespace in ("", change.namespace):
                        yield WatchEvent(change.type, change.body)
                    if self._hung_up != calls:
                        return
                if collection.changes and collection.changes[-1].version > position:
                    continue  # changes arrived while the reader was busy
            now_s = loop.time()
            if now_s >= ends_s:
                return
            if now_s >= bookmark_at_s:
                bookmark_at_s = now_s + bookmark_s
                if not self._silent and position <= self.version:
                    position = self.version
                    yield WatchEvent("BOOKMARK", _bookmark(resource, position))
                    continue
            await self._until_changed(min(ends_s, bookmark_at_s) - now_s)

    def bind(self, binding: Binding) -> None:
        """What POST pods/binding does: only an unbound, ungated, living pod with that uid gets a node."""
        pod = self.get(PODS, binding.namespace, binding.name)
        metadata, spec = pod["metadata"], pod.setdefault("spec", {})
        if binding.uid and metadata["uid"] != binding.uid:
            raise ConflictError(409, f"Precondition failed: UID in precondition: {binding.uid}")
        if metadata.get("deletionTimestamp"):
            raise ConflictError(409, f"pod {binding.name} is being deleted, cannot be assigned to a host")
        if spec.get("nodeName"):
            raise ConflictError(409, f'pod {binding.name} is already assigned to node "{spec["nodeName"]}"')
        if spec.get("schedulingGates"):
            raise ConflictError(409, f"pod {binding.name} has non-empty .spec.schedulingGates")
        spec["nodeName"] = binding.node
        self._store(PODS, (binding.namespace, binding.name), pod, "MODIFIED")
        self.bindings.append(binding)

    def merge_patch(self, resource: Resource, namespace: str, name: str, patch: Mapping[str, Any]) -> Object:
        """What a merge patch does: null removes a field; a wrong uid is 422, a wrong resourceVersion 409."""
        old = self.get(resource, namespace, name)
        wanted = patch.get("metadata", {})
        if wanted.get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            raise ApiError(422, f'"{name}" is invalid: metadata.uid: Invalid value: field is immutable')
        version = old["metadata"]["resourceVersion"]
        if wanted.get("resourceVersion", version) != version:
            raise ConflictError(409, "the object has been modified; please apply your changes to the latest version")
        new: Object = _merged(old, patch)
        if new == old:
            return new
        self.patches.append((PodUid(old["metadata"]["uid"]), dict(wanted.get("annotations") or {})))
        return self._store(resource, (namespace, name), new, "MODIFIED")

    def admission_patch(self, namespace: str, name: str, patch: Mapping[str, Any]) -> Object:
        """What a strategic merge patch of gates and affinity does: gates go by name; ungated, affinity is fixed."""
        old = self.get(PODS, namespace, name).get("spec", {})
        gates, before = old.get("schedulingGates") or [], old.get("affinity")
        spec = dict(patch.get("spec", {}))
        gone = {one["name"] for one in spec.pop("schedulingGates", ()) if one.get("$patch") == "delete"}
        if "affinity" in spec and not gates and _merged(before, spec["affinity"]) != before:
            raise ApiError(422, "spec.affinity: Invalid value: pod updates may not change it")
        spec["schedulingGates"] = [one for one in gates if one["name"] not in gone] or None
        return self.merge_patch(PODS, namespace, name, {**patch, "spec": spec})

    def evict(self, namespace: str, name: str, *, uid: str = "") -> None:
        """What POST pods/eviction does when no PodDisruptionBudget objects: the pod is deleted at once."""
        pod = self.get(PODS, namespace, name)
        if uid and pod["metadata"]["uid"] != uid:
            raise ConflictError(409, f"the UID in the precondition ({uid}) does not match the UID in record")
        self.remove(PODS, namespace, name)
        self.evictions.append(PodUid(pod["metadata"]["uid"]))

    def _in(self, resource: Resource) -> Collection:
        if resource not in self._collections:
            raise NotFoundError(404, "404 page not found")
        return self._collections[resource]

    def _store(self, resource: Resource, key: tuple[str, str], obj: Object, change: str) -> Object:
        collection = self._in(resource)
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        body = msgspec.json.encode(obj)
        collection.objects[key] = body
        self._tell(collection, Change(self.version, change, key[0], body))
        return obj

    def _tell(self, collection: Collection, change: Change) -> None:
        collection.changes.append(change)
        if len(collection.changes) >= 2 * _HISTORY:
            collection.compacted = collection.changes[_HISTORY - 1].version
            del collection.changes[:_HISTORY]
        self._changed.set()

    async def _until_changed(self, timeout_s: float) -> None:
        """Wait for the next change; every watch waits on the same event, so it is replaced, never cleared."""
        if self._changed.is_set():
            self._changed = asyncio.Event()
        try:
            # A loop ends a timer up to its clock's resolution early: waiting for the rest of that would spin.
            async with asyncio.timeout(max(timeout_s, _TICK_S)):
                await self._changed.wait()
        except TimeoutError:
            return


def binding_of(namespace: str, name: str, body: Mapping[str, Any]) -> Binding:
    """The Binding that a POST body means."""
    uid, node = body.get("metadata", {}).get("uid", ""), body["target"]["name"]
    return Binding(namespace, name, PodUid(uid), NodeName(node))


def _has_labels(body: bytes, labels: Mapping[str, str]) -> bool:
    found = msgspec.json.decode(body)["metadata"].get("labels") or {}
    return all(found.get(key) == value for key, value in labels.items())


def _merged(old: Any, patch: Any) -> Any:
    """RFC 7386.

    >>> _merged({"a": {"b": 1, "c": 2}}, {"a": {"b": None, "d": 3}})
    {'a': {'c': 2, 'd': 3}}
    """
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(old) if isinstance(old, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged


def _expired(version: int) -> bytes:
    return msgspec.json.encode(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "message": f"too old resource version: {version}",
            "reason": "Expired",
            "code": 410,
        }
    )


def _bookmark(resource: Resource, version: int) -> bytes:
    return msgspec.json.encode({"kind": _KINDS.get(resource.plural, ""), "metadata": {"resourceVersion": str(version)}})
