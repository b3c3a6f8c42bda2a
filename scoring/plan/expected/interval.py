"""How wide intervals are, so that eight of ten gangs start inside theirs: learned from those that have started.

Why: quantiles of lengths alone are not enough. They are learned from a few runs, gangs that come later go ahead, and
what is added up over several gangs is too wide. So the distance of each end of an interval from its middle is
multiplied by a factor: a miss on that side makes it larger by as much as nine hits make it smaller, which in the long
run leaves one miss in ten on each side, whatever is wrong with the quantiles. Source: Gibbs and Candès, Adaptive
conformal inference under distribution shift (2021), here with the factor's logarithm.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import exp, sqrt
from types import MappingProxyType
from typing import Final

MISSES: Final = 0.1
"""Share of starts that are to be before an interval, and the same behind it"""
_FIRST_STEP: Final = 0.6
_STEP: Final = 0.1
"""How far a factor's logarithm moves with a start: farther at first, and never by less, because clusters change"""
LEAST_FACTOR: Final = 1 / 32
MOST_FACTOR: Final = 32.0
LEAST_RATIO: Final = 0.05
"""Of the time until the start: no end is nearer to the middle, for no length is that exact"""


class Result(StrEnum):
    """Where a start was, seen from its interval."""

    EARLY = "early"
    INSIDE = "inside"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class Scale:
    """The factors of an interval's two sides."""

    low: float = 1.0
    high: float = 1.0
    known: int = 0
    """Starts that it was learned from"""

    def interval(self, low_s: float, start_s: float, high_s: float, *, now_s: float) -> tuple[float, float]:
        """Both ends, Unix seconds; the lower one is never in the past.

        >>> Scale().interval(80.0, 100.0, 140.0, now_s=0.0), Scale(2.0, 0.5).interval(80.0, 100.0, 140.0, now_s=0.0)
        ((80.0, 140.0), (60.0, 120.0))
        >>> Scale().interval(100.0, 100.0, 100.0, now_s=0.0), Scale(9.0, 1.0).interval(80.0, 100.0, 100.0, now_s=50.0)
        ((95.0, 105.0), (50.0, 102.5))
        """
        least_s = LEAST_RATIO * max(start_s - now_s, 0.0)
        low_s = start_s - self.low * max(start_s - low_s, least_s)
        high_s = start_s + self.high * max(high_s - start_s, least_s)
        return max(min(low_s, start_s), min(now_s, start_s)), high_s

    def after(self, result: Result) -> "Scale":
        """The factors once another start is known.

        >>> wider = Scale().after(Result.LATE)
        >>> wider.high > 1.0 > wider.low
        True
        """
        step = max(_STEP, _FIRST_STEP / sqrt(1.0 + self.known))
        early, late = (step * ((result is side) - MISSES) for side in (Result.EARLY, Result.LATE))
        return Scale(_bounded(self.low * exp(early)), _bounded(self.high * exp(late)), self.known + 1)


@dataclass(frozen=True, slots=True)
class Calibration:
    """How often intervals were right, and the factors that follow; apart for gangs with and without a promise."""

    scales: Mapping[bool, Scale] = field(default_factory=lambda: MappingProxyType({True: Scale(), False: Scale()}))
    """whether the gang had a promise → the factors"""
    results: Mapping[Result, int] = field(default_factory=lambda: MappingProxyType(dict.fromkeys(Result, 0)))

    @property
    def known(self) -> int:
        """Intervals of which it is known whether they were right."""
        return sum(self.results.values())

    @property
    def inside_ratio(self) -> float | None:
        """Share of starts inside their interval; `None`: none is known.

        >>> Calibration().inside_ratio, Calibration().with_result(Result.INSIDE, promised=True).inside_ratio
        (None, 1.0)
        """
        return self.results[Result.INSIDE] / self.known if self.known else None

    def with_result(self, result: Result, *, promised: bool) -> "Calibration":
        """The same with another interval of which it is known."""
        scales = {**self.scales, promised: self.scales[promised].after(result)}
        return replace(self, scales=scales, results={**self.results, result: self.results[result] + 1})


def _bounded(factor: float) -> float:
    return min(max(factor, LEAST_FACTOR), MOST_FACTOR)
