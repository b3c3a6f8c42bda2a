"""Pods of another scheduler stay whatever gang they name, and what is taken away is announced (docs/safety.md S1).

netgang and its scheduler beside the cluster's own, both real.
"""

from __future__ import annotations

from typing import Any

import pytest

from testbed.api import Object
from testbed.objects import gang_labels, pod, zone_nodes
from tests.e2e.stage import Stage, document, metric, not_scheduled

SETTINGS: dict[str, Any] = {"partial_timeout_s": 5.0}
LIMIT_S = 60.0
"""Half a minute of quiet after the start, and twice the time after which a gang in part is evicted."""


async def half(stage: Stage, name: str) -> Object:
    """A gang of two of ours that stays in part: one is on a node, the other fits nowhere. Its owner."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": stage.namespace}}
    made = await stage.api.create(owner)
    labels = gang_labels(name, 2)
    first = pod(f"{name}-0", namespace=stage.namespace, scheduler="netgang", labels=labels)
    first["spec"]["nodeName"] = "node6"
    first["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": made["metadata"]["uid"], "controller": True}
    ]
    second = pod(f"{name}-1", namespace=stage.namespace, scheduler="netgang", labels=labels, cpu="64")
    await stage.api.create_all([first, second])
    return made


async def told(stage: Stage, reason: str) -> dict[str, str]:
    """Kind/name → what was said of it with this reason."""
    found = await stage.api.list_all("Event", namespace=stage.namespace, fields=f"reason={reason}")
    return {f"{one['involvedObject']['kind']}/{one['involvedObject']['name']}": one["message"] for one in found}


async def until_evicted(stage: Stage, name: str) -> None:
    """Wait until the gang in part is no more on its node."""
    await stage.api.until(
        stage.bound, lambda found: f"{name}-0" not in found, what=f"{name}-0 evicted", limit_s=LIMIT_S
    )


@pytest.mark.e2e_core
@pytest.mark.timeout(150)
async def test_running_pods_of_another_scheduler_stay(stage: Stage) -> None:
    """Of four members three run under default-scheduler; gangs in part of ours are evicted meanwhile, announced."""
    await stage.add_nodes(*zone_nodes({"a": 6}, cpu="4"))
    netgang = await stage.netgang(SETTINGS)
    await stage.start_scheduler(name="default")
    labels = gang_labels("g", 4)
    theirs = [pod(f"g-{i}", namespace=stage.namespace, labels=labels) for i in range(3)]
    await stage.api.create_all(theirs)
    await stage.until_bound("g-", 3)
    before = {one["metadata"]["name"]: one["metadata"]["uid"] for one in await stage.pods()}
    await stage.api.create(pod("g-3", namespace=stage.namespace, labels=labels, scheduler="netgang"))

    await half(stage, "one")
    await until_evicted(stage, "one")
    await half(stage, "two")  # one more whole `partial_timeout_s`
    await until_evicted(stage, "two")

    after = {one["metadata"]["name"]: one for one in await stage.pods()}
    assert {name: after[name]["metadata"]["uid"] for name in before} == before
    assert all("deletionTimestamp" not in after[name]["metadata"] for name in before)
    assert "different schedulers" in (not_scheduled(after["g-3"]) or "")
    invalid = await told(stage, "GangInvalid")
    assert invalid.keys() == {"Pod/g-0", "Pod/g-3"}
    assert all("default-scheduler (g-0), netgang (g-3)" in note for note in invalid.values())
    evicted = await told(stage, "GangEvicted")
    assert evicted.keys() == {f"{kind}/{name}" for kind, name in _announced("one", "two")}
    assert all("did not become whole in time" in note for note in evicted.values())
    await stage.api.until(
        lambda: metric(netgang, "netgang_evictions_total"), lambda found: found == 2, what="two evictions counted"
    )
    assert (await document(netgang, "/v1/plan"))["held_binds"] == 0


def _announced(*gangs: str) -> list[tuple[str, str]]:
    """The pod that went, and its owner, of each gang."""
    return [pair for name in gangs for pair in (("Pod", f"{name}-0"), ("ConfigMap", name))]
