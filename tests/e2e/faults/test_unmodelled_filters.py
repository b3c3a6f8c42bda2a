"""Filters of kube-scheduler's own that netgang does not model close most nodes to a gang (docs/safety.md S27)."""

import pytest

from lab.testbed.api import Object
from lab.testbed.objects import zone_nodes
from tests.e2e.objects import indexed_job, required_terms, shuns_gangs
from tests.e2e.site import site_on
from tests.e2e.stage import LIMIT_S, Stage

CLOSED, OPEN = 6, 2
SETTINGS = {"repin_timeout_s": 5, "exclusion_ttl_s": 20}
site = site_on(zone_nodes({"a": CLOSED + OPEN}, cpu="1500m", prefix="n"), SETTINGS)


@pytest.mark.timeout(200)
async def test_anti_affinity_of_others_costs_the_job_nothing(site: Stage) -> None:
    for number in range(1, CLOSED + 1):
        await site.api.create(shuns_gangs(site.pod(f"blocker-{number}", on=f"n{number}", cpu="10m")))
    await site.api.create(indexed_job("train", site.namespace, 2, backoff_limit=1))
    assert set((await site.until_running("train", 2)).values()) == {"n7", "n8"}
    await _assert_spared(site, "train")

    await site.api.create(indexed_job("later", site.namespace, 4, backoff_limit=1))
    await site.until_events("GangWaiting", lambda told: any("later-" in one for one in told), limit_s=LIMIT_S)
    await _assert_spared(site, "later")
    assert await site.running("later") == {}
    await site.end(*(f"blocker-{number}" for number in range(1, CLOSED + 1)))
    await site.until_running("later", 4)
    await _assert_spared(site, "later")


async def test_what_no_allocatable_shows_is_left_to_kube_scheduler(stage: Stage) -> None:
    """A resource that no node has is not impossible: the gang is admitted to its zone, and its refusals are learned."""
    netgang = await stage.netgang(on={"a": 2}, cpu="8")
    members = stage.gang("cards", 2, gated=True)
    for one in members:
        [container] = one["spec"]["containers"]
        for part in ("requests", "limits"):
            container["resources"][part]["example.com/card"] = "1"
    await stage.api.create_all(members)
    for one in await stage.until_admitted("cards", 2):
        assert all("matchFields" not in term for term in required_terms(one))

    def is_uncounted(found: Object) -> bool:
        said = any(one.startswith("uncounted: example.com/card") for one in found["notes"])
        return said and found["code"] in ("UNCOUNTED", "BACKING_OFF")

    path = f"/v1/explain/{stage.namespace}/cards"
    await stage.until_document(netgang, path, is_uncounted, "the refusals of both nodes are learned")


async def _assert_spared(site: Stage, job: str) -> None:
    found: Object = await site.api.get("Job", job, namespace=site.namespace)
    assert found["status"].get("failed", 0) == 0
    assert not any(one["type"] == "Failed" for one in found["status"].get("conditions", []))
