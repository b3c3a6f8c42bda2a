"""When a gang will start, in each place where people look; waits of those that started are counted once."""

from datetime import UTC, datetime
from typing import Any

import pytest

from extender.controllers.starts import EACH_S
from extender.runtime.telemetry import MOST_NAMESPACES, OTHER, GangMetrics, Telemetry
from scoring.explain.queue_report import Queue, QueuedGang
from scoring.plan.expected_starts import ExpectedStart
from tests.extender.beside import at_once
from tests.extender.scheduling.world import World, key, node_json, running

pytestmark = pytest.mark.looptime

LOOK_S = EACH_S + 1.0


def lasting(seconds: float) -> dict[str, Any]:
    return {"annotations": {"netgang.io/expected-duration": f"{seconds:.0f}"}}


async def start(world: World, name: str, seconds: float) -> tuple[str, ...]:
    """A gang of one that fills the node, bound now, with the times that the API server writes."""
    pods = await world.planned_gang(name, 1, cpu="4", **lasting(seconds))
    await bind(world, pods)
    return pods


async def bind(world: World, pods: tuple[str, ...]) -> None:
    await world.bind_and_settle(*pods)
    at = datetime.fromtimestamp(world.clock.now_s(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for pod in pods:
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
        world.api.add(world.api.pod(pod) | {"status": {"phase": "Running", "conditions": [scheduled]}})


async def end(world: World, *pods: str) -> None:
    for pod in pods:
        world.change(pod, phase="Succeeded")
    await world.settle()
    world.delete(*pods)
    await world.settle()


def queued(world: World, name: str) -> QueuedGang:
    return next(one for one in queue_of(world).gangs if one.gang == key(name))


def queue_of(world: World) -> Queue:
    return at_once(world.service.views.queue())


def expected(world: World, name: str) -> ExpectedStart:
    found = queued(world, name).expected_start
    assert found is not None
    return found


async def test_it_is_the_same_in_queue_and_explain() -> None:
    """The gang that waits starts when the running one ends."""
    async with running(node_json("n1")) as world:
        began_s = world.clock.now_s()
        ran = await start(world, "runs", 600.0)
        waits = world.gang("waits", 1, cpu="4", **lasting(300.0))
        await world.settle(LOOK_S)
        known = expected(world, "waits")
        assert known.start_s == pytest.approx(began_s + 600.0, abs=3.0)
        assert (known.after, known.promised, known.unknown) == (key("runs"), True, None)
        explained = world.explained("waits").expected_start
        assert explained is not None
        assert (known.start_s, known.text) == (explained.start_s, explained.text)
        await end(world, *ran)
        await bind(world, waits)
        assert queued(world, "waits").expected_start is None


async def test_the_page_has_it_and_nothing_moves_with_the_clock_alone() -> None:
    """A minute later the same bytes are served: nothing has happened, so nothing is sent again."""
    async with running(node_json("n1")) as world, world.client() as client:
        await start(world, "runs", 600.0)
        world.gang("waits", 1, cpu="4", **lasting(300.0))
        await world.settle(LOOK_S)
        shown = (await client.get("/v1/page")).json()["queue"]
        await world.settle(60.0)
        assert (await client.get("/v1/page")).json()["queue"] == shown
        rows = {row["gang"]: row["expected"] for row in shown["rows"]}
        assert rows[key("runs")] is None
        assert rows[key("waits")]["after"] == key("runs")


async def test_what_is_not_known_is_said() -> None:
    """Without the length of what runs there is no moment, but the gang that is in the way."""
    async with running(node_json("n1")) as world:
        await world.bind_and_settle(*await world.planned_gang("runs", 1, cpu="4"))
        world.gang("waits", 1, cpu="4", **lasting(60.0))
        await world.settle(LOOK_S)
        known = expected(world, "waits")
        assert (known.start_s, known.after, known.unknown) == (None, key("runs"), "LENGTH")
        assert known.text == "when it starts is not known: how long default/runs runs is not known"


async def test_an_event_says_it() -> None:
    async with running(node_json("n1")) as world:
        await start(world, "runs", 7200.0)
        world.gang("waits", 1, cpu="4", **lasting(300.0))
        await world.settle(60.0)
        [said] = world.told("GangWaiting")
        assert "It is expected to start about" in said


# -- waits that are counted --------------------------------------------------------------------------------------------

COUNTED_S = 2.5
NODES = (node_json("n1", cpu="2"), node_json("n2", cpu="2"))


def waits(world: World) -> float:
    return world.counted("gang_wait_duration_seconds_count", gang_namespace="default")


async def test_a_start_is_counted_once_with_its_wait() -> None:
    async with running(*NODES) as world:
        await world.settle(COUNTED_S)
        names = await world.planned_gang("g", 2)
        await world.settle(COUNTED_S)
        assert waits(world) == 0.0
        await world.bind_and_settle(*names)
        await world.settle(2 * COUNTED_S)
        assert waits(world) == 1.0
        assert world.counted("gang_start_duration_seconds_count") == 1.0
        assert world.counted("gang_start_duration_seconds_sum") <= 10.0
        for name in names:
            world.change(name, phase="Succeeded")
        await world.settle(COUNTED_S)
        world.delete(*names)
        await world.settle(COUNTED_S)
        assert waits(world) == 1.0


async def test_what_ran_before_the_term_is_not_counted() -> None:
    async with running(*NODES) as world:
        world.gang("g", 2, nodeName="n1", phase="Running")
        await world.settle(COUNTED_S)
        assert waits(world) == 0.0


async def test_a_gang_that_starts_before_the_first_look_is_counted() -> None:
    async with running(*NODES) as world:
        await world.bind_and_settle(*await world.planned_gang("g", 2))
        await world.settle(COUNTED_S)  # the first look comes after a second
        assert waits(world) == 1.0


async def test_namespaces_beyond_a_few_are_one() -> None:
    telemetry = Telemetry()
    metrics: GangMetrics = telemetry.gang_metrics
    for number in range(3 * MOST_NAMESPACES):
        metrics.waited(f"tenant-{number}", 1.0)
    value = telemetry.registry.get_sample_value
    assert value("netgang_gang_wait_duration_seconds_count", {"gang_namespace": OTHER}) == 2.0 * MOST_NAMESPACES
