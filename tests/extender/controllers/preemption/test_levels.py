"""Gangs that have had much of the cluster are suspended for one that has had less, come back, and stay known."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from extender.controllers.removal.removals import QUIET_S
from extender.controllers.restart.suspensions import RAN_BEFORE
from extender.kube.calls import PODS
from scoring.model.reasons import Reason
from tests.extender.beside import playing
from tests.extender.controllers.operator import Operator
from tests.extender.controllers.preemption.test_controller import (
    MAKES_ROOM_S,
    OFF,
    acting,
    arrives,
    claims,
    full,
    job,
    nodes,
    running_gangs,
)
from tests.extender.scheduling.world import World, key, running, unfinished
from tests.fakes.cluster_api import FakeClusterApi

pytestmark = pytest.mark.looptime

LEVELS: dict[str, Any] = {**OFF, "preemption": "levels", "wide_share": 1, "min_run_s": 300}
WHOLE: dict[str, Any] = {"cpu": "1500m"}  # each pod has a node for itself
SUSPENDABLE: dict[str, Any] = {**WHOLE, "annotations": {"netgang.io/suspendable": "true"}}
AGE_S = 400.0  # of a gang on all CPUs: 0.11 cluster-hours, one level.


async def says_since_when(world: World) -> None:
    while True:
        await asyncio.sleep(0.5)
        for name in world.bound():
            pod = world.api.pod(name)
            if "lastTransitionTime" not in pod["status"]["conditions"][0]:
                at = datetime.fromtimestamp(world.clock.now_s(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                said = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
                world.api.store.put(PODS, {**pod, "status": {**pod.get("status", {}), "conditions": [said]}})


@asynccontextmanager
async def long_one(
    settings: dict[str, Any] = LEVELS, age_s: float = AGE_S, **runs: Any
) -> AsyncIterator[tuple[World, AsyncExitStack, Operator]]:
    async with full(("long", 2), settings=settings, **runs) as (world, stack, jobs):
        await stack.enter_async_context(playing(says_since_when(world)))
        await world.settle(age_s)
        yield world, stack, jobs["long"]


async def test_a_long_gang_leaves_for_a_new_one_and_comes_back() -> None:
    """What it has had is noted on its owner, so that it does not take the place back before the short one has ended."""
    async with long_one(**SUSPENDABLE) as (world, stack, long):
        short = await arrives(world, stack, 2, name="short", priority=0)
        await world.settle(MAKES_ROOM_S)
        assert running_gangs(world) == {"short": 2}
        assert world.waits_for("long") is Reason.NO_ROOM
        said = world.told_to("GangPreempted")["long-0"]
        assert "gang default/short, which is of a lower service level (this gang has had" in said
        assert "Gang default/long of a higher service level leaves" in world.told_to("GangPreempts")["short-0"]
        had_h = world.service.cache.snapshot().attained_h[key("long")]
        assert had_h == pytest.approx(0.11, rel=0.1)
        assert long.annotations_of_owner["netgang.io/attained"].startswith('{"gang":"long","hours":0.1')
        assert long.owner["metadata"]["labels"]["netgang.io/restart"] == RAN_BEFORE.partition("=")[2]
        await world.settle(AGE_S)
        assert running_gangs(world) == {"short": 2}
        short.size = 0
        world.delete(*short.members())
        await world.settle(5.0)
        assert running_gangs(world) == {"long": 2}
        assert claims(world) == {}


async def test_a_level_is_reached_while_the_plan_stays() -> None:
    async with long_one(age_s=1.0, **SUSPENDABLE) as (world, stack, _):
        await arrives(world, stack, 2, name="short", priority=0)
        await world.settle(160.0)
        assert running_gangs(world) == {"long": 2}
        await world.settle(180.0)
        assert running_gangs(world) == {"short": 2}


@pytest.mark.parametrize("suspended", [True, False], ids=["while it is suspended", "while it waits"])
async def test_what_it_has_had_survives_a_restart(suspended: bool) -> None:
    """Whether the new process finds its owner suspended or resumed; one that begins at 0 would take the place back."""
    api = FakeClusterApi(*nodes(2))
    async with unfinished(api=api, **LEVELS) as world:
        long, short = job(world, "long", 2, **SUSPENDABLE), job(world, "short", 2)
        async with acting(world, long), playing(says_since_when(world)), AsyncExitStack() as stack:
            await world.settle(AGE_S)
            await stack.enter_async_context(acting(world, short))
            long.ends = not suspended
            await world.settle(MAKES_ROOM_S)
    async with running(api=api, **LEVELS) as world:
        long.world = short.world = world
        long.ends = True
        async with acting(world, long, short):
            await world.settle(QUIET_S + 10.0)
            assert running_gangs(world) == {"short": 2}
            assert world.service.cache.snapshot().attained_h[key("long")] == pytest.approx(0.11, rel=0.1)


async def test_what_a_tenant_wrote_does_not_count() -> None:
    async with long_one(**SUSPENDABLE) as (world, stack, long):
        await arrives(world, stack, 2, name="short", priority=0)
        await world.settle(MAKES_ROOM_S)
        api, note = world.api, long.annotations_of_owner["netgang.io/attained"]
    wrong = {"metadata": {"annotations": {"netgang.io/attained": note.replace('"hours":0.1', '"hours":0.0')}}}
    api.store.merge_patch(long.resource, "default", "long", wrong)
    async with running(api=api, **LEVELS) as world:
        await world.settle(5.0)
        assert key("long") not in world.service.cache.snapshot().attained_h


async def test_another_job_of_the_name_has_had_nothing() -> None:
    async with long_one(**SUSPENDABLE) as (world, stack, long):
        await arrives(world, stack, 2, name="short", priority=0)
        await world.settle(MAKES_ROOM_S)
        assert key("long") in world.service.cache.snapshot().attained_h
        long.reference = world.owner("other")
        world.delete(*long.members())
        await world.settle(2.0)
        assert key("long") not in world.service.cache.snapshot().attained_h
