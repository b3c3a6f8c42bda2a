"""Ask a running netgang over HTTP: its documents, each by its schema.

Rule: whatever answers there is not trusted to be netgang; what is not its document is one NetworkSourceError that names
the address. A problem document that says that the request is wrong (a name that is not known, a field that is wrong)
is a ConfigError with its sentence.
"""

from collections.abc import Mapping
from itertools import permutations
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from client.connection import Door
from extender.errors import ConfigError, NetworkSourceError
from extender.network import answers
from extender.schemas import Problem
from extender.schemas import network as schema
from extender.schemas.jobs import JobInFull, JobList
from extender.schemas.network import DegradedLinks, KnownPairs, Network, Pairs, ProbeAgents
from scoring.explain.gang import Explained, ExplainedPod
from scoring.explain.queue_report import Queue
from scoring.what_if import Supposed, WhatIf

_T = TypeVar("_T")
_TIMEOUT_S: Final = 30.0
_MOST_JOBS: Final = 1000
_MOST_NODES: Final = 100  # All pairs of them are 10,000
_WRONG_USE: Final = frozenset({400, 404, 409, 413})
_WHAT_IF_S: Final = 120.0  # Plans of a large cluster, behind those of others


class Fetched(NamedTuple, Generic[_T]):
    """A document, and its JSON as it came."""

    document: _T
    body: bytes


async def queue(door: Door) -> Fetched[Queue]:
    """/v1/queue."""
    return await ask(door, "/v1/queue", Queue)


async def jobs(door: Door, *, namespace: str | None) -> Fetched[JobList]:
    """/v1/jobs."""
    query = {"limit": str(_MOST_JOBS)} | ({"namespace": namespace} if namespace is not None else {})
    return await ask(door, "/v1/jobs", JobList, query=query)


async def job(door: Door, name: str) -> Fetched[JobInFull]:
    """/v1/jobs of the job NAMESPACE/NAME."""
    return await ask(door, path_of("v1", "jobs", *name.split("/", 1)), JobInFull)


async def link(door: Door, source: str, target: str) -> Fetched[schema.LinkInFull]:
    """/v1/network of two nodes."""
    return await ask(door, path_of("v1", "network", source, target), schema.LinkInFull)


async def explanation(door: Door, name: str) -> Fetched[Explained | ExplainedPod]:
    """/v1/explain of the gang or pod NAMESPACE/NAME."""
    path = path_of("v1", "explain", *name.split("/", 1))
    found = await ask(door, path, dict[str, Any])
    kind: type[Explained] | type[ExplainedPod] = Explained if "gang" in found.document else ExplainedPod
    return Fetched(decoded(found.body, kind, where=address(door, path)), found.body)


async def supposed(door: Door, what: WhatIf) -> Fetched[Supposed]:
    """What /v1/what-if answers."""
    return await ask(door, "/v1/what-if", Supposed, body=what, timeout_s=_WHAT_IF_S)


class NodeLink(NamedTuple):
    """One direction of a link, as `netgang plan --network` reads it. `None`: not known."""

    source: str
    target: str
    loss_ratio: float | None
    delay_ms: float | None
    throughput_bps: float | None
    age_s: float | None  # Of the oldest of the values


class NodeLinks(NamedTuple):
    """What is known of the links, and what there is to say about them."""

    links: tuple[NodeLink, ...]
    problems: tuple[str, ...]
    metrics: dict[str, KnownPairs]
    degraded: tuple[DegradedLinks, ...]  # Nodes and zones with bad links
    probe: ProbeAgents | None


async def links(door: Door, *, zone: str | None) -> NodeLinks:
    """/v1/network. Errors: also ConfigError for a zone that does not exist."""
    query = {"limit": str(_MOST_NODES)} | ({"zone": zone} if zone is not None else {})
    answer, _ = await ask(door, "/v1/network", Network, query=query)
    if zone is not None and zone not in answer.zones:
        raise ConfigError(f"--zone {zone!r}: the cluster's zones are {', '.join(sorted(answer.zones)) or 'none'}")
    sources = answer.status.sources if answer.status else ()
    problems = [text for one in sources for text in (*([one.error] if one.error else []), *one.problems)]
    if (shown := len(answer.pairs.nodes)) < answer.pairs.of:
        problems.append(f"{shown} of {answer.pairs.of} nodes; see --zone")
    return NodeLinks(_links(answer.pairs), tuple(problems), answer.metrics, answer.degraded, answer.probe or None)


def _links(pairs: Pairs) -> tuple[NodeLink, ...]:
    found = []
    for (i, source), (j, target) in permutations(enumerate(pairs.nodes), 2):
        ages = (pairs.loss_age_s[i][j], pairs.delay_age_s[i][j], pairs.throughput_age_s[i][j])
        age_s = max((age for age in ages if age is not None), default=None)
        values = (pairs.loss_ratio[i][j], pairs.delay_ms[i][j], pairs.throughput_bps[i][j])
        found.append(NodeLink(source, target, *values, age_s))
    return tuple(found)


async def ask(door: Door, path: str, kind: type[_T], **asked: Any) -> Fetched[_T]:
    """One document, `asked` for as by `fetch`. ConfigError for a bad address or request, else NetworkSourceError."""
    where = address(door, path)
    response = await fetch(door, path, **asked)
    if response.status_code in _WRONG_USE and (said := problem_text(response.content)):
        raise ConfigError(said)
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
    where = address(door, path)
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


def address(door: Door, path: str) -> str:
    """The whole address."""
    return f"{door.url.rstrip('/')}{path}"


def path_of(*parts: str) -> str:
    """A path of any names.

    >>> path_of("v1", "explain", "team-a", "a/b?c")
    '/v1/explain/team-a/a%2Fb%3Fc'
    """
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def decoded(body: bytes, kind: type[_T], *, where: str) -> _T:
    """The document in `body`. Errors: NetworkSourceError when it has another form."""
    return answers.decoded(msgspec.json.Decoder(kind), body, f"{where}: not what netgang answers")


def problem_text(body: bytes) -> str:
    """What a problem document says; "" if it is none."""
    try:
        return msgspec.json.decode(body, type=Problem).detail
    except answers.UNREADABLE:
        return ""
