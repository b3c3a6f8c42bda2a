"""What must hold when things go wrong: crashes, stolen room, rejected members, foreign pods, people with curl."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import httpx
import pytest

from testbed.api import Object
from testbed.objects import gang_pods, pod, priority_class, training_job, zone_nodes
from testbed.parts.service import SCHEDULER_CONFIG
from testbed.processes.stages import HOLD, REJECT
from tests.e2e.stage import Stage, document, filter_calls, metric, not_scheduled, until_held

core = pytest.mark.e2e_core
OURS = "netgang"
NUDGE = "netgang.io/nudge"


def needs_anchor(one: Object) -> Object:
    """The pod may only go to a zone where a pod labelled `anchor` runs: not modelled, so it is planned all the same."""
    term = {"labelSelector": {"matchLabels": {"anchor": "yes"}}, "topologyKey": "topology.kubernetes.io/zone"}
    one["spec"]["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return one


def placed_pod(name: str, where: str, **fields: Any) -> Object:
    """A pod that another client put on a node."""
    one = pod(name, **fields)
    one["spec"]["nodeName"] = where
    return one


@core
async def test_a_refused_pod_is_quiet_and_quick(stage: Stage) -> None:
    """A gang that does not fit costs ≤ 3 filter calls per pod in 30 quiet seconds, and starts < 3 s after room."""
    nodes = zone_nodes({"a": 2}, cpu="1500m")
    for one in nodes:  # kwok's first heartbeat changes a node's conditions, which is no quiet to kube-scheduler
        one["metadata"]["annotations"] = {HOLD: "node-heartbeat"}
    await stage.add_nodes(*nodes)
    netgang = await stage.netgang()
    await stage.api.create_all([placed_pod("x", "node1", namespace=stage.namespace)])
    await stage.api.create_all(gang_pods("g", 2, min_available=2, namespace=stage.namespace, scheduler=OURS))
    await stage.until_refused(2)
    await asyncio.sleep(30.0)  # the promise is about quiet time itself
    assert await filter_calls(netgang) <= 2 * 3
    await stage.end("x")
    await stage.until_bound("g", 2, limit_s=3.0)


@core
async def test_netgang_is_killed_while_nine_of_ten_are_held(stage: Stage) -> None:
    """Kill -9 and a new start: the gang completes, and no pod is bound twice."""
    await stage.add_nodes(*zone_nodes({"a": 11}, cpu="1500m"))
    netgang = await stage.netgang()
    members = gang_pods("g", 10, min_available=10, namespace=stage.namespace, scheduler=OURS)
    needs_anchor(members[9])
    await stage.api.create_all(members)
    await until_held(stage, netgang, 9)
    assert await stage.bound() == {}
    await stage.cluster.restart(netgang.part.name, crash=True)
    await until_held(stage, netgang, 9)
    assert await stage.bound() == {}
    free = {f"node{i}" for i in range(1, 12)} - set(await _planned(netgang, stage))
    await stage.api.create(
        placed_pod("anchor", free.pop(), namespace=stage.namespace, labels={"anchor": "yes"}, cpu="100m")
    )
    await stage.until_bound("g", 10)
    assert await metric(netgang, "netgang_bindings_total", outcome="bound") == 10
    assert await metric(netgang, "netgang_bindings_total", outcome="conflict") == 0


async def _planned(netgang: Any, stage: Stage) -> list[str]:
    plan = await document(netgang, "/v1/plan")
    return [where for gang in plan["admitted"] for where in gang["members"].values()]


@core
async def test_room_is_taken_while_a_gang_is_held(stage: Stage) -> None:
    """Pods of others take reserved room: the held calls fail, the gang is planned again, and no node is over-committed.

    The last member comes once that is known. Did it come in the very moment, netgang could hear of it before the thief.
    """
    await stage.add_nodes(*zone_nodes({"a": 6}, cpu="1500m"))
    netgang = await stage.netgang()
    members = gang_pods("g", 4, min_available=4, namespace=stage.namespace, scheduler=OURS)
    needs_anchor(members[3])
    await stage.api.create_all(members)
    await until_held(stage, netgang, 3)
    taken = sorted(await _planned(netgang, stage))[0]
    await stage.api.create(placed_pod("thief", taken, namespace=stage.namespace))
    await stage.api.until(
        lambda: metric(netgang, "netgang_refusals_total", verb="bind"), lambda refused: refused >= 3, what="3 refused"
    )
    assert await stage.bound("g") == {}
    await stage.api.create(placed_pod("anchor", taken, namespace=stage.namespace, labels={"anchor": "yes"}, cpu="100m"))
    bound = await stage.until_bound("g", 4)
    assert taken not in bound.values()
    assert max(Counter(bound.values()).values()) == 1


@core
async def test_the_ps_belongs_to_the_quorum(stage: Stage) -> None:
    """Three workers of min-available 3 are there, but the ps is not at bind: nobody starts without it.

    docs/safety.md S9.
    """
    await stage.add_nodes(*zone_nodes({"a": 5}, cpu="1500m"))
    netgang = await stage.netgang()
    job = training_job("tf", workers=3, worker_gpu=0, min_available=3, namespace=stage.namespace, scheduler=OURS)
    needs_anchor(job[0])
    await stage.api.create_all(job)
    await until_held(stage, netgang, 3)
    assert await stage.bound() == {}
    free = {f"node{i}" for i in range(1, 6)} - set(await _planned(netgang, stage))
    await stage.api.create(
        placed_pod("anchor", free.pop(), namespace=stage.namespace, labels={"anchor": "yes"}, cpu="100m")
    )
    await stage.until_bound("tf", 4)


@core
async def test_pods_of_other_schedulers_are_left_alone(stage: Stage) -> None:
    """The same labels under another scheduler are load: not held, not patched; mixed gangs are refused.

    docs/safety.md S1.
    """
    await stage.add_nodes(*zone_nodes({"a": 4}, cpu="1500m"))
    await stage.netgang()
    await stage.start_scheduler(version=stage.version)
    await stage.api.create_all(gang_pods("foreign", 2, min_available=3, namespace=stage.namespace))
    await stage.until_bound("foreign", 2)
    mixed = gang_pods("mixed", 2, min_available=2, namespace=stage.namespace, scheduler=OURS)
    other = gang_pods("mixed", 1, min_available=2, namespace=stage.namespace, first=2)
    other[0]["spec"]["schedulingGates"] = [{"name": "example.com/never"}]
    await stage.api.create_all(other)
    await stage.api.create_all(mixed)
    await stage.until_refused(2)
    assert await stage.bound("mixed") == {}

    async def said() -> str:
        """What kube-scheduler, which answers first and writes then, has written on the pod."""
        [one] = [pod for pod in await stage.pods() if pod["metadata"]["name"] == "mixed-worker-0"]
        return not_scheduled(one) or ""

    reason = "netgang: the gang's pods name different schedulers"
    await stage.api.until(said, lambda words: reason in words, what="the refusal on the pod")
    touched = [one["metadata"]["name"] for one in await stage.pods() if NUDGE in one["metadata"].get("annotations", {})]
    assert not [name for name in touched if name.startswith("foreign")]


@core
async def test_bind_is_not_a_back_door(stage: Stage) -> None:
    """A bind for a pair that was never offered is refused; calls marked as debugging change nothing at all.

    docs/safety.md S2.
    """
    await stage.add_nodes(*zone_nodes({"a": 2}, cpu="1500m"))
    netgang = await stage.start_netgang()  # and no kube-scheduler: no other asks
    await stage.api.create_all(gang_pods("g", 2, min_available=2, namespace=stage.namespace, scheduler=OURS))
    await stage.api.until(
        lambda: document(netgang, "/v1/plan"), lambda plan: bool(plan["admitted"]), what="the gang admitted"
    )
    member = await stage.api.get("Pod", "g-worker-0", namespace=stage.namespace)
    plan = await document(netgang, "/v1/plan")
    where = plan["admitted"][0]["members"]["g-worker-0"]
    bind = {
        "PodName": "g-worker-0",
        "PodNamespace": stage.namespace,
        "PodUID": member["metadata"]["uid"],
        "Node": where,
    }
    args = {"Pod": member, "Nodes": None, "NodeNames": ["node1", "node2"]}
    async with httpx.AsyncClient(base_url=netgang.url, timeout=20.0) as client:
        refused = (await client.post("/bind", content=json.dumps(bind))).json()
        assert refused == {"Error": "netgang: this node was not offered to this pod"}
        for _ in range(3):
            answer = (await client.post("/filter?debug", content=json.dumps(args))).json()
            assert answer["NodeNames"] == [where]
            scores = (await client.post("/prioritize?debug", content=json.dumps(args))).json()
            assert {one["Host"] for one in scores} == {"node1", "node2"}
        refused = (await client.post("/bind", content=json.dumps(bind))).json()
        assert refused == {"Error": "netgang: this node was not offered to this pod"}
    assert await document(netgang, "/v1/plan") == plan
    assert await stage.bound() == {}


@core
async def test_people_with_curl_open_no_back_door(stage: Stage) -> None:
    """docs/safety.md S2: calls at the debug port and plain curls offer and bind nothing; kube-scheduler's calls do."""
    await stage.add_nodes(*zone_nodes({"a": 2}, cpu="1500m"))
    netgang = await stage.start_netgang()  # and no kube-scheduler: no other asks
    await stage.api.create_all(gang_pods("g", 2, min_available=2, namespace=stage.namespace, scheduler=OURS))
    before = await stage.api.until(
        lambda: document(netgang, "/v1/plan"), lambda plan: bool(plan["admitted"]), what="the gang admitted"
    )
    planned: dict[str, str] = before["admitted"][0]["members"]
    pods = {one["metadata"]["name"]: one for one in await stage.pods()}

    async def ask(client: httpx.AsyncClient, name: str) -> tuple[list[str], set[str]]:
        body = json.dumps({"Pod": pods[name], "Nodes": None, "NodeNames": ["node1", "node2"]})
        passed = (await client.post("/filter", content=body)).json()["NodeNames"]
        return passed, {one["Host"] for one in (await client.post("/prioritize", content=body)).json()}

    async def bind(client: httpx.AsyncClient, name: str) -> str:
        names = {"PodName": name, "PodNamespace": stage.namespace, "PodUID": pods[name]["metadata"]["uid"]}
        return str((await client.post("/bind", content=json.dumps({**names, "Node": planned[name]}))).json()["Error"])

    as_kube_scheduler, as_curl = {"User-Agent": "Go-http-client/1.1"}, {"User-Agent": "curl/8.5.0"}
    async with (
        httpx.AsyncClient(base_url=netgang.debug_url, headers=as_kube_scheduler) as at_debug_port,
        httpx.AsyncClient(base_url=netgang.url, headers=as_curl) as curl,
        httpx.AsyncClient(base_url=netgang.url, headers=as_kube_scheduler, timeout=20.0) as kube_scheduler,
    ):
        for person in (at_debug_port, curl):
            for name, where in planned.items():
                assert await ask(person, name) == ([where], {"node1", "node2"})
                assert await bind(person, name) == "netgang: a debugging call binds nothing"
            assert (await person.get("/v1/plan")).json() == before
        for name in planned:
            assert await bind(kube_scheduler, name) == "netgang: this node was not offered to this pod"
        assert await document(netgang, "/v1/plan") == before
        assert await stage.bound() == {}
        for name, where in planned.items():
            assert await ask(kube_scheduler, name) == ([where], {"node1", "node2"})
        assert await asyncio.gather(*(bind(kube_scheduler, name) for name in planned)) == ["", ""]
    assert await stage.bound() == planned


@core
async def test_no_preemption_member_by_member(stage: Stage) -> None:
    """A gang of higher priority against a cluster full of lower ones waits, and nobody is evicted.

    docs/safety.md S3.
    """
    await stage.add_nodes(*zone_nodes({"a": 4}, cpu="1500m"))
    await stage.api.apply([priority_class("low", 1), priority_class("high", 1000)])
    await stage.netgang()
    fields: dict[str, Any] = {"namespace": stage.namespace, "scheduler": OURS}
    await stage.api.create_all(gang_pods("low", 4, min_available=4, priority_class="low", **fields))
    await stage.until_bound("low", 4)
    await stage.api.create_all(gang_pods("high", 2, min_available=2, priority_class="high", **fields))
    await stage.until_refused(2)
    pods = await stage.pods()
    assert len([one for one in pods if one["metadata"]["name"].startswith("low")]) == 4
    assert not [one for one in pods if "deletionTimestamp" in one["metadata"]]
    assert not [one for one in pods if one["status"].get("nominatedNodeName")]


@core
async def test_a_kubelet_rejects_a_member_after_bind(stage: Stage) -> None:
    """A member that fails with OutOfcpu is lost; its successor is placed first, beside its siblings.

    docs/safety.md S13.
    """
    await stage.add_nodes(*zone_nodes({"a": 4, "b": 4}, cpu="1500m"))
    netgang = await stage.netgang()
    members = gang_pods("g", 3, min_available=3, namespace=stage.namespace, scheduler=OURS)
    members[2]["metadata"]["annotations"][REJECT] = "OutOfcpu"
    await stage.api.create_all(members)
    bound = await stage.until_bound("g", 3)
    path = f"/v1/explain/{stage.namespace}/g"

    def failed(explained: dict[str, Any]) -> bool:
        return {m["pod"]: m["state"] for m in explained["members"]}["g-worker-2"] == "failed"

    await stage.api.until(lambda: document(netgang, path), failed, what="the rejection noticed")
    await stage.api.create_all(gang_pods("rival", 4, min_available=4, namespace=stage.namespace, scheduler=OURS))
    await stage.api.create_all(gang_pods("g", 1, min_available=3, namespace=stage.namespace, scheduler=OURS, first=3))
    again = await stage.until_bound("g", 4)
    zones = {"node1": "a", "node2": "a", "node3": "a", "node4": "a"}
    assert zones.get(again["g-worker-3"]) == zones.get(bound["g-worker-0"])


@core
async def test_plain_pods_in_the_default_scheduler_configuration(stage: Stage) -> None:
    """Pods without a gang are bound at once, and scored by the network only if an annotation asks for it."""
    await stage.add_nodes(*zone_nodes({"a": 3}, cpu="8"))
    netgang = await stage.start_netgang({"scheduler_names": ["default-scheduler"]})
    await stage.start_scheduler(
        SCHEDULER_CONFIG / "default-scheduler.yaml", extender=netgang.url, version=stage.version, name="default"
    )
    await stage.api.create_all([pod(f"p{i}", namespace=stage.namespace) for i in range(6)])
    await stage.until_bound("p", 6, limit_s=5.0)
    await stage.api.create_all(gang_pods("g", 3, min_available=3, namespace=stage.namespace))
    await stage.until_bound("g", 3)
    plain = pod("asked", namespace=stage.namespace)
    asking = pod("asking", namespace=stage.namespace, annotations={"netgang.io/near": "a"})
    names = ["node1", "node2", "node3"]
    async with httpx.AsyncClient(base_url=netgang.url) as client:

        async def scores(one: Object) -> set[int]:
            body = json.dumps({"Pod": one, "Nodes": None, "NodeNames": names})
            return {entry["Score"] for entry in (await client.post("/prioritize?debug", content=body)).json()}

        assert await scores(plain) == {10}
        assert await scores(asking) != {10}


def _low_before_high(stage: Stage, high: int) -> tuple[list[Object], list[Object]]:
    """Four members of low priority, two of which wait for an anchor, and `high` members of high priority."""
    fields: dict[str, Any] = {"namespace": stage.namespace, "scheduler": OURS}
    lows = gang_pods("low", 4, min_available=4, priority_class="low", **fields)
    for one in lows[2:]:
        needs_anchor(one)
    return lows, gang_pods("high", high, min_available=high, priority_class="high", **fields)


async def _until_admitted(
    stage: Stage, netgang: Any, admitted: str, *, committed: bool, waiting: str = ""
) -> dict[str, str]:
    """Wait until the plan admits this one gang, and lets the others wait behind it; returns pod → node."""

    def planned(plan: dict[str, Any]) -> bool:
        there = [(one["gang"], one["committed"]) for one in plan["admitted"]]
        behind = [one["gang"] for one in plan["waiting"] if one["code"] == "BEHIND"]
        return there == [(f"{stage.namespace}/{admitted}", committed)] and behind == (
            [f"{stage.namespace}/{waiting}"] if waiting else []
        )

    what = f"{admitted} admitted, {committed=}, {waiting=}"
    plan = await stage.api.until(lambda: document(netgang, "/v1/plan"), planned, what=what)
    return dict(plan["admitted"][0]["members"])


async def _until_told_no(stage: Stage, count: int) -> None:
    """Wait until kube-scheduler, to which the places of members not at bind look free, asked for so many and got no."""
    no = "netgang: the room is taken by a gang ahead in the queue"
    await stage.api.until(
        stage.pods,
        lambda found: sum(no in (not_scheduled(one) or "") for one in found) == count,
        what=f"{count} pods told {no!r}",
    )


# what a gang of high priority needs → its members, on four nodes of which the other gang holds two
NEEDED = {"all of the room": 4, "only the room where nobody is at bind": 2}


@core
@pytest.mark.parametrize("size", NEEDED.values(), ids=NEEDED)
async def test_admission_is_a_commitment(stage: Stage, size: int) -> None:
    """From the first member at bind a gang keeps all its places, though one of higher priority asks for them.

    docs/safety.md S4.
    """
    await stage.add_nodes(*zone_nodes({"a": 4}, cpu="1500m"))
    await stage.api.apply([priority_class("low", 1), priority_class("high", 1000)])
    netgang = await stage.netgang()
    lows, highs = _low_before_high(stage, size)
    await stage.api.create_all(lows)
    await until_held(stage, netgang, 2)
    places = await _until_admitted(stage, netgang, "low", committed=True)
    assert len(places) == 4
    await stage.api.create_all(highs)
    assert await _until_admitted(stage, netgang, "low", committed=True, waiting="high") == places
    await _until_told_no(stage, size)
    plan = await document(netgang, "/v1/plan")
    assert [one["members"] for one in plan["admitted"]] == [places]
    assert plan["held_binds"] == 2
    assert await stage.bound() == {}
    anchor = placed_pod("anchor", "node1", namespace=stage.namespace, labels={"anchor": "yes"}, cpu="100m")
    await stage.api.create(anchor)
    assert await stage.until_bound("low", 4) == places
    assert await stage.bound("high") == {}
    assert await metric(netgang, "netgang_refusals_total", verb="bind") == 0
    await stage.end(*places)
    await stage.until_bound("high", size)


@core
@pytest.mark.parametrize("size", NEEDED.values(), ids=NEEDED)
async def test_priority_decides_before_anybody_is_at_bind(stage: Stage, size: int) -> None:
    """Not committed yet (docs/safety.md S4): the same two gangs, no member at bind, and the higher one goes first."""
    await stage.add_nodes(*zone_nodes({"a": 4}, cpu="1500m"))
    await stage.api.apply([priority_class("low", 1), priority_class("high", 1000)])
    netgang = await stage.start_netgang()  # and no kube-scheduler yet, so nobody comes to bind
    lows, highs = _low_before_high(stage, size)
    await stage.api.create_all(lows)
    await _until_admitted(stage, netgang, "low", committed=False)
    await stage.api.create_all(highs)
    await _until_admitted(stage, netgang, "high", committed=False, waiting="low")
    await stage.start_second_scheduler(netgang, version=stage.version)
    await stage.until_bound("high", size)
    assert await stage.bound("low") == {}
