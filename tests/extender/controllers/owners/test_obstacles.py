"""Deadlines, quotas and budgets: read when somebody asks, and said to be unknown where they cannot be read."""

from datetime import UTC, datetime
from typing import Any

import pytest

from extender.controllers.owners.obstacles import TIMEOUT_S, Circumstances
from extender.errors import ApiError, ApiUnavailableError
from extender.schemas.explain import Explained
from scoring.ids import GangKey
from tests.extender.controllers.contexts import context_over
from tests.extender.scheduling.world import World, node_json, pod_json, running

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
