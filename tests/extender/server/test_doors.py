"""Doors are bounded (docs/safety.md S28): what a port does with clients that are slow, greedy or many, over sockets."""

import asyncio
import json
from collections.abc import Iterator

import pytest
from prometheus_client import Metric
from prometheus_client.registry import Collector

from extender.runtime.telemetry import Telemetry
from extender.server.connections import PortLimits
from tests.extender.server.served import ASK, BIND, Connection, Holding, serving
from tests.fakes.verbs import FakeVerbs

SHORT, LONG = (PortLimits(head_s=s, body_s=s, unread_s=s, idle_s=s, kept_s=s) for s in (0.5, 50.0))
STRANGER = "127.0.0.2"
HEAD, CHUNKED = b"POST /filter HTTP/1.1\r\nHost: netgang\r\n", b"Transfer-Encoding: chunked\r\n\r\n"
CALL = HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(ASK), ASK)
DOCUMENT = b"GET /healthz HTTP/1.1\r\nHost: netgang\r\n\r\n"


async def assert_answered(client: Connection) -> None:
    assert (await client.post("filter", ASK))[1]["Error"] == ""


async def all_of(client: Connection) -> bytes:
    try:
        return await client.reader.read()
    except ConnectionError:
        return b""


LATE = b"malformed request: the body did not arrive within 0.05 s"
SLOW = {  # case: (what is sent, what comes of an answer)
    "nothing": (b"", b""),
    "half a head": (HEAD, b""),
    "half a body of a verb": (HEAD + b"Content-Length: 9\r\n\r\n{", LATE),
    "an idle caller": (CALL, b"HTTP/1.1 "),
}


@pytest.mark.parametrize(("sent", "answered"), SLOW.values(), ids=SLOW)
async def test_a_connection_that_does_not_go_on_ends(sent: bytes, answered: bytes) -> None:
    async with serving(limits=SHORT, body_timeout_s=0.05) as door:
        client = await door.connect()
        client.writer.write(sent)
        assert answered in await all_of(client)
        await door.until(lambda: not len(door.connections))
        assert door.connections.kept_bytes == 0


async def test_a_client_that_does_not_read_is_cut_off() -> None:
    async with serving(limits=SHORT) as door:
        client = await door.connect()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        most_bytes = 0
        for _ in range(3000):
            if client.writer.transport.is_closing() or not len(door.connections):
                break
            client.writer.write(CALL)
            await asyncio.sleep(0)
            most_bytes = max(most_bytes, door.connections.kept_bytes)
        await door.until(lambda: not len(door.connections))
        assert most_bytes < 20 * 2**20


async def test_a_connection_of_kube_scheduler_stays_longer_than_others() -> None:
    """Longer than kube-scheduler's client keeps it: a POST on a connection that is just closed would be lost."""
    async with serving(limits=PortLimits(head_s=50.0, idle_s=0.1, kept_s=50.0)) as door:
        scheduler, person = await door.connect(), await door.connect()
        assert (await scheduler.post("bind", BIND))[1] == {"Error": ""}
        await person.get("/healthz")
        assert await all_of(person) == b""
        assert (await scheduler.post("bind", BIND))[1] == {"Error": ""}
        assert door.ended == {"idle": 1}


FEW = PortLimits(connections=8, per_peer=5, head_s=50.0, idle_s=50.0)


async def test_one_peer_does_not_use_up_the_port() -> None:
    holding = Holding()
    async with serving(holding.verbs(), FEW) as door:
        scheduler = await door.connect()
        scheduler.send("bind", BIND)
        await holding.held.wait()
        flood = [await door.connect(STRANGER) for _ in range(40)]
        for gone in flood[:35]:
            assert await all_of(gone) == b""
        assert door.ended == {"ended for another": 35}
        await assert_answered(await door.connect())
        holding.released.set()
        assert (await scheduler.reply())[1] == {"Error": ""}


async def test_held_calls_take_no_place() -> None:
    """As many as the service holds: their bound is `max_held_binds`, with words for it."""
    waiting: list[asyncio.Future[None]] = []

    async def hold(*_: object) -> None:
        waiting.append(asyncio.get_running_loop().create_future())
        await waiting[-1]

    async with serving(FakeVerbs(on_bind=hold), FEW) as door:
        clients = [await door.connect() for _ in range(4)]
        for number in range(30):
            clients[-1].send("bind", BIND)
            await door.until(lambda number=number: len(waiting) == number + 1)  # type: ignore[misc]
            clients.append(await door.connect())
        assert (door.ended, len(door.connections)) == ({}, 34)
        for one in waiting:
            one.set_result(None)
        assert (await clients[10].reply())[1] == {"Error": ""}


HALVES = {  # a call of which the last byte does not come
    "declared": HEAD + b"Content-Length: 200001\r\n\r\n" + b" " * 200_000,
    "in chunks, which the app keeps": HEAD + CHUNKED + 3 * (b"10000\r\n" + b" " * 0x10000 + b"\r\n"),
}


@pytest.mark.parametrize("half", HALVES.values(), ids=HALVES)
async def test_bodies_in_flight_are_bounded_in_bytes(half: bytes) -> None:
    limits = PortLimits(kept_bytes=1_000_000, peer_bytes=600_000)
    async with serving(limits=limits) as door:
        clients = []
        for number in range(12):
            clients.append(await door.connect(f"127.0.0.{2 + number % 3}"))
            clients[-1].writer.write(half)
            await clients[-1].writer.drain()
        await door.until(lambda: door.ended["too many bytes"] >= 7)
        assert door.connections.kept_bytes <= limits.kept_bytes
        if CHUNKED not in half:
            head, reply = await clients[0].reply()
            assert reply["Error"] == "netgang: too many large requests at once"
            assert "connection: close" in head
        await assert_answered(await door.connect())


FLOODS = {
    "a head without an end": HEAD + b"X-Long: " + b"x" * 1_000_000,
    "small chunks": HEAD + CHUNKED + b"1\r\n \r\n" * 5_000,
    "requests without number": b"GET / HTTP/1.1\r\n\r\n" * 5_000,
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
async def test_a_flood_is_stopped_where_it_begins(flood: bytes) -> None:
    async with serving(limits=LONG) as door:
        client = await door.connect(STRANGER)
        client.writer.write(flood)
        await all_of(client)
        await door.until(lambda: not len(door.connections))
        scheduler = await door.connect()
        await assert_answered(scheduler)


class Renders(Collector):
    def __init__(self) -> None:
        self.count = 0

    def collect(self) -> Iterator[Metric]:
        self.count += 1
        yield from ()

    def describe(self) -> list[Metric]:
        return []


async def test_metrics_are_written_once_a_second_whoever_asks() -> None:
    telemetry, renders = Telemetry(), Renders()
    telemetry.registry.register(renders)
    loop = asyncio.get_running_loop()
    async with serving(limits=LONG, telemetry=telemetry) as door:
        clients = [await door.connect() for _ in range(50)]
        began_s = loop.time()
        for _ in range(5):
            await asyncio.gather(*(client.get("/metrics") for client in clients))
        assert 1 <= renders.count <= 1 + int(loop.time() - began_s)


async def test_a_call_does_not_wait_behind_documents() -> None:
    async with serving(limits=LONG) as door:
        clients = [await door.connect(STRANGER) for _ in range(100)]
        scheduler = await door.connect()
        await door.until(lambda: len(door.connections) == 101)
        for client in clients:
            client.writer.write(DOCUMENT)
        documents = [asyncio.create_task(client.reader.readuntil(b"ok\n")) for client in clients]
        reply = await scheduler.post("filter", json.dumps(json.loads(ASK) | {"NodeNames": ["n1"]}).encode())
        assert (reply[1]["Error"], sum(one.done() for one in documents) < 50) == ("", True)
        assert all(b"200 OK" in one for one in await asyncio.gather(*documents))
