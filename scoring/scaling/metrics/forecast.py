"""Would more workers pay? What is fitted to a job's reports, and what is forecast from that (PAPERS E3).

Trend: a line through a window of the loss, and not two means: it uses all points, and what is left of them around it
shows the noise, so that the same rule serves a job that reports every step and one that reports every hundredth.

Curve: c + a·φ(k), c and a ≥ 0, φ one of `_SHAPES`, from 1 at the first step down to 0. For each scale of a grid, from a
hundredth of the steps seen to ten times them, c and a are the least-squares line of the loss over φ, which is exact;
where that c is negative it is 0, and a the best height. The family and scale with the smallest squared error are it.

Speed: the time for one sample, the median with each worker count. Between two measured counts n it is a line over 1/n;
above the highest one the line through the last two, as long as it falls: what is extrapolated is what the last added
workers brought, so a ps that is the bottleneck shows at once. With one measured count, and below the lowest, a given
share of it is taken to be what more workers do not shorten.

Stall: the time from the last report before a change to the first one after it, less the usual time for the steps in
between. Steps that are trained again after a checkpoint are in it by themselves: their first reports are forgotten.

Gain: docs/explanation/elastic.md. It falls as the curve flattens, as workers stop making training faster, and as the
stall grows; it is negative where the stall costs more than it brings.
"""

from collections.abc import Callable, Mapping

import msgspec
import numpy as np

from scoring.network.matrix import Floats
from scoring.scaling.metrics.series import Series

_SERIAL_RATIO = 0.2  # Share of the time for a sample that more workers are taken not to shorten
_GRID = 60

_SHAPES: dict[str, Callable[[Floats], Floats]] = {
    # family → φ as a function of k over the scale
    "inverse": lambda x: 1.0 / (1.0 + x),  # What stochastic gradient descent tends to
    "power": lambda x: (1.0 + x) ** -0.5,
    "exponential": lambda x: np.asarray(np.exp(-x)),
}


class Curve(msgspec.Struct, frozen=True):
    """L(k) = floor + height · φ((k − begin) / scale)."""

    family: str
    floor: float
    height: float
    begin: float
    scale: float
    explained: float  # R², the share of the loss's variance that the curve explains, at most 1

    def at(self, step: float) -> float:
        """The loss at `step`, of the past or of the future."""
        x = np.array([max(step - self.begin, 0.0) / self.scale])
        return self.floor + self.height * float(_SHAPES[self.family](x)[0])


def fit_curve(steps: Floats, losses: Floats) -> Curve | None:
    """The best curve over ascending steps; `None`: there are fewer than eight reports, or the loss does not fall.

    Cost: 180 lines through the points.
    """
    if len(steps) < 8:
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
        alone = (phi @ losses) / (phi * phi).sum(axis=1)  # The best height where the floor is 0
        height, floor = np.where(floor < 0.0, alone, height), np.maximum(floor, 0.0)
        rest = ((losses - floor[:, None] - height[:, None] * phi) ** 2).sum(axis=1)
        rest = np.where((height > 0.0) & (spread > 1e-12), rest, np.inf)
        at = int(rest.argmin())
        explained = 1.0 - float(rest[at]) / total
        if np.isfinite(rest[at]) and (best is None or explained > best.explained):
            best = Curve(family, float(floor[at]), float(height[at]), float(steps[0]), float(scales[at]), explained)
    return best


def trend_of(at: Floats, values: Floats, *, band_ratio: float, certainty: float) -> tuple[float, int] | None:
    """Change of the least-squares line, as share of the mean, and whether it falls (−1), rises (1), or neither is sure.

    Sure: the change is above the band, and as many standard errors as `certainty` says. `None`: fewer than four points.

    >>> change_ratio, direction = trend_of(np.arange(5.0), np.arange(5.0, 0.0, -1.0), band_ratio=0.02, certainty=3.5)
    >>> round(change_ratio, 6), direction
    (-1.333333, -1)
    """
    if len(at) < 4:
        return None
    x, mean = at - at.mean(), float(values.mean())
    spread = float(x @ x)
    slope = float(x @ (values - mean)) / spread
    rest = values - mean - slope * x
    error = float(np.sqrt(float(rest @ rest) / (len(at) - 2) / spread))
    change = slope * float(at[-1] - at[0])
    scale = max(abs(mean), float(np.abs(values).max()) * 1e-9)
    if abs(change) <= 1e-12 * scale:  # What rounding leaves of values that are all the same
        return 0.0, 0
    sure = abs(change) / scale > band_ratio and abs(slope) > certainty * error
    return change / scale, int(np.sign(change)) if sure else 0


def speed_at(workers: int, times_s: Mapping[int, float]) -> float:
    """Samples per second with `workers`, measured or not; `times_s`: measured count → seconds per sample, ascending.

    >>> round(speed_at(2, {2: 0.05}), 6), round(speed_at(4, {2: 0.05}), 6)
    (20.0, 33.333333)
    >>> [round(speed_at(n, {3: 0.1, 6: 0.05, 9: 0.05}), 6) for n in (3, 4, 6, 12)]
    [10.0, 13.333333, 20.0, 20.0]
    """
    n, counts, times = max(workers, 1), list(times_s), list(times_s.values())
    if n < counts[0] or (n > counts[0] and len(counts) == 1):
        return 1.0 / (times[0] * (_SERIAL_RATIO + (1.0 - _SERIAL_RATIO) * counts[0] / n))
    if n <= counts[-1]:
        return 1.0 / float(np.interp(1.0 / n, [1.0 / count for count in reversed(counts)], times[::-1]))
    (n1, n2), (t1, t2) = counts[-2:], times[-2:]
    slope = max((t1 - t2) / (1.0 / n1 - 1.0 / n2), 0.0)
    return 1.0 / max(t2 - slope * (1.0 / n2 - 1.0 / n), t2 * n2 / n)


def sample_times_s(series: Series) -> dict[int, float]:
    """Worker count → seconds per sample as reported, ascending; empty: not known.

    Where samples per second are not reported steps per second are taken: right for asynchronous training, where each
    worker's step counts.
    """
    rates = _medians(series, _steps_per_second(series)) | _medians(series, series.samples_per_second)
    return {n: 1.0 / rates[n] for n in sorted(rates) if n > 0}


def stall_s(series: Series) -> float | None:
    """Median cost of the changes that the series shows, in seconds; `None`: it shows none."""
    usual = _medians(series, _steps_per_second(series))
    costs = [
        max(float(series.time_s[at + 1] - series.time_s[at]) - float(series.step[at + 1] - series.step[at]) / rate, 0.0)
        for at in np.flatnonzero(np.diff(series.workers)).tolist()
        if (rate := usual.get(int(series.workers[at]))) is not None
    ]
    return float(np.median(costs)) if costs else None


def progress(series: Series, times_s: Mapping[int, float]) -> Floats:
    """(n,): samples trained up to each report, so that reports with different worker counts are on one curve.

    Each step counts for what a step trains with the workers of its time: in synchronous training more workers make
    bigger steps, in asynchronous training more of them. Where that is not known, all steps count alike.
    """
    rates = _steps_per_second(series)
    usual, overall = _medians(series, rates), np.nanmedian(rates) if np.isfinite(rates).any() else None
    per_step = {
        n: 1.0 if overall is None else speed_at(n, times_s) / usual.get(n, float(overall))
        for n in set(series.workers.tolist())
    }
    samples = np.diff(series.step) * np.array([per_step[n] for n in series.workers[1:].tolist()])
    return np.cumsum(np.concatenate([[0.0], samples]))


def _steps_per_second(series: Series) -> Floats:
    """(n,): the rate up to each report from the one before it; NaN at the first one and where the workers changed."""
    rates = np.full(len(series), np.nan)
    time_s, steps = np.diff(series.time_s), np.diff(series.step)
    same = (np.diff(series.workers) == 0) & (time_s > 0.0)
    rates[1:][same] = steps[same] / time_s[same]
    return rates


def _medians(series: Series, rates: Floats) -> dict[int, float]:
    """Worker count → the median of its rates (n,), where some are known."""
    there = np.isfinite(rates) & (rates > 0.0)
    counts = set(series.workers[there].tolist())
    return {n: float(np.median(rates[there & (series.workers == n)])) for n in counts}


class Model(msgspec.Struct, frozen=True):
    """What a series shows of its job."""

    curve: Curve
    times_s: Mapping[int, float]  # Of a sample, by worker count
    trained: float  # Samples so far
    stall_s: float

    def forecast(self, workers: int, more: int, *, horizon_s: float) -> tuple[float, float, float]:
        """The loss `horizon_s` from now with `workers`, and with `more` of them after a stall; the gain.

        The gain is per added worker, as share of the present loss.
        """
        now = self.curve.at(self.trained)
        stay = self.curve.at(self.trained + speed_at(workers, self.times_s) * horizon_s)
        grow = self.curve.at(self.trained + speed_at(more, self.times_s) * max(horizon_s - self.stall_s, 0.0))
        return stay, grow, (stay - grow) / (now * max(more - workers, 1)) if now > 0.0 else 0.0


def model_of(series: Series, *, expected_stall_s: float) -> Model | None:
    """Fit curve and speed; `None`: there are too few reports, no rate is known, or the loss does not fall."""
    reported, times_s = series.part(np.isfinite(series.loss)), sample_times_s(series)
    if not len(reported) or not times_s:
        return None
    samples = progress(reported, times_s)
    curve, measured_s = fit_curve(samples, reported.loss), stall_s(series)
    stalled_s = expected_stall_s if measured_s is None else measured_s
    return None if curve is None else Model(curve, times_s, float(samples[-1]), stalled_s)
