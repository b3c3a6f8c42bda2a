"""The mesh changes while gangs wait, are admitted, held or run: which are planned again, which keep their nodes."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from extender.scheduling.degraded_nodes import MOST_TIMES, unusable
from scoring import NodeName
from scoring.model.reasons import Reason
from scoring.network.matrix import NetworkMatrix
from tests.builders import mesh
from tests.extender.scheduling.world import GATED, Call, World, key, listed, node_json, running

pytestmark = pytest.mark.looptime

NAMES = [f"n{i}" for i in range(1, 7)]
SLOW = {"delay_ms": 60.0}
LOST = {"loss_ratio": 0.9}
NOTHING_LEFT = {"loss_ratio": 1.0}


async def measured(world: World, version: int, bad: Iterable[str] = (), link: Mapping[str, float] = LOST) -> None:
    now_s = world.clock.now_s()
    found = mesh(NAMES, bad=dict.fromkeys(bad, link), now_s=now_s, measured_at_s=now_s)
    world.set_network(replace(found, version=version))
    await world.settle()


@asynccontextmanager
async def meshed(
    zones: str, bad: Iterable[str] = (), link: Mapping[str, float] = LOST, **settings: Any
) -> AsyncIterator[World]:
    """Nodes n1… with room for one member each, a letter for the zone of each, and their first measurements."""
    objects = [node_json(name, zone=zone, cpu="1") for name, zone in zip(NAMES, zones, strict=False)]
    async with running(*objects, **settings) as world:
        await measured(world, 1, bad, link)
        yield world


async def started(world: World, *calls: Call, gang: Iterable[str] = ()) -> set[str]:
    await world.starts(*gang, beside=calls)
    return set(world.bound().values())


async def test_new_data_alone_moves_a_planned_gang() -> None:
    async with meshed("aaaa", ["n3", "n4"], SLOW) as world:
        gang = await world.planned_gang("g", 2)
        assert {world.offered(name) for name in gang} == {"n1", "n2"}
        await measured(world, 2, ["n1", "n2"], SLOW)
        assert {world.offered(name) for name in gang} == {"n3", "n4"}


@pytest.mark.parametrize("gated", [True, False], ids=["gated", "parked"])
async def test_new_data_admits_a_gang_that_it_makes_room_for(gated: bool) -> None:
    async with meshed("aabb", ["n3", "n4"], SLOW) as world:
        heavy = world.gang("heavy", 2, priority=1000)
        light = await world.planned_gang("g", 2, annotations={"netgang.io/zones": "a"}, **(GATED if gated else {}))
        assert world.plan.admitted[key("heavy")].zones == ("a",)
        if not gated:
            assert {world.refusal(name) for name in light} == {Reason.BEHIND}
        before = len(world.api.patches)
        await measured(world, 2, ["n1", "n2"], SLOW)
        assert len(world.api.admitted if gated else world.api.patches[before:]) == 2
        await world.bind_and_settle(*heavy, *light)
        assert set(world.bound().values()) == {"n1", "n2", "n3", "n4"}
        assert world.bound()["g-0"] in ("n1", "n2")


@pytest.mark.parametrize(("loss_ratio", "kept"), [(0.5, False), (0.49, True)])
async def test_the_threshold_is_half_of_the_packets(loss_ratio: float, kept: bool) -> None:
    async with meshed("aaaaaa") as world:
        gang = await world.planned_gang("g", 2)
        [call] = await world.bind_and_settle(gang[0])
        await measured(world, 2, [call.node], {"loss_ratio": loss_ratio})
        assert call.waits is kept
        call.hang_up()


@pytest.mark.parametrize("dies", [False, True], ids=["its links turn bad", "it dies"])
async def test_a_gang_that_is_being_admitted_loses_only_the_bad_place(dies: bool) -> None:
    async with meshed("aaaaa", spares=2) as world:
        names = await world.planned_gang("g", 2, **GATED)
        before = world.committed[key("g")]
        victim = min(before.values())
        if dies:
            world.api.remove(victim, kind="Node")
        await measured(world, 2, [] if dies else [victim])
        after = world.committed[key("g")]
        assert victim not in after.values()
        assert {uid: node for uid, node in before.items() if node != victim}.items() <= after.items()
        assert all(after[world.uid(name)] in listed(world.api.pod(name)) for name in names)
        assert len(await started(world, gang=names)) == 2


async def test_running_jobs_are_never_moved() -> None:
    async with meshed("aaaaaa") as world:
        await started(world, gang=await world.planned_gang("g", 2))
        before = world.bound()
        for version, bad in enumerate((SLOW, LOST, NOTHING_LEFT), start=2):
            await measured(world, version, before.values(), bad)
            await world.settle(200.0)
        assert (world.bound(), len(world.api.bindings), world.api.evictions) == (before, 2, [])


def is_unusable(network: NetworkMatrix, name: str = "n1", *, ttl_s: float = 100.0) -> bool:
    return unusable(network, NodeName(name), list(map(NodeName, NAMES)), hard_ttl_s=ttl_s)


UNUSABLE = {  # case: (unusable, bad nodes, node)
    "all its links": (True, ["n1"], "n1"),
    "one of five": (False, ["n2"], "n1"),
    "half of four": (False, ["n2", "n3"], "n1"),
    "three of five": (True, ["n2", "n3", "n4"], "n1"),
    "unknown node": (False, ["n1"], "mars"),
}


@pytest.mark.parametrize(("want", "bad", "name"), UNUSABLE.values(), ids=UNUSABLE)
def test_most_of_its_links(want: bool, bad: list[str], name: str) -> None:
    assert want is is_unusable(mesh(NAMES, bad=dict.fromkeys(bad, LOST)), name)


def test_old_losses_do_not_count() -> None:
    found = replace(mesh(NAMES, bad={"n1": LOST}), evaluated_at_s=100.0)
    assert [is_unusable(found, ttl_s=ttl_s) for ttl_s in (100.1, 100.0)] == [True, False]


async def test_links_that_come_and_go_move_a_gang_three_times_at_most() -> None:
    async with meshed("aaaaaa") as world:
        gang = await world.planned_gang("g", 2)
        left: list[str] = []
        for version in range(2, 20, 2):
            [call] = await world.bind_and_settle(gang[0])
            await measured(world, version, [call.node])
            await measured(world, version + 1)
            if call.waits:
                break
            assert call.answer is Reason.ROOM_TAKEN
            left.append(call.node)
        assert len(left) == MOST_TIMES == len(set(left))
        await started(world, call, gang=gang[1:])
        assert world.bound()[gang[0]] not in left


async def test_a_threshold_that_is_crossed_all_the_time_costs_one_move() -> None:
    async with meshed("aaaaaa") as world:
        gang = await world.planned_gang("g", 2)
        [call] = await world.bind_and_settle(gang[0])
        shaky, moves = call.node, 0
        for version in range(2, 22):
            await measured(world, version, [shaky], {"loss_ratio": 0.49 + 0.02 * ((version + 1) % 2)})
            await world.settle()
            if not call.waits:
                moves += 1
                [call] = await world.bind_and_settle(gang[0])
        assert moves == 1
        assert shaky not in await started(world, call, gang=gang[1:])


@pytest.mark.parametrize("full", [False, True], ids=["all nodes turn bad", "the good ones are full"])
async def test_nothing_is_given_up_for_nothing(full: bool) -> None:
    async with meshed("aaaa") as world:
        gang = await world.planned_gang("g", 2)
        calls = await world.bind_and_settle(gang[0])
        committed = set(world.committed[key("g")].values())
        for name in set(NAMES[:4]) - committed if full else ():
            world.occupy(name, cpu="1", name=f"stranger-{name}")
        await measured(world, 2, committed if full else NAMES[:4])
        assert calls[0].waits
        await started(world, *calls, gang=gang[1:])


@pytest.mark.parametrize("zones", [None, "a"])
async def test_a_dead_zone_is_left_for_a_good_one_that_is_allowed(zones: str | None) -> None:
    async with meshed("aaabbb", NAMES[3:], SLOW) as world:
        gang = await world.planned_gang("g", 2, annotations={"netgang.io/zones": zones} if zones else {})
        [call] = await world.bind_and_settle(gang[0])
        assert call.node in NAMES[:3]
        await measured(world, 2, NAMES[:3])
        assert call.waits is (zones is not None)
        nodes = await (started(world, call, gang=gang[1:]) if call.waits else started(world, gang=gang))
        assert nodes <= set(NAMES[:3] if zones else NAMES[3:])
