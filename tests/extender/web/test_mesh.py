"""The heat-map: letters, numbers and ages of a matrix, whatever its size."""

from itertools import permutations
from typing import Any

import msgspec
import pytest

from extender.web.page import MOST_ENDS, mesh_document
from scoring import EndpointId
from scoring.model.policy import ScorePolicy, Ttl
from scoring.network.matrix import Measurement, Metric, NetworkMatrix
from tests.builders import mesh, node, snapshot

NODES = [node(f"n{i}", zone="ab"[i // 3]) for i in range(6)]
BAD = {"n4": {"loss_ratio": 0.02, "delay_ms": 50.0, "throughput_bps": 1e6}}
POLICY = ScorePolicy(soft_ttl_s=Ttl(60.0, 60.0, 60.0), hard_ttl_s=Ttl(600.0, 600.0, 600.0))


def shown(network: NetworkMatrix, metric: Metric, zone: str | None = None) -> dict[str, Any]:
    made = mesh_document(snapshot(NODES, network=network), POLICY, metric=metric, zone=zone)
    assert made is not None
    return msgspec.json.decode(msgspec.json.encode(made))


@pytest.mark.parametrize("metric", Metric)
def test_a_zone_node_by_node(metric: Metric) -> None:
    made = shown(mesh(NODES, bad=BAD), metric, "b")
    assert made["ends"] == ["n3", "n4", "n5"]
    assert made["grades"] == [" #+", "# #", "+# "]
    assert made["values"][0][0] is None


@pytest.mark.parametrize(("metric", "worst"), [(Metric.LOSS, 0.02), (Metric.DELAY, 50.0), (Metric.THROUGHPUT, 1e6)])
def test_zone_by_zone_the_median_and_beside_it_what_is_bad(metric: Metric, worst: float) -> None:
    """One bad node of three: four of six links in its zone are bad, so the median is; three of nine to the other."""
    made = shown(mesh(NODES, bad=BAD), metric)
    assert made["ends"] == ["a", "b"]
    assert made["grades"] == ["++", "+#"]
    assert made["pairs"] == [[6, 9], [9, 6]]
    assert made["bad"] == [[0, 3], [3, 4]]
    assert [row[1] for row in made["worst_values"]] == [worst, worst]


def test_what_is_old_is_hatched() -> None:
    made = shown(mesh(NODES, now_s=61.0), Metric.DELAY, "a")
    assert made["grades"][0] == " ++"
    assert made["stale"] == ["011", "101", "110"]
    assert made["ages_s"][0] == [None, 61, 61]


def test_nothing_measured() -> None:
    made = shown(NetworkMatrix(), Metric.LOSS)
    assert (made["grades"], made["pairs"]) == (["..", ".."], [[0, 0], [0, 0]])
    assert shown(NetworkMatrix(), Metric.THROUGHPUT, "a")["grades"] == [" ..", ". .", ".. "]


def test_a_measured_link_without_a_value_says_so() -> None:
    ends = {one.name: EndpointId(one.name) for one in NODES}
    pairs = permutations([EndpointId("n0"), EndpointId("n1")], 2)
    measured = [Measurement(source, target, Metric.LOSS, 0.0, 0.0) for source, target in pairs]
    network = NetworkMatrix.from_measurements(measured, endpoint_of={Metric.LOSS: ends}, now_s=0.0)
    assert shown(network, Metric.LOSS, "a")["grades"] == [" +?", "+ ?", "?? "]


def test_a_large_zone_is_cut_and_says_so() -> None:
    nodes = [node(f"n{i:04}") for i in range(5000)]
    ends = [one.name for one in nodes[:MOST_ENDS]]
    made = mesh_document(snapshot(nodes, network=mesh(ends)), POLICY, metric=Metric.DELAY, zone="a")
    assert made is not None
    assert (len(made["ends"]), made["of"]) == (MOST_ENDS, 5000)
    assert len(msgspec.json.encode(made)) < 500 * 1024
