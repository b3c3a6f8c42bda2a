"""Pods that can start nowhere any more: who is removed, when, and who never is (docs/safety.md S6, S8, S10, S11)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from extender.controllers.removal.losses import GONE_GRACE_S
from extender.controllers.removals import QUIET_S
from extender.errors import ApiError, ApiUnavailableError, ConflictError, NotFoundError
from scoring.model.reasons import Reason
from tests.extender.beside import playing
from tests.extender.controllers.operator import Operator
from tests.extender.scheduling.world import GATED, World, key, node_json, pinned_to, pod_json, running

pytestmark = [pytest.mark.looptime, pytest.mark.slow]  # hours of virtual time

REPIN_S = 300.0  # the default of `repin_timeout_s`
IGNORES = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}  # Evictions cost nothing
SOON_S = GONE_GRACE_S + 3.0  # from the loss of all nodes to the removal, at most
AGAIN_S = 70.0  # after a refusal it is tried again within this time


def nodes(*names: str, **fields: Any) -> list[dict[str, Any]]:
    return [node_json(name, cpu="1500m", **fields) for name in names]


def job(world: World, name: str = "job", **more: Any) -> dict[str, Any]:
    """Create a Job that does not count what is evicted; what its pods write into ownerReferences."""
    return world.owner(name, **({"spec": {"podFailurePolicy": IGNORES}} | more))


def member(name: str, owner: dict[str, Any] | None, *, size: int = 2, gang: str = "g", **fields: Any) -> dict[str, Any]:
    return pod_json(name, gang=gang, size=size, owner=owner, **GATED, **fields)


async def let_in(world: World, *members: dict[str, Any]) -> None:
    """Create members and wait until their gates are gone and the quiet time is over."""
    for one in members:
        world.api.add(one)
    await world.settle(QUIET_S + 1.0)
    assert sorted(one["metadata"]["name"] for one in members) == sorted(world.api.admitted)


@asynccontextmanager
async def admitted(*names: str, **settings: Any) -> AsyncIterator[World]:
    """Nodes, n1 and n2 unless others are named, and a Job's pods p and q, admitted to them."""
    async with running(*nodes(*(names or ("n1", "n2"))), **settings) as world:
        owner = job(world)
        await let_in(world, member("p", owner), member("q", owner))
        yield world


def add(world: World, *names: str, **fields: Any) -> None:
    for one in nodes(*names, **fields):
        world.api.add(one)


async def lose(world: World, *names: str, for_s: float = 0.0) -> None:
    for name in names:
        world.api.remove(name, kind="Node")
    await world.settle(for_s)


def forbid_suspending(world: World) -> None:
    """Take from netgang the right to patch jobs, as where an operator took it away."""
    world.api.fail_next("patch_object", ApiError(403, "jobs.batch is forbidden"), times=1000)


def told(world: World) -> list[tuple[str, str]]:
    """Reason and object of the Events on removals, but of suspensions that are refused."""
    events = [one for one in world.api.events if one["reason"] in ("PodEvicted", "DisruptionFailed")]
    return [(one["reason"], one["regarding"]["name"]) for one in events if "Not done now" not in one["note"]]


def why_they_stay(world: World) -> list[str]:
    return [note for note in world.told("DisruptionFailed") if "Not done now" not in note]


@asynccontextmanager
async def pair(spec: dict[str, Any] | None, *, owner: dict[str, Any] | None = None) -> AsyncIterator[World]:
    """Pods p and q of a Job with this spec, or of this owner, that netgang may not suspend; their nodes are gone."""
    async with running(*nodes("n1", "n2")) as world:
        mine = owner if spec is None else job(world, spec=spec)
        forbid_suspending(world)
        await let_in(world, member("p", mine), member("q", mine))
        await lose(world, "n1", "n2")
        yield world


async def test_all_nodes_gone_pods_are_recreated_elsewhere() -> None:
    async with admitted("n1", "n2", "n3") as world:
        names, [owner] = ("p", "q"), world.api.pod("p")["metadata"]["ownerReferences"]
        uids = sorted(world.uid(name) for name in names)
        await lose(world, "n1", "n2", "n3")
        add(world, "m1", "m2")
        await world.settle(GONE_GRACE_S - 1.0)
        assert world.api.evictions == []
        await world.settle(SOON_S - GONE_GRACE_S + 1.0)
        assert sorted(world.api.evictions) == uids
        assert world.counted("evictions_total", reason="repin") == 2.0
        assert told(world) == [("PodEvicted", "p"), ("PodEvicted", "job"), ("PodEvicted", "q")]
        for name in names:
            world.api.add(member(name, owner))
        await world.settle()
        assert sorted(world.committed[key("g")].values()) == ["m1", "m2"]
        await world.bind_and_settle(*names)
        assert len(world.api.bindings) == 2


async def test_a_node_that_comes_back_is_no_loss() -> None:
    async with admitted(spares=0) as world:
        for _ in range(3):
            await lose(world, "n1", "n2", for_s=GONE_GRACE_S - 2.0)
            add(world, "n1", "n2")
            await world.settle(2.0)
        await world.settle(SOON_S)
        assert world.api.evictions == []


ROOM = {"none": (0.0, 2), "a moment, as good as none": (10.0, 2), "long enough to start the time again": (40.0, 0)}


@pytest.mark.parametrize(("free_s", "evicted"), ROOM.values(), ids=ROOM)
async def test_nodes_that_stay_full_but_for_a_while(free_s: float, evicted: int) -> None:
    """Room for less than half a minute, when no pod was bound, does not restart `repin_timeout_s`."""
    async with admitted(spares=0) as world:
        for unschedulable, for_s in ((True, REPIN_S - 30.0), (False, free_s), (True, max(27.0 - free_s, 0.0))):
            add(world, "n1", "n2", unschedulable=unschedulable)
            await world.settle(for_s)
        assert world.api.evictions == []
        await world.settle(24.0)
        assert len(world.api.evictions) == evicted


RAY = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "r", "uid": "1", "controller": True}
REFUSING: dict[str, tuple[dict[str, Any] | None, dict[str, Any] | None, str]] = {
    # case: (the Job's spec, else the owner, what each pod's only Event says of it; empty: there is none)
    "bare": (None, None, "no controller would create it again"),
    "budget used up": ({"backoffLimit": 1}, None, "its Job's backoffLimit would be exceeded"),
    "kind not known": (None, RAY, "how its owner counts removed pods"),
    "suspended": ({"suspend": True}, None, ""),
}


@pytest.mark.parametrize(("spec", "owner", "said"), REFUSING.values(), ids=REFUSING)
async def test_owners_that_do_not_allow_it(
    spec: dict[str, Any] | None, owner: dict[str, Any] | None, said: str
) -> None:
    async with pair(spec, owner=owner) as world:
        await world.settle(5 * AGAIN_S)
        assert world.api.calls["evict"] == 0
        assert sorted(told(world)) == ([("DisruptionFailed", "p"), ("DisruptionFailed", "q")] if said else [])
        assert all(said in note for note in why_they_stay(world))


async def test_a_budget_that_grows() -> None:
    async with pair({"backoffLimit": 1}) as world:
        await world.settle(SOON_S + 20.0)
        age = world.api.calls["get_object"]
        await world.settle(15.0)
        assert world.api.calls["get_object"] == age
        job(world, spec={"backoffLimit": 2})
        await world.settle(AGAIN_S)
        assert (len(world.api.evictions), world.api.calls["get_object"]) == (2, age + 1)


async def test_one_who_must_stay_keeps_the_others() -> None:
    """A gang that never started is of no use in part: nothing is spent for it."""
    async with running(*nodes("n1", "n2", "n3", "n4")) as world:
        await let_in(world, member("p", job(world)), member("q", None))
        await lose(world, "n1", "n2", "n3", "n4", for_s=SOON_S)
        assert (world.api.evictions, told(world)) == ([], [("DisruptionFailed", "q")])


async def test_gangs_do_not_wait_for_one_that_is_refused() -> None:
    async with running(*nodes("n1", "n2")) as world:
        no, yes = job(world, "no", spec={"backoffLimit": 0}), job(world, "yes")
        forbid_suspending(world)
        await let_in(world, member("p", no, gang="g", size=1), member("q", yes, gang="h", size=1))
        uid = world.uid("q")
        await lose(world, "n1", "n2", for_s=SOON_S + 15.0)
        assert world.api.evictions == [uid]
        assert sorted(told(world)) == [("DisruptionFailed", "p"), ("PodEvicted", "q"), ("PodEvicted", "yes")]


REFUSED = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


@asynccontextmanager
async def let_in_job(
    *more: str, suspendable: bool = True, spec: dict[str, Any] | None = None, refused: bool = True, **settings: Any
) -> AsyncIterator[tuple[World, Operator]]:
    """A Job of two, admitted to n1 and n2 of these nodes, after the quiet time; `refused` by other filters there."""
    async with running(*nodes("n1", "n2", *more), spares=0, **settings) as world:
        if not suspendable:
            forbid_suspending(world)
        operator = Operator(world, size=2, annotations={}, spec=spec or {"backoffLimit": 6})
        async with playing(operator.keep()):
            await world.settle(QUIET_S + 1.0)
            assert set(world.committed[key("g")].values()) == {"n1", "n2"}
            operator.first = operator.uids()
            for name in operator.members() if refused else ():
                world.api.add({**world.api.pod(name), "status": REFUSED})
            yield world, operator


FREE: dict[str, tuple[dict[str, Any], bool]] = {  # case: (the Job's spec, whether it may be suspended, else evicted)
    "an eviction would be too much": ({"backoffLimit": 0}, True),
    "an eviction would be within its budget": ({"backoffLimit": 6}, True),
    "an eviction costs nothing": ({"backoffLimit": 0, "podFailurePolicy": IGNORES}, False),
}


@pytest.mark.parametrize(("spec", "suspendable"), FREE.values(), ids=FREE)
async def test_what_is_refused_is_suspended_and_costs_nothing(spec: dict[str, Any], suspendable: bool) -> None:
    """Netgang had named the nodes: the owner's budget is not spent on it (docs/safety.md S27)."""
    async with let_in_job("n3", "n4", spec=spec, suspendable=suspendable) as (world, operator):
        await world.settle(25.0)
        assert not operator.suspended
        assert operator.uids().isdisjoint(operator.first)
        assert set(world.committed[key("g")].values()) == {"n3", "n4"}
        for name in operator.members():
            required = world.api.pod(name)["spec"]["affinity"]["nodeAffinity"]
            [term] = required["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
            assert [one["key"] for one in term["matchExpressions"]] == ["topology.kubernetes.io/zone"]
        assert bool(world.api.evictions) is not suspendable


async def test_what_is_refused_waits_where_it_would_be_no_better_elsewhere() -> None:
    """No node is left: the pods stay as they are, however long, and start when kube-scheduler asks about a node."""
    async with let_in_job(exclusion_ttl_s=60.0) as (world, operator):
        await world.settle(2 * REPIN_S)
        assert world.waits_for("g") is Reason.FILTERED
        assert (operator.uids(), world.api.evictions, world.api.calls["patch_object"]) == (operator.first, [], 0)
        for name in operator.members():
            world.filter(name, nodes=["n1", "n2"])
        await world.settle()
        await world.bind_and_settle(*operator.members())
        assert len(world.api.bindings) == 2


async def test_what_is_refused_is_kept_where_it_cannot_be_had_for_nothing() -> None:
    """Pods that their Job would count stay, and an Event says what would help (docs/safety.md S27)."""
    async with let_in_job("n3", "n4", suspendable=False) as (world, operator):
        await world.settle(AGAIN_S)
        assert world.api.evictions == []
        assert [reason for reason, _ in told(world)].count("DisruptionFailed") == 2
        [note, _] = why_they_stay(world)
        assert "would count it as failed" in note
        assert "helm upgrade" in note
        assert not operator.suspended


@pytest.mark.parametrize(("allowed", "evicted"), [(True, 0), (False, 2)])
async def test_a_job_that_lost_all_its_nodes_is_suspended_where_that_is_allowed(allowed: bool, evicted: int) -> None:
    async with let_in_job(suspendable=allowed, refused=False) as (world, operator):
        await lose(world, "n1", "n2")
        add(world, "m1", "m2")
        await world.settle(30.0)
        assert operator.uids().isdisjoint(operator.first)
        assert len(world.api.evictions) == evicted
        assert set(world.committed[key("g")].values()) == {"m1", "m2"}


async def test_nothing_is_removed_soon_after_the_start() -> None:
    """What a new process finds stranded waits for the quiet time (docs/safety.md S11)."""
    async with admitted() as first:
        api = first.api
    for name in ("n1", "n2"):
        api.remove(name, kind="Node")
    async with running(api=api) as world:
        reads = api.calls["get"]
        await world.settle(QUIET_S - 2.0)
        assert (api.evictions, api.calls["get"]) == ([], reads)
        await world.settle(5.0)
        assert len(api.evictions) == 2


STRANGE: dict[str, dict[str, Any]] = {  # case: what the API server has of p and the cache does not
    "bound": {"nodeName": "n1"},
    "running": {"phase": "Running"},
    "going": {"deleting": True},
    "no list": {"affinity": None},
    "another list": {"affinity": pinned_to("n9")},
}


@pytest.mark.parametrize("fields", STRANGE.values(), ids=STRANGE)
async def test_pods_that_look_different_by_now_are_spared(fields: dict[str, Any]) -> None:
    async with admitted() as world:
        await lose(world, "n1", "n2", for_s=GONE_GRACE_S - 2.0)
        world.api.store.silence()
        world.change("p", **fields)
        await world.settle(SOON_S)
        assert world.api.calls["get"] > 0
        assert world.api.calls["evict"] == 0
        world.api.store.speak()


FAILURES: dict[str, tuple[str, Exception]] = {
    "pods cannot be read": ("get", ApiUnavailableError("connection refused")),
    "a pod is gone": ("get", NotFoundError(404, "not found")),
    "the owner cannot be read": ("get_object", ApiError(403, "forbidden")),
    "the owner is gone": ("get_object", NotFoundError(404, "not found")),
    "eviction fails": ("evict", ApiError(500, "webhook failed")),
    "the pod has changed": ("evict", ConflictError(409, "resourceVersion")),
}


@pytest.mark.parametrize(("verb", "error"), FAILURES.values(), ids=FAILURES)
async def test_what_fails_is_tried_again_soon(verb: str, error: Exception) -> None:
    async with admitted() as world:
        world.api.fail_next(verb, error)
        await lose(world, "n1", "n2", for_s=SOON_S)
        assert len(world.api.evictions) < 2
        await world.settle(10.0)
        assert len(world.api.evictions) == 2


async def test_a_new_list_during_the_attempt_ends_it() -> None:
    """What was decided on may be behind what was just read (docs/safety.md S11)."""
    async with admitted() as world:
        release = world.api.hold("get_object")
        await lose(world, "n1", "n2", for_s=SOON_S)
        world.api.store.hang_up()
        world.api.add(node_json("tiny", cpu="1m"))
        world.api.store.compact()
        await world.settle(5.0)
        release.set()
        await world.settle(QUIET_S - 10.0)
        assert world.api.calls["evict"] == 0
        await world.settle(20.0)
        assert len(world.api.evictions) == 2


async def test_pods_that_get_a_place_during_the_attempt_stay() -> None:
    async with admitted() as world:
        release = world.api.hold("get_object")
        await lose(world, "n1", "n2", for_s=SOON_S)
        add(world, "n1", "n2")
        await world.settle(1.0)
        release.set()
        await world.settle(1.0)
        assert world.api.calls["evict"] == 0


async def test_a_removal_that_is_not_through_is_waited_for() -> None:
    """A Job's pods stay until it has counted them: another round before that would not know what it costs."""
    async with running(*nodes("n1", "n2", "n3"), spares=0) as world:
        mine = job(world)
        await let_in(world, *(member(name, mine, size=3) for name in ("p", "q", "r")))
        await lose(world, "n1", "n2", "n3", for_s=1.0)
        world.change("p", deleting=True)
        await world.settle(5 * SOON_S)
        assert world.api.evictions == []
        world.delete("p")
        await world.settle(SOON_S)
        assert len(world.api.evictions) == 2


async def test_one_gang_at_a_time() -> None:
    async with running(*nodes(*(f"n{i}" for i in range(6)))) as world:
        mine = job(world)
        await let_in(world, *(member(f"p{i}", mine, gang=f"g{i}", size=1) for i in range(6)))
        under_way: list[int] = []
        world.api.latency_s["evict"] = 0.5
        await lose(world, *(f"n{i}" for i in range(6)))
        for _ in range(200):
            await asyncio.sleep(0.1)
            under_way.append(world.api.calls["evict"] - len(world.api.evictions))
        assert max(under_way) == 1
        assert len(world.api.evictions) == 6
