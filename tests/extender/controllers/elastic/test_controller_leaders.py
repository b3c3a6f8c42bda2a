"""Only the leader resizes jobs, and the next leader goes on where it stopped (docs/safety.md S11, S16)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.extender.controllers.elastic.cluster import ELASTIC, JOBS, Site
from tests.extender.controllers.operator import playing
from tests.extender.leadership.test_lease_loop import Replica, Replicas, cut_off, until_leads
from tests.extender.scheduling.world import key

pytestmark = pytest.mark.looptime


@asynccontextmanager
async def two() -> AsyncIterator[tuple[Site, Replica, Replica]]:
    """Two replicas over one cluster; the first leads, and a job of six workers runs, of which two suffice."""
    async with Replicas() as group:
        group.api.store.install(JOBS)
        a, b = await group.start("a", elastic=ELASTIC), await group.start("b", elastic=ELASTIC)
        here = Site(a.world)
        async with playing(here.act()):
            await here.runs("low", 6, least=2)
            await here.until_quiet_is_over()
            yield here, a, b


async def test_the_next_leader_keeps_the_room_and_takes_nothing_more() -> None:
    """The lease changes hands while the removed pods end, which takes them longer than the new leader's quiet time."""
    async with two() as (here, a, b):
        here.stuck.update(pod["metadata"]["name"] for pod in here.pods("low"))
        here.create("heavy", 5, least=5)
        await here.until("low is patched", lambda: here.workers("low") == 3)
        cut_off(a)
        await until_leads(b)
        here.world = b.world
        await here.world.settle(3.0)
        assert set(here.claims) == {key("heavy")}
        assert a.world.service.cache.snapshot().claims == {}
        await here.until_quiet_is_over()
        await here.world.settle(10.0)
        assert (here.workers("low"), here.api.calls["patch_object"], set(here.claims)) == (3, 1, {key("heavy")})
        here.stuck.clear()
        await here.heavy_runs()
        await here.world.settle(10.0)
        assert (here.workers("low"), here.api.calls["patch_object"], here.claims) == (3, 1, {})


async def test_a_leader_without_its_lease_resizes_nobody() -> None:
    async with two() as (here, a, b):
        cut_off(a)
        await until_leads(b)
        began_s = here.world.now_s
        here.world = b.world
        here.create("heavy", 5, least=5)
        await here.world.until(began_s + 25.0)
        assert (here.workers("low"), here.api.calls["patch_object"]) == (6, 0)
        await here.heavy_runs()
        assert here.api.calls["patch_object"] == 1
