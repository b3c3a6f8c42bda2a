"""The addresses of the page: `/` and its files, /v1/page with what it shows, its stream, and the heat-map.

Rule: the page's own files hold no data and need no right; whatever shows the cluster is below /v1, where the port's
authority decides. Nothing is loaded from elsewhere, and a header has the browser refuse it (Content-Security-Policy).
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from importlib.resources import files
from typing import Annotated, Final, TypeAlias

import msgspec
from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from extender.api.documents.views import Views
from extender.api.problems import problem_response
from extender.runtime.slices import in_slices, in_timed_slices
from extender.web.link_history import LinkHistory
from extender.web.mesh import mesh_document
from extender.web.page_sections import Sections
from scoring.ids import NodeName
from scoring.network.matrix import Metric
from scoring.plan.steps import Steps

MOST_VIEWERS: Final = 50
_SOONEST_S: Final = 0.4
_LATEST_S: Final = 5.0
_SHARE: Final = 25.0
_BEAT_S: Final = 15.0  # A comment after so long without news: proxies close what is silent, and the gone are found


class FullError(Exception):
    """As many watch as may."""


@dataclass(slots=True, eq=False)
class _Viewer:
    waiting: dict[str, bytes] = field(default_factory=dict)
    news: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(eq=False, repr=False)
class Feed:
    """The news for all open pages."""

    steps: Callable[[], Steps[Sections]]
    version: Callable[[], object]  # Something else than the last time when there may be news
    _viewers: set[_Viewer] = field(default_factory=set, init=False)
    _watched: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _latest: dict[str, bytes] = field(default_factory=dict, init=False)
    _seen: object = field(default=None, init=False)
    _closed: bool = field(default=False, init=False)

    @property
    def viewers(self) -> int:
        """How many watch now."""
        return len(self._viewers)

    async def look(self) -> Sections:
        """All sections of now, for a client that does not watch."""
        return await in_slices(self.steps())

    async def watch(self) -> AsyncIterator[bytes]:
        """Server-sent events for one viewer, all sections first; ends with the process. FullError: too many watch."""
        if self._closed or len(self._viewers) >= MOST_VIEWERS:
            raise FullError
        viewer = _Viewer(dict(self._latest))
        self._viewers.add(viewer)
        self._watched.set()
        return self._events(viewer)

    async def _events(self, viewer: _Viewer) -> AsyncIterator[bytes]:
        try:
            yield b"retry: 2000\n\n"
            while not self._closed:
                waiting, viewer.waiting = viewer.waiting, {}
                for name, body in waiting.items():
                    yield b"event: %s\ndata: %s\n\n" % (name.encode(), body)
                viewer.news.clear()
                if viewer.waiting or self._closed:
                    continue
                try:
                    async with asyncio.timeout(_BEAT_S):
                        await viewer.news.wait()
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self._viewers.discard(viewer)

    async def run(self) -> None:
        """Look and send, as long as a page is open; runs until cancelled."""
        while True:
            if not self._viewers:
                self._watched.clear()
                self._latest, self._seen = {}, None  # what is old by then is sent to no page
                await self._watched.wait()
            pause_s = _SOONEST_S
            version = self.version()
            if version != self._seen:
                self._seen = version
                sections, cost_s = await in_timed_slices(self.steps())
                self._send(sections)
                pause_s = min(max(cost_s * _SHARE, _SOONEST_S), _LATEST_S)
            await asyncio.sleep(pause_s)

    def close(self) -> None:
        """Let every viewer go, for good."""
        self._closed = True
        for viewer in self._viewers:
            viewer.news.set()

    def _send(self, sections: Sections) -> None:
        changed = {name: body for name, body in sections.items() if self._latest.get(name) != body}
        self._latest.update(changed)
        for viewer in self._viewers if changed else ():
            viewer.waiting |= changed
            viewer.news.set()


PAGE: Final = "/"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_FILES: Final = (
    *("page.css", "page.js", "stream.js", "draw.js", "heat.js", "links.js", "panels.js", "nodes.js", "teams.js"),
    *("explain.js", "icon.svg"),
)
_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
_MOST_MESHES: Final = 8
_Node: TypeAlias = Annotated[str, Query(max_length=253)]
_Zone: TypeAlias = Annotated[str | None, Query(max_length=253, description="Nodes of this zone; else zone by zone")]


@dataclass(eq=False, repr=False)
class _Meshes:
    """The heat-maps of now, made once for all that look: beside very large meshes one takes tens of milliseconds."""

    views: Views
    _made: dict[tuple[Metric, str | None], tuple[object, object, bytes | None]] = field(default_factory=dict)

    async def of(self, metric: Metric, zone: str | None) -> bytes | None:
        """As JSON; None: no node is in that zone."""
        snapshot = self.views.planner.snapshot or self.views.cache.snapshot()
        network, table, body = self._made.get((metric, zone), (None, None, None))
        if network is not snapshot.network or table is not snapshot.table:
            score = self.views.planner.policy.score
            found = await asyncio.to_thread(mesh_document, snapshot, score, metric=metric, zone=zone)
            body = None if found is None else msgspec.json.encode(found)
            while len(self._made) >= _MOST_MESHES:
                del self._made[next(iter(self._made))]
            self._made[metric, zone] = snapshot.network, snapshot.table, body
        return body


def page_router(feed: Feed, views: Views, links: LinkHistory) -> APIRouter:
    """The routes."""
    router, meshes = APIRouter(tags=["page"]), _Meshes(views)

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
        body = await meshes.of(metric, zone)
        if body is None:
            return problem_response(HTTPStatus.NOT_FOUND, "no node is in that zone")
        return Response(body, media_type="application/json")

    @router.get("/v1/page/link", summary="How a link between two nodes was over the last two hours")
    async def link(source: _Node, target: _Node, metric: Metric = Metric.LOSS) -> Response:
        network = (views.planner.snapshot or views.cache.snapshot()).network
        looks = links.of(network, NodeName(source), NodeName(target), metric)
        return Response(msgspec.json.encode({"looks": looks}), media_type="application/json")

    return router


def _file(name: str) -> Response:
    suffix = name[name.rindex(".") :]
    return Response(_read(name), headers={"content-type": _TYPES[suffix], **_HEADERS})


@lru_cache(maxsize=len(_FILES) + 1)
def _read(name: str) -> bytes:
    return (files("extender.web") / "static" / name).read_bytes()
