"""What in-process calls cannot show about connections: kept open, in pieces, held, hung up, closed by a standby."""

import asyncio

import pytest
import uvloop

from tests.extender.server.served import ASK, BIND, NODES, Holding, serving
from tests.fakes.verbs import FakeVerbs


@pytest.fixture
def event_loop_policy() -> uvloop.EventLoopPolicy:
    return uvloop.EventLoopPolicy()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "secured"])
async def test_one_connection_serves_many_calls(tls: bool) -> None:
    verbs = FakeVerbs()
    async with serving(verbs, tls=tls) as served:
        connection = await served.connect()
        for _ in range(3):
            head, reply = await connection.post("filter", ASK)
            assert head.startswith("http/1.1 200 ok\r\n")
            assert reply["NodeNames"] == NODES[::2]
        assert len((await connection.post("prioritize", ASK))[1]) == 5000
        assert (await connection.post("bind", BIND))[1] == {"Error": ""}
        assert (await connection.get("/healthz")).startswith("http/1.1 200 ok\r\n")
        assert (await connection.post("filter", ASK))[1]["Error"] == ""
    assert (len(verbs.filtered), len(verbs.prioritized), len(verbs.bound)) == (4, 1, 1)
    assert served.counted("filter", "passed") == 4


async def test_one_connection_s_end_is_not_another_s() -> None:
    """Of two held calls only the one whose caller hung up is dropped, at once, so that nothing is bound for none."""
    holding = Holding()
    async with serving(holding.verbs()) as served:
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


async def test_a_call_behind_a_held_one_waits_its_turn() -> None:
    holding = Holding()
    verbs = holding.verbs()
    async with serving(verbs) as served:
        connection = await served.connect()
        connection.send("bind", BIND)
        await holding.held.wait()
        connection.send("filter", ASK)
        connection.writer.write(b"GET /healthz HTTP/1.1\r\nHost: netgang\r\n\r\n")
        await connection.writer.drain()
        await asyncio.sleep(0.02)
        assert not verbs.filtered
        holding.released.set()
        assert (await connection.reply())[1] == {"Error": ""}
        assert len((await connection.reply())[1]["NodeNames"]) == 2500
        assert (await connection.reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200 OK\r\n")
    assert (len(verbs.bound), len(verbs.filtered)) == (1, 1)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "secured"])
async def test_a_held_bind_is_answered_at_shutdown(tls: bool) -> None:
    holding = Holding()
    async with serving(holding.verbs(), tls=tls, drain_s=5) as served:
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
    async with serving(holding.verbs()) as served:
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
