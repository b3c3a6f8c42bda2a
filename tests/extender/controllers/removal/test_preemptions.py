"""Gangs that leave for one of higher priority, or of less that it had: who, how, and what survives a restart."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from extender.controllers.removal import preemptions
from extender.controllers.removal.preemption_words import TIMEOUT_S
from extender.controllers.removal.preemptions import NOTE
from extender.controllers.removal.suspensions import RAN_BEFORE
from extender.controllers.removals import QUIET_S
from extender.errors import ApiError, ApiUnavailableError
from extender.kube.calls import PODS
from extender.signed_notes import NoteKind
from scoring.model.reasons import Reason
from scoring.preempt import preemption
from tests.extender.beside import playing
from tests.extender.controllers.operator import Operator, schedule
from tests.extender.scheduling.world import World, key, node_json, running, unfinished
from tests.fakes.cluster_api import FakeClusterApi
from tests.fakes.notes import bearer_of, notes_of_a_former_process

pytestmark = pytest.mark.looptime

INSTALLED: dict[str, Any] = {"queue": {"starve_limit_s": 1e12}}  # as old as Unix time, all pods would be STARVING
ON: dict[str, Any] = {**INSTALLED, "preemption": "gangs"}
MAKES_ROOM_S = 12.0  # from the arrival of the gang that waits to its start, at most


def nodes(count: int) -> list[dict[str, Any]]:
    return [node_json(f"n{i}", cpu="1500m") for i in range(count)]


def acting(world: World, *operators: Operator) -> AbstractAsyncContextManager[None]:
    return playing(schedule(world), *(one.keep() for one in operators))


def job(world: World, name: str, size: int, *, priority: int = 0, **how: Any) -> Operator:
    how.setdefault("annotations", {})
    return Operator(world, name=name, gang=name, size=size, priority=priority, **how)


@asynccontextmanager
async def full(
    *sizes: tuple[str, int], settings: dict[str, Any] = ON, quiet: bool = True, **how: Any
) -> AsyncIterator[tuple[World, AsyncExitStack, dict[str, Operator]]]:
    """A cluster that is full of these gangs, after the quiet time."""
    async with running(*nodes(sum(size for _, size in sizes)), **settings) as world, AsyncExitStack() as stack:
        jobs = {name: job(world, name, size, **how) for name, size in sizes}
        await stack.enter_async_context(acting(world, *jobs.values()))
        await world.settle(QUIET_S + 3.0 if quiet else 3.0)
        assert len(world.bound()) == sum(size for _, size in sizes)
        yield world, stack, jobs
        await world.settle(5.0)


async def arrives(
    world: World, stack: AsyncExitStack, size: int, *, name: str = "high", for_s: float = MAKES_ROOM_S, **how: Any
) -> Operator:
    """A job of a higher priority comes, and so long has passed."""
    high = job(world, name, size, **{"priority": 10, **how})
    await stack.enter_async_context(acting(world, high))
    await asyncio.sleep(for_s)
    return high


def running_gangs(world: World) -> dict[str, int]:
    names = [name.rpartition("-")[0] for name in world.bound()]
    return {name: names.count(name) for name in sorted(set(names))}


def claims(world: World) -> dict[str, Sequence[str]]:
    return {str(one): list(claim.givers) for one, claim in world.service.cache.snapshot().claims.items()}


def budget(world: World, name: str, allowed: int, **labels: str) -> None:
    body = {"kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}}}
    world.api.add(body | {"status": {"disruptionsAllowed": allowed}})


@pytest.mark.parametrize("kind", ["Job", "TFJob"])
async def test_the_smallest_sufficient_gang_leaves_and_nobody_else(kind: str) -> None:
    async with full(("one", 1), ("two", 2), ("four", 4), kind=kind) as (world, stack, jobs):
        before = {name: one.uids() for name, one in jobs.items()}
        await arrives(world, stack, 2)
        assert running_gangs(world) == {"four": 4, "high": 2, "one": 1}
        assert [name for name, uids in before.items() if jobs[name].uids() != uids] == ["two"]
        assert jobs["two"].uids().isdisjoint(before["two"])
        assert not jobs["two"].suspended
        assert world.waits_for("two") is Reason.NO_ROOM
        assert (world.api.evictions, claims(world)) == ([], {})
        assert world.told_to("GangPreempted").keys() == {"two", "two-0"}
        assert "leaves its place to gang default/high, which has priority 10" in world.told_to("GangPreempted")["two-0"]
        assert "Gang default/two of lower priority leaves" in world.told_to("GangPreempts")["high-0"]
        assert [world.counted("preemptions_total", outcome=one) for one in ("begun", "started")] == [1.0, 1.0]


NOTHING: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # case: (how those that run are, the settings)
    "by default, as none says that it may be suspended": ({}, INSTALLED),
    "switched off": ({"annotations": {"netgang.io/suspendable": "true"}}, {**INSTALLED, "preemption": "off"}),
    "they are protected": ({"annotations": {"netgang.io/preemptible": "false"}}, ON),
    "nobody would make their pods again": ({"spec": {"managedBy": "example.com/other"}}, ON),
    "Kueue manages them": ({"kind": "StatefulSet", "labels": {"kueue.x-k8s.io/queue-name": "team-a"}}, ON),
}


@pytest.mark.slow
@pytest.mark.parametrize(("runs", "settings"), NOTHING.values(), ids=NOTHING)
async def test_nothing_happens(runs: dict[str, Any], settings: dict[str, Any]) -> None:
    """Nobody is suspended or evicted, no room is kept, and the gang that came waits."""
    async with full(("a", 1), ("b", 2), settings=settings, **runs) as (world, stack, jobs):
        before = {name: one.uids() for name, one in jobs.items()}
        await arrives(world, stack, 2, for_s=MAKES_ROOM_S * 3)
        assert {name: one.uids() for name, one in jobs.items()} == before
        assert running_gangs(world) == {"a": 1, "b": 2}
        assert (world.api.calls["patch_object"], world.api.calls["evict"]) == (0, 0)
        assert claims(world) == {}


async def test_an_answer_about_the_same_plan_is_good_for_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[object] = []

    def counted(*asked: Any, **more: Any) -> Any:
        plans.append(asked[1])
        return preemption(*asked, **more)

    monkeypatch.setattr(preemptions, "preemption", counted)
    async with full(("a", 2), annotations={"netgang.io/preemptible": "false"}) as (world, stack, _):
        await arrives(world, stack, 2, for_s=30.0)
        assert 5 <= len(plans) <= 8


async def test_nobody_leaves_in_the_quiet_time() -> None:
    """What the cache shows soon after the start may be less than there is (docs/safety.md S11)."""
    async with full(("a", 2), quiet=False) as (world, stack, _):
        await arrives(world, stack, 2)
        assert running_gangs(world) == {"a": 2}
        await world.settle(QUIET_S)
        assert running_gangs(world) == {"high": 2}


async def test_a_disruption_budget_spares_a_gang() -> None:
    async with full(("two", 2), ("three", 3)) as (world, stack, jobs):
        budget(world, "keep", 1, **{"batch.kubernetes.io/job-name": "two"})
        before = jobs["two"].uids()
        await arrives(world, stack, 2, for_s=MAKES_ROOM_S + 4.0)
        assert (running_gangs(world), jobs["two"].uids()) == ({"high": 2, "two": 2}, before)
        assert any("default/two" in note and "PodDisruptionBudget keep" in note for note in world.told("GangWaiting"))


async def test_gangs_that_share_a_budget_do_not_leave_one_by_one() -> None:
    """Either of the two may leave, both may not: nobody does, because one alone is not enough."""
    async with full(("a", 2), ("b", 2)) as (world, stack, _):
        budget(world, "shared", 2)
        await arrives(world, stack, 4, for_s=MAKES_ROOM_S * 3)
        assert (running_gangs(world), world.api.calls["patch_object"]) == ({"a": 2, "b": 2}, 0)


async def test_the_room_is_kept_while_members_end() -> None:
    """One of two pods is gone: a small gang behind does not get its place, and no other leaves for the same gang."""
    async with full(("two", 2), ("three", 3)) as (world, stack, jobs):
        jobs["two"].ends = False
        await arrives(world, stack, 2)
        assert claims(world) == {"default/high": ["default/two"]}
        world.delete("two-0")
        await arrives(world, stack, 1, name="small", priority=0, for_s=30.0)
        assert running_gangs(world) == {"three": 3, "two": 1}
        assert world.waits_for("small") is Reason.RESERVED
        assert world.explained("high").preemption.makes_room == ("default/two",)
        assert world.explained("two").preemption.leaves_for == "default/high"
        jobs["two"].ends = True
        await world.settle(5.0)
        assert (running_gangs(world), claims(world)) == ({"high": 2, "three": 3}, {})


@pytest.mark.slow
async def test_room_that_is_lost_to_others_is_not_waited_for_for_ever() -> None:
    async with full(("two", 2), ("three", 3)) as (world, stack, jobs):
        jobs["two"].ends = False
        high = await arrives(world, stack, 2)
        place = world.bound()["two-0"]
        world.delete("two-0")
        world.occupy(place, cpu="1500m")
        jobs["two"].ends = True
        await world.settle(TIMEOUT_S - 10.0)
        assert claims(world) == {"default/high": ["default/two"]}
        await world.settle(20.0)
        assert claims(world) == {}
        assert any("did not start in time" in note for note in world.told("GangWaiting"))
        assert world.api.pod(high.members()[0])["metadata"]["annotations"][NOTE] == ""
        await world.settle(30.0)
        assert running_gangs(world) == {"three": 3}
        assert world.counted("preemptions_total", outcome="lapsed") == 1.0
        world.delete("stranger")
        await world.settle(5.0)
        assert running_gangs(world) == {"high": 2, "three": 3}


@pytest.mark.parametrize("error", [ApiUnavailableError("connection refused"), ApiError(403, "forbidden")])
async def test_nobody_leaves_while_the_note_cannot_be_written(error: Exception) -> None:
    """A restart would forget whose room it is; as soon as it can be written they leave."""
    async with full(("two", 2)) as (world, stack, _):
        world.api.fail_next("patch", error, times=3)
        await arrives(world, stack, 2, for_s=2.0)
        assert (running_gangs(world), claims(world)) == ({"two": 2}, {})
        await world.settle(MAKES_ROOM_S + 3.0)
        assert running_gangs(world) == {"high": 2}


async def test_a_gang_that_would_not_leave_after_all_ends_it() -> None:
    async with full(("two", 2)) as (world, stack, _):
        world.api.fail_next("patch_object", ApiError(403, "forbidden"))
        await arrives(world, stack, 2)
        assert (running_gangs(world), claims(world)) == ({"two": 2}, {})
        assert world.counted("preemptions_total", outcome="refused") == 1.0
        assert any("did not leave for it after all" in note for note in world.told("GangWaiting"))
        await world.settle(65.0)
        assert running_gangs(world) == {"high": 2}


async def test_a_gang_that_is_deleted_gives_the_room_back() -> None:
    async with full(("two", 2)) as (world, _stack, jobs):
        jobs["two"].ends = False
        async with AsyncExitStack() as mine:
            high = await arrives(world, mine, 2)
        assert key("high") in world.service.cache.snapshot().claims
        world.delete(*high.members())
        await world.settle(2.0)
        assert (claims(world), world.counted("preemptions_total", outcome="gone")) == ({}, 1.0)
        jobs["two"].ends = True
        await world.settle(5.0)
        assert running_gangs(world) == {"two": 2}


LEVELS: dict[str, Any] = {**INSTALLED, "preemption": "levels", "wide_share": 1, "min_run_s": 300}
SUSPENDABLE: dict[str, Any] = {"cpu": "1500m", "annotations": {"netgang.io/suspendable": "true"}}  # each fills a node
AGE_S = 400.0  # of a gang on all CPUs: 0.11 cluster-hours, one level.


async def says_since_when(world: World) -> None:
    while True:
        await asyncio.sleep(0.5)
        for name in world.bound():
            pod = world.api.pod(name)
            if "lastTransitionTime" not in pod["status"]["conditions"][0]:
                at = datetime.fromtimestamp(world.clock.now_s(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                said = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
                world.api.store.put(PODS, {**pod, "status": {**pod.get("status", {}), "conditions": [said]}})


@asynccontextmanager
async def long_left(
    *, age_s: float = AGE_S, for_s: float = MAKES_ROOM_S
) -> AsyncIterator[tuple[World, Operator, Operator]]:
    """A long gang runs and, when it is old enough, leaves for a short one."""
    async with full(("long", 2), settings=LEVELS, **SUSPENDABLE) as (world, stack, jobs):
        await stack.enter_async_context(playing(says_since_when(world)))
        await world.settle(age_s)
        yield world, jobs["long"], await arrives(world, stack, 2, name="short", priority=0, for_s=for_s)


@pytest.mark.slow
async def test_a_long_gang_leaves_for_a_new_one_and_comes_back() -> None:
    """What it has had is noted on its owner, so that it does not take the place back before the short one has ended."""
    async with long_left() as (world, long, short):
        assert running_gangs(world) == {"short": 2}
        assert world.waits_for("long") is Reason.NO_ROOM
        said = world.told_to("GangPreempted")["long-0"]
        assert "gang default/short, which is of a lower service level (this gang has had" in said
        assert "Gang default/long of a higher service level leaves" in world.told_to("GangPreempts")["short-0"]
        had_h = world.service.cache.snapshot().attained_h[key("long")]
        assert had_h == pytest.approx(0.11, rel=0.1)
        assert long.annotations_of_owner["netgang.io/attained"].startswith('{"gang":"long","hours":0.1')
        assert long.owner["metadata"]["labels"]["netgang.io/restart"] == RAN_BEFORE.partition("=")[2]
        await world.settle(AGE_S)
        assert running_gangs(world) == {"short": 2}
        short.size = 0
        world.delete(*short.members())
        await world.settle(5.0)
        assert (running_gangs(world), claims(world)) == ({"long": 2}, {})


@pytest.mark.slow
async def test_a_level_is_reached_while_the_plan_stays() -> None:
    async with long_left(age_s=1.0, for_s=160.0) as (world, _, _):
        assert running_gangs(world) == {"long": 2}
        await world.settle(180.0)
        assert running_gangs(world) == {"short": 2}


@pytest.mark.slow
@pytest.mark.parametrize("suspended", [True, False], ids=["while it is suspended", "while it waits"])
async def test_what_it_has_had_survives_a_restart(suspended: bool) -> None:
    """Whether the new process finds its owner suspended or resumed; one that begins at 0 would take the place back."""
    api = FakeClusterApi(*nodes(2))
    async with unfinished(api=api, **LEVELS) as world:
        long, short = job(world, "long", 2, **SUSPENDABLE), job(world, "short", 2)
        async with acting(world, long), playing(says_since_when(world)), AsyncExitStack() as stack:
            await world.settle(AGE_S)
            await stack.enter_async_context(acting(world, short))
            long.ends = not suspended
            await world.settle(MAKES_ROOM_S)
    async with running(api=api, **LEVELS) as world:
        long.world = short.world = world
        long.ends = True
        async with acting(world, long, short):
            await world.settle(QUIET_S + 10.0)
            assert running_gangs(world) == {"short": 2}
            assert world.service.cache.snapshot().attained_h[key("long")] == pytest.approx(0.11, rel=0.1)


@pytest.mark.slow
async def test_an_older_note_of_ours_takes_nothing_back() -> None:
    """Neither that of an earlier suspension, nor one on another job that was the same gang once."""
    async with long_left() as (world, long, _):
        had_h, labels = world.service.cache.snapshot().attained_h, long.owner["metadata"]["labels"]
        for name in ("long", "other"):
            owner = world.api.add({**long.owner, "metadata": {"name": name, "labels": labels}})
            old = notes_of_a_former_process().write(NoteKind.ATTAINED, bearer_of(owner), '{"gang":"long","hours":0.05}')
            world.api.add({**owner, "metadata": {**owner["metadata"], "annotations": {NoteKind.ATTAINED.value: old}}})
        await world.settle(305.0)  # they are read every five minutes
        assert world.service.cache.snapshot().attained_h == had_h


async def test_another_job_of_the_name_has_had_nothing() -> None:
    async with long_left() as (world, long, _):
        assert key("long") in world.service.cache.snapshot().attained_h
        long.reference = world.owner("other")
        world.delete(*long.members())
        await world.settle(2.0)
        assert key("long") not in world.service.cache.snapshot().attained_h
