"""Gangs that lost members: what is told of them, asked of their owners, and goes wrong (docs/safety.md S8, S10)."""

from typing import Any

import pytest

from extender.controllers.removal.losses import PATIENCE_S
from extender.controllers.removal.restarts import SLOW_S, SLOWEST_S
from extender.controllers.removal.suspensions import Obstacle
from extender.controllers.removals import QUIET_S
from extender.errors import ApiError, ApiUnavailableError
from tests.extender.beside import playing
from tests.extender.controllers.operator import Operator, schedule
from tests.extender.controllers.removal.test_restarts import (
    NODES,
    RESTART_S,
    SETTLE_S,
    loses,
    reasons,
    restarts,
    started,
    suspended,
)
from tests.extender.scheduling.world import NO_BUDGET, World, key, running

pytestmark = pytest.mark.looptime

LOST_S = 5.0


def explained(world: World) -> str:
    return world.explained("g").repair


def stops_answering(world: World, pod: str) -> str:
    """The name of the pod's node."""
    name = world.bound()[pod]
    world.node(name, cpu="1500m", ready=False)
    return name


async def silenced(world: World, operator: Operator, *, index: int = 1) -> str:
    """The node of a member stops answering, for longer than it is waited for; its name."""
    name = stops_answering(world, f"{operator.name}-{index}")
    await world.settle(LOST_S + PATIENCE_S + 3.0)
    return name


@pytest.mark.parametrize("kind", ["Job", "TFJob"])
async def test_a_member_on_a_node_that_does_not_answer(kind: str) -> None:
    async with running(*NODES, node_lost_s=LOST_S) as world, started(world, kind=kind, annotations={}) as operator:
        assert explained(world) == ""
        node = await silenced(world, operator)
        assert f"waiting for node {node} to be removed or to come back" in explained(world)
        await world.settle(60.0)
        assert len(world.told("GangBroken")) == 2  # on the pod and on its owner
        assert node in world.told("GangBroken")[0]
        world.node(node, cpu="1500m")
        await world.settle(3.0)
        assert (explained(world), operator.uids()) == ("", operator.first)
        assert (world.api.evictions, world.api.calls["patch_object"]) == ([], 0)


@pytest.mark.parametrize(("annotations", "least"), [({"netgang.io/repair": "none"}, 3), ({}, 2)])
async def test_gangs_of_which_nothing_is_said(annotations: dict[str, str], least: int) -> None:
    """They want none, or can do without the member."""
    made = {"annotations": annotations, "least": least}
    async with running(*NODES, node_lost_s=LOST_S) as world, started(world, **made) as operator:
        await silenced(world, operator, index=2)
        assert world.told("GangBroken") == []


async def test_the_default_is_a_setting() -> None:
    async with running(*NODES, repair={"policy": "restart"}) as world, started(world, annotations={}):
        await loses(world, for_s=20.0)
        assert restarts(world) == 1


OVER: dict[str, dict[str, Any]] = {  # case: fields of the owner
    "finished": {"status": {"conditions": [{"type": "Complete", "status": "True"}]}},
    "being deleted": {"metadata": {"name": "job", "deletionTimestamp": "2026-01-01T00:00:00Z"}},
    "suspended by its user": {"spec": {"suspend": True}},
}


@pytest.mark.slow
@pytest.mark.parametrize("fields", OVER.values(), ids=OVER)
@pytest.mark.parametrize("repair", ["replace", "restart"])
async def test_a_job_that_is_over_loses_its_members_in_silence(repair: str, fields: dict[str, Any]) -> None:
    """One after the other, as its operator cleans up: nobody is told, and nothing is restarted (docs/safety.md S8)."""
    async with running(*NODES) as world, started(world, annotations={"netgang.io/repair": repair}) as operator:
        operator.size, operator.ends = 0, False
        uid = operator.owner["metadata"]["uid"]
        operator.put(**{**fields, "metadata": {"name": "job", **fields.get("metadata", {}), "uid": uid}})
        await loses(world, for_s=PATIENCE_S * 2)
        world.delete("job-2")
        await world.settle(PATIENCE_S * 4)
        assert (world.told("GangBroken"), reasons(world), world.api.calls["patch_object"]) == ([], [], 0)
        assert explained(world) == ""


async def test_without_the_right_it_is_said_which_manifest_gives_it() -> None:
    async with running(*NODES) as world, started(world) as operator:
        world.api.fail_next("patch_object", ApiError(403, "jobs.batch is forbidden"), times=99)
        await loses(world)
        assert len(world.bound()) == operator.size
        assert not operator.suspended
        assert "helm upgrade gives it" in world.explained("g").repair


@pytest.mark.parametrize(("error", "asked"), [(ApiUnavailableError("refused"), 19), (ApiError(403, "forbidden"), 1)])
async def test_notes_are_looked_for_until_they_can_be_read(error: Exception, asked: int) -> None:
    """In eight collections; without the right none was suspended."""
    async with running(*NODES) as world:
        world.service.restarts.reset()
        world.api.fail_next("labelled", error, times=3)
        calls = world.api.calls["labelled"]
        await world.settle(60.0)
        assert world.api.calls["labelled"] - calls == asked


async def test_defects_are_counted() -> None:
    async with running(*NODES) as world, started(world) as operator:
        world.service.restarts.reset()
        world.api.fail_next("labelled", RuntimeError("a defect"))
        world.api.fail_next("patch_object", RuntimeError("a defect"))
        await loses(world, for_s=RESTART_S + 10.0)
        assert world.counted("internal_errors_total", place="Restarts") == 1.0
        assert world.counted("internal_errors_total", place="restart") == 1.0
        assert operator.uids().isdisjoint(operator.first)


async def test_who_keeps_a_suspended_job_waiting_is_told() -> None:
    async with suspended(node_lost_s=LOST_S, spec={"podReplacementPolicy": "Failed"}) as (world, operator):
        node = stops_answering(world, "job-0")
        world.delete("job-2")
        world.change("job-0", deleting=True)
        await world.settle(SLOW_S + SLOWEST_S + 10.0)
        assert operator.suspended
        assert len(world.told("DisruptionFailed")) == 1
        assert f"pod job-0 has not ended: waiting for node {node}" in world.told("DisruptionFailed")[0]
        operator.ends = True
        await world.settle(6.0)
        assert not operator.suspended


async def test_a_job_does_not_wait_for_a_pod_on_a_dead_node() -> None:
    """Its successor has another name; the pod that never leaves is in nobody's way."""
    async with running(*NODES, node_lost_s=LOST_S) as world, started(world) as operator:
        stops_answering(world, "job-1")
        world.change("job-1", deleting=True)
        operator.ends = False
        await world.settle(RESTART_S)
        assert operator.suspended
        world.delete("job-0", "job-2")
        await world.settle(6.0)
        assert not operator.suspended
        operator.ends = True
        await loses(world, for_s=3.0)


@pytest.mark.parametrize("error", [NO_BUDGET, ApiUnavailableError("timeout")], ids=["budget", "away"])
async def test_an_eviction_that_is_refused_ends_the_attempt(error: Exception) -> None:
    async with running(*NODES) as world, started(world, kind="StatefulSet") as operator:
        await loses(world, for_s=1.0)
        world.api.fail_next("evict", error)
        await world.settle(SETTLE_S)
        assert world.api.evictions == []
        await world.settle(20.0)
        assert len(world.api.evictions) == operator.size
        assert len(world.bound()) == operator.size


async def test_a_job_that_was_made_smaller_has_lost_nobody() -> None:
    """Its minimum is what it wants, whatever the labels of its pods say (docs/safety.md S8)."""
    spec = {"completions": 3, "parallelism": 3}
    async with running(*NODES) as world, started(world, spec=spec) as operator:
        operator.size = 2
        operator.put(spec={"completions": 2, "parallelism": 2})
        world.delete("job-2")
        await world.settle(RESTART_S * 2)
        assert (world.api.calls["patch_object"], len(world.bound())) == (0, 2)
        assert world.told("DisruptionFailed") == []


async def test_an_owner_of_two_gangs_is_left_alone() -> None:
    """The other one would go, too."""
    async with running(*NODES) as world, started(world) as operator:
        stranger = world.api.pod("job-0")
        stranger["metadata"] = {**stranger["metadata"], "name": "other", "uid": "other"}
        stranger["metadata"]["labels"] |= {"pod-group.scheduling.sigs.k8s.io/name": "h"}
        stranger["spec"].pop("nodeName")
        stranger["metadata"].pop("resourceVersion")
        world.api.add(stranger)
        await loses(world)
        assert "pods of another gang too, such as other" in world.told("DisruptionFailed")[0]
        assert not operator.annotations_of_owner
        world.delete("other")


OBSTACLES: dict[str, tuple[dict[str, Any], str]] = {  # case: (fields of the owner, why it cannot leave)
    "suspended": ({"spec": {"suspend": True}}, "its owner is suspended"),
    "over": ({"status": {"conditions": [{"type": "Complete", "status": "True"}]}}, "finished or failed"),
    "replaced": ({"metadata": {"name": "job", "uid": "another"}}, "its owner is gone"),
}


@pytest.mark.parametrize(("fields", "why"), OBSTACLES.values(), ids=OBSTACLES)
async def test_what_speaks_against_leaving(fields: dict[str, Any], why: str) -> None:
    async with running(*NODES) as world:
        operator = Operator(world)
        async with playing(schedule(world)):
            operator.sync()
            await world.settle(2.0)
            assert "just started" in str(await world.service.restarts.obstacle(key("g")))
            ended: list[Obstacle | None] = []
            for _ in range(2):
                world.service.restarts.add(key("g"), why="too early", ended=lambda _, how: ended.append(how))
            await world.settle(1.0)
            assert [one is None for one in ended] == [False, False]
            await world.settle(QUIET_S)
            assert await world.service.restarts.obstacle(key("nobody")) == "the gang is gone"
            operator.put(**fields)
            assert why in str(await world.service.restarts.obstacle(key("g")))
            world.api.remove("job", kind="Job")
            assert await world.service.restarts.obstacle(key("g")) == "its owner is gone"
            world.api.store.silence()
            world.node("n9", cpu="1500m")
            world.change("job-0", phase="Running")
            assert await world.service.restarts.obstacle(key("g")) == "the gang has just changed"
            world.api.store.speak()
            await world.settle(1.0)
            world.api.fail_next("list", ApiUnavailableError("timeout"))
            assert "not all that matters could be read" in str(await world.service.restarts.obstacle(key("g")))
            assert reasons(world) == []
            assert world.api.calls["patch_object"] == 0


async def test_a_gang_of_two_jobs() -> None:
    async with running(*NODES) as world:
        spec = {"parallelism": 3, "completions": 3}
        one, two = (Operator(world, name=name, least=6, spec=dict(spec)) for name in ("job", "more"))
        async with playing(one.keep(), two.keep(), schedule(world)):
            await world.settle(QUIET_S + 3.0)
            before = one.uids() | two.uids()
            assert len(world.bound()) == 6
            one.ends = two.ends = False
            world.delete("more-1")
            await world.settle(RESTART_S)
            assert (one.suspended, two.suspended) == (True, True)
            world.service.restarts.reset()
            one.ends = two.ends = True
            await world.settle(12.0)
            assert (one.suspended, two.suspended) == (False, False)
            assert len(world.bound()) == 6
            assert (one.uids() | two.uids()).isdisjoint(before)


async def test_a_controller_that_has_not_seen_the_switch_is_waited_for() -> None:
    """All pods are gone, but it does not say yet that it has stopped: it may be creating new ones just now."""
    async with running(*NODES) as world, playing(schedule(world)):
        operator = Operator(world)
        operator.sync()
        await world.settle(QUIET_S + 3.0)
        await loses(world)
        assert operator.suspended
        world.delete("job-0", "job-2")
        await world.settle(20.0)
        assert operator.suspended
        operator.sync()
        await world.settle(5.0)
        assert not operator.suspended
