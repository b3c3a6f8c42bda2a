"""Lengths as distributions: what holds whatever the numbers are."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.lengths import LEVELS, Length, LengthSource, exact, from_samples, remaining_s
from scoring.lengths.length import MOST_S

SECONDS = st.floats(1.0, 1e7)
LEVEL = st.floats(0.0, 1.0)
FIVE = st.tuples(SECONDS, SECONDS, SECONDS, SECONDS, SECONDS).map(sorted)
LENGTHS = FIVE.map(lambda s: Length(LengthSource.LEARNED, (s[0], s[1], s[2], s[3], s[4])))
SAMPLES = st.lists(st.tuples(SECONDS, st.floats(0.01, 1.0)), min_size=1, max_size=20)


@given(LENGTHS, LEVEL, LEVEL)
def test_a_higher_level_is_never_earlier(length: Length, one: float, other: float) -> None:
    """`at_s` ascends, from the lowest quantile to the highest."""
    low, high = sorted((one, other))
    assert length.quantiles_s[0] <= length.at_s(low) <= length.at_s(high) <= length.quantiles_s[-1]


@given(LENGTHS, st.floats(0.1, 0.98))
def test_as_many_have_ended_as_the_level_says(length: Length, level: float) -> None:
    """`ended_by` undoes `at_s`; where a step of the distribution is, more have ended."""
    assert length.ended_by(length.at_s(level)) >= level - 1e-6


@given(LENGTHS, st.floats(0.0, 1e8), LEVEL, LEVEL)
def test_what_remains_ascends_with_the_level(length: Length, ran_s: float, one: float, other: float) -> None:
    """A surer end is a later one, and none is in the past."""
    low, high = sorted((one, other))
    assert 0.0 <= remaining_s(length, ran_s, low) <= remaining_s(length, ran_s, high) + 1e-6


@given(LENGTHS, st.floats(0.0, 1e8), st.floats(0.0, 1e8), LEVEL)
def test_the_expected_end_never_moves_forward(length: Length, one_s: float, other_s: float, level: float) -> None:
    """A gang that has run for longer ends no earlier than was expected before."""
    early_s, late_s = sorted((one_s, other_s))
    before_s, after_s = (ran_s + remaining_s(length, ran_s, level) for ran_s in (early_s, late_s))
    assert before_s <= after_s * (1.0 + 1e-9) + 1e-6


@given(SECONDS, st.floats(0.0, 1.0, exclude_max=True), LEVEL)
def test_an_exact_length_ends_when_it_says(seconds: float, part: float, level: float) -> None:
    """At every level, until it is over."""
    declared = exact(seconds, LengthSource.DECLARED)
    assert remaining_s(declared, part * seconds, level) == pytest.approx(seconds - part * seconds, abs=1e-6)


@given(SECONDS, st.floats(1.0, 1e4))
def test_a_gang_that_outlives_its_length_doubles_it(seconds: float, times: float) -> None:
    """The end is at a power of two of the length, and not before now, nor beyond twice what it ran."""
    ran_s = seconds * times
    end_s = ran_s + remaining_s(exact(seconds, LengthSource.DECLARED), ran_s, 0.5)
    powers = [seconds * 2.0**power for power in range(20)]
    assert ran_s <= end_s <= 2.0 * ran_s * (1.0 + 1e-9)
    assert any(end_s == pytest.approx(one_s) for one_s in powers)


@given(SAMPLES)
def test_samples_keep_their_range_and_order_is_irrelevant(samples: list[tuple[float, float]]) -> None:
    """No quantile is outside what was seen."""
    lengths_s, weights = zip(*samples, strict=True)
    length = from_samples(lengths_s, weights, LengthSource.LEARNED)
    assert min(lengths_s) <= length.quantiles_s[0]
    assert length.quantiles_s[-1] <= max(lengths_s)
    again = [list(some) for some in zip(*sorted(samples), strict=True)]
    assert length.quantiles_s == pytest.approx(from_samples(again[0], again[1], LengthSource.LEARNED).quantiles_s)


@given(LENGTHS, SECONDS)
def test_no_cut_length_is_beyond_its_limit(length: Length, limit_s: float) -> None:
    """And a limit moves no end back."""
    cut = length.cut(limit_s)
    assert cut.quantiles_s[-1] <= limit_s or cut is length
    assert all(one_s <= other_s for one_s, other_s in zip(cut.quantiles_s, length.quantiles_s, strict=True))


@pytest.mark.parametrize("wrong", [(0.0,) * 5, (5.0, 4.0, 6.0, 7.0, 8.0), (1.0, 2.0, 3.0, 4.0, float("inf"))])
def test_what_is_no_length_is_refused(wrong: tuple[float, float, float, float, float]) -> None:
    """Zero, descending, infinite."""
    with pytest.raises(ValueError, match="quantiles"):
        Length(LengthSource.LEARNED, wrong)


def test_samples_and_weights_must_fit() -> None:
    """None, or a weight that is none, is an error."""
    for lengths_s, weights in (([], []), ([1.0], [0.0]), ([1.0], [])):
        with pytest.raises(ValueError, match="weight"):
            from_samples(lengths_s, weights, LengthSource.LEARNED)


def test_lengths_are_bounded_and_levels_ascend() -> None:
    """Ten years is the most."""
    assert exact(1e300, LengthSource.DECLARED).at_s(0.5) == MOST_S
    assert all(low < high for low, high in pairwise(LEVELS))
