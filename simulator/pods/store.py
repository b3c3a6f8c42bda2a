"""The objects of a simulated cluster: one counter of versions, and every change sent, late and in order.

Why apart from the API: the service lists and watches bytes through its port, while the simulated kube-scheduler and
controllers hear the very same changes as values; both must see one history. Rules: a stored object is never written to,
a change makes new parts along its path and shares the rest, so `old["spec"] is new["spec"]` says that it is untouched;
a follower gets each change once, in the order of versions, `delay_s` after it happened. Bounded: the last
`HISTORY` changes of a kind can be watched from the past, older versions are gone.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from extender.errors import ConflictError, GoneError, NotFoundError
from extender.kube.calls import Resource

Object: TypeAlias = Mapping[str, Any]
"""A Kubernetes object as JSON; never written to once it is stored."""
HISTORY = 20_000


class Change(StrEnum):
    """What a watch calls a change."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(slots=True, eq=False)
class Changed:
    """One change of one object; `new` of a deletion is the last state."""

    version: int
    type: Change
    new: Object
    old: Object | None
    _body: bytes = b""

    @property
    def body(self) -> bytes:
        """The object as the API server sends it; encoded at the first question."""
        if not self._body:
            shown = self.new
            if self.type is Change.DELETED:
                shown = {**shown, "metadata": {**shown["metadata"], "resourceVersion": str(self.version)}}
            self._body = msgspec.json.encode(shown)
        return self._body


Hear: TypeAlias = Callable[[Changed], None]


class Feed:
    """Brings changes to one follower, each `delay_s` after it happened; later ones never come first."""

    __slots__ = ("_delay_s", "_hear", "_loop", "_timer", "_waiting")

    def __init__(self, hear: Hear, delay_s: float) -> None:
        self._hear = hear
        self._delay_s = delay_s
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[float, Changed]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def pending(self) -> bool:
        """Whether changes are on their way."""
        return bool(self._waiting)

    def push(self, change: Changed) -> None:
        """A change that happened now; without a delay it is heard before this returns."""
        if self._delay_s == 0.0:
            self._hear(change)
            return
        self._waiting.append((self._loop.time() + self._delay_s, change))
        if self._timer is None:
            self._timer = self._loop.call_at(self._waiting[0][0], self._deliver)

    def close(self) -> None:
        """Bring nothing more."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _deliver(self) -> None:
        self._timer = None
        now_s = self._loop.time()
        while self._waiting and self._waiting[0][0] <= now_s:
            self._hear(self._waiting.popleft()[1])
        if self._waiting and self._timer is None:
            self._timer = self._loop.call_at(self._waiting[0][0], self._deliver)


@dataclass(slots=True, eq=False)
class _Kind:
    """All objects of one kind, what happened to them lately, and its followers."""

    compacted: int
    """Changes up to this version cannot be watched any more."""
    objects: dict[tuple[str, str], Changed] = field(default_factory=dict)
    """(namespace, name) → the change that made it what it is"""
    history: deque[Changed] = field(default_factory=deque)
    feeds: list[Feed] = field(default_factory=list)


class Store:
    """The cluster's objects by kind. `now_s` gives the wall clock for their timestamps."""

    def __init__(self, *kinds: Resource, now_s: Callable[[], float]) -> None:
        self.version = 1
        self._now_s = now_s
        self._kinds = {one: _Kind(self.version) for one in kinds}
        self._uids = 0
        self._stamp = (-1, "")

    def create(self, kind: Resource, obj: Object) -> Object:
        """Store a new object, with uid and creation time; as stored. ConflictError: there is one of its name."""
        metadata = dict(obj["metadata"])
        if kind.namespaced:
            metadata.setdefault("namespace", "default")
        key = (metadata.get("namespace", ""), metadata["name"])
        if key in self._of(kind).objects:
            raise ConflictError(409, f'{kind.plural} "{key[1]}" already exists')
        self._uids += 1
        metadata.setdefault("uid", f"uid-{self._uids:08d}")
        metadata.setdefault("creationTimestamp", self.stamp())
        return self._keep(kind, key, {**obj, "metadata": metadata}, Change.ADDED)

    def replace(self, kind: Resource, obj: Object) -> Object:
        """Store a new state of an object that is there; as stored. NotFoundError: it is not."""
        metadata = obj["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        self.get(kind, *key)
        return self._keep(kind, key, obj, Change.MODIFIED)

    def merge(self, kind: Resource, namespace: str, name: str, patch: Object) -> Object:
        """Apply a merge patch; as stored. A patch that changes nothing is no change. ConflictError: wrong version."""
        old = self.get(kind, namespace, name)
        wanted, metadata = patch.get("metadata", {}), old["metadata"]
        for part in ("uid", "resourceVersion"):
            if wanted.get(part, metadata[part]) != metadata[part]:
                raise ConflictError(409, f'{kind.plural} "{name}": {part} is {metadata[part]}, not {wanted[part]}')
        new = merged(old, patch)
        return old if new is old else self._keep(kind, (namespace, name), new, Change.MODIFIED)

    def delete(self, kind: Resource, namespace: str, name: str) -> None:
        """Remove an object. NotFoundError: there is none."""
        old = self.get(kind, namespace, name)
        held = self._of(kind)
        del held.objects[namespace, name]
        self.version += 1
        self._tell(held, Changed(self.version, Change.DELETED, old, old))

    def get(self, kind: Resource, namespace: str, name: str) -> Object:
        """An object as it is. NotFoundError: there is none."""
        return self.state(kind, namespace, name).new

    def find(self, kind: Resource, namespace: str, name: str) -> Object | None:
        """An object as it is; `None`: there is none."""
        found = self._of(kind).objects.get((namespace, name))
        return None if found is None else found.new

    def state(self, kind: Resource, namespace: str, name: str) -> Changed:
        """The change that made an object what it is. NotFoundError: there is none."""
        found = self._of(kind).objects.get((namespace, name))
        if found is None:
            raise NotFoundError(404, f'{kind.plural} "{name}" not found')
        return found

    def all(self, kind: Resource, namespace: str = "") -> list[Changed]:
        """States of all objects of a kind, sorted by namespace and name; "" means all namespaces."""
        objects = self._of(kind).objects
        return [objects[key] for key in sorted(objects) if namespace in ("", key[0])]

    def follow(self, kind: Resource, hear: Hear, *, delay_s: float = 0.0, since: int | None = None) -> Feed:
        """Follow every change from now on, or from version `since` on. GoneError: that is too long ago.

        With a delay of 0 it is sent at once, before the call that changed something returns.
        """
        held = self._of(kind)
        if since is not None and since < held.compacted:
            raise GoneError(410, f"too old resource version: {since} ({held.compacted})")
        feed = Feed(hear, delay_s)
        for change in held.history if since is not None else ():
            if since is not None and change.version > since:
                feed.push(change)
        held.feeds.append(feed)
        return feed

    def unfollow(self, kind: Resource, feed: Feed) -> None:
        """Send it nothing more."""
        self._of(kind).feeds.remove(feed)
        feed.close()

    def stamp(self) -> str:
        """Now, as objects carry it: whole seconds, as the API server writes."""
        second = int(self._now_s())
        if self._stamp[0] != second:
            self._stamp = (second, f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%SZ}")
        return self._stamp[1]

    def serves(self, kind: Resource) -> bool:
        """Whether there is such a kind."""
        return kind in self._kinds

    def _of(self, kind: Resource) -> _Kind:
        if kind not in self._kinds:
            raise NotFoundError(404, "the server could not find the requested resource")
        return self._kinds[kind]

    def _keep(self, kind: Resource, key: tuple[str, str], obj: Object, change: Change) -> Object:
        held = self._of(kind)
        before = held.objects.get(key)
        self.version += 1
        new = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        told = Changed(self.version, change, new, None if before is None else before.new)
        held.objects[key] = told
        self._tell(held, told)
        return new

    def _tell(self, held: _Kind, change: Changed) -> None:
        held.history.append(change)
        if len(held.history) > HISTORY:
            held.compacted = held.history.popleft().version
        for feed in tuple(held.feeds):
            feed.push(change)


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
