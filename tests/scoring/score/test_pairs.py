"""Pair scores: the formulas of PAPERS N2, directions, unknown and old values; and what holds of every block."""

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import astuple, replace

from scoring import EndpointId, NodeName
from scoring.model.policy import Ratios, ScorePolicy, Ttl
from scoring.network.matrix import METRICS, Block, Measurement, Metric, NetworkMatrix
from scoring.score.pairs import BAD_PAIR, PairScores, extender_scores, pair_scores
from tests.builders import mesh
from tests.strategies import DELAY_MS, LOSS_RATIO, THROUGHPUT_BPS, blocks, score_policies

REFERENCE = ScorePolicy(reference_bps=100e6, soft_ttl_s=Ttl(900, 900, 900), hard_ttl_s=Ttl(3600, 3600, 3600))
NAMES = [NodeName(name) for name in ("n1", "n2", "n3")]
ENDS = {metric: {name: EndpointId(name) for name in NAMES} for metric in METRICS}  # each node is its own


def square(links: Mapping[Metric, float], *, age_s: float = 0.0) -> Block:
    same = np.eye(2, dtype=bool)
    values = {metric: np.where(same, np.nan, links.get(metric, np.nan)) for metric in METRICS}
    return Block(values, {metric: np.where(np.isnan(v), np.nan, age_s) for metric, v in values.items()}, same)


def of(loss_ratio: float, delay_ms: float, throughput_bps: float) -> dict[Metric, float]:
    return dict(zip(METRICS, (loss_ratio, delay_ms, throughput_bps), strict=True))


def measured(values: Mapping[tuple[str, str, Metric], float], *, age_s: float = 0.0) -> NetworkMatrix:
    found = [Measurement(EndpointId(a), EndpointId(b), m, value, -age_s) for (a, b, m), value in values.items()]
    return NetworkMatrix.from_measurements(found, endpoint_of=ENDS, now_s=0.0)


NULL = of(0.0, 0.0, 0.0)
HALF = of(0.01, 10.0, 50e6)
POINTS: dict[str, tuple[tuple[float, ...], dict[Metric, float], ScorePolicy]] = {
    # case: (loss, delay, bandwidth points and their sum), link, policy
    "perfect": ((20.0, 40.0, 40.0, 100.0), of(0.0, 0.0, 1e8), REFERENCE),
    "clean link of the test bed": ((20.0, 39.0, 40.0, 99.0), of(0.0, 1.0, 1e8), REFERENCE),
    "10 ms": ((20.0, 30.0, 40.0, 90.0), of(0.0, 10.0, 1e8), REFERENCE),
    "1 % loss": ((10.0, 39.0, 40.0, 89.0), of(0.01, 1.0, 1e8), REFERENCE),
    "10 % loss": ((0.0, 39.0, 40.0, 79.0), of(0.1, 1.0, 1e8), REFERENCE),
    "10 Mbit/s": ((20.0, 39.0, 4.0, 63.0), of(0.0, 1.0, 1e7), REFERENCE),
    "faster than the reference": ((20.0, 39.0, 40.0, 99.0), of(0.0, 1.0, 1e9), REFERENCE),
    "nothing arrives": ((0.0,) * 4, of(1.0, 1e4, 0.0), REFERENCE),
    "rates of 0 only, without a reference": ((20.0, 40.0, 0.0, 60.0), NULL, ScorePolicy()),
    "ratios are scaled to 100": ((12.5, 18.75, 25.0, 56.25), HALF, replace(REFERENCE, ratios=Ratios(1, 1, 2))),
}


@pytest.mark.parametrize(("want", "given", "policy"), POINTS.values(), ids=POINTS)
def test_points(want: tuple[float, ...], given: dict[Metric, float], policy: ScorePolicy) -> None:
    scores = pair_scores(square(given), None, policy)
    assert [*want] == [round(float(part[0, 1]), 6) for part in (*scores.terms.values(), scores.points)]
    assert scores.points[0, 0] == 100.0
    assert scores.rank[0, 0] > scores.rank[0, 1], "a node to itself ranks above any measured pair"


def test_worse_ranks_lower_where_the_points_tie() -> None:
    """The whole sweep of N5 (from 5 % loss, from 50 ms) has the same points, and an order."""
    for metric, sweep in ((Metric.LOSS, (0.05, 0.1, 0.5)), (Metric.DELAY, (50.0, 100.0, 500.0))):
        linear = [pair_scores(square(of(0.0, 1.0, 1e8) | {metric: x}), None, REFERENCE) for x in sweep]
        assert len({float(s.points[0, 1]) for s in linear}) == 1
        ranks = [float(s.rank[0, 1]) for s in linear]
        assert ranks == sorted(set(ranks), reverse=True)


GRADED = {  # case: (its bad values in words; empty: it is not bad), link, age in s, policy
    "0.1 % of loss": ("0.1 % loss", of(0.001, 1.0, 1e9), 0.0, REFERENCE),
    "just below all bounds": ("", of(0.0009, 29.9, 0.25e9), 0.0, REFERENCE),
    "each metric": ("13 % loss, 30 ms delay, 249 Mbit/s throughput", of(0.13, 30.0, 0.249e9), 0.0, REFERENCE),
    "unknown": ("", {}, 0.0, REFERENCE),
    "beyond the hard TTL": ("", of(0.13, 50.0, 0.0), 3600.0, REFERENCE),
    "fading": ("13 % loss", of(0.13, 1.0, 1e9), 3599.0, REFERENCE),
    "a metric that does not count": ("", of(0.13, 1.0, 1e9), 0.0, replace(REFERENCE, ratios=Ratios(0, 40, 40))),
}


@pytest.mark.parametrize(("words", "given", "age_s", "policy"), GRADED.values(), ids=GRADED)
def test_a_bad_pair_ranks_below_all_others(
    words: str, given: dict[Metric, float], age_s: float, policy: ScorePolicy
) -> None:
    """By the grade that alarms and the page have, with the best rate of the mesh; its points stay as published."""
    block = replace(square(given, age_s=age_s), best_bps=1e9)
    scores = pair_scores(block, None, policy)
    published = pair_scores(block, None, replace(policy, bad_pairs_first=False))
    assert (scores.bad_text(0, 1), scores.bad.tolist()) == (words, [[False, bool(words)], [bool(words), False]])
    assert scores.rank == pytest.approx(published.rank - BAD_PAIR * scores.bad, abs=1e-9)
    assert np.array_equal(scores.points, published.points)
    assert abs(published.rank - published.points).max() <= 0.001 + 1e-9
    estimated = dict.fromkeys(METRICS, np.ones((2, 2), bool))
    assert not pair_scores(replace(block, estimated=estimated), None, policy).bad.any(), "only what was measured is bad"


RATES = [(1e9, 1e9, 200e6), (200e6, None, 200e6), (100e6, None, None)]  # want, argument, policy; else the block's best


@pytest.mark.parametrize(("want", "argument", "configured"), RATES)
def test_reference_rate(want: float, argument: float | None, configured: float | None) -> None:
    block = mesh(NAMES, bad={"n3": {"throughput_bps": 10e6}}).block(NAMES, NAMES)
    scores = pair_scores(block, None, ScorePolicy(reference_bps=configured), reference_bps=argument)
    assert want == scores.reference_bps
    assert pair_scores(square({}), None, ScorePolicy()).reference_bps is None, "no rate is known"
    assert scores.terms[Metric.THROUGHPUT][0, 1] == pytest.approx(40.0 * min(1.0, 100e6 / want))


def test_a_metric_without_points_decides_nothing() -> None:
    policy = replace(REFERENCE, ratios=Ratios(0, 50, 50))
    ranks = {float(pair_scores(square(of(x, 1.0, 1e8)), None, policy).rank[0, 1]) for x in (0.0, 0.3, 0.9)}
    assert len(ranks) == 1


def test_the_worst_direction_counts_and_one_is_enough() -> None:
    ways = {("n1", "n2"): of(0.0, 5.0, 40e6), ("n2", "n1"): of(0.01, 3.0, 90e6), ("n3", "n1"): {Metric.DELAY: 7.0}}
    found = {(*ends, metric): value for ends, values in ways.items() for metric, value in values.items()}
    values = pair_scores(measured(found).block(NAMES, NAMES), None, REFERENCE).values
    assert {metric: value[0, 1] for metric, value in values.items()} == of(0.01, 5.0, 40e6)
    assert values[Metric.DELAY][0, 2] == values[Metric.DELAY][2, 0] == 7.0
    assert np.isnan(values[Metric.DELAY][1, 2])


def test_rectangular_block_uses_its_opposite() -> None:
    """Candidates × placed nodes: the opposite direction comes from the block placed × candidates."""
    matrix = measured({("n1", "n3", Metric.DELAY): 2.0, ("n3", "n1", Metric.DELAY): 9.0})
    there, back = matrix.block(NAMES[:2], NAMES[2:]), matrix.block(NAMES[2:], NAMES[:2])
    assert pair_scores(there, back, REFERENCE).values[Metric.DELAY][0, 0] == 9.0
    with pytest.raises(ValueError, match=r"backward must have shape \(1, 2\)"):
        pair_scores(there, None, REFERENCE)


def test_unknown_is_the_median_minus_a_penalty() -> None:
    known = {("n1", "n2", Metric.DELAY): 10.0, ("n1", "n3", Metric.DELAY): 20.0}
    scores = pair_scores(measured(known).block(NAMES, NAMES), None, REFERENCE)
    assert scores.terms[Metric.DELAY][1, 2] == pytest.approx((30.0 + 20.0) / 2 - 0.05 * 40.0)
    assert scores.terms[Metric.LOSS][0, 1] == pytest.approx(0.5 * 20.0 - 0.05 * 20.0), "no loss is known anywhere"


def test_unknown_is_below_a_block_of_worst_links() -> None:
    known = {("n1", "n2", m): x for m, x in zip(METRICS, (1.0, 9000.0, 0.0), strict=True)}
    scores = pair_scores(measured(known).block(NAMES, NAMES), None, replace(REFERENCE, bad_pairs_first=False))
    assert scores.points[0, 1] == scores.points[1, 2] == 0.0
    assert scores.rank[1, 2] < scores.rank[0, 1]
    scores = pair_scores(measured(known).block(NAMES, NAMES), None, REFERENCE)
    assert scores.rank[1, 2] > scores.rank[0, 1], "but above a bad one, as nobody knows that it is bad"


AGES = {  # case: (points of a delay of 0 ms beside unknown others, age in s, soft TTL, hard TTL)
    "fresh": (40.0, 0.0, 900.0, 3600.0),
    "at the soft limit": (40.0, 900.0, 900.0, 3600.0),
    "half-way": (39.0, 2250.0, 900.0, 3600.0),  # neutral is 40 − 5 %
    "past the hard limit": (18.0, 3600.0, 900.0, 3600.0),  # nothing is known any more: 50 % − 5 %
    "never fades": (40.0, 3599.0, None, 3600.0),
    "soft above hard": (40.0, 3599.0, 7200.0, 3600.0),
    "never expires, fades over as long again": (39.0, 1350.0, 900.0, None),
    "never expires, faded": (38.0, 1e9, 900.0, None),
    "no soft time at all": (38.0, 0.0, 0.0, None),
}


@pytest.mark.parametrize(("want", "age_s", "soft_s", "hard_s"), AGES.values(), ids=AGES)
def test_age(want: float, age_s: float, soft_s: float | None, hard_s: float | None) -> None:
    policy = replace(REFERENCE, soft_ttl_s=Ttl(soft_s, soft_s, soft_s), hard_ttl_s=Ttl(hard_s, hard_s, hard_s))
    scores = pair_scores(square({Metric.DELAY: 0.0}, age_s=age_s), None, policy)
    assert scores.terms[Metric.DELAY][0, 1] == pytest.approx(want)
    assert np.isnan(scores.values[Metric.DELAY][0, 1]) == (hard_s is not None and age_s >= hard_s)


def test_each_metric_has_its_own_age() -> None:
    """A throughput of two hours ago is as good as new where such tests run every four, a delay of that age is not."""
    policy = ScorePolicy(reference_bps=100e6)
    scores, older = (pair_scores(square(of(0.0, 0.0, 1e8), age_s=s), None, policy) for s in (7200.0, 10_800.0))
    assert [float(term[0, 1]) for term in scores.terms.values()] == pytest.approx([19.667, 39.333, 40.0], abs=1e-3)
    assert [bool(np.isnan(value[0, 1])) for value in older.values.values()] == [True, True, False]


def two_delays(there: tuple[float, float], back: tuple[float, float]) -> PairScores:
    """Scores of n1 and n2 from a delay in ms and its age in s each way; n1 and n3 have a fresh delay of 10 ms."""
    one, two, three = map(EndpointId, NAMES)
    delays = ((one, two, there), (two, one, back), (one, three, (10.0, 0.0)))
    found = [Measurement(a, b, Metric.DELAY, delay_ms, -age_s) for a, b, (delay_ms, age_s) in delays]
    matrix = NetworkMatrix.from_measurements(found, endpoint_of=ENDS, now_s=0.0)
    return pair_scores(matrix.block(NAMES, NAMES), None, REFERENCE)


DIRECTIONS = {  # case: (points, delay shown, there, back): delays in ms with their ages in s
    "both fresh": (10.0, 30.0, (30.0, 0.0), (5.0, 0.0)),
    "the worse one fades: the other vouches for it": (10.0, 30.0, (30.0, 3000.0), (5.0, 0.0)),
    "the worse one is past the hard TTL and stays the limit": (10.0, 5.0, (30.0, 4000.0), (5.0, 0.0)),
    "the better one is: the other counts": (10.0, 30.0, (30.0, 0.0), (5.0, 4000.0)),
    "both fade, by the younger": (32.75, 5.0, (5.0, 3000.0), (5.0, 2250.0)),  # half-way to 30.5
    "both are past it: unknown": (28.0, np.nan, (5.0, 4000.0), (5.0, 4000.0)),
    "both are, and were worse than unknown": (10.0, np.nan, (30.0, 4000.0), (5.0, 9000.0)),
}


@pytest.mark.parametrize(("points", "shown", "there", "back"), DIRECTIONS.values(), ids=DIRECTIONS)
def test_an_old_direction_does_not_count_and_stays_the_limit(
    points: float, shown: float, there: tuple[float, float], back: tuple[float, float]
) -> None:
    scores = two_delays(there, back)
    term, fresh = (of.terms[Metric.DELAY][0, 1] for of in (scores, two_delays((there[0], 0.0), (back[0], 0.0))))
    assert term == pytest.approx(points)
    assert term <= fresh
    assert np.array_equal(scores.values[Metric.DELAY][0, 1], shown, equal_nan=True)
    assert scores.limits[Metric.DELAY][0, 1] == max(there[0], back[0])
    assert bool(scores.stale[0, 1]) == (max(there[1], back[1]) >= 900.0)


def test_the_best_rate_stays_the_reference_when_it_is_old() -> None:
    """Were an old best rate forgotten, all other links would earn more by growing old together."""
    policy = replace(REFERENCE, reference_bps=None)
    rates = {("n1", "n2", Metric.THROUGHPUT): 100e6, ("n1", "n3", Metric.THROUGHPUT): 50e6}
    want = {0.0: (40.0, 20.0), 1e6: (18.0, 18.0)}  # fresh, and all past the hard TTL: neutral, or what it was if less
    for age_s, points in want.items():
        scores = pair_scores(measured(rates, age_s=age_s).block(NAMES, NAMES), None, policy)
        assert scores.reference_bps == 100e6
        assert tuple(scores.terms[Metric.THROUGHPUT][0, 1:]) == points


WRONG = {"loss_weight": -1.0, "delay_weight": np.inf, "reference_bps": 0.0, "unknown_penalty_ratio": float("nan")}


@pytest.mark.parametrize("field", WRONG)
def test_unusable_policy(field: str) -> None:
    with pytest.raises(ValueError, match="weights must be finite"):
        pair_scores(square({}), None, replace(ScorePolicy(), **{field: WRONG[field]}))


# -- what must hold for every block ------------------------------------------------------------------------------------

BETTER = of(0.5, 0.5, 2.0)  # Factors that make values better


@given(blocks(3), score_policies())
def test_scores_of_a_square(block: Block, policy: ScorePolicy) -> None:
    """A pair has one score, whichever node is named first; the block is only read."""
    arrays = [*block.values.values(), *block.ages_s.values(), block.same]
    before = [array.copy() for array in arrays]
    scores = pair_scores(block, None, policy)
    for array, was in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, was)
    terms = [*scores.terms.values()]
    rank = np.asarray(scores.rank + BAD_PAIR * scores.bad, np.float64)  # at this size exact to 1e-10
    for array, least in ((rank, -0.001), *((part, 0.0) for part in (scores.points, *terms))):
        assert (np.isfinite(array) & (array >= least) & (array == array.T)).all()
    assert (abs(rank - scores.points) <= 0.001 + 1e-9).all()
    assert (scores.points <= 100.0).all()
    assert sum(terms) == pytest.approx(scores.points)
    assert scores.rank.max() == scores.rank[0, 0]


@given(blocks(2, 3), blocks(3, 2), score_policies())
def test_turning_a_rectangle_turns_the_scores(there: Block, back: Block, policy: ScorePolicy) -> None:
    assert (pair_scores(there, back, policy).rank == pair_scores(back, there, policy).rank.T).all()


@given(blocks(3), score_policies(), st.sampled_from(METRICS), st.tuples(st.integers(0, 2), st.integers(0, 2)))
def test_a_better_link_lowers_nobody(block: Block, policy: ScorePolicy, metric: Metric, at: tuple[int, int]) -> None:
    """With a fixed reference rate; loss and delay points depend on no other link, but neutral ones, which can rise."""
    column = block.values[metric].copy()
    assume(not np.isnan(column[at]))
    column[at] *= BETTER[metric]
    better = replace(block, values={**block.values, metric: column})
    for used in (replace(policy, reference_bps=100e6), *([ScorePolicy()] if metric is not Metric.THROUGHPUT else [])):
        before, after = pair_scores(block, None, used), pair_scores(better, None, used)
        assert (after.points >= before.points - 1e-9).all()
        assert (after.rank >= before.rank - 1e-9).all()


VALUES = dict(zip(METRICS, (LOSS_RATIO, DELAY_MS, THROUGHPUT_BPS), strict=True))
SMALLEST = of(1e-6, 1e-3, 1.0)  # Steps that a measurement can distinguish (and 1 part in 100,000)


@pytest.mark.parametrize("metric", METRICS)
@given(data=st.data())
def test_worse_always_ranks_strictly_lower(metric: Metric, data: st.DataObject) -> None:
    """Of two links that differ in one value the worse ranks lower, also where the points are clipped."""
    low, high = sorted(data.draw(VALUES[metric]) for _ in range(2))
    assume(high - low >= max(SMALLEST[metric], 1e-5 * high))
    worse, better = (low, high) if metric is Metric.THROUGHPUT else (high, low)
    base = {key: data.draw(VALUES[key]) for key in VALUES}
    policy = ScorePolicy(reference_bps=data.draw(st.sampled_from([1e6, 100e6, 10e9])))
    ranks = [pair_scores(square(base | {metric: x}), None, policy).rank[0, 1] for x in (worse, better)]
    assert ranks[0] < ranks[1]


@given(blocks(3), score_policies(), st.sampled_from([1e-3, 0.3, 7.0, 1e3]))
def test_the_unit_of_throughput_does_not_matter(block: Block, policy: ScorePolicy, factor: float) -> None:
    policy, rates = replace(policy, reference_bps=None), block.values[Metric.THROUGHPUT]
    scaled = replace(block, values={**block.values, Metric.THROUGHPUT: rates * factor})
    before, after = pair_scores(block, None, policy), pair_scores(scaled, None, policy)
    assert after.rank == pytest.approx(before.rank, abs=1e-9)


@given(blocks(3), blocks(3), score_policies())
def test_what_was_measured_is_worth_no_more_than_fresh(block: Block, other: Block, policy: ScorePolicy) -> None:
    """A term of a pair that was measured, whatever the ages in the block, has at most the points of all ages zero."""
    factors = 0.0, 1.0 + np.nan_to_num(other.values[Metric.DELAY])
    ages = [{metric: age_s * factor for metric, age_s in block.ages_s.items()} for factor in factors]
    was, now = (pair_scores(replace(block, ages_s=ages_s), None, policy) for ages_s in ages)
    measured = {metric: ~np.isnan(limit) for metric, limit in now.limits.items()}
    for metric, where in measured.items():
        assert (now.terms[metric][where] <= was.terms[metric][where] + 1e-9).all()
    everything = np.logical_and.reduce([*measured.values()])
    bad = now.bad | was.bad  # which a link is no more once it is too old
    assert (now.rank[everything & ~bad] <= was.rank[everything & ~bad] + 1e-9).all()


@given(blocks(4), score_policies())
def test_unknown_is_never_the_best(block: Block, policy: ScorePolicy) -> None:
    """Where a term counts and is known somewhere, a pair without it has less of it than the best known fresh one."""
    policy = replace(policy, soft_ttl_s=Ttl(None, None, None), unknown_penalty_ratio=0.05)
    scores = pair_scores(block, None, policy)
    ratios = astuple(policy.ratios)
    for metric, ratio in zip(METRICS, ratios, strict=True):
        value, points = scores.values[metric], scores.terms[metric]
        known, unknown = ~np.isnan(value) & ~scores.same, np.isnan(value) & ~scores.same
        if not (ratio and unknown.any()):
            continue
        assert points[unknown].max() < 100.0 * ratio / sum(ratios)
        if known.any():
            best = points[known].max()
            assert points[unknown].max() < best or best == 0.0


@given(st.floats(0.0, 100.0), st.floats(0.0, 100.0))
def test_extender_scores_keep_the_order(one: float, other: float) -> None:
    low, high = sorted((one, other))
    first, second = extender_scores(np.array([low, high])).tolist()
    assert first <= second
    if Fraction(high) - Fraction(low) >= 10:
        assert first < second
