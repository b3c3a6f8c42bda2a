"""Problem documents (RFC 9457): how everything except the three verbs says what went wrong.

Rule: a caller's mistake is 4xx and says what to change; one of ours is 503 with a constant text: it may try again.
"""

import asyncio
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from http import HTTPStatus
from math import ceil
from typing import Final

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from extender.errors import BadRequestError
from extender.schemas import Problem

PROBLEM_TYPE: Final = "application/problem+json"
LAST: Final = {"connection": "close"}  # The rest of the body is not read, so what follows on its connection is neither
PROBES: Final = frozenset({"/healthz", "/readyz", "/metrics"})  # They name no job, and asking changes nothing


def document_response(document: msgspec.Struct, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """A document as a response."""
    return Response(msgspec.json.encode(document), status_code=status, media_type="application/json")


def problem_response(
    status: HTTPStatus, detail: str, *, retry_after_s: float | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """A problem document as a response."""
    body = msgspec.json.encode(Problem(title=status.phrase, status=status.value, detail=detail))
    again = {"retry-after": str(ceil(retry_after_s))} if retry_after_s else {}
    return Response(body, status_code=status, media_type=PROBLEM_TYPE, headers={**(headers or {}), **again})


async def read_body(request: Request, most_bytes: int, timeout_s: float, *, advice: str = "") -> bytes | Response:
    """The whole body, or what is answered to one that is too large (with `advice`) or does not come."""
    body = bytearray()
    status, detail = HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"larger than {most_bytes} bytes{advice}"
    try:
        async with asyncio.timeout(timeout_s):
            async for piece in request.stream():
                body += piece
                if len(body) > most_bytes:
                    break
            else:
                return bytes(body)
    except TimeoutError:
        status, detail = HTTPStatus.REQUEST_TIMEOUT, f"did not arrive within {timeout_s:g} s"
    except ClientDisconnect:
        status, detail = HTTPStatus.BAD_REQUEST, "broken off"
    return problem_response(status, f"body: {detail}", headers=LAST)


def only(app: ASGIApp, paths: AbstractSet[str], *, elsewhere: str) -> ASGIApp:
    """Passes on requests to these paths alone: what is behind certificates must not be reached by other ports."""

    async def pass_on(scope: Scope, receive: Receive, send: Send) -> None:
        listed = scope["path"] in paths
        await (app if listed else problem_response(HTTPStatus.NOT_FOUND, elsewhere))(scope, receive, send)

    return pass_on


def answer_with_problems(app: FastAPI, *, failed: Callable[[], None] = lambda: None) -> None:
    """Make `app` answer every error with a problem document; `failed` hears of one of ours, which the server logs."""

    async def answer_ours(_request: Request, _error: Exception) -> Response:
        failed()
        return problem_response(HTTPStatus.SERVICE_UNAVAILABLE, "internal error; the log says more")

    async def answer_theirs(_request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            status = HTTPStatus(error.status_code)
            detail = "" if error.detail == status.phrase else str(error.detail)
            return problem_response(status, detail, headers=error.headers)
        wrong = str(error)
        if isinstance(error, RequestValidationError):
            wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        return problem_response(HTTPStatus.BAD_REQUEST, wrong)

    for kind in (HTTPException, RequestValidationError, BadRequestError):
        app.add_exception_handler(kind, answer_theirs)
    app.add_exception_handler(Exception, answer_ours)
