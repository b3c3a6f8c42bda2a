"""Kubernetes' own gangs (`spec.schedulingGroup`, from 1.36 behind its gates) beside netgang's second scheduler."""

from functools import partial

import pytest

from lab.testbed.cluster import NETGANG_SCHEDULER
from lab.testbed.objects import ZONE_LABEL, priority_class, zone_nodes
from lab.testbed.parts.native import served
from lab.testbed.parts.service import SECOND_SCHEDULER, Netgang, start_netgang
from tests.e2e.jobs.native import create_group, create_members
from tests.e2e.objects import gates, not_scheduled
from tests.e2e.stage import Stage, filter_calls, metric

pytestmark = pytest.mark.timeout(240)


async def both(stage: Stage) -> Netgang:
    """As docs/how-to/native.md says: 1.36 tries a group that does not fit without a pause otherwise."""
    running = await start_netgang(stage.cluster)
    calm = {"SchedulerPopFromBackoffQ": False} if stage.cluster.version.startswith("1.36.") else {}
    await stage.cluster.start_scheduler(
        SECOND_SCHEDULER,
        name=NETGANG_SCHEDULER,
        extender=running.url,
        account=NETGANG_SCHEDULER,
        feature_gates={**served(stage.cluster.version)[1], **calm},
    )
    return running


async def test_a_native_gang_starts_whole_and_is_never_gated_or_held(native: Stage) -> None:
    """kube-scheduler waits for all members and for room; netgang filters and scores, and posts each bind at once."""
    await native.add_nodes(*zone_nodes({"a": 2}, cpu="1500m"))
    netgang = await both(native)
    await create_group(native, "g", 3)
    stored = await create_members(native, "g", 3)
    assert all(one["spec"]["schedulingGroup"] == {"podGroupName": "g"} for one in stored), "the gates are off"
    assert [gates(one) for one in stored] == [[], [], []]
    calls = partial(filter_calls, netgang)
    await native.api.until(calls, lambda count: count >= 2, what="two members tried", limit_s=20.0)
    assert await native.bound() == {}
    assert await calls() <= 30, "tries follow each other without a pause"
    await native.add_nodes(*zone_nodes({"a": 2}, cpu="1500m", prefix="more"))
    await native.until_bound("g", 3, limit_s=60.0)
    assert await metric(netgang, "netgang_bindings_total", outcome="bound") == 3.0
    assert await metric(netgang, "netgang_nudges_total") == 0.0


async def test_a_topology_constraint_keeps_a_native_gang_in_one_zone(native: Stage) -> None:
    """What docs/how-to/native.md recommends: kube-scheduler itself tries zone by zone, with our filter and scores."""
    await native.add_nodes(*zone_nodes({"a": 2, "b": 3}, cpu="1500m"))
    await both(native)
    await create_group(native, "g", 3, topology=ZONE_LABEL)
    await create_members(native, "g", 3)
    assert await native.zones(set((await native.until_bound("g", 3, limit_s=60.0)).values())) == {"b"}


async def test_a_native_gang_that_does_not_fit_evicts_no_other_pod(native: Stage) -> None:
    """From 1.37 DefaultPreemption has an extension point for groups: it is off in our scheduler (docs/safety.md S3)."""
    await native.api.apply([priority_class("low", 1), priority_class("high", 1000)])
    await native.add_nodes(*zone_nodes({"a": 2}, cpu="1500m"))
    for number in (1, 2):
        await native.create_pod(f"low-{number}", on=f"node{number}", priority_class="low")
    await both(native)
    await create_group(native, "g", 2, priorityClassName="high")
    await create_members(native, "g", 2, priority_class="high")
    tried = await native.until_pods(lambda found: all(map(not_scheduled, found)), "both tried", begin="g")
    assert [one["status"].get("nominatedNodeName") for one in tried] == [None, None]
    assert len(await native.bound("low")) == 2
