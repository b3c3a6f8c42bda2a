"""Which values between zones stay once other nodes are the gateways."""

from scoring.ids import EndpointId, ZoneName
from scoring.network.measurement import Measurement, MeasurementTable, Metric
from scoring.probing.gateways import of_gateways

ZONE_OF = {EndpointId(end): ZoneName(end[0]) for end in ("a1", "a2", "b1", "b2")}


def kept(*rows: tuple[str, str, Metric, float]) -> list[tuple[str, str]]:
    """The ends of those rows (from, to, metric, time) that stay with 40 s, at 100 s."""
    table = MeasurementTable.of(
        Measurement(EndpointId(one), EndpointId(other), metric, 0.01, at_s) for one, other, metric, at_s in rows
    )
    found = of_gateways(table, ZONE_OF, now_s=100.0, keep_s=40.0)
    return [(row.source, row.target) for row in found]


def test_former_gateways_go_after_a_while() -> None:
    rows = [("a1", "b1", Metric.LOSS, 59.0), ("a2", "b1", Metric.LOSS, 61.0), ("a2", "b2", Metric.LOSS, 100.0)]
    assert kept(*rows) == [("a2", "b1"), ("a2", "b2")]


def test_each_direction_and_metric_is_judged_by_itself() -> None:
    rows = [("b1", "a1", Metric.LOSS, 0.0), ("a1", "b1", Metric.DELAY, 0.0), ("a2", "b2", Metric.LOSS, 100.0)]
    assert kept(*rows) == [("b1", "a1"), ("a1", "b1"), ("a2", "b2")]


def test_links_inside_a_zone_and_throughput_stay() -> None:
    inside = [("a1", "a2", Metric.LOSS, 0.0), ("a2", "a1", Metric.LOSS, 100.0)]
    bursts = [("a1", "b1", Metric.THROUGHPUT, 0.0), ("a2", "b2", Metric.THROUGHPUT, 100.0)]
    assert len(kept(*inside, *bursts)) == 4


def test_what_a_clock_that_was_set_back_left_in_the_future_pushes_nothing_out() -> None:
    rows = [("a1", "b1", Metric.LOSS, 59.0), ("a2", "b1", Metric.LOSS, 61.0), ("a2", "b2", Metric.LOSS, 3700.0)]
    assert kept(*rows) == [("a2", "b1"), ("a2", "b2")]


def test_nothing_is_nothing() -> None:
    assert kept() == []
