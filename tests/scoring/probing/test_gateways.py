"""Which values between zones stay once other nodes are the gateways."""

import pytest

from scoring.ids import EndpointId, ZoneName
from scoring.network.measurement import Measurement, MeasurementTable, Metric
from scoring.probing.peers import of_gateways

ZONE_OF = {EndpointId(end): ZoneName(end[0]) for end in ("a1", "a2", "b1", "b2")}


Row = tuple[str, str, Metric, float]


def kept(*rows: Row) -> list[tuple[str, str]]:
    """The ends of those rows (from, to, metric, time) that stay with 40 s, at 100 s."""
    table = MeasurementTable.of(
        Measurement(EndpointId(one), EndpointId(other), metric, 0.01, at_s) for one, other, metric, at_s in rows
    )
    found = of_gateways(table, ZONE_OF, now_s=100.0, keep_s=40.0)
    return [(row.source, row.target) for row in found]


LOSS, DELAY, BURST = Metric.LOSS, Metric.DELAY, Metric.THROUGHPUT
NEW = [("a2", "b1", LOSS, 61.0), ("a2", "b2", LOSS, 100.0)]
CASES = {  # sentence: (rows that go, rows that stay)
    "former gateways go after a while": ([("a1", "b1", LOSS, 59.0)], NEW),
    "each direction and metric is judged by itself": ([], [("b1", "a1", LOSS, 0.0), ("a1", "b1", DELAY, 0.0), *NEW]),
    "links inside a zone stay": ([], [("a1", "a2", LOSS, 0.0), ("a2", "a1", LOSS, 100.0)]),
    "throughput stays": ([], [("a1", "b1", BURST, 0.0), ("a2", "b2", BURST, 100.0)]),
    "what a clock that was set back left in the future pushes nothing out": (
        [("a1", "b1", LOSS, 59.0)], [NEW[0], ("a2", "b2", LOSS, 3700.0)]),
    "nothing is nothing": ([], []),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new"), CASES.values(), ids=CASES)
def test_which_values_stay(old: list[Row], new: list[Row]) -> None:
    assert kept(*old, *new) == [row[:2] for row in new]
