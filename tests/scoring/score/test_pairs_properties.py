"""What must hold for every block: order, symmetry, no NaN, no surprise from age."""

from dataclasses import fields, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scoring.model.policy import ScorePolicy, Ttl
from scoring.network.matrix import Block
from scoring.score.pairs import extender_scores, pair_scores
from tests.strategies import DELAY_MS, LOSS_RATIO, THROUGHPUT_BPS, blocks, score_policies

BETTER = {"loss_ratio": 0.5, "delay_ms": 0.5, "throughput_bps": 2.0}
"""metric → factor that makes its value better"""


def with_value(block: Block, name: str, at: tuple[int, int], value: float) -> Block:
    column = getattr(block, name).copy()
    column[at] = value
    return replace(block, **{name: column})


@given(blocks(3), score_policies())
def test_scores_of_a_square(block: Block, policy: ScorePolicy) -> None:
    """Whatever is unknown, points and ranks are numbers; points 0..100; rank stays within 0.001 of points.

    A pair has one score, whichever node is named first; none ranks above one node with itself; the block is only read.
    """
    given = [one for one in fields(block) if getattr(block, one.name) is not None]
    before = [getattr(block, one.name).copy() for one in given]
    scores = pair_scores(block, None, policy)
    for one, was in zip(given, before, strict=True):
        assert np.array_equal(getattr(block, one.name), was, equal_nan=was.dtype.kind == "f")
    terms = (scores.loss_points, scores.delay_points, scores.bandwidth_points)
    for array in (scores.points, scores.rank, *terms):
        assert np.isfinite(array).all()
        assert (array >= (0.0 if array is not scores.rank else -0.001)).all()
        assert (array == array.T).all()
    assert (abs(scores.rank - scores.points) <= 0.001 + 1e-9).all()
    assert (scores.points <= 100.0).all()
    assert sum(terms) == pytest.approx(scores.points)
    assert scores.rank.max() == scores.rank[0, 0]


@given(blocks(2, 3), blocks(3, 2), score_policies())
def test_turning_a_rectangle_turns_the_scores(there: Block, back: Block, policy: ScorePolicy) -> None:
    """A block from × to with its opposite gives the transpose of to × from."""
    assert (pair_scores(there, back, policy).rank == pair_scores(back, there, policy).rank.T).all()


@pytest.mark.slow
@given(blocks(3), score_policies(), st.sampled_from(sorted(BETTER)), st.tuples(st.integers(0, 2), st.integers(0, 2)))
def test_a_better_link_lowers_nobody(block: Block, policy: ScorePolicy, name: str, at: tuple[int, int]) -> None:
    """Monotone: with a fixed reference, a better value of one direction lowers no pair's points and no pair's rank."""
    value = getattr(block, name)[at]
    assume(not np.isnan(value))
    policy = replace(policy, reference_bps=100e6)
    before = pair_scores(block, None, policy)
    after = pair_scores(with_value(block, name, at, value * BETTER[name]), None, policy)
    assert (after.points >= before.points - 1e-9).all()
    assert (after.rank >= before.rank - 1e-9).all()


@pytest.mark.slow
@given(blocks(3), st.sampled_from(["loss_ratio", "delay_ms"]), st.tuples(st.integers(0, 2), st.integers(0, 2)))
def test_better_loss_and_delay_need_no_fixed_reference(block: Block, name: str, at: tuple[int, int]) -> None:
    """Loss and delay points depend on no other link's values, apart from the neutral ones they can only raise."""
    value = getattr(block, name)[at]
    assume(not np.isnan(value))
    before = pair_scores(block, None, ScorePolicy())
    after = pair_scores(with_value(block, name, at, value * 0.5), None, ScorePolicy())
    assert (after.rank >= before.rank - 1e-9).all()


VALUES = {"loss_ratio": LOSS_RATIO, "delay_ms": DELAY_MS, "throughput_bps": THROUGHPUT_BPS}
SMALLEST = {"loss_ratio": 1e-6, "delay_ms": 1e-3, "throughput_bps": 1.0}
"""metric → step that a measurement can distinguish: 1 per million, 1 µs, 1 bit/s (and 1 part in 100,000)"""


@pytest.mark.parametrize("name", sorted(VALUES))
@given(data=st.data())
def test_worse_always_ranks_strictly_lower(name: str, data: st.DataObject) -> None:
    """`linear`: of two links that differ in one value the worse ranks lower, also where the points are clipped."""
    one, other = data.draw(VALUES[name]), data.draw(VALUES[name])
    assume(abs(one - other) >= max(SMALLEST[name], 1e-5 * max(one, other)))
    worse, better = max(one, other), min(one, other)
    if name == "throughput_bps":
        worse, better = better, worse
    base = {key: data.draw(VALUES[key]) for key in VALUES}
    reference = data.draw(st.sampled_from([1e6, 100e6, 10e9]))
    ranks = [_rank_of(base | {name: value}, ScorePolicy(reference_bps=reference)) for value in (worse, better)]
    assert ranks[0] < ranks[1]


def _rank_of(link: dict[str, float], policy: ScorePolicy) -> float:
    columns = [np.array([[np.nan, link[name]], [link[name], np.nan]]) for name in VALUES]
    ages = [np.where(np.isnan(column), np.nan, 0.0) for column in columns]
    block = Block(columns[0], columns[1], columns[2], ages[0], ages[1], ages[2], np.eye(2, dtype=bool))
    return float(pair_scores(block, None, policy).rank[0, 1])


@given(blocks(3), score_policies(), st.sampled_from([1e-3, 0.3, 7.0, 1e3]))
def test_the_unit_of_throughput_does_not_matter(block: Block, policy: ScorePolicy, factor: float) -> None:
    """With the block's best rate as reference, scaling all rates leaves all scores, so the order too."""
    policy = replace(policy, reference_bps=None)
    scaled = replace(block, throughput_bps=block.throughput_bps * factor)
    before, after = pair_scores(block, None, policy), pair_scores(scaled, None, policy)
    assert after.rank == pytest.approx(before.rank, abs=1e-9)


@given(blocks(3), blocks(3), score_policies())
def test_what_was_measured_is_worth_no_more_than_fresh(block: Block, other: Block, policy: ScorePolicy) -> None:
    """A term of a pair that was measured, whatever the ages in the block, has at most the points of all ages zero."""
    fresh = replace(block, **{f"{m}_age_s": 0.0 * getattr(block, f"{m}_age_s") for m in _AGED})
    old = replace(
        block, **{f"{m}_age_s": getattr(block, f"{m}_age_s") * (1.0 + np.nan_to_num(other.delay_ms)) for m in _AGED}
    )
    was, now = pair_scores(fresh, None, policy), pair_scores(old, None, policy)
    for limit, name in zip(now.limits, ("loss_points", "delay_points", "bandwidth_points"), strict=True):
        measured = ~np.isnan(limit)
        assert (getattr(now, name)[measured] <= getattr(was, name)[measured] + 1e-9).all()
    everything = np.logical_and.reduce([~np.isnan(limit) for limit in now.limits])
    assert (now.rank[everything] <= was.rank[everything] + 1e-9).all()


_AGED = ("loss", "delay", "throughput")


@given(blocks(4), score_policies())
def test_unknown_is_never_the_best(block: Block, policy: ScorePolicy) -> None:
    """Where a term counts and is known somewhere, a pair without it has less of it than the best known fresh one."""
    policy = replace(policy, soft_ttl_s=Ttl.same(None), unknown_penalty_ratio=0.05)
    scores = pair_scores(block, None, policy)
    total = policy.ratios.loss + policy.ratios.delay + policy.ratios.bandwidth
    for known, points, ratio in (
        (~np.isnan(scores.loss_ratio), scores.loss_points, policy.ratios.loss),
        (~np.isnan(scores.delay_ms), scores.delay_points, policy.ratios.delay),
        (~np.isnan(scores.throughput_bps), scores.bandwidth_points, policy.ratios.bandwidth),
    ):
        unknown = ~known & ~scores.same
        if not (ratio and unknown.any()):
            continue
        assert points[unknown].max() < 100.0 * ratio / total
        if (known & ~scores.same).any():
            best = points[known & ~scores.same].max()
            assert points[unknown].max() < best or best == 0.0


@given(st.floats(0.0, 100.0), st.floats(0.0, 100.0))
def test_extender_scores_keep_the_order(one: float, other: float) -> None:
    """More points never get a smaller integer, and 10 points more always a larger one."""
    low, high = sorted((one, other))
    first, second = extender_scores(np.array([low, high])).tolist()
    assert first <= second
    if Fraction(high) - Fraction(low) >= 10:
        assert first < second
