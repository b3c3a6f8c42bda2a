"""Ask a running netgang over HTTP: the way to it, and its documents, each by its schema.

The way is an address, or the API server with the person's own rights, which leads to netgang's Service by its proxy
(docs/developers/decisions.md). Rule: the kubeconfig's credentials go to the API server alone; what
contradicts itself is refused before anything is sent. What the API server refuses leaves as an error of
`extender.errors`; netgang's own answers stay answers.

Whatever answers there is not trusted to be netgang; what is not its document is one NetworkSourceError that names
the address. A problem document that says that the request is wrong (a name that is not known, a field that is wrong)
is a ConfigError with its sentence.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from itertools import permutations
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import httpx
import msgspec
from pyreqwest.compatibility.httpx import HttpxTransport

from extender.errors import ConfigError, NetworkSourceError
from extender.kube.credentials import ApiServer, _document, load
from extender.kube.transport import client_of, refusal
from extender.network import answers
from extender.ports import SystemClock
from extender.schemas import JobList, Network, Pairs, Problem

_T = TypeVar("_T")
_TIMEOUT_S: Final = 30.0
_MOST_JOBS: Final = 1000
_MOST_NODES: Final = 100  # All pairs of them are 10,000
_WRONG_USE: Final = frozenset({400, 404, 409, 413})
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
        if response.status_code >= HTTPStatus.BAD_REQUEST:
            body = await response.aread()
            if _read(body, _Kind) == _Kind("Status"):  # netgang's own problems have another form
                raise refusal(response.status_code, body)
        return response

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()


class _Kind(msgspec.Struct):
    kind: str = ""


def _read(body: bytes, kind: type[_T]) -> _T | None:
    try:
        return msgspec.json.decode(body, type=kind)
    except answers.UNREADABLE:
        return None


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
    # The current context, and the namespace of each
    document = _document(file)
    listed, namespaces = document.get("contexts"), {}
    for item in listed if isinstance(listed, list) else ():
        if isinstance(item, dict) and item.get("name"):
            context = item.get("context")
            namespace = context.get("namespace") if isinstance(context, dict) else None
            namespaces[str(item["name"])] = str(namespace or "")
    return str(document.get("current-context") or ""), namespaces


class Fetched(NamedTuple, Generic[_T]):
    """A document, and its JSON as it came."""

    document: _T
    body: bytes


async def jobs(door: Door, *, namespace: str | None) -> Fetched[JobList]:
    """/v1/jobs."""
    query = {"limit": str(_MOST_JOBS)} | ({"namespace": namespace} if namespace is not None else {})
    return await ask(door, "/v1/jobs", JobList, query=query)


class NodeLink(NamedTuple):
    """One direction of a link, as `netgang plan --network` reads it. `None`: not known."""

    source: str
    target: str
    loss_ratio: float | None
    delay_ms: float | None
    throughput_bps: float | None
    age_s: float | None  # Of the oldest of the values


async def network(door: Door, *, zone: str | None) -> Network:
    """/v1/network. Errors: also ConfigError for a zone that does not exist."""
    query = {"limit": str(_MOST_NODES)} | ({"zone": zone} if zone is not None else {})
    answer, _ = await ask(door, "/v1/network", Network, query=query)
    if zone is not None and zone not in answer.zones:
        raise ConfigError(f"--zone {zone!r}: the cluster's zones are {', '.join(sorted(answer.zones)) or 'none'}")
    return answer


def links_of(pairs: Pairs) -> list[NodeLink]:
    """Each direction between two nodes."""
    ways = []
    for (i, source), (j, target) in permutations(enumerate(pairs.nodes), 2):
        ages = (pairs.loss_age_s[i][j], pairs.delay_age_s[i][j], pairs.throughput_age_s[i][j])
        age_s = max((age for age in ages if age is not None), default=None)
        values = (pairs.loss_ratio[i][j], pairs.delay_ms[i][j], pairs.throughput_bps[i][j])
        ways.append(NodeLink(source, target, *values, age_s))
    return ways


async def ask(door: Door, path: str, kind: type[_T], **asked: Any) -> Fetched[_T]:
    """One document, `asked` for as by `fetch`. ConfigError for a bad address or request, else NetworkSourceError."""
    where, response = door.url.rstrip("/") + path, await fetch(door, path, **asked)
    if response.status_code in _WRONG_USE and (problem := _read(response.content, Problem)) and problem.detail:
        raise ConfigError(problem.detail)
    if response.status_code != httpx.codes.OK:
        raise NetworkSourceError(f"{where}: status {response.status_code}: {response.text[:160]}")
    return Fetched(decoded(response.content, kind, where=where), response.content)


async def fetch(
    door: Door,
    path: str,
    *,
    query: Mapping[str, str] | None = None,
    body: msgspec.Struct | None = None,
    timeout_s: float = _TIMEOUT_S,
) -> httpx.Response:
    """One answer, whatever its status. Errors: ConfigError for an address that is none, NetworkSourceError."""
    where = door.url.rstrip("/") + path
    try:
        async with httpx.AsyncClient(timeout=timeout_s, trust_env=False, transport=door.way()) as client:
            if body is None:
                return await client.get(where, params=query)
            headers = {"content-type": "application/json"}
            return await client.post(where, content=msgspec.json.encode(body), headers=headers)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise ConfigError(f"--url {door.url!r}: {error}; accepted: http://HOST:PORT") from error
    except httpx.HTTPError as error:
        raise NetworkSourceError(f"{where}: {str(error) or type(error).__name__}; does netgang run there?") from error


def path_of(*parts: str) -> str:
    """A path of any names.

    >>> path_of("v1", "explain", "team-a", "a/b?c"), path_of("..")
    ('/v1/explain/team-a/a%2Fb%3Fc', '/%2E%2E')
    """
    return "".join(f"/{quote(part, safe='') if part.strip('.') else part.replace('.', '%2E')}" for part in parts)


def decoded(body: bytes, kind: type[_T], *, where: str) -> _T:
    """The document in `body`. Errors: NetworkSourceError for another form."""
    return answers.decoded(msgspec.json.Decoder(kind), body, f"{where}: not what netgang answers")
