"""Ask the API server whose a token is and what its owner may: TokenReview and SubjectAccessReview."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from extender.kube import calls
from extender.kube.http.faults import mapped
from extender.kube.http.transport import Transport
from extender.ports import Identity

_TIMEOUT_S: Final = 5.0


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    audiences: list[str] | None = None
    user: _User = msgspec.field(default_factory=_User)


class _TokenReview(msgspec.Struct):
    status: _TokenStatus


class _AccessStatus(msgspec.Struct):
    allowed: bool


class _AccessReview(msgspec.Struct):
    status: _AccessStatus


class KubeReviews:
    """The Reviews port; its transport is not that of Bindings."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def identity(self, token: str, *, audiences: Sequence[str] = ()) -> Identity | None:
        """Whose token it is; None: no account's, or not surely for one of `audiences`. Errors: as `Transport.send`."""
        spec = {"token": token, **({"audiences": list(audiences)} if audiences else {})}
        body = await self._create(calls.TOKEN_REVIEW, "TokenReview", spec)
        with mapped("TokenReview"):
            found = msgspec.json.decode(body, type=_TokenReview).status
        if not found.authenticated or not found.user.username:
            return None
        if audiences and not set(audiences).intersection(found.audiences or ()):
            return None
        extra = tuple(sorted((key, tuple(values)) for key, values in (found.user.extra or {}).items()))
        return Identity(found.user.username, found.user.uid, tuple(found.user.groups or ()), extra)

    async def may(self, caller: Identity, verb: str, path: str) -> bool:
        """Whether `caller` has the right to `verb` (get, post) this address. Errors: ApiError, ApiUnavailableError."""
        return await self._allowed(caller, {"nonResourceAttributes": {"verb": verb, "path": path}})

    async def may_see(self, caller: Identity, namespace: str) -> bool:
        """Whether `caller` may get gangs.netgang.io there. Errors: as `may`."""
        asked = {"verb": "get", "group": "netgang.io", "resource": "gangs", "namespace": namespace}
        return await self._allowed(caller, {"resourceAttributes": asked})

    async def _allowed(self, caller: Identity, asked: dict[str, Any]) -> bool:
        spec = {
            "user": caller.username,
            "uid": caller.uid,
            "groups": caller.groups,
            "extra": dict(caller.extra),
            **asked,
        }
        body = await self._create(calls.ACCESS_REVIEW, "SubjectAccessReview", spec)
        with mapped("SubjectAccessReview"):
            return msgspec.json.decode(body, type=_AccessReview).status.allowed

    async def _create(self, call: calls.Call, kind: str, spec: dict[str, Any]) -> bytes:
        body = msgspec.json.encode({"apiVersion": call.resource.api_version, "kind": kind, "spec": spec})
        return await self._transport.send("POST", call.resource.collection(), body=body, timeout_s=_TIMEOUT_S)
