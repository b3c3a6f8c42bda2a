"""Who may report: a service account, by its token (TokenReview), which every pod has already.

Rules:
- A pod reports for jobs of its token's namespace; an agent of the probe at the probe's address alone.
- What cannot be checked now is refused with 503, never let through.
- An answer is remembered for a short time, a yes longer than a no; a token only as its SHA-256. Unknown tokens have
  a memory of their own, so that they cannot push out what is known of others.
- Only so many questions are asked at a time, and so many callers wait for theirs. Each address may cause a bounded
  number that are answered no (docs/safety.md S28); what was answered yes once is asked all the same, so that other
  clients at the same address do not keep a caller out.
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, Generic, TypeVar

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from extender.api.problems import LAST, problem_response
from extender.errors import ApiError, ApiUnavailableError
from extender.ports import Clock, Identity, Reviews

PROBE_PATH: Final = "/v1/probe"
WAY_OUT: Final = (
    "an agent reports for the node of its own pod, with the token of the service account in setting "
    "probe.service_account that is bound to this pod"
)
IN_HAND: Final = 10.0  # Questions of an address that has not asked for long
REFILL_S: Final = 5.0  # Seconds for one more
_NAMESPACE_WAY_OUT: Final = (
    "a service account reports for jobs of its own namespace alone, and people for none: let a pod of the job's "
    "namespace report with its own token"
)

_log = logging.getLogger("netgang.reports")
_Value = TypeVar("_Value")


class Reporters(msgspec.Struct, frozen=True):
    """Whose tokens count, and for what."""

    reviews: Reviews
    audiences: tuple[str, ...] = ()  # What a token must be for; empty: for the API server
    agents: str | None = None  # User name of the probe's service account; `None`: the probe is off

    def may(self, caller: Identity, path: str) -> bool:
        """Whether `caller` is a service account of the namespace in `path`; at the probe's address, its agents' one."""
        if path == PROBE_PATH:
            return caller.username == self.agents
        match caller.username.split(":", 3):
            case ["system", "serviceaccount", namespace, name] if namespace and name:
                return path.startswith(f"/v1/jobs/{namespace}/")
            case _:
                return False


class TokenAuth:
    """An ASGI app in front of another one: a caller that may not report is refused here."""

    def __init__(
        self,
        app: ASGIApp,
        reporters: Reporters,
        clock: Clock,
        *,
        remembered_max: int = 8192,  # More than there are jobs and agents whose reports are kept
        asked_max: int = 4,
        waiting_max: int = 64,
    ) -> None:
        self._app, self._reporters = app, reporters
        self._slots = asyncio.Semaphore(asked_max)
        self._waiting, self._waiting_max = 0, waiting_max
        now_s = clock.monotonic_s
        self._questions = Questions(now_s)
        yes_s = 60.0 if reporters.agents is None else 300.0  # 1,000 agents cost three TokenReviews a second, not 17
        self._yes = _Memory[Identity](yes_s, remembered_max, now_s)  # Hash of a token → whose it is
        self._yes_once = _Memory[bool](3600.0, remembered_max, now_s)  # As long as a pod's token is good
        self._no = _Memory[bool](10.0, remembered_max, now_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request through, with the caller as `scope["user"]`, or refuse it with a problem document."""
        caller, path = await self._caller(scope), scope["path"]
        if isinstance(caller, Identity) and not self._reporters.may(caller, path):
            why = WAY_OUT if path == PROBE_PATH else _NAMESPACE_WAY_OUT
            caller = problem_response(HTTPStatus.FORBIDDEN, why, headers=LAST)
        if isinstance(caller, Response):
            await caller(scope, receive, send)
        else:
            scope["user"] = caller
            await self._app(scope, receive, send)

    async def _caller(self, scope: Scope) -> Identity | Response:
        shown = [value.decode("latin-1") for name, value in scope["headers"] if name == b"authorization"]
        scheme, _, token = (shown[0] if len(shown) == 1 else "").partition(" ")
        if scheme.lower() != "bearer" or not (token := token.strip()):
            return _unauthorized("show a token: Authorization: Bearer TOKEN")
        try:
            caller = await self._identity(token, str(scope["client"][0]) if scope.get("client") else "")
        except (ApiError, ApiUnavailableError) as error:
            _log.warning("cannot ask the API server whose a token is: %s", error)
            return _unavailable("the API server cannot be asked now whose this token is; the log says more")
        return caller or _unauthorized("the API server does not know this token, or it has expired")

    async def _identity(self, token: str, peer: str) -> Identity | Response | None:
        """What is remembered of the token, or is asked now; a response: not now. A no costs `peer` a question."""
        key = hashlib.sha256(token.encode()).digest()
        if (identity := self._yes.get(key)) is not None:
            return identity
        if self._no.get(key) is not None:
            return None
        if self._waiting >= self._waiting_max:
            return _unavailable("too many callers are being checked; come again in a moment")
        counts = self._yes_once.get(key) is None
        if counts and not self._questions.take(peer):
            why = "this address has shown too many tokens that the API server does not know; come again"
            return problem_response(HTTPStatus.TOO_MANY_REQUESTS, why, retry_after_s=REFILL_S, headers=LAST)
        self._waiting += 1
        refused = False
        try:
            async with self._slots:
                caller = await self._reporters.reviews.identity(token, audiences=self._reporters.audiences)
            refused = caller is None
        finally:
            self._waiting -= 1
            if counts and not refused:
                self._questions.give_back(peer)
        if caller is None:
            self._no.keep(key, True)
        else:
            self._yes_once.keep(key, True)
            self._yes.keep(key, caller)
        return caller


class _Memory(msgspec.Struct, Generic[_Value]):
    """Answers that are believed for `ttl_s`; of too many the one that was not asked for longest is forgotten."""

    ttl_s: float
    most: int
    now_s: Callable[[], float]
    kept: OrderedDict[object, tuple[float, _Value]] = msgspec.field(default_factory=OrderedDict)

    def get(self, key: object) -> _Value | None:
        until_s, value = self.kept.get(key, (0.0, None))
        if self.now_s() >= until_s:
            self.kept.pop(key, None)
            return None
        self.kept.move_to_end(key)
        return value

    def keep(self, key: object, value: _Value) -> None:
        self.kept[key] = self.now_s() + self.ttl_s, value
        self.kept.move_to_end(key)
        if len(self.kept) > self.most:
            self.kept.popitem(last=False)


class Questions:
    """Questions that each peer may cause that are answered no (docs/safety.md S28): some, and now and then one more."""

    def __init__(self, now_s: Callable[[], float], *, peers_max: int = 4096) -> None:
        self._now_s = now_s
        self._all_at_s = _Memory[float](IN_HAND * REFILL_S, peers_max, now_s)

    def take(self, peer: str) -> bool:
        """Take one, if the peer has one."""
        all_at_s = self._of(peer)
        has_one = all_at_s - self._now_s() <= (IN_HAND - 1.0) * REFILL_S
        self._all_at_s.keep(peer, all_at_s + (REFILL_S if has_one else 0.0))
        return has_one

    def give_back(self, peer: str) -> None:
        """The question was none that counts."""
        self._all_at_s.keep(peer, self._of(peer) - REFILL_S)

    def _of(self, peer: str) -> float:
        return max(self._all_at_s.get(peer) or 0.0, self._now_s())


def _unauthorized(detail: str) -> Response:
    challenge = {"www-authenticate": 'Bearer realm="netgang"'}
    return problem_response(HTTPStatus.UNAUTHORIZED, detail, headers=challenge | LAST)


def _unavailable(detail: str) -> Response:
    return problem_response(HTTPStatus.SERVICE_UNAVAILABLE, detail, retry_after_s=1.0, headers=LAST)
