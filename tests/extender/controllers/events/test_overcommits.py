"""Two schedulers bind to one node at once: it is counted and told, and the member that is lost is replaced."""

import pytest

from extender.controllers.events.overcommits import EVENTS_AT_ONCE, SCAN_S
from scoring.ids import NodeName
from tests.extender.scheduling.world import World, node_json, pod_json, running

pytestmark = pytest.mark.looptime


def told(world: World) -> dict[str, str]:
    found = [one for one in world.api.events if one["reason"] == "NodeOvercommitted"]
    assert all(one["regarding"]["kind"] == "Node" for one in found)
    assert all(one["metadata"]["namespace"] == "default" for one in found)
    assert all(one["regarding"]["namespace"] == "" for one in found)
    return {one["regarding"]["name"]: one["note"] for one in found}


def count(world: World) -> float:
    return world.counted("overcommits_total")


async def gang_runs(world: World) -> None:
    first, second = await world.planned_gang("g", 2, cpu="3")
    await world.bind_and_settle(first, second)
    assert len(world.bound()) == 2


async def test_a_node_that_two_schedulers_filled_is_counted_and_told() -> None:
    async with running(node_json("n1"), node_json("n2")) as world:
        await gang_runs(world)
        assert count(world) == 0.0
        world.occupy(str(world.node_of("g-0")), cpu="2")
        await world.settle(2.0)
        assert count(world) == 1.0
        [(node, note)] = told(world).items()
        assert node == world.node_of("g-0")
        assert "request 5 cpu of 4. Of netgang: default/g-0; of other schedulers: default/stranger." in note
        await world.settle(30.0)
        assert count(world) == 1.0
        world.delete("stranger")
        await world.settle(2.0)
        assert count(world) == 1.0
        world.occupy(str(world.node_of("g-0")), cpu="2")
        await world.settle(2.0)
        assert count(world) == 2.0
        assert len([one for one in world.api.events if one["reason"] == "NodeOvercommitted"]) == 1


async def test_it_is_seen_before_a_kubelet_rejects_a_pod() -> None:
    """A quarter of a second is enough: looked at after each plan, not once in a while."""
    async with running(node_json("n1"), node_json("n2")) as world:
        await gang_runs(world)
        await world.settle(SCAN_S + 1.0)
        world.occupy(str(world.node_of("g-0")), cpu="2")
        await world.settle(0.25)
        world.change("g-0", phase="Failed")
        await world.settle(2.0)
        assert count(world) == 1.0


async def test_nodes_without_a_pod_of_ours_are_not_our_business() -> None:
    async with running(node_json("n1"), node_json("n2")) as world:
        for number in range(2):
            world.occupy("n1", cpu="3", name=f"stranger-{number}")
        await world.settle(3.0)
        assert (count(world), told(world)) == (0.0, {})


async def test_many_nodes_at_once_are_counted_and_few_told() -> None:
    many = EVENTS_AT_ONCE + 5
    small = [node_json(f"n{i:02}", cpu="2") for i in range(many)]
    large = [pod_json(f"p{i}", cpu="3", nodeName=f"n{i:02}") for i in range(many)]
    async with running(*small, *large) as world:
        await world.settle(5.0)
        assert count(world) == float(many)
        assert len(told(world)) == EVENTS_AT_ONCE


async def test_a_pod_that_just_replaced_another_is_no_overcommitment() -> None:
    """Our Binding is confirmed before the watch tells that the pod before it has gone."""
    async with running(node_json("n1")) as world:
        world.occupy("n1", cpu="3")
        await world.settle()
        await world.planned_gang("g", 1, cpu="3")
        world.api.store.silence()
        world.delete("stranger")
        world.service.cache.assume(world.uid("g-0"), NodeName("n1"))
        world.service.planner.mark_dirty()
        await world.settle(3.0)
        assert count(world) == 0.0
        world.api.store.speak()
