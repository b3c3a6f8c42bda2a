"""The address of the queue: /v1/queue.

Rule: as for all documents, it is answered from memory, on the event loop, and changes nothing.
"""

from collections.abc import Awaitable, Callable

from fastapi import APIRouter
from starlette.responses import Response


def queue_router(queue: Callable[[], Awaitable[bytes]]) -> APIRouter:
    """The route; `queue` gives the document of now as JSON, and lets others have their turns meanwhile."""
    router = APIRouter(prefix="/v1", tags=["documents"])

    @router.get("/queue", summary="Whose turn it is: state, weight, clock and rank of every gang")
    async def whole_queue() -> Response:
        return Response(await queue(), media_type="application/json")

    return router
