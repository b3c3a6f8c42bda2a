"""The HTTP face as an ASGI app: POST /filter, /prioritize and /bind on the raw scope, everything else by FastAPI.

Why raw: kube-scheduler waits for filter and prioritize inside its only scheduling loop. `verb_protocol` answers most
calls without even this app; what it passes on, and what is called in-process, is answered here and in the same words.
Rules: `dispatch` says what is answered, here is only how ASGI carries it. A call awaits nothing but the request's body,
which has a largest size and a longest time, and the answer. One message has the whole body and its Content-Length, so
that the client can reuse the connection.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from http import HTTPStatus
from time import perf_counter
from typing import Any, Final

import msgspec
from fastapi import APIRouter
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from extender.api.documents.views import Views
from extender.api.problems import PROBLEM_TYPE, TooLargeError, problem_body, whole_body
from extender.api.routes import create_documents_app
from extender.runtime.telemetry import Telemetry
from extender.schemas.readiness import Readiness
from extender.server.dispatch import CURL, GONE, Callers, Dispatch, Reply, Serving, Supervisor, Verb, Verbs

DEFAULT_MAX_BODY_BYTES: Final = 32 * 1024 * 1024  # 500 full Nodes of 13 kB four times; 15,000 names take 1 MB
DEFAULT_BODY_TIMEOUT_S: Final = 5.0  # kube-scheduler's own default httpTimeout: no caller waits longer for what follows


def create_app(
    verbs: Verbs,
    views: Views,
    telemetry: Telemetry,
    *,
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES,
    body_timeout_s: float = DEFAULT_BODY_TIMEOUT_S,
    callers: Callers = Callers.SCHEDULER_AND_CURL,
    routers: Sequence[APIRouter] = (),
) -> "App":
    """Build the whole HTTP service; `routers` join FastAPI's side (/v1 and pages)."""
    supervisor = Supervisor(telemetry)

    def readiness() -> Readiness:
        found = views.readiness()
        if not supervisor.unready():
            return found
        reasons = (*found.reasons, "an internal error happened a moment ago, the log says more")
        return msgspec.structs.replace(found, ready=False, reasons=reasons)

    documents = create_documents_app(views, telemetry, readiness=readiness, routers=routers)
    return App(Dispatch(verbs, telemetry, supervisor, Serving(max_body_bytes, body_timeout_s, callers)), documents)


class App:
    """Routes the verbs, and answers every verb exactly once, whatever happens. Is an ASGIApp."""

    def __init__(self, dispatch: Dispatch, documents: ASGIApp) -> None:
        self.dispatch = dispatch
        self._documents = documents

    def for_people(self) -> "App":
        """The same service, documents and readiness, for another port: every call to it only looks."""
        return App(self.dispatch.for_people(), self._documents)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI wants it."""
        verb = self.dispatch.by_path.get(scope["path"])
        if verb is None:
            try:
                await self._documents(scope, receive, send)
            except Exception:  # noqa: BLE001  (the supervisor of documents)
                # the problem document is sent already: Starlette answers first, then raises for the server's log
                self.dispatch.supervisor.caught("document")
        elif scope["method"] == "POST":
            await self._serve_verb(verb, scope, receive, send)
        else:
            body = problem_body(HTTPStatus.METHOD_NOT_ALLOWED, f"{scope['path']} is called with POST")
            await _send(send, HTTPStatus.METHOD_NOT_ALLOWED, PROBLEM_TYPE.encode(), body, (b"allow", b"POST"))

    async def _serve_verb(self, verb: Verb, scope: Scope, receive: Receive, send: Send) -> None:
        began_s = perf_counter()
        request = Request(scope, receive)
        body = await self._read_body(verb, request)
        if isinstance(body, bytes):
            gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            marked = scope["query_string"] == b"debug"
            curl = any(agent.startswith(CURL.decode()) for agent in request.headers.getlist("user-agent"))
            answer = self.dispatch.answer(verb, body, gone, marked=marked, curl=curl)
            reply = answer if isinstance(answer, Reply) else await _heard(answer, receive, gone)
        else:
            reply = body
        if reply is not GONE:
            more = ((b"connection", b"close"),) if reply.last else ()
            await _send(send, HTTPStatus.OK, b"application/json", reply.body, *more)
        self.dispatch.done(verb, reply, duration_s=perf_counter() - began_s)

    async def _read_body(self, verb: Verb, request: Request) -> bytes | Reply:
        """The whole request body, or the reply to one that is too large, too slow, or broken off."""
        serving, declared = self.dispatch.serving, request.headers.get("content-length", "")
        try:
            if declared.isdecimal() and int(declared[:18]) > serving.max_body_bytes:  # 18 digits are beyond any limit
                raise TooLargeError
            return await whole_body(request, serving.max_body_bytes, serving.body_timeout_s)
        except TooLargeError:
            return self.dispatch.too_large(verb)
        except TimeoutError:
            return self.dispatch.too_late(verb)
        except ClientDisconnect:
            return GONE


async def _heard(answer: Coroutine[Any, Any, Reply], receive: Receive, gone: asyncio.Future[None]) -> Reply:
    async def set_when_gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set_result(None)

    watch = asyncio.create_task(set_when_gone())
    try:
        return await answer
    finally:
        watch.cancel()


async def _send(send: Send, status: HTTPStatus, content_type: bytes, body: bytes, *more: tuple[bytes, bytes]) -> None:
    headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), *more]
    await send({"type": "http.response.start", "status": status.value, "headers": headers})
    await send({"type": "http.response.body", "body": body})
