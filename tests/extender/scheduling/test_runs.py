"""Runs of one gang, what stops a commit, and what is left of one that was stopped (docs/safety.md S23, S24)."""

from collections.abc import Iterable
from typing import Any

import pytest

from extender.controllers.removals import QUIET_S
from scoring.model.reasons import Reason
from tests.extender.scheduling.world import PARTIAL_S, Object, World, answers, group_json, node_json, pod_json, running

pytestmark = pytest.mark.looptime
START = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T01:00:00Z"
BOUND = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:30Z"}


def job_pod(name: str, index: int, *, size: int, created: str = START, phase: str = "Pending", **fields: Any) -> Object:
    """A pod of the Indexed Job `name` in gang g; `phase` Succeeded: it ran on n0."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"uid-{name}", "controller": True}
    made = pod_json(f"{name}-{index}", gang="g", size=size, owner=owner, phase=phase, **fields)
    labels = {"batch.kubernetes.io/job-name": name, "batch.kubernetes.io/job-completion-index": str(index)}
    made["metadata"]["creationTimestamp"] = created
    made["metadata"]["labels"] |= labels
    if phase == "Succeeded":
        made["spec"]["nodeName"] = "n0"
        made["status"]["conditions"] = [BOUND]
    return made


def job(name: str, size: int, **fields: Any) -> list[Object]:
    return [job_pod(name, index, size=size, **fields) for index in range(size)]


def create(world: World, pods: Iterable[Object]) -> list[str]:
    return [str(world.api.add(pod)["metadata"]["name"]) for pod in pods]


async def test_a_run_waits_while_another_lives() -> None:
    async with running(node_json("n0")) as world:
        first = create(world, job("night-1", 2))
        await world.settle()
        await world.starts(*first)
        second = create(world, job("night-2", 2, created=LATER))
        await world.settle(7.0)
        assert {world.refusal(name) for name in second} == {Reason.OTHER_RUN}
        told = {one["regarding"]["name"]: one for one in world.api.events if one["reason"] == "GangWaiting"}
        assert told.keys() == {"night-2-0", "night-2"}
        event = told["night-2-0"]
        assert event["note"].startswith("Gang default/g is run by Job night-1; the pods of Job night-2 wait until ")
        world.change(first[0], phase="Succeeded")
        await world.settle()
        assert world.refusal(second[0]) is Reason.OTHER_RUN
        await world.settle(5.0)
        nudged = len(world.api.patches)
        world.change(first[1], phase="Succeeded")
        await world.settle()
        assert {uid for uid, _ in world.api.patches[nudged:]} == {world.uid(name) for name in second}
        await world.starts(*second)


async def test_a_waiting_run_is_not_bound_by_an_old_offer() -> None:
    async with running(node_json("n0"), node_json("n1")) as world:
        [one] = create(world, job("night-2", 1, created=LATER))
        await world.settle()
        node = world.offered(one)
        create(world, [job_pod("night-1", 0, size=1, nodeName="n0", phase="Running")])
        await world.settle()
        assert await world.bind_answer(one, node) is Reason.OTHER_RUN


async def at_a_group(world: World) -> list[str]:
    world.api.add(group_json(least=3))
    names = create(world, [pod_json(f"g-{number}", group="g") for number in range(3)])
    await world.settle()
    return names


async def test_a_gang_whose_pod_group_goes_is_not_committed() -> None:
    async with running(node_json("n0")) as world:
        names = await at_a_group(world)
        calls = await world.bind_and_settle(*names[:2])
        world.delete(names[2])
        world.api.remove("g", kind="PodGroup")
        await world.settle()
        assert (answers(calls), world.bound()) == ([Reason.INVALID_GROUP] * 2, {})


async def commit_beside_a_slow_gang(world: World, *names: str) -> Any:
    """Bring a gang to bind while the API server answers no Binding and all turns are taken; what lets it answer."""
    others = await world.planned_gang("slow", 8, cpu="100m")
    release = world.api.hold("bind")
    world.bind_offered(*others)
    await world.settle(0.01)
    world.bind_offered(*names)
    await world.settle(0.2)
    return release


@pytest.mark.parametrize("invalid", [True, False], ids=["its PodGroup was deleted", "one of three was deleted"])
async def test_what_waits_for_the_limiter_is_not_posted_once_the_gang_changed(invalid: bool) -> None:
    async with running(node_json("n0", cpu="8")) as world:
        names = await at_a_group(world)
        release = await commit_beside_a_slow_gang(world, *names)
        if invalid:
            world.api.remove("g", kind="PodGroup")
        else:
            world.delete(names[2])
        await world.settle(0.1)
        release.set()
        await world.settle()
        found = answers(world.calls[-3:])
        assert found == [Reason.INVALID_GROUP] * 3 if invalid else Reason.POD_DELETED in found
        assert None not in found
        assert not world.bound().keys() & set(names)


def bare(name: str, size: int, *, created: str = START) -> Object:
    made = pod_json(name, gang="g", size=size)
    made["metadata"]["creationTimestamp"] = created
    return made


async def test_a_gang_that_was_bound_in_part_is_evicted_though_a_successor_came() -> None:
    """A successor comes and finds no room: that it is younger than all Bindings is no proof that the gang started."""
    async with running(node_json("n0", cpu="12")) as world:
        await world.settle(QUIET_S)
        names = create(world, [bare(f"g-{number:02}", 12) for number in range(12)])
        await world.settle()
        release = world.api.hold("bind")
        calls = world.bind_offered(*names)
        await world.settle(0.05)
        assert world.api.calls["bind"] == 8
        gone = max(names, key=world.uid)  # the last to begin
        world.delete(gone)
        await world.settle(0.1)
        release.set()
        await world.settle()
        bound = sorted(world.bound())
        assert (len(bound), any(call.waits for call in calls)) == (8, False), "those that were not under way fail"
        for name in bound:
            world.api.add({**world.api.pod(name), "status": {"phase": "Running", "conditions": [BOUND]}})
        world.occupy("n0", cpu="1")
        create(world, [bare(gone, 12, created=LATER)])
        await world.settle(0.5)
        uids = sorted(world.uid(name) for name in bound)
        await world.settle(PARTIAL_S + 30.0)
        assert sorted(world.api.evictions) == uids


async def test_a_started_gang_is_known_as_such_after_a_restart() -> None:
    async with running(node_json("n0", cpu="3")) as first:
        names = create(first, [bare(f"g-{number}", 3) for number in range(3)])
        await first.settle()
        first.bind_offered(*names)
        await first.settle(3.0)
        api = first.api
    api.remove(names[2])
    api.add(pod_json("stranger", scheduler="default-scheduler", nodeName="n0"))
    api.add(bare(names[2], 3, created=LATER))
    async with running(api=api) as second:
        assert second.refusal(names[2]) is Reason.NO_ROOM
        await second.settle(QUIET_S + 2.0 * PARTIAL_S)
        assert api.evictions == []
        found = second.service.cache.gang_of(second.uid(names[0]))
        assert found is not None
        assert found.started
