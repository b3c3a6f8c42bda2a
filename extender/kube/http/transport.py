"""HTTP to the API server: one exchange, or one endless answer read line by line; raw bytes in and out.

Rule: what protects us from a bad network holds for every call, so it stands here. At most `concurrency` exchanges at a
time, the rest wait their turn, within their time limit. Nothing is repeated except after a 401, which means that
nothing was done. Redirects and proxies of the environment are not followed: the token goes to the configured server
only. Exchanges go over connections of our own (`pool`), which saves 60 % of the CPU of a Binding over TLS
(docs/adr/0002), streams and what needs a proxy over aiohttp (`session`).
"""

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Self

import aiohttp
from yarl import URL

from extender.errors import ApiError, ApiUnavailableError, NotFoundError
from extender.kube.credentials import ApiServer
from extender.kube.http.connection import Answer
from extender.kube.http.faults import mapped, refusal
from extender.kube.http.pool import Pool
from extender.kube.http.session import Session, refused

_MIB = 1024 * 1024
_NOT_OF_A_PATH = re.compile(r"[^!-~]")
_NOT_OF_A_HEADER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class TransportLimits:
    """Bounds of one connection to the API server."""

    concurrency: int = 32  # 32 calls of 8 ms are 4,000/s; connections are opened as they are needed
    object_bytes: int = 16 * _MIB  # etcd refuses objects above 1.5 MiB, of which JSON makes six times as much
    line_bytes: int = 16 * _MIB
    connect_s: float = 5.0


FEW = TransportLimits(concurrency=4)  # For what must not wait behind Bindings: Leases, keys, reviews


class Transport:
    """Exchanges with one API server; an async context manager, made inside a running event loop."""

    def __init__(
        self, server: ApiServer, *, limits: TransportLimits = TransportLimits(), agent: str = "netgang"
    ) -> None:
        most, connect_s = limits.concurrency, limits.connect_s
        proxied = server.proxy is not None or URL(server.url, encoded=True).raw_user is not None
        self._direct = None if proxied else DirectExchanges(server, concurrency=most, connect_s=connect_s, agent=agent)
        self.session = Session(server, concurrency=most, connect_s=connect_s, agent=agent)
        self.server = server
        self._limits = limits

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._direct is not None:
            await self._direct.close()
        await self.session.close()

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
        """One exchange; the body on success. Errors: ApiError by status; ApiUnavailableError: too late, too long."""
        exchange = partial(
            (self._direct or self.session).exchange,
            method,
            path,
            body=body,
            content_type=content_type,
            limit_bytes=self._limits.object_bytes if limit_bytes is None else limit_bytes,
        )
        with mapped(f"{method} {path}"):
            async with asyncio.timeout(timeout_s):
                authorization = await self.server.authorization.header()
                answer = await exchange(authorization=authorization)
                if answer.status == 401 and await self.server.authorization.after_refusal(authorization):
                    answer = await exchange(authorization=await self.server.authorization.header())
        if 200 <= answer.status < 300:
            return answer.body
        raise _error(answer)

    async def find(self, path: str, *, timeout_s: float) -> bytes | None:
        """GET one object; `None`: it, or its kind, does not exist. Errors: as `send`."""
        with suppress(NotFoundError):
            return await self.send("GET", path, timeout_s=timeout_s)
        return None

    async def lines(self, path: str, *, open_s: float) -> AsyncGenerator[bytes, None]:
        """GET an endless answer, line by line; close the generator to hang up. `open_s`: until the answer begins."""
        with mapped(f"GET {path}"):
            async with asyncio.timeout(open_s):
                response = await self._stream(path)
            async with response:
                if response.status != 200:
                    async with asyncio.timeout(open_s):
                        raise _error(await refused(response))
                chunks = response.content.iter_any()
                async with aclosing(split_lines(chunks, limit_bytes=self._limits.line_bytes)) as lines:
                    async for line in lines:
                        yield line

    async def _stream(self, path: str) -> aiohttp.ClientResponse:
        """The head of an answer; after a 401 that of one more try with a renewed token."""
        authorization = await self.server.authorization.header()
        response = await self.session.request("GET", path, authorization=authorization)
        if response.status != 401 or not await self.server.authorization.after_refusal(authorization):
            return response
        response.close()
        return await self.session.request("GET", path, authorization=await self.server.authorization.header())


async def split_lines(chunks: AsyncIterator[bytes], *, limit_bytes: int) -> AsyncGenerator[bytes, None]:
    """Whole, not empty lines of a stream. Errors: ApiUnavailableError: longer than `limit_bytes`. Cost: O(bytes)."""
    begun: list[bytes] = []  # pieces of the line that has no end yet
    size = 0
    async for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            _refuse_long(size + len(piece), limit_bytes)
            line = b"".join((*begun, piece)) if begun else piece
            begun.clear()
            size = 0
            if line:
                yield line
        if rest:
            begun.append(rest)
            size += len(rest)
            _refuse_long(size, limit_bytes)


def _refuse_long(size: int, limit_bytes: int) -> None:
    if size > limit_bytes:
        raise ApiUnavailableError(f"a line of the stream is longer than {limit_bytes} bytes")


def _error(answer: Answer) -> ApiError:
    return refusal(answer.status, answer.body, retry_after=answer.retry_after)


class DirectExchanges:
    """Exchanges without a proxy between; bound to one event loop; `close` it."""

    def __init__(self, server: ApiServer, *, concurrency: int, connect_s: float, agent: str) -> None:
        url = URL(server.url, encoded=True)
        tls = (server.tls or ssl.create_default_context()) if url.scheme == "https" else None
        at = url.raw_host or "", url.port or 0
        self._pool = Pool(*at, tls=tls, tls_name=server.tls_name, concurrency=concurrency, connect_s=connect_s)
        self.close = self._pool.close  # All connections; exchanges under way fail
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
