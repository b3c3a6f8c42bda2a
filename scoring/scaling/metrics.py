"""What a job's own metrics ask for: a worker count, with the reason (PAPERS E2, E3).

docs/explanation/elastic.md has the policies and the rules against noise: each change stalls the job, and too many make
training random.

- Trend: a line through a window of the loss: what is left of the points around it shows the noise, however often a job
  reports.
- Curve: c + a·φ(k), c and a ≥ 0. For each scale of a grid, from a hundredth of the steps seen to ten times them, c and
  a are the least-squares line of the loss over φ; where that c is negative it is 0, and a the best height.
- Speed: between two measured counts n the time for a sample is a line over 1/n; above the highest one the line through
  the last two, as long as it falls, so that a ps that is the bottleneck shows at once.
- Stall: the time from the last report before a change to the first one after it, less the usual time for the steps in
  between. Steps that are trained again after a checkpoint are in it: their first reports are forgotten.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from scoring.network.matrix import Floats
from scoring.scaling.job import ElasticJob, MetricOptions, Series, Wants

_STALE_S: Final = 900.0  # A report that is older says nothing any more
_MIN_FIT_RATIO: Final = 0.8  # `curve`: share of the loss's variance that the curve must explain
_MIN_GAIN_RATIO: Final = 0.001  # `curve`: what a worker must bring
_WAITS_RATIO, _COMPUTES_RATIO = 0.5, 0.75  # `usage`: below the one a worker goes, above the other one comes
_SERIAL_RATIO: Final = 0.2  # Share of the time for a sample that more workers are taken not to shorten
_GRID: Final = 60
_SHAPES: Final[Mapping[str, Callable[[Floats], Floats]]] = {
    # family → φ as a function of k over the scale
    "inverse": lambda x: 1.0 / (1.0 + x),  # What stochastic gradient descent tends to
    "power": lambda x: (1.0 + x) ** -0.5,
    "exponential": lambda x: np.asarray(np.exp(-x)),
}


class Curve(msgspec.Struct, frozen=True):
    """L(k) = floor + height · φ(k / scale)."""

    family: str
    floor: float
    height: float
    scale: float
    explained: float  # R², the share of the loss's variance that the curve explains, at most 1

    def at(self, step: float) -> float:
        """The loss at `step`, of the past or of the future."""
        return self.floor + self.height * float(_SHAPES[self.family](np.array([step / self.scale]))[0])


def fit_curve(k: Floats, losses: Floats) -> Curve | None:
    """The best curve over steps that ascend from 0; `None`: under eight reports, or no fall. Cost: 180 line fits."""
    if len(k) < 8:
        return None
    mean = float(losses.mean())
    y = losses - mean
    if (total := float(y @ y)) <= 0.0:
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
            best = Curve(family, float(floor[at]), float(height[at]), float(scales[at]), explained)
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
    """Worker count → seconds per sample, ascending; where no samples, by steps: right for asynchronous training."""
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

    Each step counts for what a step trains with the workers of its time; where that is not known, all count alike.
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
        """The loss `horizon_s` from now with `workers`, and with `more` after a stall; the gain a worker, as share."""
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


class DemandReason(StrEnum):
    """Why a job asks for this worker count."""

    OFF = "the job is not scaled by its metrics"
    NO_SIGNAL = "the job has not reported what its policy needs"
    STALE = "the job's last report is old"
    RESIZING = "the job's last change is not carried out yet"
    TOO_SOON = "the last look is too few steps or seconds ago"
    SETTLING = "there are too few reports since the last change"
    TURNED = "the job changed its direction a short time ago"
    AT_BOUND = "the job has its minimum or maximum"
    NEXT_COUNT = "the next worker count is due"
    SAME_COUNT = "the present worker count is due"
    LEVEL = "the loss neither falls nor rises for sure"
    FALLS = "the loss falls"
    RISES = "the loss rises"
    PAYS = "the predicted gain pays for the stall"
    NO_GAIN = "the predicted gain does not pay for the stall"
    POOR_FIT = "no curve fits the loss well enough"
    WAIT = "the workers mostly wait for the ps or the network"
    COMPUTE = "the workers mostly compute"


_R = DemandReason
_STANDS: Final = frozenset({_R.LEVEL, _R.NO_GAIN, _R.POOR_FIT, _R.AT_BOUND, _R.TURNED, _R.SAME_COUNT})
"""Reasons that stand for `every_steps` steps; all others are asked again with the next report."""


class WorkerDemand(msgspec.Struct, frozen=True):
    """How many workers a job asks for, and what the next look has to know of this one."""

    workers: int | None  # `None`: it says nothing of it, and the queue alone decides
    reason: DemandReason
    detail: str = ""
    looked_at: int = -1  # Step of the last look whose reason stands
    changed_s: float = float("-inf")  # When the demand changed last, Unix seconds
    direction: int = 0  # Of the last change: 1 up, −1 down, 0 none yet
    turned_at: int | None = None  # Step at which the direction changed last


def worker_demand(
    job: ElasticJob, series: Series, last: WorkerDemand | None, options: MetricOptions, *, now_s: float
) -> WorkerDemand:
    """What the job asks for now; `last`: what it asked for at the last look. Cost: O(n) reports; for `curve` a fit."""
    if job.wants is Wants.OFF:
        return WorkerDemand(None, _R.OFF)
    if not len(series):
        return WorkerDemand(None, _R.NO_SIGNAL)
    if last is None or last.workers is None:
        last = WorkerDemand(job.target(job.workers), _R.NO_SIGNAL)
    return _Evaluation(job, series, last, options, now_s).demand()


class _Evaluation(msgspec.Struct, frozen=True):
    """Steps are counted by the highest one reported: going back to a checkpoint brings no earlier demand again."""

    job: ElasticJob
    series: Series
    last: WorkerDemand
    options: MetricOptions
    now_s: float

    def demand(self) -> WorkerDemand:
        job, options, series = self.job, self.options, self.series
        if job.workers != int(series.workers[-1]):
            return self._hold(_R.RESIZING)
        if self.now_s - float(series.time_s[-1]) > _STALE_S:
            return self._hold(_R.STALE)
        begin = series.changed_at()
        since = max(self.last.looked_at, int(series.step[0]) if begin is None else begin)
        too_soon = job.wants is not Wants.ITERATIONS and series.top_step - since < options.every_steps
        if too_soon or self.now_s - self.last.changed_s < options.min_interval_s:
            return self._hold(_R.TOO_SOON)
        if job.wants is not Wants.ITERATIONS:
            return self._by_usage() if job.wants is Wants.USAGE else self._by_loss()
        # Minimum, one step more, … maximum, minimum again: a function of the highest step alone.
        counts = [*range(job.floor, job.max_workers, options.workers_step), job.max_workers]
        turn = series.top_step // options.every_steps
        due = counts[turn % len(counts)]
        return self._change(due, _R.NEXT_COUNT, f"{due} workers from step {turn * options.every_steps} on")

    def _hold(self, reason: DemandReason, detail: str = "") -> WorkerDemand:
        workers = self.job.target(self.last.workers)
        looked_at = self.series.top_step if reason in _STANDS else self.last.looked_at
        return replace(self.last, workers=workers, reason=reason, detail=detail, looked_at=looked_at)

    def _change(self, workers: int, reason: DemandReason, detail: str = "") -> WorkerDemand:
        """Another demand, within the job's bounds, unless it turns too soon after the last turn."""
        last, wanted, step, workers = self.last, self.last.workers or 0, self.series.top_step, self.job.target(workers)
        direction = (workers > wanted) - (workers < wanted)
        by_reports = self.job.wants is not Wants.ITERATIONS  # Whose steps, and the way back, are given
        if not direction:
            return self._hold(_R.AT_BOUND if by_reports else _R.SAME_COUNT, detail)
        turned_at = last.turned_at
        if by_reports and last.direction and direction != last.direction:
            if turned_at is not None and step - turned_at < self.options.reversal_steps:
                return self._hold(_R.TURNED, detail)
            turned_at = step
        return WorkerDemand(workers, reason, detail, step, self.now_s, direction, turned_at)

    def _reported(self, values: Floats) -> Series:
        """The reports that hold a value, of the last `every_steps` steps, and not of those after a change."""
        series, options = self.series, self.options
        begin, first = series.changed_at(), int(series.step[-1]) - options.every_steps
        first = first if begin is None else max(first, begin + options.settle_steps)
        return series.part((series.step >= first) & np.isfinite(values))

    def _by_usage(self) -> WorkerDemand:
        """By the share of their time in which workers compute (PAPERS E2, the third aim of the authors)."""
        window, wanted = self._reported(self.series.compute_ratio), self.last.workers or 0
        if len(window) < self.options.min_points:
            return self._hold(_R.SETTLING, f"{len(window)} of {self.options.min_points} reports")
        usual = float(np.median(window.compute_ratio))
        detail = f"they compute {usual:.0%} of their time"
        if usual < _WAITS_RATIO:
            return self._change(min(self.job.workers, wanted) - 1, _R.WAIT, detail)
        if usual > _COMPUTES_RATIO and usual * self.job.workers > _WAITS_RATIO * (self.job.workers + 1):
            return self._change(max(self.job.workers + 1, wanted), _R.COMPUTE, detail)
        return self._hold(_R.SAME_COUNT, detail)

    def _by_loss(self) -> WorkerDemand:
        job, options, wanted = self.job, self.options, self.last.workers or 0
        window = self._reported(self.series.loss)
        steps = window.step.astype(np.float64)
        trend = trend_of(steps, window.loss, band_ratio=options.band_ratio, certainty=options.certainty)
        if len(window) < options.min_points or trend is None:
            return self._hold(_R.SETTLING, f"{len(window)} of {options.min_points} reports")
        change_ratio, direction = trend
        detail = f"by {change_ratio:+.1%} over {steps[-1] - steps[0]:.0f} steps"
        if direction > 0:
            return self._change(min(job.workers, wanted) - options.workers_step, _R.RISES, detail)
        # What was asked for and not granted yet is not asked for twice.
        more = min(max(job.workers + options.workers_step, wanted), job.max_workers)
        if job.wants is Wants.CURVE:
            return self._by_curve(more)
        return self._change(more, _R.FALLS, detail) if direction < 0 else self._hold(_R.LEVEL, detail)

    def _by_curve(self, more: int) -> WorkerDemand:
        workers, horizon_s = self.job.workers, self.options.horizon_s
        if more <= workers:
            return self._hold(_R.AT_BOUND)
        if (model := model_of(self.series, expected_stall_s=self.options.stall_s)) is None:
            return self._hold(_R.POOR_FIT, "the loss does not fall, or no speed is reported")
        if model.curve.explained < _MIN_FIT_RATIO:
            return self._hold(_R.POOR_FIT, f"{model.curve.family} explains {model.curve.explained:.0%}")
        stay, grow, gain_ratio = model.forecast(workers, more, horizon_s=horizon_s)
        detail = (
            f"loss in {horizon_s:.0f} s: {stay:.4g} with {workers} workers, {grow:.4g} with {more} "
            f"after a stall of {model.stall_s:.0f} s; {gain_ratio:.3%} a worker"
        )
        return self._change(more, _R.PAYS, detail) if gain_ratio >= _MIN_GAIN_RATIO else self._hold(_R.NO_GAIN, detail)
