"""How good a measured value is, in the colours of MaDDash: the same on the page and in the terminal.

Rule: loss is graded as the published view does (PAPERS N6: green up to 0.001 %, pink from 0.1 % on); delay and
throughput, for which it has no colours, by the share of the points that the published score gives them: 40 points less
one per ms, so that three quarters of them end at 10 ms and a quarter at 30 ms; and in proportion to the best rate.
"""

from dataclasses import dataclass
from enum import StrEnum

from scoring.network.measurement import Metric


class Grade(StrEnum):
    """How good a value is; the letter stands for it where there is no colour."""

    GOOD = "+"
    FAIR = "o"
    POOR = "#"
    UNKNOWN = "?"
    UNCHECKED = "."


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where the grades of one metric end, in its own unit (ratio, ms, bit/s)."""

    good: float
    poor: float
    highest_is_best: bool = False


def bounds_of(metric: Metric, *, best: float = 0.0) -> Bounds:
    """Bounds of a metric; `best`: the highest throughput of the mesh, bit/s.

    >>> bounds_of(Metric.LOSS).poor, bounds_of(Metric.DELAY).poor, bounds_of(Metric.THROUGHPUT, best=1e9).poor
    (0.001, 30.0, 250000000.0)
    """
    if metric is Metric.LOSS:
        return Bounds(1e-5, 1e-3)
    if metric is Metric.DELAY:
        return Bounds(10.0, 30.0)
    return Bounds(0.75 * best, 0.25 * best, highest_is_best=True)
