"""Does the loss fall or rise? A straight line through a window of it, and how sure that line is.

Why not two means: a line uses all points, and what is left of them around it shows the noise, so that the same rule
serves a job that reports every step and one that reports every hundredth.
"""

from dataclasses import dataclass

import numpy as np

from scoring.network.matrix import Floats


@dataclass(frozen=True, slots=True)
class Trend:
    """The line's change over the whole window."""

    change_ratio: float
    """From the window's begin to its end, as share of the mean; negative: it falls."""
    errors: float
    """The same in standard errors."""
    points: int

    def sure(self, *, band_ratio: float, certainty: float) -> int:
        """−1: it falls, 1: it rises, 0: neither is sure.

        >>> steady = Trend(change_ratio=-0.01, errors=-9.0, points=100)
        >>> steady.sure(band_ratio=0.02, certainty=3.5), steady.sure(band_ratio=0.005, certainty=3.5)
        (0, -1)
        """
        if abs(self.change_ratio) <= band_ratio or abs(self.errors) <= certainty:
            return 0
        return 1 if self.change_ratio > 0 else -1


def trend_of(at: Floats, values: Floats) -> Trend | None:
    """Least-squares line of `values` over `at`; `None`: fewer than four points, or all at one place.

    With one value for all points the change is 0; a line without any noise is as sure as can be.

    >>> falling = trend_of(np.arange(5.0), np.array([5.0, 4.0, 3.0, 2.0, 1.0]))
    >>> round(falling.change_ratio, 6), falling.errors
    (-1.333333, -inf)
    """
    n = len(at)
    if n < 4:
        return None
    x = at - at.mean()
    spread = float(x @ x)
    mean = float(values.mean())
    if spread <= 0.0:
        return None
    slope = float(x @ (values - mean)) / spread
    rest = values - mean - slope * x
    error = float(np.sqrt(max(float(rest @ rest), 0.0) / (n - 2) / spread))
    change = slope * float(at[-1] - at[0])
    scale = max(abs(mean), float(np.abs(values).max()) * 1e-9)
    if scale == 0.0 or abs(change) <= 1e-12 * scale:
        return Trend(0.0, 0.0, n)
    errors = slope / error if error > 1e-12 * abs(slope) else float(np.copysign(np.inf, slope))
    return Trend(change / scale, errors, n)
