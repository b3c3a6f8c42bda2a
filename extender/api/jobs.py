"""The addresses of jobs: /v1/jobs and /v1/jobs/{namespace}/{name}.

Rule: as for all documents, they are answered from memory, on the event loop in slices, and change nothing. Reports come
in at a port of their own (`extender.api.reports`).
"""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Protocol, TypeAlias

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from extender.api.documents.jobs import MOST_JOBS, USUAL_JOBS
from extender.api.openapi import answers
from extender.api.problems import document_response, problem_response
from extender.api.schemas import jobs as schema
from extender.runtime.slices import in_slices
from scoring.plan.steps import Steps

_PATTERN = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"
_Name: TypeAlias = Annotated[str, Path(min_length=1, max_length=253, pattern=_PATTERN)]
_Namespace: TypeAlias = Annotated[str | None, Query(max_length=253, description="Only jobs of this namespace")]
_Limit: TypeAlias = Annotated[int, Query(ge=1, le=MOST_JOBS, description="Most jobs that are shown")]
_Kind: TypeAlias = Annotated[
    str | None, Query(max_length=100, description="Kind, such as TFJob, where several jobs have one name")
]
_PROBLEMS = {400: "The address is not one of ours", 404: "No job", 409: "Several jobs of one name"}


class Jobs(Protocol):
    """What is shown of jobs."""

    def steps(self, *, namespace: str | None = None, limit: int = USUAL_JOBS) -> Steps[schema.Jobs]:
        """All jobs in short, in steps."""

    def job(self, namespace: str, name: str, *, kind: str | None = None) -> Steps[Sequence[schema.JobInFull]]:
        """Everything about the jobs of a name, nearly always one, in steps."""


def jobs_router(jobs: Jobs | None) -> APIRouter:
    """The routes; without `jobs` (elastic jobs are switched off) they say so."""
    router = APIRouter(prefix="/v1", tags=["documents"])

    @router.get(
        "/jobs",
        summary="Jobs that may be resized: workers, places, reports, demands",
        responses=answers(schema.Jobs, _PROBLEMS),
    )
    async def all_jobs(namespace: _Namespace = None, limit: _Limit = USUAL_JOBS) -> Response:
        if jobs is None:
            return _off()
        return document_response(await in_slices(jobs.steps(namespace=namespace, limit=limit)))

    @router.get(
        "/jobs/{namespace}/{name}",
        summary="One job, with the history of its changes",
        responses=answers(schema.JobInFull, _PROBLEMS),
    )
    async def one_job(namespace: _Name, name: _Name, kind: _Kind = None) -> Response:
        if jobs is None:
            return _off()
        found = await in_slices(jobs.job(namespace, name, kind=kind))
        if not found:
            said = f"no job {namespace}/{name} of a kind that netgang resizes is known"
            return problem_response(HTTPStatus.NOT_FOUND, said)
        if len(found) > 1:
            kinds = ", ".join(one.kind for one in found)
            said = f"several jobs are named {namespace}/{name}: add ?kind= one of {kinds}"
            return problem_response(HTTPStatus.CONFLICT, said)
        return document_response(found[0])

    return router


def _off() -> Response:
    return problem_response(HTTPStatus.NOT_FOUND, "elastic jobs are switched off: setting elastic.enabled")
