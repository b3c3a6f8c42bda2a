"""What was measured: one value, and many of them as columns.

Why columns: a site measures a link in three metrics and two directions, so 5,000 nodes in 40 zones are almost two
million values; as objects they would take 300 MB, as columns 47. Rule: values that cannot be are refused where a
measurement is built, so that nothing behind it has to look again.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from itertools import compress
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from scoring import METRICS, EndpointId, Metric

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]


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
    def from_measurements(cls, measurements: "Iterable[Measurement]") -> "MeasurementTable":
        """Write down measurements in the order given; they may come from a generator. Cost: O(n)."""
        number: dict[EndpointId, int] = {}
        code = {metric: i for i, metric in enumerate(METRICS)}
        metrics, sources, targets, values, times = array("B"), array("i"), array("i"), array("d"), array("d")
        for measurement in measurements:
            metrics.append(code[measurement.metric])
            sources.append(number.setdefault(measurement.source, len(number)))
            targets.append(number.setdefault(measurement.target, len(number)))
            values.append(measurement.value)
            times.append(measurement.measured_at_s)
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

    def where(self, rows: NDArray[np.bool_]) -> "MeasurementTable":
        """Only these rows, and the endpoints that they name. Cost: O(n)."""
        metric, source, target, value, at_s = (column[rows] for column in self.columns)
        used = np.zeros(len(self.ends), np.bool_)
        used[source] = used[target] = True
        place, ends = np.cumsum(used, dtype=np.int32) - 1, tuple(compress(self.ends, used.tolist()))
        return MeasurementTable(ends, metric, place[source], place[target], value, at_s)

    def renamed(self, name_of: Mapping[EndpointId, EndpointId]) -> "MeasurementTable":
        """With these names of endpoints, without the rows of an endpoint that has none. Cost: O(n)."""
        number = {name: i for i, name in enumerate(dict.fromkeys(name_of.values()))}
        place = np.array([number[name_of[end]] if end in name_of else -1 for end in self.ends], np.int32)
        table = MeasurementTable(tuple(number), self.metric, place[self.source], place[self.target], *self.columns[3:])
        return table.where((table.source >= 0) & (table.target >= 0))

    def joined(self, other: "MeasurementTable") -> "MeasurementTable":
        """The rows of both. Cost: O(n)."""
        number = {end: i for i, end in enumerate(dict.fromkeys((*self.ends, *other.ends)))}
        place = np.array([number[end] for end in other.ends], np.int32)
        theirs: tuple[NDArray[Any], ...] = (other.metric, place[other.source], place[other.target], *other.columns[3:])
        columns = (np.concatenate(both) for both in zip(self.columns, theirs, strict=True))
        return MeasurementTable(tuple(number), *columns)

    def keys(self, number: Mapping[EndpointId, int]) -> Ints:
        """Of each row, the same where metric and numbers of the ends are. Cost: O(n)."""
        place, of = np.array([number[end] for end in self.ends], np.int64), max(number.values(), default=0) + 1
        return (place[self.source] * of + place[self.target]) * len(METRICS) + self.metric

    def measured_ends(self, metric: Metric) -> set[EndpointId]:
        """Endpoints that have a value of `metric` in any direction. Cost: O(n)."""
        rows = self.metric == METRICS.index(metric)
        numbers = np.union1d(self.source[rows], self.target[rows])
        return {self.ends[number] for number in numbers.tolist()}
