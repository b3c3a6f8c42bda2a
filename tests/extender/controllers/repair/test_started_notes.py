"""Which members carry the note that their gang has started, and what a forged one proves (docs/safety.md S22, S23)."""

import pytest

from extender.controllers.removal.removals import QUIET_S
from extender.errors import ApiUnavailableError
from tests.extender.scheduling.world import PARTIAL_S, World, node_json, pod_json, running

pytestmark = pytest.mark.looptime
STARTED = "netgang.io/started"
N1 = node_json("n1", cpu="8")


def noted(world: World, *names: str) -> list[str]:
    return [name for name in names if STARTED in (world.api.pod(name)["metadata"].get("annotations") or {})]


@pytest.mark.parametrize(("size", "carry"), [(5, ["g-0", "g-2", "g-4"]), (2, ["g-0", "g-1"])])
async def test_a_few_members_carry_it(size: int, carry: list[str]) -> None:
    async with running(N1) as world:
        names = await world.planned_gang("g", size)
        await world.bind_and_settle(*names)
        await world.settle(2.0)
        assert noted(world, *names) == carry
        written = world.api.calls["patch"]
        await world.settle(30.0)
        assert world.api.calls["patch"] == written
        world.delete(carry[-1])
        await world.settle(2.0)
        left = [name for name in names if name != carry[-1]]
        assert len(noted(world, *left)) == min(3, len(left))


async def test_a_gang_that_has_not_started_has_none() -> None:
    async with running(N1) as world:
        names = await world.planned_gang("g", 3)
        world.bind_offered(*names[:2])
        await world.settle(5.0)
        assert noted(world, *names) == []
        world.delete(*names)


async def test_a_note_that_could_not_be_written_is_tried_again() -> None:
    async with running(N1) as world:
        names = await world.planned_gang("g", 2)
        world.api.fail_next("patch", ApiUnavailableError("connection refused"), times=2)
        world.bind_offered(*names)
        await world.settle(4.0)
        assert noted(world, *names) == list(names)


async def test_a_forged_note_proves_nothing() -> None:
    pods = [pod_json(f"g-{number}", gang="g", size=2, annotations={STARTED: "whole"}) for number in range(1)]
    pods[0]["spec"]["nodeName"] = "n1"
    async with running(N1, *pods) as world:
        uid = world.uid("g-0")
        await world.settle(QUIET_S + PARTIAL_S + 30.0)
        assert world.api.evictions == [uid]
        assert "NoteIgnored" in {one["reason"] for one in world.api.events}
