"""/v1/queue of a running service, and what it says of weights and priorities."""

import msgspec
import pytest

from extender.controllers.events.waiting import PATIENCE_S
from extender.schemas.queue import Queue
from tests.extender.api.asking import asking
from tests.extender.beside import at_once
from tests.extender.scheduling.world import World, node_json, running

pytestmark = pytest.mark.looptime

NODES = [node_json(f"n{i}") for i in range(3)]
PATIENT = {"starve_limit_s": 1e12}  # the pods of these tests say nothing of their age


def queue_of(world: World) -> Queue:
    return at_once(world.service.views.queue())


async def test_the_queue_of_a_running_service() -> None:
    async with running(*NODES, queue=PATIENT) as world, asking(world) as client:
        names = world.gang("runs", 3, cpu="4")
        await world.settle()
        world.bind_offered(*names)
        await world.settle()
        world.gang("light", 1)
        world.gang("heavy", 3)
        await world.settle(0.75)  # no look, which is once a second, between the two answers
        document = msgspec.json.decode(msgspec.json.encode(queue_of(world)))
        assert document == (await client.get("/v1/queue")).json()
    assert [(one["gang"], one["queue"], one["rank"]) for one in document["gangs"]] == [
        ("default/heavy", "WQ", 1),
        ("default/light", "WQ", 2),
        ("default/runs", "RQ", None),
    ]
    heavy, light, runs = document["gangs"]
    assert (heavy["state"], heavy["code"], heavy["members"]["pending"]) == ("WAITING", "NO_ROOM", 3)
    assert (heavy["admitted"], runs["waited_s"]) == (False, None)
    assert heavy["weight"]["omega_prime"] == 3 * light["weight"]["omega_prime"]
    assert heavy["waited_s"] + heavy["starves_in_s"] == 1e12
    assert runs["members"] == {"min_available": 3, "pending": 0, "running": 3, "succeeded": 0, "failed": 0}
    assert document["counts"] == {"WAITING": 2, "STARVING": 0, "RUNNING": 1, "COMPLETED": 0}


async def test_mixed_priorities_are_refused_and_told() -> None:
    """Pods of one gang with different priorities: a constant refusal in the plan, and an Event (PAPERS G5)."""
    async with running(*NODES) as world:
        world.pod("a", gang="g", size=2, priority=1)
        world.pod("b", gang="g", size=2, priority=2)
        await world.settle(PATIENCE_S + 2.0)
        entry = queue_of(world).gangs[0]
        [note] = world.told("GangInvalid")
    assert (entry.state, entry.code) == ("WAITING", "MIXED_PRIORITIES")
    assert "spec.priority differs: 1 (a), 2 (b)" in note
