"""Turn measurements into the score of each pair of nodes (PAPERS N2), and keep every part for the explanation.

Why two numbers per pair: `points` is the published f, for people; it saturates (everything from 2 % loss up scores 0 in
its term). `rank` is what selections compare: the points, and where a term is clipped a term of less than a thousandth
of a point in which the raw value decides, so that a worse link always ranks lower. Rule: an unknown value is neutral
with a penalty, never perfect and never the best; age can take points away but never add any. So a value past the hard
TTL makes its link unknown, and still says how good it is at best: what it earned fresh is the most it can have.

Not promised: when the reference rate is the block's own best, a faster best link lowers the *bandwidth* points of the
others (they are relative to it); with a configured reference no better link lowers any pair.
"""

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from scoring.model.policy import ScorePolicy
from scoring.network.matrix import Block, Floats, Ints, Metric

TIE_STEP = 1e-5  # Points per unit of ln(1 + how far a raw value is beyond the clip)
TIE_LIMIT = 33.0  # That logarithm is cut here (e³³ times the clip): three terms together stay below 0.001 points
SAME_NODE_BONUS = 1e-3  # Added to the rank of pairs on one node, so that nothing measured ranks above them
UNKNOWN_TIE = -TIE_STEP * TIE_LIMIT  # An unknown value ranks below known ones with the same points


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

    Inputs are not written. Cost: O(n·m). Raises ValueError when the shapes do not match, or when a weight or the
    reference cannot be used.

    >>> def value(x): return np.array([[np.nan, x], [x, np.nan]])
    >>> block = Block(value(0.01), value(10.0), value(50e6), value(0.0), value(0.0), value(0.0), np.eye(2, dtype=bool))
    >>> pair_scores(block, None, ScorePolicy(reference_bps=100e6)).points.tolist()
    [[100.0, 60.0], [60.0, 100.0]]
    """
    back = forward if backward is None else backward
    if back.same.shape != forward.same.shape[::-1]:
        raise ValueError(f"backward must have shape {forward.same.shape[::-1]}, not {back.same.shape}")
    reference = reference_bps if reference_bps is not None else policy.reference_bps
    _check(policy, reference)
    same = forward.same | back.same.T
    loss = _combine((forward.loss_ratio, forward.loss_age_s), (back.loss_ratio, back.loss_age_s), policy, Metric.LOSS)
    delay = _combine((forward.delay_ms, forward.delay_age_s), (back.delay_ms, back.delay_age_s), policy, Metric.DELAY)
    there, again = (forward.throughput_bps, forward.throughput_age_s), (back.throughput_bps, back.throughput_age_s)
    rate = _combine(there, again, policy, Metric.THROUGHPUT)
    if reference is None:
        reference = _fastest_bps(forward, back, rate.last)
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
    points = np.clip(terms[0].points + terms[1].points + terms[2].points, 0.0, 100.0)
    rank = np.where(same, 100.0 + SAME_NODE_BONUS, terms[0].rank + terms[1].rank + terms[2].rank)
    return PairScores(
        loss_points=terms[0].points,
        delay_points=terms[1].points,
        bandwidth_points=terms[2].points,
        points=points,
        rank=rank,
        loss_ratio=loss.value,
        delay_ms=delay.value,
        throughput_bps=rate.value,
        stale=loss.stale | delay.stale | rate.stale,
        same=same,
        limits=(loss.last, delay.last, rate.last),
        reference_bps=reference,
    )


def _fastest_bps(forward: Block, back: Block, last: Floats) -> float | None:
    """The rate of the fastest pair, however old it is: were it forgotten, all others would gain by that.

    As measured: an estimate changes when the pairs that it is made of grow old. Only where none was, the estimates.
    """
    if forward.measured_bps is not None and back.measured_bps is not None:
        measured = np.fmin(forward.measured_bps, back.measured_bps.T)
        last = last if np.isnan(measured).all() else measured
    return None if np.isnan(last).all() else float(np.nanmax(last))


class _Value(NamedTuple):
    """One metric of all pairs, both directions made one."""

    value: Floats  # Of the directions within the hard TTL; NaN: there is none
    last: Floats  # Of all directions that were ever measured: what `value` would be if they were fresh
    known: NDArray[np.bool_]
    fade: Floats  # 0 (fresh) to 1 (as good as unknown); without meaning where nothing was ever measured
    stale: NDArray[np.bool_]


class _Term(NamedTuple):
    points: Floats
    rank: Floats


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
) -> _Term:
    """Fade old values towards neutral (never upwards), make unmeasured ones neutral and pairs of one node perfect."""
    if limit == 0.0:  # the metric does not count, so it decides no tie either
        return _Term(np.zeros_like(term), np.zeros_like(term))
    known = term[value.known & ~same]
    middle = float(np.median(known)) if known.size else 0.5 * limit
    measured = ~np.isnan(value.last)
    neutral = max(0.0, middle - penalty_ratio * limit)
    points, rank = (
        np.where(measured, np.minimum(own, own * (1.0 - value.fade) + goal * value.fade), goal)
        for own, goal in ((term, neutral), (term + tie, neutral + UNKNOWN_TIE))
    )
    return _Term(np.where(same, limit, points), np.where(same, limit, rank))


def _check(policy: ScorePolicy, reference_bps: float | None) -> None:
    weights = (policy.loss_weight, policy.delay_weight, policy.bandwidth_weight, policy.unknown_penalty_ratio)
    reference = 1.0 if reference_bps is None else reference_bps
    if not all(0.0 <= w < np.inf for w in weights) or not 0.0 < reference < np.inf:
        raise ValueError("weights must be finite and not negative, the reference positive")
