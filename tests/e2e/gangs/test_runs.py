"""One gang name, several runs; commits that are stopped; gangs bound in part (docs/safety.md S23, S24).

netgang and its scheduler are real; what a Job's controller does to pods the tests do themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from testbed.api import Object
from testbed.objects import gang_labels, pod, zone_nodes
from tests.e2e.stage import Stage, document, until_held

OURS = "netgang"
PARTIAL: dict[str, Any] = {"partial_timeout_s": 5.0}
NO_ZONE = "netgang: no zone has room for the whole gang now"
LIMIT_S = 60.0
"""Half a minute of quiet after the start, and then the time after which a gang in part is evicted."""


def job_pods(stage: Stage, job: str, count: int) -> list[Object]:
    """Pods of an Indexed Job, all in gang g."""
    found = []
    for index in map(str, range(count)):
        labels = {
            **gang_labels("g", count),
            "batch.kubernetes.io/job-name": job,
            "batch.kubernetes.io/controller-uid": f"uid-{job}",
            "batch.kubernetes.io/job-completion-index": index,
        }
        one = pod(f"{job}-{index}", namespace=stage.namespace, scheduler=OURS, labels=labels)
        one["metadata"]["ownerReferences"] = [
            {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-{job}", "controller": True}
        ]
        found.append(one)
    return found


async def end_well(stage: Stage, names: Sequence[str]) -> None:
    """The pods have done their work, and stay."""
    for name in names:
        await stage.api.patch(
            "Pod", name, {"status": {"phase": "Succeeded"}}, namespace=stage.namespace, subresource="status"
        )


async def occupy(stage: Stage, *nodes: str) -> list[str]:
    """Fill these nodes with pods of others; the pods' names."""
    strangers = [pod(f"on-{node}", namespace=stage.namespace) for node in nodes]
    for one, node in zip(strangers, nodes, strict=True):
        one["spec"]["nodeName"] = node
    return [one["metadata"]["name"] for one in await stage.api.create_all(strangers)]


@pytest.mark.e2e_core
async def test_each_run_starts_whole(stage: Stage) -> None:
    """A CronJob's Jobs under one gang name: each finds its own quorum, and one waits while another lives.

    The first run of three is done and its pods stay; there is room for one pod, and none of the second run is bound.
    """
    await stage.add_nodes(*zone_nodes({"a": 3}, cpu="1500m"))
    netgang = await stage.netgang()
    await stage.api.create_all(job_pods(stage, "night-1", 3))
    strangers = await occupy_as_it_ends(stage, await stage.until_bound("night-1", 3))
    await stage.api.create_all(job_pods(stage, "night-2", 3))
    await stage.until_refused(2)
    assert await stage.bound("night-2") == {}
    await stage.end(*strangers)
    second = await stage.until_bound("night-2", 3)
    assert len(set(second.values())) == 3

    await stage.api.create_all(job_pods(stage, "night-3", 3))
    told = await stage.api.until(
        lambda: stage.api.list_all("Event", namespace=stage.namespace, fields="reason=GangRunWaits"),
        bool,
        what="the third run told",
    )
    assert [one["involvedObject"]["name"] for one in told] == ["night-3-0"]
    assert "is run by Job night-2; the pods of Job night-3 wait" in told[0]["message"]
    found = await document(netgang, f"/v1/explain/{stage.namespace}/g")
    assert [one["text"] for one in found["notes"] if one["about"] == "other run"] == [told[0]["message"]]
    await end_well(stage, sorted(second))
    await stage.until_bound("night-3", 3)


async def occupy_as_it_ends(stage: Stage, bound: dict[str, str]) -> list[str]:
    """All but the room of one pod is taken by others in the moment in which it becomes free."""
    names = sorted(bound)
    taken: list[str] = []
    for name in names[:-1]:
        await end_well(stage, [name])
        taken += await occupy(stage, bound[name])
    await end_well(stage, names[-1:])
    return taken


async def test_a_gang_that_becomes_invalid_is_not_committed(stage: Stage) -> None:
    """Two of three are held; one of them now names a minimum of two, which contradicts the others: none is bound."""
    await stage.add_nodes(*zone_nodes({"a": 3}, cpu="1500m"))
    netgang = await stage.netgang()
    members = [
        pod(f"g-{index}", namespace=stage.namespace, scheduler=OURS, labels=gang_labels("g", 3)) for index in range(3)
    ]
    term = {"labelSelector": {"matchLabels": {"anchor": "yes"}}, "topologyKey": "topology.kubernetes.io/zone"}
    members[2]["spec"]["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    await stage.api.create_all(members)
    await until_held(stage, netgang, 2)
    minimum = {"pod-group.scheduling.sigs.k8s.io/min-available": "2"}
    await stage.api.patch("Pod", "g-0", {"metadata": {"labels": minimum}}, namespace=stage.namespace)
    await until_held(stage, netgang, 0)
    await stage.api.until(
        lambda: stage.api.list_all("Event", namespace=stage.namespace, fields="reason=GangInvalid"),
        bool,
        what="its owner told",
    )
    assert await stage.bound() == {}


async def test_a_gang_bound_in_part_goes_though_a_successor_came(stage: Stage) -> None:
    """Two of three are bound, and the third is created seconds later without room: it never started, and is evicted.

    One that had started stays: its lost member's successor has no room either, also for a netgang that begins then.
    """
    await stage.add_nodes(*zone_nodes({"a": 6}, cpu="1500m"))
    netgang = await stage.netgang(PARTIAL)
    whole = [
        pod(f"w-{index}", namespace=stage.namespace, scheduler=OURS, labels=gang_labels("w", 3)) for index in range(3)
    ]
    await stage.api.create_all(whole)
    started = await stage.until_bound("w-", 3)
    uids = {one["metadata"]["name"]: one["metadata"]["uid"] for one in await stage.pods()}
    await stage.api.until(
        stage.pods,
        lambda found: all("netgang.io/started" in one["metadata"].get("annotations", {}) for one in found),
        what="its start noted",
    )
    free = sorted({f"node{number}" for number in range(1, 7)} - set(started.values()))
    part = [
        pod(f"p-{index}", namespace=stage.namespace, scheduler=OURS, labels=gang_labels("p", 3)) for index in range(3)
    ]
    await stage.api.create_all(part[:2])
    for one, node in zip(part[:2], free, strict=False):
        name = one["metadata"]["name"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": stage.namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await stage.api.request("POST", f"/api/v1/namespaces/{stage.namespace}/pods/{name}/binding", body=binding)
    await occupy(stage, free[2])
    await stage.end("w-2")
    await occupy(stage, started["w-2"])
    await asyncio.sleep(1.1)  # creation times have seconds: the successors are to be younger than every Binding
    await stage.api.create_all([part[2], whole[2]])
    await stage.cluster.restart(netgang.part.name, crash=True)
    await stage.api.until(lambda: stage.bound("p-"), lambda found: not found, what="p evicted", limit_s=LIMIT_S)
    left = {one["metadata"]["name"]: one["metadata"] for one in await stage.pods()}
    assert all(left[name]["uid"] == uids[name] and "deletionTimestamp" not in left[name] for name in ("w-0", "w-1"))
