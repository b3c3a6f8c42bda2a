"""Gangs of lower priority that leave, whole, for a waiting one (docs/how-to/preemption-and-suspension.md)."""

import asyncio
from functools import partial

import pytest

from lab.testbed.api import Api, Object
from lab.testbed.objects import priority_class, zone_nodes
from lab.testbed.parts.operator import condition, start_operator, tf_job
from tests.e2e.objects import GATE, budget, indexed_job, name_of
from tests.e2e.site import lasting_site_on
from tests.e2e.stage import Stage, metric

HIGH = "preemption-high"
STILL_S = 8.0  # how long it is watched that nothing happens: several decisions


lasting, site = lasting_site_on(
    zone_nodes({"a": 24}, cpu="3", prefix="n"), {"preemption": "gangs"}, kinds=("Job", "TFJob")
)


@pytest.fixture(autouse=True)
async def high(controlled_api: Api) -> None:
    await controlled_api.apply([priority_class(HIGH, 1000)])


@pytest.mark.timeout(280)
async def test_the_smallest_sufficient_gang_leaves_whole_and_comes_back(site: Stage) -> None:
    ended = partial(metric, site.service, "netgang_preemptions_total", outcome="started")
    before_it, evicted = await ended(), await metric(site.service, "netgang_evictions_total")
    await site.api.create_all([job_of("four", site, 4), job_of("eight", site, 8), job_of("twelve", site, 12)])
    sizes = {"four": 4, "eight": 8, "twelve": 12}
    four, eight, twelve = [await site.until_running(name, size) for name, size in sizes.items()]

    # 1. The Indexed Job leaves.
    await site.api.create(job_of("urgent", site, 8, priority=HIGH))
    urgent = await site.until_running("urgent", 8)
    assert set(urgent.values()) == set(eight.values())
    assert (await site.running("four"), await site.running("twelve")) == (four, twelve)
    assert {name.partition("-")[0] for name in await site.until_events("GangPreempted")} == {"eight"}
    assert "leaves for this gang" in " ".join((await site.until_events("GangPreempts")).values())
    job = await site.until_job("eight", lambda found: found["spec"]["suspend"] is False, "the Job resumed")
    assert not condition(job, "Failed")
    assert job["status"].get("failed", 0) == 0

    # 2. Four and twelve are not enough for twenty: nobody leaves.
    await site.api.create(job_of("huge", site, 20, priority=HIGH))
    await _let_pass(site, "huge", 20)
    assert (await site.running("four"), await site.running("twelve")) == (four, twelve)
    assert await site.running("urgent") == urgent
    await site.end_job("huge")

    # 3. A budget keeps the twelve; without them the rest is not enough.
    await site.api.create(_budget(site, "twelve"))
    await site.api.create(job_of("wide", site, 10, priority=HIGH))
    path = f"/v1/explain/{site.namespace}/wide"

    def blocked(found: Object) -> bool:
        return "PodDisruptionBudget twelve" in str((found.get("preemption") or {}).get("blocked"))

    await site.until_document(site.service, path, blocked, "the budget named")
    await _let_pass(site, "wide", 10)
    assert (await site.running("four"), await site.running("twelve")) == (four, twelve)
    await site.end_job("wide")

    # 4. The Job comes back when there is room. From its first member that succeeds on it is never made to leave.
    await site.end_job("urgent")
    again = await site.until_running("eight", 8, without=frozenset(eight))
    assert len(again) == 8
    await site.api.create(_budget(site, "four"))  # with what members of eight leave it would be enough
    await _finish_one_by_one(site, "eight", waits="later")
    assert set((await site.until_running("later", 8)).values()) == set(again.values())
    assert (await site.running("four"), await site.running("twelve")) == (four, twelve)
    # the Job controller counts a second after its pods are over
    job = await site.until_job("eight", lambda found: found["status"].get("succeeded") == 8, "all members counted")
    assert job["status"].get("failed", 0) == 0
    await site.end_job("later")
    await site.end_job("eight")
    for name in ("twelve", "four"):
        await site.api.delete("PodDisruptionBudget", name, namespace=site.namespace)

    # 5. A TFJob of the same size gives its room, too.
    await start_operator(site.cluster)
    await site.api.create(tf_job("tf", workers=7, namespace=site.namespace, cpu="2", dynamic=False, gates=[GATE]))
    before = await site.until_running("tf", 8)
    await site.api.create(job_of("urgent", site, 8, priority=HIGH))
    urgent = await site.until_running("urgent", 8)
    assert set(urgent.values()) == set(before.values())
    assert (await site.running("four"), await site.running("twelve")) == (four, twelve)
    await site.api.until(ended, lambda count: count == before_it + 2, what="the claim at its end")
    await site.end_job("urgent")
    await site.until_running("tf", 8, without=frozenset(before))
    assert not condition(await site.api.get("TFJob", "tf", namespace=site.namespace), "Failed")
    assert await metric(site.service, "netgang_evictions_total") == evicted


async def _let_pass(site: Stage, job: str, size: int) -> None:
    await site.until_pods(lambda found: len(found) == size, f"pods of {job}", begin=f"{job}-")
    await asyncio.sleep(STILL_S)
    assert await site.running(job) == {}


async def _finish_one_by_one(site: Stage, job: str, *, waits: str) -> None:
    """The members of a Job succeed one after the other, and beside them a gang `waits` that could have their room."""
    first, *others = await site.pods(f"{job}-")
    await site.patch_pod(name_of(first), status={"phase": "Succeeded"})
    await site.api.create(job_of(waits, site, len(others) + 1, priority=HIGH))
    for one in others:
        await asyncio.sleep(STILL_S / len(others))
        assert not [each for each in await site.pods(f"{job}-") if "deletionTimestamp" in each["metadata"]]
        assert not (await site.api.get("Job", job, namespace=site.namespace))["spec"].get("suspend")
        assert await site.running(waits) == {}
        await site.patch_pod(name_of(one), status={"phase": "Succeeded"})


def _budget(site: Stage, job: str) -> Object:
    return budget(job, site.namespace, {"batch.kubernetes.io/job-name": job})


def job_of(name: str, site: Stage, size: int, *, priority: str = "") -> Object:
    return indexed_job(name, site.namespace, size, cpu="2", priority_class=priority, ends_after="1s")
