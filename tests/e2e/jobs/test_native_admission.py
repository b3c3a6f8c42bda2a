"""Kubernetes' own gangs (`spec.schedulingGroup`), with netgang's gate and without; kube-scheduler starts them whole."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from extender.ports import SystemClock
from lab.testbed.api import Object
from lab.testbed.cluster import NETGANG_SCHEDULER
from lab.testbed.objects import ZONE_LABEL, gang_labels, priority_class, zone_nodes
from lab.testbed.parts.installed import installed_settings
from lab.testbed.parts.native import in_group, native_group, served
from lab.testbed.parts.service import SECOND_SCHEDULER, Netgang, start_netgang
from tests.e2e.invariants import invariants_hold, until_nothing_is_promised
from tests.e2e.objects import GATE, OURS, indexed_job, not_scheduled, planned_node
from tests.e2e.stage import Stage, metric
from tests.fakes.maddash_server import MaddashServer, full_mesh

pytestmark = pytest.mark.timeout(240)
SETTINGS: Mapping[str, Any] = {
    key: value for key, value in installed_settings("native").items() if key in ("scheduler_names", "extender")
}
STOCK = "default-scheduler"
ROUNDS = 6


async def create_group(stage: Stage, name: str, count: int, **more: Any) -> None:
    for one in native_group(name, count, version=stage.cluster.version, namespace=stage.namespace, **more):
        await stage.api.create(one)


async def create_members(stage: Stage, name: str, count: int, **fields: Any) -> list[Object]:
    fields = {"scheduler": OURS, **fields}
    return await stage.api.create_all(in_group(stage.pod(f"{name}-{i}", **fields), name) for i in range(count))


@asynccontextmanager
async def alone(stage: Stage, **settings: Any) -> AsyncIterator[Netgang]:
    running = await start_netgang(stage.cluster, {**SETTINGS, **settings})
    await stage.cluster.start_scheduler(feature_gates=served(stage.cluster.version)[1])
    yield running


async def create_gang(stage: Stage, name: str, size: int) -> None:
    await create_group(stage, name, size)
    await create_members(stage, name, size, scheduler=STOCK, gates=[GATE], labels=gang_labels(name, size))


async def test_a_gang_starts_whole_in_the_zone_with_the_better_network(native: Stage) -> None:
    nodes = zone_nodes({"a": 4, "b": 4}, cpu="2500m")
    await native.add_nodes(*nodes)
    names = [one["metadata"]["name"] for one in nodes]
    slow = [one["metadata"]["name"] for one in nodes if one["metadata"]["labels"][ZONE_LABEL] == "a"]
    with MaddashServer(full_mesh(*names), checked_at_s=SystemClock().now_s) as maddash:
        for one in slow:
            for other in set(slow) - {one}:
                maddash.mesh.change(one, other, delay_ms=40.0, throughput_bps=5e7)
        source = {"kind": "maddash", "url": maddash.url, "interval_s": 1.0}
        async with alone(native, network={"sources": [source]}) as netgang:
            await native.create_pod("plain", cpu="100m")
            await create_gang(native, "g", 8)
            bound = await native.until_bound("g-", 8)
            await native.until_bound("plain", 1)
            pods = await native.pods("g-")
            assert await native.zones(set(bound.values())) == {"b"}
            assert {one["metadata"]["name"]: planned_node(one) for one in pods} == bound
            assert await metric(netgang, "netgang_bindings_total") == 0.0
            await until_nothing_is_promised(native.api, netgang)


async def test_two_gangs_for_the_room_of_one_never_start_in_part(native: Stage) -> None:
    await native.add_nodes(*zone_nodes({"a": 2}, cpu="2500m"))
    async with alone(native) as netgang:
        async with invariants_hold(native.api, netgang, native.namespace, scheduler=STOCK, commit_s=1.0) as checker:
            for number in range(ROUNDS):
                await asyncio.gather(*(create_gang(native, f"r{number}{letter}", 4) for letter in "xy"))
                first = await native.until_bound(f"r{number}", 4)
                assert len({name.partition("-")[0] for name in first}) == 1, first
                await native.end(*first)
                await native.end(*await native.until_bound(f"r{number}", 4))
        assert checker.looks > ROUNDS


async def test_a_job_that_makes_its_own_group_is_admitted_and_its_successors_too(native_jobs: Stage) -> None:
    """WorkloadWithJob: the Job controller makes Workload and PodGroup and links the pods; the template has the gate."""
    await native_jobs.add_nodes(*zone_nodes({"a": 2, "b": 2}, cpu="2500m"))
    async with alone(native_jobs):
        job = indexed_job("j", native_jobs.namespace, 4, ends_after="1s")
        job["spec"]["template"]["spec"]["schedulerName"] = STOCK
        if not native_jobs.cluster.version.startswith("1.36"):  # which makes a group of every indexed Job
            job["spec"]["scheduling"] = {"schedulingPolicy": {"gang": {"minCount": 4}}}
        await native_jobs.api.create(job)
        first = await native_jobs.until_running("j", 4)
        [pod, *_] = await native_jobs.pods("j-")
        assert pod["spec"]["schedulingGroup"]["podGroupName"]
        assert len(await native_jobs.zones(set(first.values()))) == 1
        gone = pod["metadata"]["uid"]
        await native_jobs.api.delete("Pod", pod["metadata"]["name"], namespace=native_jobs.namespace)
        again = await native_jobs.until_running("j", 4, without=frozenset({gone}))
        assert await native_jobs.zones(set(again.values())) == await native_jobs.zones(set(first.values()))


async def both(stage: Stage) -> Netgang:
    """As docs/how-to/gates-and-schedulers.md says: 1.36 tries a group that does not fit without a pause otherwise."""
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


async def test_a_topology_constraint_keeps_a_native_gang_in_one_zone(native: Stage) -> None:
    """kube-scheduler itself tries zone by zone, with our filter and scores (docs/how-to/gates-and-schedulers.md)."""
    await native.add_nodes(*zone_nodes({"a": 2, "b": 3}, cpu="1500m"))
    await both(native)
    await create_group(native, "g", 3, schedulingConstraints={"topology": [{"key": ZONE_LABEL}]})
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
