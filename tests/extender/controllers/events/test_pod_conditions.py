"""The condition netgang.io/Admitted: one patch for each change of reason, on own pods alone; in virtual time."""

from typing import Any

import msgspec
import pytest

from extender.controllers.events.pod_conditions import MOST_QUEUED, PER_S
from extender.errors import ApiError
from extender.kube.calls import PODS
from scoring.queue.admitted_condition import CONDITION
from tests.extender.scheduling.world import World, group_json, node_json, pod_json, running

pytestmark = pytest.mark.looptime

N1 = node_json("n1", cpu="1")
LASTED_S = 12.0  # The Event waits 5 s, looks come once a second, patches are paced


def members(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [pod_json(f"p{i}", group="g", **fields) for i in range(count)]


def conditions(world: World) -> list[tuple[str, str]]:
    """Status and reason of each pod's condition, where it has one."""
    pods = [msgspec.json.decode(body) for body in world.api.store.bodies(PODS).values()]
    found = [one for pod in pods for one in pod.get("status", {}).get("conditions", []) if one["type"] == CONDITION]
    return [(one["status"], one["reason"]) for one in found]


WAITING: dict[str, tuple[list[dict[str, Any]], list[tuple[str, str]]]] = {  # case: (objects; conditions)
    "no room": ([N1, group_json(), *members(2)], [("False", "ZoneTooSmall")] * 2),
    "too few pods": ([N1, group_json(least=3), *members(2)], [("False", "PodsMissing")] * 2),
    "no PodGroup": ([N1, *members(2)], [("False", "InvalidGroup")] * 2),
    "bound": ([N1, group_json(), *members(2, nodeName="n1", phase="Running")], [("True", "Admitted")] * 2),
    "ended": ([N1, group_json(), *members(2, nodeName="n1", phase="Succeeded")], []),
    "another scheduler's (docs/safety.md S1)": ([N1, group_json(), *members(2, scheduler="other")], []),
}


@pytest.mark.parametrize(("objects", "want"), WAITING.values(), ids=WAITING)
async def test_what_pods_say(objects: list[dict[str, Any]], want: list[tuple[str, str]]) -> None:
    async with running(*objects) as world:
        await world.settle(LASTED_S)
        assert conditions(world) == want
        calls = world.api.calls["pod_status"]
        assert calls == len(want)
        await world.settle(3600.0)
        assert world.api.calls["pod_status"] == calls


async def test_nothing_is_written_when_it_is_switched_off() -> None:
    async with running(N1, group_json(), *members(2), pod_conditions=False) as world:
        await world.settle(60.0)
        assert world.api.calls["pod_status"] == 0


async def test_a_gang_that_starts_has_said_so() -> None:
    async with running(N1, group_json(), *members(2)) as world:
        await world.settle(LASTED_S)
        for one in members(2, nodeName="n1", phase="Running"):
            world.api.add(one)
        await world.settle(LASTED_S)
        assert conditions(world) == [("True", "Admitted")] * 2


async def test_a_failed_patch_is_tried_again_later_each_time() -> None:
    async with running(N1, group_json(), *members(1), group_json(least=2)) as world:
        world.api.fail_next("pod_status", ApiError(500, "no"), times=5)
        await world.settle(LASTED_S)
        assert world.api.calls["pod_status"] == 1
        await world.settle(900.0)
        assert conditions(world) == [("False", "PodsMissing")]
        assert world.api.calls["pod_status"] == 6


async def test_a_gang_that_waits_is_not_behind_all_that_run_already() -> None:
    """Twice as many pods run as the queue takes when netgang comes; all are written in the end."""
    runs = [
        pod_json(f"r{i}", gang=f"r{i // 8}", size=8, cpu="1m", nodeName="n1", phase="Running")
        for i in range(2 * MOST_QUEUED)
    ]
    async with running(N1, *runs) as world:
        await world.settle(2.0)
        for one in (group_json(), *members(2)):
            world.api.add(one)
        await world.settle(5.0 + 2.0 + MOST_QUEUED / PER_S)
        said = conditions(world)
        assert [one for one in said if one[0] == "False"] == [("False", "ZoneTooSmall")] * 2
        assert len(said) < 2 * MOST_QUEUED
        await world.settle(2.0 * MOST_QUEUED / PER_S)
        assert len(conditions(world)) == 2 * MOST_QUEUED + 2
