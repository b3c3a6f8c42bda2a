"""Jobs that finish while another member is lost: what they need by now is asked of them (docs/safety.md S8)."""

import json
from typing import Any

import pytest

from extender.controllers.owners.finishing import AGAIN_S, PATIENCE_S, runs_left
from extender.errors import ApiUnavailableError
from tests.extender.controllers.operator import Operator
from tests.extender.controllers.restart.test_controller import NODES, started
from tests.extender.scheduling.world import World, key, running

pytestmark = pytest.mark.looptime

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
