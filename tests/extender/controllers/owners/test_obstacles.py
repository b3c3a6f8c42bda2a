"""Deadlines, quotas and budgets, read when somebody asks; what finishing jobs still need (docs/safety.md S8)."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from extender.controllers.owners.failure_budget import runs_left
from extender.controllers.owners.obstacles import TIMEOUT_S, Circumstances
from extender.controllers.owners.reading import AGAIN_S, PATIENCE_S
from extender.errors import ApiError, ApiUnavailableError
from scoring.explain.gang import Explained
from scoring.ids import GangKey
from tests.extender.controllers.contexts import context_over
from tests.extender.controllers.operator import Operator
from tests.extender.controllers.restart.test_controller import NODES, started
from tests.extender.scheduling.world import World, key, node_json, pod_json, running

pytestmark = pytest.mark.looptime


def job(world: World, name: str, **spec: Any) -> Any:
    """Create a Job that started just now; what its pods write into ownerReferences."""
    started = datetime.fromtimestamp(world.clock.now_s(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return world.owner(name, spec=spec, status={"startTime": started})


def members(world: World, owner: Any, *, size: int = 2, of: int = 2, **spec: Any) -> None:
    for number in range(size):
        one = pod_json(f"g-{number}", gang="g", size=of, owner=owner, **spec)
        one["metadata"]["labels"]["app"] = "g"
        world.api.add(one)


async def notes(world: World, asking: Circumstances | None = None) -> list[str]:
    await world.settle()
    gang = world.service.cache.gang(GangKey("default/g"))
    assert gang is not None
    asking = asking or Circumstances(context_over(world.api, world.service.cache, world.clock))
    return list(await asking.notes(gang))


async def test_a_quota_that_is_full() -> None:
    async with running(node_json("n1")) as world:
        members(world, job(world, "train"), size=1, of=3)
        status = {"hard": {"requests.cpu": "4", "pods": "9"}, "used": {"requests.cpu": "3500m", "pods": "1"}}
        world.api.add({"kind": "ResourceQuota", "metadata": {"name": "team"}, "status": status})
        told = await notes(world)
        assert told == ["ResourceQuota team leaves 500m of requests.cpu, and a member asks for 1"]


async def test_a_budget_that_blocks_repair() -> None:
    async with running(node_json("n1")) as world:
        members(world, job(world, "train"), nodeName="n1")
        spec = {"selector": {"matchLabels": {"app": "g"}}}
        body = {"kind": "PodDisruptionBudget", "metadata": {"name": "keep"}, "spec": spec}
        world.api.add(body | {"status": {"disruptionsAllowed": 1}})
        [text] = await notes(world)
        assert text.startswith("PodDisruptionBudget keep does")
        world.api.add(body | {"status": {"disruptionsAllowed": 2}})
        assert await notes(world) == []


ERRORS = {
    "no right": (ApiError(403, "forbidden"), "netgang has no right to read it: helm upgrade gives it"),
    "nobody there": (ApiUnavailableError("connection refused"), "connection refused"),
    "another error": (ApiError(500, "boom"), "boom"),
}


@pytest.mark.parametrize(("error", "said"), ERRORS.values(), ids=ERRORS)
async def test_what_cannot_be_read_is_not_known(error: Exception, said: str) -> None:
    async with running(node_json("n1")) as world:
        members(world, job(world, "train", activeDeadlineSeconds=60), size=1, of=3)
        await world.settle()
        world.api.fail_next("list", error)
        _, quota = await notes(world)
        assert quota.startswith("ResourceQuotas not known: ")
        assert said in quota


async def test_a_slow_api_server_is_not_waited_for() -> None:
    async with running(node_json("n1")) as world:
        members(world, job(world, "train"), size=1, of=3)
        await world.settle()
        world.api.latency_s["list"] = 60.0
        before_s = world.clock.monotonic_s()
        [text] = await notes(world)
        assert text == "ResourceQuotas not known: the API server did not answer within 2 s"
        assert world.clock.monotonic_s() - before_s < TIMEOUT_S + 1.0
        world.api.latency_s.clear()


async def test_what_was_read_is_believed_for_seconds() -> None:
    """Somebody who reloads a page does not ask the API server each time."""
    async with running(node_json("n1")) as world:
        members(world, job(world, "train", activeDeadlineSeconds=3600), size=1, of=3)
        await world.settle(3.0)  # until the job's deadline is known as the gang's length
        asking = Circumstances(context_over(world.api, world.service.cache, world.clock))
        first = await notes(world, asking)
        calls = world.api.calls["list"]
        assert await notes(world, asking) == first
        assert world.api.calls["list"] == calls
        await world.settle(11.0)
        await notes(world, asking)
        assert world.api.calls["list"] == calls + 1


async def test_explain_says_it() -> None:
    async with running(node_json("n1", cpu="1")) as world:
        members(world, job(world, "train", activeDeadlineSeconds=3600))
        await world.settle()
        document = await world.service.views.explain("default", "g")
        assert isinstance(document, Explained)
        assert any("activeDeadlineSeconds" in note for note in document.notes)


SPEC = {"completions": 4, "parallelism": 4, "completionMode": "Indexed"}


async def half_done(world: World, operator: Operator, **status: Any) -> None:
    """Two of four succeed and are collected with their nodes; another one is lost and has a successor."""
    for name in ("job-0", "job-1"):
        world.change(name, phase="Succeeded")
    await world.settle(2.0)
    operator.size = 0
    operator.put(status={**operator.owner["status"], "succeeded": 2, **status})
    world.delete("job-0", "job-1", "job-3")
    operator.create(3)
    await world.settle(2.0)


async def test_a_lost_member_of_a_finishing_job_is_replaced() -> None:
    """By the pods alone the gang would never be whole again; its Job says that two more suffice."""
    async with running(*NODES) as world, started(world, size=4, annotations={}, spec=SPEC) as operator:
        await half_done(world, operator)
        assert "job-3" not in world.bound()
        await world.settle(PATIENCE_S + 3.0)
        assert "job-3" in world.bound()
        found = world.service.cache.gang(key("g"))
        assert found is not None
        assert found.min_member == 2


async def test_it_is_asked_again_when_it_could_not_be_read() -> None:
    async with running(*NODES) as world, started(world, size=4, annotations={}, spec=SPEC) as operator:
        world.api.fail_next("get_object", ApiUnavailableError("connection refused"), times=3)
        await half_done(world, operator)
        calls = world.api.calls["get_object"]
        await world.settle(PATIENCE_S + AGAIN_S * 4)
        assert "job-3" in world.bound()
        assert world.api.calls["get_object"] - calls < 8


async def test_what_was_read_is_the_owners_alone() -> None:
    async with running(*NODES) as world, started(world, size=4, annotations={}, spec=SPEC) as operator:
        await half_done(world, operator)
        await world.settle(PATIENCE_S + 3.0)
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


JOBS: dict[str, tuple[int | None, dict[str, Any], dict[str, Any]]] = {  # case: (what is left, spec, status)
    "none has succeeded": (None, SPEC, {}),
    "one": (3, SPEC, {"succeeded": 1}),
    "one that is not counted yet": (2, SPEC, {"succeeded": 1, "uncountedTerminatedPods": {"succeeded": ["u"]}}),
    "all": (0, SPEC, {"succeeded": 4}),
    "not indexed": (None, {**SPEC, "completionMode": "NonIndexed"}, {"succeeded": 1}),
    "a queue of work": (None, {"parallelism": 4, "completionMode": "Indexed"}, {"succeeded": 1}),
}


@pytest.mark.parametrize(("left", "spec", "status"), JOBS.values(), ids=JOBS)
def test_how_many_runs_are_left(left: int | None, spec: dict[str, Any], status: dict[str, Any]) -> None:
    assert left == runs_left(json.dumps({"spec": spec, "status": status}).encode())
