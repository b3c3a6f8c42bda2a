"""What people are shown: documents of one moment, honest about what is held and what is not read yet."""

import asyncio
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from extender.api.documents.network import network_document
from extender.api.documents.views import Views
from extender.bootstrap import following
from extender.controllers.events.waiting import PATIENCE_S
from extender.network.refresh import NetworkRefresh, Polled
from extender.schemas.explain import ExplainedPod
from extender.schemas.network import KnownPairs
from extender.schemas.queue import Queue
from extender.settings.settings import Settings
from scoring.ids import EndpointId
from scoring.network.matrix import Measurement, Metric, NetworkMatrix
from tests.builders import mesh, node, snapshot
from tests.extender.api.asking import asking
from tests.extender.beside import at_once
from tests.extender.scheduling.world import World, node_json, running
from tests.fakes.clock import LoopClock
from tests.fakes.cluster_api import FakeClusterApi
from tests.fakes.network_source import FakeNetworkSource
from tests.fakes.notes import notes_of_a_former_process

pytestmark = pytest.mark.looptime

N1, N2 = node_json("n1"), node_json("n2")


def members(world: World) -> dict[str, str]:
    return {one.pod: one.state for one in world.explained("g").members}


async def test_explain_follows_a_gang_through_its_life() -> None:
    async with running(N1) as world:
        world.occupy("n1")
        first, second = world.gang("g", 2)
        await world.settle()
        document = world.explained("g")
        assert (document.state, document.code) == ("waiting", "NO_ROOM")
        assert document.zones[0].room == 0
        world.delete("stranger")
        await world.settle()
        assert members(world) == {first: "planned", second: "planned"}
        calls = world.bind_offered(first)
        await world.settle()
        assert members(world) == {first: "held", second: "planned"}
        plan = world.service.views.plan()
        assert (plan.held_binds, plan.admitted[0].committed) == (1, True)
        assert plan.admitted[0].members == {first: "n1", second: "n1"}
        calls += world.bind_offered(second)
        await world.settle()
        assert members(world) == {first: "bound", second: "bound"}


async def test_explain_knows_pods_and_gangs() -> None:
    """A member's name gives its gang, too; an unknown name nothing; a mistyped annotation is reported, never silent."""
    async with running(N1) as world:
        world.set_network(mesh(["n1"]))
        [name] = world.gang("g", 1, annotations={"netgang.io/selection": "best"})
        world.pod("plain")
        await world.settle()
        by_pod, plain = world.explained(name), await world.service.views.explain("default", "plain")
        assert isinstance(plain, ExplainedPod)
        assert (by_pod.gang, [(one.pod, one.node) for one in by_pod.members]) == ("default/g", [(name, "n1")])
        assert plain.pod.own
        assert await world.service.views.explain("default", "unknown") is None
    [problem] = by_pod.problems
    assert problem == "netgang.io/selection: 'best' is not one of subset, paper, pack; subset is used"


async def test_ready_once_everything_is_read_and_planned() -> None:
    api = FakeClusterApi(N1)
    service = following(Settings(), api, LoopClock(), random.Random(0), notes_of_a_former_process())
    before = service.views.readiness()
    assert (before.ready, len(before.reasons), before.reasons[0]) == (False, 5, "nodes are not read yet")
    async with running(api=api) as world:
        found = world.service.views.readiness()
        unplanned = replace(world.service.views, planner=service.planner).readiness()
    assert (found.ready, found.reasons, found.detail.cache.nodes) == (True, (), 1)
    assert found.detail.sync["pods"].relists == 1
    assert unplanned.reasons == ("the first plan is not made yet",)


@asynccontextmanager
async def reading(world: World, source: FakeNetworkSource) -> AsyncIterator[Views]:
    refresh = NetworkRefresh(
        [Polled(source, 60.0)],
        clock=world.clock,
        nodes=lambda: world.service.cache.snapshot().table.nodes,
        publish=world.set_network,
        jitter=lambda: 0.5,
    )
    task = asyncio.create_task(refresh.run())
    await world.settle()
    yield replace(world.service.views, network_status=refresh.status)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_network_shows_its_coverage_and_its_sources() -> None:
    """Nodes without an endpoint are counted, with the first names of each list, and leave the service ready."""
    source = FakeNetworkSource()
    source.set(Measurement(EndpointId("n1"), EndpointId("x"), Metric.LOSS, 0.0, 0.0))
    async with running(N1, N2) as world:
        world.set_network(NetworkMatrix(version=3))
        document = world.service.views.network()
        assert (document.version, document.status) == (3, UNSET)
        world.set_network(mesh(["n1", "x"]))
        delay = world.service.views.network().metrics["delay"]
        assert delay == KnownPairs(known_pairs=2, mapped_nodes=1, nodes=2)
        async with reading(world, source) as views:
            status, found = views.network().status, views.readiness()
    assert status
    assert [one.name for one in status.sources] == ["fake"]
    assert status.mapping
    assert status.mapping.nodes["loss"] == {"mapped": 1, "unmapped": 1, "ambiguous": 0}
    assert (status.mapping.unmapped["loss"], status.mapping.unused) == (("n2",), ("x",))
    assert found.ready
    assert found.detail.network
    assert (found.detail.network.sources, found.detail.network.mapping) == (status.sources, status.mapping)


@pytest.mark.parametrize(("error", "reasons"), [(None, 0), (RuntimeError("a defect"), 1)], ids=["away", "a defect"])
async def test_a_source_makes_the_service_unready_by_a_defect_alone(error: Exception | None, reasons: int) -> None:
    """A server that is away is no reason to keep kube-scheduler away."""
    source = FakeNetworkSource()
    source.fail(error)
    async with running(N1) as world, reading(world, source) as views:
        found = views.readiness()
    assert (found.ready, len(found.reasons)) == (not reasons, reasons)
    assert all("a defect" in reason for reason in found.reasons)


async def test_the_values_between_some_nodes() -> None:
    async with running(N1, N2) as world:
        world.set_network(mesh(["n1", "n2"]))
        document = world.service.views.network()
    pairs = document.pairs
    assert (pairs.nodes, pairs.of, document.zones) == (("n1", "n2"), 2, {"a": 2})
    assert pairs.delay_ms == [[None, 1.0], [1.0, None]]
    assert pairs.delay_age_s == [[None, 0.0], [0.0, None]]


PARTS: dict[str, tuple[dict[str, Any], int, int]] = {  # case: (what is asked for, how many nodes, of how many)
    "usual": ({}, 40, 150),
    "all": ({"limit": 10_000}, 100, 150),
    "the first": ({"limit": 1}, 1, 150),
    "a zone": ({"zone": "A"}, 2, 2),
    "no such zone": ({"zone": "X"}, 0, 0),
}


@pytest.mark.parametrize(("asked", "names", "of"), PARTS.values(), ids=PARTS)
def test_parts_of_a_large_network(asked: dict[str, Any], names: int, of: int) -> None:
    """In the order of their names, and bounded."""
    nodes = [node(f"n{number:03}", zone="A" if number < 2 else "B") for number in range(150)]
    pairs = network_document(snapshot(nodes), None, **asked).pairs
    assert (pairs.nodes, pairs.of) == (tuple(one.name for one in nodes[:names]), of)
    assert len(pairs.delay_ms) == names


async def test_the_description_needs_no_internet() -> None:
    async with running() as world, asking(world) as client:
        page = (await client.get("/docs")).text
        loaded = re.findall(r'(?:src|href)="([^"]+)"', page)
        assert len(loaded) == 3
        for address in loaded:
            assert (await client.get(address)).status_code == 200, address


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
