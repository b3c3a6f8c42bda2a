"""What people are told on a real control plane while a gang waits: which pod, owner and zone it waits for."""

from typing import Any

import pytest

from lab.testbed.api import Object
from lab.testbed.objects import gang_labels, zone_nodes
from tests.e2e.objects import OURS, indexed_job, kind
from tests.e2e.site import site_on
from tests.e2e.stage import Stage, say

site = site_on(zone_nodes({"a": 2, "b": 3}, cpu="1500m", prefix="n"), {})


async def cause_of(stage: Stage, gang: str, *words: str) -> str:
    def tells(found: dict[str, Any]) -> bool:
        return all(one in f"{found.get('cause')} {found.get('repair')}" for one in words)

    path = f"/v1/explain/{stage.namespace}/{gang}"
    found = await stage.until_document(stage.service, path, tells, f"{gang}: {', '.join(words)}")
    say(f"{gang}: {found['cause']} {found['repair']}")
    return f"{found['cause']} {found['repair']}"


@pytest.mark.timeout(120)
async def test_a_replacement_waits_for_the_pod_that_still_ends(site: Stage) -> None:
    old = {"testbed.netgang.io/delete-after": "12s"}
    members = [
        site.pod(f"g-{i}", scheduler=OURS, labels=gang_labels("g", 2), cpu="1", annotations=old) for i in range(2)
    ]
    await site.api.create_all(members)
    started = await site.until_bound("g-", 2)
    await site.until_pods(lambda found: {one["status"].get("phase") for one in found} == {"Running"}, "both run")
    await site.api.delete("Pod", "g-1", namespace=site.namespace, grace_s=30)
    for node in {"n1", "n2", "n3", "n4", "n5"} - set(started.values()):
        await site.create_pod(f"on-{node}", on=node, cpu="1")
    await site.api.create(site.pod("g-1b", scheduler=OURS, labels=gang_labels("g", 2), cpu="1"))
    told = await cause_of(site, "g", f"Pod g-1 on node {started['g-1']} still ends")
    assert "come back" not in told
    await site.until_bound("g-1b", 1)


@pytest.mark.timeout(120)
async def test_the_owner_whose_pods_are_refused_is_named(site: Stage) -> None:
    limits = {"limits": [{"type": "Container", "max": {"cpu": "500m"}}]}
    await site.api.create(kind("v1", "LimitRange", "small", site.namespace, spec=limits))
    chief = indexed_job("chief", site.namespace, 1, gang="train", least=3, gated=False, cpu="400m")
    workers = indexed_job("workers", site.namespace, 2, gang="train", least=3, gated=False, cpu="1")
    await site.api.create_all([chief, workers])
    told = await cause_of(site, "train", "Job workers")
    assert "Job chief" not in told


@pytest.mark.timeout(120)
async def test_a_member_beyond_the_minimum_is_told_where_room_would_be(site: Stage) -> None:
    def labelled(name: str) -> Object:
        return site.pod(name, scheduler=OURS, labels=gang_labels("spark", 1), cpu="1")

    await site.api.create(labelled("driver"))
    (node,) = (await site.until_bound("driver", 1)).values()
    await site.until_pods(lambda found: found[0]["status"].get("phase") == "Running", "the driver runs", begin="driver")
    zone, other = ("a", "b") if node in ("n1", "n2") else ("b", "a")
    await site.api.create_all([labelled(f"exec-{number}") for number in range(4)])
    await cause_of(site, "spark", f"zone {zone}", f"zone {other}")


@pytest.mark.timeout(120)
async def test_two_jobs_of_one_pod_each_are_one_gang(site: Stage) -> None:
    for number in (1, 2):
        await site.api.create(indexed_job(f"work-{number}", site.namespace, 1, gang="work", least=2, gated=False))
    await site.until_bound("work-", 2)
