"""Measured properties of links between endpoints, and how nodes find theirs.

Why an index of pairs, sorted by (from, to), and no square matrix: at 5,000 nodes a dense matrix of three metrics and
their ages is 600 MB, while sites measure inside a zone and between a few gateways. NaN means *unknown*; direction is
kept (row = from, column = to) and becomes one value only in `scoring.score.pairs`.

What a link without a measurement is taken for (`Medians`), per metric and direction, of values within the hard TTL:
- The worse of what is typical of both ends, as a bad interface is bad to all: the median of an end's measured links to
  the other's zone, of an even count the better middle one, because the bad one of two links may be bad by its other
  end. An end with fewer than `LEAST` such links has the median over the measured pairs of the two zones.
- A hundredth worse than that (`CAUTION`): of two links that look alike the measured one goes first.
- An endpoint that serves nodes of several zones belongs to none.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scoring import METRICS, EndpointId, Metric, NodeName, ZoneName
from scoring.network.measurement import Floats, Ints, Measurement, MeasurementTable
from scoring.records import PairCounts, PairReading


class Zones(msgspec.Struct, frozen=True):
    """What the fallback to zones needs to know: each node's zone, and from which age a value counts as unknown."""

    of: Mapping[NodeName, ZoneName]
    hard_ttl_s: Mapping[Metric, float | None]


CAUTION: Final = 0.01  # By how much an estimated delay is longer, and an estimated rate lower, than what is typical
LEAST: Final = 2  # Links of a node to a zone that say more of its other links there than those of all nodes do


_Values: TypeAlias = tuple[Floats, Floats]  # and ages


class Medians(msgspec.Struct, frozen=True):
    """Medians over the measured pairs, per metric, NaN if there are none, as at −1, where no zone or endpoint is."""

    zone_of: Mapping[NodeName, int]
    values: Mapping[Metric, Floats]  # (zones + 1, zones + 1)
    measured_at_s: Mapping[Metric, Floats]
    hard_ttl_s: Mapping[Metric, float]
    from_end: Mapping[Metric, Floats]  # (endpoints + 1, zones + 1): from this endpoint to nodes of the zone
    to_end: Mapping[Metric, Floats]

    def fill(
        self, metric: Metric, there: _Values, back: _Values, ends: Sequence[Ints], zones: Sequence[Ints], now_s: float
    ) -> NDArray[np.bool_]:
        """Write into `there` (n, m) what links that count in no direction are taken for, at best their last value.

        `back`: (m, n), the opposite direction; `ends`, `zones`: numbers of both sides, (n,) and (m,). Returns where.
        """
        (values, ages_s), (back_values, back_ages_s) = there, back
        (rows, columns), (from_zone, to_zone), hard_s = np.ix_(*ends), np.ix_(*zones), self.hard_ttl_s[metric]
        worse = np.fmin if metric is Metric.THROUGHPUT else np.fmax
        of_zones = self.values[metric][from_zone, to_zone]
        of_ends = self.from_end[metric][rows, to_zone], self.to_end[metric][columns, from_zone]
        typical = worse(*(np.where(np.isnan(of_end), of_zones, of_end) for of_end in of_ends))
        typical *= {Metric.LOSS: 1.0, Metric.DELAY: 1.0 + CAUTION, Metric.THROUGHPUT: 1.0 - CAUTION}[metric]
        unknown = ~(ages_s < hard_s) & ~(back_ages_s < hard_s).T & ~np.isnan(of_zones)
        last = np.where(np.isnan(values), back_values.T, values)
        values[unknown] = worse(typical, last)[unknown]
        ages_s[unknown] = np.maximum(now_s - self.measured_at_s[metric][from_zone, to_zone][unknown], 0.0)
        return unknown


def medians_of(
    columns: Mapping[Metric, tuple[Ints, Floats, Floats]],
    ends: Mapping[Metric, Iterable[tuple[NodeName, int]]],
    zones: Zones,
    *,
    size: int,
    now_s: float,
) -> Medians:
    """Medians of all zone pairs. `columns`: keys from · `size` + to, values, times. Cost: O(m log m + zones²)."""
    number = {zone: i for i, zone in enumerate(sorted(set(zones.of.values())))}
    zone_of, n = {node: number[zone] for node, zone in zones.of.items()}, len(number) + 1
    ttl_s = {metric: zones.hard_ttl_s.get(metric) for metric in METRICS}
    hard_ttl_s = {metric: np.inf if age_s is None else age_s for metric, age_s in ttl_s.items()}
    values, times = ({m: np.full((n, n), np.nan) for m in METRICS} for _ in range(2))
    from_end, to_end = ({m: np.full((size + 1, n), np.nan) for m in METRICS} for _ in range(2))
    for metric, (keys, measured, measured_at_s) in columns.items():
        zone_of_end = _zones_of_ends(ends[metric], zone_of, size=size)
        starts, stops = np.divmod(keys, max(size, 1))
        from_zone, to_zone = zone_of_end[starts], zone_of_end[stops]
        counts = (from_zone >= 0) & (to_zone >= 0) & (now_s - measured_at_s < hard_ttl_s[metric])
        for of_ends, end, zone in ((from_end, starts, to_zone), (to_end, stops, from_zone)):
            at, lower, upper, links = group_medians((end * n + zone)[counts], measured[counts])
            better = upper if metric is Metric.THROUGHPUT else lower
            of_ends[metric].flat[at[links >= LEAST]] = better[links >= LEAST]
        for of_zones, column in ((values, measured), (times, measured_at_s)):
            at, lower, upper, _ = group_medians((from_zone * n + to_zone)[counts], column[counts])
            of_zones[metric].flat[at] = (lower + upper) / 2.0
    return Medians(zone_of, values, times, hard_ttl_s, from_end, to_end)


def group_medians(group: Ints, value: Floats) -> tuple[Ints, Floats, Floats, Ints]:
    """The groups there are, ascending, lower and upper median of each one's values, their number. Cost: O(m log m).

    >>> [column.tolist() for column in group_medians(np.array([0, 2, 0, 0, 0]), np.array([3.0, 5.0, 1.0, 2.0, 4.0]))]
    [[0, 2], [2.0, 5.0], [3.0, 5.0], [4, 1]]
    """
    order = np.lexsort((value, group))
    groups, starts, counts = np.unique(group[order], return_index=True, return_counts=True)
    ascending = value[order]
    return groups, ascending[starts + (counts - 1) // 2], ascending[starts + counts // 2], counts


def _zones_of_ends(ends: Iterable[tuple[NodeName, int]], zone_of: Mapping[NodeName, int], *, size: int) -> Ints:
    """Zone number of each endpoint, −1 where its nodes have none or several."""
    zones_at: defaultdict[int, set[int]] = defaultdict(set)
    for node, end in ends:
        zones_at[end].add(zone_of.get(node, -1))
    zone_of_end = np.full(size, -1, np.int64)
    for end, zones in zones_at.items():
        zone_of_end[end] = min(zones) if len(zones) == 1 else -1
    return zone_of_end


__all__ = [
    "METRICS", "Block", "Floats", "Ints", "Measurement", "MeasurementTable", "Metric", "NetworkMatrix", "PairCounts",
    "PairReading", "Zones",
]  # fmt: skip
Endpoints: TypeAlias = Mapping[Metric, Mapping[NodeName, EndpointId]]  # metric → node → where it is measured


class Block(msgspec.Struct, frozen=True):
    """Values and ages of all directed pairs between `n` from-nodes and `m` to-nodes; NaN is unknown.

    Shapes (n, m), indexed [from, to]. An age is NaN where its value is, and nowhere else. `same` marks pairs that are
    one node. Two nodes that share their endpoint (one host for a site) are unknown, unless each is measured under its
    own name, too (`NetworkMatrix.ends`).
    """

    values: Mapping[Metric, Floats]
    ages_s: Mapping[Metric, Floats]
    same: NDArray[np.bool_]
    measured_bps: Floats | None = None  # Measured last, however long ago; `None`: the throughput in `values` is that
    estimated: Mapping[Metric, NDArray[np.bool_]] = {}  # Whose values were not measured; of none: there is no such one
    best_bps: float = 0.0  # Of the whole mesh, however old

    @property
    def turned(self) -> "Block":
        """With from and to exchanged: (m, n)."""
        values, ages_s = ({metric: of[metric].T for metric in METRICS} for of in (self.values, self.ages_s))
        estimated = {metric: of.T for metric, of in self.estimated.items()}
        measured_bps = None if self.measured_bps is None else self.measured_bps.T
        return Block(values, ages_s, self.same.T, measured_bps, estimated, self.best_bps)


class _Pairs(NamedTuple):
    keys: Ints
    values: Floats
    measured_at_s: Floats
    origin: NDArray[np.uint8]  # Index in the matrix's `origins`

    def ages_s(self, now_s: float) -> Floats:
        """How long ago each was measured; never negative: a clock ahead of ours makes none younger."""
        return np.maximum(now_s - self.measured_at_s, 0.0)


_NO_PAIRS = _Pairs(np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0, np.uint8))


class NetworkMatrix(msgspec.Struct, frozen=True):
    """All known measurements at one moment. Build with `of`; `version` grows whenever the content changes."""

    version: int = 0
    evaluated_at_s: float = 0.0  # The moment from which ages are counted: ages move only when a new matrix is published
    endpoints: tuple[EndpointId, ...] = ()
    endpoint_of: Endpoints = {}
    origins: tuple[str, ...] = ()  # Names of the sources that gave the values, sorted
    _index: Mapping[EndpointId, int] = {}
    _pairs: Mapping[Metric, _Pairs] = msgspec.field(default_factory=lambda: dict.fromkeys(METRICS, _NO_PAIRS))
    _medians: Medians | None = None
    best_bps: float = 0.0  # The highest throughput measured, however old

    @classmethod
    def from_measurements(
        cls, measurements: Iterable[Measurement], *, endpoint_of: Endpoints, now_s: float, version: int = 1
    ) -> "NetworkMatrix":
        """Index measurements of one source; the newest of a pair counts, else the worst. Cost: O(m log m)."""
        table = MeasurementTable.from_measurements(measurements)
        return cls.merged({"": table}, endpoint_of=endpoint_of, now_s=now_s, version=version)

    @classmethod
    def merged(
        cls,
        tables: Mapping[str, MeasurementTable],
        *,
        endpoint_of: Endpoints,
        now_s: float,
        version: int = 1,
        zones: Zones | None = None,
    ) -> "NetworkMatrix":
        """Index the measurements of several sources (name → its table).

        Per metric and pair the newest value counts, of equally new ones the worst, and of equal ones that of the source
        whose name comes first. With `zones`, a link measured in neither direction (or not within the hard TTL) has the
        median of the pairs measured between the two zones, but nothing better than its own last value.
        Cost: O(m log m) for m in all.
        """
        names = {end for table in tables.values() for end in table.ends}
        names.update(e for nodes in endpoint_of.values() for e in nodes.values())
        endpoints = tuple(sorted(names))
        index = {e: i for i, e in enumerate(endpoints)}
        origins = tuple(sorted(tables))
        if len(origins) > 256:
            raise ValueError(f"at most 256 sources can be merged, not {len(origins)}")
        pairs = {metric: _newest([tables[origin] for origin in origins], index, metric=metric) for metric in METRICS}
        best_bps = float(pairs[Metric.THROUGHPUT].values.max(initial=0.0))
        matrix = cls(version, now_s, endpoints, dict(endpoint_of), origins, index, pairs, None, best_bps)
        if zones is not None:
            columns = {metric: p[:3] for metric, p in pairs.items()}
            ends = {metric: matrix.ends(metric) for metric in METRICS}
            matrix = replace(matrix, _medians=medians_of(columns, ends, zones, size=len(index), now_s=now_s))
        return matrix

    @property
    def estimates(self) -> bool:
        """Whether links without a measurement have the value that is typical between their zones."""
        return self._medians is not None

    def known_pairs(self, metric: Metric) -> int:
        """How many directed pairs of endpoints have a value of `metric`."""
        return len(self._pairs[metric].keys)

    def count(self, metric: Metric, *, soft_ttl_s: float | None, hard_ttl_s: float | None) -> PairCounts:
        """Directed pairs of endpoints with a value of `metric`, by the age of that value. Cost: O(pairs)."""
        ages_s = self._pairs[metric].ages_s(self.evaluated_at_s)
        hard_s = np.inf if hard_ttl_s is None else hard_ttl_s
        soft_s = min(np.inf if soft_ttl_s is None else soft_ttl_s, hard_s)
        fresh, expired = int((ages_s < soft_s).sum()), int((ages_s >= hard_s).sum())
        return PairCounts(fresh, len(ages_s) - fresh - expired, expired)

    def measured_values(self, metric: Metric) -> tuple[Ints, Ints, Floats, Floats]:
        """Endpoint indexes (from, to), value and age (s) of all pairs with one, however old. Cost: O(pairs)."""
        pairs = self._pairs[metric]
        rows, cols = np.divmod(pairs.keys, max(len(self.endpoints), 1))
        return rows, cols, pairs.values, pairs.ages_s(self.evaluated_at_s)

    def known(self, source: NodeName, target: NodeName, metric: Metric) -> PairReading | None:
        """What was measured from one node to another, however old; `None`: nothing. Cost: O(log pairs)."""
        pairs, ends = self._pairs[metric], [self.endpoint(node, metric) for node in (source, target)]
        ends = [EndpointId(source), EndpointId(target)] if ends[0] == ends[1] is not None else ends
        hit, at = self._find(pairs, *(self.numbers([end]) for end in ends))
        if not hit.any():
            return None
        [age_s] = pairs.ages_s(self.evaluated_at_s)[at]
        return PairReading(float(pairs.values[at[0]]), float(age_s), self.origins[pairs.origin[at[0]]])

    def endpoint(self, node: NodeName, metric: Metric) -> EndpointId | None:
        """The endpoint where `node` is measured for `metric`; `None` when it has none."""
        return self.endpoint_of.get(metric, {}).get(node)

    def endpoint_indexes(self, nodes: Sequence[NodeName], metric: Metric) -> Ints:
        """Endpoint index of each node, −1 where it has none."""
        of = self.endpoint_of.get(metric, {})
        return self.numbers(of.get(node) for node in nodes)

    def ends(self, metric: Metric) -> list[tuple[NodeName, int]]:
        """Nodes with the index of their endpoint, those that share it once more with that of their own name."""
        of = self.endpoint_of.get(metric, {})
        nodes_at = Counter(of.values())
        own = (node for node, end in of.items() if nodes_at[end] > 1 and EndpointId(node) in self._index)
        return [(node, self._index[end]) for node, end in of.items()] + [(n, self._index[EndpointId(n)]) for n in own]

    def numbers(self, ends: Iterable[str | None]) -> Ints:
        """Index of each endpoint, −1 where it is none."""
        return np.array([-1 if end is None else self._index.get(EndpointId(end), -1) for end in ends], np.int64)

    def block(self, sources: Sequence[NodeName], targets: Sequence[NodeName]) -> Block:
        """Values for all pairs sources × targets. Cost: O(n·m·log pairs)."""
        number = {name: i for i, name in enumerate(targets)}  # comparing numbers is a hundred times faster than names
        rows_at = np.array([number.get(name, -1) for name in sources], np.int64)
        cols_at = np.array([number[name] for name in targets], np.int64)
        same = rows_at[:, None] == cols_at[None, :]
        values, ages_s = {}, {}
        measured_bps: Floats | None = None
        estimated: dict[Metric, NDArray[np.bool_]] = {}
        for metric in METRICS:
            values[metric], ages_s[metric] = there = self._between(metric, sources, targets)
            if (medians := self._medians) is not None:
                if metric is Metric.THROUGHPUT:
                    measured_bps = values[metric].copy()
                both = (sources, targets)
                ends = [self.endpoint_indexes(of, metric) for of in both]
                zones = [np.array([medians.zone_of.get(node, -1) for node in of], np.int64) for of in both]
                back = self._between(metric, targets, sources)
                estimated[metric] = medians.fill(metric, there, back, ends, zones, self.evaluated_at_s)
        return Block(values, ages_s, same, measured_bps, estimated, self.best_bps)

    def with_nodes(self, nodes: Iterable[NodeName]) -> "NetworkMatrix":
        """The same data, under a negative version, with more nodes measured at the endpoints of their own names."""
        own = {node: EndpointId(node) for node in nodes if EndpointId(node) in self._index}
        endpoint_of = {metric: {**own, **self.endpoint_of.get(metric, {})} for metric in METRICS}
        return replace(self, endpoint_of=endpoint_of, version=-1 - abs(self.version))

    def endpoint_delays_ms(self, sources: Sequence[EndpointId], targets: Sequence[EndpointId]) -> Floats:
        """One-way delays (len(sources), len(targets)) in ms between endpoints, NaN where unknown."""
        rows, cols = (self.numbers(ends) for ends in (sources, targets))
        return self._lookup(Metric.DELAY, rows[:, None], cols)[0]

    def _between(self, metric: Metric, sources: Sequence[NodeName], targets: Sequence[NodeName]) -> _Values:
        """Values between endpoints, and between the ends of their own names where two nodes share one."""
        rows, cols = (self.endpoint_indexes(nodes, metric) for nodes in (sources, targets))
        values, ages = self._lookup(metric, rows[:, None], cols)
        i, j = np.nonzero((rows[:, None] == cols) & (cols >= 0))
        own, others = (self.numbers(nodes) for nodes in (sources, targets))
        values[i, j], ages[i, j] = self._lookup(metric, own[i], others[j])
        return values, ages

    def _lookup(self, metric: Metric, rows: Ints, cols: Ints) -> _Values:
        pairs = self._pairs[metric]
        hit, at = self._find(pairs, rows, cols)
        values, ages = (np.full(hit.shape, np.nan) for _ in range(2))
        values[hit], ages[hit] = pairs.values[at], np.maximum(self.evaluated_at_s - pairs.measured_at_s[at], 0.0)
        return values, ages

    def _find(self, pairs: _Pairs, rows: Ints, cols: Ints) -> tuple[NDArray[np.bool_], Ints]:
        """Which of the pairs (of arrays that broadcast) are known, and where each of these stands in `pairs`."""
        keys = rows * len(self.endpoints) + cols
        if not len(pairs.keys):
            return np.zeros(keys.shape, np.bool_), np.empty(0, np.int64)
        at = np.searchsorted(pairs.keys, keys)
        at[at == len(pairs.keys)] = 0
        hit = (pairs.keys[at] == keys) & (rows >= 0) & (cols >= 0)
        return hit, at[hit]


def _newest(tables: Sequence[MeasurementTable], index: Mapping[EndpointId, int], *, metric: Metric) -> _Pairs:
    """One row per pair: by key, then newest first, then worst first, then by the source's number."""
    parts = [_NO_PAIRS]
    for number, table in enumerate(tables):
        chosen = (table.metric == METRICS.index(metric)) & (table.source != table.target)
        place = np.array([index[end] for end in table.ends], np.int64)
        keys = place[table.source[chosen]] * len(index) + place[table.target[chosen]]
        origins = np.full(len(keys), number, np.uint8)
        parts.append(_Pairs(keys, table.value[chosen], table.measured_at_s[chosen], origins))
    key, value, at_s, origin = map(np.concatenate, zip(*parts, strict=True))
    order = np.lexsort((origin, value if metric is Metric.THROUGHPUT else -value, -at_s, key))
    order = order[np.diff(key[order], prepend=-1) != 0]
    return _Pairs(key[order], value[order], at_s[order], origin[order])
