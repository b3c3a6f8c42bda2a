"""What people see of one link: value, age and source of both directions, and what counts of them."""

import numpy as np
import pytest

from extender.api.documents.network import link_document
from scoring.ids import EndpointId, NodeName, ZoneName
from scoring.model.policy import ScorePolicy, Ttl
from scoring.network.matrix import METRICS, Known, Measurement, MeasurementTable, Metric, NetworkMatrix, Zones
from scoring.score.links import among
from tests.builders import mesh, node, snapshot

A, B = NodeName("a"), NodeName("b")
NODES = [node("a", zone="one"), node("b", zone="two"), node("c", zone="two")]
POLICY = ScorePolicy(soft_ttl_s=Ttl.same(100.0), hard_ttl_s=Ttl.same(200.0))


def link(*measured: tuple[str, str, str, float, float], zones: bool = False) -> "Part":
    """The delay part for measurements (source, from, to, delay in ms, age in s)."""
    tables: dict[str, list[Measurement]] = {}
    for source, one, other, value, age_s in measured:
        found = Measurement(EndpointId(one), EndpointId(other), Metric.DELAY, value, 1000.0 - age_s)
        tables.setdefault(source, []).append(found)
    ends = {metric: {n.name: EndpointId(n.name) for n in NODES} for metric in METRICS}
    matrix = NetworkMatrix.merged(
        {source: MeasurementTable.of(found) for source, found in tables.items()},
        endpoint_of=ends,
        now_s=1000.0,
        zones=Zones({n.name: ZoneName(n.zone) for n in NODES}, dict.fromkeys(METRICS, 200.0)) if zones else None,
    )
    document = link_document(snapshot(NODES, network=matrix), A, B, POLICY)
    assert document is not None
    part = document.metrics["delay"]
    return part.there, part.back, part.counts, part.basis, part.no_better_than


def known(value: float, age_s: float, origin: str) -> Known:
    return Known(value, age_s, origin)


Part = tuple[Known | None, Known | None, float | None, str, float | None]
"""There, back, what counts, from, and what the link is no better than."""

CASES: dict[str, tuple[Part, list[tuple[str, str, str, float, float]], bool]] = {  # case: (part, measured, with zones)
    "both": ((known(3.0, 5.0, "maddash"), known(4.0, 6.0, "file"), 4.0, "both directions", None),
             [("maddash", "a", "b", 3.0, 5.0), ("file", "b", "a", 4.0, 6.0)], False),
    "the newer source": ((known(3.0, 5.0, "maddash"), None, 3.0, "one direction", None),
                         [("maddash", "a", "b", 3.0, 5.0), ("file", "a", "b", 9.0, 6.0)], False),
    "the newer of two old sources": ((known(3.0, 250.0, "maddash"), None, None, "nothing", 3.0),
                                     [("maddash", "a", "b", 3.0, 250.0), ("file", "a", "b", 9.0, 260.0)], False),
    "one has expired": ((known(9.0, 200.0, "file"), known(4.0, 6.0, "file"), 4.0, "one direction", 9.0),
                        [("file", "a", "b", 9.0, 200.0), ("file", "b", "a", 4.0, 6.0)], False),
    "both have": ((known(9.0, 300.0, "file"), None, None, "nothing", 9.0), [("file", "a", "b", 9.0, 300.0)], False),
    "like others between the zones": ((None, None, 7.07, "zones", None), [("file", "a", "c", 7.0, 5.0)], True),
    "expired, and worse than others between the zones": (
        (known(9.0, 300.0, "file"), None, 9.0, "zones", 9.0),
        [("file", "a", "b", 9.0, 300.0), ("file", "a", "c", 7.0, 5.0)], True),
    "nothing": ((None, None, None, "nothing", None), [("file", "a", "c", 7.0, 5.0)], False),
}  # fmt: skip


@pytest.mark.parametrize(("part", "measured", "zones"), CASES.values(), ids=CASES)
def test_one_link(part: Part, measured: list[tuple[str, str, str, float, float]], *, zones: bool) -> None:
    assert link(*measured, zones=zones) == part


def test_points_are_those_of_the_plan() -> None:
    nodes = [node(name, zone="one") for name in ("a", "b", "c", "d")]
    found = mesh(["a", "b", "c", "d"], bad={"b": {"delay_ms": 30.0, "throughput_bps": 25e6}})
    document = link_document(snapshot(nodes, network=found), A, B, POLICY)
    assert document is not None
    parts = {name: part.points for name, part in document.metrics.items()}
    assert parts == {"loss": 20.0, "delay": 10.0, "throughput": 10.0}
    assert (document.points, document.reference_bps, document.compared_with) == (40.0, 100e6, 4)
    names = [one.name for one in nodes]
    assert among(found, names, POLICY).points_among(np.array([0, 1]))[0, 1] == 40.0


def test_what_is_unknown_has_the_points_of_the_zones_median() -> None:
    """Less the penalty, as in the plan: also for a link of which nothing is known."""
    nodes = [node(name, zone="one") for name in ("a", "b", "c", "d")]
    found = mesh(["b", "c", "d"], delay_ms=8.0)
    document = link_document(snapshot(nodes, network=found), A, B, POLICY)
    assert document is not None
    parts = [part.points for part in document.metrics.values()]
    assert parts == pytest.approx([20.0 - 1.0, 32.0 - 2.0, 40.0 - 2.0])
    assert document.points == pytest.approx(
        among(found, [one.name for one in nodes], POLICY).points_among(np.array([0, 1]))[0, 1]
    )


@pytest.mark.parametrize(("zones", "compared"), [(1, 100), (2, 100), (5, 100), (500, 2)])
def test_a_link_in_a_large_cluster_costs_no_more(zones: int, compared: int) -> None:
    nodes = [node(f"n{i:03}", zone=f"z{i % zones}") for i in range(500)]
    one, other = NodeName("n498"), NodeName("n499")
    document = link_document(snapshot(nodes, network=mesh([one, other])), one, other, POLICY)
    assert document is not None
    assert (document.compared_with, document.metrics["delay"].counts) == (compared, 1.0)


def test_a_node_that_is_not_known() -> None:
    assert link_document(snapshot(NODES), A, NodeName("mars"), POLICY) is None
