"""One HTTP/1.1 connection to the API server: a request is written, its answer is read, one at a time.

Why: what a general HTTP client does around a Binding costs several times the CPU of the exchange itself. Reading into a
buffer of our own matters most: for a protocol without one the TLS layer of uvloop makes and shrinks 256 KiB for each
read.
Rule: an answer counts when all of it is there, by its length, its chunks, or (where it has neither) an orderly end of
the connection. A connection is used again only after a whole answer that leaves it open and has nothing behind it;
whatever else happens (an error, a caller that waits no more, bytes that no request asked for) closes it.
"""

import asyncio
import struct
from collections.abc import Callable
from contextlib import suppress
from socket import SO_LINGER, SOL_SOCKET
from typing import Final, TypeAlias, cast

import msgspec
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

READ_BYTES: Final = 64 * 1024  # Of a buffer to read into: four TLS records
_HEAD_BYTES = 64 * 1024  # May come without any of a body: head, interim answers, chunk marks, trailers
_ERROR_BODY_BYTES = 64 * 1024
_NOT_A_MOMENT = struct.pack("ii", 1, 0)  # SO_LINGER: closing drops what is not sent, and says so with a reset
_LENGTH, _CODING, _RETRY_AFTER = b"content-length", b"transfer-encoding", b"retry-after"
_HEADERS = frozenset((_LENGTH, _CODING, _RETRY_AFTER))


class Answer(msgspec.Struct, frozen=True):
    """What the API server said; `retry_after` is that header's value. The body of a failure may be cut."""

    status: int
    body: bytes
    retry_after: str = ""


Outcome: TypeAlias = Answer | OSError


class LongAnswerError(ConnectionError):
    """A successful answer has a body above the limit; the connection was given up for it."""


class Connection(asyncio.BufferedProtocol):
    """One open connection; `lost` is called once when it is gone. HEAD is not supported: its answer has no body."""

    def __init__(self, lost: Callable[["Connection"], None], buffer: memoryview) -> None:
        """`buffer`: where bytes arrive; connections of one event loop may share it, see `get_buffer`."""
        self.idle_since_s = 0.0  # For the owner: when it was last used, on the loop's clock
        self.gone = asyncio.get_running_loop().create_future()
        self._lost = lost
        self._buffer = buffer
        self._transport: asyncio.Transport | None = None
        self._parser = HttpResponseParser(self)
        self._waiter: asyncio.Future[Outcome] | None = None
        self._limit_bytes = 0
        self._begin()

    @property
    def usable(self) -> bool:
        """Whether an exchange may begin."""
        return self._transport is not None and self._waiter is None and not self._transport.is_closing()

    async def exchange(self, request: bytes, *, limit_bytes: int) -> Answer:
        """Send a whole request, wait for its whole answer. OSError: there is none, or a success above `limit_bytes`.

        That of a failure is cut at 64 KiB instead. A cancelled wait closes the connection.
        """
        transport = self._transport
        if transport is None or self._waiter is not None:
            raise ConnectionResetError("the connection is closed or in use")
        self._begin()
        self._limit_bytes = limit_bytes
        waiter = self._waiter = self.gone.get_loop().create_future()
        transport.write(request)
        try:
            outcome = await waiter
        except asyncio.CancelledError:
            self.abort()
            raise
        if isinstance(outcome, Answer):
            return outcome
        raise outcome

    def abort(self) -> None:
        """Close at once; an exchange under way fails, and what of it is not sent yet is not sent any more.

        The kernel would go on trying for minutes, and a Binding given up with a lease arrive after another leads.
        """
        if self._transport is not None and self._waiter is not None:
            with suppress(OSError):  # it is closed already
                self._transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, _NOT_A_MOMENT)
        self._fail(ConnectionAbortedError("the connection was given up"))

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open, TLS included."""
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where to put what arrives: the loop asks, reads, and calls `buffer_updated` with nothing in between."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes have arrived."""
        if self._waiter is None:
            self.abort()  # no request asked: the next answer on this connection could not be trusted
            return
        self._silent_bytes += nbytes
        try:
            self._parser.feed_data(self._buffer[:nbytes])
        except (HttpParserError, HttpParserUpgrade) as error:
            self._fail(ConnectionError(f"not an answer of HTTP/1.1: {error}"), cause=error)
        if self._silent_bytes > _HEAD_BYTES:
            self._fail(ConnectionError(f"more than {_HEAD_BYTES} bytes of an answer without one of its body"))

    def eof_received(self) -> None:
        """The server closed its side: the end of an answer that has no other, or too early."""
        if self._status and self._headers.keys().isdisjoint((_LENGTH, _CODING)):
            self._answered(stays_open=False)
        else:
            self._cut_off(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed, by either side. Without `eof_received` before (TLS: close_notify) that is no orderly end."""
        self._cut_off(exc)
        if not self.gone.done():
            self.gone.set_result(None)
            self._lost(self)

    # What the parser calls

    def on_message_begin(self) -> None:
        """An answer begins: ours, or one too many."""
        if self._waiter is None:
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header, or a trailer."""
        lower = name.lower()
        if lower in _HEADERS:
            self._headers[lower] = value

    def on_headers_complete(self) -> None:
        """The head is there; one of an interim answer is forgotten."""
        status = self._parser.get_status_code()
        if status == 101:
            self._fail(ConnectionError("the API server wants to switch protocols"))
        elif status < 200:
            self._headers.clear()
        else:
            self._status = status
            self._stays_open = self._parser.should_keep_alive()
            if 200 <= status < 300 and int(self._headers.get(_LENGTH, b"0")) > self._limit_bytes:
                self._too_long()

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if self._waiter is None:
            return  # given up, or answered; the rest of what was read with it
        self._silent_bytes = 0
        self._parts.append(body)
        self._size += len(body)
        if 200 <= self._status < 300:
            if self._size > self._limit_bytes:
                self._too_long()
        elif self._size >= _ERROR_BODY_BYTES:
            self._answered(stays_open=False)

    def on_message_complete(self) -> None:
        """The answer is there, or it was an interim one."""
        if self._status:
            self._answered(stays_open=self._stays_open)

    # Ends of an exchange

    def _begin(self) -> None:
        self._headers: dict[bytes, bytes] = {}
        self._status = 0  # of the final answer; 0: its head is not complete
        self._stays_open = False
        self._silent_bytes = 0
        self._parts: list[bytes] = []
        self._size = 0

    def _answered(self, *, stays_open: bool) -> None:
        waiter, self._waiter = self._waiter, None
        if not stays_open:
            self._drop()
        if waiter is not None and not waiter.done():
            parts = self._parts
            body = parts[0] if len(parts) == 1 else b"".join(parts)
            waiter.set_result(Answer(self._status, body, self._headers.get(_RETRY_AFTER, b"").decode("latin-1")))

    def _fail(self, error: OSError, *, cause: BaseException | None = None) -> None:
        """The caller gets this error, unless it has its answer already; the connection is closed."""
        waiter, self._waiter = self._waiter, None
        self._drop()
        if waiter is not None and not waiter.done():
            error.__cause__ = cause
            waiter.set_result(error)

    def _drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def _too_long(self) -> None:
        self._fail(LongAnswerError(f"answer longer than {self._limit_bytes} bytes"))

    def _cut_off(self, cause: Exception | None) -> None:
        begun = "in the middle of" if self._silent_bytes or self._size else "before"
        why = f": {cause}" if cause is not None else ""
        self._fail(ConnectionResetError(f"the API server closed the connection {begun} its answer{why}"), cause=cause)
