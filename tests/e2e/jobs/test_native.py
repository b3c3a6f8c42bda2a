"""Kubernetes' own gangs (`spec.schedulingGroup`, 1.36 behind its gates) beside netgang's second scheduler."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest

from testbed.api import Object
from testbed.cluster import NETGANG_SCHEDULER, Cluster
from testbed.objects import ZONE_LABEL, node, zone_nodes
from testbed.parts.service import SECOND_SCHEDULER, Netgang, install_rights, installed_gates, start_netgang
from tests.e2e.conftest import sweep
from tests.e2e.objects import OURS, gates, kind
from tests.e2e.site import fresh_namespace
from tests.e2e.stage import Stage, filter_calls, metric

pytestmark = pytest.mark.timeout(240)
NATIVE = {"GenericWorkload": True, "GangScheduling": True, "TopologyAwareWorkloadScheduling": True}
API = "scheduling.k8s.io/v1alpha2"


@pytest.fixture(scope="module")
def native_cluster() -> Iterator[Cluster]:
    """A control plane whose API server has the gates and serves Workload and PodGroup."""
    with Cluster() as cluster, asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        server = cluster.parts["kube-apiserver"]
        switched_on = ",".join(f"{gate}=true" for gate in NATIVE)
        server.argv = (*server.argv, f"--feature-gates={switched_on}", f"--runtime-config={API}=true")
        runner.run(cluster.restart("kube-apiserver"))
        runner.run(cluster.restart("kwok"))
        runner.run(cluster.install("podgroup-crd"))
        runner.run(install_rights(cluster))
        yield cluster


@pytest.fixture
async def native(native_cluster: Cluster) -> AsyncIterator[Stage]:
    before = set(native_cluster.parts)
    async with native_cluster.api() as api:
        yield Stage(native_cluster, api, await fresh_namespace(api, "native"))
        for name in [one for one in native_cluster.parts if one not in before]:
            await native_cluster.remove(name)
        await sweep(api, kinds=("Pod", "Node"))  # no controller runs here that takes the PodGroups' finalizer away


async def both(stage: Stage) -> Netgang:
    running = await start_netgang(stage.cluster)
    await stage.cluster.start_scheduler(
        SECOND_SCHEDULER,
        name=NETGANG_SCHEDULER,
        extender=running.url,
        account=NETGANG_SCHEDULER,
        feature_gates={**installed_gates(), **NATIVE},
    )
    return running


async def create_group(stage: Stage, name: str, count: int, *, topology: str = "") -> None:
    """As the Job controller would make them: the API server refuses a PodGroup whose Workload it does not know yet."""
    policy = {"gang": {"minCount": count}}
    how: dict[str, Any] = {"schedulingPolicy": policy}
    if topology:
        how["schedulingConstraints"] = {"topology": [{"key": topology}]}
    reference = {"workload": {"workloadName": name, "podGroupTemplateName": "workers"}}
    workload: dict[str, Any] = {"podGroupTemplates": [{"name": "workers", **how}]}
    for what, spec in (("Workload", workload), ("PodGroup", {"podGroupTemplateRef": reference, **how})):
        await stage.api.create(kind(API, what, name, stage.namespace, spec=spec))


async def create_members(stage: Stage, name: str, count: int, *, first: int = 0, **fields: Any) -> list[Object]:
    pods = [stage.pod(f"{name}-{number}", scheduler=OURS, **fields) for number in range(first, first + count)]
    for one in pods:
        one["spec"]["schedulingGroup"] = {"podGroupName": name}
    return await stage.api.create_all(pods)


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
    await native.add_nodes(*zone_nodes({"a": 2}, cpu="1500m", prefix="more"))
    await native.until_bound("g", 3, limit_s=60.0)
    assert await metric(netgang, "netgang_bindings_total", outcome="bound") == 3.0
    assert await metric(netgang, "netgang_nudges_total") == 0.0


async def test_native_gangs_start_in_one_zone(native: Stage) -> None:
    """Two zones with room for one gang each: without any constraint of its own it does not end up in both."""
    await native.add_nodes(*zone_nodes({"a": 3, "b": 3}, cpu="1500m"))
    await both(native)
    for name in ("g", "h"):
        await create_group(native, name, 3)
        await create_members(native, name, 3)
    for name in ("g", "h"):
        bound = await native.until_bound(name, 3, limit_s=60.0)
        assert len(await native.zones(set(bound.values()))) == 1, bound


async def test_a_topology_constraint_keeps_a_native_gang_in_one_zone(native: Stage) -> None:
    """What docs/how-to/native.md recommends: kube-scheduler itself tries zone by zone, with our filter and scores."""
    await native.add_nodes(*zone_nodes({"a": 2, "b": 3}, cpu="1500m"))
    await both(native)
    await create_group(native, "g", 3, topology=ZONE_LABEL)
    await create_members(native, "g", 3)
    assert await native.zones(set((await native.until_bound("g", 3, limit_s=60.0)).values())) == {"b"}


async def test_later_members_follow_and_gangs_of_ours_run_beside(native: Stage) -> None:
    """A member beyond the minimum goes where the others are; a gang by labels in the same cluster is held as ever."""
    await native.add_nodes(node("a1", zone="a", cpu="4"), node("b1", zone="b", cpu="8"))
    await both(native)
    await create_group(native, "g", 2)
    await create_members(native, "g", 2, node_selector={ZONE_LABEL: "a"})
    await native.until_bound("g", 2, limit_s=60.0)
    await create_members(native, "g", 1, first=2)
    await native.create_gang("ours", 2)
    bound = await native.until_bound("", 5, limit_s=60.0)
    assert bound["g-2"] == "a1"
    assert len({bound["ours-worker-0"], bound["ours-worker-1"]}) == 1
