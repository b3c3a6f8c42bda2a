"""The HTTP face: POST /filter, /prioritize and /bind from bytes to bytes, and FastAPI's documents for all else.

Why the verbs stand in front: kube-scheduler waits for filter and prioritize inside its only scheduling loop; FastAPI's
and Starlette's layers cost 50 µs a call, as much as the answer (`python -m lab.bench.http`). Rules:

- The three verbs always answer 200: kube-scheduler does not read the body of any other status. What is wrong stands in
  `Error` (filter, bind); prioritize has no such field and answers equal scores, which prefer nothing.
- An error never lets a node pass. A bug is logged, counted, answered with a constant `Error`, and makes the process
  unready for a while.
- A call awaits nothing but the request's body, which has a largest size and a longest time, the answer of /bind, and of
  /filter when the question shows that the watch is behind.
- At the loopback a document is asked for by an address or a name of ours: under another one a web page reads it through
  its reader's port-forward (DNS rebinding). Elsewhere by any: the API server's proxy sends the API server's own along.
- A call with `?debug` in its address, which kube-scheduler cannot send, at the port for people, or of curl is a look:
  the service knows it, and nothing is bound (docs/safety.md S2).
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial
from http import HTTPStatus
from ipaddress import ip_address
from time import perf_counter
from typing import Final, NamedTuple, assert_never

import msgspec
from fastapi import APIRouter
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from extender.api.problems import problem_response
from extender.api.routes import create_documents_app
from extender.api.views import Views
from extender.convert import wire
from extender.convert.wire import Failed, Passed, Refused
from extender.errors import BadRequestError
from extender.runtime.telemetry import Telemetry
from extender.scheduling.verbs import Verbs
from extender.schemas import Readiness
from extender.settings.settings import is_loopback
from scoring.model.reasons import Reason

UNREADY_AFTER_ERROR_S: Final = 30.0  # How long /readyz says no after an internal error: enough for a probe to see it
DEBUG_BINDS_NOTHING: Final = "netgang: a debugging call binds nothing"
PATHS: Final = frozenset({"/filter", "/prioritize", "/bind"})
_CURL: Final = b"curl/"  # A User-Agent of curl's. kube-scheduler's is its HTTP library's: `Go-http-client/1.1`
_LOOKS: Final = "netgang.looks"  # In the scope of a request at the port for people

_log = logging.getLogger("netgang.http")


class VerbReply(NamedTuple):
    """What is sent, and what is counted."""

    body: bytes
    outcome: str
    reason: str = ""
    last: bool = False  # The rest of the body was not waited for, so the connection cannot be used again


_GONE: Final = VerbReply(b"", "gone")


@dataclass(eq=False, repr=False)
class VerbsApp:
    """The whole HTTP service. Answers each call of a verb exactly once, whatever happens; passes all else on."""

    verbs: Verbs
    views: Views
    telemetry: Telemetry
    _: KW_ONLY
    max_body_bytes: int = 32 * 1024 * 1024  # 500 full Nodes of 13 kB four times; 15,000 names take 1 MB
    body_timeout_s: float = 5.0  # kube-scheduler's own default httpTimeout: no caller waits longer for what follows
    curl_looks: bool = True  # What says that it is curl is a person; `False`: it plays kube-scheduler
    routers: Sequence[APIRouter] = ()  # They join the documents (/v1 and pages)

    def __post_init__(self) -> None:
        self._unready_until_s = 0.0  # By the event loop's clock
        failed = partial(self._has_failed, "document")
        self._documents = create_documents_app(
            self.views, self.telemetry, readiness=self._readiness, failed=failed, routers=self.routers
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["path"] not in PATHS:
            local = scope.get("server")
            ours = local is None or not is_loopback(local[0]) or _names_us(scope)
            await (self._documents if ours else _MISDIRECTED)(scope, receive, send)
        elif scope["method"] != "POST":
            refusal = problem_response(HTTPStatus.METHOD_NOT_ALLOWED, "", headers={"allow": "POST"})
            await refusal(scope, receive, send)
        else:
            began_s, verb = perf_counter(), scope["path"][1:]
            body, outcome, reason, last = await self._reply(verb, scope, receive)
            self.telemetry.request_done(verb, outcome, duration_s=perf_counter() - began_s, reason=reason)
            headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
            if last:
                headers.append((b"connection", b"close"))
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    async def _reply(self, verb: str, scope: Scope, receive: Receive) -> VerbReply:
        declared, curl = b"", False
        for name, value in scope["headers"]:
            if name == b"content-length":
                declared = value
            elif name == b"user-agent":
                curl = value.startswith(_CURL)
        too_large = f"the body is larger than {self.max_body_bytes} bytes"
        if declared.isdigit() and int(declared[:18]) > self.max_body_bytes:  # 18 are beyond any limit
            return _malformed(verb, b"", too_large, last=True)
        pieces = bytearray()  # a list of them would cost many times a body that comes byte by byte
        try:
            async with asyncio.timeout(self.body_timeout_s):
                async for piece in Request(scope, receive).stream():
                    pieces += piece
                    if len(pieces) > self.max_body_bytes:
                        return _malformed(verb, b"", too_large, last=True)
        except TimeoutError:
            return _malformed(verb, b"", f"the body did not arrive within {self.body_timeout_s:g} s", last=True)
        except ClientDisconnect:
            return _GONE
        body = bytes(pieces)
        looks = scope["query_string"] == b"debug" or _LOOKS in scope or (curl and self.curl_looks)
        try:
            return await self._answer(verb, body, receive, looks=looks)
        except BadRequestError as error:
            return _malformed(verb, body, str(error))
        except Exception:  # noqa: BLE001  (the verbs' supervisor: a bug is no 500, nor "all nodes pass")
            _log.exception("internal error in %s", verb)
            self._has_failed(verb)
            return VerbReply(_failure(verb, body, wire.INTERNAL_ERROR), "internal")

    def _has_failed(self, place: str) -> None:
        self.telemetry.internal_error(place)
        self._unready_until_s = asyncio.get_running_loop().time() + UNREADY_AFTER_ERROR_S

    def _readiness(self) -> Readiness:
        readiness = self.views.readiness()
        if asyncio.get_running_loop().time() >= self._unready_until_s:
            return readiness
        reasons = (*readiness.reasons, "an internal error happened a moment ago, the log says more")
        return msgspec.structs.replace(readiness, ready=False, reasons=reasons)

    async def _answer(self, verb: str, body: bytes, receive: Receive, *, looks: bool) -> VerbReply:
        """The reply to a whole body, which may only be a look. Errors: BadRequestError: it cannot be read."""
        if verb == "bind":
            return await self._bind(body, receive, looks=looks)
        args = wire.decode_filter(body, debug=looks)
        if verb == "prioritize":
            scores = self.verbs.prioritize(args) if args.node_names else ()
            return VerbReply(wire.encode_scores(args, scores), "scored" if args.node_names else "empty")
        if not args.node_names:
            return VerbReply(wire.encode_filter(args, Passed(())), "empty")
        if (wait := self.verbs.caught_up(args)) is not None:
            await wait
        answer = self.verbs.filter(args)
        reply = wire.encode_filter(args, answer)
        match answer:
            case Passed(names, others):
                return VerbReply(reply, "passed") if names else VerbReply(reply, "refused", others)
            case Refused(reason):
                return VerbReply(reply, "refused", reason)
            case Failed(error):
                return VerbReply(reply, "failed", error if isinstance(error, Reason) else "other")  # labels stay few
            case _:
                assert_never(answer)

    async def _bind(self, body: bytes, receive: Receive, *, looks: bool) -> VerbReply:
        """As soon as the caller hangs up, the verb hears of it."""
        args = wire.decode_bind(body)
        if looks:
            return VerbReply(wire.encode_bind(DEBUG_BINDS_NOTHING), "debug")
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def wait_for_hang_up() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            gone.set_result(None)

        watch = asyncio.create_task(wait_for_hang_up())
        try:
            refusal = await self.verbs.bind(args, gone)
        finally:
            watch.cancel()
        if gone.done():
            return _GONE
        return VerbReply(wire.encode_bind(refusal), "bound" if refusal is None else "refused", refusal or "")


_MISDIRECTED: Final = problem_response(HTTPStatus.MISDIRECTED_REQUEST, "Host: use an address or localhost")


def _names_us(scope: Scope) -> bool:
    """Whether Host is an address, or this machine's or the Service's name, which no public domain can be."""
    host = ""
    with suppress(ValueError):
        host = Request(scope).url.hostname or ""
        return bool(ip_address(host))
    return host in ("localhost", "netgang") or host.endswith((".localhost", ".svc", ".svc.cluster.local"))


def for_people(app: ASGIApp) -> ASGIApp:
    """The same service, documents and readiness, for another port: every call of a verb there only looks."""
    return lambda scope, receive, send: app({**scope, _LOOKS: True}, receive, send)


def _malformed(verb: str, body: bytes, error: str, *, last: bool = False) -> VerbReply:
    return VerbReply(_failure(verb, body, f"netgang: malformed request: {error}"), "malformed", last=last)


def _failure(verb: str, body: bytes, error: str) -> bytes:
    """The reply that lets no node pass and binds nothing."""
    if verb == "prioritize":
        return wire.encode_equal_scores(wire.readable_names(body) if body else [])
    return wire.encode_bind(error) if verb == "bind" else wire.encode_filter_error(error)
