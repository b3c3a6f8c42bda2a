"""The ports ClusterApi and Reviews over HTTP: each call is of `calls.CALLS`, and raw JSON.

Rules: objects pass through as raw bytes, decoded at the outer level only. What a failure means is decided in
`transport`. Nothing is repeated except a Binding, whose answer can get lost after it took effect: taken for a failure
it would break a started gang; posting again blindly would be answered 409 and look like one. So when the outcome is
unknown, or the API server was too busy, read the pod: on that node with the same uid is success, not bound may be
posted again, anything else is a conflict. All attempts together end within `deadline_s` of the call, so that a leader
whose lease outlasts it never has a POST under way as a former leader.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias
from urllib.parse import urlencode

import msgspec

from extender.convert.decode import Headed, decoded
from extender.convert.podgroups import STATUS_WRITER
from extender.errors import ApiError, ApiUnavailableError, Backoff, ConflictError, NotFoundError
from extender.kube import calls
from extender.kube.credentials import ApiServer
from extender.kube.transport import Transport, mapped
from extender.ports import Binding, Clock, Identity, Page, Texts, WatchEvent
from extender.runtime.slices import Pages
from extender.settings.settings import BINDING_MAX_S
from scoring import PodUid
from scoring.model import GATE

_REQUEST_S = 10.0
_OPERATOR_S = 15.0
_PAGE_S = 60.0
_OPERATOR_BYTES = 256 * 1024 * 1024  # A page's; the service itself reads what is too long in smaller pages
_BIND_AGAIN = Backoff(first_s=0.05, limit_s=1.0)
_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_AS_WRITER = f"?fieldManager={STATUS_WRITER}"
_Json: TypeAlias = dict[str, Any]


class _ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion")
    continue_token: str = msgspec.field(name="continue", default="")


class _ListPage(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None  # Go writes an empty list of some kinds as null


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _BoundSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    scheduling_gates: list[dict[str, Any]] | None = None


class _BoundPod(Headed):
    spec: _BoundSpec = msgspec.field(default_factory=_BoundSpec)


_PAGE = msgspec.json.Decoder(_ListPage)  # Of any collection, with the objects as raw JSON
_EVENT = msgspec.json.Decoder(_Event)
_POD = msgspec.json.Decoder(_BoundPod)  # What of a pod shows how a Binding or patch ended


@dataclass(eq=False, repr=False)
class KubeClient:
    """ClusterApi of one API server; how long and how often a Binding is tried."""

    transport: Transport
    clock: Clock
    rng: random.Random
    deadline_s: float = BINDING_MAX_S
    attempt_s: float = 3.0
    attempts: int = 4
    backoff: Backoff = _BIND_AGAIN

    async def bind(self, binding: Binding) -> None:
        """Return once the pod is known to be on the node.

        Errors: ConflictError (elsewhere, replaced, gated or being deleted), NotFoundError (pod is gone), ApiError
        (refused for good, or 429 to the last), ApiUnavailableError (the outcome is not known).
        """
        ends_s = self.clock.monotonic_s() + self.deadline_s
        path = calls.PODS.path(binding.namespace, binding.name, "binding")
        head = {"name": binding.name, "namespace": binding.namespace, "uid": binding.uid}
        target = {"apiVersion": "v1", "kind": "Node", "name": binding.node}
        body = msgspec.json.encode({"apiVersion": "v1", "kind": "Binding", "metadata": head, "target": target})
        failures = 0
        while True:
            try:
                await self.transport.send("POST", path, body=body, timeout_s=self._share(ends_s))
                return
            except ConflictError:
                if await self._is_there(binding, ends_s=ends_s):
                    return
                raise
            except (ApiError, ApiUnavailableError) as error:
                if not _may_have_worked_or_may_later(error):
                    raise
                failures += 1
                waited = failures < self.attempts and await self._wait(failures, error, ends_s=ends_s)
                if await self._is_there(binding, ends_s=ends_s):
                    return
                if not waited:
                    raise _final(binding, error) from error

    async def _is_there(self, binding: Binding, *, ends_s: float) -> bool:
        """Whether the pod is on that node and no other. Errors: ConflictError, NotFoundError, ApiUnavailableError."""
        failures = 0
        while True:
            try:
                path = calls.PODS.path(binding.namespace, binding.name)
                current = _POD.decode(await self.transport.send("GET", path, timeout_s=self._share(ends_s)))
                break
            except msgspec.MsgspecError as error:
                raise ApiUnavailableError(f"pod {binding.namespace}/{binding.name} cannot be read: {error}") from error
            except (ApiError, ApiUnavailableError) as error:
                if not _may_have_worked_or_may_later(error):
                    raise
                failures += 1
                if not await self._wait(failures, error, ends_s=ends_s):
                    raise _final(binding, error) from error
        pod, node = f"pod {binding.namespace}/{binding.name}", current.spec.node_name
        if current.metadata.uid != binding.uid:
            raise ConflictError(409, f"{pod} was replaced by another of the same name")
        if node not in ("", binding.node):
            raise ConflictError(409, f"{pod} is already on node {node}")
        return node == binding.node

    async def _wait(self, failures: int, error: ApiError | ApiUnavailableError, *, ends_s: float) -> bool:
        """Wait before another try; false at once when that would not leave time for it."""
        asked_s = error.retry_after_s if isinstance(error, ApiError) else None
        delay_s = self.backoff.delay_s(failures, rng=self.rng, retry_after_s=asked_s)
        if self.clock.monotonic_s() + delay_s >= ends_s:
            return False
        await asyncio.sleep(delay_s)
        return True

    def _share(self, ends_s: float) -> float:
        return max(0.0, min(self.attempt_s, ends_s - self.clock.monotonic_s()))

    async def list_page(self, path: str, *, limit: int, continue_token: str = "", not_older_than: str = "") -> Page:
        """One page, from storage or a cache `not_older_than`. GoneError: begin again; TooLongError: ask for fewer."""
        query = {"limit": str(limit)}
        if continue_token:
            query["continue"] = continue_token
        elif not_older_than:
            query |= {"resourceVersion": not_older_than, "resourceVersionMatch": "NotOlderThan"}
        url = _with_query(path, query)
        raw = await self.transport.send("GET", url, timeout_s=_PAGE_S)
        with mapped(f"GET {url}"):
            page = decoded(_PAGE, raw)
        # Copied, so that a kept one does not keep the whole page in memory
        return Page(list(map(bytes, page.items or ())), page.metadata.resource_version, page.metadata.continue_token)

    async def watch(self, path: str, *, resource_version: str, timeout_s: int) -> AsyncGenerator[WatchEvent, None]:
        """Changes after `resource_version`, with bookmarks. Errors: first as `send`, then ApiUnavailableError."""
        query = {"watch": "true", "resourceVersion": resource_version, "allowWatchBookmarks": "true"}
        url = _with_query(path, query | {"timeoutSeconds": str(timeout_s)})
        async with aclosing(self.transport.lines(url, open_s=_REQUEST_S)) as lines:
            with mapped(f"GET {url}"):
                async for line in lines:
                    event = decoded(_EVENT, line)
                    yield WatchEvent(event.type, bytes(event.object))

    async def annotate_pod(
        self, namespace: str, name: str, uid: PodUid, annotations: Texts, *, labels: Texts | None = None
    ) -> None:
        """Set annotations, labels too, of the very pod `uid`, in one merge patch. ConflictError: it was replaced."""
        metadata = {"uid": uid, "annotations": annotations} | ({"labels": labels} if labels else {})
        body = msgspec.json.encode({"metadata": metadata})
        await self._patch_pod(calls.PODS.path(namespace, name), (namespace, name, uid), body, kind=_MERGE_PATCH)

    async def admit_pod(self, namespace: str, name: str, uid: PodUid, patch: bytes) -> None:
        """Send a strategic merge patch of the very pod `uid`; as `annotate_pod`. ApiError 422: it is not acceptable."""
        await self._patch_pod(calls.PODS.path(namespace, name), (namespace, name, uid), patch, opens_gate=True)

    async def _patch_pod(
        self, path: str, pod: tuple[str, str, PodUid], body: bytes, *, kind: str = _STRATEGIC, opens_gate: bool = False
    ) -> None:
        try:
            await self.transport.send("PATCH", path, body=body, content_type=kind, timeout_s=_REQUEST_S)
        except ApiError as error:
            if error.status != 422:
                raise
            namespace, name, uid = pod
            with mapped(f"GET {path}"):
                now = _POD.decode(await self.get_pod(namespace, name))
            if now.metadata.uid != uid:
                raise ConflictError(409, f"pod {namespace}/{name} was replaced by another of the same name") from error
            # When an earlier patch took effect though its answer was lost, it is 422 again, but the gate is gone
            if not opens_gate or GATE in [gate.get("name") for gate in now.spec.scheduling_gates or ()]:
                raise

    async def get_pod(self, namespace: str, name: str) -> bytes:
        """One pod as raw JSON, read from storage."""
        return await self.transport.send("GET", calls.PODS.path(namespace, name), timeout_s=_REQUEST_S)

    async def get_object(self, api_version: str, kind: str, namespace: str, name: str) -> bytes:
        """One owner of pods or node, likewise. ValueError: `calls` has no such kind."""
        path = calls.served_as(api_version, kind, among={**calls.OWNERS, **calls.WRITTEN}).path(namespace, name)
        return await self.transport.send("GET", path, timeout_s=_REQUEST_S)

    async def labelled_owners(self, *labels: str) -> AsyncGenerator[tuple[str, str, bytes], None]:
        """Owners of kinds that can be suspended, with one of these labels; kinds that are not installed have none."""
        pages = Pages(self)
        for label, (kind, resource) in product(labels, calls.SUSPENDED_AT):
            with suppress(NotFoundError):
                async for raw in pages.items(f"{resource.collection()}?{urlencode({'labelSelector': label})}"):
                    yield resource.api_version, kind, raw

    async def patch_object(self, api_version: str, kind: str, namespace: str, name: str, patch: bytes) -> bytes:
        """Merge patch of an owner of pods or a node; as it is now. ConflictError: not the version that it names."""
        return await self._merge(calls.served_as(api_version, kind, among=calls.WRITTEN).path(namespace, name), patch)

    async def evict(self, namespace: str, name: str, uid: PodUid, *, resource_version: str = "") -> None:
        """Evict the very pod `uid`. ApiError 429: a disruption budget forbids it; ConflictError: replaced, changed."""
        only = {"uid": uid, **({"resourceVersion": resource_version} if resource_version else {})}
        about = {"metadata": {"name": name, "namespace": namespace}, "deleteOptions": {"preconditions": only}}
        body = msgspec.json.encode({"apiVersion": "policy/v1", "kind": "Eviction", **about})
        path = calls.PODS.path(namespace, name, "eviction")
        await self.transport.send("POST", path, body=body, timeout_s=30.0)  # a conflict takes 10 s (seen at 1.36.3)

    async def patch_group_status(self, namespace: str, name: str, patch: bytes) -> bytes:
        """Merge patch of a PodGroup's status; the PodGroup as it is now. ConflictError: it changed meanwhile."""
        return await self._merge(calls.POD_GROUPS.path(namespace, name, "status") + _AS_WRITER, patch)

    async def patch_pod_status(self, namespace: str, name: str, uid: PodUid, patch: bytes) -> None:
        """Send a strategic merge patch of the status of the very pod `uid`; ConflictError: it was replaced."""
        path = calls.PODS.path(namespace, name, "status") + _AS_WRITER
        await self._patch_pod(path, (namespace, name, uid), patch)

    async def patch_node_status(self, name: str, patch: bytes) -> None:
        """Send a strategic merge patch of the status of a node."""
        path = calls.NODES.path("", name, "status") + _AS_WRITER
        await self.transport.send("PATCH", path, body=patch, content_type=_STRATEGIC, timeout_s=_REQUEST_S)

    async def _merge(self, path: str, patch: bytes) -> bytes:
        return await self.transport.send("PATCH", path, body=patch, content_type=_MERGE_PATCH, timeout_s=_REQUEST_S)

    async def create_event(self, namespace: str, event: Mapping[str, Any]) -> None:
        """POST an events.k8s.io/v1 Event; `apiVersion` and `kind` are filled in."""
        body = msgspec.json.encode({"apiVersion": "events.k8s.io/v1", "kind": "Event", **event})
        await self.transport.send("POST", calls.EVENTS.collection(namespace), body=body, timeout_s=_REQUEST_S)


def _may_have_worked_or_may_later(error: ApiError | ApiUnavailableError) -> bool:
    """No answer or a 5xx: it may have taken effect; 429: it did not, but may be tried again."""
    return isinstance(error, ApiUnavailableError) or error.status == 429 or error.status >= 500


def _final(binding: Binding, error: ApiError | ApiUnavailableError) -> ApiError | ApiUnavailableError:
    """The answer to the caller when tries and time are used up; only a 429 is known to have had no effect."""
    if isinstance(error, ApiError) and error.status == 429:
        return error
    what = f"binding of pod {binding.namespace}/{binding.name} to {binding.node}"
    return ApiUnavailableError(f"{what}: outcome unknown: {error}")


def _with_query(path: str, query: Mapping[str, str]) -> str:
    calls.resource_of(path)
    return f"{path}{'&' if '?' in path else '?'}{urlencode(query)}"


class _User(msgspec.Struct, frozen=True):
    username: str = ""
    extra: dict[str, list[str]] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    audiences: list[str] | None = None
    user: _User = _User()


class _TokenReview(msgspec.Struct):
    status: _TokenStatus


class KubeReviews(Transport):
    """The Reviews port; its transport is not that of Bindings."""

    async def identity(self, token: str, *, audiences: Sequence[str] = ()) -> Identity | None:
        """Whose token it is; None: no account's, or not surely for one of `audiences`. Errors: as `Transport.send`."""
        spec = {"token": token, **({"audiences": list(audiences)} if audiences else {})}
        kind = calls.TOKEN_REVIEWS
        asked = msgspec.json.encode({"apiVersion": kind.api_version, "kind": "TokenReview", "spec": spec})
        body = await self.send("POST", kind.collection(), body=asked, timeout_s=5.0)
        with mapped("TokenReview"):
            status = msgspec.json.decode(body, type=_TokenReview).status
        meant = not audiences or set(audiences).intersection(status.audiences or ())
        if not (status.authenticated and status.user.username and meant):
            return None
        extra = tuple(sorted((key, tuple(values)) for key, values in (status.user.extra or {}).items()))
        return Identity(status.user.username, extra)


class OperatorApi(Transport):
    """What tools for operators ask, with an operator's rights: any object, by its address, as plain JSON values."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server, concurrency=16, agent="netgang-operator")

    async def get(self, path: str) -> _Json | None:
        """One object or document; `None`: it, or its kind, does not exist. Errors: ApiError, ApiUnavailableError."""
        body = await self.find(path, timeout_s=_OPERATOR_S)
        return self._read(body, f"GET {path}") if body is not None else None

    async def items(self, path: str, query: Mapping[str, str] | None = None) -> AsyncIterator[bytes]:
        """The objects of a collection as raw JSON, page by page; nothing where the kind is not served."""
        token = ""
        while True:
            asked = {"limit": "500", **(query or {}), **({"continue": token} if token else {})}
            url = f"{path}?{urlencode(asked)}"
            try:
                body = await self.send("GET", url, timeout_s=_PAGE_S, limit_bytes=_OPERATOR_BYTES)
            except NotFoundError:
                return
            with mapped(f"GET {url}"):
                page = decoded(_PAGE, body)
            for item in page.items or ():
                yield bytes(item)
            token = page.metadata.continue_token
            if not token:
                return

    async def listed(self, path: str, query: Mapping[str, str] | None = None) -> list[_Json]:
        """All objects of a small collection."""
        return [self._read(item, f"GET {path}") async for item in self.items(path, query)]

    async def create(self, path: str, body: Mapping[str, Any]) -> _Json:
        """POST an object; as the API server has it then."""
        text = msgspec.json.encode(body)
        return self._read(await self.send("POST", path, body=text, timeout_s=_OPERATOR_S), f"POST {path}")

    async def patch(self, path: str, change: Mapping[str, Any]) -> None:
        """Strategic merge patch of a built-in kind. Errors: ConflictError, NotFoundError, ApiError 422 and others."""
        text = msgspec.json.encode(change)
        await self.send("PATCH", path, body=text, content_type=_STRATEGIC, timeout_s=_OPERATOR_S)

    async def delete(self, path: str, *, resource_version: str = "") -> bool:
        """Delete one object; false: there was none. With a version, ConflictError if it has changed since."""
        options: _Json = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if resource_version:
            options["preconditions"] = {"resourceVersion": resource_version}
        with suppress(NotFoundError):
            await self.send("DELETE", path, body=msgspec.json.encode(options), timeout_s=_OPERATOR_S)
            return True
        return False

    @staticmethod
    def _read(body: bytes, what: str) -> _Json:
        with mapped(what):
            return decoded(msgspec.json.Decoder(_Json), body)
