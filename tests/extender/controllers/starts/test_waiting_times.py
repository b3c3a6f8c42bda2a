"""Waits are counted once; running gangs are those that run now; few namespaces have labels of their own."""

import pytest

from extender.runtime.telemetry import MOST_NAMESPACES, OTHER, GangMetrics, Telemetry
from tests.extender.scheduling.world import World, node_json, running

LOOK_S = 2.5
NODES = (node_json("n1", cpu="2"), node_json("n2", cpu="2"))


def waits(world: World) -> float:
    return world.counted("gang_wait_duration_seconds_count", gang_namespace="default")


@pytest.mark.looptime
async def test_a_start_is_counted_once_with_its_wait() -> None:
    async with running(*NODES) as world:
        await world.settle(LOOK_S)
        names = await world.planned_gang("g", 2)
        await world.settle(LOOK_S)
        assert waits(world) == 0.0
        await world.bind_and_settle(*names)
        await world.settle(2 * LOOK_S)
        assert waits(world) == 1.0
        assert world.counted("gang_start_duration_seconds_count") == 1.0
        assert world.counted("gang_start_duration_seconds_sum") <= 10.0
        for name in names:
            world.change(name, phase="Succeeded")
        await world.settle(LOOK_S)
        world.delete(*names)
        await world.settle(LOOK_S)
        assert waits(world) == 1.0


@pytest.mark.looptime
async def test_what_ran_before_the_term_is_not_counted() -> None:
    async with running(*NODES) as world:
        world.gang("g", 2, nodeName="n1", phase="Running")
        await world.settle(LOOK_S)
        assert waits(world) == 0.0


@pytest.mark.looptime
async def test_a_gang_that_starts_before_the_first_look_is_counted() -> None:
    async with running(*NODES) as world:
        await world.bind_and_settle(*await world.planned_gang("g", 2))
        await world.settle(LOOK_S)  # the first look comes after a second
        assert waits(world) == 1.0


def test_namespaces_beyond_a_few_are_one() -> None:
    telemetry = Telemetry()
    metrics: GangMetrics = telemetry.gang_metrics
    for number in range(3 * MOST_NAMESPACES):
        metrics.waited(f"tenant-{number}", 1.0)
    value = telemetry.registry.get_sample_value
    assert value("netgang_gang_wait_duration_seconds_count", {"gang_namespace": OTHER}) == 2.0 * MOST_NAMESPACES
