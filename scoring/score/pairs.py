"""Turn measurements into the score of each pair of nodes (PAPERS N2), and keep every part for the explanation.

Why two numbers per pair: `points` is the published f, for people; it saturates (everything from 2 % loss up scores 0 in
its term). `rank` is what selections compare: where a term is clipped the raw value decides by less than a thousandth of
a point, so that a worse link always ranks lower. Rule: an unknown value is neutral with a penalty, never perfect and
never the best; age can take points away but never add any: what a link earned fresh is the most it can have.

Not promised: when the reference rate is the block's own best, a faster best link lowers the *bandwidth* points of the
others; with a configured reference no better link lowers any pair.

All nodes that are measured nowhere look alike, but for the pair of a node with itself. So the scores between many nodes
cost, in time and memory, what those of the measured ones and one pair of the others do, and are the same bit by bit.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from scoring.ids import NodeName
from scoring.model.policy import ScorePolicy
from scoring.network.matrix import METRICS, Block, Floats, Ints, Metric, NetworkMatrix

TIE_STEP = 1e-5  # Points per unit of ln(1 + how far a raw value is beyond the clip)
TIE_LIMIT = 33.0  # That logarithm is cut here (e³³ times the clip): three terms together stay below 0.001 points
UNKNOWN_TIE = -TIE_STEP * TIE_LIMIT  # An unknown value ranks below known ones with the same points
Names: TypeAlias = Sequence[NodeName]


class PairScores(msgspec.Struct, frozen=True):
    """Scores of all pairs of an (n, m) block and the values they came from; all arrays are (n, m) and free to read."""

    loss_points: Floats
    delay_points: Floats
    bandwidth_points: Floats
    points: Floats  # Their sum f: 0..100
    rank: Floats  # What selections compare: never off from `points` by more than 0.001
    loss_ratio: Floats  # Both directions as one; NaN: none within the hard TTL. So the next two (ms, bit/s)
    delay_ms: Floats
    throughput_bps: Floats
    stale: NDArray[np.bool_]  # Some value was older than the soft TTL: faded, or only a limit
    same: NDArray[np.bool_]  # Same node or same measurement endpoint: perfect by definition, known or not
    limits: tuple[Floats, Floats, Floats]  # Loss, delay, throughput ever measured: points never exceed theirs
    reference_bps: float | None  # Rate that earned the full bandwidth term; `None`: no rate was ever measured


def loss_points(loss_ratio: Floats, *, weight: float = 10.0, limit: float = 20.0) -> Floats:
    """Points for packet loss: limit − weight·percent·limit/20, not below 0. Any shape; ratio 0..1 in.

    >>> loss_points(np.array([0.0, 0.001, 0.01, 0.02, 0.5])).tolist()
    [20.0, 19.0, 10.0, 0.0, 0.0]
    """
    return limit * np.maximum(0.0, 1.0 - loss_ratio * (100.0 * weight / 20.0))


def delay_points(delay_ms: Floats, *, weight: float = 1.0, limit: float = 40.0) -> Floats:
    """Points for one-way delay: limit − weight·ms·limit/40, not below 0. Any shape; milliseconds in.

    >>> delay_points(np.array([0.0, 1.0, 10.0, 40.0, 500.0])).tolist()
    [40.0, 39.0, 30.0, 0.0, 0.0]
    """
    return limit * np.maximum(0.0, 1.0 - delay_ms * (weight / 40.0))


def bandwidth_points(rate_ratio: Floats, *, limit: float = 40.0) -> Floats:
    """Points for throughput: limit · weight·rate/reference, at most `limit`. Any shape; that ratio in.

    >>> bandwidth_points(np.array([10e6, 50e6, 100e6, 1e9]) / 100e6).tolist()
    [4.0, 20.0, 40.0, 40.0]
    """
    return limit * np.minimum(1.0, rate_ratio)


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
    back = forward if backward is None else backward
    if back.same.shape != forward.same.shape[::-1]:
        raise ValueError(f"backward must have shape {forward.same.shape[::-1]}, not {back.same.shape}")
    reference = reference_bps if reference_bps is not None else policy.reference_bps
    weights = (policy.loss_weight, policy.delay_weight, policy.bandwidth_weight, policy.unknown_penalty_ratio)
    if not all(0.0 <= w < np.inf for w in weights) or not (reference is None or 0.0 < reference < np.inf):
        raise ValueError("weights must be finite and not negative, the reference positive")
    same = forward.same | back.same.T
    loss = _combine((forward.loss_ratio, forward.loss_age_s), (back.loss_ratio, back.loss_age_s), policy, Metric.LOSS)
    delay = _combine((forward.delay_ms, forward.delay_age_s), (back.delay_ms, back.delay_age_s), policy, Metric.DELAY)
    there, again = (forward.throughput_bps, forward.throughput_age_s), (back.throughput_bps, back.throughput_age_s)
    rate = _combine(there, again, policy, Metric.THROUGHPUT)
    if reference is None:  # the rate of the fastest pair, however old: were it forgotten, all others would gain by that
        fastest = rate.last
        if forward.measured_bps is not None and back.measured_bps is not None:
            measured_bps = np.fmin(forward.measured_bps, back.measured_bps.T)
            # an estimate changes when the pairs that it is made of grow old: it counts only where nothing was measured
            fastest = fastest if np.isnan(measured_bps).all() else measured_bps
        reference = None if np.isnan(fastest).all() else float(np.nanmax(fastest))
    # 1. points of the formula, 2. order beyond the clip, 3. unknown and old values
    parts, penalty = policy.ratios, policy.unknown_penalty_ratio
    total = parts.loss + parts.delay + parts.bandwidth
    r_loss, r_delay, r_rate = (100.0 * part / total for part in (parts.loss, parts.delay, parts.bandwidth))
    x = policy.bandwidth_weight * (rate.last / reference if reference else np.zeros_like(rate.last))
    loss_term = loss_points(loss.last, weight=policy.loss_weight, limit=r_loss)
    delay_term = delay_points(delay.last, weight=policy.delay_weight, limit=r_delay)
    loss_tie = -_beyond(loss.last * (100.0 * policy.loss_weight / 20.0))
    delay_tie = -_beyond(delay.last * (policy.delay_weight / 40.0))
    terms = (
        _settle(loss, loss_term, loss_tie, same, limit=r_loss, penalty_ratio=penalty),
        _settle(delay, delay_term, delay_tie, same, limit=r_delay, penalty_ratio=penalty),
        _settle(rate, bandwidth_points(x, limit=r_rate), _beyond(x), same, limit=r_rate, penalty_ratio=penalty),
    )
    (of_loss, loss_rank), (of_delay, delay_rank), (of_rate, rate_rank) = terms
    points = np.clip(of_loss + of_delay + of_rate, 0.0, 100.0)
    # nothing measured ranks above two pods on one node
    rank = np.where(same, 100.0 + 1e-3, loss_rank + delay_rank + rate_rank)
    return PairScores(
        of_loss,
        of_delay,
        of_rate,
        points,
        rank,
        loss.value,
        delay.value,
        rate.value,
        stale=loss.stale | delay.stale | rate.stale,
        same=same,
        limits=(loss.last, delay.last, rate.last),
        reference_bps=reference,
    )


class _Value(NamedTuple):
    """One metric of all pairs, both directions made one."""

    value: Floats  # Of the directions within the hard TTL; NaN: there is none
    last: Floats  # Of all directions that were ever measured: what `value` would be if they were fresh
    known: NDArray[np.bool_]
    fade: Floats  # 0 (fresh) to 1 (as good as unknown); without meaning where nothing was ever measured
    stale: NDArray[np.bool_]


def _combine(
    forward: tuple[Floats, Floats], backward: tuple[Floats, Floats], policy: ScorePolicy, metric: Metric
) -> _Value:
    """The worse of two directions, each as values and ages.

    The younger age counts: a direction that grows old is replaced by the other one, as if it had not been measured, but
    it stays in `last`. Were the older age to count, points would rise when that direction is past the hard TTL.
    """
    (there, there_age_s), (back, back_age_s) = forward, (backward[0].T, backward[1].T)
    hard_ttl_s, soft_ttl_s = policy.hard_ttl_s.of(metric), policy.soft_ttl_s.of(metric)
    hard_s = np.inf if hard_ttl_s is None else hard_ttl_s
    soft_s = np.inf if soft_ttl_s is None else soft_ttl_s
    alive, back_alive = there_age_s < hard_s, back_age_s < hard_s
    known = alive | back_alive
    stale = (there_age_s >= min(soft_s, hard_s)) | (back_age_s >= min(soft_s, hard_s))
    worse = np.fmin if metric is Metric.THROUGHPUT else np.fmax
    last = value = worse(there, back)
    if stale.any():  # else nothing can be past the hard TTL
        value = worse(np.where(alive, there, np.nan), np.where(back_alive, back, np.nan))
    age_s = np.fmin(there_age_s, back_age_s)
    if not (np.isfinite(soft_s) and soft_s < hard_s):
        fade = (age_s >= hard_s).astype(np.float64)
    else:
        # without a hard TTL the fading takes as long again as the soft one
        width_s = (hard_s if np.isfinite(hard_s) else 2.0 * soft_s) - soft_s
        fade = np.clip((age_s - soft_s) / width_s, 0.0, 1.0) if width_s > 0.0 else (age_s >= soft_s).astype(np.float64)
    return _Value(value, last, known, fade, stale)


def _beyond(share: Floats) -> Floats:
    """Tie-break of a clipped term: grows strictly with how far `share` (1 = at the clip) is beyond it."""
    return TIE_STEP * np.minimum(np.log1p(np.maximum(share - 1.0, 0.0)), TIE_LIMIT)


def _settle(
    value: _Value, term: Floats, tie: Floats, same: NDArray[np.bool_], *, limit: float, penalty_ratio: float
) -> tuple[Floats, Floats]:
    """Points and rank: old values fade to neutral (never upwards), unmeasured ones are it, one node is perfect."""
    if limit == 0.0:  # the metric does not count, so it decides no tie either
        return np.zeros_like(term), np.zeros_like(term)
    known = term[value.known & ~same]
    middle = float(np.median(known)) if known.size else 0.5 * limit
    measured = ~np.isnan(value.last)
    neutral = max(0.0, middle - penalty_ratio * limit)
    points, rank = (
        np.where(measured, np.minimum(own, own * (1.0 - value.fade) + goal * value.fade), goal)
        for own, goal in ((term, neutral), (term + tie, neutral + UNKNOWN_TIE))
    )
    return np.where(same, limit, points), np.where(same, limit, rank)


class LinkPoints(msgspec.Struct, frozen=True):
    """`points`, `rank` and `reference_bps` of `PairScores`, shape (n, m)."""

    points: Floats
    rank: Floats
    reference_bps: float | None


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
    own = measured(network, names)
    unmeasured = np.flatnonzero(~own)
    few = np.concatenate([np.flatnonzero(own), unmeasured[:2]])  # one and its distance to another one of its kind
    if len(few) == len(names):
        every = pair_scores(network.block(names, names), None, score)
        return Links(np.arange(len(names)), -1, every.points, every.rank, every.reference_bps)
    chosen = [names[i] for i in few]
    found = pair_scores(network.block(chosen, chosen), None, score)
    kind = np.full(len(names), len(few) - 2)
    kind[few[:-2]] = np.arange(len(few) - 2)
    return Links(kind, len(few) - 2, found.points, found.rank, found.reference_bps)


def among_sets(
    network: NetworkMatrix, names: Names, sets: Ints, linked: Collection[tuple[int, int]], score: ScorePolicy
) -> Links:
    """`among` for nodes of several sets, of which only those `linked` (both numbers, the lower first) know each other.

    `sets` (n,) numbers each node's set. Only pairs within sets and between linked ones are scored, in one row with one
    unknown pair beside them. Cost: O(measured² of each set and linked pair + kinds²).
    """
    own = measured(network, names)
    unmeasured = np.flatnonzero(~own)
    if network.estimates or len(unmeasured) < 3 or not own.any():
        return among(network, names, score)
    few = np.concatenate([np.flatnonzero(own), unmeasured[:2]])
    at_of = {number: np.flatnonzero(sets[few[:-2]] == number) for number in np.unique(sets[few[:-2]]).tolist()}
    cells = [(at, at) for at in at_of.values()]
    pairs = (pair for one, two in linked for pair in ((one, two), (two, one)))
    cells += [(at_of[a], at_of[b]) for a, b in pairs if {a, b} <= at_of.keys()]
    found = _scored(network, [names[i] for i in few], cells, score)
    kinds = len(few)
    kind = np.full(len(names), kinds - 2)
    kind[few[:-2]] = np.arange(kinds - 2)
    tables = []
    for values in (found.points[0], found.rank[0]):
        table = np.full((kinds, kinds), values[-1])
        start = 0
        for rows, columns in cells:
            end = start + len(rows) * len(columns)
            table[np.ix_(rows, columns)] = values[start:end].reshape(len(rows), len(columns))
            start = end
        np.fill_diagonal(table, values[0])  # the first pair is of a node with itself, and so equal for all
        tables.append(table)
    return Links(kind, kinds - 2, tables[0], tables[1], found.reference_bps)


def _scored(network: NetworkMatrix, names: Names, cells: Sequence[tuple[Ints, Ints]], score: ScorePolicy) -> PairScores:
    """Scores (1, pairs) of all pairs of each of `cells`, row by row, and of a pair that nothing is known of."""
    there, back = [], []
    for rows, columns in cells:
        sources, targets = [names[i] for i in rows], [names[i] for i in columns]
        there.append(network.block(sources, targets))
        back.append(there[-1] if rows is columns else network.block(targets, sources))
    forward, backward = {}, {}
    for field in Block.__struct_fields__:
        if field == "measured_bps":
            continue  # there are no estimates here
        unknown = np.array([False if field == "same" else np.nan])
        forward[field] = np.concatenate([*(getattr(block, field).ravel() for block in there), unknown])[None]
        turned = (getattr(block, field).T.ravel() for block in back)
        backward[field] = np.concatenate([*turned, unknown])[:, None]
    return pair_scores(Block(**forward), Block(**backward), score)


def toward(
    network: NetworkMatrix, names: Names, ends: Names, score: ScorePolicy, *, own: NDArray[np.bool_] | None = None
) -> LinkPoints:
    """Scores of `names` × `ends`; `own`: names measured or among `ends`. Cost: O(measured · ends · log pairs)."""
    if own is None:
        near = frozenset(ends)
        own = measured(network, names) | np.fromiter((name in near for name in names), np.bool_, len(names))
    few, place = representatives(own)
    chosen = [names[i] for i in few]
    found = pair_scores(network.block(chosen, ends), network.block(ends, chosen), score)
    return LinkPoints(found.points[place], found.rank[place], found.reference_bps)


def measured(network: NetworkMatrix, names: Names) -> NDArray[np.bool_]:
    """Which of `names` have an endpoint for any metric; all, where values are estimated from each node's zone."""
    if network.estimates:
        return np.ones(len(names), np.bool_)
    found = np.zeros(len(names), np.bool_)
    for metric in METRICS:
        if of := network.endpoint_of.get(metric):
            found |= np.fromiter((name in of for name in names), np.bool_, len(names))
    return found


def representatives(own: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Indexes that stand for all, those that are `own` and one of the others; and for each index its stand-in."""
    others = np.flatnonzero(~own)
    few = np.concatenate([np.flatnonzero(own), others[:1]])
    place = np.full(len(own), len(few) - 1)
    place[few] = np.arange(len(few))
    return few, place
