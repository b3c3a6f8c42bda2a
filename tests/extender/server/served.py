"""The app behind the real server."""

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from extender.bootstrap.serve import PortServer, port_config
from extender.convert.wire import BindArgs
from extender.runtime.telemetry import Telemetry
from extender.server.app import VerbsApp
from scoring.model.reasons import Reason
from tests.fakes.verbs import ARGS, BINDING, FakeVerbs, FakeViews

NODES = [f"node-{i:05d}.example.com" for i in range(5000)]
ASK, BIND = json.dumps(ARGS | {"NodeNames": NODES}).encode(), json.dumps(BINDING).encode()
CERTIFICATE = Path(__file__).parents[2] / "fixtures" / "tls" / "loopback.crt"


async def call(
    app: ASGIApp, verb: str, chunks: Iterable[bytes], *, headers: Sequence[tuple[bytes, bytes]] = ()
) -> list[Any]:
    """POST chunk by chunk, then hang up; the messages sent. A list is a whole body, an iterator may go on."""
    last = len(chunks) if isinstance(chunks, list) else None
    pieces, sent = enumerate(chunks, start=1), list[Any]()

    async def receive() -> Any:
        for count, piece in pieces:
            return {"type": "http.request", "body": piece, "more_body": count != last}
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": f"/{verb}", "query_string": b"", "headers": list(headers)}
    await app(scope, receive, send)
    return sent


@dataclass
class Connection:
    """One connection that speaks HTTP/1.1 as Go's client does."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, verb: str, body: bytes) -> None:
        head = f"POST /{verb} HTTP/1.1\r\nHost: netgang\r\nContent-Length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)

    async def _read(self) -> tuple[str, bytes]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        size = int(head.partition("content-length: ")[2].split("\r\n", 1)[0])
        return head, await self.reader.readexactly(size)

    async def reply(self) -> tuple[str, Any]:
        """Headers (lower case) and decoded body of the next reply."""
        head, body = await self._read()
        return head, json.loads(body)

    async def post(self, verb: str, body: bytes) -> tuple[str, Any]:
        self.send(verb, body)
        return await self.reply()

    async def get(self, path: str) -> str:
        self.writer.write(f"GET {path} HTTP/1.1\r\nHost: netgang\r\n\r\n".encode())
        return (await self._read())[0]

    def hang_up(self) -> None:
        self.writer.transport.abort()


class Server(PortServer):
    """A port as `netgang serve` has it, which reports when it listens, and ends at once."""

    def __init__(self, setting: str, config: uvicorn.Config) -> None:
        super().__init__(setting, config)
        self.listening = asyncio.Event()
        self.ending = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self.ending.wait()

    @property
    def url(self) -> str:
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        return f"{'https' if self.config.is_ssl else 'http'}://{host}:{port}"


@asynccontextmanager
async def listening(config: uvicorn.Config, *, setting: str = "port") -> AsyncIterator[Server]:
    server = Server(setting, config)
    serving = asyncio.create_task(server.serve(), name=setting)
    await server.listening.wait()
    try:
        yield server
    finally:
        server.ending.set()
        await serving


@dataclass
class Served:
    """The app as it is served, clients of it, and what tests look at."""

    server: Server
    telemetry: Telemetry
    secured: ssl.SSLContext | None
    clients: list[Connection] = field(default_factory=list)

    async def connect(self) -> Connection:
        port = self.server.servers[0].sockets[0].getsockname()[1]
        streams = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20, ssl=self.secured)
        self.clients.append(Connection(*streams))
        return self.clients[-1]

    def counted(self, verb: str, outcome: str) -> float:
        labels = {"verb": verb, "outcome": outcome}
        return self.telemetry.registry.get_sample_value("netgang_requests_total", labels) or 0.0

    async def until(self, true: Callable[[], bool]) -> None:
        while not true():  # noqa: ASYNC110 - uvicorn reports nothing
            await asyncio.sleep(0.001)


@asynccontextmanager
async def serving(verbs: FakeVerbs | None = None, *, tls: bool = False, **app: Any) -> AsyncIterator[Served]:
    """The verbs' port; `app`: options of `VerbsApp`."""
    telemetry, secured, context = Telemetry(), None, None
    if tls:
        context, secured = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=str(CERTIFICATE))
        context.load_cert_chain(CERTIFICATE, CERTIFICATE.with_suffix(".key"))
        secured.check_hostname = False
    made = VerbsApp(verbs or FakeVerbs(), FakeViews(), telemetry, **app)
    async with listening(port_config(made, "127.0.0.1", 0, verbs=True, tls=context)) as server:
        served = Served(server, telemetry, secured)
        try:
            yield served
        finally:
            for client in served.clients:
                client.writer.transport.abort()


class Holding(FakeVerbs):
    """Holds /bind until released; shows what it holds and what it dropped."""

    def __init__(self) -> None:
        super().__init__(on_bind=self._hold)
        self.held, self.released, self.dropped = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def _hold(self, args: BindArgs, gone: asyncio.Future[None]) -> Reason | None:
        self.held.set()
        released = asyncio.ensure_future(self.released.wait())
        either: list[asyncio.Future[Any]] = [released, gone]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        released.cancel()
        if gone.done():
            self.dropped.set()
            return Reason.POD_CHANGED
        return None
