"""What people are shown: documents of one moment, honest about what is held and what is not read yet."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import msgspec
import pytest

from extender.api.documents.views import Views
from extender.api.schemas.explain import Explained, ExplainedPod
from extender.api.schemas.network import KnownPairs
from extender.bootstrap import following
from extender.network.refresh import NetworkRefresh, Polled
from extender.settings.settings import Settings
from scoring.ids import EndpointId, NodeName
from scoring.network.matrix import METRICS, Measurement, MeasurementTable, Metric, NetworkMatrix
from tests.builders import mesh
from tests.extender.scheduling.world import World, node_json, running
from tests.fakes.clock import LoopClock
from tests.fakes.cluster_api import FakeClusterApi
from tests.fakes.network_source import FakeNetworkSource

pytestmark = pytest.mark.looptime

N1, N2 = node_json("n1"), node_json("n2")


def members(world: World, gang: str = "g") -> dict[str, str]:
    """Member → its state, as /v1/explain says."""
    document = world.service.views.explain("default", gang)
    assert isinstance(document, Explained)
    return {one.pod: one.state for one in document.members}


async def test_the_plan_counts_held_calls() -> None:
    """Together with where everybody would go."""
    async with running(N1) as world:
        first, _ = world.gang("g", 2)
        await world.settle()
        [call] = world.bind_offered(first)
        await world.settle()
        plan = world.service.views.plan()
        assert plan.held_binds == 1
        assert plan.admitted[0].members == {"g-0": "n1", "g-1": "n1"}
        assert plan.admitted[0].committed is True
        call.hang_up()


async def test_explain_follows_a_gang_through_its_life() -> None:
    """Waiting, planned, held, bound; and why it waits."""
    async with running(N1) as world:
        world.occupy("n1")
        first, second = world.gang("g", 2)
        await world.settle()
        document = world.service.views.explain("default", "g")
        assert isinstance(document, Explained)
        assert (document.state, document.code) == ("waiting", "NO_ROOM")
        assert document.zones[0].room == 0
        world.delete("stranger")
        await world.settle()
        assert members(world) == {first: "planned", second: "planned"}
        calls = world.bind_offered(first)
        await world.settle()
        assert members(world) == {first: "held", second: "planned"}
        calls += world.bind_offered(second)
        await world.settle()
        assert members(world) == {first: "bound", second: "bound"}


async def test_explain_knows_pods_and_gangs() -> None:
    """A member's name gives its gang, too; a plain pod's only the pod; an unknown name nothing."""
    async with running(N1) as world:
        world.set_network(mesh(["n1"]))
        [name] = world.gang("g", 1)
        world.pod("plain")
        await world.settle()
        views = world.service.views
        by_pod, plain = views.explain("default", name), views.explain("default", "plain")
        assert isinstance(by_pod, Explained)
        assert isinstance(plain, ExplainedPod)
        assert by_pod.pod
        assert (by_pod.gang, by_pod.pod.planned) == ("default/g", "n1")
        assert plain.pod.own
        assert views.explain("default", "nobody") is None


async def test_explain_repeats_what_was_not_understood() -> None:
    """A mistyped annotation is reported, never silent."""
    async with running(N1) as world:
        world.gang("g", 1, annotations={"netgang.io/selection": "best"})
        await world.settle()
        document = world.service.views.explain("default", "g")
        assert isinstance(document, Explained)
        assert document.problems == ("netgang.io/selection: 'best' is not one of subset, paper, pack; subset is used",)


async def test_ready_once_everything_is_read_and_planned() -> None:
    """Before that the reasons say what is missing."""
    api = FakeClusterApi(N1)
    service = following(Settings(), api, LoopClock(), random.Random(0))
    before = service.views.readiness()
    assert (before.ready, len(before.reasons)) == (False, 5)
    assert before.reasons[0] == "nodes are not read yet"
    async with running(api=api) as world:
        found = world.service.views.readiness()
        assert (found.ready, found.reasons) == (True, ())
        assert found.detail.cache.nodes == 1
        assert found.detail.sync["pods"].relists == 1


async def test_not_ready_between_reading_and_planning() -> None:
    """What is read is not decided yet."""
    async with running(N1) as world:
        unplanned = following(Settings(), world.api, world.clock, random.Random(0)).planner
        views = replace(world.service.views, planner=unplanned)
        assert views.readiness().reasons == ("the first plan is not made yet",)


@asynccontextmanager
async def reading(world: World, source: FakeNetworkSource) -> AsyncIterator[Views]:
    """The views of a world whose measurements come from `source`."""
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
    """How many nodes have an endpoint, how many pairs a value, and how each source does."""
    source = FakeNetworkSource()
    source.fail()
    async with running(N1, N2) as world:
        world.set_network(NetworkMatrix(version=3))
        document = world.service.views.network()
        assert (document.version, document.endpoints) == (3, 0)
        world.set_network(mesh(["n1", "x"]))
        document = world.service.views.network()
        assert document.metrics["delay"] == KnownPairs(known_pairs=2, mapped_nodes=1, nodes=2)
        assert not document.status
        async with reading(world, source) as views:
            status, found = views.network().status, views.readiness()
            assert status
            assert [one.name for one in status.sources] == ["fake"]
            assert found.ready
            assert found.detail.network
            assert found.detail.network.sources == status.sources


async def test_readiness_counts_nodes_without_an_endpoint() -> None:
    """With the first names of each list, and how old what is known is; none of it makes the service unready."""
    source = FakeNetworkSource()
    source.set(Measurement(EndpointId("n1"), EndpointId("x"), Metric.LOSS, 0.0, 0.0))
    async with running(N1, N2) as world, reading(world, source) as views:
        found, status = views.readiness(), views.network().status
        assert found.ready
        assert found.detail.network
        mapping = found.detail.network.mapping
        assert mapping
        assert mapping.nodes["loss"] == {"mapped": 1, "unmapped": 1, "ambiguous": 0}
        assert mapping.unmapped["loss"] == ("n2",)
        assert mapping.unused == ("x",)
        assert status
        assert status.coverage["loss"].unknown == 0
        assert status.mapping == mapping


async def test_a_source_that_crashed_makes_the_service_unready() -> None:
    """A defect in reading is not the same as a server that is away."""
    source = FakeNetworkSource()
    source.fail(RuntimeError("a defect"))
    async with running(N1) as world, reading(world, source) as views:
        found = views.readiness()
        assert not found.ready
        assert "a defect" in found.reasons[0]


async def test_the_values_between_some_nodes() -> None:
    """Every direction between the nodes of a zone with its age; the diagonal and unmeasured pairs are null."""
    async with running(N1, N2) as world:
        world.set_network(mesh(["n1", "n2"]))
        document = world.service.views.network()
        pairs = document.pairs
        assert (pairs.nodes, pairs.of, document.zones) == (("n1", "n2"), 2, {"a": 2})
        [[own, there], [back, _]] = pairs.delay_ms
        assert own is None
        assert there is not None
        assert back is not None
        assert (pairs.delay_age_s[0][1] or 0.0) >= 0.0
        assert world.service.views.network(zone="a", limit=1).pairs.nodes == ("n1",)
        nowhere = world.service.views.network(zone="nowhere").pairs
        assert (nowhere.nodes, nowhere.of, nowhere.delay_ms) == ((), 0, [])


async def test_the_values_of_a_large_cluster_are_bounded() -> None:
    """However many nodes there are and however many are asked for, at most 100 are shown."""
    async with running(*(node_json(f"n{number:03}") for number in range(150))) as world:
        assert len(world.service.views.network().pairs.nodes) == 40
        pairs = world.service.views.network(limit=10_000).pairs
        assert (len(pairs.nodes), pairs.of) == (100, 150)


async def test_explain_names_the_sources_of_a_gangs_links() -> None:
    """By metric which source and how old; the worst links one by one; nothing for a gang without nodes."""
    found = [
        Measurement(EndpointId(a), EndpointId(b), Metric.DELAY, 5.0, -60.0)
        for a, b in (("n1", "n2"), ("n2", "n1"), ("n1", "n3"))
    ]
    ends = {metric: {NodeName(name): EndpointId(name) for name in ("n1", "n2", "n3")} for metric in METRICS}
    tables = {"maddash": MeasurementTable.of(found[:2]), "file": MeasurementTable.of(found[2:])}
    async with running(*(node_json(name, cpu="1") for name in ("n1", "n2", "n3"))) as world:
        world.set_network(NetworkMatrix.merged(tables, endpoint_of=ends, now_s=0.0))
        world.gang("g", 3)
        world.gang("h", 9)
        await world.settle()
        gang, other = (world.service.views.explain("default", name) for name in ("g", "h"))
        assert isinstance(gang, Explained)
        assert isinstance(other, Explained)
        assert other.links is None
        links = msgspec.to_builtins(gang.links)
        assert (links["nodes"], links["of_nodes"], links["links"], links["left_out"]) == (3, 3, 3, 0)
        assert links["metrics"]["delay"] == {
            "unit": "ms",
            "worst": 5.0,
            "oldest_s": 60.0,
            "sources": {"file": 1, "maddash": 2},
            "from": {"both directions": 1, "one direction": 1, "nothing": 1},
        }
        assert [one["points"] for one in links["worst"]] == sorted(one["points"] for one in links["worst"])
        shown = {(one["source"], one["target"]): one["metrics"]["delay"] for one in links["worst"]}
        assert shown["n1", "n3"] == {
            "there": {"value": 5.0, "age_s": 60.0, "origin": "file"},
            "back": None,
            "counts": 5.0,
            "from": "one direction",
            "no_better_than": None,
        }
