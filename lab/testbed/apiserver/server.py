"""A loopback API server over HTTP: the calls netgang makes, answered from memory, with faults on demand.

Why: what the real client costs, and what it does when an answer is late, lost or nonsense, can only be seen over a
socket; a real API server cannot be made to lose an answer.
Rule: loopback only, TLS if it is given a certificate; what the API promises is `lab.testbed.apiserver.store`'s, this
adds paths, status codes, streaming and faults.
"""

import asyncio
import re
import ssl
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import msgspec
from aiohttp import web

from extender.errors import ApiError
from extender.kube.calls import DAEMON_SETS, EVENTS, NODES, POD_GROUPS, PODS, SUSPENDED, Resource
from extender.ports import Binding
from lab.testbed.apiserver.store import ApiStore
from scoring.ids import NodeName, PodUid

_PATH = re.compile(
    r"(?P<root>/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?"
)
_JSON = "application/json"
_RESOURCES = {
    (one.root, one.plural): one for one in (PODS, NODES, POD_GROUPS, DAEMON_SETS, EVENTS, *SUSPENDED.values())
}


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to one call instead of its answer.

    `status` 0 breaks the connection; else the answer is `status` with `body` and `headers`. `applied`: the call
    takes effect first. `delay_s` passes before either.
    """

    status: int = 0
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    applied: bool = False
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    port: int
    """Of the client's end of the connection"""


@dataclass(frozen=True, slots=True)
class _Target:
    resource: Resource | None
    namespace: str
    name: str
    sub: str


class LoopbackApi:
    """The HTTP side of an ApiStore.

    Verbs, for faults: list, watch, get, patch, bind, evict, create_event.
    """

    def __init__(self, store: ApiStore, *, bookmark_s: float = 60.0, remember: int = 0) -> None:
        self.store = store
        self.tokens: set[str] = set()
        """Bearer tokens that are accepted; none: all are"""
        self.seen: deque[Seen] = deque(maxlen=remember)
        """The last requests"""
        self.arrival = asyncio.Event()
        """Set by each request"""
        self.url = ""
        self._bookmark_s = bookmark_s
        self._faults: defaultdict[str, deque[Fault]] = defaultdict(deque)

    def fail_next(self, verb: str, fault: Fault, *, times: int = 1) -> None:
        """Let the next calls of `verb` meet this fault."""
        self._faults[verb].extend([fault] * times)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        self.arrival.set()
        target = _target(request.rel_url.raw_path)
        verb = _verb(request, target)
        body = await request.read() if request.method != "GET" else b""
        if self.seen.maxlen:
            peer = request.get_extra_info("peername") or ("", 0)
            self.seen.append(Seen(request.method, request.path_qs, dict(request.headers), body, peer[1]))
        if self.tokens and request.headers.get("Authorization", "").removeprefix("Bearer ") not in self.tokens:
            return _status(401, "Unauthorized")
        fault = self._faults[verb].popleft() if self._faults[verb] else None
        if fault is not None and not fault.applied:
            return await _broken(request, fault)
        try:
            if verb == "watch":
                return await self._watch(request, target)
            answer = self._answer(verb, request, target, body)
        except ApiError as error:
            return _status(error.status, error.message, retry_after_s=error.retry_after_s)
        return answer if fault is None else await _broken(request, fault)

    def _answer(self, verb: str, request: web.BaseRequest, target: _Target, body: bytes) -> web.Response:
        resource, namespace, name = target.resource, target.namespace, target.name
        if resource is None or not verb:
            raise ApiError(404, "404 page not found")
        match verb:
            case "list":
                return self._list(request, resource, namespace)
            case "get":
                return web.Response(body=self.store.body(resource, namespace, name), content_type=_JSON)
            case "patch":
                match request.content_type:
                    case "application/merge-patch+json":
                        patched = self.store.merge_patch(resource, namespace, name, msgspec.json.decode(body))
                    case "application/strategic-merge-patch+json" if request.path.endswith("/status"):
                        patched = self.store.conditions_patch(namespace, name, msgspec.json.decode(body))
                    case "application/strategic-merge-patch+json":
                        patched = self.store.admission_patch(namespace, name, msgspec.json.decode(body))
                    case other:
                        raise ApiError(415, f"the body of the request was in an unknown format: {other}")
                return web.Response(body=msgspec.json.encode(patched), content_type=_JSON)
            case "bind":
                content = msgspec.json.decode(body)
                uid = PodUid(content.get("metadata", {}).get("uid", ""))
                self.store.bind(Binding(namespace, name, uid, NodeName(content["target"]["name"])))
                return _status(201, "")
            case "evict":
                unless = msgspec.json.decode(body).get("deleteOptions", {}).get("preconditions", {})
                version = unless.get("resourceVersion", "")
                self.store.evict(namespace, name, uid=unless.get("uid", ""), resource_version=version)
                return _status(201, "")
            case "create_event":
                event = msgspec.json.decode(body)
                event["metadata"]["namespace"] = namespace
                event["metadata"].setdefault("name", f"event-{self.store.version}")
                return web.Response(
                    status=201, body=msgspec.json.encode(self.store.put(EVENTS, event)), content_type=_JSON
                )
            case _:
                raise ApiError(405, "the server does not allow this method on the requested resource")

    def _list(self, request: web.BaseRequest, resource: Resource, namespace: str) -> web.Response:
        query = request.query
        page = self.store.page(
            resource,
            namespace=namespace,
            limit=int(query.get("limit", "0")),
            continue_token=query.get("continue", ""),
            not_older_than=query.get("resourceVersion", ""),
            labels=dict(pair.split("=", 1) for pair in query.get("labelSelector", "").split(",") if pair),
        )
        metadata = {"resourceVersion": page.resource_version, "continue": page.continue_token}
        head = b'{"kind":"List","apiVersion":"v1","metadata":' + msgspec.json.encode(metadata) + b',"items":['
        return web.Response(body=head + b",".join(page.items) + b"]}\n", content_type=_JSON)

    async def _watch(self, request: web.BaseRequest, target: _Target) -> web.StreamResponse:
        if target.resource is None:
            raise ApiError(404, "404 page not found")
        query = request.query
        events = self.store.watch(
            target.resource,
            namespace=target.namespace,
            resource_version=query["resourceVersion"],
            timeout_s=float(query.get("timeoutSeconds", "300")),
            bookmark_s=self._bookmark_s if query.get("allowWatchBookmarks") == "true" else float("inf"),
        )
        self.store.check_watch(target.resource, int(query["resourceVersion"]))
        response = web.StreamResponse(headers={"Content-Type": _JSON})
        with suppress(ConnectionResetError):  # the reader hung up, as readers of watches do
            await response.prepare(request)
            async with aclosing(events):
                async for event in events:
                    await response.write(b'{"type":"%b","object":%b}\n' % (event.type.encode(), event.object))
            await response.write_eof()
        return response


@asynccontextmanager
async def serve(
    store: ApiStore,
    *,
    port: int = 0,
    bookmark_s: float = 60.0,
    remember: int = 0,
    tls: ssl.SSLContext | None = None,
) -> AsyncGenerator[LoopbackApi, None]:
    """Serve a store on a loopback port (0: any free one) for the time of an `async with`; see `url`."""
    api = LoopbackApi(store, bookmark_s=bookmark_s, remember=remember)
    runner = web.ServerRunner(web.Server(api.handle, access_log=None), handle_signals=False, shutdown_timeout=0.2)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls)
    await site.start()
    host, bound = runner.addresses[0][:2]
    api.url = f"{'http' if tls is None else 'https'}://{host}:{bound}"
    try:
        yield api
    finally:
        store.hang_up()
        await runner.cleanup()


def _target(path: str) -> _Target:
    found = _PATH.fullmatch(path)
    if found is None:
        return _Target(None, "", "", "")
    resource = _RESOURCES.get((found["root"], found["plural"]))
    return _Target(resource, unquote(found["namespace"] or ""), unquote(found["name"] or ""), found["sub"] or "")


def _verb(request: web.BaseRequest, target: _Target) -> str:
    """Our word for what the request wants; "" when this server does not offer it."""
    match request.method, bool(target.name), target.sub:
        case "GET", False, _:
            return "watch" if request.query.get("watch") == "true" else "list"
        case "GET", True, "":
            return "get"
        case "PATCH", True, "" | "status":
            return "patch"
        case "POST", True, "binding":
            return "bind"
        case "POST", True, "eviction":
            return "evict"
        case "POST", False, _ if target.resource is EVENTS:
            return "create_event"
        case _:
            return ""


def _status(code: int, message: str, *, retry_after_s: float | None = None) -> web.Response:
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "code": code, "message": message}
    body["status"] = "Failure" if code >= 400 else "Success"
    headers = {"Retry-After": str(int(retry_after_s))} if retry_after_s is not None else {}
    return web.Response(status=code, body=msgspec.json.encode(body), content_type=_JSON, headers=headers)


async def _broken(request: web.BaseRequest, fault: Fault) -> web.Response:
    if fault.delay_s:
        await asyncio.sleep(fault.delay_s)
    if fault.status == 0 and request.transport is not None:
        request.transport.abort()
    return web.Response(status=fault.status or 500, body=fault.body, headers=dict(fault.headers))
