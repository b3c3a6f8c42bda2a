"""Ask a running netgang why a gang waits, and what would change it: /v1/explain and /v1/what-if.

Rule: as `client.network`: what is not netgang's document is one NetworkSourceError that names the address.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from client.link import _detail
from client.network import ask
from extender.errors import ConfigError, NetworkSourceError

_T = TypeVar("_T")
_TIMEOUT_S: Final = 120.0
"""Trial plans of a large cluster, behind those of others."""


class Member(msgspec.Struct):
    """One member."""

    pod: str
    role: str
    state: str
    node: str | None = None
    why: str = ""


class Weight(msgspec.Struct):
    """KOD2's weight."""

    omega: float
    omega_prime: float
    given: bool = False


class Ahead(msgspec.Struct):
    """The gangs ahead."""

    waiting: list[str]
    waiting_count: int
    admitted: list[str]
    admitted_count: int
    starting: list[str]


class Reservation(msgspec.Struct):
    """What is kept for it."""

    kind: str
    zone: str | None
    nodes: dict[str, str]
    held_nodes: list[str]
    until_s: float | None = None
    givers: list[str] = []


class Turn(msgspec.Struct):
    """Its place in the queue."""

    state: str
    rank: int | None
    of: int
    priority: int
    weight: Weight
    waited_s: float | None
    starves_in_s: float | None
    ahead: Ahead
    reservation: Reservation | None


class Short(msgspec.Struct):
    """What is short in a zone."""

    resource: str
    amount: str
    nodes: dict[str, str]


class Zone(msgspec.Struct):
    """What a zone has for it."""

    zone: str
    allowed: bool
    nodes: int
    room: int
    room_when_empty: int
    wanted: int
    short: list[Short]
    homeless: int
    closed: dict[str, int]
    score: float | None
    distance_ms: float | None
    reference_bps: float | None


class Said(msgspec.Struct):
    """A note."""

    about: str
    text: str


class Past(msgspec.Struct):
    """A decision of the past."""

    at_s: float
    what: str
    reason: str = ""
    detail: str = ""


class Suggestion(msgspec.Struct):
    """The changes that would get it admitted."""

    text: str
    changes: list[dict[str, Any]]
    also_admitted: list[str] = []
    refused_instead: list[str] = []


class WouldHelp(msgspec.Struct):
    """All that was found."""

    text: str
    impossible: bool
    trials: int
    suggestions: list[Suggestion]


class Explained(msgspec.Struct):
    """The parts of a gang's document that are shown to people."""

    gang: str
    state: str
    counts: dict[str, int]
    members: list[Member]
    turn: Turn
    zones: list[Zone]
    notes: list[Said]
    decisions: list[Past]
    problems: list[str]
    zone: str | None = None
    score: float | None = None
    reason: str | None = None
    detail: str = ""
    admission_lapses_in_s: float | None = None
    admission_refused: str | None = None
    would_help: WouldHelp | None = None


class Fate(msgspec.Struct):
    """A gang in one plan."""

    state: str
    zone: str | None
    members: dict[str, str]
    reason: str | None
    detail: str


class Turned(msgspec.Struct):
    """A gang for which something would differ."""

    gang: str
    before: Fate
    after: Fate


class Supposed(msgspec.Struct):
    """What would differ."""

    said: str = msgspec.field(name="if")
    gangs: dict[str, int]
    admitted: list[Turned]
    refused: list[Turned]
    moved: list[Turned]
    other: list[Turned]


async def ask_explanation(
    url: str, name: str, *, transport: httpx.AsyncBaseTransport | None = None
) -> tuple[dict[str, Any], bytes]:
    """The document of the gang or pod NAMESPACE/NAME, and the same as it came.

    Errors: ConfigError (also: nothing of that name), NetworkSourceError.
    """
    namespace, slash, rest = name.partition("/")
    if not (namespace and slash and rest):
        raise ConfigError(f"{name!r} is no NAMESPACE/NAME")
    where = f"{url.rstrip('/')}/v1/explain/{quote(namespace, safe='')}/{quote(rest, safe='')}"
    response = await ask(where, {}, url=url, transport=transport)
    return _document(response, where)


async def ask_what_if(
    url: str, body: Mapping[str, Any], *, transport: httpx.AsyncBaseTransport | None = None
) -> tuple[dict[str, Any], bytes]:
    """What the changes would make of the plan. Errors: ConfigError names the field, NetworkSourceError."""
    where = f"{url.rstrip('/')}/v1/what-if"
    try:
        async with httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False, transport=transport) as client:
            headers = {"content-type": "application/json"}
            response = await client.post(where, content=msgspec.json.encode(body), headers=headers)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise ConfigError(f"--url {url!r}: {error}; accepted: http://HOST:PORT") from error
    except httpx.HTTPError as error:
        raise NetworkSourceError(f"{where}: {str(error) or type(error).__name__}; does netgang run there?") from error
    return _document(response, where)


def read_as(document: Mapping[str, Any], kind: type[_T]) -> _T:
    """The parts of a document that are shown. Errors: NetworkSourceError when it has another form."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise NetworkSourceError(f"not what netgang answers: {error}") from error


def _document(response: httpx.Response, where: str) -> tuple[dict[str, Any], bytes]:
    if response.status_code in (400, 404, 413) and (said := _detail(response)):
        raise ConfigError(said)
    if response.status_code != httpx.codes.OK:
        raise NetworkSourceError(f"{where}: status {response.status_code}: {response.text[:160]}")
    try:
        return msgspec.json.decode(response.content, type=dict[str, Any]), response.content
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise NetworkSourceError(f"{where}: not what netgang answers: {error}") from error
