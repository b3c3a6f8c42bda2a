"""The documents of netgang and their addresses.

Rule: a view is asked at each request, on the event loop, and answers from memory with plain values; this module only
writes them down. Documents are written by msgspec: a plan of 5,000 nodes must not stall the loop as a model would.
/docs takes Swagger's page from a public CDN; /openapi.json needs no internet.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, Protocol, TypeAlias

import msgspec
from fastapi import APIRouter, FastAPI, Path, Query
from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import StatelessLifespan

from extender.api.documents.pairs import MOST_NODES, USUAL_NODES
from extender.api.explain_models import Explained
from extender.api.problems import PROBLEM_TYPE, Problem, answer_with_problems, problem_response
from extender.runtime.telemetry import METRICS_CONTENT_TYPE, Telemetry

Document: TypeAlias = Mapping[str, Any]
"""A JSON object in plain values; mappings, frozen dataclasses, enums and tuples inside are fine, NaN becomes null."""
Readiness: TypeAlias = tuple[bool, Sequence[str], Document]
"""Ready or not, the reasons why not (sentences), and details for people."""

_VERBS = """An extender for kube-scheduler: it starts distributed training jobs whole, in one zone, on the best network.

kube-scheduler calls `POST /filter`, `POST /prioritize` and `POST /bind` with the types of
`k8s.io/kube-scheduler/extender/v1`; these always answer 200 and say what is wrong in `Error`.
The documents below are for people."""
_METRICS_S = 1.0
_NAME = Path(min_length=1, max_length=253, pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")
_Zone: TypeAlias = Annotated[str | None, Query(max_length=253, description="Only nodes of this zone")]
_Limit: TypeAlias = Annotated[int, Query(ge=1, le=MOST_NODES, description="Most nodes between which values are given")]
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": text, "content": {PROBLEM_TYPE: {}}}
    for status, text in ((400, "The address is not one of ours"), (404, "Nothing of that name is known"))
}
_MISTAKES: dict[int | str, dict[str, Any]] = {
    "default": {"model": Problem, "description": "A mistake in the request, or of ours", "content": {PROBLEM_TYPE: {}}}
}


class Views(Protocol):
    """What the service shows. Each is cheap enough for the event loop, and changes nothing."""

    def plan(self) -> Document:
        """The current plan: admitted gangs with their nodes, waiting ones with their reasons, in queue order."""

    def explain(self, namespace: str, name: str) -> Document | None:
        """Why the gang or pod `name` is where it is; None if nothing of that name is known."""

    async def explain_in_turns(self, namespace: str, name: str) -> Document | None:
        """The same and what would let it in, while others have their turns."""

    def unreadable(self, namespace: str, name: str) -> str | None:
        """What is wrong with objects of that name that cannot be read; None if there are none."""

    def network(self, *, zone: str | None = None, limit: int = USUAL_NODES) -> Document:
        """The network as the planner sees it: sources, endpoints, and values between the first nodes of a zone or all.

        The cost grows with the square of `limit`.
        """

    def link(self, source: str, target: str) -> Document | None:
        """Both directions of the link between two nodes: value, age and source; None if there is no such node."""

    def readiness(self) -> Readiness:
        """Whether this process can answer the verbs sensibly now."""


class ReadinessDocument(BaseModel):
    """Whether kube-scheduler should be sent here, why not, and the state of the parts."""

    ready: bool
    reasons: list[str]
    detail: dict[str, Any]


def create_documents_app(
    views: Views,
    telemetry: Telemetry,
    *,
    readiness: Callable[[], Readiness],
    routers: Sequence[APIRouter] = (),
    lifespan: StatelessLifespan[Any] | None = None,
) -> FastAPI:
    """Build the app that answers everything but the verbs; `routers` are added to it, `lifespan` runs around it."""
    app = FastAPI(title="netgang", description=_VERBS, lifespan=lifespan, redoc_url=None, responses=_MISTAKES)
    answer_with_problems(app)
    app.include_router(_probes(telemetry, readiness))
    app.include_router(_documents(views))
    for router in routers:
        app.include_router(router)
    return app


def _probes(telemetry: Telemetry, readiness: Callable[[], Readiness]) -> APIRouter:
    router = APIRouter(tags=["probes"])
    exposition = _Exposition(telemetry)

    @router.get("/healthz", summary="Alive: the event loop turns")
    async def healthz() -> Response:
        return Response("ok\n", media_type="text/plain")

    @router.get("/readyz", summary="Ready to be asked by kube-scheduler", responses=_ready_responses())
    async def readyz() -> Response:
        ready, reasons, detail = readiness()
        status = HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE
        return _json({"ready": ready, "reasons": list(reasons), "detail": detail}, status)

    @router.get("/metrics", summary="Metrics in Prometheus' text format")
    async def metrics() -> Response:
        return Response(exposition.newest(), headers={"content-type": METRICS_CONTENT_TYPE})

    return router


class _Exposition:
    """The metrics as text, written at most once a second, however many ask (docs/safety.md S28)."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._text = b""
        self._written_s = -float("inf")

    def newest(self) -> bytes:
        """The text, at most `_METRICS_S` old."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._written_s >= _METRICS_S:
            self._text, self._written_s = self._telemetry.exposition(), now_s
        return self._text


def _documents(views: Views) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["documents"])

    @router.get("/plan", summary="Who runs where, who waits for what")
    async def plan() -> Response:
        return _json(views.plan())

    @router.get(
        "/explain/{namespace}/{name}",
        summary="Why a gang or pod is where it is, and what would let it in",
        responses={200: {"model": Explained}, **_PROBLEMS},
    )
    async def explain(namespace: Annotated[str, _NAME], name: Annotated[str, _NAME]) -> Response:
        document = await views.explain_in_turns(namespace, name)
        if document is None:
            why = views.unreadable(namespace, name) or f"no gang or pod {namespace}/{name} is known"
            return problem_response(HTTPStatus.NOT_FOUND, why)
        return _json(document)

    @router.get("/network", summary="The network as the planner sees it")
    async def network(zone: _Zone = None, limit: _Limit = USUAL_NODES) -> Response:
        return _json(views.network(zone=zone, limit=limit))

    @router.get("/network/{source}/{target}", summary="The link between two nodes", responses=_PROBLEMS)
    async def link(source: Annotated[str, _NAME], target: Annotated[str, _NAME]) -> Response:
        document = views.link(source, target)
        if document is None:
            return problem_response(HTTPStatus.NOT_FOUND, f"{source} or {target} is no node that is known")
        return _json(document)

    return router


def _ready_responses() -> dict[int | str, dict[str, Any]]:
    return {status: {"model": ReadinessDocument} for status in (HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE)}


def _json(document: Document, status: HTTPStatus = HTTPStatus.OK) -> Response:
    body = msgspec.json.encode(document, enc_hook=_plain)
    return Response(body, status_code=status, media_type="application/json")


def _plain(value: object) -> object:
    """Mappings that are not dicts (read-only views) are written as objects; anything else unknown is a bug."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a document holds a {type(value).__name__}")
