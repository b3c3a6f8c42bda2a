"""One gang name, several runs; commits that are stopped; gangs bound in part (docs/safety.md S23, S24)."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from extender.controllers.started_gangs import mark_of
from extender.kube.own_objects import ENTRY, STARTED_GANGS
from lab.testbed.api import Api, Object
from lab.testbed.cluster import INSTALLED_IN, Cluster
from lab.testbed.objects import MIN_AVAILABLE_LABEL, GangDialect, gang_labels, pod_group, zone_nodes
from scoring import GangKey, PodUid
from tests.e2e.objects import OURS, kind, name_of
from tests.e2e.site import controlled_site
from tests.e2e.stage import Stage

LIMIT_S = 60.0  # half a minute of quiet after the start, and then the time after which a gang in part is evicted


async def end_well(stage: Stage, names: Sequence[str]) -> None:
    """Once they run: kwok would write Running over what is said before."""

    def runs(found: list[Object]) -> bool:
        return [one.get("status", {}).get("phase") for one in found] == ["Running"]

    for name in names:
        await stage.until_pods(runs, f"{name} to run", begin=name)
        await stage.patch_pod(name, status={"phase": "Succeeded"})


async def occupy(stage: Stage, *nodes: str) -> list[str]:
    return [name_of(await stage.create_pod(f"on-{node}", on=node)) for node in nodes]


async def test_a_gang_bound_in_part_goes_though_a_successor_came(stage: Stage) -> None:
    netgang = await stage.netgang({"partial_timeout_s": 5.0}, on={"a": 6})
    whole, part = stage.gang("w", 3), stage.gang("p", 3)
    await stage.api.create_all(whole)
    started = await stage.until_bound("w-", 3)
    uids = {name_of(one): one["metadata"]["uid"] for one in await stage.pods()}
    marks = [mark_of(GangKey(f"{stage.namespace}/w"), PodUid(uid)) for uid in uids.values()]

    async def noted() -> str:
        found = await stage.api.get("ConfigMap", STARTED_GANGS, namespace=INSTALLED_IN)
        return str((found.get("data") or {}).get(ENTRY, ""))

    await stage.api.until(noted, lambda text: all(one in text for one in marks), what="the start is noted")
    free = sorted({f"node{number}" for number in range(1, 7)} - set(started.values()))
    await stage.api.create_all(part[:2])
    for one, node in zip(part[:2], free, strict=False):
        name = name_of(one)
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = kind("v1", "Binding", name, stage.namespace, target=target)
        await stage.api.request("POST", f"/api/v1/namespaces/{stage.namespace}/pods/{name}/binding", body=binding)
    await occupy(stage, free[2])
    await stage.end("w-worker-2")
    await occupy(stage, started["w-worker-2"])
    await asyncio.sleep(1.1)  # creation times have seconds: the successors are to be younger than every Binding
    await stage.api.create_all([part[2], whole[2]])
    await stage.cluster.restart(netgang.part.name, crash=True)
    await stage.api.until(lambda: stage.bound("p-"), lambda found: not found, what="p evicted", limit_s=LIMIT_S)
    left = {name_of(one): one["metadata"] for one in await stage.pods("w-")}
    assert all(left[name]["uid"] == uids[name] for name in ("w-worker-0", "w-worker-1"))
    assert not any("deletionTimestamp" in one for one in left.values())


def owned(stage: Stage, names: str, least: int, owner: tuple[str, str, str], **fields: Any) -> list[Object]:
    """Pods of gang g, made by an owner that need not exist: (API version, kind, name)."""
    version, what, called = owner
    made = [stage.pod(name, scheduler=OURS, **{"labels": gang_labels("g", least), **fields}) for name in names.split()]
    for one in made:
        ref = {"apiVersion": version, "kind": what, "name": called, "uid": f"uid-{called}", "controller": True}
        one["metadata"]["ownerReferences"] = [ref]
    return made


async def test_a_workflows_second_step_starts_whole(stage: Stage) -> None:
    """Two steps of one Workflow have the same labels; the second one's pods come one after the other."""
    workflow = ("argoproj.io/v1alpha1", "Workflow", "epochs")
    await stage.netgang(on={"a": 4})
    await stage.api.create_all(owned(stage, "first-0 first-1 first-2 first-3", 4, workflow))
    await end_well(stage, sorted(await stage.until_bound("first-", 4)))
    others = await occupy(stage, "node1", "node2")
    for one in owned(stage, "second-0 second-1 second-2 second-3", 4, workflow):
        await stage.api.create(one)
        await asyncio.sleep(0.3)
    await stage.until_refused(4)
    assert await stage.bound("second-") == {}
    await stage.end(*others)
    await stage.until_bound("second-", 4)


async def test_what_ended_well_counts_although_its_pods_are_gone(stage: Stage) -> None:
    cluster = ("ray.io/v1", "RayCluster", "tune")
    await stage.netgang(on={"a": 4})
    await stage.api.create_all(owned(stage, "w-0 w-1 w-2 w-3", 4, cluster))
    await stage.until_bound("w-", 4)
    await end_well(stage, ["w-0", "w-1"])
    await asyncio.sleep(1.0)  # the watch shows it
    await stage.end("w-0", "w-1", "w-3")
    await stage.api.create_all(owned(stage, "w-4", 4, cluster))
    await stage.until_bound("w-4", 1)


async def test_two_owners_in_one_pod_group_are_one_gang(stage: Stage) -> None:
    await stage.netgang(on={"a": 4})
    await stage.api.create(pod_group("g", 4, namespace=stage.namespace))
    labels = gang_labels("g", 4, dialect=GangDialect.POD_GROUP)
    for name in ("actor", "learner"):
        pods = owned(stage, f"{name}-0 {name}-1", 4, ("ray.io/v1", "RayCluster", name), labels=labels)
        await stage.api.create_all(pods)
    await stage.until_bound("", 4)


async def test_a_stateful_set_rolls_to_another_minimum(
    controlled_cluster: Cluster, controlled_api: Api, request: pytest.FixtureRequest
) -> None:
    """Only the newest pod says the new minimum until it runs; the others follow."""
    nodes, kinds = zone_nodes({"a": 4}, cpu="1500m", prefix="n"), ("StatefulSet",)
    purpose = request.node.name

    async def rolled() -> list[str]:
        found = [one for one in await site.pods("serve-") if one["spec"].get("nodeName")]
        return sorted(one["metadata"]["labels"][MIN_AVAILABLE_LABEL] for one in found)

    async with controlled_site(
        controlled_cluster, controlled_api, purpose, nodes=nodes, settings={}, kinds=kinds
    ) as site:

        def template(least: int) -> Object:
            spec = stage_pod["spec"]
            return {"metadata": {"labels": {"app": "serve", **gang_labels("serve", least)}}, "spec": spec}

        stage_pod = site.pod("x", scheduler=OURS)
        spec = {"replicas": 3, "serviceName": "serve", "podManagementPolicy": "Parallel", "template": template(3)}
        spec["selector"] = {"matchLabels": {"app": "serve"}}
        await site.api.create(kind("apps/v1", "StatefulSet", "serve", site.namespace, spec=spec))
        await site.until_bound("serve-", 3)
        await site.api.patch("StatefulSet", "serve", {"spec": {"template": template(2)}}, namespace=site.namespace)
        await site.api.until(rolled, lambda found: found == ["2", "2", "2"], what="all say two", limit_s=LIMIT_S)
