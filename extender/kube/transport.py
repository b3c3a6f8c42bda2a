"""HTTP to the API server: one exchange, or one endless answer read line by line; raw bytes in and out.

Rule: what protects us from a bad network holds for every call, so it stands here. At most `concurrency` exchanges at a
time, the rest wait their turn, within their time limit; streams take no turn. No call is repeated except after a 401,
which means that nothing was done. Redirects and proxies of the environment are not followed: the token goes to the
configured server only. pyreqwest keeps connections, TLS and HTTP/1.1 on a thread of its own; a call that is cancelled
goes on there until its time is over, so calls wait for their turn, each with a time (docs/developers/decisions.md).
Errors: an answer with a failure status is ApiError or one of its kinds, no usable answer ApiUnavailableError, because
then it is unknown whether the request took effect.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AsyncExitStack, aclosing, contextmanager, suppress
from datetime import timedelta
from http import HTTPStatus
from typing import Final, Self

import msgspec
from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import DetailedPyreqwestError, PyreqwestError
from pyreqwest.http import Url
from pyreqwest.proxy import ProxyBuilder
from pyreqwest.response import Response

from extender.errors import ApiError, ApiUnavailableError, ConflictError, GoneError, NotFoundError, TooLongError
from extender.kube.credentials import ApiServer

_OBJECT_BYTES: Final = 16 * 2**20  # Also of a line; etcd refuses objects above 1.5 MiB, JSON makes six times as much
CALLS_AT_ONCE: Final = 32  # 32 calls of 8 ms are 4,000/s; connections are opened as they are needed
FEW: Final = 4  # For what must not wait behind Bindings: Leases, the started gangs, reviews


def client_of(server: ApiServer, *, agent: str = "netgang") -> Client:
    """A client of pyreqwest for one API server, with its trust and identity; close it."""
    builder = (
        ClientBuilder()
        .no_proxy()
        .follow_redirects(False)
        .referer(False)
        .user_agent(agent)
        # gzip would cost both sides more CPU than a cluster's network costs time.
        .default_headers({"Accept": "application/json", "Accept-Encoding": "identity"})
        .connect_timeout(timedelta(seconds=5))
        .pool_idle_timeout(timedelta(seconds=60))  # The API server closes an idle connection after 90 s
        # The kernel drops what is not taken by then: it must not arrive when another leads (docs/safety.md S16)
        .tcp_user_timeout(timedelta(seconds=5))
        .read_timeout(timedelta(seconds=150))  # Longer than any watch may be silent
    )
    if server.proxy is not None:
        builder = builder.proxy(ProxyBuilder.all(server.proxy))
    return server.tls.built(builder)


class Transport:
    """Exchanges with one API server; an async context manager, made inside a running event loop."""

    def __init__(self, server: ApiServer, *, concurrency: int = CALLS_AT_ONCE, agent: str = "netgang") -> None:
        self._server, self._client = server, client_of(server, agent=agent)
        self._base = str(Url(server.url)).rstrip("/")
        self._turns = asyncio.Semaphore(concurrency)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def send(
        self,
        method: str,
        path: str,
        *,
        timeout_s: float,
        body: bytes | None = None,
        content_type: str = "application/json",
        limit_bytes: int = _OBJECT_BYTES,
    ) -> bytes:
        """One exchange; the body on success. Errors: ApiError by status; ApiUnavailableError: too late, too long."""
        ends_s = asyncio.get_running_loop().time() + timeout_s
        with mapped(f"{method} {path}"):
            async with asyncio.timeout_at(ends_s), self._turns, AsyncExitStack() as hanging_up:
                response = await self._answered(method, path, hanging_up, body, content_type, ends_s=ends_s)
                answer = bytearray()
                async for chunk in _chunks(response):
                    answer += chunk
                    if len(answer) > limit_bytes:
                        raise TooLongError(f"answer longer than {limit_bytes} bytes")
                return bytes(answer)

    async def find(self, path: str, *, timeout_s: float) -> bytes | None:
        """GET one object; `None`: it, or its kind, does not exist. Errors: as `send`."""
        with suppress(NotFoundError):
            return await self.send("GET", path, timeout_s=timeout_s)
        return None

    async def lines(self, path: str, *, open_s: float) -> AsyncGenerator[bytes, None]:
        """GET an endless answer, line by line; close the generator to hang up. `open_s`: until the answer begins."""
        with mapped(f"GET {path}"):
            async with AsyncExitStack() as hanging_up:
                async with asyncio.timeout(open_s):
                    response = await self._answered("GET", path, hanging_up)
                async with aclosing(split_lines(_chunks(response), limit_bytes=_OBJECT_BYTES)) as lines:
                    async for line in lines:
                        yield line

    async def _answered(
        self,
        method: str,
        path: str,
        hanging_up: AsyncExitStack,
        body: bytes | None = None,
        content_type: str = "",
        *,
        ends_s: float | None = None,
    ) -> Response:
        """The head of a successful answer; after a 401 that of one more try with a renewed token. Errors: ApiError."""
        url = Url(self._base + path)
        if str(url) != self._base + path:  # it means another one, perhaps outside the server's URL
            raise ValueError(f"not a path: {path!r}")
        for tries_left in (1, 0):
            request = self._client.request(method, url)
            if body is not None:
                request = request.header("Content-Type", content_type).body_bytes(body)
            if authorization := await self._server.authorization.header():
                request = request.header("Authorization", authorization, is_sensitive=True)
            if ends_s is None:
                request = request.streamed_read_buffer_limit(0)  # a watch's head comes at once; a short answer with it
            else:
                request = request.timeout(timedelta(seconds=max(ends_s - asyncio.get_running_loop().time(), 0.0)))
            response = await hanging_up.enter_async_context(request.build_streamed())
            unauthorized = response.status == HTTPStatus.UNAUTHORIZED and tries_left
            if not (unauthorized and await self._server.authorization.renewed(authorization)):
                break
        if HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
            return response
        answer = await response.body_reader.read(64 * 1024)  # Enough for a Status
        raise refusal(response.status, bytes(answer or b""), retry_after=response.get_header("Retry-After") or "")


async def _chunks(response: Response) -> AsyncIterator[bytes]:
    while (chunk := await response.body_reader.read_chunk()) is not None:
        yield bytes(chunk)


async def split_lines(chunks: AsyncIterator[bytes], *, limit_bytes: int) -> AsyncGenerator[bytes, None]:
    """Whole, not empty lines of a stream. Errors: ApiUnavailableError: longer than `limit_bytes`. Cost: O(bytes)."""
    begun: list[bytes] = []  # pieces of the line that has no end yet
    size = 0
    async for chunk in chunks:
        for number, piece in enumerate(chunk.split(b"\n")):
            if number:
                if line := b"".join(begun):
                    yield line
                begun, size = [], 0
            begun.append(piece)
            size += len(piece)
            if size > limit_bytes:
                raise ApiUnavailableError(f"a line of the stream is longer than {limit_bytes} bytes")


class _Details(msgspec.Struct):
    retry_after_s: float = msgspec.field(name="retryAfterSeconds", default=0.0)


class _RefusalStatus(msgspec.Struct):
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


def refusal(status: int, body: bytes, *, retry_after: str = "") -> ApiError:
    """The error that a failure means; `body`: a Status or text. The longer of `retry_after` and its delay counts."""
    read = _decode(body)
    message = (read.message or read.reason)[:500] or "no reason given"  # a Status can quote a whole object
    delays_s = [float(retry_after)] if retry_after.isascii() and retry_after.isdigit() else []
    if read.details is not None and read.details.retry_after_s > 0.0:
        delays_s.append(read.details.retry_after_s)
    delay_s = min(max(delays_s), 600.0) if delays_s else None  # a broken header must not put us to sleep for days
    kind = {404: NotFoundError, 409: ConflictError, 410: GoneError}.get(status, ApiError)
    return kind(status, message, retry_after_s=delay_s, body=body)


def refusal_in_stream(body: bytes) -> ApiError:
    """The error that the Status inside a watch's ERROR event means; without a readable code it counts as 500."""
    code = _decode(body).code
    return refusal(code if code >= 400 else 500, body)


@contextmanager
def mapped(request: str) -> Iterator[None]:
    """Run one exchange; every failure to get a usable answer leaves as ApiUnavailableError naming `request`."""
    try:
        yield
    except TooLongError as error:
        raise TooLongError(f"{request}: {error}") from error
    except (PyreqwestError, TimeoutError, msgspec.MsgspecError) as error:
        why = "no answer in time" if isinstance(error, TimeoutError) else str(error)
        if isinstance(error, DetailedPyreqwestError) and not isinstance(error, TimeoutError):
            causes = error.details["causes"] or ()  # the innermost names address, certificate or size
            why = ": ".join(dict.fromkeys([error.message, *(cause["message"] for cause in causes[1:])]))
        raise ApiUnavailableError(f"{request}: {why}") from error


def _decode(body: bytes) -> _RefusalStatus:
    try:
        return msgspec.json.decode(body, type=_RefusalStatus)
    except msgspec.MsgspecError:  # plain text
        return _RefusalStatus(body.decode("utf-8", "replace").strip())
