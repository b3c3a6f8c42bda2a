"""Kubernetes' own gangs with our gate are queued and admitted as any other; kube-scheduler alone starts them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from scoring.model.reasons import Reason
from tests.extender.scheduling.test_admission_ends import NO_VOLUME
from tests.extender.scheduling.world import ADMIT_S, GATED, Object, World, key, listed, node_json, running

pytestmark = pytest.mark.looptime

STOCK = "default-scheduler"
MINE: dict[str, Any] = {"scheduler": STOCK, "schedulingGroup": {"podGroupName": "g"}}
NODES = [node_json(f"{zone}{i}", zone=zone, cpu="1") for zone in "ab" for i in range(3)]
NO_ROOM = "0/6 nodes are available: 1 Insufficient cpu, 5 node(s) didn't match Pod's node affinity/selector."
FAILED = "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"


def native_group(name: str = "g", least: int = 3) -> Object:
    policy = {"gang": {"minCount": least}}
    version = "scheduling.k8s.io/v1beta1"
    return {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": name}, "spec": {"schedulingPolicy": policy}}


@asynccontextmanager
async def alone(*more: Object, size: int = 3) -> AsyncIterator[tuple[World, list[str]]]:
    async with running(*NODES, *more, extender=False, scheduler_names=(STOCK,)) as world:
        names = [f"p{i}" for i in range(size)]
        for name in names:
            world.pod(name, **MINE, **GATED)
        await world.settle()
        yield world, names


def gates(world: World, *names: str) -> list[bool]:
    return ["schedulingGates" in world.api.pod(name)["spec"] for name in names]


def pins(world: World, name: str) -> list[str]:
    return sorted(listed(world.api.pod(name)))


async def test_all_are_admitted_each_to_its_planned_node_and_nothing_waits_for_calls() -> None:
    async with alone(native_group()) as (world, names):
        nodes = [pins(world, name) for name in names]
        assert [len(one) for one in nodes] == [1, 1, 1], "a spare may be promised to others"
        assert len({one[0][0] for one in nodes}) == 1, "one zone"
        assert set(world.committed) == {key("g")}
        for name in names:  # as kube-scheduler does, in one go
            world.change(name, nodeName=pins(world, name)[0])
        await world.settle(2.0)
        assert (world.committed, world.explained("g").state) == ({}, "running")
        await world.settle(ADMIT_S * 2)
        assert (world.told("AdmissionLapsed"), world.api.bindings) == ([], [])


async def test_without_its_pod_group_it_waits_and_says_so() -> None:
    async with alone() as (world, names):
        assert gates(world, *names) == [True] * 3
        assert "scheduling.k8s.io does not exist" in world.plan.waiting[key("g")].detail
        world.api.add(native_group())
        await world.settle()
        assert gates(world, *names) == [False] * 3


async def test_no_member_is_admitted_without_the_others() -> None:
    """kube-scheduler 1.37 tries no member while another one has a gate: the fourth would stop the three."""
    async with alone(native_group(least=2), size=4) as (world, names):
        assert (gates(world, *names), world.waits_for("g")) == ([True] * 4, Reason.IMPOSSIBLE)
        world.delete("p3")
        await world.settle()
        assert gates(world, *names[:3]) == [False] * 3


async def test_the_minimum_follows_the_pod_group() -> None:
    async with alone(native_group(least=4)) as (world, names):
        assert world.waits_for("g") is Reason.INCOMPLETE
        world.api.add(native_group(least=3))
        await world.settle()
        assert gates(world, *names) == [False] * 3


async def test_a_gang_that_kube_scheduler_cannot_place_goes_back_to_the_queue_with_its_words() -> None:
    """Another pod took the room of one member: the other two, which failed with it, lose no node for that."""
    async with alone(native_group()) as (world, names):
        world.says(NO_VOLUME, names[0])
        world.says(FAILED, *names[1:])
        await world.settle(ADMIT_S + 5.0)
        assert "volume node affinity" in world.told("AdmissionLapsed")[0]
        excluded = world.service.cache.snapshot().excluded
        planned = {pins(world, name)[0] for name in names[1:]}
        for name in names:
            pod = world.service.cache.pod(world.uid(name))
            assert pod is not None
            assert planned.isdisjoint(excluded(pod.member_class))


async def test_room_that_another_pod_took_closes_no_node() -> None:
    """The node has room again when that pod ends, and then the gang starts there."""
    async with alone(native_group()) as (world, names):
        [node] = pins(world, names[0])
        world.occupy(node, cpu="1")
        world.says(NO_ROOM, names[0])
        world.says(FAILED, *names[1:])
        await world.settle(5.0)
        known = world.service.cache.pod(world.uid(names[0]))
        assert known is not None
        assert not world.service.cache.snapshot().excluded(known.member_class)
        assert "1 Insufficient cpu" in known.refusal


async def test_pods_of_the_stock_scheduler_are_load() -> None:
    """Plain pods, and gangs by labels or without the gate, are never touched where kube-scheduler does not ask us."""
    async with alone(native_group()) as (world, _):
        await world.planned_gang("labelled", 2, scheduler=STOCK)
        await world.planned_gang("both", 2, scheduler=STOCK, **GATED)
        world.pod("ungated", **{**MINE, "schedulingGroup": {"podGroupName": "other"}})
        await world.settle(150.0)
        assert set(world.plan.admitted) | set(world.plan.waiting) <= {key("g")}
        assert gates(world, "both-0", "both-1") == [True, True]


async def test_members_that_ran_before_pods_were_gated_count() -> None:
    async with running(*NODES, native_group(), extender=False, scheduler_names=(STOCK,)) as world:
        for number in range(2):
            world.pod(f"old{number}", **MINE, nodeName=f"a{number}")
        world.pod("new", **MINE, **GATED)
        await world.settle()
        assert pins(world, "new") == ["a2"]


async def test_with_an_extender_each_bind_is_posted_at_once() -> None:
    async with running(*NODES, native_group()) as world:
        for number in range(3):
            world.pod(f"p{number}", schedulingGroup={"podGroupName": "g"}, **GATED)
        await world.settle()
        node = pins(world, "p0")[0]
        assert world.offered("p0") == node
        assert (await world.bind_answer("p0", node), world.bound()) == (None, {"p0": node})
