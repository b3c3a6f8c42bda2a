"""What network a gang that runs has: in the documents, in metrics, at its start and now."""

from dataclasses import replace

import pytest

from tests.builders import mesh
from tests.extender.scheduling.world import World, node_json, running

pytestmark = pytest.mark.looptime
NODES = tuple(node_json(f"n{i}", cpu="1") for i in range(3))
NAMES = ("n0", "n1", "n2")


async def _started(world: World) -> None:
    world.set_network(mesh(NAMES))
    await world.settle(2.5)
    await world.bind_and_settle(*await world.planned_gang("g", 3))
    await world.settle(4.0)


async def test_documents_have_it_while_the_gang_runs() -> None:
    async with running(*NODES) as world:
        world.gang("waits", 4, cpu="9")
        await _started(world)
        network = world.explained("g").network
        assert network is not None
        assert (network.nodes, network.of_nodes, network.zones) == (NAMES, 3, ("a",))
        assert network.score == network.score_at_start is not None
        assert network.worst is not None
        queue = (await world.get("/v1/queue")).json()["gangs"]
        shown = {one["gang"]: one["network"] for one in queue}
        assert shown["default/waits"] is None
        assert shown["default/g"]["score"] == network.score
        assert world.explained("waits").network is None


async def test_its_points_at_the_start_are_counted_by_namespace() -> None:
    async with running(*NODES) as world:
        await _started(world)
        assert world.counted("gang_start_network_points_count", gang_namespace="default") == 1.0


async def test_the_score_of_now_follows_the_data_and_that_of_the_start_stays() -> None:
    async with running(*NODES) as world:
        await _started(world)
        before = world.explained("g").network
        world.set_network(replace(mesh(NAMES, bad={"n1": {"loss_ratio": 0.5, "delay_ms": 900.0}}), version=9))
        await world.settle(70.0)
        after = world.explained("g").network
        assert before is not None
        assert after is not None
        assert after.score_at_start == before.score
        assert after.score != before.score
        assert after.worst is not None
        assert (after.worst.source, after.worst.target) == ("n0", "n1")


async def test_of_a_gang_that_ran_before_the_start_is_not_known() -> None:
    async with running(*NODES) as world:
        for number, name in enumerate(NAMES):
            world.pod(f"g-{number}", gang="g", size=3, nodeName=name, phase="Running")
        await world.settle(4.0)
        network = world.explained("g").network
        assert network is not None
        assert network.score_at_start is None
