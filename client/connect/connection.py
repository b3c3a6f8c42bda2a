"""The way to where a person said that netgang is; what contradicts itself is refused before anything is sent.

An address; the API server's port-forward to netgang's pod, which keeps a token to itself; or its proxy to netgang's
Service, which needs a smaller right and can carry no token. A way is opened at the first request. What the API server
refuses leaves as an error of `extender.errors`; netgang's own answers stay answers.
"""

import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import httpx
import msgspec

from client.connect.forward import Relay
from client.connect.kubeconfig import chosen
from client.connect.target import DEFAULT, Said, Target, Through, target
from extender.errors import ConfigError, NetworkSourceError
from extender.kube.credentials import ApiServer, load
from extender.kube.http.faults import refusal
from extender.network.batches import UNREADABLE
from extender.network.sources.http import verification
from extender.runtime.clock import SystemClock

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


DEFAULT_URL: Final = "http://127.0.0.1:8888"
_OWN_MACHINE: Final = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class Door:
    """An address, and how to get there; each `way` is for one client, which closes it."""

    url: str
    way: Callable[[], httpx.AsyncBaseTransport]


def door(said: Said, *, prefers_cluster: bool = False) -> Door:
    """The way that was meant. May run an exec plugin: call it before the loop runs. Errors: ConfigError."""
    if said.through is not None and said.through not in list(Through):
        raise ConfigError(f"--through {said.through!r}: accepted: {', '.join(Through)}")
    token = _token(said)
    if said.url is not None and said.in_cluster:
        raise ConfigError(f"--url and {said.in_cluster[0]}: name one of them")
    if said.url is None and (said.in_cluster or prefers_cluster):
        return _through_api_server(said, token)
    url = said.url or DEFAULT_URL
    _keep_secret(url, token)
    verify = verification(ca_file=said.ca_file, insecure=False)
    return Door(url, lambda: Bearing(httpx.AsyncHTTPTransport(verify=verify, trust_env=False), token=token))


def _through_api_server(said: Said, token: str) -> Door:
    where = target(said.service or DEFAULT)
    server = api_server(said)
    _keep_secret(server.url, token)
    if said.through == Through.SERVICE_PROXY:
        if token:
            raise ConfigError(
                "--through service-proxy carries no token: the API server takes it away, and checks no certificate "
                "behind it; use --through port-forward"
            )
        return Door(where.url, lambda: Bearing(Proxied(server, where), token=""))
    if not where.port.isdigit():
        raise ConfigError(f"--service: port {where.port!r} is a name; --through port-forward needs its number")
    verify = verification(ca_file=said.ca_file, insecure=False)
    return Door(where.url, lambda: Bearing(Forwarded(server, where, verify=verify), token=token))


def api_server(said: Said) -> ApiServer:
    """That of the kubeconfig and the context that were meant. May run an exec plugin; blocks. Errors: ConfigError."""
    access = chosen(said.kubeconfig, said.context)
    return load(access.file, clock=SystemClock(), context=access.context)


def _token(said: Said) -> str:
    if said.token_file is None:
        text, place = said.token.strip(), "NETGANG_TOKEN"
    else:
        try:
            text, place = said.token_file.read_text(encoding="utf-8").strip(), f"--token-file {said.token_file}"
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"--token-file {said.token_file}: cannot be read: {error}") from error
        if not text:
            raise ConfigError(f"{place}: is empty")
    if not (text.isascii() and text.isprintable()):
        raise ConfigError(f"{place}: no line of plain characters")
    return text


def _keep_secret(url: str, token: str) -> None:
    parts = urlsplit(url)
    if token and parts.scheme == "http" and parts.hostname not in _OWN_MACHINE:
        raise ConfigError(f"{url}: a token goes to https:// addresses or this machine only")
