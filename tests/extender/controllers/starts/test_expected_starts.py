"""When a gang will start, in each place where people look, and how often that was right."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from extender.controllers.starts.expected_starts import EACH_S
from extender.schemas.expected_start import ExpectedStart
from extender.schemas.queue import Queue, QueuedGang
from scoring.plan.steps import finish
from tests.extender.api.asking import asking
from tests.extender.scheduling.world import World, key, node_json, pod_json, running

pytestmark = pytest.mark.looptime

ON: dict[str, Any] = {"lengths": {"enabled": True}, "queue": {"backfill": {"mode": "easy"}}}
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
    return finish(world.service.views.queue())


def expected(world: World, name: str) -> ExpectedStart:
    found = queued(world, name).expected_start
    assert found is not None
    return found


async def test_it_is_the_same_in_queue_explain_and_what_if() -> None:
    """The gang that waits starts when the running one ends; one that would be submitted starts after both."""
    async with running(node_json("n1"), **ON) as world, asking(world) as client:
        began_s = world.clock.now_s()
        ran = await start(world, "runs", 600.0)
        waits = world.gang("waits", 1, cpu="4", **lasting(300.0))
        await world.settle(LOOK_S)
        known = expected(world, "waits")
        assert known.start_s == pytest.approx(began_s + 600.0, abs=3.0)
        assert (known.after, known.promised, known.unknown) == (key("runs"), True, None)
        assert known.low_s is not None
        assert known.start_s is not None
        assert known.high_s is not None
        assert known.low_s < known.start_s < known.high_s
        explained = world.explained("waits").expected_start
        assert explained is not None
        assert (known.start_s, known.text) == (explained.start_s, explained.text)
        new = pod_json("new", gang="new", cpu="4")
        reply = await client.post("/v1/what-if", json={"pods": [{"pod": new}]})
        [supposed] = reply.json()["other"]
        then = msgspec.convert(supposed["after"]["expected_start"], ExpectedStart)
        assert then.start_s == pytest.approx(began_s + 900.0, abs=3.0)
        assert then.after == key("waits")
        await end(world, *ran)
        await bind(world, waits)
        assert queued(world, "waits").expected_start is None


async def test_the_page_has_it_and_nothing_moves_with_the_clock_alone() -> None:
    """A minute later the same bytes are served: nothing has happened, so nothing is sent again."""
    async with running(node_json("n1"), **ON) as world, asking(world) as client:
        await start(world, "runs", 600.0)
        world.gang("waits", 1, cpu="4", **lasting(300.0))
        await world.settle(LOOK_S)
        shown = (await client.get("/v1/page")).json()["queue"]
        await world.settle(60.0)
        assert (await client.get("/v1/page")).json()["queue"] == shown
        rows = {row["gang"]: row["expected"] for row in shown["rows"]}
        assert rows[key("runs")] is None
        assert (rows[key("waits")]["after"], rows[key("waits")]["unknown"]) == (key("runs"), None)
        assert shown["inside"] is None


async def test_what_is_not_known_is_said() -> None:
    """Without the length of what runs there is no moment, but the gang that is in the way."""
    async with running(node_json("n1"), **ON) as world:
        await world.bind_and_settle(*await world.planned_gang("runs", 1, cpu="4"))
        world.gang("waits", 1, cpu="4")
        await world.settle(LOOK_S)
        known = expected(world, "waits")
        assert (known.start_s, known.after, known.unknown) == (None, key("runs"), "LENGTH")
        assert known.text == "when it starts is not known: how long default/runs runs is not known"


async def test_without_back_fill_explain_says_what_is_off() -> None:
    async with running(node_json("n1")) as world:
        await world.bind_and_settle(*await world.planned_gang("runs", 1, cpu="4"))
        world.gang("waits", 1, cpu="4")
        await world.settle(LOOK_S)
        explained = world.explained("waits").expected_start
        assert explained is not None
        assert explained.unknown == "OFF"
        assert queued(world, "waits").expected_start is None


@pytest.mark.parametrize(("after_s", "result"), [(300.0, "early"), (600.0, "inside"), (900.0, "late")])
async def test_each_interval_counts_once(after_s: float, result: str) -> None:
    """The first one that a gang was given, wherever its start is seen from it."""
    async with running(node_json("n1"), **ON) as world:
        ran = await start(world, "runs", 600.0)
        waits = world.gang("waits", 1, cpu="4", **lasting(300.0))
        await world.settle(after_s)
        await end(world, *ran)
        await bind(world, waits)
        await world.settle(2 * LOOK_S)
        counted = {one: world.counted("expected_starts_total", result=one) for one in ("early", "inside", "late")}
        assert counted == {one: float(one == result) for one in counted}
        counts = queue_of(world).expected_starts
        assert counts is not None
        assert getattr(counts, result) == 1


async def test_an_event_says_it_and_says_it_again_only_when_it_moved_by_much() -> None:
    """An hour passes as it was foreseen, then another gang of higher priority goes ahead."""
    async with running(node_json("n1"), **ON) as world:
        await start(world, "runs", 7200.0)
        world.gang("waits", 1, cpu="4", **lasting(300.0))
        await world.settle(1500.0)
        said = world.told("GangWaiting")
        assert len(said) == 1
        assert "It is expected to start about" in said[0]

        world.gang("urgent", 1, cpu="4", priority=5, **lasting(7200.0))
        await world.settle(60.0)
        moved = [one for one in world.told("GangWaiting")[1:] if "after default/urgent ends" in one]
        assert moved
