"""Nodes that join keep room for DaemonSets' pods for a time; which are lost, and when (docs/safety.md S12, S26)."""

from datetime import UTC, datetime
from typing import Any

import pytest

from extender.cache.cluster import ClusterCache
from extender.scheduling.held_binds import NodeHealth
from scoring import NodeName
from scoring.model import Node
from scoring.model.reasons import CauseReason, Reason
from tests.builders import bound, node, pod
from tests.extender.scheduling.world import World, key, node_json, running
from tests.fakes.clock import FakeClock

pytestmark = pytest.mark.looptime

SETTLE_S = 120.0  # the default


async def joined(world: World) -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    metadata: dict[str, Any] = {"name": "cni", "uid": "u", "creationTimestamp": "2000-01-01T00:00:00Z"}
    template = {"spec": {"containers": [container]}}
    world.api.add({"kind": "DaemonSet", "metadata": metadata, "spec": {"template": template}})
    await world.settle(2.0)
    node = node_json("n2", cpu="2")
    now = datetime.fromtimestamp(world.clock.now_s(), UTC)
    node["metadata"]["creationTimestamp"] = f"{now:%Y-%m-%dT%H:%M:%SZ}"
    world.api.add(node)


def notes(world: World, gang: str = "g") -> str:
    return "; ".join(note for note in world.explained(gang).notes if "DaemonSet" in note)


async def test_a_gang_does_not_take_what_a_daemon_sets_pod_will_ask_for() -> None:
    async with running(node_json("n1", cpu="2")) as world:
        world.gang("g", 2, cpu="2")
        await joined(world)
        await world.settle(5.0)
        assert world.waits_for("g") in (Reason.NO_ROOM, Reason.BEHIND)
        assert "n2 keeps room free for the pod of DaemonSet default/cni, for another" in notes(world)
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "cni", "uid": "u", "controller": True}
        world.pod("cni-x", cpu="500m", scheduler="default-scheduler", nodeName="n2", owner=owner)
        await world.settle(2.0)
        assert notes(world) == ""
        world.delete("g-0", "g-1")
        await world.starts(*await world.planned_gang("h", 2, cpu="1500m"))


async def test_a_node_that_evicts_after_a_time_is_no_place_for_a_member() -> None:
    """The replacement of an evicted member goes to the free node, or waits; a member that still runs there stays."""
    for_a_time = {"key": "maint", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    taint = {"key": "maint", "value": "1", "effect": "NoExecute"}
    async with running(*[node_json(name, cpu="1") for name in ("n1", "n2")]) as world:
        names = await world.planned_gang("g", 2, tolerations=[for_a_time])
        await world.starts(*names)
        world.node("n1", cpu="2", taints=[taint])
        await world.settle(2.0)
        assert set(map(world.node_of, names)) == {"n1", "n2"}
        evicted = next(name for name in names if world.node_of(name) == "n1")
        world.delete(evicted)
        await world.planned_pod(evicted, gang="g", size=2, tolerations=[for_a_time])
        cause = world.explained("g").cause
        assert cause is not None
        assert (cause.reason, "maint=1:NoExecute" in cause.message) == (CauseReason.TAINT, True)
        world.node("n3", cpu="1")
        await world.settle()
        assert world.offered(evicted) == "n3"
        await world.starts(evicted)


async def test_pods_that_do_not_come_close_no_node_for_ever() -> None:
    async with running(node_json("n1", cpu="2")) as world:
        names = world.gang("g", 2, cpu="2")
        await joined(world)
        await world.settle(SETTLE_S - 10.0)
        assert key("g") not in world.plan.admitted
        await world.settle(15.0)
        await world.starts(*names)
        await world.planned_gang("next", 1)
        assert "DaemonSet default/cni has had no pod on 1 node in the time kept for it" in notes(world, "next")


N1 = NodeName("n1")


def health_of(*nodes: Node) -> tuple[ClusterCache, FakeClock, NodeHealth]:
    cache, clock = ClusterCache(), FakeClock()
    cache.nodes.replace(nodes)
    return cache, clock, NodeHealth(cache, clock, node_lost_s=60.0)


def test_a_node_that_is_not_ready_is_lost_after_a_time_from_when_that_was_seen() -> None:
    """And anew after it was ready for a moment."""
    cache, clock, health = health_of(node("n1", ready=False))
    clock.advance(1000.0)
    for _ in range(2):
        assert health.lost([N1]) == frozenset()
        health.update()
        clock.advance(59.9)
        health.update()
        assert health.lost([N1]) == frozenset()
        clock.advance(0.1)
        assert health.lost([N1]) == {"n1"}
        for ready in (True, False):
            cache.nodes.put(node("n1", ready=ready))
            health.update()


def test_the_lost_nodes_of_a_gang_are_those_its_members_are_on() -> None:
    """A deleted node is lost at once."""
    _, _, health = health_of(node("n1"))
    members = [bound(pod("a"), "n1"), bound(pod("b"), "gone"), pod("c")]
    assert health.lost_under(members) == health.lost([N1, NodeName("gone")]) == {"gone"}
