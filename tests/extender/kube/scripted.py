"""An API server that says exactly what a test wants, byte by byte, over TCP or TLS."""

import asyncio
import re
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import msgspec


def ok(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


OK = ok(b"ok")


class Talk(msgspec.Struct):
    """The server's end of one connection; connections are numbered from 1."""

    number: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    server: "Scripted"

    async def request(self) -> tuple[str, bytes]:
        """The next request: its head as text, and its body. IncompleteReadError when the client hung up."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        length = re.search(r"\r\nContent-Length: (\d+)\r\n", head)
        body = await self.reader.readexactly(int(length[1])) if length else b""
        self.server.requests.append((head, body))
        self.server.arrival.set()
        return head, body

    async def say(self, *parts: bytes) -> None:
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()
            await asyncio.sleep(0)

    async def hung_up(self) -> None:
        with suppress(ConnectionError):
            while await self.reader.read(65536):
                pass

    async def reset(self) -> None:
        plain = self.writer.get_extra_info("socket")
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Script: TypeAlias = Callable[[Talk], Awaitable[None]]


class Scripted(msgspec.Struct):
    url: str = ""
    connections: int = 0
    requests: list[tuple[str, bytes]] = []
    arrival: asyncio.Event = msgspec.field(default_factory=asyncio.Event)  # set by each request
    release: asyncio.Event = msgspec.field(default_factory=asyncio.Event)  # for scripts that wait for the test


@asynccontextmanager
async def scripted(
    script: Script, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncGenerator[Scripted, None]:
    """Run `script` for each connection, for the time of an `async with`; a script that ends closes its connection."""
    found = Scripted()
    busy: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        busy.add(task)
        found.connections += 1
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await script(Talk(found.connections, reader, writer, found))
        finally:
            busy.discard(task)
            writer.close()
            with suppress(ConnectionError, ssl.SSLError, asyncio.CancelledError):
                await writer.wait_closed()

    server = await asyncio.start_server(serve, host, 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    found.url = f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
    try:
        yield found
    finally:
        server.close()
        for task in tuple(busy):
            task.cancel()
        await asyncio.gather(*busy, return_exceptions=True)
        await server.wait_closed()


def answering(*parts: bytes, then: Script | None = None, later: Script | None = None) -> Script:
    """Answer the first request with these parts and do `then`; connections after the first do `later`."""

    async def script(talk: Talk) -> None:
        if later is not None and talk.number > 1:
            await later(talk)
        await talk.request()
        await talk.say(*parts)
        if then is not None:
            await then(talk)

    return script


async def always_ok(talk: Talk) -> None:
    while True:
        await talk.request()
        await talk.say(OK)
