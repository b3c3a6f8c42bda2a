"""A long elastic job gives workers to a short gang, then leaves for another one, and comes back (service levels)."""

import msgspec
import pytest

from lab.testbed.api import Object
from lab.testbed.objects import zone_nodes
from lab.testbed.parts.operator import start_operator, tf_job
from tests.e2e.jobs.test_elastic import WORKERS
from tests.e2e.objects import indexed_job, name_of
from tests.e2e.site import lasting_site_on
from tests.e2e.stage import Stage

SETTINGS = {"wide_share": 1, "elastic": {"cool_down_s": 2, "increment": None}}
SUSPENDABLE = {"netgang.io/suspendable": "true"}
LONG_AGO = "2020-01-01T00:00:00Z"
lasting, site = lasting_site_on(zone_nodes({"a": 2}, cpu="4", prefix="n"), SETTINGS, kinds=("Job", "TFJob"))


class Long(msgspec.Struct, frozen=True):
    kind: str
    workers: int
    left: int

    def made(self, namespace: str) -> Object:
        if self.kind == "TFJob":
            job = tf_job("long", workers=6, least=4, namespace=namespace)
            for replicas in job["spec"]["tfReplicaSpecs"].values():
                replicas["template"].setdefault("metadata", {}).setdefault("annotations", {}).update(SUSPENDABLE)
            return job
        said = {**SUSPENDABLE, "netgang.io/min-workers": "4"}
        return indexed_job("long", namespace, 7, least=4, gated=False, ends_after="1s", annotations=said)


LONG = {"Indexed Job": Long("Job", 7, 4), "TFJob": Long("TFJob", 6, 3)}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("long", LONG.values(), ids=LONG)
async def test_a_long_job_shrinks_leaves_and_comes_back(site: Stage, long: Long) -> None:
    """Not for a gang before it is of a higher level; and a killed netgang takes the same decisions again."""
    if long.kind != "Job":
        await start_operator(site.cluster)
    await site.api.create(long.made(site.namespace))
    before = await site.until_running("long", 7)
    await site.api.create(indexed_job("first", site.namespace, 4))
    waits = "the job's service level is not higher than the gang's"
    what = "the first gang to wait for its level"
    await site.until_document(site.service, "/v1/jobs", lambda found: waits in str(found), what, limit_s=60.0)
    for one in await site.pods("long-"):  # since when they have their nodes, dated back: nobody waits for an hour
        conditions = [
            {**found, "lastTransitionTime": LONG_AGO} if found["type"] == "PodScheduled" else found
            for found in one["status"]["conditions"]
        ]
        await site.patch_pod(name_of(one), status={"conditions": conditions})
    await site.until_running("first", 4)
    await site.until_job("long", lambda found: WORKERS[long.kind](found) == long.left, "it smaller", kind=long.kind)
    assert len(await site.running("long")) == 4
    shrunk = " ".join((await site.until_events("JobResized")).values())
    assert f"room for {site.namespace}/first, which is of a lower service level" in shrunk

    await site.cluster.restart(site.service.part.name, crash=True)
    await site.api.create(indexed_job("second", site.namespace, 4))
    await site.until_running("second", 4)
    assert await site.running("long") == {}
    preempted = " ".join((await site.until_events("GangPreempted")).values())
    assert "which is of a lower service level (this gang has had" in preempted

    await site.end_job("first")
    await site.end_job("second")
    await site.until_running("long", 7, without=frozenset(before) if long.kind == "Job" else frozenset())
    job = await site.until_job("long", lambda found: WORKERS[long.kind](found) == long.workers, "whole", kind=long.kind)
    assert '"gang":"long","hours":' in job["metadata"]["annotations"]["netgang.io/attained"]
    assert job["metadata"]["labels"]["netgang.io/restart"] == "ran-before"
    assert job["status"].get("failed", 0) == 0
