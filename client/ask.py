"""Ask a running netgang over HTTP, and read its answer by the schema of the document.

Rule: whatever answers there is not trusted to be netgang; what is not its document is one NetworkSourceError that names
the address. A problem document that says that the request is wrong is a ConfigError with its sentence.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from client.connect.door import Door
from extender.errors import ConfigError, NetworkSourceError
from extender.network import batches
from extender.schemas.record import Problem

_T = TypeVar("_T")
_TIMEOUT_S: Final = 30.0
_RECORD_S: Final = 120.0
_MOST_RECORD_BYTES: Final = 1 << 30
_WRONG_USE: Final = frozenset({400, 404, 409, 413})


class Answer(NamedTuple, Generic[_T]):
    """A document, and its JSON as it came."""

    document: _T
    body: bytes


async def ask(
    door: Door,
    path: str,
    kind: type[_T],
    *,
    query: Mapping[str, str] | None = None,
    body: msgspec.Struct | None = None,
    timeout_s: float = _TIMEOUT_S,
) -> Answer[_T]:
    """One document; with `body` it is posted.

    Errors: ConfigError for an address that is none and for what netgang calls a wrong request, NetworkSourceError.
    """
    where = address(door, path)
    response = await fetch(door, path, query=query, body=body, timeout_s=timeout_s)
    if response.status_code in _WRONG_USE and (said := problem_text(response.content)):
        raise ConfigError(said)
    if response.status_code != httpx.codes.OK:
        raise NetworkSourceError(f"{where}: status {response.status_code}: {response.text[:160]}")
    return Answer(decoded(response.content, kind, where=where), response.content)


async def fetch(
    door: Door,
    path: str,
    *,
    query: Mapping[str, str] | None = None,
    body: msgspec.Struct | None = None,
    timeout_s: float = _TIMEOUT_S,
) -> httpx.Response:
    """One answer, whatever its status. Errors: ConfigError for an address that is none, NetworkSourceError."""
    with clear_errors(door, path):
        async with httpx.AsyncClient(timeout=timeout_s, trust_env=False, transport=door.way()) as client:
            if body is None:
                return await client.get(address(door, path), params=query)
            headers = {"content-type": "application/json"}
            return await client.post(address(door, path), content=msgspec.json.encode(body), headers=headers)


@contextmanager
def clear_errors(door: Door, path: str) -> Iterator[None]:
    """Turn errors of the HTTP client into ConfigError or NetworkSourceError, which name the address."""
    try:
        yield
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise ConfigError(f"--url {door.url!r}: {error}; accepted: http://HOST:PORT") from error
    except httpx.HTTPError as error:
        said = str(error) or type(error).__name__
        raise NetworkSourceError(f"{address(door, path)}: {said}; does netgang run there?") from error


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
    return batches.decoded(msgspec.json.Decoder(kind), body, f"{where}: not what netgang answers")


def problem_text(body: bytes) -> str:
    """What a problem document says; "" if it is none."""
    try:
        return msgspec.json.decode(body, type=Problem).detail
    except batches.UNREADABLE:
        return ""


async def fetch_record(door: Door, *, progress: Callable[[int, int | None], None]) -> bytes:
    """The decision log (/v1/record) as it came; `progress` has the bytes that are there, and due if that is known.

    Errors: ConfigError for a bad address, NetworkSourceError when the answer is no log, or no log is kept there.
    """
    where = address(door, "/v1/record")
    parts = bytearray()
    with clear_errors(door, "/v1/record"):
        async with (
            httpx.AsyncClient(timeout=_RECORD_S, trust_env=False, transport=door.way()) as client,
            client.stream("GET", where, headers={"accept-encoding": "identity"}) as response,
        ):
            length = response.headers.get("content-length", "")
            async for part in response.aiter_bytes():
                parts += part
                progress(len(parts), int(length) if length.isdigit() else None)
                if len(parts) > _MOST_RECORD_BYTES:
                    raise NetworkSourceError(f"{where}: more than {_MOST_RECORD_BYTES} bytes")
    if response.status_code != httpx.codes.OK:
        said = problem_text(bytes(parts)) or "no reason given"
        raise NetworkSourceError(f"{where}: status {response.status_code}: {said}")
    return bytes(parts)
