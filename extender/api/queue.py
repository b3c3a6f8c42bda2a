"""The address of the queue: /v1/queue.

Rule: as for all documents, it is answered from memory, on the event loop, and changes nothing.
"""

from typing import Protocol

from fastapi import APIRouter
from starlette.responses import Response

from extender.api.openapi import answers
from extender.api.problems import document_response
from extender.api.schemas.queue import Queue
from extender.runtime.slices import in_slices
from scoring.plan.steps import Steps


class QueueSteps(Protocol):
    """What is shown of the queue."""

    def steps(self) -> Steps[Queue]:
        """The whole queue, in steps."""


def queue_router(queue: QueueSteps) -> APIRouter:
    """The route."""
    router = APIRouter(prefix="/v1", tags=["documents"])

    @router.get(
        "/queue", summary="The queue in order: state, weight, clock and rank of every gang", responses=answers(Queue)
    )
    async def whole_queue() -> Response:
        return document_response(await in_slices(queue.steps()))

    return router
