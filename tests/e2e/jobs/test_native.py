"""Kubernetes' own gangs (`spec.schedulingGroup`, 1.36 behind its gates) beside netgang's second scheduler.

Why a control plane of its own: the gates change the API server, and the other tests must not have them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from testbed.api import Api, Object
from testbed.cluster import NETGANG_SCHEDULER, Cluster
from testbed.objects import gang_pods, namespace, node, pod, zone_nodes
from testbed.parts.service import SECOND_SCHEDULER, Netgang, install_rights, installed_gates, start_netgang
from tests.e2e.stage import filter_calls, gates, metric

OURS = "netgang"
NATIVE = {"GenericWorkload": True, "GangScheduling": True, "TopologyAwareWorkloadScheduling": True}
API = "scheduling.k8s.io/v1alpha2"
ZONE = "topology.kubernetes.io/zone"


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
async def native_api(native_cluster: Cluster) -> AsyncIterator[Api]:
    """The administrator's client; afterwards nothing of the test is left."""
    before = set(native_cluster.parts)
    async with native_cluster.api() as api:
        yield api
        for name in [one for one in native_cluster.parts if one not in before]:
            await native_cluster.remove(name)
        # Native PodGroups stay: the controller that takes their finalizer away does not run here.
        for where in {one["metadata"]["namespace"] for one in await api.list_all("Pod")}:
            await api.delete_all("Pod", namespace=where, grace_s=0)
        await api.delete_all("Node")
        for kind in ("Pod", "Node"):
            await api.until(partial(api.list_all, kind), lambda found: not found, what=f"no {kind} left")


async def both(cluster: Cluster) -> Netgang:
    """Netgang, and its kube-scheduler as installed plus the gates."""
    running = await start_netgang(cluster)
    await cluster.start_scheduler(
        SECOND_SCHEDULER,
        name=NETGANG_SCHEDULER,
        extender=running.url,
        account=NETGANG_SCHEDULER,
        feature_gates={**installed_gates(), **NATIVE},
    )
    return running


async def own_namespace(api: Api) -> str:
    """A fresh one."""
    name = f"native-{uuid4().hex[:6]}"
    await api.create(namespace(name))
    return name


def group(name: str, count: int, where: str, *, topology: str = "") -> list[Object]:
    """A Workload with one template, and its PodGroup, as the Job controller would make them."""
    policy = {"gang": {"minCount": count}}
    constraints: dict[str, Any] = {"schedulingConstraints": {"topology": [{"key": topology}]}} if topology else {}
    metadata = {"name": name, "namespace": where}
    template = {"name": "workers", "schedulingPolicy": policy, **constraints}
    reference = {"workload": {"workloadName": name, "podGroupTemplateName": "workers"}}
    spec = {"podGroupTemplateRef": reference, "schedulingPolicy": policy, **constraints}
    return [
        {"apiVersion": API, "kind": "Workload", "metadata": metadata, "spec": {"podGroupTemplates": [template]}},
        {"apiVersion": API, "kind": "PodGroup", "metadata": metadata, "spec": spec},
    ]


async def create_group(api: Api, name: str, count: int, where: str, **how: str) -> None:
    """One after the other: the API server refuses a PodGroup whose Workload it does not know yet."""
    for one in group(name, count, where, **how):
        await api.create(one)


def members(name: str, count: int, where: str, *, first: int = 0, **fields: Any) -> list[Object]:
    """Pods of a native group: no label and no annotation of ours."""
    pods = [
        pod(f"{name}-{number}", namespace=where, scheduler=OURS, **fields) for number in range(first, first + count)
    ]
    for one in pods:
        one["spec"]["schedulingGroup"] = {"podGroupName": name}
    return pods


async def zones_of(api: Api, bound: dict[str, str]) -> set[str]:
    """Zones of the nodes that the pods are on."""
    zone = {one["metadata"]["name"]: one["metadata"]["labels"].get(ZONE, "") for one in await api.list_all("Node")}
    return {zone[where] for where in bound.values()}


@pytest.mark.timeout(240)
async def test_a_native_gang_starts_whole_and_is_never_gated_or_held(native_cluster: Cluster, native_api: Api) -> None:
    """kube-scheduler waits for all members and for room; netgang filters and scores, and posts each bind at once."""
    where = await own_namespace(native_api)
    await native_cluster.add_nodes(zone_nodes({"a": 2}, cpu="1500m"))
    netgang = await both(native_cluster)
    await create_group(native_api, "g", 3, where)
    stored = await native_api.create_all(members("g", 3, where))
    assert all(one["spec"]["schedulingGroup"] == {"podGroupName": "g"} for one in stored), "the gates are off"
    assert [gates(one) for one in stored] == [[], [], []]
    await native_api.until(
        lambda: filter_calls(netgang), lambda calls: calls >= 2, what="two members tried", limit_s=20.0
    )
    assert await native_api.bound(where) == {}
    await native_cluster.add_nodes(zone_nodes({"a": 2}, cpu="1500m", prefix="more"))
    await native_api.until_bound(where, 3, limit_s=60.0)
    assert await metric(netgang, "netgang_bindings_total", outcome="bound") == 3.0
    assert await metric(netgang, "netgang_nudges_total") == 0.0


@pytest.mark.timeout(240)
async def test_a_native_gang_starts_in_one_zone(native_cluster: Cluster, native_api: Api) -> None:
    """Two zones with room for it: without any constraint of its own it does not end up in both."""
    where = await own_namespace(native_api)
    await native_cluster.add_nodes(zone_nodes({"a": 3, "b": 3}, cpu="1500m"))
    await both(native_cluster)
    for name in ("g", "h"):
        await create_group(native_api, name, 3, where)
        await native_api.create_all(members(name, 3, where))
    bound = await native_api.until_bound(where, 6, limit_s=60.0)
    for name in ("g", "h"):
        mine = {one: node for one, node in bound.items() if one.startswith(name)}
        assert len(await zones_of(native_api, mine)) == 1, mine


@pytest.mark.timeout(240)
async def test_a_topology_constraint_keeps_a_native_gang_in_one_zone(native_cluster: Cluster, native_api: Api) -> None:
    """What docs/how-to/native.md recommends: kube-scheduler itself tries zone by zone, with our filter and scores."""
    where = await own_namespace(native_api)
    await native_cluster.add_nodes(zone_nodes({"a": 2, "b": 3}, cpu="1500m"))
    await both(native_cluster)
    await create_group(native_api, "g", 3, where, topology=ZONE)
    await native_api.create_all(members("g", 3, where))
    bound = await native_api.until_bound(where, 3, limit_s=60.0)
    assert await zones_of(native_api, bound) == {"b"}


@pytest.mark.timeout(240)
async def test_later_members_follow_and_gangs_of_ours_run_beside(native_cluster: Cluster, native_api: Api) -> None:
    """A member beyond the minimum goes where the others are; a gang by labels in the same cluster is held as ever."""
    where = await own_namespace(native_api)
    await native_cluster.add_nodes([node("a1", zone="a", cpu="4"), node("b1", zone="b", cpu="8")])
    await both(native_cluster)
    await create_group(native_api, "g", 2, where)
    await native_api.create_all(members("g", 2, where, node_selector={ZONE: "a"}))
    await native_api.until_bound(where, 2, limit_s=60.0)
    await native_api.create_all(members("g", 1, where, first=2))
    await native_api.create_all(gang_pods("ours", 2, min_available=2, namespace=where, scheduler=OURS))
    bound = await native_api.until_bound(where, 5, limit_s=60.0)
    assert bound["g-2"] == "a1"
    assert len({bound["ours-worker-0"], bound["ours-worker-1"]}) == 1
