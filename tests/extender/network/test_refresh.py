"""The refresh task in virtual time: what is published when, and what a failing source changes."""

import asyncio
import threading

import pytest

from extender.errors import NetworkSourceError
from extender.network.refresh import Polled, RefreshOptions
from extender.ports import Batch
from extender.settings.network import EndpointRule, NetworkSettings
from scoring import EndpointId, NodeName
from scoring.network.matrix import Measurement, MeasurementTable, Metric, PairReading
from tests.builders import node
from tests.extender.network.world import START_S, World, running
from tests.fakes.clock import LoopClock
from tests.fakes.mesh import full_mesh
from tests.fakes.network_source import FakeNetworkSource, measurements
from tests.liveness import LIVENESS_S

pytestmark = pytest.mark.looptime


def value(source: str, target: str, number: float, *, metric: Metric = Metric.DELAY, at_s: float = 0.0) -> Measurement:
    return Measurement(EndpointId(source), EndpointId(target), metric, number, START_S + at_s)


def fake(*found: Measurement, name: str = "fake") -> FakeNetworkSource:
    source = FakeNetworkSource(name)
    source.set(*found)
    return source


AB = value("a", "b", 1.0)


def bench(*sources: Polled, options: RefreshOptions | None = None, jitter: float = 0.5) -> World:
    world = World(*sources, clock=LoopClock(START_S), options=options, jitter=jitter)
    world.nodes.append(node("c"))
    return world


async def test_the_first_data_are_published_at_once() -> None:
    source = fake(*measurements(full_mesh("a", "b"), measured_at_s=START_S - 30.0))
    async with running(bench(Polled(source, 60.0))) as world:
        await asyncio.sleep(1.0)
        [matrix] = world.published
        assert matrix.version == 1
        assert world.known() == PairReading(0.3, 30.0, "fake")
        assert world.status().mapping.unmapped[Metric.LOSS] == ("c",)  # type: ignore[union-attr]
        assert {metric: pairs.fresh for metric, pairs in world.status().pairs.items()} == dict.fromkeys(Metric, 2)


@pytest.mark.parametrize("count", [0, 1])
async def test_nothing_is_published_without_data(count: int) -> None:
    source = FakeNetworkSource()
    source.fail()
    async with running(bench(*[Polled(source, 60.0)] * count)) as world:
        world.refresh.nodes_changed()
        await asyncio.sleep(1000.0)
        status = world.status()
        assert (world.published, status.version, status.published_at_s, status.crash) == ([], 0, None, None)


async def test_ages_are_evaluated_again() -> None:
    async with running(bench(Polled(fake(AB), 10.0))) as world:
        await asyncio.sleep(185.0)
        assert world.versions() == [1, 2, 3, 4]
        assert [matrix.evaluated_at_s - START_S for matrix in world.published] == pytest.approx([0, 60, 120, 180])
        ages = [matrix.block([NodeName("a")], [NodeName("b")]).ages_s[Metric.DELAY][0, 0] for matrix in world.published]
        assert ages == pytest.approx([0.0, 60.0, 120.0, 180.0])


@pytest.mark.parametrize(("found", "times"), [((AB,), 5), ((), 60)], ids=["one link", "no link"])
async def test_the_same_values_again_are_no_change(found: tuple[Measurement, ...], times: int) -> None:
    source = FakeNetworkSource()
    async with running(bench(Polled(source, 10.0))) as world:
        for _ in range(times):
            source.set(*found)
            await asyncio.sleep(10.0)
        assert world.versions() == [1]


async def test_a_failing_source_keeps_its_last_data() -> None:
    broken, good = fake(AB, name="broken"), FakeNetworkSource("good")
    async with running(bench(Polled(broken, 30.0), Polled(good, 30.0))) as world:
        await asyncio.sleep(1.0)
        broken.fail(NetworkSourceError("broken: status 500"))
        good.set(value("b", "c", 5.0, at_s=40.0))
        await asyncio.sleep(100.0)
        assert (world.delay(), world.delay("b", "c")) == (1.0, 5.0)
        first, second = world.status().sources
        assert (first.error, first.last_success_s, first.measurements) == ("broken: status 500", START_S, 1)
        assert (second.error, second.failures) == (None, 0)
        assert world.status().crash is None
        broken.set(value("a", "b", 2.0, at_s=90.0))
        await asyncio.sleep(300.0)
        assert world.delay() == 2.0
        assert world.status().sources[0].error is None


async def test_failures_back_off() -> None:
    source = FakeNetworkSource()
    source.fail()
    options = RefreshOptions(retry_min_s=5.0, retry_max_s=40.0, jitter_ratio=0.0)
    async with running(bench(Polled(source, 30.0), options=options)) as world:
        await asyncio.sleep(160.0)
        assert [at_s - START_S for at_s in source.fetched_at_s] == pytest.approx([0, 5, 15, 35, 75, 115, 155])
        assert world.source.failures == 7
        source.set(AB)
        await asyncio.sleep(70.0)
        assert [at_s - START_S for at_s in source.fetched_at_s[-2:]] == pytest.approx([195, 225])
        assert world.source.failures == 0


JITTER = {0.0: 54.0, 0.5: 60.0, 1.0: 66.0}  # random number: pause


@pytest.mark.parametrize("random", JITTER)
async def test_jitter(random: float) -> None:
    source = FakeNetworkSource()
    async with running(bench(Polled(source, 60.0), jitter=random)):
        await asyncio.sleep(JITTER[random] + 1.0)
        assert [at_s - START_S for at_s in source.fetched_at_s] == pytest.approx([0.0, JITTER[random]])


async def test_a_hanging_source_is_given_up() -> None:
    class Hanging(FakeNetworkSource):
        async def fetch(self, *, now_s: float) -> Batch | None:
            await asyncio.sleep(1e9)
            return None

    async with running(bench(Polled(Hanging("hanging"), 60.0), Polled(fake(AB, name="good"), 60.0))) as world:
        await asyncio.sleep(1.0)
        assert world.versions() == [1]
        await asyncio.sleep(300.0)
        assert world.status().sources[0].error == "no answer within 300 s"


async def test_an_unforeseen_error_makes_unready_and_heals() -> None:
    buggy, good = FakeNetworkSource("buggy"), FakeNetworkSource("good")
    buggy.fail(KeyError("grid"))
    async with running(bench(Polled(buggy, 60.0), Polled(good, 60.0))) as world:
        await asyncio.sleep(1.0)
        assert world.status().crash == "source buggy: KeyError: 'grid'"
        buggy.set(AB)
        good.set(value("b", "c", 5.0))
        await asyncio.sleep(60.0)
        assert world.delay("b", "c") == 5.0
        await asyncio.sleep(400.0)
        assert (world.delay(), world.status().crash) == (1.0, None)


async def test_an_error_of_the_reader_is_not_the_end() -> None:
    def fail() -> None:
        raise RuntimeError("no room")

    world = bench(Polled(fake(AB), 60.0))
    world.on_publish = fail
    async with running(world):
        await asyncio.sleep(1.0)
        assert world.status().crash == "network matrix: RuntimeError: no room"
        world.on_publish = lambda: None
        await asyncio.sleep(400.0)
        assert (world.delay(), world.status().crash) == (1.0, None)


async def test_new_nodes_are_mapped_when_they_come() -> None:
    source = fake(*measurements(full_mesh("a", "b", "d", "e"), measured_at_s=START_S))
    async with running(bench(Polled(source, 600.0))) as world:
        await asyncio.sleep(1.0)
        world.nodes.append(node("d"))
        world.refresh.nodes_changed()
        await asyncio.sleep(1.0)
        assert world.last.endpoint(NodeName("d"), Metric.LOSS) == "d"
        assert world.versions() == [1, 2]
        world.nodes.append(node("e"))
        await asyncio.sleep(60.0)
        assert world.last.endpoint(NodeName("e"), Metric.LOSS) == "e"
        world.nodes.append(node("unmeasured"))
        world.refresh.nodes_changed()
        await asyncio.sleep(1.0)
        assert world.versions() == [1, 2, 3]
        assert world.status().mapping.unmapped[Metric.LOSS] == ("c", "unmeasured")  # type: ignore[union-attr]


async def test_aliases_of_all_sources_and_the_configured_mapping_count() -> None:
    one, other = FakeNetworkSource("one"), fake(value("x", "y", 3.0), name="other")
    one.set(value("x", "y", 0.1, metric=Metric.LOSS), aliases={"x": ("a",)})
    config = NetworkSettings(mapping=(EndpointRule("y", node="b", metrics=(Metric.LOSS, Metric.DELAY)),))
    async with running(bench(Polled(one, 60.0), Polled(other, 60.0), options=RefreshOptions(network=config))) as world:
        await asyncio.sleep(1.0)
        values = world.last.block([NodeName("a")], [NodeName("b")]).values
        assert (values[Metric.LOSS].item(), values[Metric.DELAY].item()) == (0.1, 3.0)


async def test_problems_and_counts_are_shown() -> None:
    class Talkative(FakeNetworkSource):
        async def fetch(self, *, now_s: float) -> Batch | None:
            table = MeasurementTable.from_measurements([AB])
            return Batch(table, (), now_s - 7.0, ("grid 'L' failed",), {"not_run": 3})

    async with running(bench(Polled(Talkative(), 60.0))) as world:
        await asyncio.sleep(1.0)
        status = world.source
        assert (status.problems, dict(status.rejected)) == (("grid 'L' failed",), {"not_run": 3})
        assert status.last_success_s == START_S - 7.0


@pytest.mark.looptime(False)
async def test_big_meshes_are_merged_beside_the_loop() -> None:
    names = [f"n{i}" for i in range(60)]
    world = bench(Polled(fake(*measurements(full_mesh(*names), measured_at_s=START_S)), 60.0))
    published, threads = asyncio.Event(), list[int]()

    def note() -> None:
        threads.append(threading.get_ident())
        published.set()

    world.nodes = [node(name) for name in names]
    world.on_publish = note
    async with running(world):
        await asyncio.wait_for(published.wait(), LIVENESS_S)
    assert threads == [threading.get_ident()]
    assert world.last.known_pairs(Metric.LOSS) == 60 * 59


async def test_links_between_zones_are_guessed_if_asked() -> None:
    world = bench(Polled(fake(value("a", "b", 4.0)), 10.0), options=RefreshOptions(zone_fallback=True))
    world.nodes = [node("a", zone="one"), node("b", zone="two"), node("c", zone="two")]
    async with running(world):
        await asyncio.sleep(1.0)
        assert (world.delay("a", "c"), world.delay("b", "c")) == (4.04, None)
        world.nodes = [node("a", zone="one"), node("b", zone="two"), node("c", zone="three")]
        world.refresh.nodes_changed()
        await asyncio.sleep(1.0)
        assert world.delay("a", "c") is None
        assert world.versions() == [1, 2]


def test_sources_must_have_different_names() -> None:
    with pytest.raises(ValueError, match="different names"):
        bench(Polled(FakeNetworkSource(), 1.0), Polled(FakeNetworkSource(), 1.0))
