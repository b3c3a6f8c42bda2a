"""A job's age and length are its owner's: read once, and of no consequence to anybody's wait (docs/safety.md S14).

Deadlines, quotas and budgets, read when somebody asks; what finishing jobs still need (docs/safety.md S8).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from extender.cache.cluster import ClusterCache
from extender.controllers.owners import AGAIN_S, PATIENCE_S, TIMEOUT_S, Circumstances, OwnerReader
from extender.convert import pod_from_json
from extender.errors import ApiError, ApiUnavailableError
from scoring.model import Gang
from scoring.records import Explained
from tests.extender.controllers.contexts import context_over
from tests.extender.controllers.operator import Operator
from tests.extender.controllers.removal.test_preemptions import budget
from tests.extender.controllers.removal.test_restarts import NODES, started
from tests.extender.scheduling.world import World, key, node_json, pod_json, running
from tests.fakes.clock import LoopClock
from tests.fakes.cluster_api import FakeClusterApi

pytestmark = pytest.mark.looptime

NOW_S = 1_700_000_000.0
OLD_S = NOW_S - 86_400.0
GATED = [{"name": "netgang.io/gang"}, {"name": "example.com/later"}]
BATCH = {"apiVersion": "batch/v1", "kind": "Job"}


def at(moment_s: float) -> str:
    return datetime.fromtimestamp(moment_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def members(world: World, gang: str, *owners: Any) -> None:
    """A gang with a pod of each of these owners."""
    for number, owner in enumerate(owners):
        one = pod_json(f"{gang}-{number}", gang=gang, size=len(owners), owner=owner, schedulingGates=GATED)
        one["metadata"]["creationTimestamp"] = at(NOW_S)
        world.api.add(one)


def gang_of(world: World, name: str) -> Gang:
    return world.service.cache.snapshot().gangs[key(name)]


async def test_a_gang_is_as_old_as_its_owner() -> None:
    """And an owner without pods is forgotten."""
    async with running() as world:
        ages = {"young": NOW_S - 60.0, "old": OLD_S}
        young, old = (world.owner(name, created=at(created_s)) for name, created_s in ages.items())
        members(world, "a", young, young)
        members(world, "b", old, old)
        await world.settle(5.0)
        assert [gang_of(world, name).created_s for name in "ab"] == list(ages.values())
        assert [one["uid"] in world.service.cache.gangs.jobs for one in (young, old)] == [True, True]
        world.delete("b-0", "b-1")
        members(world, "b", young, young)
        await world.settle(5.0)
        assert gang_of(world, "b").created_s == NOW_S - 60.0
        assert [one["uid"] in world.service.cache.gangs.jobs for one in (young, old)] == [True, False]


async def test_several_owners_the_oldest_counts() -> None:
    async with running() as world:
        ps, workers = (world.owner(name, created=at(OLD_S - age_s)) for name, age_s in (("ps", 0.0), ("workers", 5.0)))
        members(world, "g", ps, ps, ps)
        world.delete("g-2")
        world.pod("g-2", gang="g", size=3, owner=workers, schedulingGates=GATED)
        await world.settle(5.0)
        assert gang_of(world, "g").created_s == OLD_S - 5.0


READS: dict[str, tuple[dict[str, str], Exception | None, float, int]] = {
    # case: (kind of the owner, what reading it ends with, the gang's age then, how often it is read in four minutes)
    "a kind that nobody may read": ({"kind": "Robot", "apiVersion": "example.com/v1"}, None, NOW_S, 0),
    "a kind that is refused": (BATCH, ApiError(403, "forbidden"), NOW_S, 1),
    "a Job, whose pods change all the time": (BATCH, None, OLD_S, 1),
}


@pytest.mark.parametrize(("kind", "error", "created_s", "reads"), READS.values(), ids=READS)
async def test_an_owner_is_read_once(
    kind: dict[str, str], error: Exception | None, created_s: float, reads: int
) -> None:
    reference = {**kind, "name": "j", "uid": "u", "controller": True}
    one = pod_json("g-0", gang="g", size=1, schedulingGates=GATED, owner=reference)
    one["metadata"]["creationTimestamp"] = at(NOW_S)
    api, cache = FakeClusterApi(), ClusterCache()
    cache.pods.put(pod_from_json(msgspec.json.encode(one)))
    api.add({**BATCH, "metadata": {"name": "j", "uid": "u", "creationTimestamp": at(OLD_S)}})
    if error is not None:
        api.fail_next("get_object", error, times=100)
    ages = OwnerReader(context_over(api, cache, LoopClock()), wake=lambda _: None)
    for number in range(240):
        await ages.reconcile()
        await asyncio.sleep(1.0)
        cache.pods.put(replace(next(iter(cache.pods)), options=(("near", str(number)),)))
    assert [gang.created_s for gang in cache.snapshot().gangs.values()] == [created_s]
    assert api.calls["get_object"] == reads


async def test_a_job_that_makes_fewer_pods_than_the_minimum_is_told_so() -> None:
    """It is ahead of nobody; a part of something larger is not judged; what was corrected is read again."""
    set_of = [{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "uid": "s", "controller": True}]
    async with running(node_json("n1")) as world:
        for name, above in (("part", set_of), ("min6", [])):
            job = world.owner(name, metadata={"name": name, "ownerReferences": above}, spec={"parallelism": 4})
            world.gang(name, 4, minimum=6, owner=job)
        await world.settle(20.0)
        few = "Job min6 makes 4 pods, and the minimum is 6: lower the minimum to 4, or have 6 pods made"
        explained = world.explained("min6")
        assert (explained.turn.rank, few in str(explained.cause)) == (None, True)
        assert few in str(world.told("GangInvalid"))
        assert (gang_of(world, "part").problem, world.explained("part").turn.ahead.waiting_count) == (None, 0)
        world.owner("min6", metadata={"name": "min6", "uid": job["uid"]}, spec={"parallelism": 6})
        await world.settle(310.0)
        assert gang_of(world, "min6").problem is None


EXPECTED = "netgang.io/expected-duration"
DEADLINE = {"spec": {"activeDeadlineSeconds": 7200}}
KUBEFLOW = {"kind": "PyTorchJob", "api_version": "kubeflow.org/v1"}
LENGTHS: dict[str, tuple[float | None, dict[str, Any], dict[str, Any] | None]] = {  # case: (seconds, pods, owner)
    "nothing": (None, {}, None),
    "an annotation of the template": (5400.0, {"annotations": {EXPECTED: "1h30m"}}, None),
    "the pods' deadline": (60.0, {"activeDeadlineSeconds": 60}, None),
    "the job's deadline": (7200.0, {}, DEADLINE),
    "the template's before that": (3600.0, {"annotations": {EXPECTED: "1h"}}, DEADLINE),
    "a job that says nothing": (None, {}, {**KUBEFLOW, "spec": {"runPolicy": {}}}),
    "a job of another shape": (60.0, {"activeDeadlineSeconds": 60}, {**KUBEFLOW, "spec": {"runPolicy": "1h"}}),
    "the job's annotation, read while its gang runs": (
        600.0, {"nodeName": "n1", "phase": "Running"}, {"metadata": {"name": "j", "annotations": {EXPECTED: "600"}}},
    ),
    "a bad value": (None, {"annotations": {EXPECTED: "a while"}}, None),
    "a bad value on the job": (None, {}, {"metadata": {"name": "j", "annotations": {EXPECTED: "9" * 5000}}}),
}  # fmt: skip


@pytest.mark.parametrize(("length_s", "fields", "owner"), LENGTHS.values(), ids=LENGTHS)
async def test_what_jobs_and_templates_say_of_their_length(
    length_s: float | None, fields: dict[str, Any], owner: dict[str, Any] | None
) -> None:
    """A gang that runs is read too, as after a restart; a value that cannot be used is named in an Event."""
    async with running(node_json("n1")) as world:
        if owner is not None:
            fields = {**fields, "owner": world.owner("j", **owner)}
        world.gang("g", 2, **fields)
        await world.settle(20.0)
        assert gang_of(world, "g").length_s == length_s
        tells = length_s is None and EXPECTED in f"{fields} {owner}"
        assert any(EXPECTED in note for note in world.told_to("ProbableMistake").values()) is tells


@asynccontextmanager
async def training(*, size: int = 1, of: int = 3, limit_s: float | None = None, **spec: Any) -> AsyncIterator[World]:
    """A Job that started just now, and pods of a gang of it."""
    job = {"activeDeadlineSeconds": limit_s} if limit_s is not None else {}
    async with running(node_json("n1", cpu="1")) as world:
        owner = world.owner("train", spec=job, status={"startTime": at(world.clock.now_s())})
        for number in range(size):
            one = pod_json(f"g-{number}", gang="g", size=of, owner=owner, **spec)
            one["metadata"]["labels"]["app"] = "g"
            world.api.add(one)
        await world.settle()
        yield world


async def notes(world: World, asking: Circumstances | None = None) -> list[str]:
    await world.settle()
    asking = asking or Circumstances(context_over(world.api, world.service.cache, world.clock))
    return list(await asking.notes(gang_of(world, "g")))


async def test_a_quota_that_is_full() -> None:
    async with training() as world:
        status = {"hard": {"requests.cpu": "4", "pods": "9"}, "used": {"requests.cpu": "3500m", "pods": "1"}}
        world.api.add({"kind": "ResourceQuota", "metadata": {"name": "team"}, "status": status})
        told = await notes(world)
        assert told == ["ResourceQuota team leaves 500m of requests.cpu, and a member asks for 1"]


@pytest.mark.parametrize("made", [0, 1])
async def test_the_job_that_lacks_pods_is_named(made: int) -> None:
    """Not the first: a LimitRange refuses those of `workers`, and no pod says that there is such a Job."""
    template = {"metadata": {"labels": pod_json("x", gang="g", size=3)["metadata"]["labels"]}}
    async with running(node_json("n1")) as world:
        for name, size, there in (("chief", 1, 1), ("workers", 2, made), ("others", 2, 0)):
            labels = template if name != "others" else {}
            owner = world.owner(name, spec={"parallelism": size, "template": labels})
            for number in range(there):
                world.pod(f"{name}-{number}", gang="g", size=3, owner=owner, annotations={"netgang.io/role": name[:6]})
        await world.settle(10.0)
        cause = (await world.get("/v1/explain/default/g")).json()["cause"]
        assert f"{1 + made} of 3 pods exist, and Job workers has made {made} of 2 pods" in cause["message"]
        assert "See why Job workers has not made them" in cause["message"]
        world.delete("chief-0", *[f"workers-{number}" for number in range(made)])


async def test_a_budget_that_blocks_repair() -> None:
    async with training(size=2, of=2, nodeName="n1") as world:
        budget(world, "keep", 1, app="g")
        [text] = await notes(world)
        assert text.startswith("PodDisruptionBudget keep does")
        budget(world, "keep", 2, app="g")
        assert await notes(world) == []


async def test_what_cannot_be_read_is_not_known() -> None:
    """And all else is; a slow API server is not waited for."""
    async with training(limit_s=60) as world:
        for error, why in (
            (ApiError(403, "forbidden"), "netgang has no right to read it: helm upgrade gives it"),
            (ApiUnavailableError("connection refused"), "connection refused"),
            (ApiError(500, "boom"), "boom"),
        ):
            world.api.fail_next("list", error)
            _, quota = await notes(world)
            assert quota.startswith("ResourceQuotas not known: ")
            assert why in quota
        world.api.latency_s["list"] = 60.0
        before_s = world.clock.monotonic_s()
        assert (await notes(world))[1] == "ResourceQuotas not known: the API server did not answer within 2 s"
        assert world.clock.monotonic_s() - before_s < TIMEOUT_S + 1.0
        world.api.latency_s.clear()


async def test_what_was_read_is_believed_for_seconds() -> None:
    """Somebody who reloads a page does not ask the API server each time."""
    async with training(limit_s=3600) as world:
        await world.settle(3.0)  # until the job's deadline is known as the gang's length
        asking = Circumstances(context_over(world.api, world.service.cache, world.clock))
        first = await notes(world, asking)
        calls = world.api.calls["list"]
        assert await notes(world, asking) == first
        assert world.api.calls["list"] == calls
        await world.settle(11.0)
        await notes(world, asking)
        assert world.api.calls["list"] == calls + 2  # quotas and Jobs


async def test_explain_says_it() -> None:
    async with training(size=2, of=2, limit_s=3600) as world:
        document = await world.service.views.explain("default", "g")
        assert isinstance(document, Explained)
        assert any("activeDeadlineSeconds" in note for note in document.notes)


SPEC = {"completions": 4, "parallelism": 4, "completionMode": "Indexed"}


async def half_done(world: World, operator: Operator, **status: Any) -> None:
    """Two of four succeeded while nobody looked, and were collected; another one is lost and has a successor."""
    operator.size = 0
    operator.put(status={**operator.owner["status"], "succeeded": 2, **status})
    world.delete("job-0", "job-1", "job-3")
    operator.create(3)
    await world.settle(2.0)


async def test_it_is_asked_again_when_it_could_not_be_read() -> None:
    async with running(*NODES) as world, started(world, size=4, annotations={}, spec=SPEC) as operator:
        world.api.fail_next("get_object", ApiUnavailableError("connection refused"), times=3)
        await half_done(world, operator)
        calls = world.api.calls["get_object"]
        await world.settle(PATIENCE_S + AGAIN_S * 4)
        assert "job-3" in world.bound()
        assert world.api.calls["get_object"] - calls < 8


async def test_a_lost_member_of_a_finishing_job_is_replaced() -> None:
    """By the pods alone the gang would never be whole again; its Job says that two more suffice, for itself alone."""
    async with running(*NODES) as world, started(world, size=4, annotations={}, spec=SPEC) as operator:
        await half_done(world, operator)
        assert "job-3" not in world.bound()
        await world.settle(PATIENCE_S + 3.0)
        assert ("job-3" in world.bound(), gang_of(world, "g").min_member) == (True, 2)
        world.api.remove("job", kind="Job")
        world.delete(*operator.members())
        await world.settle(1.0)
        assert world.service.cache.gang(key("g")) is None
        again = Operator(world, size=4, annotations={}, spec=SPEC)
        again.create(0)
        again.create(1)
        await world.settle(PATIENCE_S + AGAIN_S)
        assert world.bound() == {}
        world.delete(*again.members())
