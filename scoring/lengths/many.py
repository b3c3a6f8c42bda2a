"""What still remains of many gangs' lengths at once, as arrays: the same numbers as `remaining_s` gives one by one.

Why: a start that is promised follows from the ends of everything that runs. Of two thousand gangs, at three levels,
that is 50 ms one by one, and 0.5 ms together.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from scoring.lengths.length import LEVELS

Floats: TypeAlias = NDArray[np.float64]


def remaining_of_many(quantiles_s: Floats, ran_s: Floats, levels: Sequence[float]) -> list[Floats]:
    """`remaining_s` of each gang at some levels. Shapes: quantiles_s (gangs, 5), ran_s and results (gangs,); seconds.

    >>> learned = [10.0, 50.0, 80.0, 90.0, 100.0]
    >>> [found] = remaining_of_many(np.array([learned] * 3), np.array([0.0, 50.0, 100.0]), [0.8])
    >>> found.round(1).tolist()
    [80.0, 40.0, 100.0]
    """
    ran_s = np.maximum(ran_s, 0.0)
    longest_s = quantiles_s[:, -1].copy()
    outlived = ran_s >= longest_s
    while (late := longest_s <= ran_s).any():
        longest_s[late] *= 2.0
    above = (quantiles_s <= ran_s[:, None]).sum(axis=1)
    ended = np.where(above == 0, 0.0, _between(_LEVELS, quantiles_s, above, ran_s))
    found = []
    for level in levels:
        wanted = ended + level * (1.0 - ended)
        above = (wanted[:, None] >= _LEVELS).sum(axis=1)
        ends_s = np.where(wanted <= LEVELS[0], quantiles_s[:, 0], _between(quantiles_s, _LEVELS, above, wanted))
        ends_s = np.where(wanted >= LEVELS[-1], quantiles_s[:, -1], ends_s)
        found.append(np.where(outlived, longest_s - ran_s, np.maximum(ends_s - ran_s, 0.0)))
    return found


_LEVELS = np.array([LEVELS])


def _between(values: Floats, points: Floats, above: NDArray[np.int64], at: Floats) -> Floats:
    """Values (gangs or 1, levels) at `at`, on the lines between `points`; `above`: the first point above it."""
    gangs = np.arange(len(at))
    high = np.clip(above, 1, len(LEVELS) - 1)
    low = high - 1
    values, points = (np.broadcast_to(one, (len(at), len(LEVELS))) for one in (values, points))
    width = points[gangs, high] - points[gangs, low]
    part = (at - points[gangs, low]) / np.where(width > 0.0, width, 1.0)
    return np.asarray(values[gangs, low] + part * (values[gangs, high] - values[gangs, low]))
