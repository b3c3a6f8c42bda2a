"""The addresses of the page: `/` and its files, /v1/page with what it shows, its stream, and the heat-map.

Rule: the page's own files hold no data and need no right; whatever shows the cluster is below /v1, where the port's
authority decides. Nothing is loaded from elsewhere, and a header has the browser refuse it (Content-Security-Policy).
"""

from collections.abc import AsyncIterator
from functools import lru_cache
from http import HTTPStatus
from importlib.resources import files
from typing import Annotated, Final, TypeAlias

import msgspec
from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from extender.api.documents.views import Views
from extender.api.problems import problem_response
from extender.web.feed import Feed, FullError
from extender.web.mesh import mesh_document
from scoring.network.matrix import Metric

PAGE: Final = "/"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_FILES: Final = ("page.css", "page.js", "stream.js", "draw.js", "heat.js", "panels.js", "explain.js", "icon.svg")
ADDRESSES: Final = frozenset({PAGE, *(f"/page/{name}" for name in _FILES)})
"""What any client may fetch, since there is nothing of the cluster in it."""
_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
_Zone: TypeAlias = Annotated[str | None, Query(max_length=253, description="Nodes of this zone; else zone by zone")]


def page_router(feed: Feed, views: Views) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["page"])

    @router.get(PAGE, include_in_schema=False)
    async def page() -> Response:
        return _file("index.html")

    @router.get("/page/{name}", include_in_schema=False)
    async def part(name: str) -> Response:
        if name not in _FILES:
            return problem_response(HTTPStatus.NOT_FOUND, f"the page has no file {name[:64]}")
        return _file(name)

    @router.get("/v1/page", summary="What the page shows, section by section")
    async def sections() -> Response:
        made = await feed.look()
        body = b",".join(b"%s:%s" % (msgspec.json.encode(name), text) for name, text in made.items())
        return Response(b"{%s}" % body, media_type="application/json")

    @router.get("/v1/page/stream", summary="The same as server-sent events, a section whenever it changes")
    async def stream() -> Response:
        try:
            events: AsyncIterator[bytes] = await feed.watch()
        except FullError:
            return problem_response(HTTPStatus.SERVICE_UNAVAILABLE, "as many pages are open as may be; close one")
        return StreamingResponse(events, media_type="text/event-stream", headers={"cache-control": "no-store"})

    @router.get("/v1/page/mesh", summary="One metric as a heat-map: zone by zone, or node by node in one zone")
    async def heat_map(metric: Metric = Metric.LOSS, zone: _Zone = None) -> Response:
        snapshot = views.planner.snapshot or views.cache.snapshot()
        made = mesh_document(snapshot, views.planner.policy.score, metric=metric, zone=zone)
        if made is None:
            return problem_response(HTTPStatus.NOT_FOUND, "no node is in that zone")
        return Response(msgspec.json.encode(made), media_type="application/json")

    return router


def _file(name: str) -> Response:
    suffix = name[name.rindex(".") :]
    return Response(_read(name), headers={"content-type": _TYPES[suffix], **_HEADERS})


@lru_cache(maxsize=len(_FILES) + 1)
def _read(name: str) -> bytes:
    return (files("extender.web") / "static" / name).read_bytes()
