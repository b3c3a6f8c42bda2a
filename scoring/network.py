"""Measured properties of links between endpoints, and how nodes find theirs.

Why an index of pairs and no square matrix: at 5,000 nodes a dense matrix of three metrics and their ages is 600 MB,
while sites measure inside a zone and between a few gateways. Pairs are kept sorted by (from, to), and a decision takes
out the block of the one zone it looks at. Rule: NaN means *unknown* and never leaves this module's users unhandled;
direction is kept (row = from, column = to) and becomes one value only in `scoring.score`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scoring.ids import EndpointId, NodeName

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]


class Metric(StrEnum):
    """What is measured: packet loss (ratio 0..1), one-way delay (ms), throughput (bit/s)."""

    LOSS = "loss"
    DELAY = "delay"
    THROUGHPUT = "throughput"


METRICS: tuple[Metric, ...] = (Metric.LOSS, Metric.DELAY, Metric.THROUGHPUT)


@dataclass(frozen=True, slots=True)
class Measurement:
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


@dataclass(frozen=True, slots=True)
class Block:
    """Values and ages of all directed pairs between `n` from-nodes and `m` to-nodes; NaN is unknown.

    Shapes (n, m), indexed [from, to]. Units: ratio, ms, bit/s, seconds. Pairs that share their endpoint in every metric
    that both have one for (or are the same node) are marked in `same`: their link is the machine itself or its site,
    which no source measures. Sharing a site's throughput endpoint alone says nothing of two nodes' own delay.
    """

    loss_ratio: Floats
    delay_ms: Floats
    throughput_bps: Floats
    loss_age_s: Floats
    delay_age_s: Floats
    throughput_age_s: Floats
    same: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Known pairs of one metric: keys = from·size + to, ascending."""

    keys: Ints
    values: Floats
    measured_at_s: Floats


def _no_pairs() -> _Pairs:
    return _Pairs(np.empty(0, np.int64), np.empty(0), np.empty(0))


@dataclass(frozen=True, slots=True)
class NetworkMatrix:
    """All known measurements at one moment. Build with `of`; `version` grows whenever the content changes."""

    version: int = 0
    evaluated_at_s: float = 0.0
    """The moment from which ages are counted: ages move only when a new matrix is published (DESIGN §1)."""
    endpoints: tuple[EndpointId, ...] = ()
    endpoint_of: Mapping[Metric, Mapping[NodeName, EndpointId]] = field(default_factory=dict)
    """metric → node → endpoint it is measured at."""
    _index: Mapping[EndpointId, int] = field(default_factory=dict, repr=False)
    _pairs: Mapping[Metric, _Pairs] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        measurements: Iterable[Measurement],
        *,
        endpoint_of: Mapping[Metric, Mapping[NodeName, EndpointId]],
        now_s: float,
        version: int = 1,
    ) -> "NetworkMatrix":
        """Index measurements; of several for one pair and metric the newest counts, the worst of equally new ones.

        Cost: O(m log m) for m measurements.
        """
        latest: dict[tuple[Metric, EndpointId, EndpointId], Measurement] = {}
        for one in measurements:
            key = (one.metric, one.source, one.target)
            known = latest.get(key)
            if known is None or _rank(one) > _rank(known):
                latest[key] = one
        names = {e for _, source, target in latest for e in (source, target)}
        names.update(e for nodes in endpoint_of.values() for e in nodes.values())
        endpoints = tuple(sorted(names))
        index = {e: i for i, e in enumerate(endpoints)}
        pairs = {m: _collect(latest, index, metric=m) for m in METRICS}
        return cls(version, now_s, endpoints, dict(endpoint_of), index, pairs)

    def known_pairs(self, metric: Metric) -> int:
        """How many directed pairs of endpoints have a value of `metric`."""
        return len(self._pairs[metric].keys) if metric in self._pairs else 0

    def endpoint(self, node: NodeName, metric: Metric) -> EndpointId | None:
        """The endpoint where `node` is measured for `metric`; `None` when it has none."""
        return self.endpoint_of.get(metric, {}).get(node)

    def endpoint_indexes(self, nodes: Sequence[NodeName], metric: Metric) -> Ints:
        """Endpoint index of each node, −1 where it has none."""
        of = self.endpoint_of.get(metric, {})
        return np.array([self._index.get(of[n], -1) if n in of else -1 for n in nodes], np.int64)

    def block(self, sources: Sequence[NodeName], targets: Sequence[NodeName]) -> Block:
        """Values for all pairs sources × targets. Cost: O(n·m·log pairs)."""
        named = np.array(sources, dtype=object)[:, None] == np.array(targets, dtype=object)[None, :]
        same = np.asarray(named, dtype=np.bool_).reshape(len(sources), len(targets))
        columns: dict[Metric, tuple[Floats, Floats]] = {}
        shared, apart = np.zeros_like(same), np.zeros_like(same)
        for metric in METRICS:
            rows = self.endpoint_indexes(sources, metric)
            cols = self.endpoint_indexes(targets, metric)
            columns[metric] = self._lookup(metric, rows, cols)
            both = (rows[:, None] >= 0) & (cols[None, :] >= 0)
            shared |= both & (rows[:, None] == cols[None, :])
            apart |= both & (rows[:, None] != cols[None, :])
        same = same | (shared & ~apart)
        (loss, loss_age), (delay, delay_age), (rate, rate_age) = (columns[m] for m in METRICS)
        return Block(loss, delay, rate, loss_age, delay_age, rate_age, same)

    def with_nodes(self, nodes: Iterable[NodeName]) -> "NetworkMatrix":
        """The same data with more nodes, each measured at the endpoint of its own name if there is one.

        The version becomes negative, so that nothing computed for it is mistaken for the original's.
        """
        known = [node for node in nodes if EndpointId(node) in self._index]
        of = {m: {**dict.fromkeys(known), **self.endpoint_of.get(m, {})} for m in METRICS}
        mapped = {m: {n: e if e is not None else EndpointId(n) for n, e in ends.items()} for m, ends in of.items()}
        return replace(self, endpoint_of=mapped, version=-1 - abs(self.version))

    def endpoint_delays_ms(self, sources: Sequence[EndpointId], targets: Sequence[EndpointId]) -> Floats:
        """One-way delays (len(sources), len(targets)) in ms between endpoints, NaN where unknown."""
        rows, cols = (np.array([self._index.get(e, -1) for e in ends], np.int64) for ends in (sources, targets))
        return self._lookup(Metric.DELAY, rows, cols)[0]

    def _lookup(self, metric: Metric, rows: Ints, cols: Ints) -> tuple[Floats, Floats]:
        values = np.full((len(rows), len(cols)), np.nan)
        ages = np.full((len(rows), len(cols)), np.nan)
        pairs = self._pairs.get(metric)
        if pairs is None or not len(pairs.keys) or not values.size:
            return values, ages
        keys = rows[:, None] * len(self.endpoints) + cols[None, :]
        at = np.searchsorted(pairs.keys, keys)
        at[at == len(pairs.keys)] = 0
        hit = (pairs.keys[at] == keys) & (rows[:, None] >= 0) & (cols[None, :] >= 0)
        values[hit] = pairs.values[at[hit]]
        ages[hit] = np.maximum(self.evaluated_at_s - pairs.measured_at_s[at[hit]], 0.0)
        return values, ages


def _rank(one: Measurement) -> tuple[float, float]:
    return one.measured_at_s, -one.value if one.metric is Metric.THROUGHPUT else one.value


def _collect(latest: Mapping[Any, Measurement], index: Mapping[EndpointId, int], *, metric: Metric) -> _Pairs:
    chosen = [m for m in latest.values() if m.metric is metric and m.source != m.target]
    if not chosen:
        return _no_pairs()
    size = len(index)
    keys = np.array([index[m.source] * size + index[m.target] for m in chosen], np.int64)
    order = np.argsort(keys)
    values = np.array([m.value for m in chosen])[order]
    return _Pairs(keys[order], values, np.array([m.measured_at_s for m in chosen])[order])
