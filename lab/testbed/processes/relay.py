"""TCP between two parts, by way of the test: one address for a service with several processes, or a cable to cut.

Why: a Service has one address and leads new connections to the process chosen then, without a look into them; and a
process that is cut off from the API server must notice it as in a real network, by silence and not by an error.
Rule: bytes pass unchanged. Where a connection leads is asked once, when it is made; it stays there, as with kube-proxy.
A blocked relay closes nothing, and what was sent arrives when it is open again, unless its sender has hung up since.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from lab.testbed.processes.network import LOOPBACK

_CHUNK_BYTES = 65536

Target = Callable[[], int | None]
"""The loopback port to which a new connection leads; `None`: to none, so that it is refused"""


class Relay:
    """One listening port. Use `relay`."""

    def __init__(self, target: Target) -> None:
        self.port = 0
        self._target = target
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: set[asyncio.Task[None]] = set()

    def block(self) -> None:
        """Let nothing through, in neither direction, on old connections and new ones."""
        self._open.clear()

    def unblock(self) -> None:
        """Let everything through again, what was sent meanwhile first."""
        self._open.set()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry a new connection until one of its ends closes."""
        task = asyncio.create_task(self._carry(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._open.wait()
            port = self._target()
            if port is None:
                return
            with suppress(OSError):
                far_reader, far_writer = await asyncio.open_connection(LOOPBACK, port)
                ways = [asyncio.ensure_future(self._copy(*way)) for way in ((reader, far_writer), (far_reader, writer))]
                try:  # until one end is through: HTTP leaves no connection half open
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in ways:
                        way.cancel()
                    await asyncio.gather(*ways, return_exceptions=True)
                    far_writer.close()
        finally:
            writer.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK_BYTES):
                await self._open.wait()
                if reader.exception() is not None:
                    return  # reset meanwhile: a real cable would have lost this
                writer.write(data)
                await writer.drain()

    async def end(self) -> None:
        """Drop all connections."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def relay(target: Target, *, listening: socket.socket | None = None) -> AsyncIterator[Relay]:
    """A relay on a free loopback port, or on this socket of another network namespace; gone with the block."""
    made = Relay(target)
    if listening is None:
        server = await asyncio.start_server(made.accept, LOOPBACK, 0)
    else:
        server = await asyncio.start_server(made.accept, sock=listening)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        await made.end()
