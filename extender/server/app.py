"""The HTTP face: POST /filter, /prioritize and /bind from bytes to bytes, and FastAPI's documents for all else.

Why the verbs stand in front: kube-scheduler waits for filter and prioritize inside its only scheduling loop; FastAPI's
and Starlette's layers cost 50 µs a call, as much as the answer (`python -m lab.bench.http`). Rules: `dispatch` says
what is answered, here is only how HTTP carries it. A call awaits nothing but the request's body, which has a largest
size and a longest time, and the answer.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from http import HTTPStatus
from time import perf_counter
from typing import Any, Final

import msgspec
from fastapi import APIRouter
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from extender.api.documents.views import Views
from extender.api.problems import TooLargeError, problem_response, whole_body
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
) -> ASGIApp:
    """Build the whole HTTP service; `routers` join the documents (/v1 and pages)."""
    supervisor = Supervisor(telemetry)
    dispatch = Dispatch(verbs, telemetry, supervisor, Serving(max_body_bytes, body_timeout_s, callers))

    def readiness() -> Readiness:
        found = views.readiness()
        if not supervisor.unready():
            return found
        reasons = (*found.reasons, "an internal error happened a moment ago, the log says more")
        return msgspec.structs.replace(found, ready=False, reasons=reasons)

    failed = partial(supervisor.failed, "document")
    return _App(dispatch, create_documents_app(views, telemetry, readiness=readiness, failed=failed, routers=routers))


class ForPeople(msgspec.Struct, frozen=True):
    """The same service, documents and readiness, for another port: every call of a verb there only looks."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, marked whatever its path is."""
        await self.app({**scope, _LOOKS: True}, receive, send)


class _App(msgspec.Struct, frozen=True):
    """Answers each call of a verb exactly once, whatever happens; passes all else on."""

    dispatch: Dispatch
    documents: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        verb = self.dispatch.by_path.get(scope["path"])
        if verb is None:
            await self.documents(scope, receive, send)
        elif scope["method"] != "POST":
            refusal = problem_response(HTTPStatus.METHOD_NOT_ALLOWED, "", headers={"allow": "POST"})
            await refusal(scope, receive, send)
        else:
            began_s = perf_counter()
            reply = await self._reply(verb, scope, receive)
            self.dispatch.done(verb, reply, duration_s=perf_counter() - began_s)
            headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(reply.body))]
            if reply.last:
                headers.append((b"connection", b"close"))
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": reply.body})

    async def _reply(self, verb: Verb, scope: Scope, receive: Receive) -> Reply:
        """The reply to a whole request, or to one whose body is too large, too slow, or broken off."""
        dispatch, declared, curl = self.dispatch, b"", False
        for name, value in scope["headers"]:
            if name == b"content-length":
                declared = value
            elif name == b"user-agent":
                curl = value.startswith(_CURL)
        try:
            if declared.isdigit() and int(declared[:18]) > dispatch.serving.max_body_bytes:  # 18 are beyond any limit
                raise TooLargeError
            body = await whole_body(receive, dispatch.serving.max_body_bytes, dispatch.serving.body_timeout_s)
        except TooLargeError:
            return dispatch.too_large(verb)
        except TimeoutError:
            return dispatch.too_late(verb)
        except ClientDisconnect:
            return GONE
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        marked = scope["query_string"] == b"debug" or _LOOKS in scope
        answer = dispatch.answer(verb, body, gone, marked=marked, curl=curl)
        if isinstance(answer, Reply):
            return answer
        return await (_heard(answer, receive, gone) if verb.holds else answer)


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
