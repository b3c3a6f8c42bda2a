"""Pods of Kubernetes' own groups: scored, one zone for all members of a try, and otherwise left to kube-scheduler."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from extender.convert.wire import Passed
from scoring.model.reasons import Reason
from tests.extender.scheduling.world import World, group_json, node_json, running

pytestmark = pytest.mark.looptime

GROUP: dict[str, Any] = {"schedulingGroup": {"podGroupName": "g"}}
NODES = [node_json(f"{zone}{i}", zone=zone, cpu="1") for zone in "ab" for i in range(3)]
BACKOFF_S = 2.0


def group(world: World, size: int = 3, **fields: Any) -> list[str]:
    names = [f"p{i}" for i in range(size)]
    for name in names:
        world.pod(name, **GROUP, **fields)
    return names


@asynccontextmanager
async def grouped(**fields: Any) -> AsyncIterator[tuple[World, list[str]]]:
    async with running(*NODES) as world:
        names = group(world, **fields)
        await world.settle()
        yield world, names


def zones(world: World, pod: str, nodes: list[str] | None = None) -> set[str]:
    """Zones of the nodes that the pod may use; empty: refused."""
    return {name[0] for name in world.passed(pod, unless=Reason.OTHER_ZONE, nodes=nodes)}


async def test_the_zone_has_room_for_all() -> None:
    async with running(*NODES) as world:
        world.occupy("a0", cpu="1")
        names = group(world)
        await world.settle()
        assert [zones(world, name) for name in names] == [{"b"}] * 3


async def test_a_zone_that_fills_up_in_the_middle_is_not_mixed_with_another() -> None:
    async with grouped() as (world, names):
        [first] = zones(world, names[0])
        [other] = {"a", "b"} - {first}
        zones(world, names[1])
        assert zones(world, names[2], [f"{other}{i}" for i in range(3)]) == set()
        await world.settle(BACKOFF_S)
        assert [zones(world, name) for name in names] == [{other}] * 3


async def test_a_lost_try_ends_though_kube_scheduler_leaves_no_break() -> None:
    """It may try a group of its own again at once, without end: the other zone's turn comes within a second."""
    async with grouped() as (world, names):
        [first] = zones(world, names[0])
        [other] = {"a", "b"} - {first}
        left = [f"{other}{i}" for i in range(3)]  # kube-scheduler knows that the first zone is full
        lost = 0
        while (found := [zones(world, name, left) for name in names]) == [set()] * 3 and lost < 100:
            lost += 1
            await world.settle(0.01)
        assert found == [{other}] * 3
        assert lost > 10, "a group of many members is not torn apart in the middle"


async def test_when_no_zone_did_all_are_tried_again() -> None:
    async with grouped() as (world, names):
        seen = []
        for _ in range(4):
            [zone] = zones(world, names[0])
            seen.append(zone)
            other = "b" if zone == "a" else "a"
            assert zones(world, names[1], [f"{other}0"]) == set()
            await world.settle(BACKOFF_S)
        assert sorted(seen) == ["a", "a", "b", "b"]
        assert seen[0] != seen[1]


async def test_without_a_zone_policy_there_is_none() -> None:
    async with grouped(annotations={"netgang.io/zone-policy": "preferred"}) as (world, names):
        assert zones(world, names[0]) == {"a", "b"}


async def test_a_person_who_asks_begins_no_try() -> None:
    """docs/safety.md S2: a debugging call changes nothing, and sees all nodes."""
    async with grouped() as (world, names):
        answer = world.filter(names[0], debug=True)
        assert isinstance(answer, Passed)
        assert len(answer.names) == 6


NATIVE: dict[str, Any] = {"schedulingGroup": {"podGroupName": "native"}}
N1 = node_json("n1")


async def test_it_is_scored() -> None:
    async with running(N1, node_json("n3")) as world:
        world.pod("a", nodeName="n1", **NATIVE)
        await world.planned_pod("b", **NATIVE)
        scores = world.scores("b")
        assert scores["n1"] > scores["n3"]


async def test_labels_beside_it_do_not_count() -> None:
    """Where the field is kept, kube-scheduler gangs, and has waited for the others already: one of three is bound."""
    async with running(N1) as world:
        await world.planned_gang("both", 3, **NATIVE)
        world.filter("both-0")
        assert (await world.bind_answer("both-0", "n1"), world.bound()) == (None, {"both-0": "n1"})


async def test_nothing_is_written_about_it() -> None:
    async with running(N1) as world:
        world.api.add(group_json("native", least=5))
        for name in ("a", "b"):
            world.pod(name, cpu="99", **NATIVE)
        await world.settle(120.0)
        assert (world.api.calls["group_status"], world.api.events) == (0, [])
        assert not world.service.planner.current.waiting
