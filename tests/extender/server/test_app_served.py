"""The app behind the real server, on the loopback: what in-process calls cannot show about connections.

Each fact holds whoever reads the bytes, uvicorn's own protocol or ours, on asyncio's event loop and on the one that is
used in production.
"""

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import uvicorn
import uvloop

from extender.convert.wire import BindArgs
from extender.runtime.telemetry import Telemetry
from extender.server.app import App, create_app
from extender.server.verb_protocol import VerbProtocol
from scoring.model.reasons import Reason
from tests.fakes.verbs import FakeVerbs, FakeViews

ARGS = {
    "Pod": {"metadata": {"name": "p", "namespace": "team-a", "uid": "u1"}},
    "Nodes": None,
    "NodeNames": [f"node-{i:05d}.example.com" for i in range(5000)],
}
BINDING = {"PodName": "p", "PodNamespace": "team-a", "PodUID": "u1", "Node": "n1"}
ASK = json.dumps(ARGS).encode()
BIND = json.dumps(BINDING).encode()
CERTIFICATE = Path(__file__).parents[2] / "fixtures" / "tls" / "loopback.crt"
MAX_BODY_BYTES = 1_000_000


@dataclass
class Connection:
    """One connection that speaks HTTP/1.1 as Go's client does."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, verb: str, body: bytes, *more: str, declared_bytes: int | None = None) -> None:
        """Send a request, or as much of it as `body` is; `more`: header lines."""
        length = len(body) if declared_bytes is None else declared_bytes
        head = "\r\n".join([f"POST /{verb} HTTP/1.1", "Host: netgang", f"Content-Length: {length}", *more])
        self.writer.write(head.encode() + b"\r\n\r\n" + body)

    async def reply(self) -> tuple[str, Any]:
        """Headers (lower case) and decoded body of the next reply."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        size = int(head.partition("content-length: ")[2].split("\r\n", 1)[0])
        return head, json.loads(await self.reader.readexactly(size))

    async def post(self, verb: str, body: bytes, *more: str, declared_bytes: int | None = None) -> tuple[str, Any]:
        """Headers and decoded body of the reply to one request."""
        self.send(verb, body, *more, declared_bytes=declared_bytes)
        return await self.reply()

    async def get(self, path: str) -> str:
        """Headers (lower case) of the reply to a GET, whose body is read too."""
        self.writer.write(f"GET {path} HTTP/1.1\r\nHost: netgang\r\n\r\n".encode())
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        await self.reader.readexactly(int(head.partition("content-length: ")[2].split("\r\n", 1)[0]))
        return head

    def hang_up(self) -> None:
        """Break the connection off."""
        self.writer.transport.abort()


class Server(uvicorn.Server):
    """The server, which also tells when it listens, and ends at once."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self.ending = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then tell."""
        await super().startup(sockets)
        self.listening.set()

    async def main_loop(self) -> None:
        """Wait for the end instead of looking for it."""
        await self.on_tick(0)
        await self.ending.wait()


@dataclass
class Served:
    """The app as it is served, and what tests look at."""

    server: Server
    telemetry: Telemetry
    secured: ssl.SSLContext | None
    connections: list[Connection] = field(default_factory=list)

    async def connect(self) -> Connection:
        """A new connection."""
        port = self.server.servers[0].sockets[0].getsockname()[1]
        streams = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20, ssl=self.secured)
        self.connections.append(Connection(*streams))
        return self.connections[-1]

    def counted(self, verb: str, outcome: str) -> float:
        """How many calls of a verb ended so."""
        labels = {"verb": verb, "outcome": outcome}
        return self.telemetry.registry.get_sample_value("netgang_requests_total", labels) or 0.0

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait for what the server does in its own time."""
        while not true():  # noqa: ASYNC110 - uvicorn reports nothing
            await asyncio.sleep(0.001)


Serve: TypeAlias = Callable[..., AbstractAsyncContextManager[Served]]


CARRIERS: dict[str, tuple[Any, type[asyncio.AbstractEventLoopPolicy]]] = {  # case: (protocol, event loop)
    "uvicorn's": ("httptools", asyncio.DefaultEventLoopPolicy),
    "ours": (VerbProtocol, asyncio.DefaultEventLoopPolicy),
    "ours on uvloop": (VerbProtocol, uvloop.EventLoopPolicy),
}


@pytest.fixture(params=CARRIERS)
def carrier(request: pytest.FixtureRequest) -> str:
    """Each case in turn."""
    return str(request.param)


@pytest.fixture
def event_loop_policy(carrier: str) -> asyncio.AbstractEventLoopPolicy:
    """The case's event loop."""
    return CARRIERS[carrier][1]()


@pytest.fixture
def serve(carrier: str) -> Serve:
    """Serves as in production, by the case's protocol."""
    protocol = CARRIERS[carrier][0]

    @asynccontextmanager
    async def served(verbs: FakeVerbs, **options: Any) -> AsyncIterator[Served]:
        app_options = {"max_body_bytes": MAX_BODY_BYTES} | {
            name: options.pop(name) for name in ("body_timeout_s",) if name in options
        }
        secured = None
        if options.pop("tls", None):
            secured = ssl.create_default_context(cafile=str(CERTIFICATE))
            secured.check_hostname = False
            options |= {"ssl_certfile": str(CERTIFICATE), "ssl_keyfile": str(CERTIFICATE.with_suffix(".key"))}
        telemetry = Telemetry()
        app: App = create_app(verbs, FakeViews(), telemetry, **app_options)
        config = uvicorn.Config(
            app, host="127.0.0.1", port=0, http=protocol, access_log=False, log_level="critical", **options
        )
        server = Server(config)
        serving = asyncio.create_task(server.serve())
        await server.listening.wait()
        result = Served(server, telemetry, secured)
        try:
            yield result
        finally:
            for connection in result.connections:
                connection.writer.close()
            server.ending.set()
            await serving

    return served


class Holding:
    """Holds /bind until told; tells what it holds and what it dropped."""

    def __init__(self) -> None:
        self.held = asyncio.Event()
        self.let_go = asyncio.Event()
        self.dropped = asyncio.Event()

    def verbs(self) -> FakeVerbs:
        """Verbs whose /bind holds."""
        return FakeVerbs(on_bind=self._hold)

    async def _hold(self, args: BindArgs, gone: asyncio.Future[None]) -> Reason | None:
        self.held.set()
        let_go = asyncio.ensure_future(self.let_go.wait())
        either: list[asyncio.Future[Any]] = [let_go, gone]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        let_go.cancel()
        if gone.done():
            self.dropped.set()
            return Reason.POD_CHANGED
        return None


# -- calls ------------------------------------------------------------------------------------------------------------


async def test_one_connection_serves_many_calls(serve: Serve) -> None:
    """Replies of known length keep the connection, for large requests too."""
    verbs = FakeVerbs()
    async with serve(verbs) as served:
        connection = await served.connect()
        for _ in range(3):
            head, reply = await connection.post("filter", ASK)
            assert head.startswith("http/1.1 200 ok\r\n")
            assert reply["NodeNames"] == ARGS["NodeNames"][::2]  # type: ignore[index]
        assert len((await connection.post("prioritize", ASK))[1]) == 5000
        assert (await connection.post("bind", BIND))[1] == {"Error": ""}
    assert (len(verbs.filtered), len(verbs.prioritized), len(verbs.bound)) == (3, 1, 1)
    assert served.counted("filter", "passed") == 3


async def test_a_secured_connection_serves_calls_too(serve: Serve) -> None:
    """TLS changes nothing, not for documents either."""
    async with serve(FakeVerbs(), tls=True) as served:
        connection = await served.connect()
        assert (await connection.post("filter", ASK))[1]["Error"] == ""
        assert (await connection.post("bind", BIND))[1] == {"Error": ""}
        assert (await connection.get("/healthz")).startswith("http/1.1 200 ok\r\n")
        assert (await connection.post("filter", ASK))[1]["Error"] == ""


async def test_a_malformed_body_keeps_the_connection(serve: Serve) -> None:
    """A request that was read whole costs no connection, whatever is in it."""
    async with serve(FakeVerbs()) as served:
        connection = await served.connect()
        assert (await connection.post("filter", b"hello"))[1]["Error"]
        assert (await connection.post("filter", b""))[1]["Error"] == "netgang: malformed request: the body is empty"
        assert (await connection.post("bind", BIND))[1] == {"Error": ""}


async def test_documents_and_calls_share_a_connection(serve: Serve) -> None:
    """In any order."""
    async with serve(FakeVerbs()) as served:
        connection = await served.connect()
        for _ in range(2):
            assert (await connection.post("bind", BIND))[1] == {"Error": ""}
            assert (await connection.get("/healthz")).startswith("http/1.1 200 ok\r\n")
            assert (await connection.get("/filter")).startswith("http/1.1 405 method not allowed\r\n")


async def test_a_body_in_many_pieces(serve: Serve) -> None:
    """However the bytes arrive, they are one request."""
    async with serve(FakeVerbs()) as served:
        connection = await served.connect()
        for verb, body, size in (("bind", BIND, 7), ("filter", ASK, 20_000)):
            connection.send(verb, body[:size], declared_bytes=len(body))
            for at in range(size, len(body), size):
                await connection.writer.drain()
                await asyncio.sleep(0)
                connection.writer.write(body[at : at + size])
            assert (await connection.reply())[1]["Error"] == ""


async def test_a_filter_that_waits_for_the_watch(serve: Serve) -> None:
    """It is answered when it has waited, once."""
    known = asyncio.Event()

    async def wait() -> None:
        await known.wait()

    verbs = FakeVerbs(on_caught_up=lambda _: wait())
    async with serve(verbs) as served:
        connection = await served.connect()
        connection.send("filter", ASK)
        await served.until(lambda: bool(served.server.server_state.tasks))
        assert not verbs.filtered
        known.set()
        assert len((await connection.reply())[1]["NodeNames"]) == 2500
    assert (len(verbs.filtered), served.counted("filter", "passed")) == (1, 1)


@pytest.mark.parametrize("agent", ["Go-http-client/1.1", "curl/8.5.0"])
@pytest.mark.parametrize("query", ["", "?debug", "?debugging"])
async def test_who_asks_is_seen(serve: Serve, agent: str, query: str) -> None:
    """By the mark in the address, and by curl's name."""
    verbs = FakeVerbs()
    async with serve(verbs) as served:
        connection = await served.connect()
        await connection.post(f"filter{query}", ASK, f"User-Agent: {agent}")
        error = (await connection.post(f"bind{query}", BIND, f"User-Agent: {agent}"))[1]["Error"]
    looking = query == "?debug" or agent.startswith("curl")
    assert ([args.debug for args in verbs.filtered], bool(error)) == ([looking], looking)


# -- bodies that are not read -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["filter", "bind"])
async def test_a_body_that_is_not_read_ends_the_connection(serve: Serve, verb: str) -> None:
    """Too large by its own word: answered at once, then closed, because what follows cannot be told from a request."""
    async with serve(FakeVerbs()) as served:
        connection = await served.connect()
        head, reply = await connection.post(verb, b"{", declared_bytes=MAX_BODY_BYTES + 1)
        assert "larger than 1000000 bytes" in str(reply["Error"])
        assert "connection: close" in head
        assert await connection.reader.read() == b""
    assert served.counted(verb, "malformed") == 1


async def test_a_chunked_body_that_is_too_large_ends_the_connection(serve: Serve) -> None:
    """Without a declared length it is read up to the limit."""
    async with serve(FakeVerbs()) as served:
        connection = await served.connect()
        connection.writer.write(b"POST /bind HTTP/1.1\r\nHost: netgang\r\nTransfer-Encoding: chunked\r\n\r\n")
        connection.writer.write(b"100000\r\n" + b"x" * (1 << 20) + b"\r\n")
        head, reply = await connection.reply()
        assert "larger than 1000000 bytes" in str(reply["Error"])
        assert "connection: close" in head


async def test_a_chunked_body_is_read(serve: Serve) -> None:
    """A declared length is not required."""
    async with serve(FakeVerbs()) as served:
        connection = await served.connect()
        connection.writer.write(b"POST /bind HTTP/1.1\r\nHost: netgang\r\nTransfer-Encoding: chunked\r\n\r\n")
        connection.writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(BIND), BIND))
        assert (await connection.reply())[1] == {"Error": ""}


async def test_a_body_that_does_not_come_ends_the_connection(serve: Serve) -> None:
    """A caller that stops in the middle is answered and let go."""
    async with serve(FakeVerbs(), body_timeout_s=0.05) as served:
        connection = await served.connect()
        _, reply = await connection.post("filter", b'{"Pod":', declared_bytes=100)
        assert "did not arrive within 0.05 s" in str(reply["Error"])
        assert await connection.reader.read() == b""
    assert served.counted("filter", "malformed") == 1


async def test_a_caller_that_hangs_up_in_its_body_is_counted(serve: Serve) -> None:
    """Nothing is asked, and nothing said."""
    verbs = FakeVerbs()
    async with serve(verbs) as served:
        connection = await served.connect()
        connection.send("bind", BIND[:10], declared_bytes=len(BIND))
        await connection.writer.drain()
        await served.until(lambda: bool(served.server.server_state.connections))
        await asyncio.sleep(0.02)
        connection.writer.close()
        await served.until(lambda: served.counted("bind", "gone") == 1)
    assert not verbs.bound


async def test_a_caller_that_asks_before_it_sends(serve: Serve) -> None:
    """`Expect: 100-continue` is answered, then the call."""
    async with serve(FakeVerbs()) as served:
        connection = await served.connect()
        connection.send("bind", b"", "Expect: 100-continue", declared_bytes=len(BIND))
        assert await connection.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.writer.write(BIND)
        assert (await connection.reply())[1] == {"Error": ""}


# -- held calls -------------------------------------------------------------------------------------------------------


async def test_a_held_bind_learns_of_a_broken_connection(serve: Serve) -> None:
    """kube-scheduler's death reaches the held call at once, so that nothing is bound for none."""
    holding = Holding()
    async with serve(holding.verbs()) as served:
        connection = await served.connect()
        connection.send("bind", BIND)
        await holding.held.wait()
        connection.hang_up()
        await holding.dropped.wait()
        await served.until(lambda: served.counted("bind", "gone") == 1)
        await served.until(lambda: not served.server.server_state.connections)
        await served.until(lambda: not served.server.server_state.tasks)


async def test_one_connection_s_end_is_not_another_s(serve: Serve) -> None:
    """Of two held calls only the one whose caller hung up is dropped."""
    holding = Holding()
    async with serve(holding.verbs()) as served:
        stays, goes = await served.connect(), await served.connect()
        for connection in (stays, goes):
            holding.held.clear()
            connection.send("bind", BIND)
            await holding.held.wait()
        goes.hang_up()
        await holding.dropped.wait()
        holding.let_go.set()
        assert (await stays.reply())[1] == {"Error": ""}
        assert (await stays.post("bind", BIND))[1] == {"Error": ""}
    assert (served.counted("bind", "gone"), served.counted("bind", "bound")) == (1, 2)


async def test_a_call_behind_a_held_one_waits_its_turn(serve: Serve) -> None:
    """Answers come in the order of the requests, and nothing is lost or asked twice."""
    holding = Holding()
    verbs = holding.verbs()
    async with serve(verbs) as served:
        connection = await served.connect()
        connection.send("bind", BIND)
        await holding.held.wait()
        connection.send("filter", ASK)
        connection.writer.write(b"GET /healthz HTTP/1.1\r\nHost: netgang\r\n\r\n")
        await connection.writer.drain()
        await asyncio.sleep(0.02)
        assert not verbs.filtered
        holding.let_go.set()
        assert (await connection.reply())[1] == {"Error": ""}
        assert len((await connection.reply())[1]["NodeNames"]) == 2500
        assert (await connection.reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200 OK\r\n")
    assert (len(verbs.bound), len(verbs.filtered)) == (1, 1)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "secured"])
async def test_a_held_bind_is_answered_at_shutdown(serve: Serve, tls: bool) -> None:
    """Idle connections end at once; the held call is waited for, and its answer is the connection's last."""
    holding = Holding()
    async with serve(holding.verbs(), tls=tls, timeout_graceful_shutdown=5) as served:
        idle, fresh, busy = [await served.connect() for _ in range(3)]
        assert (await idle.post("filter", ASK))[1]["Error"] == ""
        busy.send("bind", BIND)
        await holding.held.wait()
        await served.until(lambda: len(served.server.server_state.connections) == 3)
        served.server.ending.set()
        assert await idle.reader.read() == await fresh.reader.read() == b""
        holding.let_go.set()
        head, reply = await busy.reply()
        assert ("connection: close" in head, reply) == (True, {"Error": ""})
        assert await busy.reader.read() == b""


async def test_a_bind_held_longer_than_the_drain_is_not_answered_as_decided(serve: Serve) -> None:
    """It is broken off: kube-scheduler sees a failed call, and nothing is counted as an internal error."""
    holding = Holding()
    async with serve(holding.verbs(), timeout_graceful_shutdown=0.05) as served:
        connection = await served.connect()
        connection.send("bind", BIND)
        await holding.held.wait()
        served.server.ending.set()
        assert (await connection.reader.readline()) == b"HTTP/1.1 500 Internal Server Error\r\n"
        assert (await connection.reader.read()).endswith(b"connection: close\r\n\r\nInternal Server Error")
    assert served.telemetry.registry.get_sample_value("netgang_internal_errors_total", {"place": "bind"}) is None


# -- idle connections -------------------------------------------------------------------------------------------------


async def test_an_idle_connection_ends_after_its_time(serve: Serve) -> None:
    """Not before it; that it is counted from the last answer is shown in virtual time (test_verb_protocol)."""
    async with serve(FakeVerbs(), timeout_keep_alive=0.5) as served:
        used = await served.connect()
        asked_s = asyncio.get_running_loop().time()
        assert (await used.post("bind", BIND))[1] == {"Error": ""}
        assert await used.reader.read() == b""
        assert asyncio.get_running_loop().time() - asked_s >= 0.5


async def test_a_call_may_take_longer_than_an_idle_connection_lasts(serve: Serve) -> None:
    """Neither a held call nor a body that comes slowly is idleness."""
    holding = Holding()
    async with serve(holding.verbs(), timeout_keep_alive=0.05) as served:
        connection = await served.connect()
        connection.send("bind", BIND[:20], declared_bytes=len(BIND))
        await asyncio.sleep(0.1)
        connection.writer.write(BIND[20:])
        await holding.held.wait()
        await asyncio.sleep(0.1)
        holding.let_go.set()
        assert (await connection.reply())[1] == {"Error": ""}
        assert await connection.reader.read() == b""
