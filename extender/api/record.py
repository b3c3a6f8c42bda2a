"""The address of the decision log: /v1/record.

Rule: it says everything that decides of every pod and node, so it is given to callers that may read documents, at the
same ports and by the same authority; it is off unless the settings say otherwise.
"""

from http import HTTPStatus

from fastapi import APIRouter
from starlette.responses import Response

from extender.api.problems import problem_response
from extender.decision_log.recorder import Recorder


def record_router(recorder: Recorder | None) -> APIRouter:
    """The route; `None`: nothing is kept."""
    router = APIRouter(prefix="/v1", tags=["documents"])

    @router.get("/record", summary="The decision log, for `netgang replay`")
    async def record() -> Response:
        if recorder is None:
            return problem_response(HTTPStatus.NOT_FOUND, "decisions are not kept: set record.enabled to true")
        return Response(await recorder.log(), media_type="application/gzip")

    return router
