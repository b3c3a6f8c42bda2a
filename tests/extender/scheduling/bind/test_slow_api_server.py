"""A slow API server makes a burst of gangs slower, never unfinished: the real client's retries, in virtual time."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterable
from typing import cast

import msgspec
import pytest

from extender.convert.wire import Passed
from extender.errors import ApiUnavailableError
from extender.kube.calls import PODS
from extender.kube.client import Binder, BindLimits
from extender.kube.transport import Transport
from extender.ports import Binding
from scoring.ids import NodeName, PodUid
from scoring.model.reasons import Reason
from tests.extender.scheduling.world import COMMIT_S, HOLD_S, World, node_json, running
from tests.fakes.clock import LoopClock
from tests.fakes.cluster_api import FakeClusterApi

pytestmark = pytest.mark.looptime
CONNECTIONS = 32
GANGS, SIZE = 24, 8
BACKOFFS_S = (1.0, 2.0, 4.0, 8.0, 10.0)


class SlowApi(FakeClusterApi):
    """Serves so many Bindings a second, one by one; what the client gave up is served all the same, as real ones do."""

    def __init__(self, per_s: float) -> None:
        super().__init__()
        self.per_s = per_s
        self.served: Counter[str] = Counter()
        self._free_s = 0.0
        self._connections = asyncio.Semaphore(CONNECTIONS)
        self._at_work: set[asyncio.Task[bytes]] = set()
        self._binder = Binder(cast(Transport, self), clock=LoopClock(), rng=random.Random(0), limits=BindLimits())

    async def bind(self, binding: Binding) -> None:
        await self._binder.bind(binding)

    def stand_still(self, seconds: float) -> None:
        """Serve nothing for a while; what was sent before is served then."""
        self._free_s = max(self._free_s, asyncio.get_running_loop().time()) + seconds

    async def send(self, method: str, path: str, *, timeout_s: float, body: bytes | None = None) -> bytes:
        """One exchange; the wait for a connection counts, as in the transport."""
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
        name = path.removesuffix("/binding").rpartition("/")[2]
        if body is None:
            return self.store.body(PODS, "default", name)
        asked = msgspec.json.decode(body)
        node = NodeName(asked["target"]["name"])
        self.store.bind(Binding("default", name, PodUid(asked["metadata"]["uid"]), node))
        return b"{}"


async def schedule(world: World, name: str) -> None:
    """kube-scheduler's care for one pod: filter, bind without a limit of its own, later again after an error."""
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
        names = await burst(world)
        calls = world.bind_offered(*names)
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
