"""HTTP to the API server: one exchange, or one endless answer read line by line.

Why: what protects us from a bad network (time limits, size limits, bounded concurrency, a renewed token) has to hold
for every call, so it stands in one place and the calls above it say only what they want.
Rule: raw bytes in and out. At most `concurrency` exchanges at a time, the rest wait their turn; the time limit covers
that wait. Nothing is repeated here except after a 401, which means that nothing was done. Redirects and proxies of
the environment are not followed: the token goes to the configured server only.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import aiohttp
from yarl import URL

from extender.errors import ApiUnavailableError
from extender.kube.credentials import ApiServer
from extender.kube.faults import mapped, refusal

_MIB = 1024 * 1024
_ERROR_BODY_BYTES = 64 * 1024
_READ_BUFFER_BYTES = 256 * 1024
_IDLE_CONNECTION_S = 60.0  # below the 90 s after which the API server closes an idle connection


@dataclass(frozen=True, slots=True)
class TransportLimits:
    """Bounds of one connection to the API server."""

    concurrency: int = 32  # a new connection is a TLS handshake of a millisecond; 32 calls of 8 ms are 4,000/s
    object_bytes: int = 8 * _MIB  # etcd refuses objects above 1.5 MiB
    line_bytes: int = 16 * _MIB
    connect_s: float = 5.0


class Transport:
    """Exchanges with one API server; an async context manager, bound to one event loop."""

    def __init__(self, server: ApiServer, *, limits: TransportLimits = TransportLimits(), agent: str) -> None:
        self._server = server
        self.limits = limits
        self._agent = agent
        self._slots = asyncio.Semaphore(limits.concurrency)
        self._opened: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(
            limit=0,  # bounded by _slots; watches must not take the places of exchanges
            keepalive_timeout=_IDLE_CONNECTION_S,
            ssl=self._server.tls if self._server.tls is not None else True,
        )
        self._opened = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            # gzip would cost both sides more CPU than a cluster's network costs time.
            headers={"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": self._agent},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.limits.connect_s),
            read_bufsize=_READ_BUFFER_BYTES,
            trust_env=False,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    async def send(
        self,
        method: str,
        path: str,
        *,
        timeout_s: float,
        body: bytes | None = None,
        content_type: str = "application/json",
        limit_bytes: int | None = None,
    ) -> bytes:
        """One exchange; the answer's body when the API server agreed.

        Errors: ApiError by status; ApiUnavailableError when there is no usable answer within `timeout_s` or it is
        longer than `limit_bytes` (default: the limit of one object).
        """
        limit = self.limits.object_bytes if limit_bytes is None else limit_bytes
        with mapped(f"{method} {path}"):
            async with asyncio.timeout(timeout_s), self._slots:
                response = await self._answered(method, path, body=body, content_type=content_type)
                async with response:
                    if 200 <= response.status < 300:
                        return await _read(response, limit_bytes=limit)
                    raise await _refused(response)

    async def lines(self, path: str, *, open_s: float) -> AsyncGenerator[bytes, None]:
        """GET an answer that has no end, line by line without the line ends; close the generator to hang up.

        `open_s` limits the time until the answer begins; a silent stream is the reader's to notice.
        """
        with mapped(f"GET {path}"):
            async with asyncio.timeout(open_s):
                response = await self._answered("GET", path, body=None, content_type="")
            async with response:
                if response.status != 200:
                    async with asyncio.timeout(open_s):
                        raise await _refused(response)
                chunks = response.content.iter_any()
                async with aclosing(split_lines(chunks, limit_bytes=self.limits.line_bytes)) as lines:
                    async for line in lines:
                        yield line

    async def _answered(
        self, method: str, path: str, *, body: bytes | None, content_type: str
    ) -> aiohttp.ClientResponse:
        """The answer's head; one more try with a renewed token after a 401."""
        authorization = await self._server.authorization.header()
        response = await self._request(method, path, body=body, content_type=content_type, authorization=authorization)
        if response.status != 401 or not await self._server.authorization.after_refusal(authorization):
            return response
        response.close()
        renewed = await self._server.authorization.header()
        return await self._request(method, path, body=body, content_type=content_type, authorization=renewed)

    async def _request(
        self, method: str, path: str, *, body: bytes | None, content_type: str, authorization: str
    ) -> aiohttp.ClientResponse:
        if self._opened is None:
            raise RuntimeError("the transport is not open: use it in `async with`")
        headers: dict[str, str] = {}
        if body is not None:
            headers["Content-Type"] = content_type
        if authorization:
            headers["Authorization"] = authorization
        return await self._opened.request(
            method,
            URL(self._server.url + path, encoded=True),
            data=body,
            headers=headers,
            allow_redirects=False,
            proxy=self._server.proxy,
            server_hostname=self._server.tls_name,
        )


async def split_lines(chunks: AsyncIterator[bytes], *, limit_bytes: int) -> AsyncGenerator[bytes, None]:
    """Lines of a stream that arrives in arbitrary chunks; empty lines and an unfinished last line are left out.

    Errors: ApiUnavailableError once a line is longer than `limit_bytes`. Cost: linear in the bytes, however a line
    is cut into chunks.
    """
    begun: list[bytes] = []  # pieces of the line that has no end yet
    size = 0
    async for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            if size + len(piece) > limit_bytes:
                raise ApiUnavailableError(f"a line of the stream is longer than {limit_bytes} bytes")
            line = b"".join((*begun, piece)) if begun else piece
            begun.clear()
            size = 0
            if line:
                yield line
        if rest:
            begun.append(rest)
            size += len(rest)
            if size > limit_bytes:
                raise ApiUnavailableError(f"a line of the stream is longer than {limit_bytes} bytes")


async def _read(response: aiohttp.ClientResponse, *, limit_bytes: int) -> bytes:
    """The whole body, or ApiUnavailableError as soon as it is known to be longer than the limit."""
    too_long = ApiUnavailableError(f"{response.method} {response.url.path}: answer longer than {limit_bytes} bytes")
    if (response.content_length or 0) > limit_bytes:
        response.close()
        raise too_long
    parts: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        parts.append(chunk)
        size += len(chunk)
        if size > limit_bytes:
            response.close()
            raise too_long
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _refused(response: aiohttp.ClientResponse) -> Exception:
    """The error that a failure answer means; a body that is too long for a Status is cut, not read."""
    body = await response.content.read(_ERROR_BODY_BYTES)
    if not response.content.at_eof():
        response.close()
    return refusal(response.status, body, retry_after=response.headers.get("Retry-After", ""))
