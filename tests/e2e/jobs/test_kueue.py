"""Kueue's manager above netgang, as in docs/how-to/teams-and-kueue.md: quota by Kueue, nodes by netgang."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from time import monotonic

import pytest
import yaml

from lab.testbed.api import Api, Object
from lab.testbed.beside import beside
from lab.testbed.cluster import Cluster
from lab.testbed.objects import priority_class, zone_nodes
from lab.testbed.parts.kueue import end_kueue, start_kueue
from lab.testbed.parts.service import ROOT
from lab.testbed.processes.stages import DELETE_AFTER
from tests.e2e import objects
from tests.e2e.invariants import invariants_hold, until_nothing_is_promised
from tests.e2e.jobs.test_preemption import HIGH, STILL_S
from tests.e2e.objects import GATE, OURS, gates, name_of
from tests.e2e.site import controlled_site
from tests.e2e.stage import Stage, say
from tests.e2e.tenants.test_policy import policy as gate_policy
from tests.newcomer.document import fenced

PAGE = ROOT / "docs/how-to/teams-and-kueue.md"
QUEUE = "kueue.x-k8s.io/queue-name"
KUEUES = "kueue.x-k8s.io/admission"
SIZE = 4  # pods of a job, as the page shows it, and nodes of a zone
EVERYTHING_ON = {
    "preemption": "gangs",
    "wide_share": 1,
    "elastic": {"enabled": True, "cool_down_s": 2, "decrement": None, "increment": None},
    "writes_per_s": 4.0,  # so that something can happen between two patches
}


def shown() -> list[Object]:
    return [one for text in fenced(PAGE.read_text(), "yaml") if "kueue" in text for one in yaml.safe_load_all(text)]


def here(one: Object, namespace: str) -> Object:
    return {**one, "metadata": one["metadata"] | ({"namespace": namespace} if "namespace" in one["metadata"] else {})}


@pytest.fixture
async def site(controlled_cluster: Cluster, controlled_api: Api) -> AsyncIterator[Stage]:
    api, began_s = controlled_api, monotonic()
    nodes = zone_nodes({"a": SIZE, "b": SIZE}, cpu="5", prefix="n")
    policy = gate_policy("netgang-gate")
    try:
        await start_kueue(controlled_cluster)
        say(f"Kueue ready after {monotonic() - began_s:.1f} s")
        await api.apply(policy)
        async with controlled_site(controlled_cluster, api, "kueue", nodes=nodes, settings=EVERYTHING_ON) as there:
            await api.apply([here(one, there.namespace) for one in shown() if one["kind"] != "Job"])
            await until_active(there)
            yield there
            for kind in ("StatefulSet", "Job", "Pod", "Workload"):  # while Kueue can take its finalizers off
                await api.delete_all(kind, namespace=there.namespace)
            await there.until_pods(lambda found: not found, "all pods gone")
    finally:
        for one in reversed(policy):
            await api.delete(one["kind"], name_of(one))
        await end_kueue(controlled_cluster)


async def until_active(site: Stage) -> None:
    def active(found: list[Object]) -> bool:
        said = [(two["type"], two["status"]) for one in found for two in one.get("status", {}).get("conditions", [])]
        return said.count(("Active", "True")) == len(found)

    for kind in ("ClusterQueue", "LocalQueue"):
        await site.api.until(partial(site.api.list_all, kind), active, what=f"each {kind} active")


def job(name: str, site: Stage, queue: str, **notes: str) -> Object:
    (made,) = [here(one, site.namespace) for one in shown() if one["kind"] == "Job"]
    made["metadata"] |= {"name": name, "labels": {QUEUE: queue}, "annotations": notes}
    template = made["spec"]["template"]
    template["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io/name"] = name
    template["metadata"]["annotations"] = {DELETE_AFTER: "2s", **notes}
    template["spec"]["tolerations"] = [{"operator": "Exists"}]
    return made


async def until_whole(site: Stage, name: str, *, without: frozenset[str] = frozenset()) -> dict[str, str]:
    """Wait until all pods of a job run, in one zone, each of them admitted at netgang's gate; uid → node."""
    found = await site.until_running(name, SIZE, without=without)
    assert len(await site.zones({*found.values()})) == 1
    admitted = [one["metadata"]["annotations"].get("netgang.io/admitted") for one in await site.pods(f"{name}-")]
    assert all(admitted), "the gate policy gated them"
    return found


@asynccontextmanager
async def two_of_a(site: Stage) -> AsyncIterator[tuple[dict[str, str], dict[str, str]]]:
    async with invariants_hold(site.api, site.service, site.namespace, commit_s=20.0, grace_s=20.0):
        await site.api.create(job("own", site, "team-a"))
        own = await until_whole(site, "own")
        await site.api.create(job("borrowed", site, "team-a"))
        yield own, await until_whole(site, "borrowed")
        await until_nothing_is_promised(site.api, site.service, limit_s=30.0)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("killed", [False, True], ids=["undisturbed", "netgang is killed"])
async def test_a_team_borrows_and_the_other_reclaims(site: Stage, killed: bool) -> None:
    """A job of b suspends what a has borrowed, starts whole in its room, and a's job comes back whole after it."""
    async with two_of_a(site) as (own, borrowed):
        assert set(own.values()).isdisjoint(borrowed.values())
        began_s = monotonic()
        await site.api.create(job("back", site, "team-b"))
        if killed:
            await site.until_pods(
                lambda pods: any("deletionTimestamp" in one["metadata"] for one in pods), "a's pods leave", begin="borr"
            )
            await site.cluster.restart(site.service.part.name, crash=True)

            def half(found: list[Object]) -> bool:
                return 0 < sum(not gates(one) for one in found) < SIZE

            await site.until_pods(half, "b's pods half admitted", begin="back-", limit_s=60.0)
            await site.cluster.restart(site.service.part.name, crash=True)
        back = await until_whole(site, "back")
        say(f"reclaim: from b's job to its gang running {monotonic() - began_s:.1f} s, with 2 s for a's pods to end")
        left = await site.until_job("borrowed", lambda found: found["spec"]["suspend"], "a's job suspended")
        assert left["status"].get("failed", 0) == 0
        assert set(back.values()) == set(borrowed.values())
        assert await site.running("own") == own
        await site.end_job("back")
        await until_whole(site, "borrowed", without=frozenset(borrowed))
        assert await site.running("own") == own


@pytest.mark.timeout(240)
async def test_kueues_gate_and_ours_on_one_pod(site: Stage) -> None:
    """Until Kueue's is gone netgang plans nothing and a later gang has the room; ours goes last, from every pod."""
    await site.api.create(job("own", site, "team-a"))
    await until_whole(site, "own")
    await site.api.create(job("holder", site, "team-b"))
    await until_whole(site, "holder")
    seen: dict[str, list[set[str]]] = {}  # pod → its gates, each time it changed

    async def watch_gates() -> None:
        async for change, one in site.api.watch("Pod", namespace=site.namespace):
            if change != "DELETED" and name_of(one).startswith("plain-"):
                seen.setdefault(name_of(one), []).append({*gates(one)})

    async with beside(watch_gates()):
        # A gang of ours without a Job, which is a pod group of Kueue as well.
        plain = site.gang("plain", SIZE, cpu="4", annotations={"kueue.x-k8s.io/pod-group-total-count": str(SIZE)})
        for one in plain:
            one["metadata"]["labels"] |= {QUEUE: "team-a", "kueue.x-k8s.io/pod-group-name": "plain"}
        await site.api.create_all(plain)
        waiting = await site.until_pods(lambda found: len(found) == SIZE, "plain pods", begin="plain-")
        assert all({GATE, KUEUES} <= {*gates(one)} for one in waiting)
        path = f"/v1/explain/{site.namespace}/plain"
        await site.until_document(site.service, path, lambda found: KUEUES in str(found), "Kueue's gate named")
        await site.add_nodes(*zone_nodes({"c": SIZE}, cpu="5", prefix="more"))
        await site.create_gang("later", SIZE, cpu="4")
        assert await site.zones({*(await site.until_bound("later-", SIZE)).values()}) == {"c"}
        assert await site.bound("plain-") == {}
        await site.end_job("own")
        assert len(await site.zones({*(await site.until_bound("plain-", SIZE, limit_s=60.0)).values()})) == 1
    assert len(seen) == SIZE
    for steps in seen.values():
        assert GATE in steps[0]
        assert all(GATE in step for step in steps if any(gate.startswith("kueue") for gate in step))
        assert steps[-1] == set()


@pytest.mark.timeout(240)
async def test_a_stateful_set_under_a_queue_leaves_for_no_gang(site: Stage) -> None:
    """It has no suspend field, so Kueue's labels alone say whose it is (docs/how-to/teams-and-kueue.md)."""
    await site.api.apply([priority_class(HIGH, 1000)])
    await site.create_gang("beside", SIZE, cpu="4", annotations={"netgang.io/preemptible": "false"})
    await site.until_bound("beside-", SIZE)
    queued = objects.stateful_set("db", site.namespace, SIZE, site.pod("x", scheduler=OURS, cpu="4")["spec"], size=SIZE)
    queued["metadata"]["labels"] = {QUEUE: "team-a"}
    await site.api.create(queued)
    running = await site.until_running("db", SIZE)
    await site.create_gang("urgent", SIZE, cpu="4", priority_class=HIGH)

    def kept(shown: Object) -> bool:
        return "Kueue manages its workload" in str((shown.get("preemption") or {}).get("blocked"))

    await site.until_document(site.service, f"/v1/explain/{site.namespace}/urgent", kept, "explain says why it stays")
    await asyncio.sleep(STILL_S)
    assert await site.running("db") == running
