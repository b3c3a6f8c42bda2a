"""A loopback API server over HTTP: the calls netgang makes, answered from memory, with faults on demand.

Why: what the real client costs, and what it does when an answer is late, lost or nonsense, can only be seen over a
socket; a real API server cannot be made to lose an answer.
Rule: loopback only; what the API promises is the store's, this adds paths, status codes, streaming and faults.
"""

import asyncio
import re
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
from aiohttp import web

from extender.errors import ApiError, NotFoundError
from extender.kube.calls import Resource
from extender.ports import Binding, WatchEvent
from lab.testbed.apiserver.store import ApiStore, Object
from scoring import NodeName, PodUid

_PATH = re.compile(
    r"(?P<root>/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?"
)
_JSON = "application/json"


class Fault(msgspec.Struct, frozen=True):
    """What happens to one call instead of its answer.

    `status` 0 breaks the connection; else the answer is `status` with `body` and `headers`. `applied`: the call
    takes effect first. `delay_s` passes before either.
    """

    status: int = 0
    body: bytes = b""
    headers: Mapping[str, str] = {}
    applied: bool = False
    delay_s: float = 0.0


class Seen(msgspec.Struct, frozen=True):
    """A request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    port: int  # of the client's end of the connection


class _Call(msgspec.Struct, frozen=True):
    """A request as this server reads it; `verb` is "" when it does not offer that."""

    verb: str
    path: str
    query: Mapping[str, str]
    resource: Resource | None
    namespace: str
    name: str


class LoopbackApi:
    """What an API server answers for an ApiStore, over HTTP or to a caller in this process (`answer`).

    Verbs, for faults: list, watch, get, patch, update, delete, bind, evict, create.
    """

    def __init__(self, store: ApiStore, *, bookmark_s: float = 60.0, remember: int = 0) -> None:
        self.store = store
        self.documents: dict[str, Any] = {}
        """Path → what is read there, or a function of what is posted there: versions, discovery, reviews"""
        self.before: Callable[[str, str], None] = lambda verb, path: None
        """Told of each call, before it has an effect; may raise an ApiError"""
        self.tokens: set[str] = set()  # bearer tokens that are accepted; none: all are
        self.seen: deque[Seen] = deque(maxlen=remember)  # the last requests
        self.arrival = asyncio.Event()  # set by each request
        self.url = ""
        self._bookmark_s = bookmark_s
        self._faults: defaultdict[str, deque[Fault]] = defaultdict(deque)

    def fail_next(self, verb: str, fault: Fault, *, times: int = 1) -> None:
        """Let the next calls of `verb` meet this fault."""
        self._faults[verb].extend([fault] * times)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        self.arrival.set()
        call = self._read(request.method, request.raw_path)
        body = await request.read() if request.method != "GET" else b""
        if self.seen.maxlen:
            peer = request.get_extra_info("peername") or ("", 0)
            self.seen.append(Seen(request.method, request.path_qs, dict(request.headers), body, peer[1]))
        if self.tokens and request.headers.get("Authorization", "").removeprefix("Bearer ") not in self.tokens:
            return _status(401, "Unauthorized")
        fault = self._faults[call.verb].popleft() if self._faults[call.verb] else None
        if fault is not None and not fault.applied:
            return await _broken(request, fault)
        try:
            if call.verb == "watch":
                return await self._watch(request, call)
            text = self._answer(call, body, request.content_type)
        except ApiError as error:
            return _status(error.status, error.message, retry_after_s=error.retry_after_s)
        if fault is not None:
            return await _broken(request, fault)
        return web.Response(status=201 if request.method == "POST" else 200, body=text, content_type=_JSON)

    def answer(self, method: str, target: str, body: bytes = b"", content_type: str = _JSON) -> bytes:
        """The body of the answer to anything but a watch. Errors: ApiError and its kinds, by status."""
        return self._answer(self._read(method, target), body, content_type)

    def _read(self, method: str, target: str) -> _Call:
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        found = _PATH.fullmatch(parts.path)
        if parts.path in self.documents or found is None:
            return _Call("get" if method == "GET" else "create", parts.path, query, None, "", "")
        served = {(one.root, one.plural): one for one in self.store.resources}
        resource = served.get((found["root"], found["plural"]))
        verb = _verb(method, found, watching=query.get("watch") == "true")
        return _Call(verb, parts.path, query, resource, unquote(found["namespace"] or ""), unquote(found["name"] or ""))

    def _answer(self, call: _Call, body: bytes, content_type: str) -> bytes:
        self.before(call.verb, call.path)
        resource, namespace, name = call.resource, call.namespace, call.name
        if call.path in self.documents:
            document = self.documents[call.path]
            return msgspec.json.encode(document(msgspec.json.decode(body)) if callable(document) else document)
        if resource is None:
            raise NotFoundError(404, "404 page not found")
        match call.verb:
            case "list":
                return self._list(call, resource)
            case "get":
                return self.store.body(resource, namespace, name)
            case "patch":
                return msgspec.json.encode(self._patch(call, resource, msgspec.json.decode(body), content_type))
            case "delete":
                unless = msgspec.json.decode(body or b"{}").get("preconditions", {})
                self.store.remove(resource, namespace, name, resource_version=unless.get("resourceVersion", ""))
            case "bind":
                content = msgspec.json.decode(body)
                uid = PodUid(content.get("metadata", {}).get("uid", ""))
                self.store.bind(Binding(namespace, name, uid, NodeName(content["target"]["name"])))
            case "evict":
                unless = msgspec.json.decode(body).get("deleteOptions", {}).get("preconditions", {})
                version = unless.get("resourceVersion", "")
                self.store.evict(namespace, name, uid=unless.get("uid", ""), resource_version=version)
            case "create":
                new = msgspec.json.decode(body)
                new["metadata"]["namespace"] = namespace
                new["metadata"].setdefault("name", f"event-{self.store.version}")
                return msgspec.json.encode(self.store.create(resource, new))
            case "update":
                return msgspec.json.encode(self.store.replace(resource, msgspec.json.decode(body)))
            case _:
                raise ApiError(405, "the server does not allow this method on the requested resource")
        return b'{"kind":"Status","apiVersion":"v1","status":"Success"}'

    def _patch(self, call: _Call, resource: Resource, patch: Object, content_type: str) -> Object:
        match content_type:
            case "application/strategic-merge-patch+json" if call.path.endswith("/status"):
                return self.store.conditions_patch(resource, call.namespace, call.name, patch)
            case "application/strategic-merge-patch+json" if call.namespace:  # a pod's
                return self.store.admission_patch(call.namespace, call.name, patch)
            case "application/merge-patch+json" | "application/strategic-merge-patch+json":  # of a node's taints
                return self.store.merge_patch(resource, call.namespace, call.name, patch)
            case _:
                raise ApiError(415, f"the body of the request was in an unknown format: {content_type}")

    def _list(self, call: _Call, resource: Resource) -> bytes:
        query = call.query
        page = self.store.page(
            resource,
            namespace=call.namespace,
            limit=int(query.get("limit", "0")),
            continue_token=query.get("continue", ""),
            not_older_than=query.get("resourceVersion", ""),
            labels=dict(pair.split("=", 1) for pair in query.get("labelSelector", "").split(",") if pair),
            phase=query.get("fieldSelector", "").removeprefix("status.phase="),
        )
        metadata = {"resourceVersion": page.resource_version, "continue": page.continue_token}
        head = b'{"kind":"List","apiVersion":"v1","metadata":' + msgspec.json.encode(metadata) + b',"items":['
        return head + b",".join(page.items) + b"]}\n"

    async def lines(self, target: str) -> AsyncGenerator[bytes, None]:
        """The answer to a watch, line by line. Errors: before the first as those of `answer`."""
        async with aclosing(self._events(self._read("GET", target))) as events:
            async for event in events:
                yield b'{"type":"%b","object":%b}\n' % (event.type.encode(), event.object)

    def _events(self, call: _Call) -> AsyncGenerator[WatchEvent, None]:
        if call.resource is None:
            raise NotFoundError(404, "404 page not found")
        query = call.query
        self.store.check_watch(call.resource, int(query["resourceVersion"]))
        return self.store.watch(
            call.resource,
            namespace=call.namespace,
            resource_version=query["resourceVersion"],
            timeout_s=float(query.get("timeoutSeconds", "300")),
            bookmark_s=self._bookmark_s if query.get("allowWatchBookmarks") == "true" else float("inf"),
        )

    async def _watch(self, request: web.BaseRequest, call: _Call) -> web.StreamResponse:
        self._events(call)  # what is wrong with the request is said in the status
        response = web.StreamResponse(headers={"Content-Type": _JSON})
        with suppress(ConnectionResetError):  # the reader hung up, as readers of watches do
            await response.prepare(request)
            async with aclosing(self.lines(request.raw_path)) as lines:
                async for line in lines:
                    await response.write(line)
            await response.write_eof()
        return response


class InProcess:
    """What a client of this process takes for its transport."""

    def __init__(self, server: LoopbackApi) -> None:
        self.server = server

    async def send(self, method: str, path: str, *, body: bytes = b"", content_type: str = "", **_: Any) -> bytes:
        """One exchange."""
        return self.server.answer(method, path, body, content_type)

    async def lines(self, path: str, **_: Any) -> AsyncGenerator[bytes, None]:
        """An endless answer."""
        async with aclosing(self.server.lines(path)) as lines:
            async for line in lines:
                yield line


@asynccontextmanager
async def serve(api: LoopbackApi) -> AsyncGenerator[LoopbackApi, None]:
    """Answer on a free loopback port, `api.url`, for the time of an `async with`."""
    runner = web.ServerRunner(web.Server(api.handle, access_log=None), handle_signals=False, shutdown_timeout=0.2)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, bound = runner.addresses[0][:2]
    api.url = f"http://{host}:{bound}"
    try:
        yield api
    finally:
        api.store.hang_up()
        await runner.cleanup()


def _verb(method: str, path: re.Match[str], *, watching: bool) -> str:
    """Our word for what the request wants; "" when this server does not offer it."""
    match method, bool(path["name"]), path["sub"] or "":
        case "GET", False, _:
            return "watch" if watching else "list"
        case "GET" | "DELETE", True, "":
            return method.lower()
        case "PUT", True, "":
            return "update"
        case "PATCH", True, "" | "status":
            return "patch"
        case "POST", True, "binding":
            return "bind"
        case "POST", True, "eviction":
            return "evict"
        case "POST", False, _:
            return "create"
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
