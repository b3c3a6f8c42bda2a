"""Ask a running netgang for its documents, each by its schema; `client.way` leads to it.

Whatever answers there is not trusted to be netgang; what is not its document is one NetworkSourceError that names
the address. A problem document that says that the request is wrong (a name that is not known, a field that is wrong)
is a ConfigError with its sentence. Rule: a table costs no more than itself, so nothing here needs numpy or httpx.
"""

from collections.abc import Mapping
from http import HTTPStatus
from itertools import permutations
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from client.way import Door, spoken
from extender.errors import UNREADABLE, ApiError, ApiUnavailableError, ConfigError, NetworkSourceError
from extender.kube.transport import Transport
from extender.schemas import Pairs, Problem

_T = TypeVar("_T")
_WRONG_USE: Final = frozenset({400, 404, 409, 413})


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
    door: Door,
    path: str,
    *,
    query: Mapping[str, str] = {},
    body: msgspec.Struct | None = None,
    timeout_s: float = 30.0,
) -> tuple[int, bytes]:
    """Status and body of what netgang answers. Errors: ConfigError for an address that is none, NetworkSourceError.

    A refusal of the API server is a Status; netgang's own problems have another form.
    """
    asked, sent = path + ("?" + urlencode(query) if query else ""), None if body is None else msgspec.json.encode(body)
    try:
        async with Transport(door.server) as transport:
            method = "GET" if sent is None else "POST"
            return HTTPStatus.OK, await transport.send(method, door.prefix + asked, body=sent, timeout_s=timeout_s)
    except ApiError as error:
        if door.prefix and (_read(error.body, dict) or {}).get("kind") == "Status":
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
    try:
        return msgspec.json.decode(body, type=kind)
    except UNREADABLE:
        return None
