"""Exchanges with the API server over connections of our own: what a request looks like as bytes.

Why: with this and `pool` instead of aiohttp a Binding over TLS costs 60 % less CPU (docs/adr/0002). Rule: nothing that
is put into a head can end a line; a path or header that could is a ValueError, a defect of ours and no outage.
"""

import re
import ssl

from yarl import URL

from extender.kube.credentials import ApiServer
from extender.kube.http.connection import Answer
from extender.kube.http.pool import Endpoint, Pool

_NOT_OF_A_PATH = re.compile(r"[^!-~]")
_NOT_OF_A_HEADER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class DirectExchanges:
    """Exchanges without a proxy between; bound to one event loop; `close` it."""

    def __init__(self, server: ApiServer, *, concurrency: int, connect_s: float, agent: str) -> None:
        url = URL(server.url, encoded=True)
        tls = (server.tls or ssl.create_default_context()) if url.scheme == "https" else None
        endpoint = Endpoint(url.raw_host or "", url.port or 0, tls, server.tls_name)
        self._pool = Pool(endpoint, concurrency=concurrency, connect_s=connect_s)
        self._base = url.raw_path.rstrip("/")
        self._constant = (
            f" HTTP/1.1\r\nHost: {url.host_port_subcomponent}\r\nUser-Agent: {_header(agent)}\r\n"
            # gzip would cost both sides more CPU than a cluster's network costs time.
            "Accept: application/json\r\nAccept-Encoding: identity\r\n"
        )
        self._authorization = self._line = ""  # the header's value that was seen last, and its line

    async def exchange(
        self, method: str, path: str, *, body: bytes | None, content_type: str, authorization: str, limit_bytes: int
    ) -> Answer:
        """One exchange, however long it takes; the answer whatever its status. OSError: there is no whole answer."""
        request = self._request(method, path, body=body, content_type=content_type, authorization=authorization)
        return await self._pool.exchange(request, limit_bytes=limit_bytes)

    async def close(self) -> None:
        """Close all connections; exchanges under way fail."""
        await self._pool.close()

    def _request(self, method: str, path: str, *, body: bytes | None, content_type: str, authorization: str) -> bytes:
        if _NOT_OF_A_PATH.search(path):
            raise ValueError(f"not a path: {path!r}")
        if authorization != self._authorization:
            self._line = f"Authorization: {_header(authorization)}\r\n" if authorization else ""
            self._authorization = authorization
        head = f"{method} {self._base}{path}{self._constant}{self._line}"
        if body is None:
            return f"{head}\r\n".encode()
        return f"{head}Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def _header(value: str) -> str:
    """The value, if it can stand in one line; it is not quoted in the error, as it may be a token."""
    if _NOT_OF_A_HEADER.search(value):
        raise ValueError("the value of a header has characters that would end it")
    return value
