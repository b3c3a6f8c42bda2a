"""Runs that end are learned from, once each, and by the process that saw them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from scoring.ids import GangKey
from tests.extender.scheduling.world import World, node_json, running, unfinished
from tests.fakes.cluster_api import FakeClusterApi

pytestmark = pytest.mark.looptime

ON: dict[str, Any] = {"lengths": {"enabled": True}}
LOOK_S = 2.0


async def start(world: World, name: str) -> tuple[str, ...]:
    """A gang of two that is bound and runs, with the times that the API server writes."""
    pods = await world.planned_gang(name, 2)
    await world.bind_and_settle(*pods)
    at = datetime.fromtimestamp(world.clock.now_s(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for pod in pods:
        stored = world.api.pod(pod)
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
        world.api.add(stored | {"status": {"phase": "Running", "conditions": [scheduled]}})
    return pods


async def run_once(world: World, name: str, *, seconds: float, phase: str = "Succeeded") -> None:
    """A gang of two that starts, runs for so long, and ends so."""
    pods = await start(world, name)
    await world.settle(seconds)
    for pod in pods:
        world.change(pod, phase=phase)
    await world.settle(LOOK_S)
    world.delete(*pods)
    await world.settle(LOOK_S)


def learned_s(world: World, gang: str) -> float | None:
    found = world.service.cache.gang(GangKey(f"default/{gang}"))
    assert found is not None
    return found.length.at_s(0.5) if found.length is not None else None


def jobs_seen(world: World) -> list[int]:
    return [len(runs) for _, runs in world.service.cache.lengths.former.jobs()]


async def test_three_runs_teach_the_length_of_the_fourth() -> None:
    async with running(node_json("n1"), **ON) as world:
        for number in range(3):
            await run_once(world, f"train-{number}", seconds=600.0)
        world.gang("train-3", 2)
        await world.settle(LOOK_S)
        assert jobs_seen(world) == [3]
        assert learned_s(world, "train-3") == pytest.approx(600.0, abs=5.0)


async def test_a_waiting_gang_learns_of_a_run_that_ends_meanwhile() -> None:
    async with running(node_json("n1"), **ON) as world:
        for number in range(2):
            await run_once(world, f"train-{number}", seconds=60.0)
        world.gang("train-9", 2, cpu="9")  # waits: no node has the room, and its template is another
        await world.settle(LOOK_S)
        assert learned_s(world, "train-9") is None
        await run_once(world, "train-2", seconds=60.0)
        assert learned_s(world, "train-9") == pytest.approx(60.0, abs=5.0)


@pytest.mark.parametrize("phase", ["Failed", "Running"])
async def test_a_run_that_failed_or_was_deleted_teaches_nothing(phase: str) -> None:
    async with running(node_json("n1"), **ON) as world:
        await run_once(world, "train-1", seconds=60.0, phase=phase)
        assert jobs_seen(world) == []


async def test_a_restart_counts_what_ran_whole_and_what_had_ended_no_second_time() -> None:
    """As after kill -9: the start is that of API objects."""
    api = FakeClusterApi()
    async with unfinished(node_json("n1"), api=api, **ON) as world:
        await run_half(world)
        [seen] = jobs_seen(world)
        assert seen == 1
        await world.settle(60.0)  # and it is written
    async with unfinished(api=api, **ON) as world:
        assert jobs_seen(world) == [1]
        await world.settle(120.0)
        for pod in ("job-2-0", "job-2-1"):
            world.change(pod, phase="Succeeded")
        await world.settle(LOOK_S)
        [(_, runs)] = world.service.cache.lengths.former.jobs()
        assert [run.length_s for run in runs][-1] == pytest.approx(30, abs=5)
        assert runs[0].length_s > 180


async def run_half(world: World) -> None:
    """One gang ends and stays there; the other goes on."""
    for name in ("job-1", "job-2"):
        await start(world, name)
    await world.settle(30.0)
    for pod in ("job-1-0", "job-1-1"):
        world.change(pod, phase="Succeeded")
    await world.settle(LOOK_S)


async def test_metrics_and_readiness_say_what_is_known() -> None:
    async with running(node_json("n1"), **ON) as world:
        world.gang("g", 2, annotations={"netgang.io/expected-duration": "1h"}, cpu="9")
        world.gang("h", 2, cpu="9")
        await world.settle(5.0)
        assert world.counted("gangs_by_length_source", source="declared") == 1.0
        assert world.counted("gangs_by_length_source", source="unknown") == 1.0
        assert world.counted("former_runs_kept") == 1.0
        assert "lengths" not in (await world.get("/readyz")).json()["detail"]
        world.api.runs.stored = None
        await world.settle(70.0)
        assert world.counted("former_runs_kept") == 0.0
        answer = await world.get("/readyz")
        assert answer.status_code == 200
        assert "there is no ConfigMap" in answer.json()["detail"]["lengths"]
