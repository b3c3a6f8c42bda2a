"""Whatever takes pods away is announced on pod and owner; pods of other schedulers stay (docs/safety.md S1, S11)."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import msgspec
import pytest

from extender.cache.cluster import ClusterCache
from extender.controllers.recorder import ANNOUNCE_S, REPEAT_S, Happening, owner_subject
from extender.controllers.removal.suspensions import MARK
from extender.controllers.removals import MOST_ANNOUNCED, QUIET_S, Cause, Fresh, read_members
from extender.convert import pod_from_json
from extender.errors import ApiError, ApiUnavailableError, ConflictError, NotAnnouncedError, NotOursError, TooLongError
from scoring.model import Controller, GangSource
from scoring.model.reasons import Reason
from tests.extender.beside import playing
from tests.extender.controllers.contexts import context_over
from tests.extender.controllers.elastic.cluster import full
from tests.extender.controllers.operator import Operator
from tests.extender.controllers.removal.test_evictions import half_bound
from tests.extender.controllers.removal.test_repins import job
from tests.extender.controllers.removal.test_restarts import NODES as LARGE
from tests.extender.controllers.removal.test_restarts import RESTART_S, loses, reasons, started
from tests.extender.scheduling.world import NO_BUDGET, PARTIAL_S, key, node_json, pod_json, running
from tests.fakes.clock import LoopClock
from tests.fakes.cluster_api import FakeClusterApi

pytestmark = pytest.mark.looptime

N1, N2 = node_json("n1"), node_json("n2")
QUOTA = ApiError(403, 'events "x" is forbidden: exceeded quota: objects, requested: count/events=1')


def told(api: FakeClusterApi, reason: str) -> set[str]:
    return {f"{one['regarding']['kind']}/{one['regarding']['name']}" for one in api.events if one["reason"] == reason}


async def test_an_eviction_is_announced_before_and_a_refusal_of_it_is_told() -> None:
    async with running(N1, N2) as world:
        bound = await half_bound(world, job(world, spec={"backoffLimit": 6}))
        release = world.api.hold("evict")
        await world.settle(PARTIAL_S + 2.0)
        assert (world.api.calls["evict"], world.api.evictions) == (1, [])
        notes = world.told("PodEvicted")
        assert all("did not become whole in time" in note for note in notes)
        assert any(bound in note for note in notes)
        world.api.fail_next("evict", NO_BUDGET)
        release.set()
        await world.settle(1.0)
        assert told(world.api, "DisruptionFailed") == {f"Pod/{bound}"}
        [note] = world.told("DisruptionFailed")
        assert "PodEvicted has announced it: Cannot evict pod as it would violate" in note
        await world.settle(PARTIAL_S + 3.0)
        assert len(world.api.evictions) == 1
        assert told(world.api, "PodEvicted") == {f"Pod/{bound}", "Job/job"}


async def test_suspending_and_resuming_are_announced_before() -> None:
    async with running(*LARGE) as world, started(world) as operator:
        release = world.api.hold("patch_object")
        await loses(world)
        assert (world.api.calls["patch_object"], operator.suspended) == (1, False)
        assert told(world.api, "GangRestarted") == {"Job/job", "Pod/job-0", "Pod/job-1", "Pod/job-2"}
        assert all("All its pods have ended" not in note for note in world.told("GangRestarted"))
        release.set()
        release = world.api.hold("patch_object")
        await world.settle(RESTART_S)
        assert (world.api.calls["patch_object"], operator.suspended) == (2, True)
        assert len([note for note in world.told("GangRestarted") if "All its pods have ended" in note]) == 1
        release.set()
        await world.settle(RESTART_S)
        assert not operator.suspended


async def test_a_scale_in_is_announced_before() -> None:
    async with full() as here:
        release = here.api.hold("patch_object")
        here.create("heavy", 5, least=5)
        await here.until("low is about to be patched", lambda: here.api.calls["patch_object"] == 1)
        going = {f"Pod/{one['metadata']['name']}" for one in here.pods("low")[3:]}
        assert len(going) == 3
        assert told(here.api, "JobResized") == {"Job/low", *going}
        assert all("From 6 to 3 workers: room for default/heavy" in note for note in here.world.told("JobResized"))
        release.set()
        await here.heavy_runs()


async def test_a_suspension_that_is_refused_is_told() -> None:
    async with running(*LARGE) as world, started(world):
        world.api.fail_next("patch_object", ConflictError(409, "the object has been modified"))
        await loses(world, for_s=RESTART_S + 10.0)
        assert told(world.api, "DisruptionFailed") == {"Job/job"}
        assert world.api.calls["patch_object"] == 3


async def turns_during(work: Coroutine[Any, Any, object]) -> int:
    turns, task = 0, asyncio.create_task(work)
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    return turns


async def test_lists_that_tenants_lengthen_cost_slices_and_no_memory() -> None:
    """Pods of a namespace, in pages that are not too long, and owners with a label; of a member what counts is kept."""
    long, label = {"x": "y" * 100_000}, {"netgang.io/restart": "suspended"}
    api = FakeClusterApi(pod_json("mine", gang="g", annotations=long))
    for i in range(50):  # three are work for a slice
        api.add(pod_json(f"p{i}", annotations=long))
        metadata = {"name": f"j{i}", "annotations": long, "labels": label}
        api.add({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata})

    async def owners() -> int:
        return len([kind async for _, kind, _ in api.labelled_owners(MARK)])

    assert await turns_during(owners()) >= 50 // 3
    api.fail_next("list", TooLongError("longer than 16 MiB"), times=2)
    assert await turns_during(read_members(api, key("g"), GangSource.ANNOTATION)) >= 50 // 3
    [member] = await read_members(api, key("g"), GangSource.ANNOTATION)
    assert len(msgspec.json.encode(member.content)) < 500


class Gate:
    def __init__(self) -> None:
        self.api = FakeClusterApi()
        self.gate = context_over(self.api, ClusterCache(), LoopClock()).disruptions
        made = self.api.add({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": {}})
        self.owner = Controller("batch/v1", "Job", "job", made["metadata"]["uid"])

    def read(self, name: str, *, owned: bool = True, phase: str = "Running", **fields: Any) -> Fresh:
        ref = msgspec.structs.asdict(self.owner) | {"apiVersion": "batch/v1", "controller": True} if owned else None
        made = pod_json(name, gang="g", size=2, owner=ref, nodeName="n1", phase=phase, **fields)
        content = self.api.add(made)
        return Fresh(pod_from_json(msgspec.json.encode(content)), content)

    async def evict(self, pod: Fresh) -> None:
        await self.gate.evict(pod, CAUSE, among=[pod])

    async def suspend(self, *going: Fresh) -> None:
        about = owner_subject("default", self.owner)
        await self.gate.change_owner(about, b'{"spec": {"suspend": true}}', CAUSE, going=going)


CAUSE = Cause(Happening.EVICTED, "for a reason.")


@pytest.fixture
async def gate() -> Gate:
    return Gate()


async def test_the_gate_refuses_pods_of_another_scheduler(gate: Gate) -> None:
    """To evict them, and to change an owner of which they are not the last to end."""
    pods, foreign = [gate.read(f"p{i}") for i in range(3)], gate.read("q", scheduler="default-scheduler")
    with pytest.raises(NotOursError, match="default/q is not netgang's"):
        await gate.evict(foreign)
    with pytest.raises(NotOursError):
        await gate.suspend(*pods, foreign)
    assert (gate.api.calls["evict"], gate.api.calls["patch_object"], gate.api.events) == (0, 0, [])
    await gate.suspend(*pods, gate.read("q", scheduler="default-scheduler", phase="Succeeded"))
    assert gate.api.calls["patch_object"] == 1


async def test_events_of_one_act_are_few(gate: Gate) -> None:
    await gate.suspend(*(gate.read(f"p{i:03}") for i in range(1000)))
    assert len(gate.api.events) == MOST_ANNOUNCED + 1
    assert gate.api.events[0]["regarding"]["kind"] == "Job"
    assert gate.api.events[0]["note"] == "for a reason. Pods: p000, p001, p002 and 997 more."


async def test_what_is_tried_again_is_not_told_again(gate: Gate) -> None:
    await gate.evict(gate.read("p", owned=False))
    assert len(gate.api.events) == 1
    pod = gate.read("q")
    gate.api.fail_next("evict", ApiError(429, "disruption budget"), times=5)
    for _ in range(5):
        with pytest.raises(ApiError):
            await gate.evict(pod)
    assert len(gate.api.events) == 1 + 2
    await asyncio.sleep(REPEAT_S + 1.0)
    await gate.evict(pod)
    assert len(gate.api.events) == 1 + 4


async def test_an_api_server_that_refuses_events_keeps_no_pod(gate: Gate) -> None:
    """A tenant's quota on Events keeps none of its pods on nodes: it is logged, and the act goes on."""
    gate.api.fail_next("create_event", QUOTA, times=1000)
    await gate.evict(gate.read("p"))
    assert (gate.api.calls["evict"], gate.api.calls["create_event"]) == (1, 2)


@pytest.mark.parametrize("error", [ApiUnavailableError("refused"), ApiError(429, "too many"), ApiError(500, "etcd")])
async def test_without_an_answer_nothing_is_done(gate: Gate, error: Exception) -> None:
    pod = gate.read("p")
    gate.api.fail_next("create_event", error)
    with pytest.raises(NotAnnouncedError):
        await gate.evict(pod)
    assert (gate.api.calls["evict"], gate.api.events) == (0, [])
    await gate.evict(pod)
    assert (len(gate.api.events), gate.api.calls["evict"]) == (2, 1)


async def test_a_slow_api_server_is_not_waited_for_long(gate: Gate) -> None:
    gate.api.latency_s["create_event"] = 60.0
    began_s = LoopClock().monotonic_s()
    with pytest.raises(NotAnnouncedError):
        await gate.evict(gate.read("p"))
    assert LoopClock().monotonic_s() - began_s == pytest.approx(ANNOUNCE_S)
    assert gate.api.calls["evict"] == 0


NODES = [node_json(f"n{i}") for i in range(4)]
LONG_S = QUIET_S + 2 * PARTIAL_S + 10.0  # until a gang of ours found in part at the start is evicted


@pytest.mark.parametrize("scheduler", ["default-scheduler", "netgang-big"])
async def test_a_mixed_gang_is_refused_and_none_of_it_is_removed(scheduler: str) -> None:
    """Also of two of our own schedulers. Its pods run on, and one pod of either kind is told."""
    async with running(*NODES, scheduler_names=["netgang", "netgang-big"]) as world:
        for i in range(3):
            world.pod(f"g-{i}", gang="g", size=4, scheduler=scheduler, nodeName=f"n{i}", phase="Running")
        for name in ("g-3", "g-4"):
            world.pod(name, gang="g", size=4)
        await world.settle(LONG_S)
        assert world.api.calls["evict"] + world.api.calls["patch_object"] == 0
        assert world.refusal("g-3") is Reason.INVALID_GROUP
        assert world.state("g") is None
        assert world.told_to("GangInvalid").keys() == {"g-0", "g-3"}


async def test_a_gang_that_becomes_mixed_while_it_is_in_part_is_spared() -> None:
    async with running(*NODES) as world:
        world.pod("g-0", gang="g", size=3, cpu="3", nodeName="n0")
        world.pod("g-1", gang="g", size=3, cpu="30")
        await world.settle(PARTIAL_S / 2)
        world.pod("g-2", gang="g", size=3, scheduler="default-scheduler", nodeName="n1")
        await world.settle(LONG_S)
        assert world.api.calls["evict"] == 0


def stranger_of(operator: Operator) -> None:
    """A pod of the same owner under another scheduler, in no gang: a role whose template names another one."""
    pod = pod_json("job-ps", scheduler="default-scheduler", nodeName="n5", owner=operator.reference)
    pod["metadata"]["labels"] = {"batch.kubernetes.io/job-name": operator.name}
    operator.world.api.add(pod)


@pytest.mark.parametrize("kind", ["Job", "TFJob"])
async def test_an_owner_that_has_pods_of_another_scheduler_is_not_suspended(kind: str) -> None:
    """A suspended owner removes all its pods: those of another scheduler too, so it is not done, and is told."""
    async with running(*LARGE) as world, started(world, kind=kind) as operator:
        stranger_of(operator)
        await loses(world)
        assert world.api.calls["patch_object"] == 0
        assert "job-ps" in operator.members()
        [note] = set(world.told("DisruptionFailed"))
        assert "pod job-ps of its owner is not netgang's" in note


async def test_a_pod_that_the_cache_does_not_know_yet_counts() -> None:
    """What the owner's pods are is read from the API server: the watch may be behind (docs/safety.md S11)."""
    async with running(*LARGE) as world:
        operator = Operator(world)
        async with playing(operator.keep()):
            await world.settle(QUIET_S + 3.0)
            for name in operator.members():
                world.bind_offered(name) if not world.api.pod(name)["spec"].get("schedulingGates") else None
            await world.settle(3.0)
            await loses(world, for_s=3.0)
            world.api.store.silence()
            stranger_of(operator)
            await world.settle(RESTART_S)
            world.api.store.speak()
            assert world.api.calls["patch_object"] == 0
            assert "GangRestarted" not in reasons(world)


async def test_a_job_with_leaving_pods_of_another_scheduler_is_not_shrunk() -> None:
    async with full() as here:
        here.asleep.add("low")
        evaluator = pod_json("low-evaluator", scheduler="default-scheduler", cpu="0")
        labels = {"job-name": "low", "job-completion-index": "5"}
        evaluator["metadata"]["labels"] = {f"batch.kubernetes.io/{name}": value for name, value in labels.items()}
        here.api.add(evaluator)
        here.create("heavy", 5, least=5)
        await here.world.settle(30.0)
        assert (here.workers("low"), here.api.calls["patch_object"]) == (6, 0)
