"""What people see of one link: value, age and source of both directions, and what counts of them."""

from typing import Any

import pytest

from extender.service.link import link_document
from scoring.ids import EndpointId, NodeName, ZoneName
from scoring.network import METRICS, Measurement, MeasurementTable, Metric, NetworkMatrix, Zones
from scoring.policy import ScorePolicy, Ttl
from tests.builders import node, snapshot

A, B = NodeName("a"), NodeName("b")
NODES = [node("a", zone="one"), node("b", zone="two"), node("c", zone="two")]
POLICY = ScorePolicy(soft_ttl_s=Ttl.same(100.0), hard_ttl_s=Ttl.same(200.0))


def link(*measured: tuple[str, str, str, float, float], zones: bool = False) -> dict[str, Any]:
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
    part = document["metrics"]["delay"]
    assert isinstance(part, dict)
    return {key: part[key] for key in ("there", "back", "counts", "from")}


def known(value: float, age_s: float, origin: str) -> dict[str, Any]:
    """As it is shown."""
    return {"value": value, "age_s": age_s, "origin": origin}


CASES = {  # case: (there, back, what counts, from, measurements, with zones)
    "both": (known(3.0, 5.0, "maddash"), known(4.0, 6.0, "file"), 4.0, "both directions",
             [("maddash", "a", "b", 3.0, 5.0), ("file", "b", "a", 4.0, 6.0)], False),
    "the newer source": (known(3.0, 5.0, "maddash"), None, 3.0, "one direction",
                         [("maddash", "a", "b", 3.0, 5.0), ("file", "a", "b", 9.0, 6.0)], False),
    "one has expired": (known(9.0, 200.0, "file"), known(4.0, 6.0, "file"), 4.0, "one direction",
                        [("file", "a", "b", 9.0, 200.0), ("file", "b", "a", 4.0, 6.0)], False),
    "both have": (known(9.0, 300.0, "file"), None, None, "nothing", [("file", "a", "b", 9.0, 300.0)], False),
    "like others between the zones": (None, None, 7.0, "zones", [("file", "a", "c", 7.0, 5.0)], True),
    "nothing": (None, None, None, "nothing", [("file", "a", "c", 7.0, 5.0)], False),
}  # fmt: skip


@pytest.mark.parametrize(("there", "back", "counts", "basis", "measured", "zones"), CASES.values(), ids=CASES)
def test_one_link(there: Any, back: Any, counts: float | None, basis: str, measured: list, zones: bool) -> None:
    """Every direction names its source, value and age; what counts says on what it rests."""
    assert {"there": there, "back": back, "counts": counts, "from": basis} == link(*measured, zones=zones)


def test_a_node_that_is_not_known() -> None:
    """There is no link to it."""
    assert link_document(snapshot(NODES), A, NodeName("mars"), POLICY) is None
