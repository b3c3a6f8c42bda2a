"""The app that answers at a port, and the documents in it; verbs, page and reports of jobs have modules of their own.

Rules: a view answers from memory, in slices where it is long, and changes nothing, /v1/what-if included. /v1/record
says everything that decides of every pod and node; it has the same callers as all documents, and is off unless the
settings say otherwise. /docs has Swagger's page from a wheel: a cluster without internet shows it too.
"""

import asyncio
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Annotated, Final, TypeAlias

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi_offline import FastAPIOffline
from starlette.responses import Response

from extender.api.network import MOST_NODES, USUAL_NODES
from extender.api.openapi import GangName, Kind, Name, Responses, answers, problem, takes, with_schemas
from extender.api.problems import answer_with_problems, document_response, problem_response, read_body
from extender.api.views import MOST_JOBS, USUAL_JOBS, JobsView, Views
from extender.api.what_if import BusyError, read_what_if
from extender.runtime.telemetry import METRICS_CONTENT_TYPE, Telemetry
from extender.schemas import JobInFull, JobList, LinkInFull, Network, Readiness
from scoring.records import Explained, PlanInForce, Queue, Supposed
from scoring.what_if import MisfitError, WhatIf

_VERBS = """An extender for kube-scheduler: it starts distributed training jobs whole, in one zone, on the best network.

kube-scheduler calls `POST /filter`, `POST /prioritize` and `POST /bind` with the types of
`k8s.io/kube-scheduler/extender/v1`; these always answer 200 and say what is wrong in `Error`.
The documents below are for people."""
MOST_BYTES: Final = 256 * 1024
_Zone: TypeAlias = Annotated[str | None, Query(max_length=253, description="Only nodes of this zone")]
_Limit: TypeAlias = Annotated[int, Query(ge=1, le=MOST_NODES, description="Most nodes between which values are given")]
_Namespace: TypeAlias = Annotated[str | None, Query(max_length=253, description="Only jobs of this namespace")]
_Jobs: TypeAlias = Annotated[int, Query(ge=1, le=MOST_JOBS, description="Most jobs that are shown")]
_NO_JOBS: Final = "elastic jobs are switched off: setting elastic.enabled"
_PROBLEMS = {400: "The address is not one of ours", 404: "Nothing of that name is known"}
_WHAT_IF_PROBLEMS = {
    400: "A field is wrong, or something does not fit the cluster; the detail names it",
    413: "The body is too large",
    429: "Others are being answered; come again",
}
_JOB_PROBLEMS = {400: "The address is not one of ours", 404: "No job", 409: "Several jobs of one name"}


def create_documents_app(
    views: Views,
    telemetry: Telemetry,
    *,
    readiness: Callable[[], Readiness],
    failed: Callable[[], None],
    routers: Sequence[APIRouter] = (),
) -> FastAPI:
    """Build the app: the documents, and `routers`. `failed` hears of each error of ours."""
    mistakes: Responses = {"default": problem("A mistake in the request, or of ours")}
    quiet = {"tracing": False, "metrics": False, "logs": False}  # else each call looks for exporters
    offline = FastAPIOffline(
        title="netgang", description=_VERBS, redoc_url=None, responses=mistakes, redirect_slashes=False, telemetry=quiet
    )
    app = with_schemas(offline)
    answer_with_problems(app, failed=failed)
    for router in (_probes(telemetry, readiness), _documents(views), _jobs(views.jobs), *routers):
        app.include_router(router)
    return app


def _probes(telemetry: Telemetry, readiness: Callable[[], Readiness]) -> APIRouter:
    router = APIRouter(tags=["probes"])
    text, written_s, ready = b"", -float("inf"), answers(Readiness)
    ready[HTTPStatus.SERVICE_UNAVAILABLE.value] = ready[200] | {"description": "Not ready"}

    @router.get("/healthz", summary="Alive: the event loop turns")
    async def healthz() -> Response:
        return Response("ok\n", media_type="text/plain")

    @router.get("/readyz", summary="Ready to be asked by kube-scheduler", responses=ready)
    async def readyz() -> Response:
        answer = readiness()
        return document_response(answer, HTTPStatus.OK if answer.ready else HTTPStatus.SERVICE_UNAVAILABLE)

    @router.get("/metrics", summary="Metrics in Prometheus' text format")
    async def metrics() -> Response:
        nonlocal text, written_s
        now_s = asyncio.get_running_loop().time()
        if now_s - written_s >= 1.0:  # not more often, however many ask (docs/safety.md S28)
            text, written_s = telemetry.exposition(), now_s
        return Response(text, headers={"content-type": METRICS_CONTENT_TYPE})

    return router


def _documents(views: Views) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["documents"])

    @router.get("/plan", summary="Which gangs run where, which wait for what", responses=answers(PlanInForce))
    async def plan() -> Response:
        return document_response(views.plan())

    @router.get(
        "/explain/{namespace}/{name:path}",
        summary="Why a gang, or that of a pod or job, is where it is",
        responses=answers(Explained, _PROBLEMS),
    )
    async def explain(namespace: Name, name: GangName) -> Response:
        if isinstance(document := await views.explain(namespace, name), str):
            return problem_response(HTTPStatus.NOT_FOUND, document)
        return document_response(document)

    @router.get("/network", summary="The network as the planner sees it", responses=answers(Network))
    async def network(zone: _Zone = None, limit: _Limit = USUAL_NODES) -> Response:
        return document_response(views.network(zone=zone, limit=limit))

    @router.get(
        "/network/{source}/{target}", summary="The link between two nodes", responses=answers(LinkInFull, _PROBLEMS)
    )
    async def link(source: Name, target: Name) -> Response:
        if isinstance(document := await views.link(source, target), str):
            return problem_response(HTTPStatus.NOT_FOUND, document)
        return document_response(document)

    in_order = "The queue in order: state, weight, clock and rank of every gang"

    @router.get("/queue", summary=in_order, responses=answers(Queue))
    async def whole_queue() -> Response:
        return document_response(await views.queue())

    @router.post(
        "/what-if",
        summary="What the plan would be if something were different; changes nothing",
        responses=answers(Supposed, _WHAT_IF_PROBLEMS),
        openapi_extra=takes(WhatIf),
    )
    async def what_if(request: Request) -> Response:
        body = await read_body(request, MOST_BYTES, 5.0)
        if isinstance(body, Response):
            return body
        try:
            supposed = await views.what_ifs.suppose(read_what_if(body))
        except MisfitError as misfit:
            return problem_response(HTTPStatus.BAD_REQUEST, str(misfit))
        except BusyError as busy:
            return problem_response(HTTPStatus.TOO_MANY_REQUESTS, str(busy), retry_after_s=2.0)
        return document_response(supposed)

    @router.get("/record", summary="The last decisions, for `netgang plan`")
    async def record() -> Response:
        if views.recorder is None:
            return problem_response(HTTPStatus.NOT_FOUND, "decisions are not kept: set record.enabled to true")
        return Response(await views.recorder.log(), media_type="application/gzip")

    return router


def _jobs(jobs: JobsView | None) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["documents"])

    @router.get(
        "/jobs",
        summary="Jobs that may be resized: workers, places, reports, demands",
        responses=answers(JobList, _JOB_PROBLEMS),
    )
    async def all_jobs(namespace: _Namespace = None, limit: _Jobs = USUAL_JOBS) -> Response:
        if jobs is None:
            return problem_response(HTTPStatus.NOT_FOUND, _NO_JOBS)
        return document_response(await jobs.listed(namespace=namespace, limit=limit))

    @router.get(
        "/jobs/{namespace}/{name}",
        summary="One job, with the history of its changes",
        responses=answers(JobInFull, _JOB_PROBLEMS),
    )
    async def one_job(namespace: Name, name: Name, kind: Kind = None) -> Response:
        if jobs is None:
            return problem_response(HTTPStatus.NOT_FOUND, _NO_JOBS)
        matches = await jobs.job(namespace, name, kind=kind)
        if len(matches) == 1:
            return document_response(matches[0])
        if not matches:
            why = f"no job {namespace}/{name} of a kind that netgang resizes is known"
            return problem_response(HTTPStatus.NOT_FOUND, why)
        why = f"several jobs are named {namespace}/{name}: add ?kind= one of {', '.join(job.kind for job in matches)}"
        return problem_response(HTTPStatus.CONFLICT, why)

    return router
