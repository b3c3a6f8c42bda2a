"""Events about waiting gangs: on the PodGroup and one pod, once per reason, and that it has started."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from extender.controllers.events.waiting import AGAIN_S, PATIENCE_S
from extender.kube.calls import POD_GROUPS
from tests.extender.scheduling.world import Object, World, group_json, node_json, pod_json, running

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


async def test_on_the_podgroup_and_on_one_pod() -> None:
    async with waiting() as world:
        await world.settle(TOLD_S)
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


async def test_once_and_then_rarely() -> None:
    async with waiting() as world:
        for number in range(int(AGAIN_S / 60.0) - 1):
            world.node(f"m{number}", zone=f"z{number}", cpu="1")
            await world.settle(60.0)
        assert told(world) == [("GangWaiting", "g")]
        await world.settle(180.0)
        assert told(world) == [("GangWaiting", "g")] * 2


async def test_another_reason_is_news() -> None:
    async with running(SMALL, node_json("n2", cpu="1"), group_json(), pod_json("a", group="g")) as world:
        world.occupy("n2", cpu="1")
        await world.settle(TOLD_S)
        world.api.add(pod_json("b", group="g"))
        await world.settle(TOLD_S)
        assert told(world) == [("GangWaiting", "g")] * 2
        notes = [one["note"] for one in world.api.events if one["regarding"]["kind"] == "PodGroup"]
        assert notes[0].startswith("1 of 2 pods exist; 1 more must exist before it starts.")
        assert "has room for 1 of 2 pods" in notes[1]


async def test_a_reason_that_comes_and_goes_is_told_once() -> None:
    async with waiting() as world:
        for _ in range(20):
            await world.settle(TOLD_S)
            world.delete("b")
            await world.settle(TOLD_S)
            world.api.add(pod_json("b", group="g"))
        assert len(told(world)) == 2


async def test_a_short_wait_is_not_told() -> None:
    async with running(node_json("n1"), group_json(), pod_json("a", group="g")) as world:
        await world.settle(PATIENCE_S - 2.0)
        world.api.add(pod_json("b", group="g"))
        await world.settle()
        world.bind_offered("a", "b")
        await world.settle(60.0)
        assert world.api.events == []


async def test_the_end_of_a_wait_is_told() -> None:
    async with waiting() as world:
        await world.settle(30.0)
        world.delete("stranger")
        await world.settle()
        world.bind_offered("a", "b")
        await world.settle(3.0)
        assert told(world) == [("GangWaiting", "g"), ("GangStarted", "g")]
        assert ("GangStarted", "a") not in told(world, "Pod")
        note = world.api.events[-1]["note"]
        assert note.startswith("2 pods have nodes in zone a after 3")
        assert note.endswith(" s of waiting.")


WARNINGS: dict[str, tuple[list[Object], list[str], str, str]] = {  # case: (objects; PodGroups told; pod told; of what)
    "it cannot start": (
        [group_json(), pod_json("a", group="g"), pod_json("b", group="g")],
        ["g"],
        "a",
        "GangCannotStart",
    ),
    "no PodGroup": ([pod_json(f"l-{i}", gang="l", size=2) for i in range(2)], [], "l-0", "GangCannotStart"),
    "the PodGroup has a fault": ([group_json(least=0), pod_json("a", group="g")], ["g"], "a", "GangInvalid"),
}


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
