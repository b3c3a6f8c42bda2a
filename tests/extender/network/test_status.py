"""How much of the mesh is known: counts that agree with counting by hand."""

import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.api.documents.network import mapping_document
from extender.network.mapping import MappingConfig, map_nodes
from extender.network.merge import AGE_EDGES_S, coverage_of, node_counts
from extender.network.refresh import Polled, RefreshOptions
from extender.ports import EndpointInfo
from extender.schemas.network import LeftOut
from scoring.ids import EndpointId, NodeName
from scoring.network.matrix import METRICS, Measurement, Metric, NetworkMatrix
from tests.builders import node
from tests.extender.network.world import World, running
from tests.fakes.clock import LoopClock
from tests.fakes.network_source import FakeNetworkSource

NAMES = ["a", "b", "c", "d", "e"]
ZONE_OF = dict(zip(NAMES, ["x", "x", "x", "y", "y"], strict=True))
NODES = [node(name, zone=zone) for name, zone in ZONE_OF.items()]


def matrix(*found: Measurement, now_s: float = 0.0) -> NetworkMatrix:
    ends = {metric: {NodeName(name): EndpointId(name) for name in NAMES} for metric in METRICS}
    return NetworkMatrix.of(found, endpoint_of=ends, now_s=now_s)


def delay(source: str, target: str, at_s: float = 0.0) -> Measurement:
    return Measurement(EndpointId(source), EndpointId(target), Metric.DELAY, 1.0, at_s)


def test_ages_are_counted_up_to_each_edge() -> None:
    found = matrix(*(delay("a", end, -age_s) for end, age_s in (("b", 60.0), ("c", 61.0), ("d", 1e9))))
    ages = coverage_of(found, NODES)[Metric.DELAY].ages
    assert ages == (1, *(2 for _ in AGE_EDGES_S[1:]), 3)
    assert (AGE_EDGES_S[0], len(ages)) == (60.0, len(AGE_EDGES_S) + 1)


LINKS = st.lists(st.tuples(st.sampled_from([*NAMES, "gateway"]), st.sampled_from([*NAMES, "gateway"])), unique=True)


@given(LINKS)
def test_unknown_are_the_pairs_of_a_zone_without_a_value(links: list[tuple[str, str]]) -> None:
    found = matrix(*(delay(one, other) for one, other in links if one != other))
    pairs = [(a, b) for a in NAMES for b in NAMES if a != b and ZONE_OF[a] == ZONE_OF[b]]
    coverage = coverage_of(found, NODES)
    assert coverage[Metric.DELAY].unknown == sum(pair not in links for pair in pairs)
    assert coverage[Metric.LOSS].unknown == len(pairs)


def test_without_data_nothing_is_known() -> None:
    coverage = coverage_of(NetworkMatrix(), NODES)
    assert {metric: (one.ages[-1], one.unknown) for metric, one in coverage.items()} == dict.fromkeys(METRICS, (0, 0))


def test_nodes_are_in_one_list_each() -> None:
    nodes = [node(f"n{i:02}") for i in range(30)]
    ends = [EndpointInfo(EndpointId(f"n{i:02}"), ()) for i in range(5)]
    ends += [EndpointInfo(EndpointId(f"twin{k:02}"), ("n05",)) for k in range(12)]
    mapping = map_nodes(nodes, ends, MappingConfig())
    assert node_counts(mapping)[Metric.LOSS] == {"mapped": 5, "unmapped": 24, "ambiguous": 1}
    found = mapping_document(mapping, most=10)
    assert found.unmapped[Metric.LOSS] == tuple(f"n{i:02}" for i in range(6, 16))
    assert [one.node for one in found.ambiguous] == ["n05"] * 3
    assert found.ambiguous[0].candidates == tuple(f"twin{k:02}" for k in range(10))
    assert found.ambiguous[0].more_candidates == 2
    assert found.unused == tuple(f"twin{k:02}" for k in range(10))
    assert found.left_out == LeftOut(
        unmapped={metric.value: 14 for metric in METRICS}, ambiguous=0, unknown=0, unused=2
    )


def test_a_document_of_thousands_of_nodes_is_short() -> None:
    wrong = {"netgang.io/endpoint": "x" * 200_000}
    nodes = [node(f"a{i:04}", annotations=wrong) for i in range(5000)]
    nodes += [node(f"b{i:04}", addresses=("shared",)) for i in range(5000)]
    ends = [EndpointInfo(EndpointId(f"end{k:04}"), ("shared",)) for k in range(5000)]
    mapping = map_nodes(nodes, ends, MappingConfig())
    for most in (10, 100):
        found = mapping_document(mapping, most=most)
        assert len(msgspec.json.encode(found)) < 2000 * most
        assert len(found.unknown) + found.left_out.unknown == len(mapping.unknown) == 15_000
        assert len(found.ambiguous) + found.left_out.ambiguous == len(mapping.ambiguous) == 15_000


@pytest.mark.looptime
async def test_the_status_has_them_as_of_the_last_publication() -> None:
    source, clock = FakeNetworkSource(), LoopClock()
    source.set(delay("a", "b", clock.now_s()))
    world = World(Polled(source, 1000.0), clock=clock, options=RefreshOptions(reevaluate_s=100.0))
    world.nodes = NODES
    assert world.status().coverage == {}
    async with running(world):
        await asyncio.sleep(1.0)
        first = world.status().coverage[Metric.DELAY]
        assert (first.ages[0], first.unknown) == (1, 1)
        await asyncio.sleep(100.0)
        assert len(world.published) == 2
        assert world.status().coverage[Metric.DELAY].ages[:2] == (0, 1)
