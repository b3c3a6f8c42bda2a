"""The way from a person's machine to a running netgang: an address, or the API server with the person's own rights.

The API server leads to netgang's Service by its proxy (docs/adr/0005-asking-through-the-api-server.md). Rule: the
kubeconfig's credentials go to the API server alone; what contradicts itself is refused before anything is sent. What
the API server refuses leaves as an error of `extender.errors`; netgang's own answers stay answers.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple

import httpx
import msgspec
from pyreqwest.compatibility.httpx import HttpxTransport

from extender.errors import ConfigError
from extender.kube.credentials import ApiServer, _document, load
from extender.kube.transport import client_of, refusal
from extender.network.answers import UNREADABLE
from extender.runtime.clock import SystemClock

DEFAULT: Final = "netgang-system/netgang:8889"
DEFAULT_URL: Final = "http://127.0.0.1:8888"
_FORM: Final = re.compile(
    r"(?P<namespace>[a-z0-9-]{1,63})/(?P<scheme>https:)?(?P<name>[a-z0-9-]{1,63})(:(?P<port>[a-z0-9-]{1,15}))?"
)
_OURS_ALONE: Final = frozenset({"host", "authorization"})  # Not for the API server


@dataclass(frozen=True, slots=True)
class Door:
    """An address, and how to get there; each `way` is for one client, which closes it."""

    url: str
    way: Callable[[], httpx.AsyncBaseTransport]


def door(
    url: str | None = None,
    *,
    kubeconfig: Path | None = None,
    context: str | None = None,
    service: str | None = None,
    prefers_cluster: bool = False,
) -> Door:
    """The way that the options mean. May run an exec plugin: call it before the loop runs. Errors: ConfigError."""
    options = {"--kubeconfig": kubeconfig, "--context": context, "--service": service}
    by_cluster = next((name for name, value in options.items() if value is not None), None)
    if url is not None and by_cluster is not None:
        raise ConfigError(f"--url and {by_cluster}: name one of them")
    if url is not None or not (by_cluster or prefers_cluster):
        return Door(url or DEFAULT_URL, lambda: httpx.AsyncHTTPTransport(trust_env=False))
    service = service or DEFAULT
    path, access = proxied(service), access_of(kubeconfig, context)
    server = load(access.file, clock=SystemClock(), context=access.context)
    shown = service.partition("/")[2].removeprefix("https:")  # of the answers' origin; the way is the proxy's
    return Door(f"http://{shown}", lambda: Proxied(server, path))


def proxied(service: str) -> str:
    """The path of services/proxy of NAMESPACE/[https:]NAME[:PORT]; the port is 8889 if none is said. ConfigError: none.

    >>> proxied("netgang-system/https:netgang")
    '/api/v1/namespaces/netgang-system/services/https:netgang:8889/proxy'
    """
    parts = _FORM.fullmatch(service)
    if parts is None:
        raise ConfigError(
            f"--service {service!r}: write NAMESPACE/NAME, NAMESPACE/NAME:PORT or NAMESPACE/https:NAME:PORT"
        )
    name = f"{parts['scheme'] or ''}{parts['name']}:{parts['port'] or '8889'}"
    return f"/api/v1/namespaces/{parts['namespace']}/services/{name}/proxy"


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


class _Kind(msgspec.Struct):
    kind: str = ""


def _kind(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Kind).kind
    except UNREADABLE:
        return ""


class Access(NamedTuple):
    """A file and a context of it; no file: the credentials of the pod we run in."""

    file: Path | None
    context: str | None
    namespace: str  # The context's own; "" if it names none


def access_of(kubeconfig: Path | None, context: str | None) -> Access:
    """What the options mean; without a file $KUBECONFIG, ~/.kube/config or the pod. Blocks. Errors: ConfigError.

    kubectl merges the files that KUBECONFIG lists; here the first one that holds the context is taken as a whole.
    """
    listed = [Path(name) for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    files = [kubeconfig] if kubeconfig is not None else listed or [Path.home() / ".kube" / "config"]
    read = {file: _contexts(file) for file in files if kubeconfig is not None or file.is_file()}
    if not read and context is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return Access(None, None, "")
    named = ", ".join(map(str, files))
    if not read:
        raise ConfigError(f"kubeconfig: {named} does not exist; name a file with --kubeconfig")
    wanted = context or next((current for current, _ in read.values() if current), "")
    for file, (_, contexts) in read.items():
        if wanted in contexts:
            return Access(file, wanted, contexts[wanted])
    if not wanted:
        raise ConfigError(f"kubeconfig {named}: current-context is empty; name one with --context")
    there = sorted({name for _, contexts in read.values() for name in contexts})
    raise ConfigError(f"kubeconfig {named}: no context {wanted!r}; there are {', '.join(there) or 'none'}")


def _contexts(file: Path) -> tuple[str, dict[str, str]]:
    """The current context, and the namespace of each."""
    document = _document(file)
    listed, namespaces = document.get("contexts"), {}
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict) and one.get("name"):
            context = one.get("context")
            namespace = context.get("namespace") if isinstance(context, dict) else None
            namespaces[str(one["name"])] = str(namespace or "")
    return str(document.get("current-context") or ""), namespaces
