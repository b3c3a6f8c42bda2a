"""Pods of another scheduler stay whatever gang they name, and what is taken away is announced (docs/safety.md S1)."""

from functools import partial

import pytest

from lab.testbed.objects import gang_labels
from tests.e2e.objects import OURS, kind, name_of, not_scheduled
from tests.e2e.stage import Stage, document, metric

SETTINGS = {"partial_timeout_s": 5.0}
LIMIT_S = 60.0  # half a minute of quiet after the start, and twice the time after which a gang in part is evicted


async def half_runs_until_evicted(stage: Stage, name: str) -> None:
    made = await stage.api.create(kind("v1", "ConfigMap", name, stage.namespace))
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": made["metadata"]["uid"], "controller": True}
    labels = gang_labels(name, 2)
    first = stage.pod(f"{name}-0", scheduler=OURS, labels=labels, on="node6")
    first["metadata"]["ownerReferences"] = [owner]
    await stage.api.create_all([first, stage.pod(f"{name}-1", scheduler=OURS, labels=labels, cpu="64")])
    evicted = f"{name}-0 evicted"
    await stage.api.until(stage.bound, lambda found: f"{name}-0" not in found, what=evicted, limit_s=LIMIT_S)


async def noted(stage: Stage, reason: str) -> dict[str, str]:
    kinds = ("Pod", "ConfigMap")
    return {f"{one}/{name}": note for one in kinds for name, note in (await stage.events(reason, kind=one)).items()}


@pytest.mark.timeout(150)
async def test_running_pods_of_another_scheduler_stay(stage: Stage) -> None:
    netgang = await stage.netgang(SETTINGS, on={"a": 6}, cpu="4")
    await stage.cluster.start_scheduler(name="default")
    labels = gang_labels("g", 4)
    await stage.api.create_all([stage.pod(f"g-{i}", labels=labels) for i in range(3)])
    await stage.until_bound("g-", 3)
    before = {name_of(one): one["metadata"]["uid"] for one in await stage.pods()}
    await stage.create_pod("g-3", labels=labels, scheduler="netgang")

    for name in ("one", "two"):  # one more whole `partial_timeout_s`
        await half_runs_until_evicted(stage, name)

    after = {name_of(one): one for one in await stage.pods()}
    assert {name: after[name]["metadata"]["uid"] for name in before} == before
    assert all("deletionTimestamp" not in after[name]["metadata"] for name in before)
    assert "contradict each other" in (not_scheduled(after["g-3"]) or "")
    invalid = await noted(stage, "GangInvalid")
    assert invalid.keys() == {"Pod/g-0", "Pod/g-3"}
    assert all("default-scheduler (g-0), netgang (g-3)" in note for note in invalid.values())
    evicted = await noted(stage, "PodEvicted")
    assert evicted.keys() == {"Pod/one-0", "ConfigMap/one", "Pod/two-0", "ConfigMap/two"}, "pods and their owners"
    assert all("did not become whole in time" in note for note in evicted.values())
    counted = partial(metric, netgang, "netgang_evictions_total")
    await stage.api.until(counted, lambda found: found == 2, what="two evictions counted")
    assert (await document(netgang, "/v1/plan"))["held_binds"] == 0
