"""What a job's own metrics ask for: a worker count, with the reason (PAPERS E2).

- `iterations`: another count every so many steps, from the minimum to the maximum and back: 3 → 6 → 9 → 12 → 3.
- `loss`: more workers while the loss falls, fewer when it rises: 3 → 6 → 9 → 12 → 9.
- `curve`: more workers if the extrapolated loss says that they pay for the stall, fewer when it rises.

Rules for all of them, because each change stalls the job and too many make training random (PAPERS E3): nothing is
changed during a resize or on stale reports; a demand is looked at again `every_steps` steps after the last look and the
last change, and not before `min_interval_s`; only reports with the present worker count count, the first steps after a
change excepted; a trend must be larger than a band and surer than noise; and from one change of direction to the next
there are at least `reversal_steps` steps, whatever the reports say (`iterations`, which reads none, goes its round).
"""

from enum import StrEnum
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from scoring.scaling.job import ElasticJob, MetricOptions, Wants
from scoring.scaling.metrics.forecast import model_of, trend_of
from scoring.scaling.metrics.series import Series

_STALE_S: Final = 900.0  # A report that is older says nothing any more
_MIN_FIT_RATIO: Final = 0.8  # `curve`: share of the loss's variance that the curve must explain
_MIN_GAIN_RATIO: Final = 0.001  # `curve`: what a worker must bring


class Said(StrEnum):
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


class Memory(msgspec.Struct, frozen=True):
    """What must be remembered of a job between two looks."""

    wanted: int  # Workers asked for last
    looked_at: int  # Step of the last look
    changed_s: float  # When the demand changed last, Unix seconds
    direction: int = 0  # Of the last change: 1 up, −1 down, 0 none yet
    turned_at: int | None = None  # Step at which the direction changed last


class WorkerDemand(msgspec.Struct, frozen=True):
    """How many workers a job asks for; `None`: it says nothing of it, and the queue alone decides."""

    workers: int | None
    reason: Said
    detail: str = ""
    memory: Memory | None = None  # For the next look


def worker_demand(
    job: ElasticJob, series: Series, memory: Memory | None, options: MetricOptions, *, now_s: float
) -> WorkerDemand:
    """What the job asks for now. Cost: O(n) in reports, and for `curve` a fit.

    >>> from scoring.scaling.metrics.series import Point, ReportHistory
    >>> from tests.scoring.scaling.cases import elastic, workers
    >>> job = elastic(workers("g", ["n1"] * 3), least=3, most=12, wants=Wants.LOSS)
    >>> history = ReportHistory()
    >>> for step in range(0, 501, 10):
    ...     history.add(Point(step, float(step), loss=2.0 - step / 500, workers=3))
    >>> found = worker_demand(job, history.series(), None, MetricOptions(), now_s=500.0)
    >>> found.workers, str(found.reason)
    (6, 'the loss falls')
    >>> worker_demand(job, ReportHistory().series(), None, MetricOptions(), now_s=0.0).workers is None
    True
    """
    if job.wants is Wants.OFF:
        return WorkerDemand(None, Said.OFF)
    if not len(series):
        return WorkerDemand(None, Said.NO_SIGNAL)
    look = _Look(job, series, memory or Memory(job.target(job.workers), -1, float("-inf")), options, now_s)
    why_not = look.why_not()
    if why_not is not None:
        return look.hold(why_not)
    if job.wants is not Wants.ITERATIONS:
        return _by_loss(look)
    # Minimum, one step more, … maximum, minimum again: a function of the highest step alone.
    counts = [*range(job.floor, job.max_workers, options.workers_step), job.max_workers]
    turn = series.top_step // options.every_steps
    due = counts[turn % len(counts)]
    return look.change(due, Said.NEXT_COUNT, f"{due} workers from step {turn * options.every_steps} on")


class _Look(msgspec.Struct, frozen=True):
    """Steps are counted by the highest one reported: going back to a checkpoint brings no earlier demand again."""

    job: ElasticJob
    series: Series
    memory: Memory
    options: MetricOptions
    now_s: float

    def why_not(self) -> Said | None:
        """Why the demand stays as it is without the metrics being looked at."""
        options, memory, series = self.options, self.memory, self.series
        if self.job.workers != int(series.workers[-1]):
            return Said.RESIZING
        if self.now_s - float(series.time_s[-1]) > _STALE_S:
            return Said.STALE
        if self.now_s - memory.changed_s < options.min_interval_s:
            return Said.TOO_SOON
        begin = series.changed_at()
        since = max(memory.looked_at, int(series.step[0]) if begin is None else begin)
        too_soon = self.job.wants is not Wants.ITERATIONS and series.top_step - since < options.every_steps
        return Said.TOO_SOON if too_soon else None

    def hold(self, reason: Said, detail: str = "") -> WorkerDemand:
        """The same demand as before."""
        wanted = self.job.target(self.memory.wanted)
        looked_at = self.series.top_step if reason in _AFTER_A_LOOK else self.memory.looked_at
        return WorkerDemand(wanted, reason, detail, replace(self.memory, wanted=wanted, looked_at=looked_at))

    def change(self, workers: int, reason: Said, detail: str = "") -> WorkerDemand:
        """Another demand, within the job's bounds, unless it turns too soon after the last turn."""
        memory, step, workers = self.memory, self.series.top_step, self.job.target(workers)
        direction = (workers > memory.wanted) - (workers < memory.wanted)
        by_reports = self.job.wants is not Wants.ITERATIONS  # Whose steps, and the way back, are given
        if not direction:
            return self.hold(Said.AT_BOUND if by_reports else Said.SAME_COUNT, detail)
        turned_at = memory.turned_at
        if by_reports and memory.direction and direction != memory.direction:
            if turned_at is not None and step - turned_at < self.options.reversal_steps:
                return self.hold(Said.TURNED, detail)
            turned_at = step
        return WorkerDemand(workers, reason, detail, Memory(workers, step, self.now_s, direction, turned_at))


_AFTER_A_LOOK = frozenset({Said.LEVEL, Said.NO_GAIN, Said.POOR_FIT, Said.AT_BOUND, Said.TURNED, Said.SAME_COUNT})
"""Reasons that stand for `every_steps` steps; all others are asked again with the next report."""


def _by_loss(look: _Look) -> WorkerDemand:
    """`loss`, and the part of `curve` that gives workers back."""
    job, series, options = look.job, look.series, look.options
    begin, first = series.changed_at(), int(series.step[-1]) - options.every_steps
    first = first if begin is None else max(first, begin + options.settle_steps)
    window = series.part((series.step >= first) & np.isfinite(series.loss))
    if len(window) < options.min_points:
        return look.hold(Said.SETTLING, f"{len(window)} of {options.min_points} reports")
    steps = window.step.astype(np.float64)
    trend = trend_of(steps, window.loss, band_ratio=options.band_ratio, certainty=options.certainty)
    if trend is None:
        return look.hold(Said.SETTLING)
    change_ratio, direction = trend
    detail = f"by {change_ratio:+.1%} over {steps[-1] - steps[0]:.0f} steps"
    if direction > 0:
        return look.change(min(job.workers, look.memory.wanted) - options.workers_step, Said.RISES, detail)
    # What was asked for and not granted yet is not asked for twice.
    more = min(max(job.workers + options.workers_step, look.memory.wanted), job.max_workers)
    if job.wants is Wants.CURVE:
        return _by_curve(look, more)
    return look.change(more, Said.FALLS, detail) if direction < 0 else look.hold(Said.LEVEL, detail)


def _by_curve(look: _Look, more: int) -> WorkerDemand:
    job, options = look.job, look.options
    if more <= job.workers:
        return look.hold(Said.AT_BOUND)
    model = model_of(look.series, expected_stall_s=options.stall_s)
    if model is None:
        return look.hold(Said.POOR_FIT, "the loss does not fall, or no speed is reported")
    if model.curve.explained < _MIN_FIT_RATIO:
        return look.hold(Said.POOR_FIT, f"{model.curve.family} explains {model.curve.explained:.0%}")
    stay, grow, gain_ratio = model.forecast(job.workers, more, horizon_s=options.horizon_s)
    detail = (
        f"loss in {options.horizon_s:.0f} s: {stay:.4g} with {job.workers} workers, {grow:.4g} with {more} "
        f"after a stall of {model.stall_s:.0f} s; {gain_ratio:.3%} a worker"
    )
    return look.change(more, Said.PAYS, detail) if gain_ratio >= _MIN_GAIN_RATIO else look.hold(Said.NO_GAIN, detail)
