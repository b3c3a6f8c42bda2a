"""Ask the API server whose a token is: TokenReview."""

from collections.abc import Sequence
from typing import Final

import msgspec

from extender.kube import calls
from extender.kube.http.faults import mapped
from extender.kube.http.transport import Transport
from extender.ports import Identity

_TIMEOUT_S: Final = 5.0


class _User(msgspec.Struct):
    username: str = ""
    extra: dict[str, list[str]] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    audiences: list[str] | None = None
    user: _User = msgspec.field(default_factory=_User)


class _TokenReview(msgspec.Struct):
    status: _TokenStatus


class KubeReviews:
    """The Reviews port; its transport is not that of Bindings."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def identity(self, token: str, *, audiences: Sequence[str] = ()) -> Identity | None:
        """Whose token it is; None: no account's, or not surely for one of `audiences`. Errors: as `Transport.send`."""
        spec = {"token": token, **({"audiences": list(audiences)} if audiences else {})}
        call = calls.TOKEN_REVIEW
        asked = msgspec.json.encode({"apiVersion": call.resource.api_version, "kind": "TokenReview", "spec": spec})
        body = await self._transport.send("POST", call.resource.collection(), body=asked, timeout_s=_TIMEOUT_S)
        with mapped("TokenReview"):
            found = msgspec.json.decode(body, type=_TokenReview).status
        if not found.authenticated or not found.user.username:
            return None
        if audiences and not set(audiences).intersection(found.audiences or ()):
            return None
        extra = tuple(sorted((key, tuple(values)) for key, values in (found.user.extra or {}).items()))
        return Identity(found.user.username, extra)
