"""PodGroups' statuses and pods' conditions: one write per change, on own objects alone, none at rest."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import pytest

from extender.cache.cluster import ClusterCache
from extender.controllers.events.statuses import PATIENCE_S, GroupStatuses
from extender.errors import ApiError, ApiUnavailableError
from extender.kube.calls import POD_GROUPS, PODS
from extender.settings.settings import StatusMode
from scoring.model import PodGroup
from scoring.model.gang import gang_key
from scoring.plan import Plan
from scoring.queue.states import CONDITION
from tests.extender.controllers.contexts import context_over
from tests.extender.scheduling.world import World, group_json, node_json, pod_json, running
from tests.fakes.clock import LoopClock
from tests.fakes.cluster_api import FakeClusterApi

pytestmark = [pytest.mark.looptime, pytest.mark.slow]  # hours of virtual time

N1 = node_json("n1", cpu="8")
SETTLED_S = PATIENCE_S + 2.5


def runs(name: str, *, phase: str = "Running", group: str = "g", **fields: Any) -> dict[str, Any]:
    return pod_json(name, group=group, nodeName="n1", phase=phase, **fields)


def members(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [pod_json(f"p{i}", group="g", **fields) for i in range(count)]


def two_run(**settings: Any) -> AbstractAsyncContextManager[World]:
    """A PodGroup of two pods that run."""
    return running(N1, group_json(), runs("a"), runs("b"), **settings)


def status(world: World, name: str = "g") -> dict[str, Any]:
    return dict(world.api.store.get(POD_GROUPS, "default", name).get("status", {}))


def phases(world: World) -> list[str]:
    return [patch["phase"] for _, patch in world.api.status_patches if "phase" in patch]


async def test_a_status_is_written_once() -> None:
    async with two_run() as world:
        await world.settle(SETTLED_S)
        assert (status(world)["phase"], status(world)["running"]) == ("Running", 2)
        assert world.api.calls["group_status"] == 1
        for number in range(60):
            world.node(f"m{number}")
            await world.settle(60.0)
        assert world.api.calls["group_status"] == 1


async def test_changes_of_a_second_are_one_write() -> None:
    async with running(node_json("n1", cpu="64"), group_json(least=40), *members(40)) as world:
        await world.settle(SETTLED_S)
        before = world.api.calls["group_status"]
        for i in range(40):
            world.api.add(runs(f"p{i}"))
            await asyncio.sleep(0.05)
        await world.settle(3.0)
        assert status(world)["running"] == 40
        assert world.api.calls["group_status"] - before <= 4


async def test_a_life() -> None:
    """From too few pods to the end; the end stays when the pods are cleaned up."""
    async with running(group_json(), pod_json("a", group="g")) as world:
        await world.settle(SETTLED_S)
        world.api.add(pod_json("b", group="g"))
        await world.settle(2.5)
        start = status(world)["scheduleStartTime"]
        world.node("n1")
        for phase in ("Running", "Succeeded"):
            for name in ("a", "b"):
                world.api.add(runs(name, phase=phase))
            await world.settle(2.5)
        for name in ("a", "b"):
            world.api.remove(name)
            await world.settle(2.5)
        assert phases(world) == ["Pending", "PreScheduling", "Running", "Finished"]
        assert (status(world)["succeeded"], status(world)["scheduleStartTime"]) == (2, start)


NOT_OURS: dict[str, tuple[str, list[dict[str, Any]]]] = {  # case: (pod_group_status, pods)
    "no pods": ("on", []),
    "pods of another scheduler": ("on", [runs("a", scheduler="other"), runs("b", scheduler="other")]),
    "one pod of another scheduler": ("on", [runs("a"), runs("b", scheduler="other")]),
    "switched off": ("off", [runs("a"), runs("b")]),
}


@pytest.mark.parametrize(("mode", "pods"), NOT_OURS.values(), ids=NOT_OURS)
async def test_podgroups_of_others_are_left_alone(mode: str, pods: list[dict[str, Any]]) -> None:
    """Own gangs only (docs/safety.md S1)."""
    async with running(N1, group_json(), *pods, pod_group_status=mode) as world:
        await world.settle(60.0)
        assert world.api.calls["group_status"] == 0


async def test_another_controller_is_given_way() -> None:
    """`auto`: it signs its first PodGroup within our patience, and we write none, on no PodGroup, while it shows."""
    async with running(N1, group_json(), runs("a"), runs("b"), group_json("theirs")) as world:
        await world.settle(PATIENCE_S / 2)
        world.api.write_status("theirs", {"status": {"phase": "Pending"}}, by="controller")
        await world.settle(600.0)
        assert world.api.calls["group_status"] == 0
        world.api.remove("theirs", kind="PodGroup")
        await world.settle(SETTLED_S)
        assert phases(world) == ["Running"]
        world.api.write_status("g", {"status": {"phase": "Scheduling"}}, by="controller")  # it is installed again
        world.api.add(runs("b", phase="Failed"))
        await world.settle(600.0)
        assert (phases(world), status(world)["phase"]) == (["Running"], "Scheduling")


async def test_on_is_no_tug_of_war_and_a_change_ends_the_waiting() -> None:
    async with two_run(pod_group_status="on") as world:
        for _ in range(1200):
            if status(world).get("phase") != "Scheduling":
                world.api.write_status("g", {"status": {"phase": "Scheduling"}}, by="controller")
            await asyncio.sleep(1.0)
        assert 4 <= world.api.calls["group_status"] <= 12
        for name in ("a", "b"):
            world.api.add(runs(name, phase="Succeeded"))
        await world.settle(5.0)
        assert status(world)["phase"] == "Finished"


async def test_a_field_that_is_not_kept_is_no_reason_to_write() -> None:
    """The definition without `scheduled` drops it; where it is kept it is right."""
    async with two_run() as world:
        await world.settle(SETTLED_S)
        assert "scheduled" not in status(world)
        world.api.add(runs("a", phase="Succeeded"))
        await world.settle(60.0)
        assert world.api.calls["group_status"] == 2
        assert "scheduled" not in world.api.status_patches[1][1]
    async with running(N1) as world:
        world.api.status_fields |= {"scheduled"}
        for one in (group_json(), runs("a"), runs("b")):
            world.api.add(one)
        await world.settle(SETTLED_S)
        assert status(world)["scheduled"] == 2


@pytest.mark.parametrize("error", [ApiUnavailableError("refused"), ApiError(403, "forbidden")])
async def test_what_fails_is_tried_again_later_each_time(error: Exception) -> None:
    async with two_run() as world:
        world.api.fail_next("group_status", error, times=1000)
        await world.settle(600.0)
        assert 5 <= world.api.calls["group_status"] <= 12
        world.api.heal()
        await world.settle(600.0)
        assert status(world)["phase"] == "Running"


async def test_who_changed_it_meanwhile_wins_and_what_is_deleted_is_forgotten() -> None:
    async with two_run() as world:
        release = world.api.hold("group_status")
        await world.settle(SETTLED_S)
        world.api.add({**world.api.store.get(POD_GROUPS, "default", "g"), "spec": {"minMember": 1}})
        release.set()
        await world.settle(5.0)
        assert (world.api.calls["group_status"], status(world)["phase"]) == (2, "Running")
        release = world.api.hold("group_status")
        world.api.add(runs("b", phase="Succeeded"))
        await world.settle(SETTLED_S)
        world.api.remove("g", kind="PodGroup")
        release.set()
        await world.settle(60.0)
        assert world.api.calls["group_status"] == 3


async def test_a_lost_answer_is_found_out() -> None:
    """The write took effect: nothing more changes (but what the definition keeps is asked for once more)."""
    async with two_run() as world:
        world.api.fail_next("group_status", ApiUnavailableError("reset"), applied=True)
        await world.settle(600.0)
        assert len(world.api.status_patches) == 1
        assert world.api.calls["group_status"] <= 2


async def test_many_are_paced() -> None:
    crowd = [one for i in range(100) for one in (group_json(f"g{i}", 1), runs(f"p{i}", group=f"g{i}"))]
    async with running(node_json("n1", cpu="200"), *crowd) as world:
        await world.settle(PATIENCE_S + 2.0)
        early = world.api.calls["group_status"]
        await world.settle(7.0)
        assert early <= 60
        assert world.api.calls["group_status"] == 100


async def test_a_look_lets_others_have_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupStatuses, "every_s", 3600.0)
    cache, api, plan = ClusterCache(), FakeClusterApi(), Plan(version=1)
    context = context_over(api, cache, LoopClock(), plan=plan)
    for number in range(1000):
        cache.pod_groups.put(PodGroup(gang_key("team", f"g{number:03}"), 2, uid=f"u{number}", ours=True))
    statuses = GroupStatuses(context, StatusMode.ON)
    look = statuses.reconcile()
    next(look)
    cache.pod_groups.remove(gang_key("team", "g999"))
    assert sum(1 for _ in look) >= 10
    writing = asyncio.create_task(statuses.run())
    await asyncio.sleep(60.0)
    writing.cancel()
    assert api.calls["group_status"] == 999


# -- the condition netgang.io/Admitted of pods -------------------------------------------------------------------------

SMALL = node_json("n1", cpu="1")
LASTED_S = 12.0  # A condition: the Event waits 5 s, looks come once a second, patches are paced


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
    "no room": ([SMALL, group_json(), *members(2)], [("False", "ZoneTooSmall")] * 2),
    "too few pods": ([SMALL, group_json(least=3), *members(2)], [("False", "PodsMissing")] * 2),
    "no PodGroup": ([SMALL, *members(2)], [("False", "InvalidGroup")] * 2),
    "bound": ([SMALL, group_json(), *members(2, nodeName="n1", phase="Running")], []),
    "bound, and told why it waited by a process before": (
        [SMALL, group_json(), *map(told, members(2, nodeName="n1", phase="Running"))], [("True", "Admitted")] * 2,
    ),
    "ended": ([SMALL, group_json(), *members(2, nodeName="n1", phase="Succeeded")], []),
    "another scheduler's (docs/safety.md S1)": ([SMALL, group_json(), *members(2, scheduler="other")], []),
}  # fmt: skip


@pytest.mark.parametrize(("objects", "want"), WAITING.values(), ids=WAITING)
async def test_what_pods_say(objects: list[dict[str, Any]], want: list[tuple[str, str]]) -> None:
    async with running(*objects) as world:
        await world.settle(LASTED_S)
        assert conditions(world) == want
        calls = world.api.calls["pod_status"]
        assert calls == len(want)
        await world.settle(300.0)
        assert world.api.calls["pod_status"] == calls


async def test_a_failed_patch_is_tried_again_later_each_time() -> None:
    async with running(SMALL, group_json(), *members(1), group_json(least=2)) as world:
        world.api.fail_next("pod_status", ApiError(500, "no"), times=5)
        await world.settle(LASTED_S)
        assert world.api.calls["pod_status"] == 1
        await world.settle(900.0)
        assert (conditions(world), world.api.calls["pod_status"]) == ([("False", "PodsMissing")], 6)


async def test_a_gang_that_starts_at_once_costs_its_bindings_alone() -> None:
    """Ungated, as beside coscheduling: its pods are created one by one, and no pod is patched, in status or notes."""
    async with running(SMALL) as world:
        for number in range(4):
            await world.planned_pod(f"g-{number}", gang="g", size=4, cpu="250m")
        world.bind_offered(*(f"g-{number}" for number in range(4)))
        await world.settle(60.0)
        assert [world.api.calls[verb] for verb in ("bind", "pod_status", "patch", "admit")] == [4, 0, 0, 0]


async def test_a_pod_that_is_bound_before_its_condition_shows_says_so() -> None:
    """The watch is late: that the pod was told why it waits is known from the patch."""
    async with running(SMALL, group_json(), *members(1)) as world:
        await world.settle(LASTED_S)
        assert conditions(world) == [("False", "PodsMissing")]
        world.api.add(pod_json("p0", group="g", uid=world.uid("p0"), nodeName="n1", phase="Running"))
        await world.settle(LASTED_S)
        assert conditions(world) == [("True", "Admitted")]


async def test_an_admitted_gang_s_pods_are_not_told_any_more_why_it_waited() -> None:
    """It has its room since, and kube-scheduler is slow: the members that come now are told nothing."""
    async with running(SMALL) as world:
        world.gang("g", 2, cpu="600m")
        await world.settle(LASTED_S)
        assert [status for status, _ in conditions(world)] == ["False"] * 2
        calls = world.api.calls["pod_status"]
        world.node("n2")
        await world.settle(1.0)
        world.pod("g-2", gang="g", size=2, cpu="600m")
        await world.settle(LASTED_S)
        assert world.api.calls["pod_status"] == calls
