"""The address of suppositions: POST /v1/what-if.

Rule: nothing is changed, whatever is asked. The body has a largest size and a longest time; a mistake is a 400 that
names its field; a caller that comes when too many wait gets a 429 and may come again.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final, Protocol

from fastapi import APIRouter, Request
from starlette.responses import Response

from extender.api.body import read_body
from extender.api.documents.changes import supposed_document
from extender.api.openapi import answers, takes
from extender.api.problems import document_response, problem_response
from extender.api.schemas.what_if import Supposed as SupposedDocument
from extender.api.what_if.body import read_changes
from extender.api.what_if.runner import BusyError
from scoring.what_if.changes import Change, MisfitError, WhatIf
from scoring.what_if.difference import Supposed

MOST_BYTES: Final = 256 * 1024
BODY_TIMEOUT_S: Final = 5.0
_COME_AGAIN: Final = {"retry-after": "2"}
_PROBLEMS: Final = {
    400: "A field is wrong, or a change does not fit the cluster; the detail names it",
    413: "The body is too large",
    429: "Others are being answered; come again",
}


class Supposing(Protocol):
    """The runner that answers."""

    async def suppose(self, changes: tuple[Change, ...]) -> Supposed:
        """What the changes would make of the plan. Errors: MisfitError, BusyError."""


def what_if_router(supposing: Supposing, *, now_s: Callable[[], float]) -> APIRouter:
    """The route."""
    router = APIRouter(prefix="/v1", tags=["documents"])

    @router.post(
        "/what-if",
        summary="What the plan would be if something were different; changes nothing",
        responses=answers(SupposedDocument, _PROBLEMS),
        openapi_extra=takes(WhatIf),
    )
    async def what_if(request: Request) -> Response:
        asked_s = now_s()
        body = await read_body(request, MOST_BYTES, BODY_TIMEOUT_S)
        if isinstance(body, Response):
            return body
        try:
            changes = read_changes(body)
            found = await supposing.suppose(changes)
        except MisfitError as misfit:
            return problem_response(HTTPStatus.BAD_REQUEST, str(misfit))
        except BusyError as busy:
            return problem_response(HTTPStatus.TOO_MANY_REQUESTS, str(busy), headers=_COME_AGAIN)
        return document_response(supposed_document(found, changes, now_s=asked_s))

    return router
