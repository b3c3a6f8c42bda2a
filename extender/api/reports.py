"""The port for reports: of training jobs, POST /v1/jobs/{namespace}/{name}/metrics, and of the probe, POST /v1/probe.

Why a port of its own: pods of every namespace must reach it, and none of them may reach /bind or read the queue.
Rules: reports of jobs move the demands of jobs whose owners asked for it, within their bounds, and nothing else. The
body is read after its sender is known (`api.auth`), within a size and a time, then taken as a whole or refused.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final

import msgspec
from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from extender.api.auth import PROBE_PATH, WAY_OUT, Reporters, TokenAuth
from extender.api.openapi import Kind, Name, answers, takes, with_schemas
from extender.api.problems import LAST, answer_with_problems, document_response, problem_response, read_body
from extender.controllers.elastic.reports import Reports
from extender.errors import ApiError, ApiUnavailableError
from extender.network.probe_agents import AgentPods, Agents
from extender.ports import Clock
from extender.runtime.telemetry import Telemetry
from extender.schemas import Accepted, ProbeOrders, ProbeReport

MAX_BODY_BYTES: Final = 64 * 2**10  # Several times the 256 points of a report, twice the most links of an agent's
_REFUSALS: Final[Mapping[int, str]] = {  # status → what is counted
    400: "bad report", 401: "no token", 403: "other namespace", 404: "unknown job", 405: "bad report", 408: "too slow",
    409: "step goes back", 413: "too large", 429: "too many", 503: "unavailable",
}  # fmt: skip
_PROBE_REFUSALS: Final = {status: word for status, word in _REFUSALS.items() if status != 404} | {
    403: "other node",
    409: "replayed",
}
_log = logging.getLogger("netgang.probe")


def reports_door(app: ASGIApp, reporters: Reporters, clock: Clock, telemetry: Telemetry) -> ASGIApp:
    """The whole port: each caller is authenticated first, each outcome is counted."""
    auth = TokenAuth(app, reporters, clock)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        status = 0
        count, refusals = telemetry.reported, _REFUSALS
        if scope["path"] == PROBE_PATH:
            count, refusals = telemetry.probe_reported, _PROBE_REFUSALS

        async def hear(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        await auth(scope, receive, hear)
        if status:
            count("accepted" if status == HTTPStatus.OK else refusals.get(status, "other"))

    return answer


class ProbePort(msgspec.Struct, frozen=True):
    """What takes reports of the probe's agents."""

    agents: Agents
    pods: AgentPods
    account: str  # User name of the agents' service account


def create_reports_app(
    reports: Reports | None,  # Of jobs; `None`: they cannot report
    *,
    acting: Callable[[], bool],
    body_timeout_s: float = 5.0,
    probe: ProbePort | None = None,
) -> FastAPI:
    """The app behind authentication, which does not check the caller; a standby (not `acting`) takes no report."""
    app = with_schemas(FastAPI(title="netgang reports", openapi_url=None))
    answer_with_problems(app)

    async def body_of(request: Request, advice: str = "") -> bytes | Response:
        body = await read_body(request, MAX_BODY_BYTES, body_timeout_s, advice=advice)
        if isinstance(body, bytes) and not acting():
            why = "this replica does not lead; the Service netgang leads to the one that does"
            return problem_response(HTTPStatus.SERVICE_UNAVAILABLE, why, retry_after_s=1.0, headers=LAST)
        return body

    if probe is not None:
        _add_probe(app, probe, body_of)
    if reports is None:
        return app

    @app.post(
        "/v1/jobs/{namespace}/{name}/metrics",
        summary="Report step, loss, speed or workers of a running job",
        responses=answers(Accepted, _REFUSALS),
    )
    async def report(request: Request, namespace: Name, name: Name, kind: Kind = None) -> Response:
        body = await body_of(request, "; report more often, with fewer points each")
        if isinstance(body, Response):
            return body
        answer = reports.take(namespace, name, body, kind=kind)
        if answer.status is HTTPStatus.OK:
            return document_response(Accepted(accepted=answer.points, step=answer.step))
        return problem_response(answer.status, answer.detail, retry_after_s=answer.retry_after_s)

    return app


def _add_probe(app: FastAPI, port: ProbePort, body_of: Callable[[Request], Awaitable[bytes | Response]]) -> None:
    decoder = msgspec.json.Decoder(ProbeReport)

    @app.post(
        PROBE_PATH,
        summary="Report measured links of the node, and learn which to measure",
        responses=answers(ProbeOrders, _PROBE_REFUSALS),
        openapi_extra=takes(ProbeReport),
    )
    async def probe(request: Request) -> Response:
        body = await body_of(request)
        if isinstance(body, Response):
            return body
        try:
            report = decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return problem_response(HTTPStatus.BAD_REQUEST, f"body: {error}")
        try:
            pod = await port.pods.find(request.scope["user"], since_s=report.since_s)
        except (ApiError, ApiUnavailableError) as error:
            _log.warning("cannot read the pod of a probe's agent: %s", error)
            return problem_response(HTTPStatus.SERVICE_UNAVAILABLE, "the agent's pod cannot be read now")
        if pod is None:
            return problem_response(HTTPStatus.FORBIDDEN, WAY_OUT)
        answer = port.agents.take(report, pod)
        if isinstance(answer, ProbeOrders):
            return document_response(answer)
        return problem_response(answer.status, answer.detail, retry_after_s=answer.retry_after_s)

    def direct(rest: ASGIApp) -> ASGIApp:
        """Without FastAPI's routing, a third of a report's CPU: agents report often."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            ours = scope["type"] == "http" and scope["path"] == PROBE_PATH and scope["method"] == "POST"
            await (await probe(Request(scope, receive)) if ours else rest)(scope, receive, send)

        return answer

    app.add_middleware(direct)
