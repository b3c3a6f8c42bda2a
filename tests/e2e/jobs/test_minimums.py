"""A minimum above what the Job controller makes can never be reached, and people learn it at once."""

import pytest

from lab.testbed.objects import zone_nodes
from tests.e2e.objects import indexed_job
from tests.e2e.site import site_on
from tests.e2e.stage import Stage

site = site_on(zone_nodes({"a": 4}, cpu="3", prefix="n"), {})


@pytest.mark.timeout(120)
async def test_a_job_that_makes_too_few_pods_is_told_so_and_is_ahead_of_nobody(site: Stage) -> None:
    await site.api.create(indexed_job("min6", site.namespace, 4, least=6, gated=False))
    told = await site.until_events("GangInvalid")
    words = "Job min6 makes 4 pods, and the minimum is 6: lower the minimum to 4, or have 6 pods made"
    assert all(words in note for note in told.values())
    assert words in str(await site.explain(site.service, "min6"))
    await site.api.create(indexed_job("later", site.namespace, 4, gated=False, cpu="2"))
    assert len(await site.until_running("later", 4)) == 4
    await site.api.create(indexed_job("waits", site.namespace, 4, gated=False, cpu="2"))
    await site.until_pods(lambda found: len(found) == 4, "its pods", begin="waits-")
    gangs = (await site.until_document(site.service, "/v1/queue", lambda q: "waits" in str(q), "it waits"))["gangs"]
    ranks = {one["gang"].partition("/")[2]: one.get("rank") for one in gangs}
    assert (ranks["min6"], ranks["waits"]) == (None, 1)
