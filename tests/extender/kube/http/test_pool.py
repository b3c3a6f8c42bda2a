"""Connections are taken in turns, used again only when they are clean, and closed when they are not needed."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from extender.kube.http.pool import Pool
from tests.extender.kube.scripted import OK, Script, Scripted, Talk, always_ok, answering, echo, ok, scripted, until


@asynccontextmanager
async def pool_of(
    server: Scripted, *, concurrency: int = 4, idle_s: float = 60.0, patience_s: float = 0.001
) -> AsyncGenerator[Pool, None]:
    at = urlsplit(server.url)
    host, port = at.hostname or "", at.port or 0
    pool = Pool(host, port, concurrency=concurrency, connect_s=5.0, idle_s=idle_s, patience_s=patience_s)
    try:
        yield pool
    finally:
        await pool.close()
        assert pool.connections == 0


async def ask(pool: Pool, path: str = "/x") -> str:
    answer = await pool.exchange(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode(), limit_bytes=1000)
    return answer.body.decode()


async def test_a_hundred_at_once() -> None:
    at_work = most = 0
    full = asyncio.Event()

    async def script(talk: Talk) -> None:
        nonlocal at_work, most
        while True:
            head, _ = await talk.request()
            path = head.split(" ", 2)[1].encode()
            at_work += 1
            most = max(most, at_work)
            if most == 8:
                full.set()
            await full.wait()
            at_work -= 1
            await talk.say(ok(path))

    async with scripted(script) as server, pool_of(server, concurrency=8) as pool:
        answers = await asyncio.gather(*(ask(pool, f"/{number}") for number in range(100)))
        assert answers == [f"/{number}" for number in range(100)]
        assert (most, server.connections, pool.connections) == (8, 8, 8)


async def test_long_exchanges_do_not_hold_up_others() -> None:
    release = asyncio.Event()

    async def script(talk: Talk) -> None:
        await talk.request()
        if talk.number <= 4:
            await release.wait()
        await talk.say(OK)
        await echo(talk)

    async with scripted(script) as server, pool_of(server, concurrency=8) as pool:
        long = [asyncio.create_task(ask(pool)) for _ in range(4)]
        await until(lambda: len(server.requests) == 4)
        assert await ask(pool) == "ok"
        assert not any(task.done() for task in long)
        release.set()
        await asyncio.gather(*long)


async def test_a_cancelled_exchange_closes_its_connection() -> None:
    closed = asyncio.Event()

    async def script(talk: Talk) -> None:
        if talk.number > 1:
            await echo(talk)
        await talk.request()
        await talk.hung_up()
        closed.set()
        await talk.say(OK)

    async with scripted(script) as server, pool_of(server, concurrency=1) as pool:
        first = asyncio.create_task(ask(pool, "/first"))
        await server.arrival.wait()
        second = asyncio.create_task(ask(pool, "/second"))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == "/second"
        await closed.wait()
        with pytest.raises(asyncio.CancelledError):
            await first


async def test_whatever_is_cancelled_answers_are_never_mixed_up() -> None:
    rng = random.Random(7)

    async def script(talk: Talk) -> None:
        while True:
            head, _ = await talk.request()
            path = head.split(" ", 2)[1].encode()
            for _ in range(rng.randrange(4)):
                await asyncio.sleep(0)
            whole = ok(path)
            cut = rng.randrange(len(whole)) if rng.random() < 0.1 else None
            await talk.say(whole[:cut] if cut is not None else whole)
            if cut is not None:
                return

    async with scripted(script) as server, pool_of(server, concurrency=3) as pool:
        tasks = {f"/{number}": asyncio.create_task(ask(pool, f"/{number}")) for number in range(400)}
        victims = rng.sample(list(tasks.values()), 100)
        for victim in victims:
            for _ in range(rng.randrange(20)):
                await asyncio.sleep(0)
            victim.cancel()
        outcomes = dict(zip(tasks, await asyncio.gather(*tasks.values(), return_exceptions=True), strict=True))
        answered = {path: body for path, body in outcomes.items() if isinstance(body, str)}
        assert len(answered) > 200
        assert answered == {path: path for path in answered}
        assert all(isinstance(one, str | OSError | asyncio.CancelledError) for one in outcomes.values())
        assert len({head for head, _ in server.requests}) == len(server.requests)  # nothing was asked twice


async def test_a_server_that_closes_an_idle_connection() -> None:
    async with scripted(answering(OK)) as server, pool_of(server) as pool:
        for number in range(1, 4):
            assert await ask(pool) == "ok"
            await until(lambda: pool.connections == 0)
            assert server.connections == number


async def end(_: Talk) -> None:
    pass


@pytest.mark.parametrize("script", [Talk.reset, end])
async def test_a_server_that_takes_connections_and_closes_them(script: Script) -> None:
    """As load balancers do when no server is behind them: an error for each caller, not an endless try."""
    async with scripted(script) as server, pool_of(server) as pool:
        outcomes = await asyncio.gather(*(ask(pool) for _ in range(20)), return_exceptions=True)
        assert all(isinstance(one, OSError) for one in outcomes)
        assert server.connections <= 20


async def test_no_server_is_an_error_for_each() -> None:
    async with scripted(always_ok) as server:
        pass
    async with pool_of(server, concurrency=2) as pool:
        outcomes = await asyncio.gather(*(ask(pool) for _ in range(20)), return_exceptions=True)
        assert all(isinstance(one, ConnectionError) and "cannot connect to 127.0.0.1:" in str(one) for one in outcomes)


async def test_closing_ends_all_waits() -> None:
    async with scripted(answering(then=Talk.hung_up)) as server, pool_of(server, concurrency=1) as pool:
        tasks = [asyncio.create_task(ask(pool)) for _ in range(3)]
        await server.arrival.wait()
        await pool.close()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(one, ConnectionAbortedError) for one in outcomes)
        with pytest.raises(ConnectionAbortedError):
            await ask(pool)
        assert (server.connections, pool.connections) == (1, 0)
