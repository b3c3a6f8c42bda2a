"""What is told of nodes: over-committed by two schedulers, or with links that got bad, whichever source."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from extender.controllers.events.nodes import EVENTS_AT_ONCE, SCAN_S
from scoring import NodeName
from tests.builders import mesh
from tests.extender.scheduling.world import World, node_json, pod_json, running

pytestmark = pytest.mark.looptime


def told(world: World, reason: str = "NodeOvercommitted") -> list[tuple[str, str, str]]:
    """(reason, node, note) of each, in order."""
    found = [one for one in world.api.events if one["reason"].startswith(reason)]
    assert {(one["regarding"]["kind"], one["metadata"]["namespace"]) for one in found} <= {("Node", "default")}
    assert all(one["regarding"]["namespace"] == "" for one in found)
    return [(one["reason"], one["regarding"]["name"], one["note"]) for one in found]


def count(world: World) -> float:
    return world.counted("overcommits_total")


@asynccontextmanager
async def gang_runs() -> AsyncIterator[tuple[World, str]]:
    """A gang on two nodes, each of which has room for one more pod of 1 CPU; the node of the first member."""
    async with running(node_json("n1"), node_json("n2")) as world:
        await world.starts(*await world.planned_gang("g", 2, cpu="3"))
        yield world, str(world.node_of("g-0"))


async def test_a_node_that_two_schedulers_filled_is_counted_and_told() -> None:
    async with gang_runs() as (world, node):
        assert count(world) == 0.0
        world.occupy(node, cpu="2")
        await world.settle(2.0)
        assert count(world) == 1.0
        [(_, about, note)] = told(world)
        assert about == node
        assert "request 5 cpu of 4. Of netgang: default/g-0; of other schedulers: default/stranger." in note
        await world.settle(30.0)
        assert count(world) == 1.0
        world.delete("stranger")
        await world.settle(2.0)
        assert count(world) == 1.0
        world.occupy(node, cpu="2")
        await world.settle(2.0)
        assert (count(world), len(told(world))) == (2.0, 1)


async def test_it_is_seen_before_a_kubelet_rejects_a_pod() -> None:
    """A quarter of a second is enough: looked at after each plan, not once in a while."""
    async with gang_runs() as (world, node):
        await world.settle(SCAN_S + 1.0)
        world.occupy(node, cpu="2")
        await world.settle(0.25)
        world.change("g-0", phase="Failed")
        await world.settle(2.0)
        assert count(world) == 1.0


async def test_nodes_without_a_pod_of_ours_are_not_our_business() -> None:
    async with running(node_json("n1"), node_json("n2")) as world:
        for number in range(2):
            world.occupy("n1", cpu="3", name=f"stranger-{number}")
        await world.settle(3.0)
        assert (count(world), told(world)) == (0.0, [])


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
        world.service.cache.pods.assume(world.uid("g-0"), NodeName("n1"))
        world.service.planner.mark_dirty()
        await world.settle(3.0)
        assert count(world) == 0.0
        world.api.store.speak()


NODES = [f"{zone}{i}" for zone in "abc" for i in range(4)]
LOSSY: Mapping[str, float] = {"loss_ratio": 0.01}


def zones(**settings: Any) -> AbstractAsyncContextManager[World]:
    return running(*(node_json(name, zone=name[0]) for name in NODES), **settings)


async def measured(
    world: World, bad: Mapping[str, Mapping[str, float]], *, for_s: float, age_s: float = 0.0
) -> list[tuple[str, str, str]]:
    """All pairs every 30 s, by values of this age; the Events so far."""
    for _ in range(int(for_s // 30.0)):
        now_s, version = world.clock.now_s(), world.service.cache.snapshot().network.version + 1
        found = mesh(NODES, bad=bad, measured_at_s=now_s - age_s)
        world.set_network(replace(found, version=version, evaluated_at_s=now_s))
        await world.settle(30.0)
    return told(world, "Network")


async def test_a_zone_s_bad_inner_network_is_one_event() -> None:
    async with zones() as world:
        [first, *more] = await measured(world, {name: LOSSY for name in NODES if name[0] == "b"}, for_s=300.0)
        assert first[:2] == ("NetworkDegraded", "b0")
        assert "zone b" in first[2]
        assert len(more) <= 1, "inside the zone, and its uplink"


async def test_old_values_are_no_news() -> None:
    """Beyond the soft TTL nothing is said of a link."""
    async with zones(network={"soft_ttl_s": 60.0}) as world:
        assert await measured(world, {"b2": LOSSY}, for_s=270.0, age_s=3600.0) == []
