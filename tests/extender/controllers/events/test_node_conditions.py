"""The condition and the taint of nodes with bad links: virtual time, two loops over a cluster in memory."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from extender.cache.cluster import ClusterCache
from extender.controllers.context import ControllerContext
from extender.controllers.events.nodes import MARKED_AT_ONCE, NetworkAlarms, NodeConditions
from extender.convert.nodes import node_from_json
from extender.errors import ApiError, ConflictError
from extender.kube.calls import NODES
from lab.testbed.beside import beside
from scoring.network.node_links import QUIET_S, LinksLook, NodeMark, recalled
from scoring.records import DegradedLinks
from tests.builders import mesh
from tests.extender.controllers.contexts import context_over
from tests.extender.scheduling.world import node_json
from tests.fakes.clock import LoopClock
from tests.fakes.cluster_api import FakeClusterApi

pytestmark = [pytest.mark.looptime, pytest.mark.slow]  # hours of virtual time

NAMES = [f"{zone}{i}" for zone in "abc" for i in range(4)]


class Marking(msgspec.Struct):
    api: FakeClusterApi
    context: ControllerContext

    async def measure(self, *bad: str, for_s: float) -> None:
        """Measure all links once, those of `bad` nodes lossy; and what the watch shows in this time."""
        now_s, version = self.context.clock.now_s(), self.context.cache.snapshot().network.version + 1
        network = mesh(NAMES, bad={name: {"loss_ratio": 0.01} for name in bad}, measured_at_s=now_s)
        self.context.cache.set_network(replace(network, version=version, evaluated_at_s=now_s))
        for _ in range(int(for_s)):
            self.watch()
            await asyncio.sleep(1.0)

    def watch(self) -> None:
        for body in self.api.store.bodies(NODES).values():
            self.context.cache.nodes.put(node_from_json(body))

    def node(self, name: str) -> Any:
        return self.api.store.get(NODES, "", name)

    def condition(self, name: str) -> Mapping[str, str]:
        """The one of ours; empty: none."""
        ours = [one for one in self.node(name)["status"]["conditions"] if one["type"] == "NetworkDegraded"]
        return ours[0] if ours else {}


@asynccontextmanager
async def marking(api: FakeClusterApi | None = None, *, effect: str | None = None) -> AsyncIterator[Marking]:
    """A leader whose term begins."""
    api = api or FakeClusterApi(*(node_json(name, zone=name[0]) for name in NAMES))
    context = context_over(api, ClusterCache(), LoopClock())
    alarms = NetworkAlarms(context)
    async with AsyncExitStack() as stack:
        for work in (alarms.run(), NodeConditions(context, alarms, effect).run(), context.events.run()):
            await stack.enter_async_context(beside(work))
        yield Marking(api, context)


async def test_a_node_gets_the_condition_within_minutes_and_loses_it_an_hour_later() -> None:
    """Written twice in all; and no other node gets one."""
    async with marking() as world:
        await world.measure(for_s=120.0)
        await world.measure("b2", for_s=120.0)
        bad = world.condition("b2")
        assert (bad["status"], bad["reason"]) == ("True", "BadLinks")
        assert bad["message"].startswith("loss up to 1 % (b0 → b2) on 6 of 6 links since 2023-11-14 22:")
        assert [one["note"].partition(".")[0] for one in world.api.events] == [f"Node b2: {bad['message']}"]
        assert world.context.telemetry.registry.get_sample_value("netgang_network_degraded", {"kind": "node"}) == 1.0
        await world.measure(for_s=QUIET_S - 300.0)
        assert world.condition("b2") == bad
        await world.measure(for_s=300.0)
        good = world.condition("b2")
        assert (good["status"], good["reason"], world.api.calls["node_status"]) == ("False", "GoodLinks", 2)
        assert good["lastTransitionTime"] > bad["lastTransitionTime"]
        assert [one["reason"] for one in world.api.events] == ["NetworkDegraded", "NetworkRecovered"]
        assert world.context.telemetry.registry.get_sample_value("netgang_network_degraded", {"kind": "node"}) == 0.0
        assert [name for name in NAMES if world.condition(name)] == ["b2"]


async def test_a_new_leader_knows_by_the_node_what_was_said_and_when() -> None:
    """Its own condition is no evidence for a fault; nor does it begin the hour again."""
    async with marking() as world:
        await world.measure("b2", for_s=120.0)
    async with marking(world.api) as successor:
        await successor.measure(for_s=QUIET_S - 200.0)
        assert successor.condition("b2")["status"] == "True"
        await successor.measure(for_s=200.0)
        assert successor.condition("b2")["status"] == "False"
        assert [one["reason"] for one in world.api.events] == ["NetworkDegraded", "NetworkRecovered"]


async def test_the_taint_follows_the_condition_and_leaves_other_taints() -> None:
    """Also when writes fail, and when another client takes it away."""
    theirs = {"key": "gpu", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
    ours = {"key": "netgang.io/network-degraded", "effect": "NoSchedule"}
    async with marking(effect="NoSchedule") as world:
        world.api.add(node_json("b2", zone="b", taints=[theirs]))
        world.api.fail_next("node_status", ApiError(500, "busy"))
        world.api.fail_next("patch_object", ConflictError(409, "it has changed"))
        await world.measure("b2", for_s=180.0)
        assert (world.node("b2")["spec"]["taints"], world.api.calls["node_status"]) == ([theirs, ours], 2)
        world.api.store.merge_patch(NODES, "", "b2", {"spec": {"taints": [theirs]}})
        await world.measure("b2", for_s=10.0)
        assert world.node("b2")["spec"]["taints"] == [theirs, ours]
        await world.measure(for_s=QUIET_S)
        assert world.node("b2")["spec"]["taints"] == [theirs]
        assert "taints" not in world.node("b1")["spec"]


async def test_few_nodes_are_written_in_one_turn_and_refused_ones_last() -> None:
    async with marking() as world:
        world.watch()
        links = [DegradedLinks("node", name, "loss", 4, 4, 0.1, name, "x") for name in NAMES]
        alarms = NetworkAlarms(world.context)
        alarms.look, alarms.states = (
            LinksLook(tuple(links)),
            {one.about: recalled(NodeMark(True, 0.0), now_s=1.0) for one in links},
        )
        marks, first, more = NodeConditions(world.context, alarms, None), NAMES[0], MARKED_AT_ONCE
        world.api.fail_next("node_status", ApiError(403, "a policy forbids it"))
        for pause_s, count in ((60.0, more - 1), (None, 2 * more - 1), (None, len(NAMES)), (None, len(NAMES))):
            assert await marks.reconcile() == pause_s
            world.watch()
            assert sum(bool(world.condition(name)) for name in NAMES) == count
            assert bool(world.condition(first)) == (count == len(NAMES))
