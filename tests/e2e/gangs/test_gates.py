"""Gangs that wait at a scheduling gate: no attempts while they wait, and whole when they are admitted."""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic
from typing import Any

import pytest

from scoring.model import GATE
from testbed.api import Object
from testbed.objects import HOST_LABEL, ZONE_LABEL, gang_labels, gang_pods, priority_class, zone_nodes
from tests.e2e.invariants import invariants_hold, until_nothing_is_promised
from tests.e2e.objects import volume_in
from tests.e2e.stage import Stage, document, gates, metric, not_scheduled, say

core = pytest.mark.e2e_core
OURS = "netgang"
ADMITTED = "netgang.io/admitted"


def waiting_gang(stage: Stage, name: str, size: int, **fields: Any) -> list[Object]:
    """A gang that needs all its members, each at our gate."""
    return gang_pods(name, size, min_available=size, namespace=stage.namespace, scheduler=OURS, gates=(GATE,), **fields)


def required_terms(one: Object) -> list[Object]:
    """The terms of a pod's required node affinity."""
    affinity = one["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms: list[Object] = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get(
        "nodeSelectorTerms", []
    )
    return terms


def listed_nodes(one: Object) -> set[str]:
    """Nodes that a let-in pod's terms name, by field or by label."""
    lines = [
        line
        for term in required_terms(one)
        for line in (*term.get("matchFields", []), *term.get("matchExpressions", []))
    ]
    return {value for line in lines if line["key"] in ("metadata.name", HOST_LABEL) for value in line["values"]}


def planned_node(one: Object) -> str:
    """The node that the pod was planned for when it was admitted."""
    return str(one["metadata"]["annotations"][ADMITTED].partition(" ")[0])


def gang_of(one: Object) -> str:
    """The name of a pod's gang."""
    return str(one["metadata"]["name"]).rpartition("-worker")[0]


async def failed_attempts(stage: Stage) -> list[str]:
    """What kube-scheduler says of attempts that came to nothing: in its own metric, in Events, in pods' conditions."""
    by_metric = [f"{count:g} attempts {how}" for how, count in (await stage.attempts()).items() if how != "scheduled"]
    events = await stage.api.list_all("Event", namespace=stage.namespace, fields="reason=FailedScheduling")
    gated = [one for one in await stage.pods() if gates(one)]
    by_status = [
        f"{one['metadata']['name']}: {not_scheduled(one)}" for one in gated if "nodes" in str(not_scheduled(one))
    ]
    return [*by_metric, *(one["note"] if "note" in one else one["message"] for one in events), *by_status]


@core
async def test_a_gated_gang_is_let_in_whole(stage: Stage) -> None:
    """A gang that fits is bound on its planned or spare nodes; one that does not stays gated, without an attempt."""
    await stage.add_nodes(*zone_nodes({"a": 6, "b": 3}, cpu="1500m"))
    netgang = await stage.netgang()
    await stage.api.create_all([*waiting_gang(stage, "g", 5), *waiting_gang(stage, "h", 5)])
    bound = await stage.until_bound("", 5)
    assert len({name[0] for name in bound}) == 1
    waiting = [one for one in await stage.pods() if not one["spec"].get("nodeName")]
    assert [gates(one) for one in waiting] == [[GATE]] * 5
    assert await metric(netgang, "netgang_requests_total", verb="filter") == 5
    await stage.end(*bound)
    await stage.until_bound("", 5)


@core
async def test_thirty_gangs_wait_in_room_for_three(stage: Stage) -> None:
    """Three are bound, the others wait gated, no attempt fails; freed room is used at once, on nodes that are named."""
    await stage.add_nodes(*zone_nodes({"a": 18, "b": 10}, cpu="1500m"))
    netgang = await stage.netgang()
    async with invariants_hold(stage.api, netgang, stage.namespace):
        await stage.api.create_all([one for i in range(30) for one in waiting_gang(stage, f"g{i:02}", 8)])
        first = await stage.until_bound("g", 24)
        await _three_whole(stage, first)
        leaves = min(first).rpartition("-worker")[0]
        began_s = monotonic()
        await stage.end(*(name for name in first if name.startswith(leaves)))
        bound = await stage.until_bound("g", 24, limit_s=5.0)
        say(f"room for a gang of 8 freed → bound: {monotonic() - began_s:.2f} s, with the deletion")
        await _three_whole(stage, bound)
        await until_nothing_is_promised(stage.api, netgang)
    assert await failed_attempts(stage) == []
    assert await stage.attempts() == {"scheduled": 32.0}


async def _three_whole(stage: Stage, bound: Iterable[str]) -> None:
    """The bound pods are three whole gangs on nodes named for them; all others is gated."""
    pods = await stage.pods()
    there = [one for one in pods if one["spec"].get("nodeName")]
    assert sorted(one["metadata"]["name"] for one in there) == sorted(bound)
    gangs = [gang_of(one) for one in there]
    assert sorted({gangs.count(gang) for gang in gangs}) == [8]
    assert all(gates(one) == [GATE] for one in pods if one not in there)
    for one in there:
        assert one["spec"]["nodeName"] in listed_nodes(one)
        assert planned_node(one) in listed_nodes(one)


@core
async def test_a_planned_node_dies_between_admission_and_bind(stage: Stage) -> None:
    """The gang was admitted, nobody schedules yet, one of its nodes dies: it starts whole all the same, on a spare."""
    await stage.add_nodes(*zone_nodes({"a": 6}, cpu="1500m"))
    netgang = await stage.start_netgang()
    async with invariants_hold(stage.api, netgang, stage.namespace):
        await stage.api.create_all(waiting_gang(stage, "g", 3))
        let_in = await stage.until_let_in("g", 3)
        dead = planned_node(let_in[0])
        await stage.api.delete("Node", dead)
        await stage.start_second_scheduler(netgang, version=stage.version)
        bound = await stage.until_bound("g", 3)
        assert all(bound[one["metadata"]["name"]] in listed_nodes(one) - {dead} for one in let_in)
        await until_nothing_is_promised(stage.api, netgang)


async def test_a_planned_node_dies_while_its_members_are_held(stage: Stage) -> None:
    """Half of the gang is admitted, its first members are held at bind, and one's node dies: whole on the others."""
    await stage.add_nodes(*zone_nodes({"a": 12}, cpu="1500m"))
    netgang = await stage.netgang({"writes_per_s": 4.0, "node_lost_s": 2.0})
    async with invariants_hold(stage.api, netgang, stage.namespace, commit_s=20.0):
        await stage.api.create_all(waiting_gang(stage, "g", 8))
        let_in = [one for one in await stage.until_let_in("g", 3) if not gates(one)]
        dead = planned_node(let_in[0])
        await stage.api.delete("Node", dead)
        bound = await stage.until_bound("g", 8)
        pods = await stage.pods()
        assert all(bound[one["metadata"]["name"]] in listed_nodes(one) - {dead} for one in pods)
        await until_nothing_is_promised(stage.api, netgang)


async def test_a_gang_with_two_terms_of_its_own(stage: Stage) -> None:
    """Pods that already require one of two kinds of nodes: each term gets the list of nodes too, and all are bound."""
    nodes = zone_nodes({"a": 6, "b": 6}, cpu="1500m")
    for number, one in enumerate(nodes):
        one["metadata"]["labels"]["disk"] = ("ssd", "nvme", "hdd")[number % 3]
    await stage.add_nodes(*nodes)
    netgang = await stage.netgang()
    members = waiting_gang(stage, "g", 4)
    own = [{"matchExpressions": [{"key": "disk", "operator": "In", "values": [kind]}]} for kind in ("ssd", "nvme")]
    for one in members:
        required = {"nodeSelectorTerms": own}
        one["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    await stage.api.create_all(members)
    bound = await stage.until_bound("g", 4)
    disk = {one["metadata"]["name"]: one["metadata"]["labels"]["disk"] for one in nodes}
    assert {disk[node] for node in bound.values()} <= {"ssd", "nvme"}
    for one in await stage.pods():
        assert [term["matchExpressions"][0]["values"] for term in required_terms(one)] == [["ssd"], ["nvme"]]
        assert one["spec"]["nodeName"] in listed_nodes(one)
    await until_nothing_is_promised(stage.api, netgang)
    assert await failed_attempts(stage) == []


@pytest.mark.parametrize("zone", ["a", "b"])
async def test_a_gang_with_a_volume_in_one_zone(stage: Stage, zone: str) -> None:
    """One member's claim is bound to a volume of one zone, which only kube-scheduler knows: all start in that zone."""
    await stage.add_nodes(*zone_nodes({"a": 4, "b": 4}, cpu="1500m"))
    netgang = await stage.netgang()
    volume, claim = volume_in(stage.namespace, zone)
    await stage.api.create(volume)
    try:
        await stage.api.create(claim)
        members = waiting_gang(stage, "g", 3)
        members[0]["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        await stage.api.create_all(members)
        await stage.until_bound("g", 3)
        zones = {one["metadata"]["labels"][ZONE_LABEL] for one in await stage.pods()}
        assert zones == {zone}
        await until_nothing_is_promised(stage.api, netgang)
    finally:
        await stage.api.delete("PersistentVolume", volume["metadata"]["name"])


# nodes with room for how many members → their cpu
SPREAD_OVER = {"one each": "1500m", "several each": "8"}


@pytest.mark.parametrize("cpu", SPREAD_OVER.values(), ids=SPREAD_OVER)
async def test_a_gang_with_topology_spread(stage: Stage, cpu: str) -> None:
    """Members that must spread over nodes, which only kube-scheduler checks: admitted by zone, bound one per node."""
    await stage.add_nodes(*zone_nodes({"a": 4}, cpu=cpu), *zone_nodes({"b": 2}, cpu="1500m", prefix="small"))
    netgang = await stage.netgang()
    members = waiting_gang(stage, "g", 4)
    spread = {
        "maxSkew": 1,
        "topologyKey": HOST_LABEL,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": gang_labels("g", 4)},
    }
    for one in members:
        one["spec"]["topologySpreadConstraints"] = [spread]
    await stage.api.create_all(members)
    bound = await stage.until_bound("g", 4, limit_s=60.0)
    assert sorted(bound.values()) == ["node1", "node2", "node3", "node4"]
    lines = [term["matchExpressions"] for one in await stage.pods() for term in required_terms(one)]
    assert lines == [[{"key": ZONE_LABEL, "operator": "In", "values": ["a"]}]] * 4
    await until_nothing_is_promised(stage.api, netgang)


def never_schedulable(pods: list[Object]) -> list[Object]:
    """Pods that want to be beside a pod that does not exist: no filter that netgang models says so."""
    term = {"labelSelector": {"matchLabels": {"anchor": "nowhere"}}, "topologyKey": ZONE_LABEL}
    for one in pods:
        one["spec"]["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return pods


# who cannot come to bind → which of four members
NEVER = {"the whole gang": slice(None), "one member of four": slice(0, 1)}


@pytest.mark.parametrize("which", NEVER.values(), ids=NEVER)
async def test_a_gang_that_can_never_bind_starves_nobody(stage: Stage, which: slice) -> None:
    """It is first in the queue and gets the room, lapses and backs off, and those behind it have their turns.

    docs/safety.md S5.
    """
    await stage.add_nodes(*zone_nodes({"a": 5}, cpu="1500m"))
    netgang = await stage.netgang({"admit_timeout_s": 3.0, "hold_limit_s": 3.0})
    async with invariants_hold(stage.api, netgang, stage.namespace):
        never = waiting_gang(stage, "never", 4)
        never_schedulable(never[which])
        await stage.api.create_all(never)
        await stage.until_let_in("never", 4)
        for name in ("next-1", "next-2", "next-3"):
            await stage.api.create_all(waiting_gang(stage, name, 4))
        for name in ("next-1", "next-2", "next-3"):
            bound = await stage.until_bound(name, 4, limit_s=30.0)
            await stage.end(*bound)
        assert await stage.bound("never") == {}
        explained = await document(netgang, f"/v1/explain/{stage.namespace}/never")
        assert explained["state"] == "waiting"
        await stage.end(*(f"never-worker-{i}" for i in range(4)))
        await until_nothing_is_promised(stage.api, netgang)


async def test_a_gate_of_somebody_else_reserves_nothing(stage: Stage) -> None:
    """A gang one of whose pods waits at a foreign gate too is not admitted, and takes no room, until that is gone.

    docs/safety.md S5.
    """
    await stage.add_nodes(*zone_nodes({"a": 4}, cpu="1500m"))
    netgang = await stage.netgang()
    members = waiting_gang(stage, "g", 4)
    members[0]["spec"]["schedulingGates"].append({"name": "example.com/quota"})
    await stage.api.create_all(members)
    await stage.api.create_all(waiting_gang(stage, "h", 4))
    bound = await stage.until_bound("h", 4)
    assert all(GATE in gates(one) for one in await stage.pods() if gang_of(one) == "g")
    await stage.end(*bound)
    gone = {"spec": {"schedulingGates": [{"$patch": "delete", "name": "example.com/quota"}]}}
    await stage.api.patch("Pod", "g-worker-0", gone, namespace=stage.namespace)
    await stage.until_bound("g", 4)
    await until_nothing_is_promised(stage.api, netgang)
    assert await failed_attempts(stage) == []


async def test_a_heavier_gang_comes_between_two_patches(stage: Stage) -> None:
    """Half of the gang is admitted when one of higher priority asks for the room: it takes nothing back.

    docs/safety.md S4.
    """
    await stage.add_nodes(*zone_nodes({"a": 8}, cpu="1500m"))
    await stage.api.apply([priority_class("low", 1), priority_class("high", 1000)])
    netgang = await stage.netgang({"writes_per_s": 4.0})
    async with invariants_hold(stage.api, netgang, stage.namespace):
        await stage.api.create_all(waiting_gang(stage, "low", 8, priority_class="low"))
        pods = await stage.until_let_in("low", 3)
        assert any(gates(one) for one in pods), "the test came too late"
        plan = await document(netgang, "/v1/plan")
        assert plan["being_admitted"] == [f"{stage.namespace}/low"]
        assert plan["committed"] == {f"{stage.namespace}/low": 8}
        await stage.api.create_all(waiting_gang(stage, "high", 8, priority_class="high"))
        bound = await stage.until_bound("low", 8)
        assert bound == plan["admitted"][0]["members"]
        pods = await stage.pods()
        assert [gates(one) for one in pods if gang_of(one) == "high"] == [[GATE]] * 8
        await stage.end(*bound)
        await stage.until_bound("high", 8)
        await until_nothing_is_promised(stage.api, netgang)
    assert await failed_attempts(stage) == []
