"""The in-flight limiter of Bindings: how many at a time, which is next, and that none is lost."""

import asyncio
import math
import random

import pytest

from extender.scheduling.binding_posts import MOST, InFlightLimiter, Turns
from tests.fakes.clock import LoopClock

pytestmark = pytest.mark.looptime


def group(begin_by_s: float = math.inf, end_by_s: float = math.inf, *, urgent: bool = False) -> Turns:
    return Turns(min(begin_by_s, 1e6), min(end_by_s, 1e6), urgent=urgent)


async def filled(limiter: InFlightLimiter) -> int:
    for _ in range(count := limiter.room):
        assert await limiter.take(group())
    return count


def given_back(limiter: InFlightLimiter, count: int, *, took_s: float, answered: bool = True) -> None:
    began_s = asyncio.get_running_loop().time() - took_s
    for _ in range(count):
        limiter.give_back(began_s=began_s, answered=answered)


ANSWERS = {  # case: (what each took, whether it was answered, room after the first round: least, most)
    "quick": (0.01, True, 16, 16),
    "fair": (1.0, True, 8, 9),
    "neither fair nor slow": (2.0, True, 8, 8),
    "slow": (2.8, True, 4, 4),
    "not answered": (0.1, False, 4, 4),
}


@pytest.mark.parametrize(("took_s", "answered", "least", "most"), ANSWERS.values(), ids=ANSWERS)
async def test_the_room_follows_the_answers(took_s: float, answered: bool, least: int, most: int) -> None:
    limiter = InFlightLimiter(LoopClock())
    await asyncio.sleep(10.0)
    given_back(limiter, await filled(limiter), took_s=took_s, answered=answered)
    assert least <= limiter.room <= most
    assert limiter.under_way == 0


async def test_there_is_always_room_for_a_few() -> None:
    limiter = InFlightLimiter(LoopClock())
    for _ in range(20):
        count = await filled(limiter)
        await asyncio.sleep(6.0)
        given_back(limiter, count, took_s=6.0, answered=False)
    assert limiter.room == 4
    rounds = 0
    while limiter.room < MOST:
        given_back(limiter, await filled(limiter), took_s=0.01)
        rounds += 1
    assert 18 <= rounds <= 40
    for _ in range(100):
        given_back(limiter, await filled(limiter), took_s=0.01)
    assert limiter.room == MOST


async def test_an_old_slowness_is_forgotten() -> None:
    limiter = InFlightLimiter(LoopClock())
    await asyncio.sleep(10.0)
    given_back(limiter, await filled(limiter), took_s=3.0)
    await asyncio.sleep(11.0)
    given_back(limiter, await filled(limiter), took_s=0.01)
    assert limiter.room == 8


async def test_who_is_next() -> None:
    limiter = InFlightLimiter(LoopClock(), most=1)
    assert await limiter.take(group())
    order: list[str] = []

    async def post(name: str, of: Turns) -> None:
        assert await limiter.take(of)
        order.append(name)
        limiter.give_back(began_s=asyncio.get_running_loop().time(), answered=True)

    first, second, partly = group(), group(), group(urgent=True)
    posts = [("a", first), ("b", second), ("c", partly), ("a", first), ("b", second), ("c", partly)]
    tasks = [asyncio.create_task(post(name, of)) for name, of in posts]
    await asyncio.sleep(0.1)
    given_back(limiter, 1, took_s=0.1)
    await asyncio.gather(*tasks)
    assert order == ["c", "c", "a", "a", "b", "b"]


async def test_a_gang_that_has_not_begun_fails_whole() -> None:
    limiter = InFlightLimiter(LoopClock(), most=1)
    assert await limiter.take(group())
    waiting = group(begin_by_s=5.0, end_by_s=9.0)
    tasks = [asyncio.create_task(limiter.take(waiting)) for _ in range(3)]
    await asyncio.sleep(4.9)
    assert not any(task.done() for task in tasks)
    await asyncio.sleep(0.2)
    assert [task.result() for task in tasks] == [False] * 3
    assert not await limiter.take(waiting)
    given_back(limiter, 1, took_s=0.1)
    assert limiter.under_way == 0


async def test_a_gang_that_has_begun_has_more_time() -> None:
    limiter = InFlightLimiter(LoopClock(), most=1)
    begun = group(begin_by_s=5.0, end_by_s=9.0)
    assert await limiter.take(begun)
    second, third = (asyncio.create_task(limiter.take(begun)) for _ in range(2))
    await asyncio.sleep(8.0)
    given_back(limiter, 1, took_s=1.5)
    assert await second
    await asyncio.sleep(1.1)
    assert third.done()
    assert not third.result()


async def test_nothing_begins_while_it_is_closed() -> None:
    limiter = InFlightLimiter(LoopClock(), most=1)
    assert await limiter.take(group())
    waiter = asyncio.create_task(limiter.take(group()))
    await asyncio.sleep(0.1)
    limiter.close()
    assert not await waiter
    assert not await limiter.take(group())
    given_back(limiter, 1, took_s=0.1)
    limiter.open()
    assert await limiter.take(group())


@pytest.mark.parametrize("seed", range(20))
async def test_no_turn_is_lost(seed: int) -> None:
    chance = random.Random(seed)
    limiter = InFlightLimiter(LoopClock(), most=chance.randint(1, 4))
    most = 0

    async def post(of: Turns) -> None:
        nonlocal most
        if await limiter.take(of):
            began_s = asyncio.get_running_loop().time()
            most = max(most, limiter.under_way)
            try:
                await asyncio.sleep(chance.choice([0.01, 0.3, 1.5]))
            finally:
                limiter.give_back(began_s=began_s, answered=chance.random() < 0.8)

    groups = [
        group(chance.uniform(0.0, 9.0), chance.uniform(9.0, 12.0), urgent=chance.random() < 0.3) for _ in range(8)
    ]
    tasks = []
    for _ in range(60):
        tasks.append(asyncio.create_task(post(chance.choice(groups))))
        if chance.random() < 0.2:
            chance.choice(tasks).cancel()
        if chance.random() < 0.1:
            limiter.refuse(chance.choice(groups))
        await asyncio.sleep(chance.choice([0.0, 0.0, 0.2]))
    await asyncio.gather(*tasks, return_exceptions=True)
    assert most <= 4
    assert limiter.under_way == 0
    assert await limiter.take(group())
