"""The probe's values in a few numbers, however many nodes and zones there are."""

import pytest

from scoring.ids import EndpointId, NodeName, ZoneName
from scoring.network.measurement import Measurement, MeasurementTable, Metric
from scoring.network.node_links import links_of_table
from scoring.probing.summary import MOST_ZONE_PAIRS, WORST, LinkQuality, Summary, pairs_seen, summarise


def table(nodes: int, *, bad: int) -> MeasurementTable:
    """All pairs; links from the node `bad` lose 10 %."""
    ends = [EndpointId(f"n{i:02}") for i in range(nodes)]
    return MeasurementTable.of(
        Measurement(one, other, metric, (0.1 if i == bad else 0.0) if metric is Metric.LOSS else 1.0 + i, 0.0)
        for i, one in enumerate(ends)
        for other in ends
        if one != other
        for metric in (Metric.LOSS, Metric.DELAY)
    )


def summed(values: MeasurementTable, zone_of: dict[NodeName, ZoneName]) -> Summary:
    return summarise(links_of_table(values, zone_of, now_s=0.0))


def test_zones_have_medians_and_the_worst_links_are_named() -> None:
    zone_of = {NodeName(f"n{i:02}"): ZoneName("ab"[i % 2]) for i in range(6)}
    found = summed(table(6, bad=1), zone_of)
    assert found.zones[ZoneName("a"), ZoneName("b")] == LinkQuality(0.0, 3.0)
    assert [pair[0] for pair in found.worst] == ["n01"] * 5 + ["n05"] * 5
    assert found.worst[NodeName("n01"), NodeName("n00")] == LinkQuality(0.1, 2.0)


@pytest.mark.parametrize(("zones", "pairs"), [(20, 400), (21, 21)])
def test_series_are_bounded(zones: int, pairs: int) -> None:
    zone_of = {NodeName(f"n{i:02}"): ZoneName(f"z{i % zones:02}") for i in range(2 * zones)}
    found = summed(table(2 * zones, bad=0), zone_of)
    assert (len(found.zones), len(found.worst)) == (pairs, WORST)
    assert len(found.zones) <= MOST_ZONE_PAIRS


def test_nothing_measured_is_no_series() -> None:
    found = summed(MeasurementTable(), {})
    assert (found.zones, found.worst) == ({}, {})


@pytest.mark.parametrize(("estimates", "estimated"), [(True, 10), (False, 0)])
def test_pairs_without_a_value_are_estimated_where_their_zones_have_one(estimates: bool, estimated: int) -> None:
    """Of zones a and b of three nodes each only a, inside and to b, is measured: 4 of 6, and 1 of 9."""
    zone_of = {NodeName(f"n{i:02}"): ZoneName("ab"[i // 3]) for i in range(6)}
    pairs = [("n00", "n01"), ("n01", "n00"), ("n00", "n02"), ("n02", "n00"), ("n00", "n03")]
    rows = [
        Measurement(EndpointId(one), EndpointId(other), Metric.LOSS, 0.0, float(-i))
        for i, (one, other) in enumerate(pairs)
    ]
    links = links_of_table(MeasurementTable.of(rows), zone_of, now_s=10.0)
    assert pairs_seen(links, Metric.LOSS, estimates=estimates) == (5, estimated, 30, 14.0)
    assert pairs_seen(links, Metric.DELAY, estimates=estimates) == (0, 0, 30, None)
