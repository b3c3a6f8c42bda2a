"""How much of the mesh is known: counts that agree with counting by hand."""

import msgspec

from extender.api.documents.network import mapping_document
from extender.network.mapping import MappingConfig, map_nodes
from extender.network.merge import node_counts
from extender.ports import EndpointInfo
from extender.schemas.network import LeftOut
from scoring.ids import EndpointId
from scoring.network.matrix import METRICS, Metric
from tests.builders import node


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
