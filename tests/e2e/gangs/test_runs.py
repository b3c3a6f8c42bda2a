"""What a gang is over time and over owners: one name, several runs (docs/safety.md S23)."""

import asyncio
from collections.abc import Sequence
from typing import Any

from lab.testbed.api import Object
from lab.testbed.objects import MIN_AVAILABLE_LABEL, GangDialect, gang_labels, pod_group, zone_nodes
from tests.e2e.objects import OURS, name_of, stateful_set
from tests.e2e.site import site_on
from tests.e2e.stage import Stage

site = site_on(zone_nodes({"a": 4}, cpu="1500m", prefix="n"), {}, kinds=("StatefulSet",))


async def end_well(stage: Stage, names: Sequence[str]) -> None:
    """Once they run: kwok would write Running over what is said before."""

    def runs(found: list[Object]) -> bool:
        return [one.get("status", {}).get("phase") for one in found] == ["Running"]

    for name in names:
        await stage.until_pods(runs, f"{name} to run", begin=name)
        await stage.patch_pod(name, status={"phase": "Succeeded"})


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
    others = [name_of(await stage.create_pod(f"on-{node}", on=node)) for node in ("node1", "node2")]
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


async def test_a_stateful_set_rolls_to_another_minimum(site: Stage) -> None:
    """Only the newest pod says the new minimum until it runs; the others follow."""

    async def rolled() -> list[str]:
        found = [one for one in await site.pods("serve-") if one["spec"].get("nodeName")]
        return sorted(one["metadata"]["labels"][MIN_AVAILABLE_LABEL] for one in found)

    spec = site.pod("x", scheduler=OURS)["spec"]
    first, then = (stateful_set("serve", site.namespace, least, spec) for least in (3, 2))
    await site.api.create(first)
    await site.until_bound("serve-", 3)
    await site.api.patch("StatefulSet", "serve", {"spec": then["spec"]}, namespace=site.namespace)
    await site.api.until(rolled, lambda found: found == ["2", "2", "2"], what="all say two")
