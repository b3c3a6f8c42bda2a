"""What must hold when things go wrong: stolen room, foreign pods, people with curl, priorities in the middle."""

import asyncio
from collections import Counter
from functools import partial
from typing import Any

import httpx
import pytest

from lab.testbed.objects import priority_class, zone_nodes
from lab.testbed.processes.stages import HOLD
from scoring.model.reasons import Reason
from tests.e2e.objects import name_of, needs_anchor
from tests.e2e.stage import Stage, document, filter_calls, metric

PRIORITIES = (priority_class("low", 1), priority_class("high", 1000))


async def test_a_refused_pod_is_quiet_and_quick(stage: Stage) -> None:
    """A gang that does not fit costs ≤ 3 filter calls per pod in 30 quiet seconds, and starts < 3 s after room."""
    nodes = zone_nodes({"a": 2}, cpu="1500m")
    for one in nodes:  # kwok's first heartbeat changes a node's conditions, which is no quiet to kube-scheduler
        one["metadata"]["annotations"] = {HOLD: "node-heartbeat"}
    await stage.add_nodes(*nodes)
    netgang = await stage.netgang()
    await stage.create_pod("x", on="node1")
    await stage.until_pods(lambda pods: pods[0]["status"]["phase"] == "Running", "x runs before the quiet", begin="x")
    await stage.create_gang("g", 2)
    await stage.until_refused(2)
    before, nudged = await filter_calls(netgang), await metric(netgang, "netgang_nudges_total", action="nudge")
    await asyncio.sleep(30.0)  # the promise is about quiet time itself
    calls = await filter_calls(netgang) - before
    nudges = await metric(netgang, "netgang_nudges_total", action="nudge") - nudged
    assert calls <= 2 * 3, f"{before:g} before; {nudges:g} nudges, {await stage.attempts()}"
    await stage.end("x")
    await stage.until_bound("g", 2, limit_s=3.0)


async def test_room_is_taken_while_a_gang_is_held(stage: Stage) -> None:
    netgang = await stage.netgang(on={"a": 6})
    [planned] = (await stage.create_held_gang(netgang, "g", 4))["admitted"]
    taken = min(planned["members"].values())
    await stage.create_pod("thief", on=taken)
    refused = partial(metric, netgang, "netgang_refusals_total", verb="bind")
    await stage.api.until(refused, lambda count: count >= 3, what="3 refused")
    assert await stage.bound("g") == {}
    await stage.create_anchor(taken)
    bound = await stage.until_bound("g", 4)
    assert taken not in bound.values()
    assert max(Counter(bound.values()).values()) == 1


@pytest.mark.nightly
@pytest.mark.timeout(300)
async def test_the_api_server_is_silent_for_a_minute(stage: Stage) -> None:
    await stage.create_held_gang(await stage.netgang(on={"a": 6}), "g", 3)
    server = stage.cluster.parts["kube-apiserver"]
    server.freeze()
    try:
        await asyncio.sleep(60.0)  # the promise is about a minute
    finally:
        server.unfreeze()
    assert len(await stage.bound("g")) in (0, 3)
    await stage.create_anchor("node1")
    await stage.until_bound("g", 3, limit_s=60.0)
    await stage.create_gang("h", 2)
    await stage.until_bound("h", 2, limit_s=60.0)


async def test_people_with_curl_open_no_back_door(stage: Stage) -> None:
    """docs/safety.md S2: a debugging call, the debug port and a plain curl change and bind nothing."""
    await stage.add_nodes(*zone_nodes({"a": 2}, cpu="1500m"))
    netgang = await stage.start_netgang()  # and no kube-scheduler: no other asks
    await stage.create_gang("g", 2)
    before = await stage.until_document(netgang, "/v1/plan", lambda plan: bool(plan["admitted"]), "the gang admitted")
    planned: dict[str, str] = before["admitted"][0]["members"]
    pods = {name_of(one): one for one in await stage.pods()}

    async def ask(client: httpx.AsyncClient, name: str, how: str = "") -> tuple[list[str], set[str]]:
        body = {"Pod": pods[name], "Nodes": None, "NodeNames": ["node1", "node2"]}
        passed = (await client.post(f"/filter{how}", json=body)).json()["NodeNames"]
        return passed, {one["Host"] for one in (await client.post(f"/prioritize{how}", json=body)).json()}

    async def bind(client: httpx.AsyncClient, name: str, node: str = "") -> str:
        names = {"PodName": name, "PodNamespace": stage.namespace, "PodUID": pods[name]["metadata"]["uid"]}
        return str((await client.post("/bind", json={**names, "Node": node or planned[name]})).json()["Error"])

    as_kube_scheduler, as_curl = {"User-Agent": "Go-http-client/1.1"}, {"User-Agent": "curl/8.5.0"}
    async with (
        httpx.AsyncClient(base_url=netgang.debug_url, headers=as_kube_scheduler) as at_debug_port,
        httpx.AsyncClient(base_url=netgang.url, headers=as_curl) as curl,
        httpx.AsyncClient(base_url=netgang.url, headers=as_kube_scheduler, timeout=20.0) as kube_scheduler,
    ):
        for name, where in planned.items():
            for person in (at_debug_port, curl):
                assert await ask(person, name) == ([where], {"node1", "node2"})
                assert await bind(person, name) == "netgang: a debugging call binds nothing"
            assert await ask(kube_scheduler, name, "?debug") == ([where], {"node1", "node2"})
            assert await bind(kube_scheduler, name) == Reason.NEVER_OFFERED
        assert await document(netgang, "/v1/plan") == before
        assert await stage.bound() == {}
        for name, where in planned.items():
            assert await ask(kube_scheduler, name) == ([where], {"node1", "node2"})
        assert await asyncio.gather(*(bind(kube_scheduler, name) for name in planned)) == ["", ""]
        pods["theirs"] = await stage.create_pod("theirs", scheduler="another-scheduler", cpu="100m")
        assert (await ask(kube_scheduler, "theirs"))[0] == ["node1", "node2"]
        assert await bind(kube_scheduler, "theirs", "node1") == Reason.NOT_OURS
        pods["plain"] = await stage.create_pod("plain", scheduler="netgang", cpu="100m")
        body = {"Pod": pods["plain"], "Nodes": None, "NodeNames": ["node1"]}
        assert (await kube_scheduler.post("/filter", json=body)).json()["NodeNames"] == ["node1"]
        assert await bind(kube_scheduler, "plain", "node2") == Reason.NEVER_OFFERED, "it was not asked about"
    assert await stage.bound() == planned


async def test_no_preemption_member_by_member(stage: Stage) -> None:
    """A gang of higher priority against a cluster full of lower ones waits, without evictions (docs/safety.md S3)."""
    await stage.api.apply(PRIORITIES)
    await stage.netgang(on={"a": 4})
    await stage.create_gang("low", 4, priority_class="low")
    await stage.until_bound("low", 4)
    await stage.create_gang("high", 2, priority_class="high")
    await stage.until_refused(2)
    assert len(await stage.pods("low")) == 4
    pods = await stage.pods()
    assert not [one for one in pods if "deletionTimestamp" in one["metadata"] or one["status"].get("nominatedNodeName")]


async def test_admission_is_a_commitment(stage: Stage) -> None:
    """From the first member at bind a gang keeps all its places, also those that look free (docs/safety.md S4)."""
    await stage.api.apply(PRIORITIES)
    netgang = await stage.netgang(on={"a": 4})

    async def committed(*behind: str) -> dict[str, str]:
        def planned(plan: dict[str, Any]) -> bool:
            waiting = [one["gang"] for one in plan["waiting"] if one["code"] == "BEHIND"]
            there = [(one["gang"], one["committed"]) for one in plan["admitted"]]
            return (there, waiting) == ([(f"{stage.namespace}/low", True)], list(behind))

        plan = await stage.until_document(netgang, "/v1/plan", planned, f"low committed, {behind=}")
        return dict(plan["admitted"][0]["members"])

    lows = stage.gang("low", 4, priority_class="low")
    await stage.api.create_all([*lows[:2], *map(needs_anchor, lows[2:])])
    await stage.until_held(netgang, 2)
    kept = await committed()
    assert len(kept) == 4
    await stage.create_gang("high", 2, priority_class="high")
    assert await committed(f"{stage.namespace}/high") == kept
    await stage.until_refused(2, reason="netgang: the room is taken by a gang ahead in the queue")
    plan = await document(netgang, "/v1/plan")
    assert [one["members"] for one in plan["admitted"]] == [kept]
    assert plan["held_binds"] == 2
    assert await stage.bound() == {}
    await stage.create_anchor("node1")
    assert await stage.until_bound("low", 4) == kept
    assert await stage.bound("high") == {}
    assert await metric(netgang, "netgang_refusals_total", verb="bind") == 0
    await stage.end(*kept)
    await stage.until_bound("high", 2)
