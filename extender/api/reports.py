"""The port for reports: of training jobs, POST /v1/jobs/{namespace}/{name}/metrics, and of the probe, POST /v1/probe.

Why a port of its own: pods of every namespace must reach it, and none of them may reach /bind or read the queue.
Any holder of an agent's token could speak for any node: so the token's user names the pod, read once for each start of
its agent, and only its `spec.nodeName` counts. Rules: reports of jobs move the demands of jobs whose owners asked for
it, within their bounds, and nothing else. The body is read after its sender is known (`api.auth`), within a size and a
time, then taken as a whole or refused.
"""

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final

import msgspec
from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from extender.api.auth import PROBE_PATH, WAY_OUT, Reporters, TokenAuth
from extender.api.openapi import Kind, Name, answers, takes, with_schemas
from extender.api.problems import LAST, answer_with_problems, document_response, problem_response, read_body
from extender.controllers.elastic.reports import Reports
from extender.errors import ApiError, ApiUnavailableError, NotFoundError
from extender.network.probe_agents import AgentPod, Agents
from extender.ports import Clock, Identity
from extender.runtime.telemetry import Telemetry
from extender.schemas import Accepted, ProbeOrders, ProbeReport

MAX_BODY_BYTES: Final = 64 * 2**10  # Several times the 256 points of a job's report
MAX_PROBE_BYTES: Final = 128 * 2**10  # Twice the most links of an agent's report, and the most memory
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


POD_NAME: Final = "authentication.kubernetes.io/pod-name"
POD_UID: Final = "authentication.kubernetes.io/pod-uid"
_ACCOUNT: Final = "system:serviceaccount:"
_MOST: Final = 16_384  # Pods remembered, about 400 bytes each
_AGAIN_S: Final = 2.0  # A pod is read at most so often, whatever its agent says


class AgentPods:
    """Pods by their uid; `get_pod` is that of the ClusterApi."""

    def __init__(self, get_pod: Callable[[str, str], Awaitable[bytes]], clock: Clock) -> None:
        self._get_pod = get_pod
        self._clock = clock
        # uid → start of its agent, when it was read, what it was
        self._known: OrderedDict[str, tuple[float, float, AgentPod | None]] = OrderedDict()

    async def find(self, caller: Identity, *, since_s: float) -> AgentPod | None:
        """The pod that a caller's token is of, as of its agent's start, if it runs. Errors: those of the API."""
        extra = {key: values[0] for key, values in caller.extra if values}
        uid, name = extra.get(POD_UID, ""), extra.get(POD_NAME, "")
        namespace = caller.username.removeprefix(_ACCOUNT).partition(":")[0]
        if not uid or not name or not caller.username.startswith(_ACCOUNT):
            return None
        now_s = self._clock.monotonic_s()
        cached = self._known.get(uid)
        if cached is not None:
            # A pod keeps its uid over a reboot of its node, and may get another address: read it again.
            began_s, read_s, pod = cached
            if (began_s == since_s and pod is not None and pod.address) or now_s - read_s < _AGAIN_S:
                self._known.move_to_end(uid)
                return pod
        pod = None
        with suppress(NotFoundError):
            read = msgspec.json.decode(await self._get_pod(namespace, name), type=dict[str, Any])
            if read["metadata"]["uid"] == uid and (node := read["spec"].get("nodeName")):
                pod = AgentPod(uid, node, read.get("status", {}).get("podIP", ""))
        self._known[uid] = since_s, now_s, pod
        self._known.move_to_end(uid)
        if len(self._known) > _MOST:
            self._known.popitem(last=False)
        return pod


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

    async def body_of(request: Request, most_bytes: int, advice: str = "") -> bytes | Response:
        body = await read_body(request, most_bytes, body_timeout_s, advice=advice)
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
        body = await body_of(request, MAX_BODY_BYTES, "; report more often, with fewer points each")
        if isinstance(body, Response):
            return body
        answer = reports.take(namespace, name, body, kind=kind)
        if answer.status is HTTPStatus.OK:
            return document_response(Accepted(accepted=answer.points, step=answer.step))
        return problem_response(answer.status, answer.detail, retry_after_s=answer.retry_after_s)

    return app


def _add_probe(app: FastAPI, port: ProbePort, body_of: Callable[[Request, int], Awaitable[bytes | Response]]) -> None:
    decoder = msgspec.json.Decoder(ProbeReport)

    @app.post(
        PROBE_PATH,
        summary="Report measured links of the node, and learn which to measure",
        responses=answers(ProbeOrders, _PROBE_REFUSALS),
        openapi_extra=takes(ProbeReport),
    )
    async def probe(request: Request) -> Response:
        body = await body_of(request, MAX_PROBE_BYTES)
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
