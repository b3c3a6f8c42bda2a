"""Access to the documents: a bearer token of the cluster, and the right to the address, asked of the API server.

Why the API server: the right to see the cluster's jobs is already written in its RBAC rules, and its tokens are already
in everybody's hands (`kubectl create token`). A list of passwords of our own would be a second truth.

Rules:
- A caller without the right to an address may still see documents of one namespace, with the right to `get` resource
  `gangs.netgang.io` there: no API server serves it, and RBAC's rules can name it all the same. See `namespaces`.
- No answer means no: what cannot be checked now is refused with 503, never let through.
- An answer is remembered for a short time, a yes longer than a no; a token only as its SHA-256. Unknown tokens have
  a memory of their own, so that they cannot push out what is known of others.
- Only so many questions are asked at a time, and so many callers wait for theirs; one more gets 429. Each
  address may cause a bounded number that are answered no (docs/safety.md S28); what was answered yes once is asked all
  the same, so that other clients at the same address do not keep a caller out.
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Final, TypeVar, cast

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from extender.api.namespaces import OfNamespace, namespace_of
from extender.api.problems import problem_response
from extender.errors import ApiError, ApiUnavailableError
from extender.ports import Clock, Identity, Reviews

IN_HAND: Final = 10.0  # Questions of an address that has not asked for long
REFILL_S: Final = 5.0  # Seconds for one more
_PEERS_MAX: Final = 4096
_COME_AGAIN_S: Final = "1"
_TOO_MANY: Final = (
    "this address has shown too many tokens, or asked for too much, that the API server says no to; come again"
)
_ALL: Final = "*"  # No namespace is named so
_YES_ONCE_S: Final = 3600.0  # As long as a pod's token, or one of `kubectl create token`, is good

_log = logging.getLogger("netgang.auth")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class AuthLimits:
    """How long answers are believed, how many are remembered, how many are asked for at a time."""

    yes_s: float = 60.0
    no_s: float = 10.0
    remembered_max: int = 2048
    asked_max: int = 4
    waiting_max: int = 64


class TokenAuth:
    """An ASGI app in front of another one: a caller without the right is refused here."""

    def __init__(
        self,
        app: ASGIApp,
        reviews: Reviews,
        clock: Clock,
        limits: AuthLimits = AuthLimits(),
        *,
        open_to_all: AbstractSet[str] = frozenset(),
        namespaces: Callable[[], AbstractSet[str]] = frozenset,
    ) -> None:
        """`namespaces`: those that have pods, for callers that may see one of them only."""
        self._app = app
        self._namespaces = namespaces
        self._open_to_all = open_to_all  # They show nothing of the cluster; a browser shows no token for a page's files
        self._reviews = reviews
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.asked_max)
        self._waiting = 0
        most, now_s = limits.remembered_max, clock.monotonic_s
        self._questions = Questions(now_s)
        self._yes_once, self._yes, self._no = (
            _Memory(ttl_s, most, now_s) for ttl_s in (_YES_ONCE_S, limits.yes_s, limits.no_s)
        )
        """Hash of a token → whose it is, and (user, verb, path) → yes; each with a memory of what was answered no"""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request through, or refuse it with a problem document."""
        if scope["path"] in self._open_to_all and scope["method"] in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        found = await self._reach(scope)
        answering: ASGIApp = self._app
        if isinstance(found, Response):
            answering = found
        elif found != _ALL:
            answering = OfNamespace(self._app, found, self._namespaces)
        await answering(scope, receive, send)

    async def _reach(self, scope: Scope) -> Response | str:
        """Of which namespace the caller may see the answer, or of all; else the refusal. Sets `scope["user"]`."""
        token, verb, path, namespace = _bearer_token(scope), scope["method"].lower(), scope["path"], namespace_of(scope)
        peer = str(scope["client"][0]) if scope.get("client") else ""
        if not token:
            return _unauthorized("show a token: Authorization: Bearer TOKEN (kubectl create token NAME)")
        try:
            key = hashlib.sha256(token.encode()).digest()
            caller = await self._answer(key, lambda: self._reviews.identity(token), peer)
            if caller is None:
                return _unauthorized("the API server does not know this token, or it has expired")
            scope["user"] = caller
            may = partial(self._may, caller, verb, path, namespace)
            if (reach := await self._answer((caller, verb, path, namespace), may, peer)) is not None:
                return reach
        except _RefusedError as error:
            return error.response
        except (ApiError, ApiUnavailableError) as error:
            _log.warning("cannot ask the API server for a caller's rights: %s", error)
            return _unavailable("the API server cannot be asked now for your rights; the log says more")
        detail = f"{caller.username} may not {verb} {path}: it needs a ClusterRole with this verb and nonResourceURL"
        own = "; explain, queue?namespace= and jobs?namespace= of one namespace: netgang-namespace-viewer, bound there"
        return _refused(HTTPStatus.FORBIDDEN, f"{detail}, such as netgang-viewer{own}")

    async def _may(self, caller: Identity, verb: str, path: str, namespace: str) -> str | None:
        """Two questions count as one: a caller of one namespace is not to use up those of its address."""
        if await self._reviews.may(caller, verb, path):
            return _ALL
        return namespace if namespace and await self._reviews.may_see(caller, namespace) else None

    async def _answer(self, key: object, ask: Callable[[], Awaitable[_Value | None]], peer: str) -> _Value | None:
        """What is remembered of `key`, or is asked now; _RefusedError: not now. A no costs `peer` a question."""
        if (known := self._yes.get(key)) is not None:
            return cast("_Value", known)
        if self._no.get(key) is not None:
            return None
        if self._waiting >= self._limits.waiting_max:
            raise _RefusedError(_unavailable("too many callers are being checked; come again in a moment"))
        counts = self._yes_once.get(key) is None
        if counts and not self._questions.take(peer):
            raise _RefusedError(_refused(HTTPStatus.TOO_MANY_REQUESTS, _TOO_MANY, {"retry-after": f"{REFILL_S:g}"}))
        self._waiting += 1
        refused = False
        try:
            async with self._slots:
                answer = await ask()
            refused = not answer
        finally:
            self._waiting -= 1
            if counts and not refused:
                self._questions.give_back(peer)
        if not answer:
            self._no.keep(key, True)
            return None
        self._yes_once.keep(key, True)
        self._yes.keep(key, answer)
        return answer


class _RefusedError(Exception):
    def __init__(self, response: Response) -> None:
        self.response = response


@dataclass(slots=True)
class _Memory:
    """Answers that are believed for `ttl_s`; of too many the one that was not asked for longest is forgotten."""

    ttl_s: float
    most: int
    now_s: Callable[[], float]
    kept: OrderedDict[object, tuple[float, object]] = field(default_factory=OrderedDict)

    def get(self, key: object) -> object | None:
        until_s, value = self.kept.get(key, (0.0, None))
        if self.now_s() >= until_s:
            self.kept.pop(key, None)
            return None
        self.kept.move_to_end(key)
        return value

    def keep(self, key: object, value: object) -> None:
        self.kept[key] = self.now_s() + self.ttl_s, value
        self.kept.move_to_end(key)
        if len(self.kept) > self.most:
            self.kept.popitem(last=False)


class Questions:
    """How many questions to the API server each peer may cause that are answered no (docs/safety.md S28).

    Any client that reaches a port can show a new token with every request. Each address has some questions in hand and
    gets one more now and then. Of too many addresses the one that asked longest ago is forgotten.
    """

    def __init__(self, now_s: Callable[[], float], *, peers_max: int = _PEERS_MAX) -> None:
        self._now_s = now_s
        self._all_at_s = _Memory(IN_HAND * REFILL_S, peers_max, now_s)

    def take(self, peer: str) -> bool:
        """Take one, if the peer has one."""
        all_at_s = self._of(peer)
        has_one = all_at_s - self._now_s() <= (IN_HAND - 1.0) * REFILL_S
        self._all_at_s.keep(peer, all_at_s + (REFILL_S if has_one else 0.0))
        return has_one

    def give_back(self, peer: str) -> None:
        """The question was none that counts."""
        self._all_at_s.keep(peer, self._of(peer) - REFILL_S)

    def __len__(self) -> int:
        return len(self._all_at_s.kept)

    def _of(self, peer: str) -> float:
        return max(cast("float", self._all_at_s.get(peer) or 0.0), self._now_s())


def _bearer_token(scope: Scope) -> str:
    """The token in the one Authorization header; "" if there is none, another kind, or several."""
    found = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(found) != 1:
        return ""
    scheme, _, token = found[0].decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _unauthorized(detail: str) -> Response:
    return _refused(HTTPStatus.UNAUTHORIZED, detail, {"www-authenticate": 'Bearer realm="netgang"'})


def _unavailable(detail: str) -> Response:
    return _refused(HTTPStatus.SERVICE_UNAVAILABLE, detail, {"retry-after": _COME_AGAIN_S})


def _refused(status: HTTPStatus, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """The body of a refused request is not read, so what follows on its connection is not either."""
    return problem_response(status, detail, headers={**(headers or {}), "connection": "close"})
