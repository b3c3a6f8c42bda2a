"""Events about waiting gangs: on the PodGroup and one pod, once per reason, and that it has started.

When a gang will start, in each place where people look; waits of those that started are counted once.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from extender.controllers.events.waiting import AGAIN_S, EACH_S, PATIENCE_S
from extender.kube.calls import POD_GROUPS
from extender.runtime.telemetry import MOST_NAMESPACES, OTHER, Telemetry
from scoring.records import ExpectedStart
from tests.builders import mesh
from tests.extender.beside import at_once
from tests.extender.scheduling.world import Object, World, group_json, key, node_json, pod_json, running

pytestmark = pytest.mark.looptime

SMALL = node_json("n1", cpu="1")
TOLD_S = PATIENCE_S + 3.0


@asynccontextmanager
async def waiting() -> AsyncIterator[World]:
    """A PodGroup of two pods that has room for one; the other node is full."""
    async with running(SMALL, node_json("n2", cpu="1"), group_json(), *(pod_json(n, group="g") for n in "ab")) as world:
        world.occupy("n2", cpu="1")
        yield world


def told(world: World, kind: str = "PodGroup") -> list[tuple[str, str]]:
    return [(one["reason"], one["regarding"]["name"]) for one in world.api.events if one["regarding"]["kind"] == kind]


async def test_a_wait_and_its_end_are_told() -> None:
    """On the PodGroup; of the wait on one pod, too."""
    async with waiting() as world:
        await world.settle(30.0)
        assert (told(world), told(world, "Pod")) == ([("GangWaiting", "g")], [("GangWaiting", "a")])
        on_group, on_pod = world.api.events
        assert on_group["note"] == on_pod["note"]
        assert "zone a has room for 1 of 2 pods" in on_group["note"]
        assert on_group["type"] == "Normal"
        uid = world.api.store.get(POD_GROUPS, "default", "g")["metadata"]["uid"]
        assert on_group["regarding"] == {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "namespace": "default", "name": "g",
            "uid": uid,
        }  # fmt: skip
        world.delete("stranger")
        await world.settle()
        world.bind_offered("a", "b")
        await world.settle(3.0)
        assert told(world) == [("GangWaiting", "g"), ("GangStarted", "g")]
        assert ("GangStarted", "a") not in told(world, "Pod")
        note = world.api.events[-1]["note"]
        assert note.startswith("2 pods have nodes in zone a after 3")
        assert note.endswith(" s of waiting.")


async def test_the_worst_link_of_what_started_is_named_first() -> None:
    async with waiting() as world:
        now_s = world.clock.now_s()
        world.set_network(mesh(["n1", "n2"], loss_ratio=0.13, now_s=now_s, measured_at_s=now_s))
        await world.settle(30.0)
        world.delete("stranger")
        await world.settle()
        world.bind_offered("a", "b")
        await world.settle(3.0)
        assert world.api.events[-1]["note"].startswith("Bad link n1 → n2: 13 % loss. 2 pods have nodes in zone a ")


@pytest.mark.slow
async def test_once_and_then_rarely() -> None:
    async with waiting() as world:
        for number in range(int(AGAIN_S / 60.0) - 1):
            world.node(f"m{number}", zone=f"z{number}", cpu="1")
            await world.settle(60.0)
        assert told(world) == [("GangWaiting", "g")]
        await world.settle(180.0)
        assert told(world) == [("GangWaiting", "g")] * 2


async def test_another_reason_is_news_and_one_that_comes_and_goes_is_told_once() -> None:
    async with waiting() as world:
        for _ in range(20):
            await world.settle(TOLD_S)
            world.delete("b")
            await world.settle(TOLD_S)
            world.api.add(pod_json("b", group="g"))
        assert told(world) == [("GangWaiting", "g")] * 2
        notes = [one["note"] for one in world.api.events if one["regarding"]["kind"] == "PodGroup"]
        assert "has room for 1 of 2 pods" in notes[0]
        assert notes[1].startswith("1 of 2 pods exist; 1 more must exist before it starts.")


async def test_a_short_wait_is_not_told() -> None:
    async with running(node_json("n1"), group_json(), pod_json("a", group="g")) as world:
        await world.settle(PATIENCE_S - 2.0)
        world.api.add(pod_json("b", group="g"))
        await world.settle()
        world.bind_offered("a", "b")
        await world.settle(60.0)
        assert world.api.events == []


WARNINGS: dict[str, tuple[list[Object], list[str], str, str]] = {  # case: (objects; PodGroups told; pod told; of what)
    "it cannot start": (
        [group_json(), pod_json("a", group="g"), pod_json("b", group="g")], ["g"], "a", "GangCannotStart",
    ),
    "no PodGroup": ([pod_json(f"l-{i}", gang="l", size=2) for i in range(2)], [], "l-0", "GangCannotStart"),
    "the PodGroup has a fault": ([group_json(least=0), pod_json("a", group="g")], ["g"], "a", "GangInvalid"),
}  # fmt: skip


@pytest.mark.parametrize(("objects", "groups", "pod", "reason"), WARNINGS.values(), ids=WARNINGS)
async def test_who_is_told_of_what_people_have_to_change(
    objects: list[Object], groups: list[str], pod: str, reason: str
) -> None:
    async with running(SMALL, *objects) as world:
        await world.settle(TOLD_S)
        assert (told(world), told(world, "Pod")) == ([(reason, name) for name in groups], [(reason, pod)])
        assert {one["type"] for one in world.api.events} == {"Warning"}


async def test_a_crowd_has_its_turn() -> None:
    async with running(SMALL) as world:
        for number in range(100):
            world.gang(f"g{number:02}", 2)
        await world.settle(60.0)
        assert len(set(told(world, "Pod"))) == len(told(world, "Pod")) == 100


LOOK_S = EACH_S + 1.0


def lasting(seconds: float) -> dict[str, Any]:
    return {"annotations": {"netgang.io/expected-duration": f"{seconds:.0f}"}}


async def bind(world: World, pods: tuple[str, ...]) -> None:
    """Bound now, with the times that the API server writes."""
    await world.bind_and_settle(*pods)
    at = datetime.fromtimestamp(world.clock.now_s(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for pod in pods:
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
        world.api.add(world.api.pod(pod) | {"status": {"phase": "Running", "conditions": [scheduled]}})


def expected(world: World, name: str) -> ExpectedStart | None:
    """As the queue has it."""
    [start] = [one.expected_start for one in at_once(world.service.views.queue()).gangs if one.gang == key(name)]
    return start


@asynccontextmanager
async def behind(seconds: float) -> AsyncIterator[tuple[World, tuple[str, ...], tuple[str, ...]]]:
    """A node, a gang on it that says how long it runs, and one behind it; the world and their pods."""
    async with running(node_json("n1")) as world:
        ran = await world.planned_gang("runs", 1, cpu="4", **lasting(seconds))
        await bind(world, ran)
        waits = world.gang("waits", 1, cpu="4", **lasting(300.0))
        await world.settle(LOOK_S)
        yield world, ran, waits


async def test_it_is_the_same_in_queue_and_explain() -> None:
    """The gang that waits starts when the running one ends."""
    async with behind(600.0) as (world, ran, waits):
        start, explained = expected(world, "waits"), world.explained("waits").expected_start
        assert start is not None
        assert explained is not None
        assert start.start_s == pytest.approx(world.clock.now_s() - LOOK_S + 600.0, abs=3.0)
        assert (start.after, start.promised, start.unknown) == (key("runs"), True, None)
        assert (start.start_s, start.text) == (explained.start_s, explained.text)
        world.change(*ran, phase="Succeeded")
        await world.settle()
        world.delete(*ran)
        await world.settle()
        await bind(world, waits)
        assert expected(world, "waits") is None


async def test_page_and_event_have_it_and_nothing_moves_with_the_clock_alone() -> None:
    """A minute later the same bytes are served: nothing has happened, so nothing is sent again."""
    async with behind(7200.0) as (world, _, _), world.client() as client:
        shown = (await client.get("/v1/page")).json()["queue"]
        await world.settle(60.0)
        assert (await client.get("/v1/page")).json()["queue"] == shown
        [note] = world.told("GangWaiting")
        assert "It is expected to start about" in note
        rows = {row["gang"]: row.get("expected") for row in shown["rows"]}
        assert rows[key("runs")] is None
        assert rows[key("waits")]["after"] == key("runs")


async def test_what_is_not_known_is_said() -> None:
    """Without the length of what runs there is no moment, but the gang that is in the way."""
    async with running(node_json("n1")) as world:
        await world.bind_and_settle(*await world.planned_gang("runs", 1, cpu="4"))
        world.gang("waits", 1, cpu="4", **lasting(60.0))
        await world.settle(LOOK_S)
        start = expected(world, "waits")
        assert start is not None
        assert (start.start_s, start.after, start.unknown) == (None, key("runs"), "LENGTH")
        assert start.text == "when it starts is not known: how long default/runs runs is not known"


COUNTED_S = 2.5


def waits(world: World) -> float:
    return world.counted("gang_wait_duration_seconds_count", gang_namespace="default")


async def test_a_start_is_counted_once_with_its_wait() -> None:
    async with running(node_json("n1", cpu="2")) as world:
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


async def test_of_gangs_that_started_before_the_first_look_those_that_it_admitted_are_counted() -> None:
    """What ran before the term is not."""
    async with running(node_json("n1")) as world:
        world.gang("ran", 2, cpu="500m", nodeName="n1", phase="Running")
        await world.bind_and_settle(*await world.planned_gang("g", 2))
        await world.settle(COUNTED_S)  # the first look comes after a second
        assert waits(world) == 1.0


async def test_namespaces_beyond_a_few_are_one() -> None:
    telemetry = Telemetry()
    for number in range(3 * MOST_NAMESPACES):
        telemetry.gang_waited(f"tenant-{number}", 1.0)
    value = telemetry.registry.get_sample_value
    assert value("netgang_gang_wait_duration_seconds_count", {"gang_namespace": OTHER}) == 2.0 * MOST_NAMESPACES
