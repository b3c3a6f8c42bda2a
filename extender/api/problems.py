"""Problem documents (RFC 9457): how everything except the three verbs says what went wrong.

Rule: a caller's mistake is 4xx and says what to change; a mistake of ours is 503 with a constant text (the log has the
rest), because a caller may well try again.
"""

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from extender.api.schemas.record import Problem, Record
from extender.errors import BadRequestError

PROBLEM_TYPE = "application/problem+json"


def document_response(document: Record, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """A document as a response."""
    return Response(msgspec.json.encode(document), status_code=status, media_type="application/json")


def problem_body(status: HTTPStatus, detail: str) -> bytes:
    """Write a problem document.

    >>> problem_body(HTTPStatus.NOT_FOUND, "no such gang")
    b'{"type":"about:blank","title":"Not Found","status":404,"detail":"no such gang"}'
    """
    return msgspec.json.encode(Problem(title=status.phrase, status=status.value, detail=detail))


def problem_response(status: HTTPStatus, detail: str, *, headers: Mapping[str, str] | None = None) -> Response:
    """The same as a response."""
    return Response(
        problem_body(status, detail), status_code=status, media_type=PROBLEM_TYPE, headers=dict(headers or {})
    )


def answer_with_problems(app: FastAPI) -> None:
    """Make `app` answer every error with a problem document."""
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid_parameters)
    app.add_exception_handler(BadRequestError, _bad_request)
    app.add_exception_handler(Exception, _internal_error)


async def _http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    detail = "" if error.detail == status.phrase else str(error.detail)
    return problem_response(status, detail, headers=error.headers)


async def _invalid_parameters(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
    return problem_response(HTTPStatus.BAD_REQUEST, wrong)


async def _bad_request(_request: Request, error: Exception) -> Response:
    return problem_response(HTTPStatus.BAD_REQUEST, str(error))


async def _internal_error(_request: Request, _error: Exception) -> Response:
    return problem_response(HTTPStatus.SERVICE_UNAVAILABLE, "internal error; the log says more")
