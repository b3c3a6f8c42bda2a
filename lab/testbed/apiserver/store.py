"""Objects as an API server keeps them: one counter of versions, consistent pages, watches, bind, patch, evict.

Why: the loopback server of the benchmarks and the tests' fake must agree on what the API promises; both are thin shells
around this. Rules: a stored object is never written to; each watch gets each change once, in the order of versions.
History that was compacted, and pages started before that, are gone (410). Everything is synchronous; only watching
waits.
"""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncGenerator, Mapping
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from extender.errors import ApiError, ConflictError, GoneError, NotFoundError
from extender.kube.calls import DAEMON_SETS, EVENTS, NODES, POD_GROUPS, PODS, Resource
from extender.ports import Binding, Page, WatchEvent
from scoring import PodUid

Object: TypeAlias = Mapping[str, Any]
"""A Kubernetes object as JSON; never written to once it is stored."""
Key: TypeAlias = tuple[str, str]
"""Namespace and name; the namespace of cluster-wide objects is ""."""

HISTORY = 10_000
"""Changes of a kind that can be watched at least."""
_TICK_S = 0.001
_KINDS = {"pods": "Pod", "nodes": "Node", "podgroups": "PodGroup", "events": "Event"}


class ChangeType(StrEnum):
    """What a watch calls a change."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Change:
    """One change of one object: the object after it. Of a deletion `new` is the last state.

    Decoded and encoded at the first question: most objects are needed in one form only.
    """

    __slots__ = ("_body", "_new", "namespace", "type", "version")

    def __init__(
        self, version: int, kind: ChangeType, namespace: str, *, new: Object | None = None, body: bytes = b""
    ) -> None:
        """With the new object as `new` or, encoded, as `body`."""
        self.version = version
        self.type = kind
        self.namespace = namespace
        self._new = new
        self._body = body

    @property
    def new(self) -> Object:
        """The object after the change."""
        if self._new is None:
            self._new = msgspec.json.decode(self._body)
        return self._new

    @property
    def body(self) -> bytes:
        """The object as the API server sends it."""
        if not self._body:
            self._body = msgspec.json.encode(self._new)
        return self._body


class _Collection(msgspec.Struct, eq=False):
    """All objects of one kind, and the changes that can still be watched."""

    compacted: int = 0  # changes up to this version can no longer be watched
    objects: dict[Key, Change] = {}  # key → the change that made the object what it is
    changes: list[Change] = []
    news: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    """Set by each change; replaced, never cleared, because all watches wait for the same one"""


class _Line(msgspec.Struct, eq=False):
    """What all open watches are on; `error` is what they end with when it is cut."""

    cut: bool = False
    error: Exception | None = None


class ApiStore:
    """The objects of a cluster in memory, without times: pods that are evicted are gone at once."""

    def __init__(self, history: int = HISTORY) -> None:
        """Serve the kinds that every cluster of netgang's has."""
        self._history = history
        self.version = 1
        self.bindings: list[Binding] = []  # bindings in the order in which they took effect
        self.evictions: list[PodUid] = []
        self.patches: list[tuple[PodUid, dict[str, str]]] = []
        """uid and annotations of each merge patch that changed something"""
        self.open_watches = 0
        self._collections = {kind: _Collection() for kind in (PODS, NODES, POD_GROUPS, DAEMON_SETS, EVENTS)}
        self._line = _Line()
        self._silent = False
        self._pages: dict[str, tuple[int, list[Change]]] = {}  # continue token → version, items still to come
        self._tokens = 0
        self._uids = 0
        self._names = 0  # made of `generateName` so far

    # -- objects ------------------------------------------------------------------------------------------------------

    def create(self, resource: Resource, obj: Object) -> Object:
        """Store a new object, with uid and creation time; as stored. ConflictError: there is one of its name."""
        key, named = self._named(resource, obj)
        if key in self._in(resource).objects:
            raise ConflictError(409, f'{resource.plural} "{key[1]}" already exists')
        return self._keep(resource, key, named)

    def put(self, resource: Resource, obj: Object) -> dict[str, Any]:
        """Create or replace an object by a copy of `obj`; a copy of what is stored."""
        copied = msgspec.json.encode(obj)
        key, named = self._named(resource, msgspec.json.decode(copied))
        self._keep(resource, key, named)
        return self.get(resource, *key)

    def replace(self, resource: Resource, obj: Object) -> Object:
        """Store a new state of an object that is there; as stored. NotFoundError: it is not. ConflictError: changed."""
        metadata = obj["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        if metadata["resourceVersion"] != self.state(resource, *key).new["metadata"]["resourceVersion"]:
            raise ConflictError(409, "the object has been modified")
        return self._keep(resource, key, obj)

    def remove(self, resource: Resource, namespace: str, name: str, *, resource_version: str = "") -> None:
        """Delete an object. NotFoundError: there is none. ConflictError: it is not at this version."""
        old = self.state(resource, namespace, name).new
        if resource_version not in ("", old["metadata"]["resourceVersion"]):
            raise ConflictError(409, "the ResourceVersion in the precondition does not match that in record")
        collection = self._in(resource)
        del collection.objects[namespace, name]
        self.version += 1
        last = {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.version)}}
        self._note(collection, Change(self.version, ChangeType.DELETED, namespace, new=last))

    def load(self, resource: Resource, bodies: Mapping[Key, bytes]) -> None:
        """Add many encoded objects at once, without events; they must carry their own metadata."""
        objects = self._in(resource).objects
        for key, body in bodies.items():
            objects[key] = Change(self.version, ChangeType.ADDED, key[0], body=body)
        self.version += 1
        self.compact()

    def get(self, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
        """A copy of an object, to change and put back. NotFoundError: there is none."""
        return dict(msgspec.json.decode(self.body(resource, namespace, name)))

    def body(self, resource: Resource, namespace: str, name: str) -> bytes:
        """An object as the API server sends it. NotFoundError: there is none."""
        return self.state(resource, namespace, name).body

    def state(self, resource: Resource, namespace: str, name: str) -> Change:
        """The change that made an object what it is. NotFoundError: there is none."""
        found = self._in(resource).objects.get((namespace, name))
        if found is None:
            raise NotFoundError(404, f'{resource.plural} "{name}" not found')
        return found

    def all(self, resource: Resource, namespace: str = "") -> list[Change]:
        """States of all objects of a kind, sorted by namespace and name; "" means all namespaces."""
        objects = self._in(resource).objects
        return [objects[key] for key in sorted(objects) if namespace in ("", key[0])]

    def bodies(self, resource: Resource) -> dict[Key, bytes]:
        """(namespace, name) → object of all objects now."""
        return {key: one.body for key, one in self._in(resource).objects.items()}

    # -- kinds and history --------------------------------------------------------------------------------------------

    @property
    def resources(self) -> frozenset[Resource]:
        """The kinds that are served."""
        return frozenset(self._collections)

    def install(self, *resources: Resource) -> None:
        """Serve these kinds from now on, empty, as after creating their CustomResourceDefinitions."""
        self.version += 1
        for resource in resources:
            self._collections.setdefault(resource, _Collection(compacted=self.version))

    def uninstall(self, resource: Resource) -> None:
        """Stop serving this kind; its objects are gone and its watches end."""
        self.hang_up()
        self._collections.pop(resource, None)
        self._pages.clear()

    def compact(self) -> None:
        """Forget all history: watches from older versions and pages started earlier get 410."""
        for collection in self._collections.values():
            collection.changes.clear()
            collection.compacted = self.version
        self._pages.clear()
        self._wake()

    def touch(self) -> None:
        """Use up one version, as a change to some other kind does."""
        self.version += 1

    # -- lists and watches --------------------------------------------------------------------------------------------

    def page(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        limit: int,
        continue_token: str = "",
        not_older_than: str = "",
        labels: Mapping[str, str] | None = None,
        phase: str = "",
    ) -> Page:
        """A part of a list. All pages show the state at the first one; `limit` 0 means everything."""
        if continue_token:
            if continue_token not in self._pages:
                raise GoneError(410, "The provided continue parameter is too old")
            version, items = self._pages.pop(continue_token)
        else:
            if not_older_than and int(not_older_than) > self.version:
                raise ApiError(504, f"Timeout: Too large resource version: {not_older_than}", retry_after_s=1.0)
            version = self.version
            items = self.all(resource, namespace)
            if labels:
                items = [one for one in items if labels.items() <= (one.new["metadata"].get("labels") or {}).items()]
            if phase:
                items = [one for one in items if (one.new.get("status") or {}).get("phase", "Pending") == phase]
        now, later = (items[:limit], items[limit:]) if limit else (items, [])
        token = ""
        if later:
            self._tokens += 1
            token = f"page-{self._tokens}"
            self._pages[token] = (version, later)
        return Page([one.body for one in now], str(version), token)

    def check_watch(self, resource: Resource, since: int) -> _Collection:
        """Whether the history since that version is there. NotFoundError, GoneError: it is not."""
        collection = self._in(resource)
        if since < collection.compacted:
            raise GoneError(410, f"too old resource version: {since} ({collection.compacted})")
        return collection

    async def watch(
        self, resource: Resource, *, namespace: str = "", resource_version: str, timeout_s: float, bookmark_s: float
    ) -> AsyncGenerator[WatchEvent, None]:
        """Changes after `resource_version`, a bookmark each `bookmark_s`; ends after `timeout_s`.

        Errors: GoneError when the history is compacted; in the stream an ERROR event with code 410.
        """
        position, line = int(resource_version), self._line
        collection = self.check_watch(resource, position)
        loop = asyncio.get_running_loop()
        ends_s, bookmark_at_s = loop.time() + timeout_s, loop.time() + bookmark_s
        self.open_watches += 1
        try:
            while not line.cut:
                if not self._silent:
                    if position < collection.compacted:
                        yield WatchEvent("ERROR", _expired(position))
                        return
                    begin = bisect_right(collection.changes, position, key=lambda change: change.version)
                    for change in collection.changes[begin:]:
                        position = change.version
                        if namespace in ("", change.namespace):
                            yield WatchEvent(change.type, change.body)
                        if line.cut:
                            break
                    if collection.changes and collection.changes[-1].version > position and not line.cut:
                        continue  # changes arrived while the reader was busy
                now_s = loop.time()
                if now_s >= ends_s or line.cut:
                    break
                if now_s >= bookmark_at_s:
                    bookmark_at_s = now_s + bookmark_s
                    # neither ahead of what was sent, nor of a server whose versions went back
                    if not self._silent and position <= self.version:
                        position = self.version
                        yield WatchEvent("BOOKMARK", _bookmark(resource, position))
                        continue
                await _news(collection, min(ends_s, bookmark_at_s) - now_s)
            if line.error is not None:
                raise line.error
        finally:
            self.open_watches -= 1

    def hang_up(self, error: Exception | None = None) -> None:
        """End all watches now, cleanly or with an error."""
        line, self._line = self._line, _Line()
        line.cut, line.error = True, error
        self._wake()

    def silence(self) -> None:
        """Send nothing more on watches, as a connection does whose other end is gone."""
        self._silent = True

    def speak(self) -> None:
        """Send on watches again, what was held back first."""
        self._silent = False
        self._wake()

    # -- what the API does to pods and owners -------------------------------------------------------------------------

    def bind(self, binding: Binding) -> None:
        """What POST pods/binding does: only an unbound, ungated, living pod with that uid gets a node."""
        pod = self.state(PODS, binding.namespace, binding.name).new
        metadata, spec = pod["metadata"], pod["spec"]
        if binding.uid and metadata["uid"] != binding.uid:
            raise ConflictError(409, f"Precondition failed: UID in precondition: {binding.uid}")
        if metadata.get("deletionTimestamp"):
            raise ConflictError(409, f"pod {binding.name} is being deleted, cannot be assigned to a host")
        if spec.get("nodeName"):
            raise ConflictError(409, f'pod {binding.name} is already assigned to node "{spec["nodeName"]}"')
        if spec.get("schedulingGates"):
            raise ConflictError(409, f"pod {binding.name} has non-empty .spec.schedulingGates")
        others = [one for one in (pod.get("status") or {}).get("conditions", ()) if one["type"] != "PodScheduled"]
        status = {**pod.get("status", {}), "conditions": [*others, {"type": "PodScheduled", "status": "True"}]}
        self.replace(PODS, {**pod, "spec": {**spec, "nodeName": binding.node}, "status": status})
        self.bindings.append(binding)

    def merge_patch(self, resource: Resource, namespace: str, name: str, patch: Object) -> Object:
        """What a merge patch does; as stored. A wrong uid is 422, a wrong resourceVersion 409.

        A patch that changes nothing is no change.
        """
        old = self.state(resource, namespace, name).new
        wanted, metadata = patch.get("metadata", {}), old["metadata"]
        if wanted.get("uid", metadata["uid"]) != metadata["uid"]:
            raise ApiError(422, f'"{name}" is invalid: metadata.uid: Invalid value: field is immutable')
        if wanted.get("resourceVersion", metadata["resourceVersion"]) != metadata["resourceVersion"]:
            raise ConflictError(409, "the object has been modified; please apply your changes to the latest version")
        new: Object = merged(old, patch)
        if new is old:
            return old
        self.patches.append((PodUid(metadata["uid"]), dict(wanted.get("annotations") or {})))
        return self._keep(resource, (namespace, name), new)

    def admission_patch(self, namespace: str, name: str, patch: Object) -> Object:
        """What a strategic merge patch of gates and affinity does: gates go by name; ungated, affinity is fixed."""
        old = self.state(PODS, namespace, name).new["spec"]
        gates, before = old.get("schedulingGates") or [], old.get("affinity")
        spec = dict(patch.get("spec", {}))
        gone = {one["name"] for one in spec.pop("schedulingGates", ()) if one.get("$patch") == "delete"}
        if "affinity" in spec and not gates and merged(before, spec["affinity"]) is not before:
            raise ApiError(422, "spec.affinity: Invalid value: pod updates may not change it")
        spec["schedulingGates"] = [one for one in gates if one["name"] not in gone] or None
        return self.merge_patch(PODS, namespace, name, {**patch, "spec": spec})

    def conditions_patch(self, resource: Resource, namespace: str, name: str, patch: Object) -> Object:
        """What a strategic merge patch does to conditions of a pod or node, which are merged by type; as stored."""
        old = self.state(resource, namespace, name).new
        if patch.get("metadata", old["metadata"])["uid"] != old["metadata"]["uid"]:
            raise ApiError(422, f'"{name}" is invalid: metadata.uid: Invalid value: field is immutable')
        status = old.get("status", {})
        known: dict[str, Object] = {one["type"]: one for one in status.get("conditions") or ()}
        after = known | {one["type"]: known.get(one["type"], {}) | one for one in patch["status"]["conditions"]}
        if (after := {name: one for name, one in after.items() if one.get("$patch") != "delete"}) == known:
            return old
        return self.replace(resource, {**old, "status": {**status, "conditions": list(after.values())}})

    def evict(self, namespace: str, name: str, *, uid: str = "", resource_version: str = "") -> None:
        """What POST pods/eviction does when no PodDisruptionBudget objects."""
        metadata = self.state(PODS, namespace, name).new["metadata"]
        if uid and metadata["uid"] != uid:
            raise ConflictError(409, f"the UID in the precondition ({uid}) does not match the UID in record")
        self.remove(PODS, namespace, name, resource_version=resource_version)
        self.evictions.append(PodUid(metadata["uid"]))

    # -- how it is kept -----------------------------------------------------------------------------------------------

    def _in(self, resource: Resource) -> _Collection:
        if resource not in self._collections:
            raise NotFoundError(404, "404 page not found")
        return self._collections[resource]

    def _named(self, resource: Resource, obj: Object) -> tuple[Key, Object]:
        """The object with what the server fills in."""
        metadata = dict(obj.get("metadata", {}))
        if resource.namespaced:
            metadata.setdefault("namespace", "default")
        if not metadata.get("name"):
            if not metadata.get("generateName"):
                raise ApiError(422, "metadata.name: Required value: name or generateName is required")
            self._names += 1
            metadata["name"] = f"{metadata['generateName']}{self._names:05x}"
        key = (metadata.get("namespace", ""), str(metadata["name"]))
        old = self._in(resource).objects.get(key)
        if "uid" not in metadata:
            self._uids += old is None
            metadata["uid"] = f"uid-{self._uids:08d}" if old is None else old.new["metadata"]["uid"]
        kind = _KINDS.get(resource.plural, resource.plural)
        defaults: dict[str, Any] = {"kind": kind, "apiVersion": f"{resource.group}/{resource.version}".lstrip("/")}
        if resource == PODS:
            defaults["spec"] = {}  # a stored pod always has one
        return key, {**defaults, **obj, "metadata": metadata}

    def _keep(self, resource: Resource, key: Key, obj: Object) -> Object:
        collection = self._in(resource)
        before = collection.objects.get(key)
        self.version += 1
        new = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        kind = ChangeType.ADDED if before is None else ChangeType.MODIFIED
        change = Change(self.version, kind, key[0], new=new)
        collection.objects[key] = change
        self._note(collection, change)
        return new

    def _note(self, collection: _Collection, change: Change) -> None:
        collection.changes.append(change)
        if len(collection.changes) >= 2 * self._history:
            collection.compacted = collection.changes[self._history - 1].version
            del collection.changes[: self._history]
        collection.news.set()

    def _wake(self) -> None:
        for collection in self._collections.values():
            collection.news.set()


def merged(old: Any, patch: Any) -> Any:
    """RFC 7386, sharing all parts that the patch does not change; the very `old` if it changes nothing.

    >>> merged({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": None, "e": 4}})
    {'a': {'c': 2, 'e': 4}, 'd': 3}
    >>> same = {"a": 1}
    >>> merged(same, {"a": 1, "b": None}) is same
    True
    """
    if not isinstance(patch, Mapping):
        return old if old == patch else patch
    if not isinstance(old, Mapping):
        return {key: merged(None, value) for key, value in patch.items() if value is not None}
    new: dict[str, Any] | None = None
    for key, value in patch.items():
        if value is None:
            if key in old:
                new = dict(old) if new is None else new
                new.pop(key, None)
            continue
        before = old.get(key)
        after = merged(before, value)
        if after is not before or (after is None and key not in old):
            new = dict(old) if new is None else new
            new[key] = after
    return old if new is None else new


async def _news(collection: _Collection, timeout_s: float) -> None:
    """Wait for the next change, or so long."""
    if collection.news.is_set():
        collection.news = asyncio.Event()
    try:
        # A loop ends a timer up to its clock's resolution early: waiting for the rest of that would spin.
        async with asyncio.timeout(max(timeout_s, _TICK_S)):
            await collection.news.wait()
    except TimeoutError:
        return


def _expired(version: int) -> bytes:
    said = {"message": f"too old resource version: {version}", "reason": "Expired", "code": 410}
    return msgspec.json.encode({"kind": "Status", "apiVersion": "v1", "status": "Failure", **said})


def _bookmark(resource: Resource, version: int) -> bytes:
    return msgspec.json.encode({"kind": _KINDS.get(resource.plural, ""), "metadata": {"resourceVersion": str(version)}})
