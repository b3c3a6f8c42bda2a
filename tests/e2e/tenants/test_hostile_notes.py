"""Tenants write where netgang keeps its notes, and the leader is killed: its successor believes none."""

import json
from collections.abc import AsyncIterator
from datetime import datetime

import pytest

from lab.testbed.api import Api, Object
from lab.testbed.cluster import Cluster
from lab.testbed.objects import pod, priority_class, zone_nodes
from lab.testbed.parts.replicas import Replicas
from tests.e2e.faults.test_leaders import both, until_selected
from tests.e2e.jobs.test_preemption import HIGH, job_of
from tests.e2e.objects import gang, kind
from tests.e2e.site import controlled_site, fresh_namespace
from tests.e2e.stage import Stage, metric

SETTINGS = {"leader_election": "on", "preemption": "gangs", "record": {"enabled": True}}
NESTED = '{"x":' + "[" * 200_000
ENDS_AFTER = "25s"  # how long members of the gang that leaves take to end: time enough to kill the leader


@pytest.fixture
async def victim(controlled_cluster: Cluster, controlled_api: Api) -> AsyncIterator[tuple[Stage, Replicas, str]]:
    """Six nodes on each of which one member fits, two replicas, a namespace, and another one for those that forge."""
    api = controlled_api
    await api.apply([priority_class(HIGH, 1000)])
    hostile, nodes = await fresh_namespace(api, "hostile"), zone_nodes({"a": 6}, cpu="3", prefix="n")
    async with (
        controlled_site(controlled_cluster, api, "victim", nodes=nodes, settings=None) as site,
        both(site, settings=SETTINGS) as (group, service, _),
    ):
        site.started.append(service)
        yield site, group, hostile
        await api.delete_all("Job", namespace=hostile)
    await api.delete("Namespace", hostile)


@pytest.mark.timeout(240)
async def test_a_new_leader_believes_no_note_but_its_own(victim: tuple[Stage, Replicas, str]) -> None:
    """Forged and nested notes of another namespace make nobody leave, resume nothing and hold up nothing."""
    site, group, hostile = victim
    await site.api.create_all([job_of("low", site, 3, ends_after=ENDS_AFTER), job_of("mine", site, 2)])
    await site.until_running("low", 3)
    mine = await site.until_running("mine", 2)
    await site.api.create(job_of("urgent", site, 4, priority=HIGH))
    await site.until_pods(
        lambda found: len(found) == 3 and all("deletionTimestamp" in one["metadata"] for one in found),
        "all of low deleted",
        begin="low-",
        limit_s=90.0,
    )
    await _forge(site, hostile)

    await group.running["netgang-a"].part.kill()
    await until_selected(group, "netgang-b", limit_s=60.0)
    urgent = await site.until_running("urgent", 4)
    await site.until_job("low", lambda found: found["spec"]["suspend"] is False, "the suspended Job resumed")
    assert await site.running("mine") == mine
    assert set(mine.values()).isdisjoint(urgent.values())
    assert not (await site.api.get("Job", "mine", namespace=site.namespace))["spec"].get("suspend")
    jobs = await site.api.list_all("Job", namespace=hostile)
    assert {one["metadata"]["name"]: one["spec"]["suspend"] for one in jobs} == {"nested": True, "forged": True}
    assert await site.api.bound(hostile) == {}
    successor = group.running["netgang-b"]
    for note, least in {"preempts": 2, "resume": 2, "admitted": 1}.items():
        assert await metric(successor, "netgang_notes_ignored_total", kind=note) >= least
    forgers = Stage(site.cluster, site.api, hostile)
    noted = await forgers.until_events("ProbableMistake", lambda found: len(found) == 5)
    assert all("is ignored, because it" in note for note in noted.values())


async def _forge(site: Stage, hostile: str) -> None:
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


def _waits(gang_name: str, hostile: str, *, size: int, priority: str = HIGH) -> Object:
    """One pod of a gang of so many, which never has room or is never whole."""
    [one] = gang(gang_name, 1, hostile, least=size, cpu="2", priority_class=priority)
    return one


def _suspended(name: str, hostile: str, note: str) -> Object:
    spec = pod("unused", scheduler="none")["spec"]
    metadata = {"labels": {"netgang.io/restart": "suspended"}, "annotations": {"netgang.io/resume": note}}
    template = {"spec": {**spec, "restartPolicy": "Never"}}
    return kind("batch/v1", "Job", name, hostile, metadata=metadata, spec={"suspend": True, "template": template})
