"""What must hold when things go wrong: no room, a silent API server, priorities in the middle."""

import asyncio

from lab.testbed.objects import priority_class, zone_nodes
from lab.testbed.processes.stages import HOLD
from tests.e2e.stage import Stage, filter_calls, metric


async def test_a_refused_pod_is_quiet_and_quick(stage: Stage) -> None:
    """A gang that does not fit costs ≤ 3 filter calls per pod in 30 quiet seconds, and starts < 3 s after room."""
    nodes = zone_nodes({"a": 2}, cpu="1500m")
    for one in nodes:  # kwok's first heartbeat changes a node's conditions, which is no quiet to kube-scheduler
        one["metadata"]["annotations"] = {HOLD: "node-heartbeat"}
    await stage.add_nodes(*nodes)
    netgang = await stage.netgang()
    await stage.create_pod("x", on="node1")
    await stage.until_pods(lambda pods: pods[0]["status"]["phase"] == "Running", "x runs before the quiet", begin="x")
    await stage.create_gang("g", 2)
    await stage.until_refused(2)
    before, nudged = await filter_calls(netgang), await metric(netgang, "netgang_nudges_total", action="nudge")
    await asyncio.sleep(30.0)  # the promise is about quiet time itself
    calls = await filter_calls(netgang) - before
    nudges = await metric(netgang, "netgang_nudges_total", action="nudge") - nudged
    assert calls <= 2 * 3, f"{before:g} before; {nudges:g} nudges, {await stage.attempts()}"
    await stage.end("x")
    await stage.until_bound("g", 2, limit_s=3.0)


async def test_no_preemption_member_by_member(stage: Stage) -> None:
    """A gang of higher priority against a cluster full of lower ones waits, without evictions (docs/safety.md S3)."""
    await stage.api.apply([priority_class("low", 1), priority_class("high", 1000)])
    await stage.netgang(on={"a": 4})
    await stage.create_gang("low", 4, priority_class="low")
    await stage.until_bound("low", 4)
    await stage.create_gang("high", 2, priority_class="high")
    await stage.until_refused(2)
    assert len(await stage.pods("low")) == 4
    pods = await stage.pods()
    assert not [one for one in pods if "deletionTimestamp" in one["metadata"] or one["status"].get("nominatedNodeName")]
