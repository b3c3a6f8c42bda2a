"""Gangs of lower priority that leave, whole, for a waiting one (docs/explanation/preemption.md).

The schedulers, kube-controller-manager (Jobs, disruption budgets) and the training operator are real; kwok plays the
kubelets, and pods take a second to end. Nothing is removed in the first half minute of a process.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from testbed.api import Api, Object
from testbed.cluster import Cluster
from testbed.objects import priority_class, zone_nodes
from testbed.parts.operator import condition, start_operator, tf_job
from tests.e2e.objects import indexed_job
from tests.e2e.site import Site, controlled_site
from tests.e2e.stage import document, metric

GATE = "netgang.io/gang"
HIGH = "preemption-high"
SETTINGS: dict[str, Any] = {"preemption": "gangs"}
STILL_S = 8.0
"""How long it is watched that nothing happens: several decisions."""


@pytest.fixture
async def site(controlled_cluster: Cluster, controlled_api: Api) -> AsyncIterator[Site]:
    """24 nodes in one zone, on each of which one member fits."""
    await controlled_api.apply([priority_class(HIGH, 1000)])
    nodes = zone_nodes({"a": 24}, cpu="3", prefix="n")
    async with controlled_site(
        controlled_cluster, controlled_api, "preemption", nodes=nodes, settings=SETTINGS
    ) as made:
        yield made


@pytest.mark.timeout(280)
async def test_the_smallest_sufficient_gang_leaves_whole_and_comes_back(site: Site) -> None:
    """An Indexed Job of eight with backoffLimit 6, then a TFJob of eight, leave for a gang of eight; no other does.

    Where all that have less priority would not suffice, or a disruption budget forbids it, nobody leaves.
    """
    await site.api.create_all([job_of("four", site, 4), job_of("eight", site, 8), job_of("twelve", site, 12)])
    four, eight, twelve = [
        await site.until_running(name, size) for name, size in (("four", 4), ("eight", 8), ("twelve", 12))
    ]

    # 1. The Indexed Job leaves.
    await site.api.create(job_of("urgent", site, 8, priority=HIGH))
    urgent = await site.until_running("urgent", 8)
    assert set(urgent.values()) == set(eight.values())
    assert (await site.running("four"), await site.running("twelve")) == (four, twelve)
    assert {name.partition("-")[0] for name in await site.events("GangPreempted")} == {"eight"}
    assert "leaves for this gang" in " ".join((await site.events("GangPreempts")).values())
    job = await site.api.until(
        lambda: site.api.get("Job", "eight", namespace=site.namespace),
        lambda found: found["spec"]["suspend"] is False,
        what="the Job resumed",
    )
    assert not condition(job, "Failed")
    assert job["status"].get("failed", 0) == 0

    # 2. Four and twelve are not enough for twenty: nobody leaves.
    await site.api.create(job_of("huge", site, 20, priority=HIGH))
    await _let_pass(site, "huge", 20)
    assert (await site.running("four"), await site.running("twelve")) == (four, twelve)
    assert await site.running("urgent") == urgent
    await _end(site, "huge")

    # 3. A budget keeps the twelve; without them the rest is not enough.
    await site.api.create(_budget("keep", site, "twelve"))
    await site.api.create(job_of("wide", site, 10, priority=HIGH))
    told = await site.api.until(
        lambda: _blocked(site, "wide"), lambda said: said is not None, what="the budget told of", limit_s=30.0
    )
    assert "PodDisruptionBudget keep" in str(told)
    await _let_pass(site, "wide", 10)
    assert (await site.running("four"), await site.running("twelve")) == (four, twelve)
    await _end(site, "wide")

    # 4. The Job comes back when there is room. From its first member that succeeds on it is never made to leave.
    await _end(site, "urgent")
    again = await site.until_running("eight", 8, without=frozenset(eight))
    assert len(again) == 8
    await site.api.create(_budget("keep-four", site, "four"))  # with what members of eight leave it would be enough
    await _finish_one_by_one(site, "eight", waits="later")
    later = await site.until_running("later", 8)
    assert set(later.values()) == set(again.values())
    assert (await site.running("four"), await site.running("twelve")) == (four, twelve)
    job = await site.api.until(  # the Job controller counts a second after its pods are over
        lambda: site.api.get("Job", "eight", namespace=site.namespace),
        lambda found: found["status"].get("succeeded") == 8,
        what="all members of the Job counted",
    )
    assert job["status"].get("failed", 0) == 0
    await _end(site, "later")
    await _end(site, "eight")
    for name in ("keep", "keep-four"):
        await site.api.delete("PodDisruptionBudget", name, namespace=site.namespace)

    # 5. A TFJob of the same size gives its room, too.
    await start_operator(site.cluster, schemes=("tfjob",))
    await site.api.create(tf_job("tf", workers=7, namespace=site.namespace, cpu="2", dynamic=False, gates=[GATE]))
    before = await site.until_running("tf", 8)
    await site.api.create(job_of("urgent", site, 8, priority=HIGH))
    urgent = await site.until_running("urgent", 8)
    assert set(urgent.values()) == set(before.values())
    assert (await site.running("four"), await site.running("twelve")) == (four, twelve)
    await site.api.until(
        lambda: metric(site.netgang, "netgang_preemptions_total", outcome="started"),
        lambda count: count == 2,
        what="the claim at its end",
    )
    await _end(site, "urgent")
    await site.until_running("tf", 8, without=frozenset(before))
    made = await site.api.get("TFJob", "tf", namespace=site.namespace)
    assert not condition(made, "Failed")
    assert await metric(site.netgang, "netgang_evictions_total") == 0


@pytest.mark.timeout(230)
async def test_a_netgang_that_is_killed_in_the_middle_keeps_the_room(site: Site) -> None:
    """Members take their time to end, one is gone already: its place is not given to a small gang that comes now."""
    await site.api.create(job_of("peers", site, 16, priority=HIGH))
    await site.until_running("peers", 16)
    await site.api.create(job_of("low", site, 8, ends_after="30s"))
    low = await site.until_running("low", 8)
    await site.api.create(job_of("urgent", site, 8, priority=HIGH))
    leaving = await site.api.until(
        lambda: site.pods("low"),
        lambda found: all("deletionTimestamp" in one["metadata"] for one in found),
        what="all of low told to end",
        limit_s=60.0,
    )
    await site.netgang.part.kill()
    await site.api.delete("Pod", leaving[0]["metadata"]["name"], namespace=site.namespace, grace_s=0)
    site.netgang.part.start()
    await site.cluster.until_ready(site.netgang.part.name)
    await site.api.create(job_of("small", site, 1))
    claims = await site.api.until(
        lambda: document(site.netgang, f"/v1/explain/{site.namespace}/urgent"),
        lambda found: bool((found.get("preemption") or {}).get("makes_room")),
        what="the claim found again",
    )
    assert claims["preemption"]["makes_room"] == [f"{site.namespace}/low"]
    await _let_pass(site, "small", 1)
    urgent = await site.until_running("urgent", 8)
    assert set(urgent.values()) == set(low.values())
    assert await site.running("small") == {}
    await site.api.until(
        lambda: site.api.get("Job", "low", namespace=site.namespace),
        lambda found: found["spec"]["suspend"] is False,
        what="the Job resumed",
        limit_s=60.0,
    )


async def _let_pass(site: Site, job: str, size: int) -> None:
    """Wait until all pods of a gang exist, and then for a while."""
    await site.api.until(lambda: site.pods(job), lambda found: len(found) == size, what=f"pods of {job}")
    await asyncio.sleep(STILL_S)
    assert await site.running(job) == {}


async def _end(site: Site, job: str) -> None:
    """Delete a Job, and wait until its pods are gone."""
    await site.api.delete("Job", job, namespace=site.namespace)
    await site.api.until(lambda: site.pods(job), lambda found: not found, what=f"{job} gone")


async def _finish_one_by_one(site: Site, job: str, *, waits: str) -> None:
    """The members of a Job succeed one after the other, and beside them a gang `waits` that could have their room.

    Until the last of them is done none of the others is told to go, and the Job is not suspended.
    """
    first, *others = await site.pods(job)
    await _succeed(site, first)
    await site.api.create(job_of(waits, site, len(others) + 1, priority=HIGH))
    for one in others:
        await asyncio.sleep(STILL_S / len(others))
        assert not [each for each in await site.pods(job) if "deletionTimestamp" in each["metadata"]]
        assert not (await site.api.get("Job", job, namespace=site.namespace))["spec"].get("suspend")
        assert await site.running(waits) == {}
        await _succeed(site, one)


async def _succeed(site: Site, one: Object) -> None:
    """A member has ended well: what its kubelet writes."""
    name = one["metadata"]["name"]
    await site.api.patch(
        "Pod", name, {"status": {"phase": "Succeeded"}}, namespace=site.namespace, subresource="status"
    )


async def _blocked(site: Site, gang: str) -> str | None:
    """What /v1/explain says is in the way of making room for the gang."""
    found = await document(site.netgang, f"/v1/explain/{site.namespace}/{gang}")
    return (found.get("preemption") or {}).get("blocked")


def _budget(name: str, site: Site, job: str) -> Object:
    """A disruption budget that lets no pod of the job go."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": site.namespace},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"batch.kubernetes.io/job-name": job}}},
    }


def job_of(name: str, site: Site, size: int, *, priority: str = "", ends_after: str = "1s") -> Object:
    """An Indexed Job of two-CPU pods, which take a second to end."""
    return indexed_job(name, site.namespace, size, cpu="2", priority_class=priority, ends_after=ends_after)
