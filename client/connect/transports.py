"""httpx transports that lead to a netgang inside a cluster, and one that says what a refusal means.

Rule: a transport opens its way at the first request and closes it with itself. What the API server refuses leaves as an
error of `extender.errors`; netgang's own answers stay answers.
"""

import ssl
from contextlib import AsyncExitStack
from http import HTTPStatus
from typing import Final

import httpx
import msgspec

from client.connect.forward import Relay
from client.connect.said import Target
from extender.errors import NetworkSourceError
from extender.kube.credentials import ApiServer
from extender.kube.http.faults import refusal
from extender.network.batches import UNREADABLE

_OURS_ALONE: Final = frozenset({"host", "authorization"})  # Not for the API server, or taken away by it


class Forwarded(httpx.AsyncBaseTransport):
    """Requests through a pod's port, carried by the API server and the node's kubelet to the pod's own loopback."""

    def __init__(self, server: ApiServer, target: Target, *, verify: ssl.SSLContext) -> None:
        self._server = server
        self._target = target
        self._verify = verify
        self._open = AsyncExitStack()
        self._way: tuple[Relay, httpx.AsyncHTTPTransport] | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One exchange. Errors: those of httpx; ApiError and ApiUnavailableError when the way is not open."""
        if self._way is None:
            relay, socket = await self._open.enter_async_context(Relay.opened(self._server, self._target))
            inner = httpx.AsyncHTTPTransport(uds=str(socket), verify=self._verify, trust_env=False)
            self._way = relay, await self._open.enter_async_context(inner)
        relay, inner = self._way
        try:
            return await inner.handle_async_request(request)
        except httpx.TransportError as error:
            if relay.failure is not None:
                raise relay.failure from error
            raise

    async def aclose(self) -> None:
        """Close the way."""
        self._way = None
        await self._open.aclose()


class Proxied(httpx.AsyncBaseTransport):
    """Requests through services/proxy of the API server, with the person's rights there and no token for netgang."""

    def __init__(self, server: ApiServer, target: Target) -> None:
        self._server = server
        self._prefix = server.url + target.proxied
        verify = server.tls if server.tls is not None else True
        self._inner = httpx.AsyncHTTPTransport(verify=verify, proxy=server.proxy, trust_env=False)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One exchange. Errors: those of httpx; ApiError when the API server itself refuses."""
        url = httpx.URL(self._prefix + request.url.raw_path.decode("ascii"))
        headers = {name: value for name, value in request.headers.items() if name not in _OURS_ALONE}
        headers["host"] = url.netloc.decode("ascii")
        if header := await self._server.authorization.header():
            headers["authorization"] = header
        more = {} if self._server.tls_name is None else {"sni_hostname": self._server.tls_name}
        extensions = {**request.extensions, **more}
        sent = httpx.Request(request.method, url, headers=headers, stream=request.stream, extensions=extensions)
        response = await self._inner.handle_async_request(sent)
        if response.status_code >= HTTPStatus.BAD_REQUEST and _read(body := await response.aread()).kind == "Status":
            raise refusal(response.status_code, body)  # netgang's own problems have another form
        return response

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()


class Bearing(httpx.AsyncBaseTransport):
    """Shows netgang a token, if there is one, and says what to do when it asks for another."""

    def __init__(self, inner: httpx.AsyncBaseTransport, *, token: str) -> None:
        self._inner = inner
        self._token = token

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One exchange. NetworkSourceError: netgang does not show this to our user."""
        if self._token:
            request.headers["authorization"] = f"Bearer {self._token}"
        response = await self._inner.handle_async_request(request)
        if response.status_code not in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            return response
        said = _read(await response.aread()).detail or "no reason given"
        hint = "" if response.status_code == HTTPStatus.FORBIDDEN else "; give --token-file FILE or NETGANG_TOKEN"
        await response.aclose()
        raise NetworkSourceError(f"{request.url}: status {response.status_code}: {said}{hint}")

    async def aclose(self) -> None:
        """Close the way."""
        await self._inner.aclose()


class _Said(msgspec.Struct):
    kind: str = ""
    detail: str = ""


def _read(body: bytes) -> _Said:
    try:
        return msgspec.json.decode(body, type=_Said)
    except UNREADABLE:
        return _Said()
