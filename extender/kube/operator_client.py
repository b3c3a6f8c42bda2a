"""What tools for operators ask of the API server, with an operator's rights: any object, by its address.

Rule: JSON in and out as plain values. What does not exist is `None`; all else is an error of `extender.errors`.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Self
from urllib.parse import urlencode

import msgspec

from extender.convert.decode import decoded
from extender.errors import NotFoundError
from extender.kube.client import PAGES
from extender.kube.credentials import ApiServer
from extender.kube.transport import Transport, mapped

Json = dict[str, Any]
STRATEGIC: Final = "application/strategic-merge-patch+json"
_TIMEOUT_S: Final = 15.0
_PAGE_BYTES: Final = 256 * 1024 * 1024
_DOCUMENT: Final = msgspec.json.Decoder(Json)


class OperatorApi:
    """Calls with an operator's rights; `opened` makes one, bound to one event loop."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @classmethod
    @asynccontextmanager
    async def opened(cls, server: ApiServer) -> AsyncIterator[Self]:
        """One with a transport to this API server."""
        async with Transport(server, concurrency=16, agent="netgang-operator") as transport:
            yield cls(transport)

    async def get(self, path: str) -> Json | None:
        """One object or document; `None`: it, or its kind, does not exist. Errors: ApiError, ApiUnavailableError."""
        body = await self._transport.find(path, timeout_s=_TIMEOUT_S)
        return self._read(body, f"GET {path}") if body is not None else None

    async def items(self, path: str, query: Mapping[str, str] | None = None) -> AsyncIterator[bytes]:
        """The objects of a collection as raw JSON, page by page; nothing where the kind is not served."""
        token = ""
        while True:
            asked = {"limit": "500", **(query or {}), **({"continue": token} if token else {})}
            url = f"{path}?{urlencode(asked)}"
            try:
                body = await self._transport.send("GET", url, timeout_s=60.0, limit_bytes=_PAGE_BYTES)
            except NotFoundError:
                return
            with mapped(f"GET {url}"):
                page = decoded(PAGES, body)
            for item in page.items or ():
                yield bytes(item)
            token = page.metadata.continue_token
            if not token:
                return

    async def listed(self, path: str, query: Mapping[str, str] | None = None) -> list[Json]:
        """All objects of a small collection."""
        return [self._read(item, f"GET {path}") async for item in self.items(path, query)]

    async def create(self, path: str, body: Mapping[str, Any]) -> Json:
        """POST an object; as the API server has it then."""
        text = msgspec.json.encode(body)
        return self._read(await self._transport.send("POST", path, body=text, timeout_s=_TIMEOUT_S), f"POST {path}")

    async def patch(self, path: str, change: Mapping[str, Any]) -> None:
        """Strategic merge patch of a built-in kind. Errors: ConflictError, NotFoundError, ApiError 422 and others."""
        text = msgspec.json.encode(change)
        await self._transport.send("PATCH", path, body=text, content_type=STRATEGIC, timeout_s=_TIMEOUT_S)

    async def delete(self, path: str, *, resource_version: str = "") -> bool:
        """Delete one object; false: there was none. With a version, ConflictError if it has changed since."""
        options: Json = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if resource_version:
            options["preconditions"] = {"resourceVersion": resource_version}
        with suppress(NotFoundError):
            await self._transport.send("DELETE", path, body=msgspec.json.encode(options), timeout_s=_TIMEOUT_S)
            return True
        return False

    @staticmethod
    def _read(body: bytes, what: str) -> Json:
        with mapped(what):
            return decoded(_DOCUMENT, body)
