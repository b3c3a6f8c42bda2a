"""Links that got bad are an Event on the node, or on one node of a zone, whichever source; and so is their recovery."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from scoring.network.matrix import NetworkMatrix
from tests.builders import mesh
from tests.extender.scheduling.world import World, node_json, running

pytestmark = pytest.mark.looptime

NODES = [f"{zone}{i}" for zone in "abc" for i in range(4)]
LOSSY: Mapping[str, float] = {"loss_ratio": 0.01}


class Network:
    """Measures all pairs every 30 s."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.version = 0

    async def measured(self, bad: Mapping[str, Mapping[str, float]], *, for_s: float) -> None:
        for _ in range(int(for_s // 30.0)):
            self.version += 1
            found: NetworkMatrix = mesh(NODES, bad=bad, measured_at_s=self.world.clock.now_s())
            now_s = self.world.clock.now_s()
            self.world.set_network(replace(found, version=self.version, evaluated_at_s=now_s))
            await self.world.settle(30.0)

    def events(self) -> list[tuple[str, str, str]]:
        """(reason, node, note) of each, in order."""
        found = [one for one in self.world.api.events if one["reason"].startswith("Network")]
        assert all((one["metadata"]["namespace"], one["regarding"]["kind"]) == ("default", "Node") for one in found)
        return [(one["reason"], one["regarding"]["name"], one["note"]) for one in found]


async def test_a_node_that_got_bad_and_good_again() -> None:
    async with running(*(node_json(name, zone=name[0]) for name in NODES)) as world:
        network = Network(world)
        await network.measured({}, for_s=300.0)
        assert network.events() == []
        await network.measured({"b2": LOSSY}, for_s=150.0)
        [(reason, node, note)] = network.events()
        assert (reason, node) == ("NetworkDegraded", "b2")
        assert note.startswith("Node b2: links are bad since ")
        assert "packet loss of 6 of 6 links, the worst 1 % (b0 → b2)" in note
        assert world.counted("network_degraded", kind="node") == 1.0
        await network.measured({"b2": LOSSY}, for_s=900.0)
        await network.measured({}, for_s=300.0)
        assert [(reason, node) for reason, node, _ in network.events()] == [
            ("NetworkDegraded", "b2"),
            ("NetworkRecovered", "b2"),
        ]
        assert world.counted("network_degraded", kind="node") == 0.0


async def test_a_zone_s_bad_inner_network_is_one_event() -> None:
    async with running(*(node_json(name, zone=name[0]) for name in NODES)) as world:
        network = Network(world)
        await network.measured({name: LOSSY for name in NODES if name[0] == "b"}, for_s=300.0)
        [first, *more] = network.events()
        assert first[:2] == ("NetworkDegraded", "b0")
        assert "zone b" in first[2]
        assert len(more) <= 1, "inside the zone, and its uplink"


async def test_old_values_are_no_news() -> None:
    """Beyond the soft TTL nothing is said of a link."""
    async with running(*(node_json(name, zone=name[0]) for name in NODES), network={"soft_ttl_s": 60.0}) as world:
        network = Network(world)
        old = mesh(NODES, bad={"b2": LOSSY}, measured_at_s=world.clock.now_s() - 3600.0)
        for version in range(1, 10):
            world.set_network(replace(old, version=version, evaluated_at_s=world.clock.now_s()))
            await world.settle(30.0)
        assert network.events() == []
