"""A node that has just joined keeps room for its DaemonSets' pods, and not without end (docs/safety.md S12, S26)."""

from datetime import UTC, datetime
from typing import Any

import pytest

from scoring.model.reasons import Reason
from tests.extender.scheduling.world import World, key, node_json, running

pytestmark = pytest.mark.looptime

SETTLE_S = 120.0  # the default


async def joined(world: World) -> None:
    """A DaemonSet that has been there for long, and then a node with room for one member and for its pod."""
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    metadata: dict[str, Any] = {"name": "cni", "uid": "u", "creationTimestamp": "2000-01-01T00:00:00Z"}
    world.api.add(
        {"kind": "DaemonSet", "metadata": metadata, "spec": {"template": {"spec": {"containers": [container]}}}}
    )
    await world.settle(2.0)
    node = node_json("n2", cpu="2")
    node["metadata"]["creationTimestamp"] = datetime.fromtimestamp(world.clock.now_s(), UTC).strftime(
        "%Y-%m-%dT%H:%M:%SZ"
    )
    world.api.add(node)


def notes(world: World, gang: str = "g") -> str:
    document = world.explained(gang)
    return "; ".join(note for note in document.notes if "DaemonSet" in note)


async def test_a_gang_does_not_take_what_a_daemon_sets_pod_will_ask_for() -> None:
    async with running(node_json("n1", cpu="2")) as world:
        world.gang("g", 2, cpu="2")
        await joined(world)
        await world.settle(5.0)
        assert world.waits_for("g") in (Reason.NO_ROOM, Reason.BEHIND)
        assert "n2 keeps room free for the pod of DaemonSet default/cni, for another" in notes(world)
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "cni", "uid": "u", "controller": True}
        world.pod("cni-x", cpu="500m", scheduler="default-scheduler", nodeName="n2")
        bound = world.api.pod("cni-x")
        bound["metadata"]["ownerReferences"] = [owner]
        world.api.add(bound)
        await world.settle(2.0)
        assert notes(world) == ""
        world.delete("g-0", "g-1")
        names = await world.planned_gang("h", 2, cpu="1500m")
        await world.bind_and_settle(*names)
        assert sorted(world.bound()) == sorted(names)


async def test_pods_that_do_not_come_close_no_node_for_ever() -> None:
    async with running(node_json("n1", cpu="2")) as world:
        names = world.gang("g", 2, cpu="2")
        await joined(world)
        await world.settle(SETTLE_S - 10.0)
        assert key("g") not in world.plan.admitted
        await world.settle(15.0)
        await world.bind_and_settle(*names)
        assert sorted(world.bound()) == sorted(names)
        await world.planned_gang("next", 1)
        assert "DaemonSet default/cni has had no pod on 1 node in the time kept for it" in notes(world, "next")
