"""Connections to one API server that are kept open and taken in turns.

Why: a gang's start is a burst of Bindings, nudges and patches, and a TLS handshake costs as much CPU as twenty of them.
Rule: at most `concurrency` connections, one exchange on each; a call that finds none free waits, first come, first
served, for whichever is ready first: one that another exchange leaves, or a new one. The first four are opened at once,
then one for every four that wait; while one waits their number doubles every 50 ms. So a quick API server is asked over
few connections, and a slow one over all. What was not used for a minute is closed. Nothing is repeated here, and
nothing limits time but that of opening: callers bring their limit and cancel.
"""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeAlias

from extender.kube.http.connection import READ_BYTES, Answer, Connection

_IDLE_CONNECTION_S = 60.0  # below the 90 s after which the API server closes an idle connection
_FEW = 4
_PATIENCE_S = 0.05  # some ten Bindings
_HANDSHAKE_S = 10.0  # as Go's clients

_Given: TypeAlias = Connection | BaseException


@dataclass(eq=False, repr=False)
class Pool:
    """Connections to one server, bound to one event loop; `close` it. `tls` is None for plain http."""

    host: str
    port: int
    _: KW_ONLY
    tls: ssl.SSLContext | None = None
    tls_name: str | None = None  # The name that its certificate must have, if it is not `host`
    concurrency: int
    connect_s: float
    idle_s: float = _IDLE_CONNECTION_S
    patience_s: float = _PATIENCE_S

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._open: set[Connection] = set()
        self._buffer = memoryview(bytearray(READ_BYTES))  # of all: a burst's connections cost nothing for a minute
        self._idle: list[Connection] = []  # the least recently used first
        self._waiting: deque[asyncio.Future[_Given]] = deque()
        self._opening: set[asyncio.Task[Connection]] = set()
        self._growth: asyncio.TimerHandle | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._open)

    async def exchange(self, request: bytes, *, limit_bytes: int) -> Answer:
        """As `Connection.exchange`, over some connection. Errors: OSError when there is no whole answer."""
        connection = await self._take()
        try:
            return await connection.exchange(request, limit_bytes=limit_bytes)
        finally:
            self._give(connection)

    async def close(self) -> None:
        """Close all connections and wait until they are closed; exchanges under way fail."""
        self._closed = True
        while self._pass_on(ConnectionAbortedError("the transport is closed")):
            pass
        for timer in (self._growth, self._sweep):
            if timer is not None:
                timer.cancel()
        for task in self._opening:
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        left = tuple(self._open)
        for connection in left:
            connection.abort()
        await asyncio.gather(*(connection.gone for connection in left))

    async def _take(self) -> Connection:
        """The connection that was used last, or the next one that gets ready. Errors: what opening one met with."""
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
        if self._closed:
            raise ConnectionAbortedError("the transport is closed")
        waiter: asyncio.Future[_Given] = self._loop.create_future()
        self._waiting.append(waiter)
        self._open_first()
        try:
            given = await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                with suppress(ValueError):
                    self._waiting.remove(waiter)
            elif isinstance(given := waiter.result(), Connection):
                self._give(given)  # it came together with the cancellation
            raise
        if isinstance(given, Connection):
            return given
        raise given

    def _give(self, connection: Connection) -> None:
        if not connection.usable or self._pass_on(connection):
            return
        if self._closed:
            return connection.abort()
        connection.idle_since_s = self._loop.time()
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep = self._loop.call_later(self.idle_s, self._close_idle)

    def _pass_on(self, given: _Given) -> bool:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(given)
                return True
        return False

    def _open_first(self) -> None:
        """Have as many connections opened as the waiting calls are worth; more only if that does not help soon."""
        worth = max(_FEW, (len(self._waiting) + len(self._open)) // _FEW)
        self._open_some(worth - len(self._open) - len(self._opening))
        if self._waiting and self._growth is None:
            self._growth = self._loop.call_later(self.patience_s, self._open_more)

    def _open_more(self) -> None:
        """Calls wait still, or again: have as many more opened as there are."""
        self._growth = None
        self._open_some(len(self._open) + len(self._opening))
        self._open_first()

    def _open_some(self, count: int) -> None:
        busy = len(self._opening)
        for _ in range(min(count, len(self._waiting) - busy, self.concurrency - len(self._open) - busy)):
            task = self._loop.create_task(self._opened())
            self._opening.add(task)
            task.add_done_callback(self._ready)

    def _ready(self, task: asyncio.Task[Connection]) -> None:
        """A connection is open: for a waiter. Or it cannot be opened: one waiter learns why, the next gets a try."""
        self._opening.discard(task)
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            self._pass_on(error)
        elif (connection := task.result()).usable:
            self._give(connection)
        else:  # as load balancers do that have nothing behind them
            self._pass_on(ConnectionResetError(f"{self.host}:{self.port} closed a new connection"))
        self._open_first()

    async def _opened(self) -> Connection:
        """A new connection, to the first of the host's addresses that takes it; they share the time for connecting."""
        try:
            async with asyncio.timeout(self.connect_s):
                found = await self._loop.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            connected = await self._connected([(family, address) for family, _, _, _, address in found])
            _, connection = await self._loop.create_connection(
                lambda: Connection(self._gone, self._buffer),
                sock=connected,
                ssl=self.tls,
                server_hostname=(self.tls_name or self.host.rstrip(".")) if self.tls is not None else None,
                ssl_handshake_timeout=_HANDSHAKE_S if self.tls is not None else None,
            )
        except TimeoutError as error:
            raise TimeoutError(f"cannot connect to {self.host}:{self.port} in {self.connect_s:g} s") from error
        except (OSError, UnicodeError) as error:  # the latter: no name of a host
            raise ConnectionError(f"cannot connect to {self.host}:{self.port}: {error}") from error
        if not connection.gone.done():
            self._open.add(connection)
        return connection

    async def _connected(self, addresses: Sequence[tuple[int, Any]]) -> socket.socket:
        failed: OSError | None = None
        for family, address in addresses:
            one = socket.socket(family, socket.SOCK_STREAM)
            try:
                one.setblocking(False)
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                async with asyncio.timeout(self.connect_s / len(addresses)):
                    await self._loop.sock_connect(one, address)
                return one
            except BaseException as error:
                one.close()
                if not isinstance(error, OSError):
                    raise
                failed = error
        raise failed or OSError("the host has no address")

    def _gone(self, connection: Connection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._open_first()

    def _close_idle(self) -> None:
        """Close what was idle too long; come back when the next one will have been."""
        self._sweep = None
        now_s = self._loop.time()
        while self._idle and self._idle[0].idle_since_s <= now_s - self.idle_s:
            self._idle.pop(0).abort()
        if self._idle:
            due_s = self._idle[0].idle_since_s + self.idle_s
            self._sweep = self._loop.call_at(due_s, self._close_idle)
