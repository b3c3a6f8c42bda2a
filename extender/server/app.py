"""The HTTP face: one FastAPI app, in which POST /filter, /prioritize and /bind are plain routes from bytes to bytes.

Why plain: kube-scheduler waits for filter and prioritize inside its only scheduling loop, and a body names thousands of
nodes, so that no model is made of it. Rules: `dispatch` says what is answered, here is only how HTTP carries it. A call
awaits nothing but the request's body, which has a largest size and a longest time, and the answer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Final

import msgspec
from fastapi import APIRouter, FastAPI
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from extender.api.documents.views import Views
from extender.api.problems import LAST, TooLargeError, whole_body
from extender.api.routes import create_documents_app
from extender.runtime.telemetry import Telemetry
from extender.schemas.readiness import Readiness
from extender.server.dispatch import GONE, Callers, Dispatch, Reply, Serving, Supervisor, Verb, Verbs

DEFAULT_MAX_BODY_BYTES: Final = 32 * 1024 * 1024  # 500 full Nodes of 13 kB four times; 15,000 names take 1 MB
DEFAULT_BODY_TIMEOUT_S: Final = 5.0  # kube-scheduler's own default httpTimeout: no caller waits longer for what follows
_CURL: Final = b"curl/"  # A User-Agent of curl's. kube-scheduler's is its HTTP library's: `Go-http-client/1.1`
_LOOKS: Final = "netgang.looks"  # In the scope of a request at the port for people


def create_app(
    verbs: Verbs,
    views: Views,
    telemetry: Telemetry,
    *,
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES,
    body_timeout_s: float = DEFAULT_BODY_TIMEOUT_S,
    callers: Callers = Callers.SCHEDULER_AND_CURL,
    routers: Sequence[APIRouter] = (),
) -> FastAPI:
    """Build the whole HTTP service; `routers` join the documents (/v1 and pages)."""
    supervisor = Supervisor(telemetry)
    dispatch = Dispatch(verbs, telemetry, supervisor, Serving(max_body_bytes, body_timeout_s, callers))

    def readiness() -> Readiness:
        found = views.readiness()
        if not supervisor.unready():
            return found
        reasons = (*found.reasons, "an internal error happened a moment ago, the log says more")
        return msgspec.structs.replace(found, ready=False, reasons=reasons)

    return create_documents_app(
        views,
        telemetry,
        readiness=readiness,
        failed=partial(supervisor.failed, "document"),
        routes=[Route(path, _endpoint(dispatch, verb), methods=["POST"]) for path, verb in dispatch.by_path.items()],
        routers=routers,
    )


@dataclass(frozen=True, slots=True)
class ForPeople:
    """The same service, documents and readiness, for another port: every call of a verb there only looks."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, marked whatever its path is: only the router knows which ones are a verb's."""
        await self.app({**scope, _LOOKS: True}, receive, send)


def _endpoint(dispatch: Dispatch, verb: Verb) -> Callable[[Request], Awaitable[Response]]:
    """What answers each call of a verb exactly once, whatever happens."""

    async def call(request: Request) -> Response:
        began_s = perf_counter()
        body = await _read_body(dispatch, verb, request)
        reply = await _reply(dispatch, verb, body, request) if isinstance(body, bytes) else body
        dispatch.done(verb, reply, duration_s=perf_counter() - began_s)
        return Response(reply.body, media_type="application/json", headers=LAST if reply.last else None)

    return call


async def _read_body(dispatch: Dispatch, verb: Verb, request: Request) -> bytes | Reply:
    """The whole request body, or the reply to one that is too large, too slow, or broken off."""
    serving, declared = dispatch.serving, request.headers.get("content-length", "")
    try:
        if declared.isdecimal() and int(declared[:18]) > serving.max_body_bytes:  # 18 digits are beyond any limit
            raise TooLargeError
        return await whole_body(request, serving.max_body_bytes, serving.body_timeout_s)
    except TooLargeError:
        return dispatch.too_large(verb)
    except TimeoutError:
        return dispatch.too_late(verb)
    except ClientDisconnect:
        return GONE


async def _reply(dispatch: Dispatch, verb: Verb, body: bytes, request: Request) -> Reply:
    gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    scope = request.scope
    marked = scope["query_string"] == b"debug" or _LOOKS in scope
    curl = any(name == b"user-agent" and value.startswith(_CURL) for name, value in scope["headers"])
    answer = dispatch.answer(verb, body, gone, marked=marked, curl=curl)
    return answer if isinstance(answer, Reply) else await _heard(answer, request.receive, gone)


async def _heard(answer: Coroutine[Any, Any, Reply], receive: Receive, gone: asyncio.Future[None]) -> Reply:
    """The answer that takes time; `gone` is set as soon as the caller hangs up."""

    async def set_when_gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set_result(None)

    watch = asyncio.create_task(set_when_gone())
    try:
        return await answer
    finally:
        watch.cancel()
