"""Crashes and outages while a gang is admitted, is held, or is being bound: whole or not started, and it completes.

Rule: a fault hits at a moment that the API server shows (so many gates gone, the first member bound), writes are slowed
down by the setting for it where that moment would be too short, and what must hold is looked at all the time.
"""

import asyncio

import msgspec
import pytest

from lab.testbed.cluster import NETGANG
from tests.e2e.gangs.test_gates import SLOW, starts_at_last, until_some_admitted
from tests.e2e.invariants import invariants_hold, until_nothing_is_promised
from tests.e2e.stage import Stage, metric

pytestmark = pytest.mark.timeout(360, func_only=True)  # an outage, then the longest pauses of those that reconnect
RETRY_S = 25.0  # a pod whose bind failed is tried again by kube-scheduler after at most ten seconds

SCHEDULER_BACK_S = 150.0
"""kube-scheduler's reflectors pause 0.8 s, doubled per failure up to 30 s, and up to twice that by chance (client-go).

After twenty seconds the pause that is under way ends within half a minute; a new API server that answers it 429 because
it is still reading its storage costs the next one: up to a minute more.
"""


class Fault(msgspec.Struct, frozen=True):
    """A part of the cluster is killed (-9), or `freezes`: connections stay open without answers; and how it ends."""

    part: str
    freezes: bool = False
    outage_s: float = 0.0

    async def strike(self, stage: Stage) -> None:
        part = stage.cluster.parts[self.part]
        if self.freezes:
            part.freeze()
        else:
            await part.kill()

    async def mend(self, stage: Stage) -> None:
        await asyncio.sleep(self.outage_s)
        part = stage.cluster.parts[self.part]
        if self.freezes:
            part.unfreeze()
        else:
            part.start()
        await stage.cluster.until_ready(self.part)


FAULTS = {"netgang killed": Fault(NETGANG), "API server hangs": Fault("kube-apiserver", freezes=True, outage_s=20.0)}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_between_the_third_patch_and_the_fourth(stage: Stage, fault: Fault) -> None:
    netgang = await stage.netgang(SLOW, on={"a": 10, "b": 2})
    async with invariants_hold(stage.api, netgang, stage.namespace, commit_s=RETRY_S, grace_s=10.0):
        await stage.create_gang("g", 8, gated=True)
        await until_some_admitted(stage, "g")
        await fault.strike(stage)
        await fault.mend(stage)
        await stage.until_admitted("g", 8, limit_s=45.0)  # this much is netgang's own doing
        await starts_at_last(stage, netgang, 8, limit_s=SCHEDULER_BACK_S)
    assert await metric(netgang, "netgang_bindings_total", outcome="conflict") == 0


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_while_binds_are_held(stage: Stage, fault: Fault) -> None:
    times = {"hold_limit_s": 44.0, "commit_timeout_s": 7.0, "http_timeout_s": 67.0}  # an outage is shorter
    netgang = await stage.netgang(times, on={"a": 11})
    async with invariants_hold(stage.api, netgang, stage.namespace, commit_s=RETRY_S, grace_s=10.0):
        await stage.create_held_gang(netgang, "g", 10)
        assert await stage.bound() == {}
        await fault.strike(stage)
        await fault.mend(stage)
        assert await stage.bound() == {}
        await stage.create_anchor("node11")
        await stage.until_bound("g", 10, limit_s=SCHEDULER_BACK_S)
        await until_nothing_is_promised(stage.api, netgang)
    assert await metric(netgang, "netgang_bindings_total", outcome="bound") == 10
    assert await metric(netgang, "netgang_bindings_total", outcome="conflict") == 0


async def test_in_the_middle_of_a_commit(stage: Stage) -> None:
    netgang = await stage.netgang(on={"a": 50}, cpu="3500m")
    async with invariants_hold(stage.api, netgang, stage.namespace, commit_s=RETRY_S, grace_s=10.0):
        creating = asyncio.create_task(stage.create_gang("g", 150))
        async for _, one in stage.api.watch("Pod", namespace=stage.namespace):
            if one["spec"].get("nodeName"):
                break
        await FAULTS["netgang killed"].strike(stage)
        assert 0 < len(await stage.bound()) < 150, "it was not killed in the middle"
        await FAULTS["netgang killed"].mend(stage)
        await creating
        await stage.until_bound("g", 150, limit_s=SCHEDULER_BACK_S)
        await until_nothing_is_promised(stage.api, netgang)
