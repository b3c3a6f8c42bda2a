"""The relay: where connections lead, and what a cut cable does to them."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from socket import SO_LINGER, SOL_SOCKET

import pytest

from lab.testbed.processes.network import LOOPBACK
from lab.testbed.processes.relay import relay
from tests.liveness import LIVENESS_S


@asynccontextmanager
async def echo(prefix: bytes) -> AsyncIterator[int]:
    """A server that answers each line with its own prefix; its port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(prefix + line)
        writer.close()

    server = await asyncio.start_server(answer, LOOPBACK, 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: bytes) -> bytes:
    writer.write(line)
    async with asyncio.timeout(LIVENESS_S):
        return await reader.readline()


async def test_a_connection_stays_where_it_was_led() -> None:
    """As with kube-proxy: another choice counts for new connections only."""
    async with echo(b"a") as first, echo(b"b") as second:
        chosen = [first]
        async with relay(lambda: chosen[0]) as between:
            old = await asyncio.open_connection(LOOPBACK, between.port)
            assert await ask(*old, b"1\n") == b"a1\n"
            chosen[0] = second
            new = await asyncio.open_connection(LOOPBACK, between.port)
            assert await ask(*new, b"2\n") == b"b2\n"
            assert await ask(*old, b"3\n") == b"a3\n"
            for _, writer in (old, new):
                writer.close()


async def test_without_anybody_to_lead_to_it_hangs_up() -> None:
    async with relay(lambda: None) as between:
        reader, writer = await asyncio.open_connection(LOOPBACK, between.port)
        async with asyncio.timeout(LIVENESS_S):
            assert await reader.read() == b""
        assert between.refused == 1
        writer.close()


async def test_a_cut_cable_is_silent_and_brings_the_rest_later() -> None:
    async with echo(b"a") as port, relay(lambda: port) as between:
        reader, writer = await asyncio.open_connection(LOOPBACK, between.port)
        assert await ask(reader, writer, b"1\n") == b"a1\n"
        between.block()
        writer.write(b"2\n")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await reader.readline()
        between.unblock()
        async with asyncio.timeout(LIVENESS_S):
            assert await reader.readline() == b"a2\n"
        writer.close()


async def test_what_was_sent_before_a_reset_is_lost() -> None:
    """Its sender gave up and hung up hard, as netgang's client does."""
    seen: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.read())
        writer.close()

    server = await asyncio.start_server(listen, LOOPBACK, 0)
    async with server, relay(lambda: server.sockets[0].getsockname()[1]) as between:
        _, writer = await asyncio.open_connection(LOOPBACK, between.port)
        writer.write(b"early ")
        await asyncio.sleep(0.1)
        between.block()
        writer.write(b"late")
        await asyncio.sleep(0.1)
        writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        await asyncio.sleep(0.1)
        between.unblock()
        async with asyncio.timeout(LIVENESS_S):
            while not seen:  # noqa: ASYNC110 - it is in another task
                await asyncio.sleep(0.01)
    assert seen == [b"early "]
