"""The port for reports: of training jobs, POST /v1/jobs/{namespace}/{name}/metrics, and of the probe (`api.probe`).

Why a port of its own: pods of every namespace must reach it, and none of them may reach /bind or read the queue.

Rules: a pod reports for jobs of its own namespace (`api.auth`). Reports move the demands of jobs whose owners asked for
it, within their bounds, and nothing else. The body is read after its sender is known, up to a largest size and for a
longest time.
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from math import ceil
from typing import Final

from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from extender.api.auth import Reporters, TokenAuth
from extender.api.openapi import Kind, Name, Responses, answers, problem, with_schemas
from extender.api.probe import OUTCOMES, PROBE_PATH, ProbePort, add_probe
from extender.api.problems import LAST, answer_with_problems, document_response, problem_response, read_body
from extender.controllers.elastic.reports.reports import Reports
from extender.ports import Clock
from extender.schemas.jobs import Accepted

MAX_BODY_BYTES: Final = 64 * 2**10  # Several times what the 256 points take that one report may have
BODY_TIMEOUT_S: Final = 5.0
_WORDS: Final[Mapping[int, str]] = {
    # status → what is counted
    200: "accepted",
    400: "bad report",
    401: "no token",
    403: "other namespace",
    404: "unknown job",
    405: "bad report",
    408: "too slow",
    409: "step goes back",
    413: "too large",
    429: "too many",
    503: "unavailable",
}
_REFUSED: Final[Responses] = {status: problem(text) for status, text in _WORDS.items() if status != HTTPStatus.OK}


class ReportsDoor:
    """The whole port as an ASGI app: each caller is authenticated first, each outcome is counted."""

    def __init__(
        self,
        app: ASGIApp,
        reporters: Reporters,
        clock: Clock,
        *,
        count: Callable[[str], None],
        count_probe: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._auth = TokenAuth(app, reporters, clock)
        self._count, self._count_probe = count, count_probe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        status, probe = 0, scope["path"] == PROBE_PATH

        async def hear(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        await self._auth(scope, receive, hear)
        if status and probe:
            self._count_probe(OUTCOMES.get(status, "other"))
        elif status:
            self._count(_WORDS.get(status, "other"))


def create_reports_app(
    reports: Reports | None,
    *,
    acting: Callable[[], bool],
    body_timeout_s: float = BODY_TIMEOUT_S,
    probe: ProbePort | None = None,
) -> FastAPI:
    """The app behind authentication; it does not check the caller. A standby (not `acting`) takes no report.

    `reports` are those of jobs; `None`: jobs cannot report. `probe`: what takes those of the probe's agents.
    """
    app = with_schemas(FastAPI(title="netgang reports", openapi_url=None, responses=_REFUSED))
    answer_with_problems(app)
    if probe is not None:
        add_probe(app, probe, acting=acting, body_timeout_s=body_timeout_s)
    if reports is None:
        return app

    @app.post(
        "/v1/jobs/{namespace}/{name}/metrics",
        summary="Report step, loss, speed or workers of a running job",
        responses=answers(Accepted),
    )
    async def report(request: Request, namespace: Name, name: Name, kind: Kind = None) -> Response:
        advice = "; report more often, with fewer points each"
        body = await read_body(request, MAX_BODY_BYTES, body_timeout_s, advice=advice)
        if isinstance(body, Response):
            return body
        if not acting():
            said = "this replica does not lead; the Service netgang leads to the one that does"
            return problem_response(HTTPStatus.SERVICE_UNAVAILABLE, said, headers={"retry-after": "1", **LAST})
        answer = reports.take(namespace, name, body, kind=kind)
        if answer.status is HTTPStatus.OK:
            return document_response(Accepted(accepted=answer.points, step=answer.step))
        headers = {"retry-after": str(ceil(answer.retry_after_s))} if answer.retry_after_s else {}
        return problem_response(answer.status, answer.detail, headers=headers)

    return app
