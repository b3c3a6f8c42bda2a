"""A length: how long a gang runs from the start of its minimum to its end, as quantiles, and what still remains of it.

Why a distribution: a start that is promised needs a late end of what runs before it, a back-fill that must not delay
anything needs one as well, and an interval needs an early one, too; one number is wrong for two of the three. Why five
numbers: they are what decisions ask for, they stand in every record of a gang, and a decision log holds them exactly.

Rules: nothing ends before the lowest quantile; between two levels the time grows evenly; a gang that runs for longer
than the highest is expected to run for twice as long as that, then for four times, and so on. What is not known is no
`Length` at all (`Gang.length` is `None`), never a guess.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Final

LEVELS: Final = (0.1, 0.5, 0.8, 0.9, 0.98)
"""Share of runs that have ended by `quantiles_s` at the same place: an 80 % interval is from the first to the fourth"""
MOST_S: Final = 10 * 365 * 86_400.0
"""Ten years, in seconds: what is declared, learned or reported is never more"""


class LengthSource(StrEnum):
    """What a length is known from."""

    DECLARED = "declared"
    """Annotation `netgang.io/expected-duration`."""
    LIMIT = "limit"
    """`activeDeadlineSeconds`: it runs no longer, and is taken to run as long."""
    LEARNED = "learned"
    """Former runs of the same job."""
    REPORTED = "reported"
    """Its reports: the steps that are left at the speed that was measured."""


@dataclass(frozen=True, slots=True)
class Length:
    """Run time in seconds from the moment that the gang's minimum runs; `quantiles_s` at `LEVELS`, ascending.

    Errors: ValueError if they do not ascend, or one is not above 0 and finite.
    """

    source: LengthSource
    quantiles_s: tuple[float, float, float, float, float]

    def __post_init__(self) -> None:
        before_s = 0.0
        for one_s in self.quantiles_s:
            if not (isfinite(one_s) and one_s > 0.0 and one_s >= before_s):
                raise ValueError(f"quantiles of a length must be above 0, finite and ascend: {self.quantiles_s}")
            before_s = one_s

    def at_s(self, level: float) -> float:
        """By when this share of runs has ended, seconds; `level` from 0 to 1.

        >>> some = Length(LengthSource.LEARNED, (10.0, 50.0, 80.0, 90.0, 100.0))
        >>> some.at_s(0.5), some.at_s(0.65), some.at_s(0.0), some.at_s(1.0)
        (50.0, 65.0, 10.0, 100.0)
        """
        at_s = self.quantiles_s
        if level <= LEVELS[0]:
            return at_s[0]
        if level >= LEVELS[-1]:
            return at_s[-1]
        above = bisect_right(LEVELS, level)
        low, low_s = LEVELS[above - 1], at_s[above - 1]
        part = (level - low) / (LEVELS[above] - low)
        return low_s + part * (at_s[above] - low_s)

    def ended_by(self, ran_s: float) -> float:
        """Share of runs that have ended after `ran_s` seconds: 0 below the lowest quantile, 1 from the highest on.

        >>> some = Length(LengthSource.LEARNED, (10.0, 50.0, 80.0, 90.0, 100.0))
        >>> some.ended_by(9.0), some.ended_by(50.0), some.ended_by(85.0), some.ended_by(100.0)
        (0.0, 0.5, 0.8500000000000001, 1.0)
        """
        at_s = self.quantiles_s
        if ran_s < at_s[0]:
            return 0.0
        if ran_s >= at_s[-1]:
            return 1.0
        above = bisect_right(at_s, ran_s)
        low, low_s = LEVELS[above - 1], at_s[above - 1]
        return low + (LEVELS[above] - low) * (ran_s - low_s) / (at_s[above] - low_s)

    def cut(self, limit_s: float) -> "Length":
        """The same for a gang that is ended after `limit_s` seconds; one that is that limit alone has its source.

        >>> some = Length(LengthSource.LEARNED, (10.0, 50.0, 80.0, 90.0, 100.0))
        >>> some.cut(60.0).quantiles_s, some.cut(500.0) is some, some.cut(5.0).source.value
        ((10.0, 50.0, 60.0, 60.0, 60.0), True, 'limit')
        """
        if limit_s >= self.quantiles_s[-1]:
            return self
        if limit_s <= self.quantiles_s[0]:
            return exact(limit_s, LengthSource.LIMIT)
        first, second, third, fourth, fifth = (min(one_s, limit_s) for one_s in self.quantiles_s)
        return Length(self.source, (first, second, third, fourth, fifth))


def exact(seconds: float, source: LengthSource) -> Length:
    """One number; at most `MOST_S`. Errors: ValueError if it is not above 0 and finite.

    >>> exact(60.0, LengthSource.DECLARED).at_s(0.3)
    60.0
    """
    one_s = min(float(seconds), MOST_S) if isfinite(seconds) else seconds
    return Length(source, (one_s, one_s, one_s, one_s, one_s))


def from_samples(seconds: Sequence[float], weights: Sequence[float], source: LengthSource) -> Length:
    """The weighted quantiles of lengths that were seen, at least one; weights above 0. Cost: O(n log n).

    Sample i stands at the level of the weight before it and half of its own, so a few runs promise no more than they
    show. Errors: ValueError if there are none, or a length or a weight is not above 0 and finite.

    >>> from_samples([30.0, 10.0, 20.0], [1.0, 1.0, 1.0], LengthSource.LEARNED).quantiles_s
    (10.0, 20.0, 29.0, 30.0, 30.0)
    >>> from_samples([10.0, 100.0], [1.0, 9.0], LengthSource.LEARNED).at_s(0.5)
    91.0
    """
    if not seconds or len(seconds) != len(weights) or not all(isfinite(one) and one > 0.0 for one in weights):
        raise ValueError("samples of a length must each have a weight above 0, and there must be one at least")
    ordered = sorted(zip((min(one_s, MOST_S) for one_s in seconds), weights, strict=True))
    total, before = sum(weights), 0.0
    at: list[float] = []  # Level of each sample
    for _, weight in ordered:
        at.append((before + weight / 2.0) / total)
        before += weight
    lengths_s = [one_s for one_s, _ in ordered]
    first, second, third, fourth, fifth = (_between(at, lengths_s, level) for level in LEVELS)
    return Length(source, (first, second, third, fourth, fifth))


def _between(at: Sequence[float], lengths_s: Sequence[float], level: float) -> float:
    above = bisect_right(at, level)
    if above == 0:
        return lengths_s[0]
    if above == len(at):
        return lengths_s[-1]
    low, high = lengths_s[above - 1], lengths_s[above]
    part = (level - at[above - 1]) / (at[above] - at[above - 1])
    return min(max(round(low + part * (high - low), 6), low), high)


def remaining_s(length: Length, ran_s: float, level: float) -> float:
    """How long a gang that has run for `ran_s` seconds, and still runs, goes on at this level; seconds, never below 0.

    That is the quantile among the runs that are longer than `ran_s`. A gang that runs for longer than the highest
    quantile is expected to run for twice as long as that, or four times, …: the smallest above `ran_s`. With a higher
    level, or for a gang that has run for longer, the end that is expected is never earlier.

    >>> declared = exact(100.0, LengthSource.DECLARED)
    >>> [remaining_s(declared, ran_s, 0.8) for ran_s in (0.0, 70.0, 99.0, 100.0, 250.0)]
    [100.0, 30.0, 1.0, 100.0, 150.0]
    >>> learned = Length(LengthSource.LEARNED, (10.0, 50.0, 80.0, 90.0, 100.0))
    >>> [round(remaining_s(learned, ran_s, 0.8), 1) for ran_s in (0.0, 50.0, 100.0)]
    [80.0, 40.0, 100.0]
    """
    ran_s = max(ran_s, 0.0)
    longest_s = length.quantiles_s[-1]
    if ran_s >= longest_s:
        while longest_s <= ran_s:
            longest_s *= 2.0
        return longest_s - ran_s
    ended = length.ended_by(ran_s)
    return max(length.at_s(ended + level * (1.0 - ended)) - ran_s, 0.0)
