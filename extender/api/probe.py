"""POST /v1/probe: an agent of the probe reports its links and is answered which to measure, at the port of reports.

Rules: the token's service account is that of the agents, the token is bound to a pod, and the report is about the node
which that pod runs on. The body is read up to a largest size, then decoded as a whole or refused; nothing of a refused
report is kept. A standby takes none.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from math import ceil
from typing import Final

import msgspec
from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from extender.api.openapi import answers, takes
from extender.api.problems import LAST, document_response, problem_response, read_body
from extender.errors import ApiError, ApiUnavailableError
from extender.network.probe.agent_pods import AgentPods
from extender.network.probe.agents import Agents
from extender.ports import Identity
from extender.schemas.probe import ProbeOrders, ProbeReport

PROBE_PATH: Final = "/v1/probe"
MAX_BODY_BYTES: Final = 64 * 2**10  # Twice what the most links take
BODY_TIMEOUT_S: Final = 5.0
OUTCOMES: Final[Mapping[int, str]] = {
    # status → what is counted
    200: "accepted",
    400: "bad report",
    401: "no token",
    403: "other node",
    405: "bad report",
    408: "too slow",
    409: "replayed",
    413: "too large",
    429: "too many",
    503: "unavailable",
}
WAY_OUT: Final = (
    "an agent reports for the node of its own pod, with the token of the service account in setting "
    "probe.service_account that is bound to this pod"
)
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_log = logging.getLogger("netgang.probe")


class _Direct:
    """Middleware that calls the handler without FastAPI's routing, a third of a report's CPU: agents report often."""

    def __init__(self, app: ASGIApp, handle: Callable[[Request], Awaitable[Response]]) -> None:
        self._app, self._handle = app, handle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == PROBE_PATH and scope["method"] == "POST":
            response = await self._handle(Request(scope, receive))
            await response(scope, receive, send)
        else:
            await self._app(scope, receive, send)


@dataclass(frozen=True, slots=True)
class ProbePort:
    """What takes reports of the probe's agents."""

    agents: Agents
    pods: AgentPods
    account: str  # User name of the agents' service account


def add_probe(app: FastAPI, port: ProbePort, *, acting: Callable[[], bool], body_timeout_s: float) -> None:
    """Add the address to the app of the port for reports, which checks the token before."""
    decoder = msgspec.json.Decoder(ProbeReport)

    @app.post(
        PROBE_PATH,
        summary="Report measured links of the node, and learn which to measure",
        responses=answers(ProbeOrders, {status: text for status, text in OUTCOMES.items() if status != HTTPStatus.OK}),
        openapi_extra=takes(ProbeReport),
    )
    async def probe(request: Request) -> Response:
        body = await read_body(request, MAX_BODY_BYTES, body_timeout_s)
        if isinstance(body, Response):
            return body
        if not acting():
            said = "this replica does not lead; the Service netgang leads to the one that does"
            return problem_response(HTTPStatus.SERVICE_UNAVAILABLE, said, headers={"retry-after": "1", **LAST})
        try:
            report = decoder.decode(body)
        except _UNREADABLE as error:
            return problem_response(HTTPStatus.BAD_REQUEST, f"body: {error}")
        caller: Identity = request.scope["user"]
        try:
            pod = await port.pods.find(caller, since_s=report.since_s)
        except (ApiError, ApiUnavailableError) as error:
            _log.warning("cannot read the pod of a probe's agent: %s", error)
            return problem_response(HTTPStatus.SERVICE_UNAVAILABLE, "the agent's pod cannot be read now")
        if pod is None:
            return problem_response(HTTPStatus.FORBIDDEN, WAY_OUT)
        answer = port.agents.take(report, pod)
        if isinstance(answer, ProbeOrders):
            return document_response(answer)
        headers = {"retry-after": str(ceil(answer.retry_after_s))} if answer.retry_after_s else {}
        return problem_response(answer.status, answer.detail, headers=headers)

    app.add_middleware(_Direct, handle=probe)
