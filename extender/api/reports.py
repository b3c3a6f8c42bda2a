"""The port for reports: of training jobs, POST /v1/jobs/{namespace}/{name}/metrics, and of the probe (`api.probe`).

Why a port of its own: pods of every namespace must reach it, and none of them may reach /bind or read the queue.

Rules: a pod reports for jobs of its own namespace, which its token's service account names. Reports move the demands of
jobs whose owners asked for it, within their bounds, and nothing else. The shared secret stands for every namespace; it
is read when a caller shows an unknown token, so a new one counts at once and an old one while answers are remembered.
The body is read after its sender is known, up to a largest size and for a longest time.
"""

import hmac
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from math import ceil
from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from extender.api.auth import AuthLimits, TokenAuth
from extender.api.openapi import Kind, Name, Responses, answers, problem, with_schemas
from extender.api.probe import OUTCOMES, PROBE_PATH, WAY_OUT, ProbePort, add_probe
from extender.api.problems import LAST, answer_with_problems, document_response, problem_response, read_body
from extender.controllers.elastic.reports.reports import Reports
from extender.ports import Clock, Identity, Reviews
from extender.schemas.jobs import Accepted

SHORTEST_SECRET: Final = 16
_ACCOUNT: Final = "system:serviceaccount:"
_WITH_SECRET: Final = Identity("netgang:shared-secret")
MAX_BODY_BYTES: Final = 64 * 2**10  # Several times what the 256 points take that one report may have
BODY_TIMEOUT_S: Final = 5.0
_REMEMBERED: Final = 16_384  # Answers, two for each caller: more than there are jobs and agents whose reports are kept
_AGENTS_YES_S: Final = 300.0  # With agents on each node: 1,000 of them cost three TokenReviews a second, not 17
_WAY_OUT: Final = (
    "a service account reports for jobs of its own namespace alone, and people for none: let a pod of the job's "
    "namespace report with its own token, or show the secret of netgang's setting reports.secret_file"
)
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

_log = logging.getLogger("netgang.reports")


@dataclass(frozen=True, slots=True)
class Reporters:
    """The right to report, as the Reviews port: `may` is about the namespace in the path, and sends no request."""

    reviews: Reviews | None  # Knows service accounts; `None`: their tokens are not accepted
    secret_file: Path | None
    audiences: tuple[str, ...] = ()  # What a token must be for; empty: for the API server
    agents: str | None = None  # User name of the probe's service account; `None`: the probe is off

    async def identity(self, token: str, *, audiences: Sequence[str] = ()) -> Identity | None:
        """Whose token it is; None: no account's, or not for us. Errors: ApiError, ApiUnavailableError."""
        secret = self._secret()
        if secret and hmac.compare_digest(token.encode(), secret):
            return _WITH_SECRET
        if self.reviews is None:
            return None
        return await self.reviews.identity(token, audiences=audiences or self.audiences)

    async def may(self, caller: Identity, verb: str, path: str) -> bool:
        """Whether `caller` is the shared secret's owner, or a service account of the namespace in `path`.

        At the probe's address only its agents' account.
        """
        if path == PROBE_PATH:
            return caller.username == self.agents
        if caller is _WITH_SECRET:
            return True
        namespace, _, name = caller.username.removeprefix(_ACCOUNT).partition(":")
        account = caller.username.startswith(_ACCOUNT) and bool(namespace) and bool(name)
        return account and path.startswith(f"/v1/jobs/{namespace}/")

    async def may_see(self, caller: Identity, namespace: str) -> bool:
        """No: reports are written here, and nothing is read."""
        return False

    def _secret(self) -> bytes:
        """The secret of now; empty: there is none that can be used, which is logged, and no token is equal to it."""
        if self.secret_file is None:
            return b""
        try:
            secret = self.secret_file.read_bytes().strip()
        except OSError as error:
            _log.warning("reports.secret_file %s cannot be read: %s", self.secret_file, error.strerror)
            return b""
        if len(secret) < SHORTEST_SECRET:
            _log.warning("reports.secret_file %s: shorter than %d bytes", self.secret_file, SHORTEST_SECRET)
            return b""
        return secret


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
        limits = AuthLimits(remembered_max=_REMEMBERED)
        if reporters.agents is not None:
            limits = replace(limits, yes_s=_AGENTS_YES_S)
        self._auth = TokenAuth(app, reporters, clock, limits)
        self._count, self._count_probe = count, count_probe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; a report for another namespace or node is refused in words of this port."""
        status, probe = 0, scope["path"] == PROBE_PATH

        async def hear(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            if status != HTTPStatus.FORBIDDEN:
                await send(message)

        await self._auth(scope, receive, hear)
        if status == HTTPStatus.FORBIDDEN:
            way_out = WAY_OUT if probe else _WAY_OUT
            await problem_response(HTTPStatus.FORBIDDEN, way_out, headers=LAST)(scope, receive, send)
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
