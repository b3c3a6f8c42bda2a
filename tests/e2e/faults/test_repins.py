"""Members that were admitted to nodes which are all gone before they were bound (docs/safety.md S6, S10)."""

from lab.testbed.api import Object
from lab.testbed.objects import zone_nodes
from tests.e2e.objects import gates, indexed_job, listed_nodes, required_terms
from tests.e2e.site import lasting_site_on
from tests.e2e.stage import LIMIT_S, Stage, metric

lasting, site = lasting_site_on(zone_nodes({"a": 2}, cpu="1500m"), {}, schedules=False)


def by_uid(pods: list[Object]) -> dict[str, set[str]]:
    return {one["metadata"]["uid"]: listed_nodes(one) for one in pods}


async def test_a_job_that_lost_all_its_nodes_starts_elsewhere(site: Stage) -> None:
    await site.api.create(indexed_job("train", site.namespace, 2))
    first = by_uid(await site.until_admitted("", 2, limit_s=LIMIT_S))
    for name in set.union(*first.values()):
        await site.api.delete("Node", name)
    await site.add_nodes(*zone_nodes({"b": 2}, cpu="1500m", prefix="late"))

    def admitted_again(pods: list[Object]) -> bool:
        return len(pods) == 2 and not first.keys() & by_uid(pods).keys() and not any(map(gates, pods))

    for one in await site.until_pods(admitted_again, "new pods admitted", limit_s=LIMIT_S):
        assert [term["matchExpressions"][0]["values"] for term in required_terms(one)] == [["b"]]
    job = await site.api.get("Job", "train", namespace=site.namespace)
    assert (job["status"].get("failed", 0), job["spec"]["suspend"]) == (0, False)
    assert "train" in await site.until_events("GangRestarted", lambda told: "train" in told)
    assert await metric(site.service, "netgang_evictions_total", reason="repin") == 0

    await site.start_second_scheduler(site.service)
    assert set((await site.until_bound("train", 2)).values()) == {"late1", "late2"}
