"""A gang that has had much of the cluster is suspended for one that has had little, by the real Job controller.

A member got its node when its condition PodScheduled says; the test dates that back, so that nobody waits for an hour.
"""

import pytest

from lab.testbed.api import Object
from lab.testbed.objects import zone_nodes
from tests.e2e.objects import indexed_job, name_of
from tests.e2e.site import site_on
from tests.e2e.stage import Stage

LONG_AGO = "2020-01-01T00:00:00Z"

site = site_on(zone_nodes({"a": 4}, cpu="3", prefix="n"), {"preemption": "levels", "wide_share": 1})


@pytest.mark.timeout(240)
async def test_a_long_gang_leaves_comes_back_and_keeps_its_level(site: Stage) -> None:
    """The long one is suspended whole and resumed after the short one; a netgang killed meanwhile knows its level."""
    await site.api.create(job_of("long", site, suspendable=True))
    before = await site.until_running("long", 4)
    await age(site, "long-")
    await site.api.create(job_of("short", site))
    short = await site.until_running("short", 4)
    assert set(short.values()) == set(before.values())
    told = " ".join((await site.until_events("GangPreempted")).values())
    assert "which is of a lower service level (this gang has had" in told
    job = await site.until_job("long", _resumed, "the Job resumed")
    assert '"gang":"long","hours":' in job["metadata"]["annotations"]["netgang.io/attained"]
    assert job["metadata"]["labels"]["netgang.io/restart"] == "ran-before"
    assert job["status"].get("failed", 0) == 0

    await site.service.part.kill()
    site.service.part.start()
    await site.cluster.until_ready(site.service.part.name)
    await age(site, "short-")
    await site.api.create(job_of("other", site, suspendable=True))
    other = await site.until_running("other", 4)  # the quiet time of the new process is over then
    assert set(other.values()) == set(before.values())
    assert await site.running("long") == {}

    await site.end_job("other")
    await site.end_job("short")
    await site.until_running("long", 4, without=frozenset(before))


def job_of(name: str, site: Stage, *, suspendable: bool = False) -> Object:
    notes = {"netgang.io/suspendable": "true"}
    return indexed_job(name, site.namespace, 4, cpu="2", annotations=notes if suspendable or name == "short" else {})


async def age(site: Stage, begin: str) -> None:
    for one in await site.pods(begin):
        conditions = [
            {**found, "lastTransitionTime": LONG_AGO} if found["type"] == "PodScheduled" else found
            for found in one["status"]["conditions"]
        ]
        await site.patch_pod(name_of(one), status={"conditions": conditions})


def _resumed(job: Object) -> bool:
    return job["spec"]["suspend"] is False
