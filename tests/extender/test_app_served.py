"""The app behind the real server, on the loopback: what in-process calls cannot show about connections."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import uvicorn

from extender.app import create_app
from extender.telemetry import Telemetry
from extender.wire import BindArgs
from tests.fakes.verbs import FakeVerbs, FakeViews

ARGS = {
    "Pod": {"metadata": {"name": "p", "namespace": "team-a", "uid": "u1"}},
    "Nodes": None,
    "NodeNames": [f"node-{i:05d}.example.com" for i in range(5000)],
}
BINDING = {"PodName": "p", "PodNamespace": "team-a", "PodUID": "u1", "Node": "n1"}


@dataclass
class Connection:
    """One connection that speaks HTTP/1.1 as Go's client does."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def post(self, verb: str, body: bytes, *, declared_bytes: int | None = None) -> tuple[str, dict[str, object]]:
        """Headers (lower case) and decoded body of the reply to one request."""
        length = len(body) if declared_bytes is None else declared_bytes
        self.writer.write(f"POST /{verb} HTTP/1.1\r\nHost: netgang\r\nContent-Length: {length}\r\n\r\n".encode() + body)
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        size = int(head.partition("content-length: ")[2].split("\r\n", 1)[0])
        return head, json.loads(await self.reader.readexactly(size))

    def hang_up(self) -> None:
        """Break the connection off."""
        self.writer.transport.abort()


class Server(uvicorn.Server):
    """The server, which also tells when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then tell."""
        await super().startup(sockets)
        self.listening.set()


@asynccontextmanager
async def served(verbs: FakeVerbs, *, body_timeout_s: float = 5.0) -> AsyncIterator[Connection]:
    """A connection to the app, served as in production."""
    app = create_app(verbs, FakeViews(), Telemetry(), max_body_bytes=1_000_000, body_timeout_s=body_timeout_s)
    config = uvicorn.Config(app, host="127.0.0.1", port=0, http="httptools", access_log=False, log_level="warning")
    server = Server(config)
    serving = asyncio.create_task(server.serve())
    await server.listening.wait()
    port = server.servers[0].sockets[0].getsockname()[1]
    connection = Connection(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 20))
    try:
        yield connection
    finally:
        connection.writer.close()
        server.should_exit = True
        await serving


async def test_one_connection_serves_many_calls() -> None:
    """Replies of known length keep the connection, for large requests too."""
    verbs = FakeVerbs()
    async with served(verbs) as connection:
        for _ in range(3):
            head, reply = await connection.post("filter", json.dumps(ARGS).encode())
            assert head.startswith("http/1.1 200 ok\r\n")
            assert reply["NodeNames"] == ARGS["NodeNames"][::2]  # type: ignore[index]
        assert (await connection.post("bind", json.dumps(BINDING).encode()))[1] == {"Error": ""}
    assert (len(verbs.filtered), len(verbs.bound)) == (3, 1)


async def test_a_malformed_body_keeps_the_connection() -> None:
    """A request that was read whole costs no connection, whatever is in it."""
    async with served(FakeVerbs()) as connection:
        assert (await connection.post("filter", b"hello"))[1]["Error"]
        assert (await connection.post("bind", json.dumps(BINDING).encode()))[1] == {"Error": ""}


@pytest.mark.parametrize("verb", ["filter", "bind"])
async def test_a_body_that_is_not_read_ends_the_connection(verb: str) -> None:
    """Too large by its own word: answered at once, then closed, because what follows cannot be told from a request."""
    async with served(FakeVerbs()) as connection:
        head, reply = await connection.post(verb, b"{", declared_bytes=1_000_001)
        assert "larger than 1000000 bytes" in str(reply["Error"])
        assert "connection: close" in head
        assert await connection.reader.read() == b""


async def test_a_body_that_does_not_come_ends_the_connection() -> None:
    """A caller that stops in the middle is answered and let go."""
    async with served(FakeVerbs(), body_timeout_s=0.05) as connection:
        _, reply = await connection.post("filter", b'{"Pod":', declared_bytes=100)
        assert "did not arrive within 0.05 s" in str(reply["Error"])
        assert await connection.reader.read() == b""


async def test_a_held_bind_learns_of_a_broken_connection() -> None:
    """kube-scheduler's death reaches the held call at once, so that nothing is bound for nobody."""
    held, dropped = asyncio.Event(), asyncio.Event()

    async def hold(args: BindArgs, gone: asyncio.Future[None]) -> None:
        held.set()
        await gone
        dropped.set()

    async with served(FakeVerbs(on_bind=hold)) as connection:
        call = asyncio.create_task(connection.post("bind", json.dumps(BINDING).encode()))
        await held.wait()
        connection.hang_up()
        await dropped.wait()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await call
