"""Bindings: how many at a time, which is next, that none is lost, and an API server that is slow or stands still."""

import asyncio
import math
import random
from collections import Counter
from collections.abc import Iterable
from typing import cast

import pytest

from extender.convert.wire import Passed
from extender.errors import ApiUnavailableError
from extender.kube.client import KubeClient
from extender.kube.transport import Transport
from extender.ports import Binding
from extender.scheduling.binding_posts import MOST, InFlightLimiter, Turns
from scoring.model.reasons import Reason
from tests.extender.scheduling.world import COMMIT_S, HOLD_S, World, node_json, running
from tests.fakes.clock import LoopClock
from tests.fakes.cluster_api import FakeClusterApi

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
    assert (third.done(), third.result()) == (True, False)


async def test_nothing_begins_while_it_is_closed() -> None:
    limiter = InFlightLimiter(LoopClock(), most=1)
    assert await limiter.take(group())
    waiter = asyncio.create_task(limiter.take(group()))
    await asyncio.sleep(0.1)
    limiter.close()
    assert not await waiter
    assert not await limiter.take(group())
    given_back(limiter, 1, took_s=0.1)
    limiter.closed = False
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

    groups = [group(chance.uniform(0, 9), chance.uniform(9, 12), urgent=chance.random() < 0.3) for _ in range(8)]
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


GANGS, SIZE = 24, 8
BACKOFFS_S = (1.0, 2.0, 4.0, 8.0, 10.0)


class SlowApi(FakeClusterApi):
    """Serves so many Bindings a second, one by one; what the client gave up is served all the same, as real ones do."""

    def __init__(self, per_s: float) -> None:
        super().__init__()
        self.per_s = per_s
        self.served: Counter[str] = Counter()
        self._free_s = 0.0
        self._connections = asyncio.Semaphore(32)
        self._at_work: set[asyncio.Task[bytes]] = set()
        self._binder = KubeClient(cast(Transport, self), LoopClock(), random.Random(0))

    async def bind(self, binding: Binding) -> None:
        await self._binder.bind(binding)

    def stand_still(self, seconds: float) -> None:
        self._free_s = max(self._free_s, asyncio.get_running_loop().time()) + seconds

    async def send(self, method: str, path: str, *, timeout_s: float, body: bytes | None = None) -> bytes:
        try:
            async with asyncio.timeout(timeout_s), self._connections:
                task = asyncio.create_task(self._serve(method, path, body))
                self._at_work.add(task)
                task.add_done_callback(self._at_work.discard)
                return await asyncio.shield(task)
        except TimeoutError as error:
            raise ApiUnavailableError(f"{method} {path}: no answer in time") from error

    async def _serve(self, method: str, path: str, body: bytes | None) -> bytes:
        now_s = asyncio.get_running_loop().time()
        self._free_s = max(self._free_s, now_s) + 1.0 / self.per_s
        await asyncio.sleep(self._free_s - now_s)
        self.served[method] += 1
        return self.server.answer(method, path, body or b"")


async def schedule(world: World, name: str) -> None:
    for backoff_s in (*BACKOFFS_S, *[BACKOFFS_S[-1]] * 20):
        answer = world.filter(name)
        if isinstance(answer, Passed) and answer.names:
            call = world.bind(name, answer.names[0])
            await call.task
            assert world.now_s - call.began_s <= HOLD_S + COMMIT_S, "kube-scheduler is kept waiting"
            if call.answer is None:
                assert world.node_of(name) == call.node, "success that is none"
                return
        await asyncio.sleep(backoff_s)
    raise AssertionError(f"{name} was never bound")


async def burst(world: World) -> list[str]:
    names = [name for number in range(GANGS) for name in world.gang(f"g{number:02}", SIZE)]
    await world.settle(1.0)
    return names


def whole(bound: Iterable[str]) -> dict[str, int]:
    return Counter(name.rpartition("-")[0] for name in bound)


NODES = [node_json(f"n{number:02}", cpu="8") for number in range(GANGS)]


@pytest.mark.slow
@pytest.mark.parametrize("per_s", [4.0, 10.0, 40.0])
async def test_a_burst_is_bound_as_fast_as_the_api_server_goes(per_s: float) -> None:
    api = SlowApi(per_s)
    async with running(*NODES, api=api) as world:
        names = await burst(world)
        begun_s = world.now_s
        await asyncio.gather(*(schedule(world, name) for name in names))
        assert world.now_s - begun_s <= 2.0 * len(names) / per_s + BACKOFFS_S[-1]
        assert api.served["POST"] <= 1.1 * len(names)
        assert api.served["GET"] <= 0.1 * len(names)
        assert len(api.bindings) == len(names)


async def test_gangs_that_have_to_wait_too_long_fail_whole() -> None:
    async with running(*NODES, api=SlowApi(4.0)) as world:
        calls = world.bind_offered(*await burst(world))
        await world.until(calls[0].began_s + HOLD_S + COMMIT_S)
        assert not any(call.waits for call in calls)
        refused = whole(call.pod for call in calls if call.answer is not None)
        assert set(refused.values()) == {SIZE}
        assert refused.keys().isdisjoint(whole(world.bound()))
        assert {call.answer for call in calls} == {None, Reason.COMMIT_FAILED}
        assert len(world.bound()) >= 0.8 * 4.0 * HOLD_S


async def test_an_api_server_that_stands_still_for_a_while() -> None:
    api = SlowApi(40.0)
    async with running(*NODES, api=api) as world:
        names = await burst(world)
        pods = [asyncio.create_task(schedule(world, name)) for name in names]
        await world.settle(2.0)
        api.stand_still(10.0)
        await asyncio.gather(*pods)
        assert world.now_s <= 60.0
        assert len(api.bindings) == len(names)


async def test_a_gang_that_is_complete_at_the_last_moment_has_time_for_its_turn() -> None:
    async with running(*NODES, api=SlowApi(4.0)) as world:
        others = [name for number in range(20) for name in world.gang(f"single{number:02}", 1)]
        first, last = world.gang("g", 2)
        await world.settle(1.0)
        [held] = world.bind_offered(first)
        await world.until(held.began_s + HOLD_S - 0.2)
        calls = [*world.bind_offered(*others, last), held]
        await world.until(held.began_s + HOLD_S + COMMIT_S)
        assert {call.answer for call in calls} == {None}


async def test_places_are_looked_at_again_after_a_long_wait() -> None:
    async with running(*NODES, api=SlowApi(4.0)) as world:
        others = [name for number in range(20) for name in world.gang(f"single{number:02}", 1)]
        members = world.gang("g", 2, cpu="8")
        await world.settle(1.0)
        world.bind_offered(*others)
        calls = world.bind_offered(*members)
        await world.settle(0.5)
        assert all(call.waits for call in calls)
        world.occupy(calls[1].node)
        await world.settle(HOLD_S)
        assert [call.answer for call in calls] == [Reason.COMMIT_FAILED] * 2
        assert world.bound().keys() == set(others)
        world.delete(*members)
