"""The way from a person's machine to a running netgang: an address, or the API server with the person's own rights.

The API server leads to netgang's Service by its proxy (docs/adr/0005-asking-through-the-api-server.md). Rule: the
kubeconfig's credentials go to the API server alone; what contradicts itself is refused before anything is sent. What
the API server refuses leaves as an error of `extender.errors`; netgang's own answers stay answers.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from http import HTTPStatus
from pathlib import Path
from typing import Final

import httpx
import msgspec
from pyreqwest.compatibility.httpx import HttpxTransport

from client.kubeconfig import chosen
from extender.errors import ConfigError
from extender.kube.credentials import ApiServer, load
from extender.kube.transport import client_of, refusal
from extender.network.batches import UNREADABLE
from extender.runtime.clock import SystemClock

DEFAULT: Final = "netgang-system/netgang:8889"
DEFAULT_URL: Final = "http://127.0.0.1:8888"
_FORM: Final = re.compile(
    r"(?P<namespace>[a-z0-9-]{1,63})/(?P<scheme>https:)?(?P<name>[a-z0-9-]{1,63})(:(?P<port>[a-z0-9-]{1,15}))?"
)
_OURS_ALONE: Final = frozenset({"host", "authorization"})  # Not for the API server


@dataclass(frozen=True, slots=True)
class Said:
    """What a person said about where netgang is: the options, as they were given."""

    url: str | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    service: str | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """Names of the options that were given."""
        return tuple(f"--{one.name}" for one in fields(self) if getattr(self, one.name) is not None)

    @property
    def in_cluster(self) -> tuple[str, ...]:
        """Those of them that belong to the way through the API server."""
        return tuple(name for name in self.given if name != "--url")


@dataclass(frozen=True, slots=True)
class Door:
    """An address, and how to get there; each `way` is for one client, which closes it."""

    url: str
    way: Callable[[], httpx.AsyncBaseTransport]


def door(said: Said, *, prefers_cluster: bool = False) -> Door:
    """The way that was meant. May run an exec plugin: call it before the loop runs. Errors: ConfigError."""
    if said.url is not None and said.in_cluster:
        raise ConfigError(f"--url and {said.in_cluster[0]}: name one of them")
    if said.url is not None or not (said.in_cluster or prefers_cluster):
        return Door(said.url or DEFAULT_URL, lambda: httpx.AsyncHTTPTransport(trust_env=False))
    service = said.service or DEFAULT
    path, access = proxied(service), chosen(said.kubeconfig, said.context)
    server = load(access.file, clock=SystemClock(), context=access.context)
    shown = service.partition("/")[2].removeprefix("https:")  # of the answers' origin; the way is the proxy's
    return Door(f"http://{shown}", lambda: Proxied(server, path))


def proxied(service: str) -> str:
    """The path of services/proxy of NAMESPACE/[https:]NAME[:PORT]; the port is 8889 if none is said. ConfigError: none.

    >>> proxied("netgang-system/https:netgang")
    '/api/v1/namespaces/netgang-system/services/https:netgang:8889/proxy'
    """
    found = _FORM.fullmatch(service)
    if found is None:
        raise ConfigError(
            f"--service {service!r}: write NAMESPACE/NAME, NAMESPACE/NAME:PORT or NAMESPACE/https:NAME:PORT"
        )
    name = f"{found['scheme'] or ''}{found['name']}:{found['port'] or '8889'}"
    return f"/api/v1/namespaces/{found['namespace']}/services/{name}/proxy"


class Proxied(httpx.AsyncBaseTransport):
    """Requests through services/proxy of the API server, with the person's rights there."""

    def __init__(self, server: ApiServer, path: str) -> None:
        self._server = server
        self._prefix = server.url + path
        self._inner = HttpxTransport(client_of(server))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One exchange. Errors: those of httpx; ApiError when the API server itself refuses."""
        url = httpx.URL(self._prefix + request.url.raw_path.decode("ascii"))
        headers = {name: value for name, value in request.headers.items() if name not in _OURS_ALONE}
        headers["host"] = url.netloc.decode("ascii")
        if header := await self._server.authorization.header():
            headers["authorization"] = header
        sent = httpx.Request(request.method, url, headers=headers, stream=request.stream, extensions=request.extensions)
        response = await self._inner.handle_async_request(sent)
        if response.status_code >= HTTPStatus.BAD_REQUEST and _kind(body := await response.aread()) == "Status":
            raise refusal(response.status_code, body)  # netgang's own problems have another form
        return response

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()


class _Said(msgspec.Struct):
    kind: str = ""


def _kind(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Said).kind
    except UNREADABLE:
        return ""
