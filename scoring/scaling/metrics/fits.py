"""Fits of the loss: a line through a window of it, which shows a trend, and a falling curve, which is extrapolated.

A line and not two means: it uses all points, and what is left of them around it shows the noise, so that the same rule
serves a job that reports every step and one that reports every hundredth.

Curves: three families, all of the form L(k) = c + a·φ(k) with c, a ≥ 0 and φ falling from 1 at the first step to 0:

- inverse: φ = b / (k + b): what stochastic gradient descent tends to;
- power: φ = (1 + k/b)^(−½): slower;
- exponential: φ = e^(−k/b): faster.

For each b of a grid (from a hundredth of the steps seen to ten times them) c and a are the least-squares line of L over
φ, which is exact; where that c is negative it is 0, and a the best height. The family and b with the smallest squared
error are the fit. Its quality is R², the share of the loss's variance that the curve explains.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scoring.network.matrix import Floats

_GRID = 60

_SHAPES: dict[str, Callable[[Floats], Floats]] = {
    # family → φ as a function of k/b
    "inverse": lambda x: 1.0 / (1.0 + x),
    "power": lambda x: (1.0 + x) ** -0.5,
    "exponential": lambda x: np.asarray(np.exp(-x)),
}


@dataclass(frozen=True, slots=True)
class Curve:
    """L(k) = floor + height · φ((k − begin) / scale)."""

    family: str
    floor: float
    height: float
    begin: float
    scale: float
    explained: float  # R², at most 1

    def at(self, step: float) -> float:
        """The loss at `step`, of the past or of the future."""
        x = np.array([max(step - self.begin, 0.0) / self.scale])
        return self.floor + self.height * float(_SHAPES[self.family](x)[0])


def fit_curve(steps: Floats, losses: Floats) -> Curve | None:
    """The best curve; `None`: there are fewer than eight reports, or the loss does not fall.

    Cost: 180 lines through the points.

    >>> k = np.arange(0.0, 1000.0, 10.0)
    >>> found = fit_curve(k, 0.5 + 2.0 * 100.0 / (k + 100.0))
    >>> found.family, round(found.floor, 1), round(found.at(5000.0), 1), found.explained > 0.999
    ('inverse', 0.5, 0.5, True)
    """
    if len(steps) < 8 or steps[-1] <= steps[0]:
        return None
    k, mean = steps - steps[0], float(losses.mean())
    y = losses - mean
    total = float(y @ y)
    if total <= 0.0:
        return None
    scales = np.geomspace(0.01, 10.0, _GRID) * float(k[-1])
    best: Curve | None = None
    for family, shape in _SHAPES.items():
        phi = shape(k / scales[:, None])  # (grid, n)
        centre = phi.mean(axis=1)
        x = phi - centre[:, None]
        spread = (x * x).sum(axis=1)
        height = (x @ y) / np.where(spread > 0.0, spread, 1.0)
        floor = mean - height * centre
        alone = (phi @ losses) / (phi * phi).sum(axis=1)  # the best height where the floor is 0
        height, floor = np.where(floor < 0.0, alone, height), np.maximum(floor, 0.0)
        rest = ((losses - floor[:, None] - height[:, None] * phi) ** 2).sum(axis=1)
        rest = np.where((height > 0.0) & (spread > 1e-12), rest, np.inf)
        at = int(rest.argmin())
        explained = 1.0 - float(rest[at]) / total
        if np.isfinite(rest[at]) and (best is None or explained > best.explained):
            best = Curve(family, float(floor[at]), float(height[at]), float(steps[0]), float(scales[at]), explained)
    return best


@dataclass(frozen=True, slots=True)
class Trend:
    """The line's change over the whole window."""

    change_ratio: float  # From the window's begin to its end, as share of the mean; negative: it falls
    errors: float  # The same in standard errors

    def sure(self, *, band_ratio: float, certainty: float) -> int:
        """−1: it falls, 1: it rises, 0: neither is sure.

        >>> steady = Trend(change_ratio=-0.01, errors=-9.0)
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
        return Trend(0.0, 0.0)
    errors = slope / error if error > 1e-12 * abs(slope) else float(np.copysign(np.inf, slope))
    return Trend(change / scale, errors)
