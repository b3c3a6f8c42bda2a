"""The stream: everything at first, then what changed; for a bounded number, and nothing without viewers."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from extender.web.routes import MOST_VIEWERS, Feed, FullError
from scoring.plan.steps import Steps

pytestmark = pytest.mark.looptime


@dataclass
class Shown:
    sections: dict[str, bytes] = field(default_factory=lambda: {"queue": b"1", "zones": b"1"})
    version: int = 1
    looks: int = 0

    def change(self, **sections: bytes) -> None:
        self.sections |= sections
        self.version += 1

    def steps(self) -> Steps[Mapping[str, bytes]]:
        self.looks += 1
        yield
        return dict(self.sections)


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Feed, Shown]]:
    shown = Shown()
    feed = Feed(shown.steps, lambda: shown.version)
    task = asyncio.create_task(feed.run())
    try:
        yield feed, shown
    finally:
        task.cancel()


async def next_of(events: AsyncIterator[bytes], count: int) -> list[bytes]:
    async with asyncio.timeout(30):
        return [await anext(events) for _ in range(count)]


async def test_all_sections_first_then_what_changed() -> None:
    async with running() as (feed, shown):
        events = await feed.watch()
        first = await next_of(events, 3)
        assert first == [b"retry: 2000\n\n", b"event: queue\ndata: 1\n\n", b"event: zones\ndata: 1\n\n"]
        began_s = asyncio.get_running_loop().time()
        shown.change(zones=b"2")
        assert await next_of(events, 1) == [b"event: zones\ndata: 2\n\n"]
        assert asyncio.get_running_loop().time() - began_s <= 1.0


async def test_without_viewers_nothing_is_worked_out() -> None:
    async with running() as (feed, shown):
        await asyncio.sleep(60)
        assert shown.looks == 0
        events = await feed.watch()
        await next_of(events, 3)
        await asyncio.sleep(10)
        assert shown.looks == 1
        await events.aclose()  # type: ignore[attr-defined]
        assert feed.viewers == 0
        shown.change(queue=b"9")
        await asyncio.sleep(60)
        assert shown.looks == 1


async def test_a_slow_viewer_misses_states_and_not_the_last() -> None:
    async with running() as (feed, shown):
        events = await feed.watch()
        await next_of(events, 3)
        for number in range(5):
            shown.change(queue=b"%d" % number)
            await asyncio.sleep(2)
        assert await next_of(events, 1) == [b"event: queue\ndata: 4\n\n"]
        assert await next_of(events, 1) == [b": still here\n\n"], "a comment after a while without news"


async def test_many_viewers_cost_one_look_and_one_too_many_is_refused() -> None:
    async with running() as (feed, shown):
        viewers = [await feed.watch() for _ in range(MOST_VIEWERS)]
        with pytest.raises(FullError):
            await feed.watch()
        seen = [await next_of(events, 3) for events in viewers]
        assert (shown.looks, seen) == (1, seen[:1] * MOST_VIEWERS)
        await viewers[0].aclose()  # type: ignore[attr-defined]
        await feed.watch()


async def test_the_end_lets_all_go() -> None:
    async with running() as (feed, _):
        events = await feed.watch()
        await next_of(events, 3)
        feed.close()
        with pytest.raises(StopAsyncIteration):
            await next_of(events, 1)
        with pytest.raises(FullError):
            await feed.watch()
