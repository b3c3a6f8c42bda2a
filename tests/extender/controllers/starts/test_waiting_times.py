"""Waits are counted once, by outcome; running gangs are those that run now; few namespaces have labels of their own."""

import pytest

from extender.runtime.gang_metrics import MOST_NAMESPACES, OTHER, GangMetrics
from extender.runtime.telemetry import Telemetry
from tests.extender.scheduling.world import World, node_json, running

LOOK_S = 2.5
NODES = (node_json("n1", cpu="2"), node_json("n2", cpu="2"))


def waits(world: World) -> dict[str, float]:
    found = {
        outcome: world.counted("gang_wait_duration_seconds_count", gang_namespace="default", outcome=outcome)
        for outcome in ("started", "deleted", "unfit")
    }
    return {outcome: count for outcome, count in found.items() if count}


@pytest.mark.looptime
async def test_a_start_is_counted_once_with_its_wait() -> None:
    async with running(*NODES) as world:
        await world.settle(LOOK_S)
        names = await world.planned_gang("g", 2)
        await world.settle(LOOK_S)
        assert waits(world) == {}
        await world.bind_and_settle(*names)
        await world.settle(2 * LOOK_S)
        assert waits(world) == {"started": 1.0}
        assert world.counted("gang_start_duration_seconds_count") == 1.0
        assert world.counted("gang_start_duration_seconds_sum") <= 10.0
        for name in names:
            world.change(name, phase="Succeeded")
        await world.settle(LOOK_S)
        world.delete(*names)
        await world.settle(LOOK_S)
        assert waits(world) == {"started": 1.0}


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("size", "pods", "outcome"), [(4, 4, "deleted"), (5, 5, "unfit"), (3, 2, "unfit")], ids=["full", "wide", "few"]
)
async def test_a_gang_that_is_deleted_is_counted_by_whether_it_could_have_started(
    size: int, pods: int, outcome: str
) -> None:
    async with running(*NODES) as world:
        world.occupy("n1", cpu="2")
        await world.settle(LOOK_S)
        names = await world.planned_gang("g", pods, minimum=size)
        await world.settle(LOOK_S)
        for name in names:  # one by one, as a job's pods go
            world.delete(name)
            await world.settle(LOOK_S)
        assert waits(world) == {outcome: 1.0}
        assert world.counted("gang_wait_duration_seconds_sum", gang_namespace="default", outcome=outcome) > LOOK_S


@pytest.mark.looptime
async def test_what_ran_before_the_term_is_not_counted() -> None:
    async with running(*NODES) as world:
        world.gang("g", 2, nodeName="n1", phase="Running")
        await world.settle(LOOK_S)
        assert waits(world) == {}


@pytest.mark.looptime
async def test_a_gang_that_starts_before_the_first_look_is_counted() -> None:
    async with running(*NODES) as world:
        await world.bind_and_settle(*await world.planned_gang("g", 2))
        await world.settle(LOOK_S)  # the first look comes after a second
        assert waits(world) == {"started": 1.0}


def test_namespaces_beyond_a_few_are_one() -> None:
    telemetry = Telemetry()
    metrics: GangMetrics = telemetry.gang_metrics
    for number in range(3 * MOST_NAMESPACES):
        metrics.waited(f"tenant-{number}", "started", 1.0)
    value = telemetry.registry.get_sample_value
    labels = {"gang_namespace": OTHER, "outcome": "started"}
    assert value("netgang_gang_wait_duration_seconds_count", labels) == 2.0 * MOST_NAMESPACES
