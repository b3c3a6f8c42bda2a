"""The HTTP face: POST /filter, /prioritize and /bind on the raw ASGI scope, everything else by FastAPI.

Why raw: kube-scheduler waits for filter and prioritize inside its only scheduling loop, so each layer between the
socket and the service is paid by every pod of the cluster.

Rules:
- The three verbs always answer 200: kube-scheduler does not read the body of any other status. What is wrong stands in
  `Error` (filter, bind); prioritize has no such field and answers equal scores, which prefer nothing.
- An error never lets a node pass. A bug in the service is logged, counted, answered with a constant `Error`, and makes
  the process unready for a while; this dispatch is the supervisor of the verbs.
- filter and prioritize await nothing but the request's body, which has a largest size and a longest time; filter also
  the watch, for some milliseconds, when the question shows that it is behind (`Verbs.caught_up`).
- A call with `?debug` in its address, which kube-scheduler cannot send, and one that comes from people (`Callers`) is
  somebody looking: the service is told, and nothing is bound (S2).
- One message with the whole body and its Content-Length, so that the client can reuse the connection.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from http import HTTPStatus
from time import perf_counter
from typing import Any, Final, Protocol, assert_never

from fastapi import APIRouter
from starlette.types import ASGIApp, Receive, Scope, Send, StatelessLifespan

from extender import wire
from extender.api.problems import PROBLEM_TYPE, problem_body
from extender.api.routes import Document, Readiness, Views, create_documents_app
from extender.errors import BadRequestError
from extender.telemetry import Telemetry
from extender.wire import BindArgs, Failed, FilterAnswer, FilterArgs, Passed, Refused
from scoring.reasons import Reason

__all__ = ["DEFAULT_MAX_BODY_BYTES", "App", "Callers", "Document", "Readiness", "Verbs", "Views", "create_app"]

DEFAULT_MAX_BODY_BYTES: Final = 32 * 1024 * 1024
"""Room for 500 full Node objects of 13 kB four times over; names of 15,000 nodes take 1 MB."""
DEFAULT_BODY_TIMEOUT_S: Final = 5.0
"""kube-scheduler's own default httpTimeout: nobody waits longer for what follows."""
UNREADY_AFTER_ERROR_S: Final = 30.0
"""How long /readyz says no after an internal error: long enough for a probe to see it."""

DEBUG_BINDS_NOTHING: Final = "netgang: a debugging call binds nothing"

_CURL: Final = b"curl/"
"""How curl's User-Agent begins. kube-scheduler sets none, so it sends its HTTP library's: `Go-http-client/1.1`."""

_log = logging.getLogger("netgang.http")


class Callers(Enum):
    """Who asks the verbs, where a call does not say `?debug` itself."""

    SCHEDULER = "all calls count: kube-scheduler, or somebody who plays it"
    SCHEDULER_AND_CURL = "kube-scheduler; what says that it is curl is a person looking"
    PEOPLE = "people looking; kube-scheduler is not sent here"


class Verbs(Protocol):
    """What kube-scheduler asks. Raising BadRequestError means that the request cannot be read after all."""

    async def caught_up(self, args: FilterArgs) -> None:
        """Wait, some milliseconds at most and rarely, for what kube-scheduler has seen already and we have not."""

    def filter(self, args: FilterArgs) -> FilterAnswer:
        """Which of the nodes the pod may use; from memory, within a millisecond or so. Not asked for no nodes."""

    def prioritize(self, args: FilterArgs) -> Sequence[int]:
        """A score from 0 to 10 for each of `args.node_names`, in their order. Not asked for no nodes."""

    async def bind(self, args: BindArgs, gone: asyncio.Future[None]) -> Reason | str | None:
        """Bind the pod, perhaps after a long wait; None once the Binding exists, else why not.

        `gone` is done when the caller hangs up: nobody will hear the answer, so a held call is dropped.
        """


def create_app(
    verbs: Verbs,
    views: Views,
    telemetry: Telemetry,
    *,
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES,
    body_timeout_s: float = DEFAULT_BODY_TIMEOUT_S,
    callers: Callers = Callers.SCHEDULER_AND_CURL,
    routers: Sequence[APIRouter] = (),
    lifespan: StatelessLifespan[Any] | None = None,
) -> "App":
    """Build the whole HTTP service; `routers` join FastAPI's side (/v1 and pages), `lifespan` runs around it."""
    supervisor = _Supervisor(telemetry)
    documents = create_documents_app(
        views,
        telemetry,
        readiness=lambda: supervisor.adjusted(views.readiness()),
        routers=routers,
        lifespan=lifespan,
    )
    return App(verbs, documents, telemetry, supervisor, _Serving(max_body_bytes, body_timeout_s, callers))


@dataclass(frozen=True, slots=True)
class _Serving:
    """How requests are served: largest and slowest body, and from whom they come."""

    max_body_bytes: int
    body_timeout_s: float
    callers: Callers


@dataclass(slots=True)
class _Supervisor:
    """Remembers that something inside failed. Times are the event loop's."""

    telemetry: Telemetry
    unready_until_s: float = 0.0

    def caught(self, place: str) -> None:
        """Log and count the exception that is being handled, and be unready for a while."""
        _log.exception("internal error in %s", place)
        self.telemetry.internal_error(place)
        self.unready_until_s = asyncio.get_running_loop().time() + UNREADY_AFTER_ERROR_S

    def adjusted(self, readiness: Readiness) -> Readiness:
        """`readiness`, but not ready for a while after an internal error."""
        ready, reasons, detail = readiness
        if asyncio.get_running_loop().time() >= self.unready_until_s:
            return ready, reasons, detail
        return False, [*reasons, "an internal error happened a moment ago, the log says more"], detail


class _ClientGone(Exception):
    """The caller hung up: there is nobody to answer."""


class _UnreadBody(BadRequestError):
    """The rest of the body was not waited for, so the connection cannot be used again."""


@dataclass(frozen=True, slots=True)
class _Reply:
    body: bytes
    outcome: str
    """A constant word for metrics."""
    reason: str = ""


class _Verb(Protocol):
    """One verb between bytes and bytes."""

    name: str

    async def answer(self, body: bytes, receive: Receive, *, debug: bool) -> _Reply:
        """The reply to a whole request body; BadRequestError if it cannot be read."""

    def failure(self, body: bytes, error: str) -> bytes:
        """The reply that lets no node pass and binds nothing, to a body that could not be answered."""


class App:
    """Tells the verbs from everything else, and answers every verb exactly once, whatever happens. Is an ASGIApp."""

    def __init__(
        self, verbs: Verbs, documents: ASGIApp, telemetry: Telemetry, supervisor: _Supervisor, serving: _Serving
    ) -> None:
        handlers: tuple[_Verb, ...] = (_Filter(verbs), _Prioritize(verbs), _Bind(verbs))
        self._asked = verbs
        self._verbs = {f"/{handler.name}": handler for handler in handlers}
        self._documents = documents
        self._telemetry = telemetry
        self._supervisor = supervisor
        self._serving = serving

    def for_people(self) -> "App":
        """The same service, documents and readiness, for another port: every call to it is somebody looking."""
        serving = replace(self._serving, callers=Callers.PEOPLE)
        return App(self._asked, self._documents, self._telemetry, self._supervisor, serving)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI wants it."""
        verb = self._verbs.get(scope["path"]) if scope["type"] == "http" else None
        if verb is None:
            await self._serve_document(scope, receive, send)
        elif scope["method"] == "POST":
            await self._serve_verb(verb, scope, receive, send)
        else:
            body = problem_body(HTTPStatus.METHOD_NOT_ALLOWED, f"{scope['path']} is called with POST")
            await _send(send, HTTPStatus.METHOD_NOT_ALLOWED, PROBLEM_TYPE.encode(), body, (b"allow", b"POST"))

    async def _serve_verb(self, verb: _Verb, scope: Scope, receive: Receive, send: Send) -> None:
        began_s = perf_counter()
        body = b""
        more: tuple[tuple[bytes, bytes], ...] = ()
        try:
            declared_bytes, curl = _scan_headers(scope)
            body = await _read_body(receive, self._serving, declared_bytes=declared_bytes)
            reply = await verb.answer(body, receive, debug=self._only_looking(scope, curl=curl))
        except _ClientGone:
            self._telemetry.request_done(verb.name, "gone", duration_s=perf_counter() - began_s)
            return
        except BadRequestError as error:
            reply = _Reply(verb.failure(body, f"netgang: malformed request: {error}"), "malformed")
            if isinstance(error, _UnreadBody):
                more = ((b"connection", b"close"),)
        except Exception:  # noqa: BLE001  (the verbs' supervisor: a bug must not become a 500, nor "all nodes pass")
            self._supervisor.caught(verb.name)
            reply = _Reply(verb.failure(body, wire.INTERNAL_ERROR), "internal")
        await _send(send, HTTPStatus.OK, b"application/json", reply.body, *more)
        self._telemetry.request_done(verb.name, reply.outcome, duration_s=perf_counter() - began_s, reason=reply.reason)

    def _only_looking(self, scope: Scope, *, curl: bool) -> bool:
        callers = self._serving.callers
        if callers is Callers.PEOPLE or scope["query_string"] == b"debug":
            return True
        return curl and callers is Callers.SCHEDULER_AND_CURL

    async def _serve_document(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._documents(scope, receive, send)
        except Exception:
            if scope["type"] != "http":  # a failed start-up must end the process
                raise
            # the problem document is sent already: Starlette answers first, then raises for the server's log
            self._supervisor.caught("document")


class _Filter:
    """POST /filter: ExtenderArgs → ExtenderFilterResult."""

    name = "filter"

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs

    async def answer(self, body: bytes, receive: Receive, *, debug: bool) -> _Reply:
        args = wire.decode_filter(body, debug=debug)
        if not args.node_names:
            return _Reply(wire.encode_filter(args, Passed(())), "empty")
        await self._verbs.caught_up(args)
        answer = self._verbs.filter(args)
        reply = wire.encode_filter(args, answer)
        match answer:
            case Passed(names, others):
                return _Reply(reply, "passed") if names else _Reply(reply, "refused", others)
            case Refused(reason):
                return _Reply(reply, "refused", reason)
            case Failed(error):
                return _Reply(reply, "failed", _reason_label(error))
            case _:
                assert_never(answer)

    def failure(self, body: bytes, error: str) -> bytes:
        return wire.encode_filter_error(error)


class _Prioritize:
    """POST /prioritize: ExtenderArgs → HostPriorityList."""

    name = "prioritize"

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs

    async def answer(self, body: bytes, receive: Receive, *, debug: bool) -> _Reply:
        args = wire.decode_filter(body, debug=debug)
        if not args.node_names:
            return _Reply(wire.encode_scores(args, ()), "empty")
        return _Reply(wire.encode_scores(args, self._verbs.prioritize(args)), "scored")

    def failure(self, body: bytes, error: str) -> bytes:
        return wire.encode_equal_scores(wire.readable_names(body) if body else [])


class _Bind:
    """POST /bind: ExtenderBindingArgs → ExtenderBindingResult, perhaps after a long wait."""

    name = "bind"

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs

    async def answer(self, body: bytes, receive: Receive, *, debug: bool) -> _Reply:
        args = wire.decode_bind(body)
        if debug:
            return _Reply(wire.encode_bind(DEBUG_BINDS_NOTHING), "debug")
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        watch = asyncio.create_task(_set_when_gone(receive, gone))
        try:
            refusal = await self._verbs.bind(args, gone)
        finally:
            watch.cancel()
        if gone.done():
            raise _ClientGone
        if refusal is None:
            return _Reply(wire.encode_bind(None), "bound")
        return _Reply(wire.encode_bind(refusal), "refused", _reason_label(refusal))

    def failure(self, body: bytes, error: str) -> bytes:
        return wire.encode_bind(error)


async def _read_body(receive: Receive, serving: _Serving, *, declared_bytes: int) -> bytes:
    """The whole request body, within its size and time. Errors: BadRequestError, _ClientGone."""
    too_large = f"the body is larger than {serving.max_body_bytes} bytes"
    if declared_bytes > serving.max_body_bytes:
        raise _UnreadBody(too_large)
    more = bytearray()  # grows in place: a list of pieces would cost many times a body that comes byte by byte
    try:
        async with asyncio.timeout(serving.body_timeout_s):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _ClientGone
                body: bytes = message.get("body", b"")
                if len(more) + len(body) > serving.max_body_bytes:
                    raise _UnreadBody(too_large)
                if not message.get("more_body", False) and not more:
                    return body
                more += body
                if not message.get("more_body", False):
                    return bytes(more)
    except TimeoutError as error:
        raise _UnreadBody(f"the body did not arrive within {serving.body_timeout_s:g} s") from error


def _scan_headers(scope: Scope) -> tuple[int, bool]:
    """How long the body says that it is (0: it does not), and whether the caller says that it is curl."""
    declared_bytes, curl = 0, False
    for name, value in scope["headers"]:
        if name == b"content-length":
            declared_bytes = int(value[:18]) if value.isdigit() else 0  # 18 digits are beyond any limit
        elif name == b"user-agent":
            curl = curl or value.startswith(_CURL)
    return declared_bytes, curl


async def _set_when_gone(receive: Receive, gone: asyncio.Future[None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    gone.set_result(None)


async def _send(send: Send, status: HTTPStatus, content_type: bytes, body: bytes, *more: tuple[bytes, bytes]) -> None:
    headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), *more]
    await send({"type": "http.response.start", "status": status.value, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _reason_label(error: Reason | str) -> str:
    """A refusal as a metric label: free texts all count as one, so that labels stay few."""
    return error if isinstance(error, Reason) else "other"
