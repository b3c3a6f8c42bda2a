"""Choose one value per link and metric from all grids of a MaDDash server.

Why: a site may measure a link twice (IPv4 and IPv6, two tasks), have round-trip times besides one-way delays, and show
a negative delay where clocks differ. Rule: of two recent values the worse counts; one-way delay and half round-trip
time never appear in one matrix; a negative delay is used as 0 and counted.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from extender.network.batches import DUPLICATE, NEGATIVE_DELAY, NEGATIVE_DELAYS_SAID
from extender.network.maddash.grid import GridReading
from extender.network.maddash.grid_choice import Places
from extender.network.maddash.messages import Kind
from extender.network.sources.answers import Answer
from scoring.ids import EndpointId
from scoring.network.matrix import METRICS, Measurement, MeasurementTable, Metric

TWIN_WINDOW_S: Final = 1800.0  # Values of one link closer in time are equally new; the usual interval of checks
ROUND_TRIP: Final = "round_trip"
METRIC_OF: Final = {
    Kind.LOSS: Metric.LOSS,
    Kind.ONE_WAY_DELAY: Metric.DELAY,
    Kind.ROUND_TRIP: Metric.DELAY,
    Kind.THROUGHPUT: Metric.THROUGHPUT,
}
_Link: TypeAlias = tuple[EndpointId, EndpointId, Metric]
_Value: TypeAlias = tuple[float, float]  # and when it was measured


def choose(readings: Iterable[GridReading], places: Places) -> Answer:
    """Choose among the values of all grids one for each direction and metric; `rejected`: those not used as they were.

    Clock skew: a negative one-way delay is legal and becomes 0 here, each direction by itself. The worse direction,
    which counts by default, is then the same as if the two had been combined first.
    Cost: O(v) for v values. The order of readings decides nothing.
    """
    ordered = sorted(readings, key=lambda reading: reading.name)
    counting = {  # grid → its checks that count, with what they measure
        one.name: {(check, kind) for check, kind in one.shows if (METRIC_OF[kind], one.name, check) in places}
        for one in ordered
    }
    one_way = any(kind is Kind.ONE_WAY_DELAY for checks in counting.values() for _, kind in checks)
    best: dict[_Link, _Value] = {}
    counts: Counter[str] = Counter()
    halved: set[str] = set()
    for reading in ordered:
        for key, value in reading.values.items():
            if (key.check, value.kind) not in counting[reading.name]:
                continue
            number = value.value
            if value.kind is Kind.ROUND_TRIP:
                if one_way:
                    counts[ROUND_TRIP] += 1
                    continue
                halved.add(reading.name)
                number /= 2.0
            link, new = (key.source, key.target, METRIC_OF[value.kind]), (number, value.checked_at_s)
            if (known := best.setdefault(link, new)) is not new:
                counts[DUPLICATE] += 1
                if _goes_before(new, known, link[2]):
                    best[link] = new
    counts[NEGATIVE_DELAY] = sum(value < 0.0 for value, _ in best.values())
    table = MeasurementTable.of(Measurement(*link, max(v, 0.0), at_s) for link, (v, at_s) in best.items())
    problems = tuple(_problems({metric for _, _, metric in best}, halved, counts))
    return Answer(table, problems=problems, rejected=dict(+counts))


def _goes_before(new: _Value, known: _Value, metric: Metric) -> bool:
    if abs(new[1] - known[1]) > TWIN_WINDOW_S:
        return new[1] > known[1]
    return new[0] < known[0] if metric is Metric.THROUGHPUT else new[0] > known[0]


def _problems(found: set[Metric], halved: set[str], counts: Mapping[str, int]) -> Iterator[str]:
    for name in sorted(halved):
        yield f"grid {name!r} shows round-trip times: half of each is used as one-way delay"
    if counts.get(DUPLICATE):
        yield "some links are measured by several checks: the worse of two recent values counts"
    if counts.get(NEGATIVE_DELAY):
        yield NEGATIVE_DELAYS_SAID
    yield from (f"no grid gives a value of {metric}" for metric in METRICS if metric not in found)
