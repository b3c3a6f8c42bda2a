"""How much computing beside the network would turn our gain into the published one.

Why: a choice of nodes saves time on the network and none in computing. Our jobs compute little (a small model on few
cores), the paper's ran for many minutes and does not say how much of that was computing. If a run held C seconds more,
the same for every choice, a gain of 1 − N/W would be 1 − (N+C)/(W+C). Rule: that C is a reading of the difference, not
a measurement, and is shown as such; where our gain is not above the published one there is none.
"""

from collections.abc import Sequence
from typing import Final

_MOST_S: Final = 1e7
_ROUNDS: Final = 100


def diluted(pairs: Sequence[tuple[float, float]], added_s: float) -> float:
    """Mean gain over (netgang's seconds, worst case's seconds) with `added_s` more in all of them.

    >>> diluted([(40.0, 100.0)], 0.0), diluted([(40.0, 100.0)], 20.0)
    (0.6, 0.5)
    """
    return sum(1.0 - (ours + added_s) / (worst + added_s) for ours, worst in pairs) / len(pairs)


def added_s(pairs: Sequence[tuple[float, float]], published: float) -> float | None:
    """Seconds that would have to be added to each run for the published gain; None: no such number.

    The mean gain falls as seconds are added if netgang is never slower, so halving finds it; where it is slower at some
    value, the mean may not reach the published gain from above, and then there is none.

    >>> round(added_s([(40.0, 100.0)], 0.3), 3)
    100.0
    >>> added_s([(90.0, 100.0)], 0.4) is None
    True
    """
    if not pairs or diluted(pairs, 0.0) <= published or diluted(pairs, _MOST_S) >= published:
        return None
    low, high = 0.0, _MOST_S
    for _ in range(_ROUNDS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if diluted(pairs, middle) > published else (low, middle)
    return (low + high) / 2.0
