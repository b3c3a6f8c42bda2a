"""Members that were admitted to nodes which are all gone before they were bound (docs/safety.md S6, S10).

Nothing is removed in the first half minute of a process, so these tests take that long.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from uuid import uuid4

import pytest

from testbed.api import Api, Object
from testbed.cluster import Cluster
from testbed.objects import gang_pods, zone_nodes
from testbed.objects import namespace as namespace_object
from testbed.parts.service import ROOT, Netgang, start_netgang, start_second_scheduler
from tests.e2e.objects import indexed_job
from tests.e2e.stage import metric

OURS = "netgang"
GATE = "netgang.io/gang"
LIMIT_S = 90.0
"""Half a minute of quiet after start, and the Job controller's pause after failures."""


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster with controllers, netgang in it, no scheduler yet; two nodes in zone a."""

    cluster: Cluster
    api: Api
    netgang: Netgang
    namespace: str

    async def pods(self) -> list[Object]:
        """All pods of the namespace."""
        return await self.api.list_all("Pod", namespace=self.namespace)

    async def until_let_in(self, count: int) -> dict[str, set[str]]:
        """Wait until `count` pods have lost their gate; uid → listed nodes."""
        return {pod["metadata"]["uid"]: _listed(pod) for pod in await self.until_ungated(count)}

    async def until_ungated(self, count: int) -> list[Object]:
        """Wait until there are `count` pods, and none of them has its gate."""
        return await self.api.until(
            self.pods,
            lambda pods: len(pods) == count and not any(pod["spec"].get("schedulingGates") for pod in pods),
            what=f"{count} pods let in",
            limit_s=LIMIT_S,
        )

    async def lose(self, *names: str) -> None:
        """Delete nodes."""
        for name in names:
            await self.api.delete("Node", name)

    async def events(self, reason: str) -> dict[str, str]:
        """Events of netgang: uid of the object → note."""
        found = await self.api.list_all("Event", namespace=self.namespace, fields=f"reason={reason}")
        return {one["involvedObject"]["uid"]: one["message"] for one in found}


@pytest.fixture
async def site(controlled_cluster: Cluster, controlled_api: Api) -> AsyncIterator[Site]:
    """Stopped and emptied afterwards."""
    name = f"repins-{uuid4().hex[:6]}"
    await controlled_api.create(namespace_object(name))
    await controlled_api.apply(ROOT / "manifests/components/restart/rbac.yaml")
    await controlled_cluster.add_nodes(zone_nodes({"a": 2}, cpu="1500m"))
    before = set(controlled_cluster.parts)
    netgang = await start_netgang(controlled_cluster)
    yield Site(controlled_cluster, controlled_api, netgang, name)
    for part in [one for one in controlled_cluster.parts if one not in before]:
        await controlled_cluster.remove(part)
    await controlled_api.delete("Namespace", name)


async def test_a_job_that_lost_all_its_nodes_starts_elsewhere(site: Site) -> None:
    """The Job is suspended and resumed, so its new pods have their gate, go to another zone, and no failure is counted.

    Nodes are not named for them a second time.
    """
    await site.api.create(indexed_job("train", site.namespace, 2))
    first = await site.until_let_in(2)
    lost = _all(first)
    await site.lose(*lost)
    await site.cluster.add_nodes(zone_nodes({"b": 2}, cpu="1500m", prefix="late"))

    await site.api.until(
        site.pods,
        lambda pods: len(pods) == 2 and not first.keys() & {pod["metadata"]["uid"] for pod in pods},
        what="pods recreated",
        limit_s=LIMIT_S,
    )
    for one in await site.until_ungated(2):
        assert [term["matchExpressions"][0]["values"] for term in _terms(one)] == [["b"]]
    job = await site.api.get("Job", "train", namespace=site.namespace)
    assert (job["status"].get("failed", 0), job["spec"]["suspend"]) == (0, False)
    assert job["metadata"]["uid"] in await site.events("GangRestarted")
    assert await metric(site.netgang, "netgang_evictions_total", reason="repin") == 0

    await start_second_scheduler(site.cluster, site.netgang)
    bound = await site.api.until_bound(site.namespace, 2)
    assert set(bound.values()) == {"late1", "late2"}


async def test_bare_pods_that_lost_all_their_nodes_are_kept(site: Site) -> None:
    """Nobody would create them again: they stay, and an Event on each says what can be done."""
    await site.api.create_all(
        gang_pods("g", 2, min_available=2, namespace=site.namespace, scheduler=OURS, gates=[GATE])
    )
    first = await site.until_let_in(2)
    await site.lose(*_all(first))
    told = await site.api.until(
        lambda: site.events("NodesGone"), lambda found: len(found) == 2, what="two Events", limit_s=LIMIT_S
    )
    assert told.keys() == first.keys()
    assert all("no controller would create it again" in note for note in told.values())
    assert {pod["metadata"]["uid"] for pod in await site.pods()} == first.keys()
    assert not any(pod["metadata"].get("deletionTimestamp") for pod in await site.pods())
    assert await metric(site.netgang, "netgang_evictions_total", reason="repin") == 0


def _listed(pod: Object) -> set[str]:
    """The nodes that a pod's required affinity names."""
    return {name for term in _terms(pod) for name in term["matchFields"][0]["values"]}


def _terms(pod: Object) -> list[Object]:
    """The terms of its required node affinity."""
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    terms: list[Object] = required["nodeSelectorTerms"]
    return terms


def _all(lists: Mapping[str, set[str]]) -> set[str]:
    """The nodes of all lists."""
    return {name for listed in lists.values() for name in listed}
