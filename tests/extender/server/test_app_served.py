"""What in-process calls cannot show about connections: kept open, in pieces, held, hung up, closed by a standby."""

import asyncio
from contextlib import suppress

import pytest
import uvloop

from extender.bootstrap import serve
from extender.runtime.telemetry import Telemetry
from extender.server.app import VerbsApp
from tests.extender.server.served import ASK, BIND, Connection, Holding, listening, serving
from tests.fakes.verbs import FakeVerbs, FakeViews


@pytest.fixture
def event_loop_policy() -> uvloop.EventLoopPolicy:
    return uvloop.EventLoopPolicy()


async def test_one_connection_s_end_is_not_another_s() -> None:
    """Of two held calls only the one whose caller hung up is dropped, at once, so that nothing is bound for none."""
    holding = Holding()
    async with serving(holding) as served:
        stays, goes = await served.connect(), await served.connect()
        for connection in (stays, goes):
            holding.held.clear()
            connection.send("bind", BIND)
            await holding.held.wait()
        goes.hang_up()
        await holding.dropped.wait()
        await served.until(lambda: served.counted("bind", "gone") == 1)
        state = served.server.server_state
        await served.until(lambda: (len(state.connections), len(state.tasks)) == (1, 1))
        holding.released.set()
        assert (await stays.reply())[1] == {"Error": ""}
        assert (await stays.post("bind", BIND))[1] == {"Error": ""}
    assert (served.counted("bind", "gone"), served.counted("bind", "bound")) == (1, 2)


@pytest.mark.parametrize("verb", ["filter", "prioritize", "bind"])
async def test_a_body_that_does_not_come_is_answered(verb: str) -> None:
    async with serving(body_timeout_s=0.05) as served:
        connection = await served.connect()
        connection.writer.write(f"POST /{verb} HTTP/1.1\r\nHost: netgang\r\nContent-Length: 9\r\n\r\n{{".encode())
        head, reply = await connection.reply()
        assert "connection: close" in head
        assert reply == [] or "the body did not arrive within 0.05 s" in reply["Error"]
        assert await connection.reader.read() == b""


@pytest.mark.parametrize("held", [200, pytest.param(4000, marks=pytest.mark.slow)])
async def test_many_binds_are_held_at_once(held: int) -> None:
    waiting: list[asyncio.Future[None]] = []

    async def hold(*_: object) -> None:
        waiting.append(asyncio.get_running_loop().create_future())
        await waiting[-1]

    async with serving(FakeVerbs(on_bind=hold)) as served:
        clients = [await served.connect() for _ in range(held)]
        for client in clients:
            client.send("bind", BIND)
        await served.until(lambda: len(waiting) == len(clients))
        assert (await (await served.connect()).post("filter", ASK))[1]["Error"] == ""
        for one in waiting:
            one.set_result(None)
        assert [(await client.reply())[1] for client in clients] == [{"Error": ""}] * held


async def test_metrics_are_written_once_a_second_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, rendered = asyncio.get_running_loop(), list[Telemetry]()

    def exposition(telemetry: Telemetry) -> bytes:
        rendered.append(telemetry)
        return b""

    monkeypatch.setattr(Telemetry, "exposition", exposition)
    async with serving() as served:
        clients = [await served.connect() for _ in range(20)]
        began_s = loop.time()
        for _ in range(5):
            await asyncio.gather(*(client.get("/metrics") for client in clients))
        assert 1 <= len(rendered) <= 1 + int(loop.time() - began_s)


async def test_ports_that_pods_reach_have_room_and_take_no_long_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "_CROWD", 2)
    app = VerbsApp(FakeVerbs(), FakeViews(), Telemetry())
    async with listening(serve.port_config(app, "127.0.0.1", 0)) as server:
        address = server.servers[0].sockets[0].getsockname()
        clients = [Connection(*await asyncio.open_connection(*address)) for _ in range(2)]
        assert (await clients[1].get("/healthz")).startswith("http/1.1 200 ok")
        late = Connection(*await asyncio.open_connection(*address))
        with suppress(ConnectionError):
            assert await late.reader.read() == b""
        clients[0].writer.write(b"GET / HTTP/1.1\r\nX-Long: " + b"x" * 200_000)
        with suppress(ConnectionError):
            assert (await clients[0].reader.read()).startswith(b"HTTP/1.1 400")
        assert (await clients[1].get("/healthz")).startswith("http/1.1 200 ok")
        for client in (*clients, late):
            client.hang_up()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "secured"])
async def test_a_held_bind_is_answered_at_shutdown(tls: bool) -> None:
    holding = Holding()
    async with serving(holding, tls=tls) as served:
        idle, fresh, busy = [await served.connect() for _ in range(3)]
        assert (await idle.post("filter", ASK))[1]["Error"] == ""
        busy.send("bind", BIND)
        await holding.held.wait()
        await served.until(lambda: len(served.server.server_state.connections) == 3)
        served.server.ending.set()
        assert await idle.reader.read() == await fresh.reader.read() == b""
        holding.released.set()
        head, reply = await busy.reply()
        assert ("connection: close" in head, reply) == (True, {"Error": ""})
        assert await busy.reader.read() == b""


async def test_a_standby_turns_callers_away() -> None:
    """So that kube-scheduler's next connections lead to the leader (docs/safety.md S16)."""
    holding = Holding()
    async with serving(holding) as served:
        connections = served.server.server_state.connections
        idle, busy = await served.connect(), await served.connect()
        busy.send("bind", BIND)
        await holding.held.wait()
        await served.until(lambda: len(connections) == 2)
        served.server.turn_away()
        new = await served.connect()
        await served.until(lambda: len(connections) == 3)
        served.server.turn_away()
        assert await idle.reader.read() == b""
        holding.released.set()
        assert (await busy.reply())[1] == {"Error": ""}
        assert await busy.reader.read() == b""
        assert (await new.get("/healthz")).startswith("http/1.1 200 ok")
