"""The mesh changes while gangs wait, are admitted, held or run: waiting ones are planned again, the others stay."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from scoring.model.reasons import Reason
from tests.builders import mesh
from tests.extender.scheduling.world import GATED, World, key, listed, node_json, running

pytestmark = pytest.mark.looptime

NAMES = [f"n{i}" for i in range(1, 7)]
SLOW = {"delay_ms": 60.0}


async def measured(world: World, version: int, bad: Iterable[str] = (), link: Mapping[str, float] = SLOW) -> None:
    now_s = world.clock.now_s()
    found = mesh(NAMES, bad=dict.fromkeys(bad, link), now_s=now_s, measured_at_s=now_s)
    world.set_network(replace(found, version=version))
    await world.settle()


@asynccontextmanager
async def meshed(zones: str, bad: Iterable[str] = (), **settings: Any) -> AsyncIterator[World]:
    """Nodes n1… with room for one member each, a letter for the zone of each, and their first measurements."""
    objects = [node_json(name, zone=zone, cpu="1") for name, zone in zip(NAMES, zones, strict=False)]
    async with running(*objects, **settings) as world:
        await measured(world, 1, bad)
        yield world


async def test_new_data_alone_moves_a_planned_gang() -> None:
    async with meshed("aaaa", ["n3", "n4"]) as world:
        gang = await world.planned_gang("g", 2)
        assert {world.offered(name) for name in gang} == {"n1", "n2"}
        await measured(world, 2, ["n1", "n2"])
        assert {world.offered(name) for name in gang} == {"n3", "n4"}


@pytest.mark.parametrize("gated", [True, False], ids=["gated", "parked"])
async def test_new_data_admits_a_gang_that_it_makes_room_for(gated: bool) -> None:
    async with meshed("aabb", ["n3", "n4"]) as world:
        heavy = world.gang("heavy", 2, priority=1000)
        light = await world.planned_gang("g", 2, annotations={"netgang.io/zones": "a"}, **(GATED if gated else {}))
        assert world.plan.admitted[key("heavy")].zones == ("a",)
        if not gated:
            assert {world.refusal(name) for name in light} == {Reason.BEHIND}
        before = len(world.api.patches)
        await measured(world, 2, ["n1", "n2"])
        assert len(world.api.admitted if gated else world.api.patches[before:]) == 2
        await world.bind_and_settle(*heavy, *light)
        assert set(world.bound().values()) == {"n1", "n2", "n3", "n4"}
        assert world.bound()["g-0"] in ("n1", "n2")


async def test_a_gang_that_is_being_admitted_loses_only_the_node_that_dies() -> None:
    async with meshed("aaaaa", spares=2) as world:
        names = await world.planned_gang("g", 2, **GATED)
        before = world.committed[key("g")]
        victim = min(before.values())
        world.api.remove(victim, kind="Node")
        await measured(world, 2)
        after = world.committed[key("g")]
        assert victim not in after.values()
        assert {uid: node for uid, node in before.items() if node != victim}.items() <= after.items()
        assert all(after[world.uid(name)] in listed(world.api.pod(name)) for name in names)
        await world.starts(*names)
        assert len(set(world.bound().values())) == 2


async def test_who_is_at_bind_or_runs_keeps_its_nodes() -> None:
    async with meshed("aaaaaa") as world:
        first, second = await world.planned_gang("g", 2)
        [call] = await world.bind_and_settle(first)
        before = set(world.committed[key("g")].values())
        await measured(world, 2, before, {"loss_ratio": 1.0})
        assert call.waits
        await world.starts(second, beside=[call])
        assert set(world.bound().values()) == before
        await measured(world, 3, before)
        await world.settle(200.0)
        assert (set(world.bound().values()), len(world.api.bindings), world.api.evictions) == (before, 2, [])
