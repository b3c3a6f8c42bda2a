"""Choose one value per link and metric from all grids of a MaDDash server.

Why: a site may measure a link twice (IPv4 and IPv6, two tasks), have round-trip times besides one-way delays, and show
a negative delay where clocks differ. Rule: of two recent values the worse counts; one-way delay and half round-trip
time never appear in one matrix; a negative delay is used as 0 and counted.
"""

from array import array
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from extender.network.batches import DUPLICATE, NEGATIVE_DELAY, NEGATIVE_DELAYS_SAID
from extender.network.maddash.grid import GridReading
from extender.network.maddash.grid_choice import Places
from extender.network.maddash.messages import Kind
from scoring.ids import EndpointId
from scoring.network.matrix import METRICS, MeasurementTable, Metric

TWIN_WINDOW_S: Final = 1800.0  # Values of one link closer in time are equally new; the usual interval of checks
ROUND_TRIP: Final = "round_trip"
_SLICE: Final = 100
_CODES: Final = {metric: code for code, metric in enumerate(METRICS)}
METRIC_OF: Final = {
    Kind.LOSS: Metric.LOSS,
    Kind.ONE_WAY_DELAY: Metric.DELAY,
    Kind.ROUND_TRIP: Metric.DELAY,
    Kind.THROUGHPUT: Metric.THROUGHPUT,
}


@dataclass(frozen=True, slots=True)
class Chosen:
    """One value per direction and metric; `rejected` counts values not used as they were."""

    measurements: MeasurementTable
    problems: tuple[str, ...]
    rejected: Mapping[str, int]


NOTHING: Final = Chosen(MeasurementTable(), (), {})


def choose_in_slices(readings: Sequence[GridReading], places: Places) -> Generator[None, None, Chosen]:
    """Choose, giving control back every hundred values; the result is the generator's return value.

    Clock skew: a negative one-way delay is legal and becomes 0 here, each direction by itself. The worse direction,
    which counts by default, is then the same as if the two had been combined first.
    Cost: O(v) for v values. Order: readings sorted by name give the same result whatever order they came in.
    """
    ordered = sorted(readings, key=lambda reading: reading.name)
    one_way = any(
        Kind.ONE_WAY_DELAY in kinds and (Metric.DELAY, reading.name, check) in places
        for reading in ordered
        for check, kinds in reading.shows.items()
    )
    rows = _Rows()
    counts: Counter[str] = Counter()
    halved: set[str] = set()
    for reading in ordered:
        counting: dict[tuple[Kind, str], bool] = {}  # kind and check → whether they count
        for number, (key, value) in enumerate(reading.values.items()):
            if number % _SLICE == 0:
                yield
            metric = METRIC_OF[value.kind]
            counts_here = counting.get((value.kind, key.check))
            if counts_here is None:
                counts_here = counting[value.kind, key.check] = (metric, reading.name, key.check) in places
            if not counts_here:
                continue
            number_used = value.value
            if value.kind is Kind.ROUND_TRIP:
                if one_way:
                    counts[ROUND_TRIP] += 1
                    continue
                halved.add(reading.name)
                number_used /= 2.0
            if rows.offer(metric, key.source, key.target, number_used, value.checked_at_s):
                counts[DUPLICATE] += 1
    yield
    counts[NEGATIVE_DELAY] = sum(value < 0.0 for value in rows.values)
    measurements = rows.table()
    yield
    return Chosen(
        measurements,
        _problems({METRICS[code] for code in set(rows.metrics)}, halved, counts),
        {reason: count for reason, count in counts.items() if count},
    )


class _Rows:
    """The best value of each direction and metric so far, as columns: objects would keep the garbage collector busy."""

    def __init__(self) -> None:
        self.metrics = array("B")
        self.sources = array("i")
        self.targets = array("i")
        self.values = array("d")
        self.times = array("d")
        self._ends: dict[EndpointId, int] = {}
        self._row: dict[int, int] = {}  # metric, source and target in one number → row

    def offer(self, metric: Metric, source: EndpointId, target: EndpointId, value: float, time_s: float) -> bool:
        """Take a value if there is none or a better one; whether there was one."""
        code = _CODES[metric]
        here = self._ends.setdefault(source, len(self._ends))
        there = self._ends.setdefault(target, len(self._ends))
        place = (here << 32 | there) << 2 | code
        row = self._row.get(place)
        if row is None:
            self._row[place] = len(self.values)
            self.metrics.append(code)
            self.sources.append(here)
            self.targets.append(there)
            self.values.append(value)
            self.times.append(time_s)
            return False
        known, known_s = self.values[row], self.times[row]
        if abs(time_s - known_s) <= TWIN_WINDOW_S:
            taken = value < known if metric is Metric.THROUGHPUT else value > known
        else:
            taken = time_s > known_s
        if taken:
            self.values[row], self.times[row] = value, time_s
        return True

    def table(self) -> MeasurementTable:
        """The rows as measurements. Cost: O(rows), in numpy."""
        if not self.values:
            return MeasurementTable()
        return MeasurementTable(
            ends=tuple(self._ends),
            metric=np.array(self.metrics, np.uint8),
            source=np.array(self.sources, np.int32),
            target=np.array(self.targets, np.int32),
            value=np.maximum(np.array(self.values), 0.0),
            measured_at_s=np.array(self.times),
        )


def _problems(found: set[Metric], halved: set[str], counts: Mapping[str, int]) -> tuple[str, ...]:
    said = [f"grid {name!r} shows round-trip times: half of each is used as one-way delay" for name in sorted(halved)]
    if counts.get(DUPLICATE):
        said.append("some links are measured by several checks: the worse of two recent values counts")
    if counts.get(NEGATIVE_DELAY):
        said.append(NEGATIVE_DELAYS_SAID)
    said += [f"no grid gives a value of {metric}" for metric in METRICS if metric not in found]
    return tuple(said)
