"""What was measured: one value, and many of them as columns.

Why columns: a site measures a link in three metrics and two directions, so 5,000 nodes in 40 zones are almost two
million values; as objects they would take 300 MB, as columns 47. Rule: values that cannot be are refused where a
measurement is built, so that nothing behind it has to look again.
"""

from array import array
from collections.abc import Iterable, Iterator, Set
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from scoring.ids import EndpointId

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]


class Metric(StrEnum):
    """What is measured: packet loss (ratio 0..1), one-way delay (ms), throughput (bit/s)."""

    LOSS = "loss"
    DELAY = "delay"
    THROUGHPUT = "throughput"


METRICS: tuple[Metric, ...] = (Metric.LOSS, Metric.DELAY, Metric.THROUGHPUT)


class Measurement(msgspec.Struct, frozen=True):
    """One value of one metric in one direction, and when it was taken (Unix seconds)."""

    source: EndpointId
    target: EndpointId
    metric: Metric
    value: float
    measured_at_s: float

    def __post_init__(self) -> None:
        """Refuse values that cannot be: the source's adapter must drop or mend them, and count them."""
        top = 1.0 if self.metric is Metric.LOSS else 1e15
        if not 0.0 <= self.value <= top:
            raise ValueError(f"{self.metric} of {self.value} is outside 0..{top:g}")
        if not np.isfinite(self.measured_at_s):
            raise ValueError("measured_at_s must be finite")


class MeasurementTable(msgspec.Struct, frozen=True, eq=False):
    """Many measurements as columns: 25 bytes each, where a `Measurement` has 150. Build with `of`; iterates as such."""

    ends: tuple[EndpointId, ...] = ()  # Endpoints, by the number under which the rows name them
    metric: NDArray[np.uint8] = msgspec.field(default_factory=lambda: np.empty(0, np.uint8))  # Index in `METRICS`
    source: NDArray[np.int32] = msgspec.field(default_factory=lambda: np.empty(0, np.int32))
    target: NDArray[np.int32] = msgspec.field(default_factory=lambda: np.empty(0, np.int32))
    value: Floats = msgspec.field(default_factory=lambda: np.empty(0))
    measured_at_s: Floats = msgspec.field(default_factory=lambda: np.empty(0))

    @classmethod
    def of(cls, measurements: "Iterable[Measurement]") -> "MeasurementTable":
        """Write down measurements in the order given; they may come from a generator. Cost: O(n)."""
        if isinstance(measurements, MeasurementTable):
            return measurements
        number: dict[EndpointId, int] = {}
        code = {metric: i for i, metric in enumerate(METRICS)}
        metrics, sources, targets, values, times = array("B"), array("i"), array("i"), array("d"), array("d")
        for one in measurements:
            metrics.append(code[one.metric])
            sources.append(number.setdefault(one.source, len(number)))
            targets.append(number.setdefault(one.target, len(number)))
            values.append(one.value)
            times.append(one.measured_at_s)
        return cls(tuple(number), *map(np.asarray, (metrics, sources, targets, values, times)))

    @property
    def columns(self) -> tuple[NDArray[Any], ...]:
        """Metric, source, target, value and time of all rows."""
        return self.metric, self.source, self.target, self.value, self.measured_at_s

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Measurement]:
        rows = zip(*(column.tolist() for column in self.columns), strict=True)
        for metric, source, target, value, at_s in rows:
            yield Measurement(self.ends[source], self.ends[target], METRICS[metric], value, at_s)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MeasurementTable):
            return NotImplemented
        return self is other or (self.ends == other.ends and all(map(np.array_equal, self.columns, other.columns)))

    __hash__ = None  # type: ignore[assignment]  # the columns are compared by content

    def without(self, pairs: Set[tuple[EndpointId, EndpointId]]) -> "MeasurementTable":
        """The rows of other pairs. Cost: O(n)."""
        if not pairs:
            return self
        return MeasurementTable.of(one for one in self if (one.source, one.target) not in pairs)

    def compact(self) -> "MeasurementTable":
        """The same rows without the endpoints that none of them names. Cost: O(n log n)."""
        used, place = np.unique(np.concatenate([self.source, self.target]), return_inverse=True)
        ends = tuple(self.ends[number] for number in used.tolist())
        source, target = np.split(place.astype(np.int32).reshape(-1), 2)
        return MeasurementTable(ends, self.metric, source, target, self.value, self.measured_at_s)

    def measured_ends(self, metric: Metric) -> set[EndpointId]:
        """Endpoints that have a value of `metric` in any direction. Cost: O(n)."""
        rows = self.metric == METRICS.index(metric)
        numbers = np.union1d(self.source[rows], self.target[rows])
        return {self.ends[number] for number in numbers.tolist()}
