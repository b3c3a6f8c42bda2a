"""A standby's connections end, so that kube-scheduler's next ones lead to the leader (docs/safety.md S16)."""

import asyncio

from starlette.types import Receive, Scope, Send

from extender.bootstrap.serve import PortServer, port_config
from tests.extender.server.served import listening
from tests.liveness import LIVENESS_S

REQUEST = b"GET /x HTTP/1.1\r\nHost: netgang\r\n\r\n"


class Desk:
    """An app that answers when it may."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.asked = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        self.asked.set()
        await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


async def connect(server: PortServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that the server has taken."""
    before = len(server.server_state.connections)
    streams = await asyncio.open_connection(*server.servers[0].sockets[0].getsockname()[:2])
    while len(server.server_state.connections) == before:  # noqa: ASYNC110 - as above
        await asyncio.sleep(0.01)
    return streams


async def test_idle_connections_are_closed_and_the_others_with_their_answer() -> None:
    """One that came since the last call stays: it has not had the time to ask."""
    desk = Desk()
    async with listening(port_config(desk, "127.0.0.1", 0, drain_s=1)) as server:
        idle_reader, idle = await connect(server)
        busy_reader, busy = await connect(server)
        busy.write(REQUEST)
        await desk.asked.wait()
        server.turn_away()
        new_reader, new = await connect(server)
        server.turn_away()
        async with asyncio.timeout(LIVENESS_S):
            assert await idle_reader.read() == b""
        desk.may_answer.set()
        async with asyncio.timeout(LIVENESS_S):
            assert (await busy_reader.read()).endswith(b"ok")
        new.write(REQUEST)
        async with asyncio.timeout(LIVENESS_S):
            assert (await new_reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        for writer in (idle, busy, new):
            writer.close()
