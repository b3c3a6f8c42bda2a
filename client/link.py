"""Ask a running netgang for one link: the document /v1/network/SOURCE/TARGET.

Rule: as `client.network`: what is not netgang's document is one NetworkSourceError that names the address.
"""

from urllib.parse import quote

import httpx
import msgspec

from client.network import ask
from extender.errors import ConfigError, NetworkSourceError


class Value(msgspec.Struct):
    """One direction of one metric."""

    value: float
    age_s: float
    origin: str


class Part(msgspec.Struct):
    """One metric of the link."""

    unit: str
    endpoints: list[str | None]
    there: Value | None
    back: Value | None
    counts: float | None
    basis: str = msgspec.field(name="from")
    points: float
    no_better_than: float | None = None


class RunningLink(msgspec.Struct):
    """The part of the document that is shown to people."""

    source: str
    target: str
    same_endpoint: bool
    stale: bool
    points: float
    reference_bps: float | None
    compared_with: int
    metrics: dict[str, Part]


async def ask_link(
    url: str, source: str, target: str, *, transport: httpx.AsyncBaseTransport | None = None
) -> tuple[RunningLink, bytes]:
    """The link, and the whole document as it came.

    Errors: ConfigError for a bad address or a node that is not known, NetworkSourceError without a usable answer.
    """
    where = f"{url.rstrip('/')}/v1/network/{quote(source, safe='')}/{quote(target, safe='')}"
    response = await ask(where, {}, url=url, transport=transport)
    if response.is_client_error and (said := _detail(response)):
        raise ConfigError(f"--from {source} --to {target}: {said}")
    if response.status_code != httpx.codes.OK:
        raise NetworkSourceError(f"{where}: status {response.status_code}: {response.text[:160]}")
    try:
        return msgspec.json.decode(response.content, type=RunningLink), response.content
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise NetworkSourceError(f"{where}: not what netgang answers: {error}") from error


class _Problem(msgspec.Struct):
    detail: str = ""


def _detail(response: httpx.Response) -> str:
    """What a problem document says; "" if it is none."""
    try:
        return msgspec.json.decode(response.content, type=_Problem).detail
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
