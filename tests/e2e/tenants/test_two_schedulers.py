"""Two schedulers that share nodes: what they over-commit is counted, and what a kubelet rejects is replaced.

docs/how-to/gates-and-schedulers.md has its figures from here:

    python -m pytest tests/e2e/tenants/test_two_schedulers.py -n 0 -rP -k race
"""

import asyncio
import os
from functools import partial
from time import monotonic

import pytest

from lab.testbed.objects import zone_nodes
from lab.testbed.processes.stages import REJECT
from tests.e2e.objects import indexed_job
from tests.e2e.site import site_on
from tests.e2e.stage import Stage, metric, say

RACE_S = float(os.environ.get("RACE_S", "15"))
NODES, ROUND_S, KEPT = 12, 0.4, 3  # of 4 CPUs; gangs and plain pods that come each round stay for three


site = site_on([], {})  # no nodes yet: what is created waits


@pytest.mark.timeout(120)
async def test_a_member_that_its_kubelet_rejects_is_replaced(site: Stage) -> None:
    await site.api.create(indexed_job("train", site.namespace, 4, cpu="2"))
    waiting = await site.until_pods(lambda found: len(found) == 4, "four pods wait", begin="train-")
    victim = waiting[1]["metadata"]
    await site.annotate_pod(victim["name"], **{REJECT: "OutOfcpu"})
    await site.add_nodes(*zone_nodes({"a": 6}, cpu="3"))

    first = await site.until_running("train", 4, without=frozenset({victim["uid"]}))
    assert {one["metadata"]["uid"] for one in waiting} - {victim["uid"]} < first.keys(), "the others were not touched"
    failed = [one for one in await site.pods("train-") if one["status"].get("phase") == "Failed"]
    assert [(one["metadata"]["uid"], one["status"]["reason"]) for one in failed] == [(victim["uid"], "OutOfcpu")]
    assert await metric(site.service, "netgang_evictions_total") == 0

    node = next(iter(first.values()))
    await site.create_pod("foreign", on=node, cpu="2")

    async def told() -> dict[str, str]:
        """Node → its Event about this test's pods: Events outlive the node that an earlier test called the same."""
        events = await site.api.list_all("Event", namespace="default", fields="reason=NodeOvercommitted")
        ours = [one for one in events if f"{site.namespace}/" in one["message"]]
        return {one["involvedObject"]["name"]: one["message"] for one in ours}

    notes = await site.api.until(told, lambda found: node in found, what="an Event on the over-committed node")
    assert "request 4 cpu of 3. Of netgang: " in notes[node]
    assert f"of other schedulers: {site.namespace}/foreign." in notes[node]
    count = partial(metric, site.service, "netgang_overcommits_total")
    await site.api.until(count, lambda found: found == 1, what="it is counted")  # /metrics may be a second old


@pytest.mark.timeout(180)
async def test_a_race_for_the_same_nodes(stage: Stage) -> None:
    await stage.add_nodes(*zone_nodes({"a": NODES}, cpu="4"))
    netgang = await stage.netgang()
    await stage.cluster.start_scheduler(name="default")
    seen: set[tuple[str, frozenset[str]]] = set()
    began_s, rounds = monotonic(), 0
    while monotonic() - began_s < RACE_S:
        await asyncio.gather(
            stage.create_gang(f"g{rounds}", 4, cpu="2"),
            stage.api.create_all([stage.pod(f"p{rounds}-{i}", cpu="2") for i in range(4)]),
        )
        await asyncio.sleep(ROUND_S)  # not for anything to happen: the pace of the load
        seen |= await _over(stage)
        if rounds >= KEPT:
            await _end_round(stage, rounds - KEPT)
        rounds += 1
    took_s = monotonic() - began_s
    bound = await metric(netgang, "netgang_bindings_total", outcome="bound")
    counted = await metric(netgang, "netgang_overcommits_total")
    say(
        f"two schedulers: {counted:g} nodes over-committed in {took_s:.0f} s, {rounds} rounds, {bound:g} "
        f"Bindings of netgang's; {len({node for node, _ in seen})} of {NODES} nodes, as the API server showed them"
    )
    assert bound > 0
    assert not seen or counted > 0
    await asyncio.gather(*(_end_round(stage, number) for number in range(max(rounds - KEPT, 0), rounds)))


async def _end_round(stage: Stage, number: int) -> None:
    names = [*(f"g{number}-worker-{i}" for i in range(4)), *(f"p{number}-{i}" for i in range(4))]
    await asyncio.gather(*(stage.api.delete("Pod", one, namespace=stage.namespace, grace_s=0) for one in names))


async def _over(stage: Stage) -> set[tuple[str, frozenset[str]]]:
    """Nodes with three pods of two CPUs or more, and which pods; one list is one moment. Only where one is a gang's."""
    on: dict[str, set[str]] = {}
    for one in await stage.pods():
        if one["spec"].get("nodeName") and "deletionTimestamp" not in one["metadata"]:
            on.setdefault(one["spec"]["nodeName"], set()).add(one["metadata"]["name"])
    mixed = {node: names for node, names in on.items() if any(name.startswith("g") for name in names)}
    return {(node, frozenset(names)) for node, names in mixed.items() if len(names) > 2}
