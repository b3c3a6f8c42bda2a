"""After an outage all kinds are followed again soon after the first; virtual time."""

import asyncio
import random
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest

from extender.errors import ApiError, ApiUnavailableError
from extender.kube.watch.pace import Comeback
from tests.extender.beside import playing
from tests.extender.kube.watch.collection import RecordingSink, reflector_of
from tests.extender.kube.watch.test_reflector import pod
from tests.fakes.cluster_api import FakeClusterApi

pytestmark = pytest.mark.looptime
AWAY = ApiUnavailableError("connection refused")


async def waited_s(comeback: Comeback, longest_s: float) -> float:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await comeback.wait(longest_s, rng=random.Random(1))
    return loop.time() - began_s


async def until(happened: Callable[[], bool]) -> None:
    for _ in range(1200):
        if happened():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("it did not happen")


async def test_the_first_one_waits_its_whole_backoff() -> None:
    """What was heard before the failure says nothing about now."""
    comeback = Comeback()
    comeback.heard()
    assert await waited_s(comeback, 16.0) == pytest.approx(16.0)


async def test_the_first_one_wakes_the_others() -> None:
    comeback = Comeback()
    waits = [asyncio.create_task(waited_s(comeback, longest_s)) for longest_s in (16.0, 30.0, 3.1)]
    await asyncio.sleep(3.0)
    comeback.heard()
    long, longer, short = await asyncio.gather(*waits)
    assert 3.0 <= long <= 3.5
    assert 3.0 <= longer <= 3.5
    assert 3.0 <= short <= 3.1001


async def test_all_kinds_follow_the_first_back() -> None:
    api, comeback = FakeClusterApi(pod("p0")), Comeback()
    sinks = [RecordingSink() for _ in range(10)]
    async with AsyncExitStack() as stack:
        for number, sink in enumerate(sinks):
            await stack.enter_async_context(playing(reflector_of(api, sink, seed=number, comeback=comeback).run()))
        await asyncio.sleep(10.0)
        api.fail_next("list", AWAY, times=1000)
        api.fail_next("watch", AWAY, times=1000)
        api.break_watches(AWAY)
        await asyncio.sleep(100.0)
        api.heal()
        api.add(pod("p1"))
        await until(lambda: any(len(sink.items) == 2 for sink in sinks))
        await asyncio.sleep(1.0)
        assert [len(sink.items) for sink in sinks] == [2] * 10


async def test_a_server_that_is_back_but_not_ready_is_asked_again_soon() -> None:
    """A new API server answers 429 until it has read its storage: the pause starts again, it is not sixteen seconds."""
    api, sink = FakeClusterApi(pod("p0")), RecordingSink()
    async with playing(reflector_of(api, sink).run()):
        await asyncio.sleep(10.0)
        api.fail_next("watch", AWAY, times=5)
        api.fail_next("list", AWAY, times=3)
        api.fail_next("list", ApiError(429, "storage is (re)initializing"), times=1)
        api.break_watches(AWAY)
        api.add(pod("p1"))
        listed = api.calls["list"]
        await until(lambda: api.calls["list"] >= listed + 4)
        await asyncio.sleep(1.0)
        assert len(sink.items) == 2
