"""Gangs that lost members: what is said of them, to whom and how often (docs/safety.md S8, S12)."""

from typing import Any

import pytest

from extender.controllers.removal.losses import PATIENCE_S
from tests.extender.controllers.operator import Operator
from tests.extender.controllers.removal.test_restarts import NODES, reasons, restarts, started
from tests.extender.scheduling.world import World, running

pytestmark = pytest.mark.looptime

LOST_S = 5.0


def explained(world: World) -> str:
    return world.explained("g").repair


async def silenced(world: World, operator: Operator, *, index: int = 1) -> str:
    """The node of a member stops answering, for longer than it is waited for; its name."""
    name = world.node_of(f"{operator.name}-{index}")
    assert name is not None
    world.node(name, cpu="1500m", ready=False)
    await world.settle(LOST_S + PATIENCE_S + 3.0)
    return name


@pytest.mark.parametrize("kind", ["Job", "TFJob"])
async def test_a_member_on_a_node_that_does_not_answer(kind: str) -> None:
    async with running(*NODES, node_lost_s=LOST_S) as world, started(world, kind=kind, annotations={}) as operator:
        assert explained(world) == ""
        before = operator.uids()
        node = await silenced(world, operator)
        assert f"waiting for node {node} to be removed or to come back" in explained(world)
        await world.settle(60.0)
        assert len(world.told("GangBroken")) == 2  # on the pod and on its owner
        assert node in world.told("GangBroken")[0]
        world.node(node, cpu="1500m")
        await world.settle(3.0)
        assert (explained(world), operator.uids()) == ("", before)
        assert (world.api.evictions, world.api.calls["patch_object"]) == ([], 0)


async def test_a_successor_takes_the_place_of_a_pod_that_never_leaves() -> None:
    """The taint manager has deleted it, its kubelet never answers; a Job creates another, which is placed elsewhere."""
    async with running(*NODES, node_lost_s=LOST_S) as world, started(world, annotations={}) as operator:
        node = await silenced(world, operator)
        world.change("job-1", deleting=True)
        operator.create(1, name="job-1b")
        await world.settle(4.0)
        assert world.bound()["job-1b"] != node
        assert explained(world) == ""
        world.api.remove("job-1")
        operator.size = 0


async def test_a_kubelet_that_rejects_what_was_bound() -> None:
    """Phase Failed, OutOfcpu: the member is lost, and its successor takes its place (docs/safety.md S13)."""
    async with running(*NODES) as world, started(world, annotations={}) as operator:
        world.change("job-1", phase="Failed")
        await world.settle(PATIENCE_S + 3.0)
        assert "it failed on node" in explained(world)
        assert "Waiting for its owner to create 1 new pod" in explained(world)
        operator.create(1, name="job-1b")
        await world.settle(4.0)
        assert "job-1b" in world.bound()
        assert explained(world) == ""


async def test_a_wait_for_room_is_explained() -> None:
    async with running(*NODES[:3]) as world, started(world, annotations={}) as operator:
        node = world.node_of("job-1")
        assert node is not None
        world.api.remove(node, kind="Node")
        world.delete("job-1")
        await world.settle(PATIENCE_S + 5.0)
        assert f"its node {node} is gone" in explained(world)
        assert "takes its place, as soon as there is room beside the others" in explained(world)
        assert len(world.bound()) == operator.size - 1


SILENT: dict[str, dict[str, Any]] = {  # case: how the gang is made
    "none": {"annotations": {"netgang.io/repair": "none"}},
    "nobody's minimum": {"annotations": {}, "least": 2},
}


@pytest.mark.parametrize("how", SILENT.values(), ids=SILENT)
async def test_gangs_of_which_nothing_is_said(how: dict[str, Any]) -> None:
    async with running(*NODES, node_lost_s=LOST_S) as world, started(world, **how) as operator:
        await silenced(world, operator, index=2)
        assert world.told("GangBroken") == []


async def test_the_default_is_a_setting() -> None:
    async with running(*NODES, repair={"policy": "restart"}) as world, started(world, annotations={}):
        world.delete("job-1")
        await world.settle(20.0)
        assert restarts(world) == 1


OVER: dict[str, dict[str, Any]] = {  # case: fields of the owner
    "finished": {"status": {"conditions": [{"type": "Complete", "status": "True"}]}},
    "being deleted": {"metadata": {"name": "job", "deletionTimestamp": "2026-01-01T00:00:00Z"}},
    "suspended by its user": {"spec": {"suspend": True}},
}


@pytest.mark.parametrize("fields", OVER.values(), ids=OVER)
@pytest.mark.parametrize("repair", ["replace", "restart"])
async def test_a_job_that_is_over_loses_its_members_in_silence(repair: str, fields: dict[str, Any]) -> None:
    """One after the other, as its operator cleans up: nobody is told, and nothing is restarted (docs/safety.md S8)."""
    async with running(*NODES) as world, started(world, annotations={"netgang.io/repair": repair}) as operator:
        operator.size, operator.ends = 0, False
        uid = operator.owner["metadata"]["uid"]
        operator.put(**{**fields, "metadata": {"name": "job", **fields.get("metadata", {}), "uid": uid}})
        world.delete("job-1")
        await world.settle(PATIENCE_S * 2)
        world.delete("job-2")
        await world.settle(PATIENCE_S * 4)
        assert (world.told("GangBroken"), reasons(world), world.api.calls["patch_object"]) == ([], [], 0)
        assert explained(world) == ""
