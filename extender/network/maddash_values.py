"""Choose one value per link and metric from all grids of a MaDDash server.

Why: a site may measure a link twice (IPv4 and IPv6, two tasks), have round-trip times besides one-way delays, and show
a negative delay where clocks differ. Rule: of two recent values the worse counts; one-way delay and half round-trip
time never appear in one matrix; a negative delay is used as 0 and counted.
"""

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from extender.network.maddash_grid import CellValue, CheckKey, GridReading
from extender.network.messages import Kind
from scoring.ids import EndpointId
from scoring.network import METRICS, Measurement, Metric

TWIN_WINDOW_S: Final = 1800.0
"""Values of one link at most this far apart in time count as equally new; the default interval of MaDDash's checks."""
NEGATIVE_DELAY: Final = "negative_delay"
DUPLICATE: Final = "duplicate"
ROUND_TRIP: Final = "round_trip"
FUTURE_TIME: Final = "future_time"
FUTURE_LIMIT_S: Final = 60.0
"""A check time further ahead than this is reported; any time ahead counts as now, so that data cannot stay young."""
_SLICE: Final = 500
METRIC_OF: Final = {
    Kind.LOSS: Metric.LOSS,
    Kind.ONE_WAY_DELAY: Metric.DELAY,
    Kind.ROUND_TRIP: Metric.DELAY,
    Kind.THROUGHPUT: Metric.THROUGHPUT,
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which grids and checks count, by exact name. A metric that is not named: every one that shows it."""

    grids: Mapping[Metric, tuple[str, ...]] = field(default_factory=dict)
    checks: Mapping[Metric, tuple[str, ...]] = field(default_factory=dict)

    def __contains__(self, place: tuple[Metric, str, str]) -> bool:
        metric, grid, check = place
        return grid in self.grids.get(metric, (grid,)) and check in self.checks.get(metric, (check,))


@dataclass(frozen=True, slots=True)
class Chosen:
    """One value per link, direction and metric; `rejected` counts values not used as they were."""

    measurements: tuple[Measurement, ...]
    problems: tuple[str, ...]
    rejected: Mapping[str, int]


def choose_in_slices(readings: Sequence[GridReading], wanted: Wanted, *, now_s: float) -> Generator[None, None, Chosen]:
    """Choose, giving control back every few hundred values; the result is the generator's return value.

    Clock skew: a negative one-way delay is legal and becomes 0 here, each direction by itself. The worse direction,
    which counts by default, is then the same as if the two had been combined first.
    Cost: O(v) for v values. Order: readings sorted by name give the same result whatever order they came in.
    """
    ordered = sorted(readings, key=lambda reading: reading.name)
    one_way = any(
        Kind.ONE_WAY_DELAY in kinds and (Metric.DELAY, reading.name, check) in wanted
        for reading in ordered
        for check, kinds in reading.shows.items()
    )
    best: dict[tuple[Metric, EndpointId, EndpointId], CellValue] = {}
    counts: Counter[str] = Counter()
    halved: set[str] = set()
    for reading in ordered:
        for number, (key, value) in enumerate(reading.values.items()):
            if number % _SLICE == 0:
                yield
            metric = METRIC_OF[value.kind]
            if (metric, reading.name, key.check) not in wanted:
                continue
            if value.kind is Kind.ROUND_TRIP:
                if one_way:
                    counts[ROUND_TRIP] += 1
                    continue
                halved.add(reading.name)
                value = CellValue(value.kind, value.value / 2.0, value.checked_at_s)
            _keep(best, metric, key, value, counts)
    measurements: list[Measurement] = []
    for number, ((metric, source, target), value) in enumerate(best.items()):
        if number % _SLICE == 0:
            yield
        if value.value < 0.0:
            counts[NEGATIVE_DELAY] += 1
        if value.checked_at_s > now_s + FUTURE_LIMIT_S:
            counts[FUTURE_TIME] += 1
        measured_at_s = min(value.checked_at_s, now_s)
        measurements.append(Measurement(source, target, metric, max(value.value, 0.0), measured_at_s))
    return Chosen(tuple(measurements), _problems(measurements, halved, counts), dict(counts))


def _keep(
    best: dict[tuple[Metric, EndpointId, EndpointId], CellValue],
    metric: Metric,
    key: CheckKey,
    value: CellValue,
    counts: Counter[str],
) -> None:
    place = (metric, key.source, key.target)
    known = best.get(place)
    if known is not None:
        counts[DUPLICATE] += 1
        newer = value.checked_at_s > known.checked_at_s
        if abs(value.checked_at_s - known.checked_at_s) <= TWIN_WINDOW_S:
            worse = value.value < known.value if metric is Metric.THROUGHPUT else value.value > known.value
        else:
            worse = newer
        if not worse:
            return
    best[place] = value


def _problems(measurements: Sequence[Measurement], halved: set[str], counts: Mapping[str, int]) -> tuple[str, ...]:
    found = [f"grid {name!r} shows round-trip times: half of each is used as one-way delay" for name in sorted(halved)]
    if counts.get(DUPLICATE):
        found.append("some links are measured by several checks: the worse of two recent values counts")
    if counts.get(NEGATIVE_DELAY):
        found.append("some one-way delays are negative (clocks differ): they are used as 0")
    if counts.get(FUTURE_TIME):
        found.append("the server's clock is ahead of ours: its times are taken as now")
    missing = set(METRICS) - {one.metric for one in measurements}
    found += [f"no grid gives a value of {metric}" for metric in METRICS if metric in missing]
    return tuple(found)
