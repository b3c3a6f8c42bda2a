"""The addresses of the page: `/` and its files, /v1/page with what it shows, and the heat-map.

Rule: the page's own files hold no data and need no right; whatever shows the cluster is below /v1, where the port's
authority decides. Nothing is loaded from elsewhere, and a header has the browser refuse it (Content-Security-Policy).
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from typing import Annotated, Final, TypeAlias

import msgspec
from fastapi import APIRouter, Header, Query
from starlette.responses import Response

from extender.api.problems import problem_response
from extender.api.views import Views
from extender.web.page_sections import Sections, mesh_document, sections_of, version
from scoring.network.matrix import Metric


@dataclass(eq=False, repr=False)
class Shown:
    """What the page shows, worked out once for all that look; nothing while no page asks."""

    sections: Callable[[], Awaitable[Sections]]
    version: Callable[[], object]  # Something else than the last time when there may be news
    _body: bytes = field(default=b"{}", init=False)
    _seen: object = field(default=None, init=False)
    _again_s: float = field(default=0.0, init=False)  # Not before that, by the loop's clock
    _number: int = field(default=0, init=False)
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def look(self) -> tuple[bytes, str]:
        """All sections as JSON, at most some seconds old, and their entity tag."""
        async with self._looking:
            now_s = asyncio.get_running_loop().time()
            if now_s >= self._again_s and (version := self.version()) != self._seen:
                self._seen = version
                sections = await self.sections()
                cost_s = asyncio.get_running_loop().time() - now_s
                body = b",".join(b"%s:%s" % (msgspec.json.encode(name), text) for name, text in sections.items())
                self._number += b"{%s}" % body != self._body
                self._body = b"{%s}" % body
                self._again_s = now_s + min(max(cost_s * 25.0, 1.0), 5.0)  # pages take at most 1/25 of the time
            return self._body, f'"{self._number}"'


_TYPES: Final = {
    "html": "text/html; charset=utf-8", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml",
}  # fmt: skip
_FILES: Final = (
    "page.css", "page.js", "poll.js", "draw.js", "heat.js", "links.js", "panels.js", "explain.js", "icon.svg",
)  # fmt: skip
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


def page_router(views: Views) -> APIRouter:
    """The routes. Heat-maps are made once for all that look: of very large meshes one takes tens of milliseconds."""
    router = APIRouter(tags=["page"])
    shown = Shown(partial(sections_of, views), partial(version, views))
    made: dict[tuple[Metric, str | None], tuple[object, object, bytes | None]] = {}

    @router.get("/", include_in_schema=False)
    async def page() -> Response:
        return _file("index.html")

    @router.get("/page/{name}", include_in_schema=False)
    async def part(name: str) -> Response:
        if name not in _FILES:
            return problem_response(HTTPStatus.NOT_FOUND, f"the page has no file {name[:64]}")
        return _file(name)

    @router.get("/v1/page", summary="What the page shows, section by section")
    async def sections(if_none_match: Annotated[str | None, Header(include_in_schema=False)] = None) -> Response:
        body, tag = await shown.look()
        headers = {"etag": tag, "cache-control": "no-cache"}
        if if_none_match == tag:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(body, media_type="application/json", headers=headers)

    @router.get("/v1/page/mesh", summary="One metric as a heat-map: zone by zone, or node by node in one zone")
    async def heat_map(metric: Metric = Metric.LOSS, zone: _Zone = None) -> Response:
        snapshot = views.planner.snapshot or views.context.cache.snapshot()
        network, table, body = made.get((metric, zone), (None, None, None))
        if network is not snapshot.network or table is not snapshot.table:
            score = views.planner.policy.score
            found = await asyncio.to_thread(mesh_document, snapshot, score, metric=metric, zone=zone)
            body = None if found is None else msgspec.json.encode(found)
            while len(made) >= 8:
                del made[next(iter(made))]
            made[metric, zone] = snapshot.network, snapshot.table, body
        if body is None:
            return problem_response(HTTPStatus.NOT_FOUND, "no node is in that zone")
        return Response(body, media_type="application/json")

    return router


def _file(name: str) -> Response:
    body = (files("extender.web") / "static" / name).read_bytes()
    return Response(body, headers={"content-type": _TYPES[name.rpartition(".")[2]], **_HEADERS})
