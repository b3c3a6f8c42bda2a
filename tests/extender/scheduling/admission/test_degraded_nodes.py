"""The mesh changes while gangs wait, are admitted, are held or run: who is planned again and who keeps its nodes."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.scheduling.admission.degraded_nodes import MOST_TIMES, unusable
from scoring.ids import NodeName
from scoring.model.reasons import Reason
from tests.builders import mesh
from tests.extender.scheduling.admission.test_gates import GATED
from tests.extender.scheduling.world import World, answers, key, node_json, running

looptime = pytest.mark.looptime
NAMES = [f"n{i}" for i in range(1, 7)]
SLOW = {"delay_ms": 60.0}
LOST = {"loss_ratio": 0.9}
NOTHING_LEFT = {"loss_ratio": 1.0}


def measured(world: World, version: int, bad: Mapping[str, Mapping[str, float]] | None = None) -> None:
    """A full mesh of good links, but for those of some nodes."""
    now_s = world.clock.now_s()
    found = mesh(NAMES, bad=bad or {}, now_s=now_s, measured_at_s=now_s)
    world.set_network(replace(found, version=version))


def nodes(count: int) -> list[dict[str, object]]:
    """Nodes with room for one member each."""
    return [node_json(name, cpu="1") for name in NAMES[:count]]


@looptime
async def test_new_data_alone_moves_a_planned_gang() -> None:
    """A gang that nothing is promised to yet is planned again as soon as the measurements change."""
    async with running(*nodes(4)) as world:
        measured(world, 1, {"n3": SLOW, "n4": SLOW})
        gang = await world.planned_gang("g", 2)
        assert {world.offered(name) for name in gang} == {"n1", "n2"}
        measured(world, 2, {"n1": SLOW, "n2": SLOW})
        await world.settle()
        assert {world.offered(name) for name in gang} == {"n3", "n4"}


@looptime
@pytest.mark.parametrize("gated", [True, False], ids=["gated", "parked"])
async def test_new_data_admits_a_gang_that_it_makes_room_for(gated: bool) -> None:
    """The heavier gang is better off in zone b now: pods of one that may only use zone a are ungated, or nudged."""
    zones = {"zone a": ["n1", "n2"], "zone b": ["n3", "n4"]}
    objects = [node_json(name, zone=zone[-1], cpu="1") for zone, names in zones.items() for name in names]
    async with running(*objects) as world:
        measured(world, 1, dict.fromkeys(zones["zone b"], SLOW))
        heavy = world.gang("heavy", 2, priority=1000)
        gates = {"schedulingGates": GATED} if gated else {}
        light = await world.planned_gang("g", 2, annotations={"netgang.io/zones": "a"}, **gates)
        assert world.plan.admitted[key("heavy")].zones == ("a",)
        if not gated:
            assert {world.refusal(name) for name in light} == {Reason.BEHIND}
        before = len(world.api.patches)
        measured(world, 2, dict.fromkeys(zones["zone a"], SLOW))
        await world.settle()
        assert len(world.api.admitted if gated else world.api.patches[before:]) == 2
        await world.bind_and_settle(*heavy, *light)
        assert set(world.bound().values()) == {"n1", "n2", "n3", "n4"}
        assert world.bound()["g-0"] in zones["zone a"]


@looptime
async def test_worse_links_do_not_move_a_gang_that_is_held() -> None:
    """Half the members are at bind when their nodes' delay grows: they keep their nodes, and the gang starts there."""
    async with running(*nodes(6)) as world:
        measured(world, 1)
        gang = await world.planned_gang("g", 2)
        first = world.offered(gang[0])
        calls = [world.bind(gang[0], first)]
        await world.settle()
        promised = world.committed[key("g")]
        measured(world, 2, {node: {**SLOW, "loss_ratio": 0.3} for node in promised.values()})
        await world.settle()
        assert world.committed[key("g")] == promised
        calls += await world.bind_and_settle(gang[1])
        assert answers(calls) == [None, None]
        assert set(world.bound().values()) == set(promised.values())


@looptime
async def test_a_node_that_became_unusable_is_given_up() -> None:
    """It loses nine packets of ten: what is held is answered, and the gang starts without that node."""
    async with running(*nodes(6)) as world:
        measured(world, 1)
        gang = await world.planned_gang("g", 2)
        [call] = await world.bind_and_settle(gang[0])
        measured(world, 2, {call.node: LOST})
        await world.settle()
        assert call.answer is Reason.ROOM_TAKEN
        calls = await world.bind_and_settle(*gang)
        assert answers(calls) == [None, None]
        assert call.node not in world.bound().values()


@looptime
async def test_the_threshold_is_a_setting() -> None:
    """A tenth is unusable where the operator says so, and nothing is where they say null."""
    for threshold, loss_ratio, kept in ((0.1, 0.1, False), (0.1, 0.09, True), (None, 1.0, True)):
        async with running(*nodes(6), network={"unusable_loss_ratio": threshold}) as world:
            measured(world, 1)
            gang = await world.planned_gang("g", 2)
            [call] = await world.bind_and_settle(gang[0])
            measured(world, 2, {call.node: {"loss_ratio": loss_ratio}})
            await world.settle()
            assert call.waits is kept, (threshold, loss_ratio)
            call.hang_up()


@looptime
async def test_a_gang_that_is_being_let_in_loses_only_the_bad_place() -> None:
    """The member whose node became unusable gets another listed one; the other keeps its own."""
    async with running(*nodes(5), spares=2) as world:
        measured(world, 1)
        names = await world.planned_gang("g", 2, schedulingGates=GATED)
        before = world.committed[key("g")]
        victim = min(before.values())
        measured(world, 2, {victim: LOST})
        await world.settle()
        after = world.committed[key("g")]
        assert victim not in after.values()
        assert {uid: node for uid, node in before.items() if node != victim}.items() <= after.items()
        await world.bind_and_settle(*names)
        assert len(world.api.bindings) == 2


@looptime
async def test_where_all_is_bad_gangs_start_all_the_same() -> None:
    """Nodes that were unusable when the gang was planned are not given up: there is nothing better."""
    async with running(*nodes(2)) as world:
        measured(world, 1, dict.fromkeys(NAMES, LOST))
        gang = await world.planned_gang("g", 2)
        calls = await world.bind_and_settle(gang[0])
        measured(world, 2, dict.fromkeys(NAMES, NOTHING_LEFT))
        await world.settle()
        calls += await world.bind_and_settle(gang[1])
        assert answers(calls) == [None, None]


@looptime
async def test_running_jobs_are_never_moved() -> None:
    """Whatever becomes of their links, nothing is evicted, and nothing of theirs is written."""
    async with running(*nodes(6)) as world:
        measured(world, 1)
        gang = await world.planned_gang("g", 2)
        await world.bind_and_settle(*gang)
        before = world.bound()
        for version, bad in enumerate((SLOW, LOST, NOTHING_LEFT), start=2):
            measured(world, version, dict.fromkeys(before.values(), bad))
            await world.settle(200.0)
        assert world.bound() == before
        assert len(world.api.bindings) == 2
        assert world.api.evictions == []


UNUSABLE = {  # case: (unusable, bad nodes, node)
    "all its links": (True, ["n1"], "n1"),
    "one of five": (False, ["n2"], "n1"),
    "half of four": (False, ["n2", "n3"], "n1"),
    "three of five": (True, ["n2", "n3", "n4"], "n1"),
    "unknown node": (False, ["n1"], "mars"),
}


@pytest.mark.parametrize(("want", "bad", "name"), UNUSABLE.values(), ids=UNUSABLE)
def test_most_of_its_links(want: bool, bad: list[str], name: str) -> None:
    """More than half of the known links must be bad: one bad neighbour makes no node unusable."""
    found = mesh(NAMES, bad=dict.fromkeys(bad, LOST))
    others = [NodeName(one) for one in NAMES]
    assert want is unusable(found, NodeName(name), others, loss_ratio=0.5, hard_ttl_s=100.0)


def test_old_losses_do_not_count() -> None:
    """What is as old as the hard TTL is unknown, and unknown is not unusable."""
    found = replace(mesh(NAMES, bad={"n1": LOST}), evaluated_at_s=100.0)
    others = [NodeName(one) for one in NAMES]
    assert unusable(found, NodeName("n1"), others, loss_ratio=0.5, hard_ttl_s=100.1)
    assert not unusable(found, NodeName("n1"), others, loss_ratio=0.5, hard_ttl_s=100.0)


@given(st.floats(0.01, 1.0), st.floats(0.01, 1.0), st.floats(0.0, 1.0))
def test_a_higher_threshold_never_gives_up_more(one: float, other: float, loss_ratio: float) -> None:
    """Monotone in the threshold."""
    found = mesh(NAMES[:3], bad={"n1": {"loss_ratio": loss_ratio}})
    low, high = sorted((one, other))
    said = [
        unusable(found, NodeName("n1"), [NodeName(n) for n in NAMES[:3]], loss_ratio=limit, hard_ttl_s=10.0)
        for limit in (low, high)
    ]
    assert said[0] or not said[1]


@looptime
async def test_links_that_come_and_go_move_a_gang_three_times_at_most() -> None:
    """Wherever it goes its node turns bad, and good again: the fourth time it stays, and it starts."""
    async with running(*nodes(6)) as world:
        measured(world, 1)
        gang = await world.planned_gang("g", 2)
        left: list[str] = []
        for version in range(2, 20, 2):
            [call] = await world.bind_and_settle(gang[0])
            measured(world, version, {call.node: LOST})
            await world.settle()
            measured(world, version + 1)
            await world.settle()
            if call.waits:
                break
            assert call.answer is Reason.ROOM_TAKEN
            left.append(call.node)
        assert len(left) == MOST_TIMES == len(set(left))
        calls = [call, *world.bind_offered(gang[1])]
        await world.settle()
        assert answers(calls) == [None, None]
        assert world.bound()[gang[0]] not in left


@looptime
async def test_a_threshold_that_is_crossed_all_the_time_costs_one_move() -> None:
    """The loss of one node swings about the limit every second while the gang waits: it is left once, not each time."""
    async with running(*nodes(6)) as world:
        measured(world, 1)
        gang = await world.planned_gang("g", 2)
        [call] = await world.bind_and_settle(gang[0])
        shaky, moves = call.node, 0
        for version in range(2, 22):
            measured(world, version, {shaky: {"loss_ratio": 0.49 + 0.02 * ((version + 1) % 2)}})
            await world.settle(1.0)
            if not call.waits:
                moves += 1
                [call] = await world.bind_and_settle(gang[0])
        assert moves == 1
        calls = [call, *world.bind_offered(gang[1])]
        await world.settle()
        assert answers(calls) == [None, None]
        assert shaky not in world.bound().values()


@looptime
async def test_nothing_is_given_up_for_nothing() -> None:
    """All nodes turn bad at once (the measurement hosts are away), or the good ones are full: the gang stays."""
    for free, bad in ((4, NAMES[:4]), (2, NAMES[:2])):
        async with running(*nodes(4)) as world:
            measured(world, 1)
            gang = await world.planned_gang("g", 2)
            calls = await world.bind_and_settle(gang[0])
            if free == 2:
                for name in set(NAMES[:4]) - set(world.committed[key("g")].values()):
                    world.occupy(name, cpu="1", name=f"stranger-{name}")
                bad = list(world.committed[key("g")].values())
            measured(world, 2, dict.fromkeys(bad, LOST))
            await world.settle()
            assert calls[0].waits
            calls += await world.bind_and_settle(gang[1])
            assert answers(calls) == [None, None]


@looptime
async def test_a_dead_zone_is_left_for_a_good_one_that_is_allowed() -> None:
    """All of zone a turns bad: the gang goes to zone b as a whole, unless it may not go there."""
    for zones, want in ((None, {"n4", "n5", "n6"}), ("a", {"n1", "n2", "n3"})):
        objects = [node_json(name, zone="aaabbb"[i], cpu="1") for i, name in enumerate(NAMES)]
        async with running(*objects) as world:
            measured(world, 1, dict.fromkeys(NAMES[3:], SLOW))
            notes = {"netgang.io/zones": zones} if zones else {}
            gang = await world.planned_gang("g", 2, annotations=notes)
            [call] = await world.bind_and_settle(gang[0])
            assert call.node in NAMES[:3]
            measured(world, 2, dict.fromkeys(NAMES[:3], LOST))
            await world.settle()
            assert call.waits is (zones is not None)
            calls = [call, *world.bind_offered(gang[1])] if call.waits else world.bind_offered(*gang)
            await world.settle()
            assert answers(calls) == [None, None]
            assert set(world.bound().values()) <= want
