"""Gangs that stay half bound: who is evicted, when, and who never is (docs/safety.md S8, S10, S11)."""

import asyncio
from collections.abc import AsyncIterator
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from typing import Any

import pytest

from extender.errors import ApiError, ApiUnavailableError, NotFoundError
from scoring import PodUid
from tests.extender.scheduling.world import NO_BUDGET, PARTIAL_S, Object, World, node_json, running, unfinished

pytestmark = pytest.mark.looptime

N1, N2 = node_json("n1"), node_json("n2")
QUIET_S = 30.0  # nothing is removed so soon after start or re-sync


def evicting(world: World) -> AbstractSet[PodUid]:
    state = world.state("g")
    assert state is not None
    return state.evicting


async def half_bound(world: World, *owners: Object, **labels: str) -> str:
    """A gang of two of which one is bound and the other has no room left; the bound one."""
    first, second = await world.planned_gang("g", 2, minimum=2, cpu="3")
    world.api.fail_next("bind", ApiUnavailableError("connection refused"))
    calls = await world.bind_and_settle(first, second)
    [failed] = [call for call in calls if call.answer is not None]
    [bound] = [call for call in calls if call.answer is None]
    world.occupy(failed.node)
    await world.settle()
    pod = world.api.pod(bound.pod)
    pod["metadata"]["ownerReferences"] = list(owners)
    pod["metadata"]["labels"] |= labels
    world.api.add(pod)
    return bound.pod


@asynccontextmanager
async def half(**settings: Any) -> AsyncIterator[tuple[World, str]]:
    """Two nodes and a gang of which half is bound; the bound member."""
    async with running(N1, N2, **settings) as world:
        yield world, await half_bound(world)


async def test_a_gang_that_never_started_is_evicted_after_its_time() -> None:
    async with half() as (world, bound):
        uid = world.uid(bound)
        await world.settle(PARTIAL_S - 2.0)
        assert world.api.evictions == []
        await world.settle(4.0)
        assert world.api.evictions == [uid]
        assert world.counted("evictions_total", reason="partial") == 1.0


async def test_nothing_is_evicted_soon_after_the_start() -> None:
    """A gang in part at start waits for the quiet time and one `partial_timeout_s` after it (docs/safety.md S11)."""
    async with half() as (first, _):
        api = first.api
    async with running(api=api, partial_timeout_s=10.0) as world:
        await world.settle(QUIET_S - 1.0)
        assert api.evictions == []
        await world.settle(15.0)
        assert len(api.evictions) == 1


async def test_nothing_is_evicted_soon_after_a_resync() -> None:
    """The API server forgot the watch's version, and the new list changed something: the quiet time starts again."""
    async with half(partial_timeout_s=50.0) as (world, _):
        await world.settle(45.0)
        world.node("n9")
        world.api.store.compact()
        await world.settle(QUIET_S)
        assert world.api.evictions == []
        await world.settle(60.0)
        assert len(world.api.evictions) == 1


REFUSALS = [NO_BUDGET, ApiError(500, "webhook"), ApiUnavailableError("refused"), NotFoundError(404, "gone")]


@pytest.mark.slow
@pytest.mark.parametrize("error", [*REFUSALS, RuntimeError("a defect")], ids=repr)
async def test_a_refused_eviction_is_tried_again_later(error: Exception) -> None:
    async with half() as (world, bound):
        uid = world.uid(bound)
        world.api.fail_next("evict", error)
        await world.settle(PARTIAL_S + 2.0)
        assert (world.api.calls["evict"], world.api.evictions) == (1, [])
        assert world.counted("internal_errors_total", place="evict") == float(isinstance(error, RuntimeError))
        assert evicting(world) == frozenset()
        await world.settle(PARTIAL_S + 2.0)
        assert world.api.evictions == [uid]


@pytest.mark.parametrize("fields", [{"nodeName": "n7"}, {"phase": "Succeeded"}, {"deleting": True}], ids=str)
async def test_a_gang_that_looks_different_by_now_is_spared(fields: dict[str, object]) -> None:
    """The cache is behind, its watch is silent: the fresh read says so (docs/safety.md S11)."""
    async with half(partial_timeout_s=40.0) as (world, bound):
        world.api.store.silence()
        world.change(bound, **fields)
        lists = world.api.calls["list"]
        await world.settle(44.0)
        assert world.api.calls["list"] > lists
        assert world.api.calls["evict"] == 0
        world.api.store.speak()


async def test_a_member_that_changed_in_the_last_moment_is_spared() -> None:
    """The version that was read is a precondition beside the uid (docs/safety.md S11)."""
    async with half() as (world, bound):
        release = world.api.hold("evict")
        await world.settle(PARTIAL_S + 2.0)
        world.change(bound, phase="Running")
        release.set()
        await world.settle(1.0)
        assert (world.api.calls["evict"], world.api.evictions) == (1, [])


@pytest.mark.parametrize("error", [ApiUnavailableError("connection refused"), NotFoundError(404, "not found")])
async def test_a_gang_that_cannot_be_read_is_spared(error: Exception) -> None:
    async with half() as (world, _):
        world.api.fail_next("list", error)
        await world.settle(PARTIAL_S + 2.0)
        assert world.api.calls["evict"] == 0


JOBS = {  # case: (what the Job allows, how many are evicted, whether its user is told)
    "can afford it": ({"backoffLimit": 6}, 1, False),
    "would fail": ({"backoffLimit": 0}, 0, True),
    "is suspended": ({"backoffLimit": 6, "suspend": True}, 0, False),
}


@pytest.mark.parametrize(("spec", "evicted", "told"), JOBS.values(), ids=JOBS)
async def test_a_job_is_not_made_to_fail(spec: dict[str, object], evicted: int, told: bool) -> None:
    """Within the owner's failure budget the member goes; beyond it stays, with an Event (docs/safety.md S10)."""
    async with running(N1, N2) as world:
        await half_bound(world, world.owner("job", spec=spec))
        await world.settle(PARTIAL_S + 3.0)
        assert len(world.api.evictions) == evicted
        notes = world.told("DisruptionFailed")
        assert bool(notes) == told
        assert all("backoffLimit" in note for note in notes)


async def test_a_pod_of_kueue_stays_and_its_user_is_told() -> None:
    async with running(N1, N2) as world:
        await half_bound(world, **{"kueue.x-k8s.io/managed": "true"})
        await world.settle(PARTIAL_S + 3.0)
        assert ["Kueue manages" in note for note in world.told("DisruptionFailed")] == [True]
        assert world.api.evictions == []


async def test_an_eviction_that_ends_with_the_process_begins_nothing() -> None:
    """It is cancelled in the middle: nothing is reported, so that no other work follows from it."""
    async with unfinished(N1, N2) as world:
        await half_bound(world)
        world.api.hold("evict")
        await world.settle(PARTIAL_S + 2.0)
        [task] = [one for one in asyncio.all_tasks() if one.get_name().startswith("evict ")]
        task.cancel()
        await world.settle()
        assert evicting(world)
