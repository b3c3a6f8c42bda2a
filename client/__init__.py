"""Ask a running netgang for its documents, each by its schema; `client.way` leads to it.

Whatever answers there is not trusted to be netgang; what is not its document is one NetworkSourceError that names
the address. A problem document that says that the request is wrong (a name that is not known, a field that is wrong)
is a ConfigError with its sentence. Rule: a table costs no more than itself, so nothing here needs numpy or httpx.
"""

from collections.abc import Mapping, Set
from contextlib import suppress
from http import HTTPStatus
from itertools import permutations
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from client.way import Door, spoken
from extender.errors import UNREADABLE, ApiError, ApiUnavailableError, ConfigError, NetworkSourceError
from extender.kube.transport import Transport
from extender.schemas import JobList, Network, Pairs, Problem
from scoring.explain.words import near_names
from scoring.records import Queue, QueuedGang

_T = TypeVar("_T")
_WRONG_USE: Final = frozenset({400, 404, 409, 413})


async def queue(door: Door, *, namespace: str | None, wanted: Set[str]) -> tuple[Queue, list[QueuedGang], bytes]:
    """/v1/queue, and its gangs of a namespace, or those `wanted`. ConfigError, with near names: it has none of them."""
    answer, body = await ask(door, "/v1/queue", Queue)
    gangs = {gang.gang: gang for gang in answer.gangs if namespace in (None, gang.gang.partition("/")[0])}
    unknown = min(wanted - gangs.keys(), default="")
    if unknown or (namespace is not None and not gangs):
        near = near_names(unknown or f"{namespace}/", (gang.gang for gang in answer.gangs))
        raise ConfigError(f"no gang {unknown or f'of namespace {namespace}'} is known{near}")
    return answer, [gang for key, gang in gangs.items() if key in (wanted or gangs)], body


async def jobs(door: Door, *, namespace: str | None) -> tuple[JobList, bytes]:
    """/v1/jobs, at most 1,000. ConfigError, with near names: none is known in the namespace."""
    query = {"limit": "1000"} | ({"namespace": namespace} if namespace else {})
    answer, body = await ask(door, "/v1/jobs", JobList, query=query)
    if namespace and not answer.of:
        near = near_names(f"{namespace}/", [job.job for job in (await jobs(door, namespace=None))[0].jobs], "jobs")
        raise ConfigError(f"no job that netgang resizes is known in namespace {namespace}{near}")
    return answer, body


async def network(door: Door, *, zone: str | None) -> Network:
    """/v1/network of at most 100 nodes, whose pairs are 10,000. Errors: also ConfigError for a zone that is none."""
    of = {} if zone is None else {"zone": zone}
    answer, _ = await ask(door, "/v1/network", Network, query={"limit": "100"} | of)
    if zone is not None and zone not in answer.zones:
        raise ConfigError(f"--zone {zone!r}: the cluster's zones are {', '.join(sorted(answer.zones)) or 'none'}")
    return answer


def links_of(pairs: Pairs) -> list[dict[str, Any]]:
    """Each direction between two nodes, as `netgang plan --network` reads it; `age_s`: of the oldest of the values."""
    ways: list[dict[str, Any]] = []
    for (i, source), (j, target) in permutations(enumerate(pairs.nodes), 2):
        ages = (pairs.loss_age_s[i][j], pairs.delay_age_s[i][j], pairs.throughput_age_s[i][j])
        way = {"source": source, "target": target, "loss_ratio": pairs.loss_ratio[i][j]}
        way |= {"delay_ms": pairs.delay_ms[i][j], "throughput_bps": pairs.throughput_bps[i][j]}
        ways.append(way | {"age_s": max((age for age in ages if age is not None), default=None)})
    return ways


async def ask(door: Door, path: str, kind: type[_T], **asked: Any) -> tuple[_T, bytes]:
    """One document, and its JSON as it came; `asked` as by `fetch`. Errors: its own, ConfigError for a bad request."""
    where, (status, body) = door.url.rstrip("/") + path, await fetch(door, path, **asked)
    if status in _WRONG_USE and (problem := _read(body, Problem)) and problem.detail:
        raise ConfigError(problem.detail)
    if status != HTTPStatus.OK:
        raise NetworkSourceError(f"{where}: status {status}: {body[:160].decode(errors='replace')}")
    return decoded(body, kind, where=where), body


async def fetch(
    door: Door, path: str, *, query: Mapping[str, str] = {}, body: msgspec.Struct | None = None, timeout_s: float = 30.0
) -> tuple[int, bytes]:
    """Status and body of netgang's answer. Errors: ConfigError for an address that is none, NetworkSourceError."""
    asked, sent = path + ("?" + urlencode(query) if query else ""), None if body is None else msgspec.json.encode(body)
    try:
        async with Transport(door.server) as transport:
            method = "GET" if sent is None else "POST"
            return HTTPStatus.OK, await transport.send(method, door.prefix + asked, body=sent, timeout_s=timeout_s)
    except ApiError as error:
        if door.prefix and (_read(error.body, dict) or {}).get("kind") == "Status":
            if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR and door.plain:  # perhaps it speaks no TLS
                door = door._replace(prefix=door.plain, plain="")
                return await fetch(door, path, query=query, body=body, timeout_s=timeout_s)
            raise NetworkSourceError(spoken(door, error)) from error
        return error.status, error.body
    except ApiUnavailableError as error:
        raise NetworkSourceError(spoken(door, error)) from error
    except ValueError as error:
        raise ConfigError(f"{door.url}: {error}; accepted: http://HOST:PORT") from error


def path_of(*parts: str) -> str:
    """A path of any names.

    >>> path_of("v1", "explain", "team-a", "a/b?c"), path_of("..")
    ('/v1/explain/team-a/a%2Fb%3Fc', '/%2E%2E')
    """
    return "".join(f"/{quote(part, safe='') if part.strip('.') else part.replace('.', '%2E')}" for part in parts)


def decoded(body: bytes, kind: type[_T], *, where: str) -> _T:
    """The document in `body`. Errors: NetworkSourceError for another form."""
    try:
        return msgspec.json.decode(body, type=kind)
    except UNREADABLE as error:
        raise NetworkSourceError(f"{where}: not what netgang answers: {error}") from error


def _read(body: bytes, kind: type[_T]) -> _T | None:
    with suppress(*UNREADABLE):
        return msgspec.json.decode(body, type=kind)
    return None
