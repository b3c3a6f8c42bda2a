"""Several control-plane machines, each with a kube-scheduler and a netgang, of both of which one acts.

docs/safety.md S16. A relay in the Service's place leads to whichever netgang has the leader's label.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

import pytest

from lab.testbed.api import Object
from lab.testbed.objects import zone_nodes
from lab.testbed.parts.replicas import Replicas, replicas
from lab.testbed.parts.service import SCHEDULER_CONFIG
from tests.e2e.faults.test_leaders import until_selected
from tests.e2e.objects import GATE
from tests.e2e.stage import Stage, say

MANAGED = GATE
TAKE_OVER_S = 40.0  # netgang's lease (4 s), kube-scheduler's (15 s), and its longest backoff (10 s)


@asynccontextmanager
async def machines(stage: Stage, configuration: str) -> AsyncIterator[Replicas]:
    """Two machines `a` and `b`: a kube-scheduler and a netgang on each, both of `a` leading."""
    settings: dict[str, object] = {"leader_election": "on", "scheduler_names": ["default-scheduler"]}
    if configuration == "managed-resource":
        settings |= {"managed_resource": MANAGED, "hold_limit_s": 8, "commit_timeout_s": 5, "http_timeout_s": 20}
    async with replicas(stage.cluster, settings) as (group, address):
        await group.start("netgang-a")
        await until_selected(group, "netgang-a")
        await group.start("netgang-b")
        for name in ("scheduler-a", "scheduler-b"):
            await stage.start_scheduler(
                SCHEDULER_CONFIG / f"{configuration}.yaml",
                extender=f"http://127.0.0.1:{address.port}",
                name=name,
                leader_election=True,
            )
        yield group


def asks(one: Object, configuration: str) -> Object:
    if configuration == "managed-resource":
        for verb in ("requests", "limits"):
            one["spec"]["containers"][0]["resources"][verb][MANAGED] = "1"
    return one


@pytest.mark.timeout(180)
@pytest.mark.parametrize("configuration", ["default-scheduler", "managed-resource"])
async def test_a_machine_is_lost(stage: Stage, configuration: str) -> None:
    """Its netgang and its kube-scheduler are killed: those of the other start gangs and plain pods as before."""
    await stage.add_nodes(*zone_nodes({"a": 4}, cpu="4"))

    def gang(name: str) -> list[Object]:
        members = stage.gang(name, 3, scheduler="default-scheduler", gated=True)
        return [asks(one, configuration) for one in members]

    async with machines(stage, configuration) as group:
        await stage.api.create_all([*gang("first"), stage.pod("plain-1")])
        await stage.until_bound("first", 3, limit_s=TAKE_OVER_S)
        await stage.until_bound("plain", 1)
        began_s = monotonic()
        for part in ("netgang-a", "scheduler-a"):
            await stage.cluster.parts[part].kill()
        await stage.api.create_all([*gang("second"), stage.pod("plain-2")])
        await until_selected(group, "netgang-b")
        say(f"netgang's take-over: {monotonic() - began_s:.1f} s")
        await stage.until_bound("second", 3, limit_s=TAKE_OVER_S)
        await stage.until_bound("plain", 2)
        say(f"both taken over: {monotonic() - began_s:.1f} s")
