"""The documents of netgang and their addresses.

Rule: a view is asked at each request, on the event loop, and answers from memory with a record of its schema, which is
encoded once.
/docs takes Swagger's page from a public CDN; /openapi.json needs no internet.
"""

import asyncio
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Annotated, Any, Protocol, TypeAlias

from fastapi import APIRouter, FastAPI, Path, Query
from starlette.responses import Response
from starlette.types import StatelessLifespan

from extender.api.documents.network import MOST_NODES, USUAL_NODES
from extender.api.openapi import Responses, answers, problem, with_schemas
from extender.api.problems import answer_with_problems, document_response, problem_response
from extender.api.schemas.explain import Explained, ExplainedPod
from extender.api.schemas.link import Link
from extender.api.schemas.network import Network
from extender.api.schemas.plan import PlanInForce
from extender.api.schemas.readiness import Readiness
from extender.runtime.telemetry import METRICS_CONTENT_TYPE, Telemetry

_VERBS = """An extender for kube-scheduler: it starts distributed training jobs whole, in one zone, on the best network.

kube-scheduler calls `POST /filter`, `POST /prioritize` and `POST /bind` with the types of
`k8s.io/kube-scheduler/extender/v1`; these always answer 200 and say what is wrong in `Error`.
The documents below are for people."""
_METRICS_S = 1.0
_NAME = Path(min_length=1, max_length=253, pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")
_Zone: TypeAlias = Annotated[str | None, Query(max_length=253, description="Only nodes of this zone")]
_Limit: TypeAlias = Annotated[int, Query(ge=1, le=MOST_NODES, description="Most nodes between which values are given")]
_PROBLEMS = {400: "The address is not one of ours", 404: "Nothing of that name is known"}


class Views(Protocol):
    """What the service shows. Each is cheap enough for the event loop, and changes nothing."""

    def plan(self) -> PlanInForce:
        """The current plan: admitted gangs with their nodes, waiting ones with their reasons, in queue order."""

    def explain(self, namespace: str, name: str) -> Explained | ExplainedPod | None:
        """Why the gang or pod `name` is where it is; None if nothing of that name is known."""

    async def explain_in_turns(self, namespace: str, name: str) -> Explained | ExplainedPod | None:
        """The same and what would get it admitted, while other tasks run."""

    def unreadable(self, namespace: str, name: str) -> str | None:
        """What is wrong with objects of that name that cannot be read; None if there are none."""

    def network(self, *, zone: str | None = None, limit: int = USUAL_NODES) -> Network:
        """The network as the planner sees it: sources, endpoints, and values between the first nodes of a zone or all.

        The cost grows with the square of `limit`.
        """

    def link(self, source: str, target: str) -> Link | None:
        """Both directions of the link between two nodes: value, age and source; None if there is no such node."""

    def readiness(self) -> Readiness:
        """Whether this process can answer the verbs sensibly now."""


def create_documents_app(
    views: Views,
    telemetry: Telemetry,
    *,
    readiness: Callable[[], Readiness],
    routers: Sequence[APIRouter] = (),
    lifespan: StatelessLifespan[Any] | None = None,
) -> FastAPI:
    """Build the app that answers everything but the verbs; `routers` are added to it, `lifespan` runs around it."""
    mistakes: Responses = {"default": problem("A mistake in the request, or of ours")}
    app = with_schemas(
        FastAPI(title="netgang", description=_VERBS, lifespan=lifespan, redoc_url=None, responses=mistakes)
    )
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

    @router.get("/readyz", summary="Ready to be asked by kube-scheduler", responses=_ready())
    async def readyz() -> Response:
        found = readiness()
        return document_response(found, HTTPStatus.OK if found.ready else HTTPStatus.SERVICE_UNAVAILABLE)

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

    @router.get("/plan", summary="Which gangs run where, which wait for what", responses=answers(PlanInForce))
    async def plan() -> Response:
        return document_response(views.plan())

    @router.get(
        "/explain/{namespace}/{name}",
        summary="Why a gang or pod is where it is, and what would get it admitted",
        responses=answers(Explained, _PROBLEMS),
    )
    async def explain(namespace: Annotated[str, _NAME], name: Annotated[str, _NAME]) -> Response:
        document = await views.explain_in_turns(namespace, name)
        if document is None:
            why = views.unreadable(namespace, name) or f"no gang or pod {namespace}/{name} is known"
            return problem_response(HTTPStatus.NOT_FOUND, why)
        return document_response(document)

    @router.get("/network", summary="The network as the planner sees it", responses=answers(Network))
    async def network(zone: _Zone = None, limit: _Limit = USUAL_NODES) -> Response:
        return document_response(views.network(zone=zone, limit=limit))

    @router.get("/network/{source}/{target}", summary="The link between two nodes", responses=answers(Link, _PROBLEMS))
    async def link(source: Annotated[str, _NAME], target: Annotated[str, _NAME]) -> Response:
        document = views.link(source, target)
        if document is None:
            return problem_response(HTTPStatus.NOT_FOUND, f"{source} or {target} is no node that is known")
        return document_response(document)

    return router


def _ready() -> Responses:
    ready = answers(Readiness)
    return ready | {HTTPStatus.SERVICE_UNAVAILABLE.value: ready[200] | {"description": "Not ready"}}
