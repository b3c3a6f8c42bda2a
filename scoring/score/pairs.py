"""Turn measurements into the score of each pair of nodes (PAPERS N2), and keep every part for the explanation.

Why two numbers per pair: `points` is the published f, for people; it saturates (everything from 2 % loss up scores 0 in
its term). `rank` is what selections compare: where a term is clipped the raw value decides by less than a thousandth of
a point, so that a worse link always ranks lower. Rule: an unknown value is neutral with a penalty, never perfect and
never the best; age can take points away but never add any: what a link earned fresh is the most it can have.

Bad links first: a sum of points hides the one link on which a whole job waits, so the rank of a pair whose grade is bad
(`scoring.network.node_links`) falls by `BAD_PAIR`, as much as 2,621 perfect pairs are worth: up to 72 members that all
talk the set with fewer bad pairs has the higher sum, always. Bad is no estimate, nothing beyond the hard TTL, and no
metric whose ratio is 0. Rates are compared with the best of the mesh, as on the page, not with that of a slow zone.

Not promised: when the reference rate is the block's own best, a faster best link lowers the *bandwidth* points of the
others; with a configured reference no better link lowers any pair.

All nodes that are measured nowhere look alike, but for the pair of a node with itself. So the scores between many nodes
cost, in time and memory, what those of the measured ones and one pair of the others do, and are the same bit by bit.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import astuple
from numpy.typing import NDArray

from scoring import NodeName, value_text
from scoring.model.policy import ScorePolicy
from scoring.network.matrix import METRICS, Block, Floats, Ints, Metric, NetworkMatrix
from scoring.network.node_links import are_bad

TIE_STEP = 1e-5  # Points per unit of ln(1 + how far a raw value is beyond the clip)
TIE_LIMIT = 33.0  # That logarithm is cut here (e³³ times the clip): three terms together stay below 0.001 points
UNKNOWN_TIE = -TIE_STEP * TIE_LIMIT  # An unknown value ranks below known ones with the same points
BAD_PAIR = 2.0**18  # Points that a bad pair's rank falls by
Names: TypeAlias = Sequence[NodeName]


class PairScores(msgspec.Struct, frozen=True):
    """Scores of all pairs of an (n, m) block and the values they came from; all arrays are (n, m) and free to read."""

    terms: Mapping[Metric, Floats]  # Points of each
    points: Floats  # Their sum f: 0..100
    rank: Floats  # What selections compare: never off from `points` by more than 0.001, but by `BAD_PAIR` if it is bad
    bad_by: Mapping[Metric, NDArray[np.bool_]]  # Where the grade of its value is bad
    bad: NDArray[np.bool_]  # That of any
    values: Mapping[Metric, Floats]  # Both directions as one; NaN: none within the hard TTL
    limits: Mapping[Metric, Floats]  # Ever measured: points never exceed theirs
    stale: NDArray[np.bool_]  # Some value was older than the soft TTL: faded, or only a limit
    same: NDArray[np.bool_]  # One node: perfect by definition
    reference_bps: float | None  # Rate that earned the full bandwidth term; `None`: no rate was ever measured

    def bad_text(self, at: int, to: int) -> str:
        """The bad values of a pair, such as "13 % loss"; empty: none is."""
        bad = (metric for metric in METRICS if self.bad_by[metric][at, to])
        return ", ".join(f"{value_text(metric, float(self.values[metric][at, to]))} {metric}" for metric in bad)


def extender_scores(points: Floats) -> Ints:
    """Points 0..100 as the integers 0..10 that /prioritize answers: tenths, half up; values outside are clipped.

    Nodes whose points differ by 10 or more always get different integers (so the limits are compared, not divided).

    >>> extender_scores(np.array([0.0, 4.9, 5.0, 94.9, 95.0, 100.0, 130.0])).tolist()
    [0, 0, 1, 9, 10, 10, 10]
    """
    return np.searchsorted(np.arange(5.0, 100.0, 10.0), points, side="right").astype(np.int64)


def pair_scores(
    forward: Block, backward: Block | None, policy: ScorePolicy, *, reference_bps: float | None = None
) -> PairScores:
    """Score every pair. `forward` is (n, m); `backward` the opposite direction, (m, n); `None`: forward itself (n = m).

    Cost: O(n·m). Errors: ValueError when the shapes do not match, or when a weight or the reference cannot be used.
    """
    back = (forward if backward is None else backward).turned
    if back.same.shape != forward.same.shape:
        raise ValueError(f"backward must have shape {forward.same.shape[::-1]}, not {back.same.shape[::-1]}")
    reference = reference_bps if reference_bps is not None else policy.reference_bps
    weights = (policy.loss_weight, policy.delay_weight, policy.bandwidth_weight, policy.unknown_penalty_ratio)
    if not all(0.0 <= w < np.inf for w in weights) or not (reference is None or 0.0 < reference < np.inf):
        raise ValueError("weights must be finite and not negative, the reference positive")
    same = forward.same | back.same
    merged = {metric: _combine(forward, back, policy, metric) for metric in METRICS}
    if reference is None:  # the rate of the fastest pair, however old: were it forgotten, all others would gain by that
        fastest = merged[Metric.THROUGHPUT].last
        if forward.measured_bps is not None and back.measured_bps is not None:
            measured_bps = np.fmin(forward.measured_bps, back.measured_bps)
            # an estimate changes when the pairs that it is made of grow old: it counts only where nothing was measured
            fastest = fastest if np.isnan(measured_bps).all() else measured_bps
        reference = None if np.isnan(fastest).all() else float(np.nanmax(fastest))
    ratios = dict(zip(METRICS, astuple(policy.ratios), strict=True))
    settled = {}
    for metric, value in merged.items():
        limit = 100.0 * ratios[metric] / sum(ratios.values())
        term = term_points(metric, value.last, policy, limit=limit, reference_bps=reference)
        settled[metric] = _settle(value, *term, same, limit=limit, penalty_ratio=policy.unknown_penalty_ratio)
    loss, delay, rate = (settled[metric] for metric in METRICS)
    bad_by = {
        metric: are_bad(metric, value.value, best=forward.best_bps)
        & ~(same | forward.estimated.get(metric, np.zeros_like(same)) | (ratios[metric] == 0.0))
        for metric, value in merged.items()
    }
    bad = np.logical_or.reduce([*bad_by.values()])
    rank = loss[1] + delay[1] + rate[1] - (BAD_PAIR * bad if policy.bad_pairs_first else 0.0)
    return PairScores(
        {metric: points for metric, (points, _) in settled.items()},
        points=np.clip(loss[0] + delay[0] + rate[0], 0.0, 100.0),
        rank=np.where(same, 100.0 + 1e-3, rank),  # nothing measured ranks above one node
        bad_by=bad_by,
        bad=bad,
        values={metric: value.value for metric, value in merged.items()},
        limits={metric: value.last for metric, value in merged.items()},
        stale=np.logical_or.reduce([value.stale for value in merged.values()]),
        same=same,
        reference_bps=reference,
    )


class _Value(NamedTuple):
    """One metric of all pairs, both directions made one."""

    value: Floats  # Of the directions within the hard TTL; NaN: there is none
    last: Floats  # Of all directions that were ever measured: what `value` would be if they were fresh
    fade: Floats  # 0 (fresh) to 1 (as good as unknown); without meaning where nothing was ever measured
    stale: NDArray[np.bool_]


def _combine(forward: Block, back: Block, policy: ScorePolicy, metric: Metric) -> _Value:
    """The worse of two directions of the same shape.

    The younger age counts: a direction that grows old is replaced by the other one, as if it had not been measured, but
    it stays in `last`. Were the older age to count, points would rise when that direction is past the hard TTL.
    """
    hard_s, soft_s = (
        np.inf if (ttl_s := of.for_metric(metric)) is None else ttl_s for of in (policy.hard_ttl_s, policy.soft_ttl_s)
    )
    (there, there_age_s), (again, again_age_s) = ((way.values[metric], way.ages_s[metric]) for way in (forward, back))
    worse = np.fmin if metric is Metric.THROUGHPUT else np.fmax
    from_s = min(soft_s, hard_s)
    stale = (there_age_s >= from_s) | (again_age_s >= from_s)
    last = value = worse(there, again)
    if stale.any():  # else nothing can be past the hard TTL
        value = worse(np.where(there_age_s < hard_s, there, np.nan), np.where(again_age_s < hard_s, again, np.nan))
    age_s = np.fmin(there_age_s, again_age_s)
    # without a hard TTL the fading takes as long again as the soft one
    width_s = (hard_s if np.isfinite(hard_s) else 2.0 * soft_s) - from_s
    fade = np.clip((age_s - from_s) / width_s, 0.0, 1.0) if width_s > 0.0 else (age_s >= from_s).astype(np.float64)
    return _Value(value, last, fade, stale)


def term_points(
    metric: Metric, value: Floats, policy: ScorePolicy, *, limit: float, reference_bps: float | None = None
) -> tuple[Floats, Floats]:
    """Points of a metric's values, of any shape, from 0 to `limit`, and what of its rank is beyond them.

    Loss: limit − weight·percent·limit/20; delay: limit − weight·ms·limit/40; throughput: limit·weight·rate/reference.

    >>> term_points(Metric.LOSS, np.array([0.0, 0.001, 0.01, 0.02, 0.5]), ScorePolicy(), limit=20.0)[0].tolist()
    [20.0, 19.0, 10.0, 0.0, 0.0]
    >>> term_points(Metric.DELAY, np.array([0.0, 1.0, 10.0, 40.0, 500.0]), ScorePolicy(), limit=40.0)[0].tolist()
    [40.0, 39.0, 30.0, 0.0, 0.0]
    >>> rates = np.array([10e6, 50e6, 100e6, 1e9])
    >>> term_points(Metric.THROUGHPUT, rates, ScorePolicy(), limit=40.0, reference_bps=100e6)[0].tolist()
    [4.0, 20.0, 40.0, 40.0]
    """
    if metric is Metric.THROUGHPUT:
        share = policy.bandwidth_weight * (value / reference_bps if reference_bps else np.zeros_like(value))
        points = limit * np.minimum(1.0, share)
    else:
        share = value * (100.0 * policy.loss_weight / 20.0 if metric is Metric.LOSS else policy.delay_weight / 40.0)
        points = limit * np.maximum(0.0, 1.0 - share)
    beyond = TIE_STEP * np.minimum(np.log1p(np.maximum(share - 1.0, 0.0)), TIE_LIMIT)
    return points, beyond if metric is Metric.THROUGHPUT else -beyond


def _settle(
    value: _Value, term: Floats, tie: Floats, same: NDArray[np.bool_], *, limit: float, penalty_ratio: float
) -> tuple[Floats, Floats]:
    """Points and rank: old values fade to neutral (never upwards), unmeasured ones are it, one node is perfect."""
    if limit == 0.0:  # the metric does not count, so it decides no tie either
        return np.zeros_like(term), np.zeros_like(term)
    current = term[~np.isnan(value.value) & ~same]
    middle = float(np.median(current)) if current.size else 0.5 * limit
    measured = ~np.isnan(value.last)
    neutral = max(0.0, middle - penalty_ratio * limit)
    points, rank = (
        np.where(measured, np.minimum(own, own * (1.0 - value.fade) + goal * value.fade), goal)
        for own, goal in ((term, neutral), (term + tie, neutral + UNKNOWN_TIE))
    )
    return np.where(same, limit, points), np.where(same, limit, rank)


class LinkPoints(msgspec.Struct, frozen=True):
    """`points` and `rank` of `PairScores`, shape (n, m)."""

    points: Floats
    rank: Floats

    @property
    def bad(self) -> NDArray[np.bool_]:
        """Pairs whose rank says that they are bad."""
        return self.rank < self.points - BAD_PAIR / 2.0


class Links(msgspec.Struct, frozen=True):
    """The same among `n` nodes, held once for all that look alike."""

    kind: Ints  # (n,): each node's row in the tables of kinds
    alike: int  # The kind of the nodes that look alike, the next row another of them; −1: each is its own kind
    points: Floats  # Of kinds: (kinds, kinds)
    rank: Floats  # The same
    reference_bps: float | None

    def rank_among(self, rows: Ints | None) -> Floats:
        """The pairs of `rows`, which are different ones; `None`: of all nodes. Not to be written. Cost: O(rows²)."""
        table = self.rank
        if self.alike < 0:
            return table if rows is None else table.take(rows, axis=0).take(rows, axis=1)
        kind = self.kind if rows is None else self.kind[rows]
        unmeasured = np.flatnonzero(kind == self.alike)
        other = kind.copy()
        other[unmeasured] = self.alike + 1
        pairs = table.take(kind, axis=0).take(other, axis=1)
        pairs[unmeasured, unmeasured] = table[self.alike, self.alike]
        return pairs

    def points_among(self, rows: Ints) -> Floats:
        """The pairs of `rows`, of which some may be the same. Cost: O(rows²)."""
        return self._toward(self.points, rows, rows)

    def pairs_among(self, rows: Ints) -> LinkPoints:
        """The same with their ranks. Cost: O(rows²)."""
        return LinkPoints(self.points_among(rows), self._toward(self.rank, rows, rows))

    def rank_toward(self, columns: Ints) -> Floats:
        """From each node to those of `columns`: (n, columns)."""
        return self._toward(self.rank, np.arange(len(self.kind)), columns)

    def mean_points_to_others(self) -> Floats:
        """Mean points of each node towards all others (n,); of a node that is alone, to itself. Cost: O(n + kinds²)."""
        n = len(self.kind)
        own = self.points.diagonal()[self.kind]
        if n < 2:
            return np.array(own)
        members = np.bincount(self.kind, minlength=len(self.points)).astype(np.float64)
        sums = self.points @ members
        if self.alike >= 0:  # to the others of their kind each is what the two that stand for them are to each other
            at = self.alike
            pair, alone = float(self.points[at, at + 1]), float(self.points[at, at])
            sums[at] += members[at] * (pair - alone) + alone - pair
        return np.asarray((sums[self.kind] - own) / (n - 1))

    def _toward(self, table: Floats, rows: Ints, columns: Ints) -> Floats:
        if self.alike < 0:
            return table.take(rows, axis=0).take(columns, axis=1)
        kind, other = self.kind[rows], self.kind[columns]
        pairs = table.take(kind, axis=0).take(np.where(other == self.alike, other + 1, other), axis=1)
        same = (rows[:, None] == columns) & (other == self.alike)
        pairs[same] = table[self.alike, self.alike]
        return pairs


def among(network: NetworkMatrix, names: Names, score: ScorePolicy) -> Links:
    """Scores of all pairs of `names`, which are different ones. Cost: O(measured² log pairs + n)."""
    few, kind = representatives(measured(network, names), others=2)  # one and its distance to another one of its kind
    alike = len(few) - 2
    if len(few) == len(names):
        few, kind, alike = np.arange(len(names)), np.arange(len(names)), -1
    chosen = [names[i] for i in few]
    scores = pair_scores(network.block(chosen, chosen), None, score)
    return Links(kind, alike, scores.points, scores.rank, scores.reference_bps)


def among_sets(
    network: NetworkMatrix, names: Names, sets: Ints, linked: Collection[tuple[int, int]], score: ScorePolicy
) -> Links:
    """`among` for nodes of several sets, of which only those `linked` (both numbers, the lower first) know each other.

    `sets` (n,) numbers each node's set. Only pairs within sets and between linked ones are scored, in one row with one
    unknown pair beside them. Cost: O(measured² of each set and linked pair + kinds²).
    """
    few, kind = representatives(measured(network, names), others=2)
    kinds = len(few)
    if network.estimates or kinds in (2, len(names)):  # nothing is measured, or almost all is
        return among(network, names, score)
    at_of = {number: np.flatnonzero(sets[few[:-2]] == number) for number in np.unique(sets[few[:-2]]).tolist()}
    cells = [(at, at) for at in at_of.values()]
    pairs = (pair for low, high in linked for pair in ((low, high), (high, low)))
    cells += [(at_of[a], at_of[b]) for a, b in pairs if {a, b} <= at_of.keys()]
    scores = _scored(network, [names[i] for i in few], cells, score)
    tables = []
    for values in (scores.points[0], scores.rank[0]):
        table = np.full((kinds, kinds), values[-1])
        start = 0
        for rows, columns in cells:
            end = start + len(rows) * len(columns)
            table[np.ix_(rows, columns)] = values[start:end].reshape(len(rows), len(columns))
            start = end
        np.fill_diagonal(table, values[0])  # the first pair is of a node with itself, and so equal for all
        tables.append(table)
    return Links(kind, kinds - 2, tables[0], tables[1], scores.reference_bps)


def _scored(network: NetworkMatrix, names: Names, cells: Sequence[tuple[Ints, Ints]], score: ScorePolicy) -> PairScores:
    """Scores (1, pairs) of all pairs of each of `cells`, row by row, and of a pair that nothing is known of."""
    there, back = [], []
    for rows, columns in cells:
        sources, targets = [names[i] for i in rows], [names[i] for i in columns]
        there.append(network.block(sources, targets))
        back.append((there[-1] if rows is columns else network.block(targets, sources)).turned)
    return pair_scores(_in_a_row(there), _in_a_row(back).turned, score)


def _in_a_row(blocks: Sequence[Block]) -> Block:
    """The pairs of all, row by row, and one that nothing is known of; there are no estimates."""

    def joined(arrays: Iterable[NDArray[Any]], unknown: float) -> NDArray[Any]:
        return np.concatenate([*(array.ravel() for array in arrays), [unknown]])[None]

    values = {metric: joined((block.values[metric] for block in blocks), np.nan) for metric in METRICS}
    ages_s = {metric: joined((block.ages_s[metric] for block in blocks), np.nan) for metric in METRICS}
    return Block(values, ages_s, joined((block.same for block in blocks), False), best_bps=blocks[0].best_bps)


def toward(
    network: NetworkMatrix, names: Names, ends: Names, score: ScorePolicy, *, own: NDArray[np.bool_] | None = None
) -> LinkPoints:
    """Scores of `names` × `ends`; `own`: names measured or among `ends`. Cost: O(measured · ends · log pairs)."""
    few, place = representatives(measured(network, names, ends) if own is None else own)
    chosen = [names[i] for i in few]
    scores = pair_scores(network.block(chosen, ends), network.block(ends, chosen), score)
    return LinkPoints(scores.points[place], scores.rank[place])


def measured(network: NetworkMatrix, names: Names, others: Names = ()) -> NDArray[np.bool_]:
    """Which have an endpoint for any metric or are among `others`; all, where values are estimated from their zones."""
    if network.estimates:
        return np.ones(len(names), np.bool_)
    mask = np.zeros(len(names), np.bool_)
    for nodes in (frozenset(others), *network.endpoint_of.values()):
        mask |= np.fromiter((name in nodes for name in names), np.bool_, len(names))
    return mask


def representatives(own: NDArray[np.bool_], *, others: int = 1) -> tuple[Ints, Ints]:
    """Indexes that stand for all, those that are `own` and some of the others; and for each index its stand-in."""
    rows = np.flatnonzero(own)
    place = np.full(len(own), len(rows))
    place[rows] = np.arange(len(rows))
    return np.concatenate([rows, np.flatnonzero(~own)[:others]]), place
