"""A framework's kind under its real controller: the JobSets of examples/kinds start whole and grow."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from lab.testbed.api import Api, Object
from lab.testbed.cluster import Cluster
from lab.testbed.objects import zone_nodes
from lab.testbed.parts.jobset import end_jobset, start_jobset
from lab.testbed.parts.service import ROOT
from tests.authority import Authority
from tests.e2e.site import controlled_site
from tests.e2e.stage import Stage

EXAMPLES = ROOT / "examples/kinds"
SETTINGS = {"elastic": {"condition": "lighter", "decrement": 2, "cool_down_s": 2, "increment": None}}


@pytest.fixture
async def site(controlled_cluster: Cluster, controlled_api: Api, tmp_path: Path) -> AsyncIterator[Stage]:
    authority = Authority.made(tmp_path, "ours")
    authority.server("jobset").into(tmp_path)
    nodes, gates, kinds = zone_nodes({"a": 4}, cpu="5", prefix="n"), {"ElasticJobSet": True}, ("JobSet", "Job")
    cluster, api = controlled_cluster, controlled_api
    try:  # before netgang: it changes nothing for half a minute after it has found a kind
        await start_jobset(cluster, certificates=tmp_path, authority=authority.cert, gates=gates)
        async with controlled_site(cluster, api, "jobset", nodes=nodes, settings=SETTINGS, kinds=kinds) as there:
            yield there
    finally:
        await end_jobset(cluster)


def example(name: str, site: Stage) -> Object:
    (shown,) = yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text())
    return {**shown, "metadata": {**shown["metadata"], "namespace": site.namespace}}


async def test_jobsets_start_whole_and_grow(site: Stage) -> None:
    await site.api.create(example("jobset", site))

    def waits(queue: Object) -> bool:
        return [(one["gang"], one["state"]) for one in queue["gangs"]] == [(f"{site.namespace}/rlhf", "WAITING")]

    await site.until_document(site.service, "/v1/queue", waits, "the gang waits whole")
    assert await site.api.bound(site.namespace) == {}
    await site.add_nodes(*zone_nodes({"a": 1}, cpu="5", prefix="more"))
    await site.until_running("rlhf", 5)
    await site.api.create(example("jobset-elastic", site))
    await site.add_nodes(*zone_nodes({"b": 6}, cpu="5", gpu=1, prefix="gpu"))
    assert len(await site.until_running("mixtral", 6)) == 6
    grown = await site.api.get("JobSet", "mixtral", namespace=site.namespace)
    assert grown["spec"]["replicatedJobs"][0]["template"]["spec"]["parallelism"] == 6
