"""When a gang will start, in each place where people look."""

from datetime import UTC, datetime
from typing import Any

import pytest

from extender.controllers.starts import EACH_S
from extender.schemas.queue import ExpectedStart, Queue, QueuedGang
from tests.extender.api.asking import asking
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
    async with running(node_json("n1")) as world, asking(world) as client:
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
