"""Of a pair that the probe and another source measure: perfSONAR first while fresh, then the newer value."""

import pytest
from msgspec.structs import replace

from extender.network.merge import Given, build
from extender.ports import EndpointInfo
from extender.settings.network import NetworkSettings
from scoring.ids import EndpointId, NodeName
from scoring.model.policy import Ttl
from scoring.network.matrix import Known, NetworkMatrix
from scoring.network.measurement import Measurement, MeasurementTable, Metric
from tests.builders import node

NOW_S = 1_800_000_000.0
SOFT = Ttl(loss=600.0, delay=600.0, throughput=600.0)
ADDRESSES = {"n1": "10.0.0.1", "n2": "10.0.0.2", "n3": "10.0.0.3"}


def table(*rows: tuple[str, str, float, float], metric: Metric = Metric.DELAY) -> MeasurementTable:
    """Rows: from, to, value, age in seconds."""
    return MeasurementTable.of(
        Measurement(EndpointId(one), EndpointId(other), metric, value, NOW_S - age_s)
        for one, other, value, age_s in rows
    )


def matrix(
    probe: MeasurementTable, other: MeasurementTable, config: NetworkSettings = NetworkSettings()
) -> NetworkMatrix:
    """perfSONAR's hosts ps1 and ps2 have the addresses of n1 and n2; n3 has none."""
    ends = (EndpointInfo(EndpointId("ps1"), ("10.0.0.1",)), EndpointInfo(EndpointId("ps2"), ("10.0.0.2",)))
    nodes = tuple(node(name, addresses=(address,)) for name, address in ADDRESSES.items())
    given = Given({"maddash": other, "probe": probe}, (ends, ()), nodes)
    return build(given, None, replace(config, soft_ttl_s=SOFT), zone_fallback=False, now_s=NOW_S).matrix


def known(found: NetworkMatrix, one: str = "n1", other: str = "n2", metric: Metric = Metric.DELAY) -> Known | None:
    return found.known(NodeName(one), NodeName(other), metric)


AGES = {  # case: (age of perfSONAR's value, of the probe's; which counts)
    "both fresh": (500.0, 10.0, "maddash"),
    "perfSONAR's past the soft TTL": (700.0, 10.0, "probe"),
    "the probe's past it too, and newer": (900.0, 700.0, "probe"),
    "both past it, the probe's older": (700.0, 900.0, "maddash"),
}


@pytest.mark.parametrize(("theirs_s", "ours_s", "counts"), AGES.values(), ids=AGES)
def test_which_value_of_a_pair_counts(theirs_s: float, ours_s: float, counts: str) -> None:
    found = matrix(table(("n1", "n2", 2.0, ours_s)), table(("ps1", "ps2", 1.0, theirs_s)))
    value, age_s = {"maddash": (1.0, theirs_s), "probe": (2.0, ours_s)}[counts]
    one = known(found)
    assert one is not None
    assert (one.value, one.origin) == (value, counts)
    assert one.age_s == pytest.approx(age_s)


def test_pairs_that_no_other_source_has_are_the_probe_s() -> None:
    probe = table(("n1", "n3", 3.0, 10.0), ("n3", "n1", 4.0, 10.0), ("n2", "n1", 5.0, 10.0))
    found = matrix(probe, table(("ps1", "ps2", 1.0, 10.0)))
    assert [known(found, *pair) for pair in (("n1", "n3"), ("n3", "n1"), ("n2", "n1"))] == [
        Known(value, 10.0, "probe") for value in (3.0, 4.0, 5.0)
    ]
    assert known(found) == Known(1.0, 10.0, "maddash")


@pytest.mark.parametrize("metric", [Metric.LOSS, Metric.THROUGHPUT])
def test_a_metric_that_perfsonar_does_not_measure_is_the_probe_s(metric: Metric) -> None:
    found = matrix(table(("n1", "n2", 0.01, 10.0), metric=metric), table(("ps1", "ps2", 1.0, 10.0)))
    assert known(found, metric=metric) == Known(0.01, 10.0, "probe")
    assert (found.endpoint(NodeName("n1"), Metric.THROUGHPUT) is None) == (metric is Metric.LOSS)


def test_nodes_that_share_a_site_s_endpoint_are_measured_there() -> None:
    site = {Metric.DELAY: "ps1"}
    config = NetworkSettings(mapping={NodeName("n1"): site, NodeName("n3"): site})
    found = matrix(table(("n1", "n2", 2.0, 10.0), ("n2", "n3", 2.0, 10.0)), table(("ps1", "ps2", 1.0, 700.0)), config)
    assert known(found) == Known(1.0, 700.0, "maddash")
    assert known(found, "n2", "n3") is None


def test_a_node_of_no_cluster_is_left_out() -> None:
    found = matrix(table(("n1", "n9", 2.0, 10.0), ("n1", "n3", 2.0, 10.0)), table(("ps1", "ps2", 1.0, 10.0)))
    assert EndpointId("n9") not in found.endpoints
