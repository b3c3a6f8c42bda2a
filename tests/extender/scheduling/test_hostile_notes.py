"""What tenants write where netgang keeps its notes: nothing comes of it (docs/safety.md S21, S22)."""

import json
from typing import Any

import pytest

from extender.controllers.removal.restarts import SLOWEST_S
from extender.controllers.removals import QUIET_S
from extender.signed_notes import NoteKind
from tests.extender.controllers.elastic.cluster import ELASTIC
from tests.extender.controllers.operator import Operator
from tests.extender.controllers.removal.test_preemptions import ON, acting, nodes, running_gangs
from tests.extender.scheduling.world import GATED, key, node_json, pod_json, running, unfinished
from tests.fakes.cluster_api import FakeClusterApi
from tests.fakes.notes import bearer_of, notes_of_a_former_process

pytestmark = pytest.mark.looptime

NESTED = '{"x":' + "[" * 200_000  # a parser that follows it needs more stack than there is
WALL_S = 1_700_000_000.0
RESTARTS: dict[str, Any] = {"repair": {"policy": "restart"}}


def waits(name: str, *, preempts: str, priority: int = 10) -> dict[str, Any]:
    note = {"netgang.io/preempts": preempts}
    return pod_json(f"{name}-0", gang=name, priority=priority, annotations=note)


def suspended(name: str, note: object, *, uid: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "uid": uid, "namespace": "hostile"}
    metadata["labels"] = {"netgang.io/restart": "suspended"}
    metadata["annotations"] = {"netgang.io/resume": note if isinstance(note, str) else json.dumps(note)}
    status = {"conditions": [{"type": "Suspended", "status": "True"}]}
    job = {"kind": "Job", "apiVersion": "batch/v1", "metadata": metadata}
    return {**job, "spec": {"suspend": True}, "status": status}


async def test_a_nested_preempts_note_stops_nobody() -> None:
    """A process that finds it starts, plans and admits; RecursionError ended every leader here."""
    async with running(node_json("n1"), waits("evil", preempts=NESTED, priority=0), **ON) as world:
        await world.planned_gang("good", 2)
        await world.starts("good-0", "good-1")


OWNERS = 50


def never_ends(api: FakeClusterApi, number: int) -> None:
    pod = pod_json(f"g{number}-0", gang=f"g{number}", cpu="1m", nodeName="n0")
    api.add({**pod, "metadata": {**pod["metadata"], "namespace": "hostile"}})


async def test_forged_resume_notes_cost_no_requests() -> None:
    api = FakeClusterApi(*nodes(1))
    for number in range(OWNERS):
        note = {"gang": f"hostile/g{number}", "why": "", "uid": f"u{number}", "at_s": WALL_S}
        api.add(suspended(f"evil-{number}", note, uid=f"u{number}"))
        never_ends(api, number)
    async with running(api=api) as world:
        await world.settle(100.0)
        assert world.service.restarts.under_way == frozenset()
        assert api.calls["get_object"] <= 10


@pytest.mark.slow
async def test_resume_notes_of_ours_cost_few_requests() -> None:
    api = FakeClusterApi(*nodes(1))
    notes = notes_of_a_former_process()
    for number in range(OWNERS):
        made = suspended(f"ours-{number}", "", uid=f"u{number}")
        note = json.dumps({"gang": f"g{number}", "why": "", "at_s": WALL_S})
        made["metadata"]["annotations"] = {"netgang.io/resume": notes.write(NoteKind.RESUME, bearer_of(made), note)}
        api.add(made)
        never_ends(api, number)
    async with running(api=api) as world:
        await world.settle(100.0)
        assert len(world.service.restarts.under_way) == OWNERS
        assert 2 * OWNERS <= api.calls["get_object"] <= 11 * 100
        before = api.calls["get_object"]
        await world.settle(300.0)
        assert api.calls["get_object"] - before <= 300 / SLOWEST_S * OWNERS * 1.1


async def test_a_nested_resume_note_leaves_others_their_resumption() -> None:
    api = FakeClusterApi(*nodes(3))
    async with unfinished(api=api, **RESTARTS) as world:
        mine = Operator(world, size=3)
        async with acting(world, mine):
            await world.settle(QUIET_S + 3.0)
            mine.ends = False
            world.delete("job-1")
            await world.settle(20.0)
            assert mine.suspended
    api.add(suspended("evil", NESTED, uid="u-evil"))
    async with running(api=api, **RESTARTS) as world:
        mine.world = world
        mine.ends = True
        async with acting(world, mine):
            await world.settle(20.0)
            assert not mine.suspended
            assert running_gangs(world) == {"job": 3}


async def test_an_admitted_note_jumps_no_queue() -> None:
    api = FakeClusterApi(node_json("n1", cpu="1"))
    api.add(pod_json("evil-0", gang="evil", uid="u-evil", annotations={"netgang.io/admitted": "u-evil/n1"}))
    api.add(pod_json("urgent-0", gang="urgent", priority=10, **GATED))
    async with running(api=api) as world:
        await world.settle()
        assert (list(world.committed), world.api.admitted) == ([key("urgent")], ["urgent-0"])


@pytest.mark.parametrize("text", [NESTED, "[" * 4000], ids=["200 kB", "4 kB"])
async def test_a_nested_last_change_stops_no_elastic_job(text: str) -> None:
    made: dict[str, Any] = {
        "kind": "Job",
        "apiVersion": "batch/v1",
        "metadata": {"name": "evil", "namespace": "default", "annotations": {"netgang.io/min-workers": "1"}},
        "spec": {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": {}},
    }
    api = FakeClusterApi(node_json("n1"))
    api.add({**made, "metadata": {**made["metadata"], "name": "other"}})
    made["metadata"]["annotations"]["netgang.io/last-change"] = text
    api.add(made)
    async with running(api=api, elastic=ELASTIC) as world:
        await world.settle(60.0)
        jobs = (await world.get("/v1/jobs")).json()["jobs"]
        assert sorted(one["job"] for one in jobs) == ["default/evil", "default/other"]
        assert world.counted("internal_errors_total", place="Elastic") == 0.0


async def test_what_is_ignored_is_told_where_people_look() -> None:
    busy = pod_json("busy", scheduler="other", nodeName="n1")
    async with running(node_json("n1", cpu="1"), waits("evil", preempts=NESTED), busy, **ON) as world:
        await world.settle(5.0)
        for number in range(20):
            world.pod("evil-0", gang="evil", uid="u-evil", annotations={"netgang.io/admitted": f"u-evil/n{number}"})
        await world.settle(5.0)
        readings = 20.0 + world.api.calls["pod_status"]  # Each patch of a status is one more reading of the pod
        assert world.counted("notes_ignored_total", kind="admitted") == readings
        assert list(world.told_to("ProbableMistake")) == ["evil-0"]
        assert len([one for one in world.api.events if one["reason"] == "ProbableMistake"]) == 2
        assert "netgang.io/admitted is ignored, because it has no signature" in str(world.explained("evil"))
