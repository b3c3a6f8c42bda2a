"""HTTP to the API server: one exchange, or one endless answer read line by line.

Why: what protects us from a bad network (time limits, size limits, bounded concurrency, a renewed token) has to hold
for every call, so it stands in one place and the calls above it say only what they want.
Rule: raw bytes in and out. At most `concurrency` exchanges at a time, the rest wait their turn; the time limit covers
that wait. Nothing is repeated here except after a 401, which means that nothing was done. Redirects and proxies of
the environment are not followed: the token goes to the configured server only. Exchanges go over connections of our
own (`exchange`), streams and whatever needs a configured proxy over aiohttp (`session`).
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self

import aiohttp
from yarl import URL

from extender.errors import ApiUnavailableError
from extender.kube.credentials import ApiServer
from extender.kube.http.connection import Answer
from extender.kube.http.exchange import DirectExchanges
from extender.kube.http.faults import mapped, refusal
from extender.kube.http.session import Session, refused

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class TransportLimits:
    """Bounds of one connection to the API server."""

    concurrency: int = 32  # 32 calls of 8 ms are 4,000/s; connections are opened as they are needed
    object_bytes: int = 16 * _MIB  # etcd refuses objects above 1.5 MiB, of which JSON makes six times as much
    line_bytes: int = 16 * _MIB
    connect_s: float = 5.0


class Transport:
    """Exchanges with one API server; an async context manager, bound to one event loop."""

    def __init__(self, server: ApiServer, *, limits: TransportLimits = TransportLimits(), agent: str) -> None:
        self._server = server
        self.limits = limits
        self._agent = agent
        self._opened: _Opened | None = None

    async def __aenter__(self) -> Self:
        server, most, connect_s = self._server, self.limits.concurrency, self.limits.connect_s
        direct: DirectExchanges | None = None
        if server.proxy is None and URL(server.url, encoded=True).raw_user is None:
            direct = DirectExchanges(server, concurrency=most, connect_s=connect_s, agent=self._agent)
        session = Session(server, concurrency=most, connect_s=connect_s, agent=self._agent)
        self._opened = _Opened(session, direct)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            if opened.direct is not None:
                await opened.direct.close()
            await opened.session.close()

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
        opened = self._open()
        exchange = partial(
            (opened.direct or opened.session).exchange,
            method,
            path,
            body=body,
            content_type=content_type,
            limit_bytes=self.limits.object_bytes if limit_bytes is None else limit_bytes,
        )
        with mapped(f"{method} {path}"):
            async with asyncio.timeout(timeout_s):
                authorization = await self._server.authorization.header()
                answer = await exchange(authorization=authorization)
                if answer.status == 401 and await self._server.authorization.after_refusal(authorization):
                    answer = await exchange(authorization=await self._server.authorization.header())
        if 200 <= answer.status < 300:
            return answer.body
        raise _error(answer)

    async def lines(self, path: str, *, open_s: float) -> AsyncGenerator[bytes, None]:
        """GET an answer that has no end, line by line without the line ends; close the generator to hang up.

        `open_s` limits the time until the answer begins; a silent stream is the reader's to notice.
        """
        with mapped(f"GET {path}"):
            async with asyncio.timeout(open_s):
                response = await self._stream(path)
            async with response:
                if response.status != 200:
                    async with asyncio.timeout(open_s):
                        raise _error(await refused(response))
                chunks = response.content.iter_any()
                async with aclosing(split_lines(chunks, limit_bytes=self.limits.line_bytes)) as lines:
                    async for line in lines:
                        yield line

    async def _stream(self, path: str) -> aiohttp.ClientResponse:
        """The head of an answer; after a 401 that of one more try with a renewed token."""
        session = self._open().session
        authorization = await self._server.authorization.header()
        response = await session.request("GET", path, authorization=authorization)
        if response.status != 401 or not await self._server.authorization.after_refusal(authorization):
            return response
        response.close()
        return await session.request("GET", path, authorization=await self._server.authorization.header())

    def _open(self) -> "_Opened":
        if self._opened is None:
            raise RuntimeError("the transport is not open: use it in `async with`")
        return self._opened


@dataclass(frozen=True, slots=True)
class _Opened:
    """What lives as long as the transport is open; `direct` is None where all goes through `session`."""

    session: Session
    direct: DirectExchanges | None


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


def _error(answer: Answer) -> Exception:
    return refusal(answer.status, answer.body, retry_after=answer.retry_after)
