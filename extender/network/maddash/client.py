"""GET one document of a MaDDash server: its address, and what it says about its clock and its unknown grids.

Rule: the status code is looked at before the body, because MaDDash labels plain error texts as JSON; passwords never
appear in a text.
"""

import asyncio
import re
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import quote, quote_plus

import httpx
from msgspec.structs import replace

from extender.errors import NetworkSourceError
from extender.network.sources.http import HttpClient, HttpServer

IN_FLIGHT: Final = 2  # Every grid is a join over the server's whole database, whose connections the checks share
MaddashServer: Final = partial(
    HttpServer, timeout_s=60.0, body_limit_bytes=64 * 2**20, in_flight=IN_FLIGHT, user_in_url=True
)
"""`url` is such as `https://maddash.example.org/maddash`; without a path, `/maddash` is added. A grid has about 0.18 kB
per check."""
_NO_GRID: Final = b"Unable to find grid"
_A_YEAR_S: Final = 366 * 86400.0
_ORIGIN_ALONE: Final = re.compile(r"(https?://[^/?#]*)/?")
_WEB_PAGES: Final = re.compile(r"(?<!/)/maddash-webui(/[^?#]*)?$|(?<=[^/]/maddash)/(grids|dashboards)$")
"""What people copy from their browser's address line: the REST API is beside it."""


class NotThereError(NetworkSourceError):
    """The server has nothing at this address (404), or no grid of this name (MaDDash's 500, which says so)."""


class Document(NamedTuple):
    """A body, and the time of the server."""

    body: bytearray
    ahead_s: float | None = None  # The server's clock, by its `Date` header; negative: behind ours; `None`: not said


def grid_path(name: str) -> str:
    """Encode a grid's name for the path: MaDDash decodes it twice."""
    return f"/grids/{quote(quote_plus(name), safe='')}"


def grid_path_decoded_once(name: str) -> str:
    """Encode a grid's name for what stands before a MaDDash and decodes addresses itself.

    >>> grid_path_decoded_once("WAN/Edge - Loss"), grid_path_decoded_once("100% A+B")
    ('/grids/WAN%2FEdge%20-%20Loss', '/grids/100%25%20A%2BB')
    """
    return f"/grids/{quote(name, safe='')}"


class MaddashClient:
    """Keeps the connections to one server; `http.aclose` ends them."""

    def __init__(self, server: HttpServer) -> None:
        """Prepare; nothing is sent. Errors: ConfigError for a bad `url` or `ca_file`."""
        self.http = HttpClient(replace(server, url=_rest_url(server.url)))
        self._decoded_once = False  # Whether grids were last found at addresses for proxies that decode

    async def get_grid(self, name: str, *, now_s: float) -> Document:
        """GET a grid, as `get`, at whichever of its two addresses it is. Errors: that of the first one asked."""
        paths = grid_path(name), grid_path_decoded_once(name)
        first, other = reversed(paths) if self._decoded_once else paths
        try:
            return await self.get(first, now_s=now_s)
        except NotThereError as missing:
            if first == other:
                raise
            try:
                document = await self.get(other, now_s=now_s)
            except NetworkSourceError as error:
                raise missing from error
        self._decoded_once = not self._decoded_once
        return document

    async def get(self, path: str, *, now_s: float) -> Document:
        """GET `path` below the base address. `now_s`: the time of the call.

        Errors: NetworkSourceError, naming address and cause; NotThereError when the server knows no such address.
        """
        clock_s = asyncio.get_running_loop().time
        called_s = clock_s()
        reply = await self.http.exchange("GET", path, headers={})
        if reply.status != httpx.codes.OK:
            unknown = reply.status == httpx.codes.NOT_FOUND or reply.body.startswith(_NO_GRID)
            kind = NotThereError if unknown else NetworkSourceError
            raise kind(f"{self.http.where(path)}: status {reply.status}: {reply.shown()}")
        date_s = _date_s(reply.headers)
        ahead_s = None if date_s is None else date_s - (now_s + clock_s() - called_s)
        return Document(reply.body, ahead_s)


def _rest_url(text: str) -> str:
    beside = _WEB_PAGES.sub("", text.strip().rstrip("/"))
    origin = _ORIGIN_ALONE.fullmatch(beside)
    return f"{origin[1]}/maddash" if origin is not None else beside


def _date_s(headers: httpx.Headers) -> float | None:
    """The `Date` header in Unix seconds, made younger by the time that the answer lay in a cache."""
    try:
        date_s = parsedate_to_datetime(headers.get("date", "")).timestamp()
        age_s = float(headers.get("age", "0"))
    except (ValueError, OverflowError):
        return None
    return date_s + age_s if 0.0 <= age_s < _A_YEAR_S else None
