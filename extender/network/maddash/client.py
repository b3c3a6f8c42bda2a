"""GET one document of a MaDDash server, with limits: time, size, requests in flight.

Why apart: everything that can go wrong between us and the server becomes one NetworkSourceError here, whose text names
the address and what it answered. Rule: the status code is looked at before the body, because MaDDash labels plain
error texts as JSON; passwords never appear in a text. MaDDash itself has no ETag and no compression, but a proxy before
it may: a document that has an ETag is asked for with it.
"""

import asyncio
import hashlib
import re
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote, quote_plus

import httpx

from extender.errors import ConfigError, NetworkSourceError
from extender.network.sources.tls import verification

IN_FLIGHT: Final = 2
"""Every grid is a join over the whole database of the server, which shares its connections with the checks."""
_SHOWN_CHARS: Final = 160
_NO_GRID: Final = b"Unable to find grid"
_A_YEAR_S: Final = 366 * 86400.0
_WEB_PAGES: Final = re.compile(r"/maddash-webui(/.*)?$|(?<=/maddash)/(grids|dashboards)$")
"""What people copy from their browser's address line: the REST API is beside it."""


@dataclass(frozen=True, slots=True)
class MaddashServer:
    """Where the server is and how it is spoken to."""

    url: str
    """Such as `https://maddash.example.org/maddash`; without a path, `/maddash` is added."""
    ca_file: Path | None = None
    """PEM file of an authority to trust besides those of the system."""
    insecure: bool = False
    """Accept any certificate."""
    timeout_s: float = 60.0
    """For one whole document."""
    connect_timeout_s: float = 10.0
    body_limit_bytes: int = 64 * 2**20
    """After decompression; a grid has about 0.18 kB per check."""


class NotThereError(NetworkSourceError):
    """The server has nothing at this address (404), or no grid of this name (MaDDash's 500, which says so)."""


@dataclass(frozen=True, slots=True)
class Document:
    """A body, and by what an unchanged one is known."""

    body: bytearray
    digest: bytes
    etag: str = ""
    ahead_s: float | None = None
    """By how much the server's clock is ahead of ours, from its `Date` header; negative: behind; `None`: not said."""


def grid_path(name: str) -> str:
    """Encode a grid's name for the path: MaDDash decodes it twice.

    >>> grid_path("WAN/Edge - Loss"), grid_path("100% A+B")
    ('/grids/WAN%252FEdge%2B-%2BLoss', '/grids/100%2525%2BA%252BB')
    """
    return f"/grids/{quote(quote_plus(name), safe='')}"


def grid_path_decoded_once(name: str) -> str:
    """Encode a grid's name for what stands before a MaDDash and decodes addresses itself.

    >>> grid_path_decoded_once("WAN/Edge - Loss"), grid_path_decoded_once("100% A+B")
    ('/grids/WAN%2FEdge%20-%20Loss', '/grids/100%25%20A%2BB')
    """
    return f"/grids/{quote(name, safe='')}"


class MaddashClient:
    """Keeps the connections to one server; `aclose` ends them."""

    def __init__(self, server: MaddashServer, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """Prepare; nothing is sent. Errors: ConfigError for a bad `url` or `ca_file`."""
        self._server = server
        self._base = _base_url(server.url)
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._decoded_once = False
        """Whether grids were last found at the addresses for servers whose proxy decodes addresses itself"""
        self._client = httpx.AsyncClient(
            transport=transport,
            verify=verification(ca_file=server.ca_file, insecure=server.insecure),
            timeout=httpx.Timeout(server.timeout_s, connect=server.connect_timeout_s),
            headers={"Accept": "application/json"},
            trust_env=False,  # no proxy or certificate settings from the environment: settings are in one place
        )

    @property
    def shown_url(self) -> str:
        """The base address for texts, without user and password."""
        return str(self._base.copy_with(username="", password=""))

    async def get_grid(self, name: str, *, now_s: float, etag: str = "") -> Document | None:
        """GET a grid, as `get`, at whichever of its two addresses it is. Errors: that of the first one asked."""
        paths = grid_path(name), grid_path_decoded_once(name)
        first, other = reversed(paths) if self._decoded_once else paths
        try:
            return await self.get(first, now_s=now_s, etag=etag)
        except NotThereError as missing:
            if first == other:
                raise
            try:
                document = await self.get(other, now_s=now_s, etag=etag)
            except NetworkSourceError as error:
                raise missing from error
        self._decoded_once = not self._decoded_once
        return document

    async def get(self, path: str, *, now_s: float, etag: str = "") -> Document | None:
        """GET `path` below the base address; `None`: it is still what `etag` names. `now_s`: the time of the call.

        Errors: NetworkSourceError, naming address and cause; NotThereError when the server knows no such address.
        """
        where = f"{self.shown_url}{path}"
        called_s = asyncio.get_running_loop().time()
        try:
            async with self._slots, asyncio.timeout(self._server.timeout_s):
                request = self._client.build_request("GET", self._address(path), headers=_only_if_new(etag))
                document, date_s = await self._read(request, where)
        except TimeoutError as error:
            raise NetworkSourceError(f"{where}: no complete answer within {self._server.timeout_s:g} s") from error
        except httpx.HTTPError as error:
            cause = str(error) or type(error).__name__
            raise NetworkSourceError(f"{where}: {cause}") from error
        if document is None or date_s is None:
            return document
        waited_s = asyncio.get_running_loop().time() - called_s
        return replace(document, ahead_s=date_s - (now_s + waited_s))

    def _address(self, path: str) -> str:
        """`path` is already encoded: joining strings keeps it as it is."""
        return str(self._base) + path

    async def _read(self, request: httpx.Request, where: str) -> tuple[Document | None, float | None]:
        """The document and the server's clock. Cookies are not kept: nothing of theirs is asked for again."""
        response = await self._client.send(request, stream=True)
        try:
            body = bytearray()
            digest = hashlib.blake2b(digest_size=16)
            limit = self._server.body_limit_bytes if response.status_code == httpx.codes.OK else _SHOWN_CHARS
            async for chunk in response.aiter_bytes(65536):
                body += chunk
                digest.update(chunk)
                if len(body) > limit:
                    break
        finally:
            await response.aclose()
            self._client.cookies.clear()
        if response.status_code == httpx.codes.NOT_MODIFIED and "if-none-match" in request.headers:
            return None, None
        if response.status_code != httpx.codes.OK:
            unknown = response.status_code == httpx.codes.NOT_FOUND or body.startswith(_NO_GRID)
            kind = NotThereError if unknown else NetworkSourceError
            raise kind(f"{where}: status {response.status_code}: {_shown(response, bytes(body))}")
        if len(body) > limit:
            raise NetworkSourceError(f"{where}: the answer has more than {limit} bytes")
        return Document(body, digest.digest(), response.headers.get("etag", "")), _date_s(response)

    async def aclose(self) -> None:
        """End all connections."""
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _base_url(text: str) -> httpx.URL:
    try:
        url = httpx.URL(text.strip().rstrip("/"))
    except httpx.InvalidURL as error:
        raise ConfigError(f"maddash url {text!r}: {error}; accepted: https://HOST/maddash") from error
    if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment:
        raise ConfigError("maddash url: accepted is http:// or https://, a host and a path, as in https://HOST/maddash")
    path = _WEB_PAGES.sub("", url.path)
    if path in ("", "/"):
        path = "/maddash"
    return url if path == url.path else url.copy_with(path=path)


def _only_if_new(etag: str) -> dict[str, str]:
    return {"If-None-Match": etag} if etag else {}


def _date_s(response: httpx.Response) -> float | None:
    """The `Date` header in Unix seconds, made younger by the time that the answer lay in a cache."""
    try:
        date_s = parsedate_to_datetime(response.headers.get("date", "")).timestamp()
        age_s = float(response.headers.get("age", "0"))
    except (ValueError, OverflowError):
        return None
    return date_s + age_s if 0.0 <= age_s < _A_YEAR_S else None


def _shown(response: httpx.Response, body: bytes) -> str:
    if response.is_redirect:
        return f"moved to {response.headers.get('location', 'nowhere')}: configure that address"
    text = body[:_SHOWN_CHARS].decode("utf-8", "replace")
    return "".join(c if c.isprintable() else " " for c in text).strip() or "no text"
