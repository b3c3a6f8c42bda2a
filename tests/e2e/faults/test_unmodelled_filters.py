"""Filters of kube-scheduler's own that netgang does not model close most nodes to a gang (docs/safety.md S27).

kube-scheduler and the Job controller are real. Nothing is removed in the first half minute of a process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from testbed.api import Api, Object
from testbed.cluster import Cluster
from testbed.objects import GROUP_NAME_LABEL, gang_pods, pod, zone_nodes
from tests.e2e.objects import indexed_job
from tests.e2e.site import LIMIT_S, Site, controlled_site
from tests.e2e.stage import Stage, document

OURS = "netgang"
GATE = "netgang.io/gang"
CLOSED, OPEN = 6, 2
SETTINGS: dict[str, Any] = {"repin_timeout_s": 5, "exclusion_ttl_s": 20}


@pytest.fixture
async def site(controlled_cluster: Cluster, controlled_api: Api) -> AsyncIterator[Site]:
    """Eight nodes with room for one member each."""
    nodes = zone_nodes({"a": CLOSED + OPEN}, cpu="1500m", prefix="n")
    async with controlled_site(controlled_cluster, controlled_api, "closed", nodes=nodes, settings=SETTINGS) as made:
        yield made


@pytest.mark.timeout(200)
async def test_anti_affinity_of_others_costs_the_job_nothing(site: Site) -> None:
    """Pods on six of eight nodes want no member beside them.

    A gang of two ends on the two open nodes; one of four waits, and runs when those pods go. No Job counts a failure.
    """
    for number in range(1, CLOSED + 1):
        await site.api.create(_blocker(site.namespace, number))
    await site.api.create(indexed_job("train", site.namespace, 2, backoff_limit=1))
    there = await site.until_running("train", 2)
    assert set(there.values()) == {"n7", "n8"}
    await _assert_spared(site, "train")

    await site.api.create(indexed_job("later", site.namespace, 4, backoff_limit=1))
    await site.api.until(
        lambda: site.events("GangWaiting"),
        lambda found: any(name.startswith("later-") for name in found),
        what="an Event that says why it waits",
        limit_s=LIMIT_S,
    )
    await _assert_spared(site, "later")
    assert await site.running("later") == {}
    for number in range(1, CLOSED + 1):
        await site.api.delete("Pod", f"blocker-{number}", namespace=site.namespace, grace_s=0)
    await site.until_running("later", 4)
    await _assert_spared(site, "later")


async def test_devices_that_netgang_cannot_count(stage: Stage) -> None:
    """A DeviceClass provides what no node's allocatable has: not impossible, but waiting for devices, by its zone."""
    await stage.add_nodes(*zone_nodes({"a": 2}))
    netgang = await stage.netgang()
    await stage.api.create(
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "cards"}, "spec": {}}
    )
    try:
        for name, resource in (("never", "example.com/card"), ("cards", "deviceclass.resource.kubernetes.io/cards")):
            members = gang_pods(name, 2, min_available=2, namespace=stage.namespace, scheduler=OURS, gates=[GATE])
            for one in members:
                [container] = one["spec"]["containers"]
                for part in ("requests", "limits"):
                    container["resources"][part][resource] = "1"
            await stage.api.create_all(members)
        for name, reason in (("never", "IMPOSSIBLE"), ("cards", "DEVICES")):

            async def explained(gang: str = name) -> Object:
                return await document(netgang, f"/v1/explain/{stage.namespace}/{gang}")

            await stage.api.until(explained, lambda one, code=reason: one["code"] == code, what=f"{name}: {reason}")
        for one in await stage.until_let_in("cards", 2):
            required = one["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            assert all("matchFields" not in term for term in required["nodeSelectorTerms"])
    finally:
        await stage.api.delete("DeviceClass", "cards")


async def _assert_spared(site: Site, job: str) -> None:
    """The Job has counted no failure, and goes on."""
    found: Object = await site.api.get("Job", job, namespace=site.namespace)
    assert found["status"].get("failed", 0) == 0
    assert not any(one["type"] == "Failed" for one in found["status"].get("conditions", []))


def _blocker(namespace: str, number: int) -> Object:
    """A pod on node `number` that wants no member of a gang beside it; it takes next to nothing."""
    made = pod(f"blocker-{number}", namespace=namespace, cpu="10m")
    made["spec"]["nodeName"] = f"n{number}"
    terms = [
        {
            "labelSelector": {"matchExpressions": [{"key": GROUP_NAME_LABEL, "operator": "Exists"}]},
            "topologyKey": "kubernetes.io/hostname",
        }
    ]
    made["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return made
