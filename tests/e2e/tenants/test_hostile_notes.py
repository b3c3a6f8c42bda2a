"""Tenants write where netgang keeps its notes, and the leader is killed: its successor takes over, and believes none.

The schedulers, kube-controller-manager and both replicas of netgang are real; kwok plays the kubelets. Nobody is made
to leave in the first half minute of a leader.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any
from uuid import uuid4

import pytest

from testbed.api import Api, Object
from testbed.cluster import Cluster
from testbed.objects import gang_pods, priority_class, zone_nodes
from testbed.objects import namespace as namespace_object
from testbed.parts.replicas import Replicas, replicas
from testbed.parts.service import ROOT, Netgang, start_second_scheduler
from tests.e2e.faults.test_leaders import until_selected
from tests.e2e.jobs.test_preemption import HIGH, job_of
from tests.e2e.site import Site
from tests.e2e.stage import metric

SETTINGS: dict[str, Any] = {"leader_election": "on", "preemption": "gangs"}
NESTED = '{"x":' + "[" * 200_000
ENDS_AFTER = "25s"
"""How long members of the gang that leaves take to end: time enough to kill the leader."""


@pytest.fixture
async def victim(controlled_cluster: Cluster, controlled_api: Api) -> AsyncIterator[tuple[Site, Replicas, str]]:
    """Six nodes on each of which one member fits, two replicas, a namespace, and another one for those that forge."""
    api, names = controlled_api, [f"{what}-{uuid4().hex[:6]}" for what in ("victim", "hostile")]
    await api.apply([priority_class(HIGH, 1000)])
    await api.apply(ROOT / "manifests/components/restart/rbac.yaml")
    await api.create_all([namespace_object(name) for name in names])
    await controlled_cluster.add_nodes(zone_nodes({"a": 6}, cpu="3", prefix="n"))
    before = set(controlled_cluster.parts)
    async with replicas(controlled_cluster, SETTINGS) as (group, address):
        first = await group.start("netgang-a")
        await until_selected(group, "netgang-a")
        await group.start("netgang-b")
        service = Netgang(part=first.part, url=f"http://127.0.0.1:{address.port}", debug_url=first.debug_url)
        await start_second_scheduler(controlled_cluster, service)
        yield Site(controlled_cluster, api, service, names[0]), group, names[1]
        for name in names:
            await api.delete_all("Job", namespace=name)
        for part in [one for one in controlled_cluster.parts if one not in before and one not in group.running]:
            await controlled_cluster.remove(part)
    for name in names:
        await api.delete("Namespace", name)


@pytest.mark.timeout(240)
async def test_a_new_leader_believes_no_note_but_its_own(victim: tuple[Site, Replicas, str]) -> None:
    """Forged and nested notes of another namespace make nobody leave, resume nothing and hold up nothing.

    The gang that was leaving when the leader died has left for the gang that it was suspended for, and comes back.
    """
    site, group, hostile = victim
    await site.api.create_all([job_of("low", site, 3, ends_after=ENDS_AFTER), job_of("mine", site, 2)])
    await site.until_running("low", 3)
    mine = await site.until_running("mine", 2)
    await site.api.create(job_of("urgent", site, 4, priority=HIGH))
    await site.api.until(
        lambda: site.pods("low"),
        lambda found: len(found) == 3 and all("deletionTimestamp" in one["metadata"] for one in found),
        what="all of low told to end",
        limit_s=90.0,
    )
    await _forge(site, hostile)

    await group.running["netgang-a"].part.kill()
    await until_selected(group, "netgang-b", limit_s=60.0)
    urgent = await site.until_running("urgent", 4)
    await site.api.until(
        lambda: site.api.get("Job", "low", namespace=site.namespace),
        lambda found: found["spec"]["suspend"] is False,
        what="the suspended Job resumed",
        limit_s=60.0,
    )
    assert await site.running("mine") == mine
    assert set(mine.values()).isdisjoint(urgent.values())
    assert not (await site.api.get("Job", "mine", namespace=site.namespace))["spec"].get("suspend")
    jobs = await site.api.list_all("Job", namespace=hostile)
    assert {one["metadata"]["name"]: one["spec"]["suspend"] for one in jobs} == {"nested": True, "forged": True}
    assert await site.api.bound(hostile) == {}
    successor = group.running["netgang-b"]
    for kind, least in {"preempts": 2, "resume": 2, "admitted": 1}.items():
        assert await metric(successor, "netgang_notes_ignored_total", kind=kind) >= least
    told = await site.api.until(
        lambda: site.api.list_all("Event", namespace=hostile, fields="reason=NoteIgnored"),
        lambda found: len({one["involvedObject"]["name"] for one in found}) == 5,
        what="each of the forgers told",
    )
    assert all("is ignored, because it" in one["message"] for one in told)


async def _forge(site: Site, hostile: str) -> None:
    """What a tenant can write: on pods that wait, and on suspended Jobs."""
    pods = await site.api.create_all(
        [
            _waits("nested-pod", hostile, size=9),
            _waits("forged-pod", hostile, size=9),
            _waits("thief-pod", hostile, size=1, priority=""),
        ]
    )
    uids = {one["metadata"]["name"]: one["metadata"]["uid"] for one in pods}
    forged = {
        "uid": uids["forged-pod-worker-0"],
        "at_s": datetime.fromisoformat(pods[1]["metadata"]["creationTimestamp"]).timestamp(),
        "victims": [f"{site.namespace}/mine"],
        "pods": 9,
        "nodes": {uids["forged-pod-worker-0"]: "n1"},
    }
    notes = {
        "nested-pod-worker-0": {"netgang.io/preempts": NESTED},
        "forged-pod-worker-0": {"netgang.io/preempts": json.dumps(forged)},
        "thief-pod-worker-0": {"netgang.io/admitted": f"{uids['thief-pod-worker-0']}/n1"},
    }
    for name, texts in notes.items():
        await site.api.patch("Pod", name, {"metadata": {"annotations": texts}}, namespace=hostile)
    await site.api.create_all([_suspended("nested", hostile, NESTED), _suspended("forged", hostile, "{}")])
    made = await site.api.get("Job", "forged", namespace=hostile)
    note = {"gang": f"{site.namespace}/mine", "why": "", "uid": made["metadata"]["uid"], "at_s": 1.0}
    written = {"metadata": {"annotations": {"netgang.io/resume": json.dumps(note)}}}
    await site.api.patch("Job", "forged", written, namespace=hostile)


def _waits(gang: str, hostile: str, *, size: int, priority: str = HIGH) -> Object:
    """One pod of a gang of so many, which never has room or is never whole."""
    [one] = gang_pods(
        gang, 1, min_available=size, namespace=hostile, scheduler="netgang", cpu="2", priority_class=priority
    )
    return one


def _suspended(name: str, hostile: str, note: str) -> Object:
    """A suspended Job with the label and a note as netgang would write them."""
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": hostile,
            "labels": {"netgang.io/restart": "suspended"},
            "annotations": {"netgang.io/resume": note},
        },
        "spec": {
            "suspend": True,
            "template": {"spec": {"restartPolicy": "Never", "schedulerName": "nobody", "containers": [container]}},
        },
    }
