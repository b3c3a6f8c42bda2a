"""The address of suppositions: POST /v1/what-if.

Rule: nothing is changed, whatever is asked. The body has a largest size and a longest time; a mistake is a 400 that
names its field; a caller that comes when too many wait gets a 429 and may come again.
"""

import asyncio
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any, Final, Protocol

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import Response

from extender.api.documents.changes import supposed_document
from extender.api.openapi import answers
from extender.api.problems import document_response, problem_response
from extender.api.schemas import what_if as schema
from extender.api.what_if.body import PolicyOf, WhatIfBody, typed_changes
from extender.api.what_if.runner import BusyError
from scoring.what_if.changes import Change, Misfit
from scoring.what_if.difference import Supposed

MOST_BYTES: Final = 256 * 1024
BODY_TIMEOUT_S: Final = 5.0
_COME_AGAIN_S: Final = "2"
_PROBLEMS: Final = {
    400: "A field is wrong, or a change does not fit the cluster; the detail names it",
    413: "The body is too large",
    429: "Others are being answered; come again",
}


class Supposing(Protocol):
    """The runner that answers."""

    async def suppose(self, changes: tuple[Change, ...]) -> Supposed | Misfit:
        """What the changes would make of the plan. Errors: BusyError."""


class _Limited(Request):
    """A request whose body has a largest size and a longest time."""

    async def body(self) -> bytes:
        """The body. HTTPException: it is too large, or comes too slowly."""
        if not hasattr(self, "_body"):
            declared = self.headers.get("content-length", "")
            if declared.isdigit() and int(declared) > MOST_BYTES:
                raise _too_large()
            try:
                async with asyncio.timeout(BODY_TIMEOUT_S):
                    self._body = await self._read()
            except TimeoutError:
                raise HTTPException(HTTPStatus.REQUEST_TIMEOUT, "the body came too slowly") from None
        return self._body

    async def _read(self) -> bytes:
        parts = bytearray()
        async for chunk in self.stream():
            parts += chunk
            if len(parts) > MOST_BYTES:
                raise _too_large()
        return bytes(parts)


class _LimitedRoute(APIRoute):
    """A route whose requests are `_Limited`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, given limited requests."""
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await inner(_Limited(request.scope, request.receive))

        return handle


def what_if_router(supposing: Supposing, *, policy_of: PolicyOf, now_s: Callable[[], float]) -> APIRouter:
    """The route; `policy_of` reads settings that are to be supposed."""
    router = APIRouter(prefix="/v1", tags=["documents"], route_class=_LimitedRoute)

    @router.post(
        "/what-if",
        summary="What the plan would be if something were different; changes nothing",
        responses=answers(schema.Supposed, _PROBLEMS),
    )
    async def what_if(body: WhatIfBody) -> Response:
        asked_s = now_s()
        try:
            changes = typed_changes(body, now_s=asked_s, policy_of=policy_of)
        except ValueError as error:
            return problem_response(HTTPStatus.BAD_REQUEST, str(error))
        try:
            found = await supposing.suppose(changes)
        except BusyError as busy:
            headers = {"retry-after": _COME_AGAIN_S}
            return problem_response(HTTPStatus.TOO_MANY_REQUESTS, str(busy), headers=headers)
        if isinstance(found, Misfit):
            return problem_response(HTTPStatus.BAD_REQUEST, misfit_text(found))
        return document_response(supposed_document(found, changes, now_s=asked_s))

    return router


def misfit_text(misfit: Misfit) -> str:
    """Why a change does not fit the cluster, with its field as in the body.

    >>> misfit_text(Misfit(2, "zone", "there is no node in zone 'x'"))
    "changes.2.zone: there is no node in zone 'x'"
    """
    return f"changes.{misfit.number}.{misfit.field}: {misfit.why}"


def _too_large() -> HTTPException:
    return HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {MOST_BYTES} bytes are read")
