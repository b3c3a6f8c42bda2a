"""Many gangs admitted at once: in the queue's order, and never faster than the API server is to be written to."""

import asyncio

import pytest

from tests.extender.scheduling.world import GATED, node_json, running

pytestmark = pytest.mark.looptime

PER_S = 100.0
GANGS, SIZE = 40, 5


@pytest.mark.parametrize("way", ["gated", "parked"])
async def test_a_burst_is_spread_over_time(way: str) -> None:
    async with running(*(node_json(f"n{i}", cpu="8") for i in range(30)), writes_per_s=PER_S) as world:
        world.occupy("n0", cpu="8", name="first")
        for node in range(1, 30):
            world.occupy(f"n{node}", cpu="8", name=f"full-{node}")
        names = [
            name
            for number in range(GANGS)
            for name in world.gang(f"g{number:02}", SIZE, cpu="1", **(GATED if way == "gated" else {}))
        ]
        await world.settle(2.0)
        if way == "parked":
            for name in names:
                world.refusal(name)
            await world.settle(2.0)
        written = world.api.admitted if way == "gated" else world.api.patches
        before = len(written)
        world.delete(*(f"full-{node}" for node in range(1, 30)))
        by_tenths = [before]
        for _ in range(40):
            await asyncio.sleep(0.1)
            by_tenths.append(len(written))
        assert by_tenths[-1] - before >= len(names)
        seconds = [after - now for now, after in zip(by_tenths, by_tenths[10:], strict=False)]
        assert max(seconds) <= PER_S * 1.05 + 1
        for name in names:
            world.delete(name)


async def test_gates_open_in_the_order_of_the_queue() -> None:
    async with running(*(node_json(f"n{i}", cpu="8") for i in range(10)), writes_per_s=PER_S) as world:
        for node in range(10):
            world.occupy(f"n{node}", cpu="8", name=f"full-{node}")
        sizes = {"light": 2, "middle": 4, "heavy": 8}
        for name, size in sizes.items():
            world.gang(name, size, cpu="1", **GATED)
        await world.settle(2.0)
        assert world.api.admitted == []
        world.delete(*(f"full-{node}" for node in range(10)))
        await world.settle(5.0)
        assert len(world.api.admitted) == sum(sizes.values())
        order = list(dict.fromkeys(name.rpartition("-")[0] for name in world.api.admitted))
        assert order == ["heavy", "middle", "light"]
        for name, size in sizes.items():
            world.delete(*(f"{name}-{i}" for i in range(size)))
