"""Crashes and outages while a gang is admitted, is held, or is being bound: whole or not started, and it completes.

Rule: a fault hits at a moment that the API server shows (so many gates gone, the first member bound), writes are slowed
down by the setting for it where that moment would be too short, and what must hold is looked at all the time.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from testbed.api import Object
from testbed.cluster import NETGANG, NETGANG_SCHEDULER
from testbed.errors import ApiRefused
from testbed.objects import ZONE_LABEL, gang_pods, pod, zone_nodes
from tests.e2e.gangs.test_gates import OURS, listed_nodes, planned_node, waiting_gang
from tests.e2e.invariants import invariants_hold, until_nothing_is_promised
from tests.e2e.stage import Stage, gates, metric, until_held

core = pytest.mark.e2e_core
pytestmark = pytest.mark.timeout(360, func_only=True)  # an outage, then the longest pauses of those that reconnect
OUTAGE_S = 20.0
API_SERVER = "kube-apiserver"
RETRY_S = 25.0
"""A pod whose bind failed is tried again by kube-scheduler after at most ten seconds."""

SCHEDULER_BACK_S = 150.0
"""kube-scheduler's reflectors pause 0.8 s, doubled per failure up to 30 s, and up to twice that by chance (client-go).

After twenty seconds the pause that is under way ends within half a minute; a new API server that answers it 429 because
it is still reading its storage costs the next one: up to a minute more.
"""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that happens to a part of the cluster, and how it ends."""

    part: str
    freezes: bool = False
    """Connections stay open and nothing answers; otherwise kill -9"""
    outage_s: float = 0.0

    async def strike(self, stage: Stage) -> None:
        """It happens now."""
        part = stage.cluster.parts[self.part]
        if self.freezes:
            part.freeze()
        else:
            await part.kill()

    async def mend(self, stage: Stage) -> None:
        """It is over, after its time."""
        await asyncio.sleep(self.outage_s)
        part = stage.cluster.parts[self.part]
        if self.freezes:
            part.unfreeze()
        else:
            part.start()
        await stage.cluster.until_ready(self.part)
        if self.part == API_SERVER:
            await stage.api.until(lambda: _listed(stage), bool, what="PodGroups served")


async def _listed(stage: Stage) -> bool:
    """A new API server answers 429 for custom resources until it has read them."""
    try:
        await stage.api.list_all("PodGroup")
    except ApiRefused:
        return False
    return True


FAULTS = {
    "netgang killed": Fault(NETGANG),
    "kube-scheduler killed": Fault(NETGANG_SCHEDULER),
    "API server hangs": Fault(API_SERVER, freezes=True, outage_s=OUTAGE_S),
    "API server gone": Fault(API_SERVER, outage_s=OUTAGE_S),
}
every_fault = pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
quick_ones_first = pytest.mark.parametrize(
    "fault", [pytest.param(one, id=name, marks=core if one.part == NETGANG else ()) for name, one in FAULTS.items()]
)


@quick_ones_first
async def test_between_the_third_patch_and_the_fourth(stage: Stage, fault: Fault) -> None:
    """Three to five of eight members are admitted when it happens: all eight are bound, and no promise is left over."""
    await stage.add_nodes(*zone_nodes({"a": 10, "b": 2}, cpu="1500m"))
    netgang = await stage.netgang({"writes_per_s": 4.0})
    async with invariants_hold(stage.api, netgang, stage.namespace, commit_s=RETRY_S, grace_s=10.0):
        await stage.api.create_all(waiting_gang(stage, "g", 8))
        let_in = [one for one in await stage.until_let_in("g", 3) if not gates(one)]
        assert len(let_in) <= 5, "the test came too late"
        await fault.strike(stage)
        await fault.mend(stage)
        await stage.until_let_in("g", 8, limit_s=45.0)  # this much is netgang's own doing
        bound = await stage.until_bound("g", 8, limit_s=SCHEDULER_BACK_S)
        pods = await stage.pods()
        assert all(bound[one["metadata"]["name"]] in listed_nodes(one) for one in pods)
        await until_nothing_is_promised(stage.api, netgang)
    assert await metric(netgang, "netgang_bindings_total", outcome="conflict") == 0


async def test_netgang_is_killed_while_it_lets_a_gang_in_and_its_nodes_die(stage: Stage) -> None:
    """Two planned nodes are gone when it is back: what was promised still holds where it can, the rest is planned."""
    await stage.add_nodes(*zone_nodes({"a": 10, "b": 2}, cpu="1500m"))
    netgang = await stage.netgang({"writes_per_s": 4.0})
    async with invariants_hold(stage.api, netgang, stage.namespace, commit_s=RETRY_S):
        await stage.api.create_all(waiting_gang(stage, "g", 8))
        let_in = [one for one in await stage.until_let_in("g", 3) if not gates(one)]
        assert len(let_in) <= 5, "the test came too late"
        await netgang.part.kill()
        dead = {planned_node(one) for one in let_in[:2]}
        for name in dead:
            await stage.api.delete("Node", name)
        netgang.part.start()
        await stage.cluster.until_ready(netgang.part.name)
        bound = await stage.until_bound("g", 8, limit_s=60.0)
        assert not set(bound.values()) & dead
        await until_nothing_is_promised(stage.api, netgang)


async def test_netgang_is_killed_while_it_lets_a_gang_in_and_its_room_is_taken(stage: Stage) -> None:
    """While it was away others took the room: the gang stays whole in waiting, and starts when there is room again."""
    await stage.add_nodes(*zone_nodes({"a": 8}, cpu="1500m"))
    netgang = await stage.netgang({"writes_per_s": 4.0, "admit_timeout_s": 5.0})
    async with invariants_hold(stage.api, netgang, stage.namespace, commit_s=RETRY_S):
        await stage.api.create_all(waiting_gang(stage, "g", 8))
        let_in = [one for one in await stage.until_let_in("g", 3) if not gates(one)]
        assert len(let_in) <= 5, "the test came too late"
        await netgang.part.kill()
        thief = pod("thief", namespace=stage.namespace)
        thief["spec"]["nodeName"] = planned_node(let_in[0])
        await stage.api.create(thief)
        netgang.part.start()
        await stage.cluster.until_ready(netgang.part.name)
        await until_nothing_is_promised(stage.api, netgang, limit_s=30.0)
        assert await stage.bound("g") == {}
        await stage.end("thief")
        await stage.until_bound("g", 8, limit_s=60.0)
        await until_nothing_is_promised(stage.api, netgang)


def held_gang(stage: Stage, size: int) -> list[Object]:
    """A gang without gates whose last member comes to bind only when a pod labelled `anchor` runs in the zone."""
    members = gang_pods("g", size, min_available=size, namespace=stage.namespace, scheduler=OURS)
    term = {"labelSelector": {"matchLabels": {"anchor": "yes"}}, "topologyKey": ZONE_LABEL}
    members[-1]["spec"]["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return members


@every_fault
async def test_while_binds_are_held(stage: Stage, fault: Fault) -> None:
    """Nine of ten are at bind when it happens: nobody is bound before the tenth comes, then everybody, and once."""
    await stage.add_nodes(*zone_nodes({"a": 11}, cpu="1500m"))
    netgang = await stage.netgang(
        {"hold_limit_s": 44.0, "commit_timeout_s": 7.0}
    )  # an outage does not outlast it, kube-scheduler's pause may
    async with invariants_hold(stage.api, netgang, stage.namespace, commit_s=RETRY_S, grace_s=10.0):
        await stage.api.create_all(held_gang(stage, 10))
        await until_held(stage, netgang, 9)
        await fault.strike(stage)
        await fault.mend(stage)
        assert await stage.bound() == {}
        anchor = pod("anchor", namespace=stage.namespace, labels={"anchor": "yes"}, cpu="100m")
        anchor["spec"]["nodeName"] = "node11"
        await stage.api.create(anchor)
        await stage.until_bound("g", 10, limit_s=SCHEDULER_BACK_S)
        await until_nothing_is_promised(stage.api, netgang)
    assert await metric(netgang, "netgang_bindings_total", outcome="conflict") == 0


@every_fault
async def test_in_the_middle_of_a_commit(stage: Stage, fault: Fault) -> None:
    """Some of sixty members are bound when it happens: the others follow, and nobody is bound to a second node."""
    await stage.add_nodes(*zone_nodes({"a": 20}, cpu="3500m"))
    netgang = await stage.netgang()
    async with invariants_hold(stage.api, netgang, stage.namespace, commit_s=RETRY_S, grace_s=10.0):
        seen = asyncio.create_task(_first_binding(stage))
        members = gang_pods("g", 60, min_available=60, namespace=stage.namespace, scheduler=OURS)
        await stage.api.create_all(members)
        await seen
        await fault.strike(stage)
        if fault.part == NETGANG:
            there = len(await stage.bound())
            assert 0 < there < 60, "it was not killed in the middle"
        await fault.mend(stage)
        await stage.until_bound("g", 60, limit_s=SCHEDULER_BACK_S)
        await until_nothing_is_promised(stage.api, netgang)


async def _first_binding(stage: Stage) -> str:
    """The first member that gets a node, as soon as the watch shows it."""
    async for _, one in stage.api.watch("Pod", namespace=stage.namespace):
        if one["spec"].get("nodeName"):
            return str(one["metadata"]["name"])
    raise AssertionError("the watch ended before anybody was bound")
