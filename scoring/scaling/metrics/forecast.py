"""Would more workers pay? What is fitted to a job's reports, and what is forecast from that (PAPERS E3).

Trend: a line through a window of the loss, and not two means: it uses all points, and what is left of them around it
shows the noise, so that the same rule serves a job that reports every step and one that reports every hundredth.

Curves: three families, all of the form L(k) = c + a·φ(k) with c, a ≥ 0 and φ falling from 1 at the first step to 0:

- inverse: φ = b / (k + b): what stochastic gradient descent tends to;
- power: φ = (1 + k/b)^(−½): slower;
- exponential: φ = e^(−k/b): faster.

For each b of a grid (from a hundredth of the steps seen to ten times them) c and a are the least-squares line of L over
φ, which is exact; where that c is negative it is 0, and a the best height. The family and b with the smallest squared
error are the fit. Its quality is R², the share of the loss's variance that the curve explains.

Speed: the time t(n) for one sample, as the median of what was reported with n workers. Between two measured counts it
is a line over 1/n; above the highest one the line through the last two, as long as it falls: what is extrapolated is
what the last added workers brought, so a ps that is the bottleneck shows at once. With one measured count, and below
the lowest, a given share of t is taken to be what more workers do not shorten.

Cost: the time between the last report before a change and the first one after it, less the usual time for the steps in
between. Steps that are trained again after a checkpoint are in it by themselves: their first reports are forgotten.

    gain = (L(x + v(n)·H) − L(x + v(m)·(H − stall))) / (L(x) · (m − n))

L is the fitted loss curve over samples, x the samples trained so far, v(n) the samples per second with n workers, H the
horizon, `stall` the measured cost of a change. Growing from n to m workers pays if the gain per added worker, as share
of the present loss, reaches a given ratio: it falls as the curve flattens, as the workers stop making training faster,
and as the stall grows; and it is negative where the stall costs more than it brings.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scoring.network.matrix import Floats
from scoring.scaling.metrics.series import Series

_SERIAL_RATIO = 0.2  # Share of the time for a sample that more workers are taken not to shorten
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


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds per sample for each measured worker count, ascending."""

    counts: tuple[int, ...]
    times_s: tuple[float, ...]

    def at(self, workers: int) -> float:
        """Samples per second with `workers`, measured or not.

        >>> alone = Speed((2,), (0.05,))
        >>> round(alone.at(2), 6), round(alone.at(4), 6)
        (20.0, 33.333333)
        >>> saturated = Speed((3, 6, 9), (0.1, 0.05, 0.05))
        >>> [round(saturated.at(n), 6) for n in (3, 4, 6, 12)]
        [10.0, 13.333333, 20.0, 20.0]
        """
        n, counts, times_s = max(workers, 1), self.counts, self.times_s
        if n < counts[0] or (n > counts[0] and len(counts) == 1):
            shared = 1.0 - _SERIAL_RATIO
            return 1.0 / (times_s[0] * (_SERIAL_RATIO + shared * counts[0] / n))
        if n <= counts[-1]:
            x = [1.0 / count for count in reversed(counts)]
            return 1.0 / float(np.interp(1.0 / n, x, list(reversed(times_s))))
        (n1, n2), (t1, t2) = counts[-2:], times_s[-2:]
        slope = max((t1 - t2) / (1.0 / n1 - 1.0 / n2), 0.0)
        return 1.0 / max(t2 - slope * (1.0 / n2 - 1.0 / n), t2 * n2 / n)


def speed_of(series: Series) -> Speed | None:
    """The speed as reported, as medians for each worker count; `None`: not known.

    Where samples per second are not reported steps per second are taken: right for asynchronous training, where each
    worker's step counts.
    """
    measured: dict[int, float] = {}
    per_step = _steps_per_second(series)
    for workers in np.unique(series.workers[series.workers > 0]).tolist():
        here = series.workers == workers
        reported = series.samples_per_second[here]
        reported = reported[np.isfinite(reported) & (reported > 0.0)]
        rates = reported if len(reported) else per_step[here]
        rates = rates[np.isfinite(rates) & (rates > 0.0)]
        if len(rates):
            measured[workers] = float(np.median(rates))
    counts = tuple(sorted(measured))
    return Speed(counts, tuple(1.0 / measured[n] for n in counts)) if counts else None


def stall_s(series: Series) -> float | None:
    """Median cost of the changes that the series shows, in seconds; `None`: it shows none.

    >>> from scoring.scaling.metrics.series import Point, ReportHistory
    >>> history = ReportHistory()
    >>> for step, time_s, workers in ((1, 1.0, 3), (2, 2.0, 3), (3, 3.0, 3), (4, 44.0, 6), (5, 45.0, 6)):
    ...     history.add(Point(step, time_s, workers=workers))
    >>> stall_s(history.series())
    40.0
    """
    changes = np.flatnonzero(np.diff(series.workers) != 0)
    usual = _steps_per_second(series)
    costs: list[float] = []
    for at in changes.tolist():
        rates = usual[(series.workers == series.workers[at]) & np.isfinite(usual)]
        rate = float(np.median(rates)) if len(rates) else 0.0
        if rate > 0.0:
            gap_s = float(series.time_s[at + 1] - series.time_s[at])
            costs.append(max(gap_s - float(series.step[at + 1] - series.step[at]) / rate, 0.0))
    return float(np.median(costs)) if costs else None


def progress(series: Series, speed: Speed) -> Floats:
    """(n,): samples trained up to each report, so that reports with different worker counts are on one curve.

    Each step counts for what a step trains with the workers of its time: in synchronous training more workers make
    bigger steps, in asynchronous training more of them. Where that is not known, all steps count alike.

    >>> from scoring.scaling.metrics.series import Point, ReportHistory
    >>> history = ReportHistory()
    >>> for step in range(3):
    ...     history.add(Point(step, float(step), samples_per_second=64.0, workers=2))
    >>> progress(history.series(), speed_of(history.series())).tolist()
    [0.0, 64.0, 128.0]
    """
    per_step = np.ones(len(series))
    rates = _steps_per_second(series)
    for workers in np.unique(series.workers).tolist():
        here = series.workers == workers
        known = rates[here & np.isfinite(rates) & (rates > 0.0)]
        if len(known):
            per_step[here] = speed.at(workers) / float(np.median(known))
        elif np.isfinite(rates).any():
            per_step[here] = speed.at(workers) / float(np.nanmedian(rates))
    return np.cumsum(np.concatenate([[0.0], np.diff(series.step) * per_step[1:]]))


def _steps_per_second(series: Series) -> Floats:
    """(n,): the rate up to each report from the one before it; NaN at the first one and where the workers changed."""
    rates = np.full(len(series), np.nan)
    if len(series) > 1:
        time_s, steps = np.diff(series.time_s), np.diff(series.step)
        same = (np.diff(series.workers) == 0) & (time_s > 0.0)
        rates[1:][same] = steps[same] / time_s[same]
    return rates


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is expected of more workers."""

    stay: float  # Loss at the horizon with the present workers
    grow: float  # The same with more, after a stall
    gain_ratio: float  # Per added worker, as share of the present loss


@dataclass(frozen=True, slots=True)
class Model:
    """What a series shows of its job."""

    curve: Curve
    speed: Speed
    trained: float  # Samples so far
    stall_s: float

    def forecast(self, workers: int, more: int, *, horizon_s: float) -> Forecast:
        """The loss `horizon_s` from now with `workers`, and with `more` of them.

        >>> line = Curve("exponential", floor=0.0, height=1.0, begin=0.0, scale=1000.0, explained=1.0)
        >>> model = Model(line, Speed((2, 4), (0.25, 0.125)), trained=0.0, stall_s=100.0)
        >>> found = model.forecast(2, 4, horizon_s=300.0)  # 1,200 samples, or 8 a second for 200 s
        >>> round(found.stay, 3), round(found.grow, 3), round(found.gain_ratio, 3)
        (0.301, 0.202, 0.05)
        >>> model.forecast(2, 4, horizon_s=150.0).gain_ratio < 0.0  # the stall costs more
        True
        """
        now = self.curve.at(self.trained)
        stay = self.curve.at(self.trained + self.speed.at(workers) * horizon_s)
        grow = self.curve.at(self.trained + self.speed.at(more) * max(horizon_s - self.stall_s, 0.0))
        gain = (stay - grow) / (now * max(more - workers, 1)) if now > 0.0 else 0.0
        return Forecast(stay, grow, gain)


def model_of(series: Series, *, expected_stall_s: float) -> Model | None:
    """Fit curve and speed; `None`: there are too few reports, no rate is known, or the loss does not fall."""
    reported, speed = series.part(np.isfinite(series.loss)), speed_of(series)
    if not len(reported) or speed is None:
        return None
    samples = progress(reported, speed)
    curve, measured_s = fit_curve(samples, reported.loss), stall_s(series)
    stalled_s = expected_stall_s if measured_s is None else measured_s
    return None if curve is None else Model(curve, speed, float(samples[-1]), stalled_s)
