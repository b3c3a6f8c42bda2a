"""One timer for many limits keeps what asyncio.timeout promises."""

import asyncio
import random

import pytest

from extender.kube.http.timelimit import TimeLimits

pytestmark = pytest.mark.looptime


async def test_time_is_up() -> None:
    """The wait ends as TimeoutError, on time, and the task can go on."""
    limits, loop = TimeLimits(), asyncio.get_running_loop()
    begun_s = loop.time()
    with pytest.raises(TimeoutError), limits.within(3.0):
        await asyncio.sleep(60.0)
    assert loop.time() - begun_s == pytest.approx(3.0)
    await asyncio.sleep(1.0)
    limits.close()


async def test_in_time() -> None:
    """A body that ends before is not disturbed, then or later."""
    limits = TimeLimits()
    for _ in range(5):
        with limits.within(3.0):
            await asyncio.sleep(2.0)
    await asyncio.sleep(10.0)
    limits.close()


async def test_no_time_at_all() -> None:
    """A limit of 0 stops the first wait."""
    limits = TimeLimits()
    with pytest.raises(TimeoutError), limits.within(0.0):
        await asyncio.sleep(1.0)
    limits.close()


async def test_many_limits_each_on_its_own_time() -> None:
    """Whatever the order in which limits begin and end, each task has exactly its own."""
    limits, loop, rng = TimeLimits(), asyncio.get_running_loop(), random.Random(3)

    async def one(begins_s: float, limit_s: float, lasts_s: float) -> tuple[float, float]:
        await asyncio.sleep(begins_s)
        begun_s = loop.time()
        try:
            with limits.within(limit_s):
                await asyncio.sleep(lasts_s)
        except TimeoutError:
            return limit_s, loop.time() - begun_s
        return lasts_s, loop.time() - begun_s

    cases = [(rng.uniform(0, 9), rng.uniform(0, 9), rng.uniform(0, 9)) for _ in range(200)]
    for (_, limit_s, lasts_s), (want_s, took_s) in zip(
        cases, await asyncio.gather(*(one(*case) for case in cases)), strict=True
    ):
        assert want_s == min(limit_s, lasts_s)
        assert took_s == pytest.approx(want_s, abs=0.01)
    limits.close()


async def test_the_inner_limit_of_two() -> None:
    """Of nested limits the one that is over stops its own body only."""
    limits = TimeLimits()
    with limits.within(9.0):
        with pytest.raises(TimeoutError), limits.within(3.0):
            await asyncio.sleep(60.0)
        await asyncio.sleep(1.0)
    with pytest.raises(TimeoutError), limits.within(3.0), limits.within(9.0):
        await asyncio.sleep(60.0)
    limits.close()


async def test_beside_asyncios_own() -> None:
    """An asyncio.timeout around it, or inside, works as if it were alone."""
    limits = TimeLimits()

    async def inside() -> None:
        async with asyncio.timeout(1.0):
            with limits.within(9.0):
                await asyncio.sleep(60.0)

    async def outside() -> None:
        with limits.within(9.0):
            async with asyncio.timeout(1.0):
                await asyncio.sleep(60.0)

    for wait in (inside, outside):
        with pytest.raises(TimeoutError):
            await wait()
    limits.close()


@pytest.mark.parametrize("at_s", [1.0, 3.0], ids=["before", "in the same moment"])
async def test_a_cancellation_stays_one(at_s: float) -> None:
    """Who is cancelled by another client sees that, not a TimeoutError."""
    limits, loop = TimeLimits(), asyncio.get_running_loop()

    async def work() -> None:
        with limits.within(3.0):
            await asyncio.sleep(60.0)

    task = asyncio.create_task(work())
    loop.call_at(loop.time() + at_s, task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
    limits.close()


async def test_an_error_passes() -> None:
    """What the body raises comes out as it is."""
    limits = TimeLimits()
    with pytest.raises(ZeroDivisionError), limits.within(3.0):
        _ = 1 / 0
    await asyncio.sleep(9.0)
    limits.close()
