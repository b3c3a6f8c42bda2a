"""The condition netgang.io/Admitted: one patch for each change of reason, on own pods alone; in virtual time."""

from typing import Any

import msgspec
import pytest

from extender.errors import ApiError
from extender.kube.calls import PODS
from scoring.queue.admitted_condition import CONDITION
from tests.extender.scheduling.world import World, group_json, node_json, pod_json, running

pytestmark = pytest.mark.looptime

N1 = node_json("n1", cpu="1")
LASTED_S = 12.0  # The Event waits 5 s, looks come once a second, patches are paced


def members(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [pod_json(f"p{i}", group="g", **fields) for i in range(count)]


def told(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod with the condition that a gang without room has."""
    said = {"type": CONDITION, "status": "False", "reason": "ZoneTooSmall", "message": "No room."}
    return pod | {"status": {**pod.get("status", {}), "conditions": [said]}}


def conditions(world: World) -> list[tuple[str, str]]:
    """Status and reason of each pod's condition, where it has one."""
    pods = [msgspec.json.decode(body) for body in world.api.store.bodies(PODS).values()]
    found = [one for pod in pods for one in pod.get("status", {}).get("conditions", []) if one["type"] == CONDITION]
    return [(one["status"], one["reason"]) for one in found]


WAITING: dict[str, tuple[list[dict[str, Any]], list[tuple[str, str]]]] = {  # case: (objects; conditions)
    "no room": ([N1, group_json(), *members(2)], [("False", "ZoneTooSmall")] * 2),
    "too few pods": ([N1, group_json(least=3), *members(2)], [("False", "PodsMissing")] * 2),
    "no PodGroup": ([N1, *members(2)], [("False", "InvalidGroup")] * 2),
    "bound": ([N1, group_json(), *members(2, nodeName="n1", phase="Running")], []),
    "bound, and told why it waited by a process before": (
        [N1, group_json(), *map(told, members(2, nodeName="n1", phase="Running"))],
        [("True", "Admitted")] * 2,
    ),
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
        await world.settle(300.0)
        assert world.api.calls["pod_status"] == calls


async def test_a_gang_that_starts_has_said_so() -> None:
    async with running(N1, group_json(), *members(2)) as world:
        await world.settle(LASTED_S)
        for number in range(2):
            world.change(f"p{number}", nodeName="n1", phase="Running")
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


async def test_a_gang_that_starts_at_once_costs_its_bindings_alone() -> None:
    """Ungated, as beside coscheduling: its pods are created one by one, and no pod is patched, in status or notes."""
    async with running(N1) as world:
        pods = []
        for number in range(4):
            pods += [f"g-{number}"]
            world.pod(pods[-1], gang="g", size=4, cpu="250m")
            await world.settle(0.5)
        world.bind_offered(*pods)
        await world.settle(60.0)
        assert {verb: world.api.calls[verb] for verb in ("bind", "pod_status", "patch", "admit")} == {
            "bind": 4,
            "pod_status": 0,
            "patch": 0,
            "admit": 0,
        }


async def test_a_pod_that_is_bound_before_its_condition_shows_says_so() -> None:
    """The watch is late: that the pod was told why it waits is known from the patch."""
    async with running(N1, group_json(), *members(1)) as world:
        await world.settle(LASTED_S)
        assert conditions(world) == [("False", "PodsMissing")]
        world.api.add(pod_json("p0", group="g", uid=world.uid("p0"), nodeName="n1", phase="Running"))
        await world.settle(LASTED_S)
        assert conditions(world) == [("True", "Admitted")]


async def test_an_admitted_gang_s_pods_are_not_told_any_more_why_it_waited() -> None:
    """It has its room since, and kube-scheduler is slow: the members that come now are told nothing."""
    async with running(N1, *[pod_json(f"g-{i}", gang="g", size=2, cpu="600m") for i in range(2)]) as world:
        await world.settle(LASTED_S)
        assert [status for status, _ in conditions(world)] == ["False"] * 2
        calls = world.api.calls["pod_status"]
        world.node("n2")
        await world.settle(1.0)
        world.pod("g-2", gang="g", size=2, cpu="600m")
        await world.settle(LASTED_S)
        assert world.api.calls["pod_status"] == calls
