"""Gangs that are restarted as a whole: when, how often, and what survives a crash (docs/safety.md S8, S10, S11)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from extender.controllers.removal.suspensions import NOTE
from extender.controllers.removals import QUIET_S
from extender.errors import ApiError, ApiUnavailableError, ConflictError
from tests.extender.beside import playing
from tests.extender.controllers.operator import Operator, schedule
from tests.extender.scheduling.world import World, node_json, running, unfinished

pytestmark = pytest.mark.looptime

NODES = [node_json(f"n{i}", cpu="1500m") for i in range(6)]
SETTLE_S = 10.0  # see `RepairPolicy.settle_s`.
RESTART_S = SETTLE_S + 8.0  # from a loss to the gang's second start, at most


@asynccontextmanager
async def started(world: World, **how: Any) -> AsyncIterator[Operator]:
    operator = Operator(world, **how)
    async with playing(operator.keep(), schedule(world)):
        await world.settle(QUIET_S + 3.0)
        assert len(world.bound()) == operator.size
        operator.first = operator.uids()
        yield operator
        await world.settle(5.0)


@asynccontextmanager
async def suspended(*, node_lost_s: float = 60.0, **how: Any) -> AsyncIterator[tuple[World, Operator]]:
    async with running(*NODES, node_lost_s=node_lost_s) as world, started(world, **how) as operator:
        operator.ends = False
        await loses(world, for_s=SETTLE_S + 4.0)
        assert operator.suspended
        yield world, operator


async def loses(world: World, *, for_s: float = RESTART_S) -> None:
    """A member goes, and so long has passed."""
    world.delete("job-1")
    await world.settle(for_s)


def reasons(world: World) -> list[str]:
    besides = ("AdmissionLapsed", "GangWaiting", "GangCannotStart", "GangStarted")
    return [one["reason"] for one in world.api.events if one["reason"] not in besides]


def restarts(world: World) -> int:
    """How often an owner was told that its gang is restarted; its pods are told too."""
    told = [one for one in world.api.events if one["reason"] == "GangRestarted" and "have ended" not in one["note"]]
    return sum(one["regarding"]["kind"] != "Pod" for one in told)


@pytest.mark.parametrize("kind", ["Job", "TFJob", "StatefulSet"])
async def test_a_gang_that_lost_a_member_is_started_anew_as_a_whole(kind: str) -> None:
    """A StatefulSet has no suspend, and counts no failures: its pods are evicted, all of them."""
    async with running(*NODES) as world, started(world, kind=kind) as operator:
        await loses(world)
        assert operator.anew
        evictions = len(world.api.evictions)
        assert evictions == world.counted("evictions_total", reason="restart")
        assert (evictions > 1, world.api.calls["patch_object"]) == ((True, 0) if kind == "StatefulSet" else (False, 2))
        assert NOTE not in operator.annotations_of_owner
        assert operator.owner["metadata"].get("labels") in (None, {})
        assert operator.restarted == (kind != "StatefulSet")
        assert restarts(world) == 1


@pytest.mark.parametrize("annotations", [{}, {"netgang.io/repair": "replace"}, {"netgang.io/repair": "none"}])
async def test_other_gangs_keep_their_members(annotations: dict[str, str]) -> None:
    """Without annotation members are replaced."""
    async with running(*NODES) as world, started(world, annotations=annotations) as operator:
        await loses(world)
        assert len(world.bound()) == operator.size
        assert len(operator.uids() & operator.first) == operator.size - 1
        assert (world.api.calls["patch_object"], world.api.evictions) == (0, [])


async def test_a_finishing_gang_is_never_touched() -> None:
    """Members succeed one by one, one is collected, another lost: none starts again (docs/safety.md S8)."""
    async with running(*NODES) as world, started(world, size=4) as operator:
        for name in ("job-0", "job-1"):
            world.change(name, phase="Succeeded")
        await world.settle(3.0)
        operator.size = 0  # a Job does not create an index again that has succeeded, nor one for which there is no time
        world.delete("job-0", "job-3")
        await world.settle(RESTART_S * 2)
        assert (world.api.calls["patch_object"], world.api.evictions, reasons(world)) == (0, [], [])


async def test_a_job_that_has_successes_is_never_touched() -> None:
    async with running(*NODES) as world, started(world) as operator:
        operator.ends = False
        operator.put(status={**operator.owner["status"], "succeeded": 1})
        await loses(world)
        assert (world.api.calls["patch_object"], operator.created) == (0, 4)


async def test_a_crash_between_suspend_and_resume() -> None:
    """The next process finds the note on the owner, waits until the pods are gone, and resumes (docs/safety.md S10)."""
    async with unfinished(*NODES) as first:
        operator = Operator(first)
        async with playing(operator.keep(), schedule(first)):
            await first.settle(QUIET_S + 3.0)
            operator.ends = False
            first.delete("job-1")
            await first.settle(SETTLE_S + 4.0)
            assert operator.suspended
            assert NOTE in operator.annotations_of_owner
    async with running(api=first.api) as second:
        operator.world = second
        async with playing(operator.keep(), schedule(second)):
            await second.settle(10.0)
            assert operator.suspended, "its pods are still there"
            operator.ends = True
            await second.settle(6.0)
            assert not operator.suspended
            assert NOTE not in operator.annotations_of_owner
            assert len(second.bound()) == operator.size
            assert operator.restarted == 1


async def test_a_job_that_its_user_suspended_is_never_resumed() -> None:
    async with suspended() as (world, operator):
        owner = operator.owner
        copy = {"name": "copy", "labels": owner["metadata"]["labels"], "annotations": owner["metadata"]["annotations"]}
        world.api.add({"apiVersion": "batch/v1", "kind": "Job", "metadata": copy, "spec": {"suspend": True}})
        operator.put(metadata={**owner["metadata"], "annotations": {}})
        operator.ends = True
        await world.settle(QUIET_S * 12)
        assert operator.suspended
        assert world.api.store.get(operator.resource, "default", "copy")["spec"]["suspend"] is True


async def test_what_this_process_suspended_it_resumes() -> None:
    async with suspended() as (world, operator):
        note = operator.annotations_of_owner[NOTE]
        operator.put(metadata={**operator.owner["metadata"], "annotations": {NOTE: note[:-5]}})  # it fails the check
        operator.ends = True
        await world.settle(QUIET_S)
        assert not operator.suspended


async def test_a_job_that_its_user_resumed_is_only_forgotten() -> None:
    async with suspended() as (world, operator):
        operator.put(spec={"suspend": False})
        await world.settle(5.0)
        assert NOTE not in operator.annotations_of_owner
        assert not operator.suspended


async def test_an_owner_that_is_deleted_meanwhile() -> None:
    async with suspended() as (world, operator):
        world.api.remove("job", kind="Job")
        world.delete(*operator.members())
        await world.settle(5.0)
        assert world.counted("internal_errors_total", place="restart") == 0.0


FAULTS = {  # case: (verb, what it ends with, whether it took effect)
    "suspending conflicts": ("patch_object", ConflictError(409, "the object has been modified"), False),
    "suspending is not answered": ("patch_object", ApiUnavailableError("timeout"), True),
    "suspending is refused": ("patch_object", ApiError(500, "the operator's webhook is down"), False),
    "the owner cannot be read": ("get_object", ApiUnavailableError("connection refused"), False),
    "the gang cannot be read": ("list", ApiError(503, "busy"), False),
}


@pytest.mark.parametrize(("verb", "error", "applied"), FAULTS.values(), ids=FAULTS)
async def test_faults_of_the_api_server(verb: str, error: Exception, applied: bool) -> None:
    async with running(*NODES) as world, started(world) as operator:
        await loses(world, for_s=1.0)
        world.api.fail_next(verb, error, applied=applied)
        await world.settle(RESTART_S + 10.0)
        assert operator.anew
        assert operator.restarted == 1


async def test_an_outage_while_it_is_suspended() -> None:
    async with suspended() as (world, operator):
        for verb in ("get_object", "patch_object"):
            world.api.fail_next(verb, ApiUnavailableError("connection refused"), times=20)
        operator.ends = True
        await world.settle(30.0)
        assert operator.suspended
        world.api.heal()
        await world.settle(10.0)
        assert not operator.suspended


@pytest.mark.parametrize("put_back", [False, True], ids=["as they are noted", "their first note is put back"])
async def test_restarts_are_bounded(put_back: bool) -> None:
    """By the notes on the owner, and by what this process has read or written there before (docs/safety.md S22)."""
    async with running(*NODES) as world, started(world) as operator:
        first: dict[str, str] = {}
        for done in (1, 1, 2, 2):
            await loses(world, for_s=40.0)
            first = first or operator.annotations_of_owner
            if put_back:
                operator.put(metadata={**operator.owner["metadata"], "annotations": first})
            assert restarts(world) == done
            assert len(world.bound()) == operator.size
        notes = world.told("DisruptionFailed")
        assert ["restarted once" in notes[0], "restarted 2 times" in notes[-1]] == [True, True]


ROBOT = {"apiVersion": "example.com/v1", "kind": "Robot", "name": "r", "uid": "u", "controller": True}
QUEUED = {"labels": {"kueue.x-k8s.io/queue-name": "q"}}
UNKNOWN = "how its owner counts removed pods is not known"
LEFT_ALONE: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {  # case: (its metadata, how it is, why)
    "Kueue": (QUEUED, {}, "Kueue"),
    "Kueue, without suspend": (QUEUED, {"kind": "StatefulSet"}, "Kueue"),
    "Kueue, by its pods": ({}, {"kind": "StatefulSet", "labels": {"kueue.x-k8s.io/managed": "true"}}, "Kueue"),
    "another manager": ({}, {"spec": {"managedBy": "example.com/other"}}, "managedBy"),
    "belongs to something else": ({"ownerReferences": [ROBOT]}, {}, UNKNOWN),
    "belongs to itself": ({"ownerReferences": "itself"}, {}, UNKNOWN),
}


@pytest.mark.slow
@pytest.mark.parametrize(("metadata", "how", "said"), LEFT_ALONE.values(), ids=LEFT_ALONE)
async def test_owners_that_must_be_left_alone(metadata: dict[str, Any], how: dict[str, Any], said: str) -> None:
    async with running(*NODES) as world, started(world, **how) as operator:
        if metadata.get("ownerReferences") == "itself":
            metadata = {"ownerReferences": [operator.reference]}
        operator.put(metadata={**operator.owner["metadata"], **metadata})
        await loses(world, for_s=RESTART_S + 60.0)
        assert [said in note for note in world.told("DisruptionFailed")] == [True]
        assert len(operator.uids() & operator.first) == 2
        assert len(world.bound()) == operator.size


async def test_bare_pods_are_only_told_of() -> None:
    """Nobody would create them again."""
    async with running(*NODES) as world:
        names = world.gang("g", 3, annotations={"netgang.io/repair": "restart"})
        async with playing(schedule(world)):
            await world.settle(QUIET_S + 3.0)
            world.delete(names[1])
            await world.settle(RESTART_S)
            assert (len(world.bound()), world.api.evictions) == (2, [])
            assert "no controller would create it again" in world.told("DisruptionFailed")[0]


async def test_a_training_job_waits_for_a_node_that_does_not_answer() -> None:
    """Its pod on it would be taken for a failed one when the job is resumed; a batch Job does not mind."""
    async with running(*NODES, node_lost_s=5.0) as world, started(world, kind="TFJob") as operator:
        lost = world.bound()["job-1"]
        world.node(lost, cpu="1500m", ready=False)
        await world.settle(RESTART_S + 10.0)
        assert not operator.suspended
        for said in (world.explained("g").repair, world.told("DisruptionFailed")[0]):
            assert f"waiting for node {lost} to be removed or to come back" in said
        world.api.remove(lost, kind="Node")
        await loses(world, for_s=130.0)
        assert restarts(world) == 1
        assert len(world.bound()) == operator.size
