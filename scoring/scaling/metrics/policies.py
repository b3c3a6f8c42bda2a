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

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np

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


@dataclass(frozen=True, slots=True)
class Memory:
    """What must be remembered of a job between two looks."""

    wanted: int  # Workers asked for last
    looked_at: int  # Step of the last look
    changed_s: float  # When the demand changed last, Unix seconds
    direction: int = 0  # Of the last change: 1 up, −1 down, 0 none yet
    turned_at: int | None = None  # Step at which the direction changed last


@dataclass(frozen=True, slots=True)
class WorkerDemand:
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
    known = memory or Memory(min(max(job.workers, job.floor), job.max_workers), -1, float("-inf"))
    look = _Look(job, series, known, options, now_s)
    why_not = look.why_not()
    if why_not is not None:
        return look.hold(why_not)
    if job.wants is not Wants.ITERATIONS:
        return _by_loss(look)
    # Minimum, one step more, … maximum, minimum again: a function of the highest step alone.
    counts = [*range(job.floor, job.max_workers, options.workers_step), job.max_workers]
    turn = look.step // options.every_steps
    due = counts[turn % len(counts)]
    return look.change(due, Said.NEXT_COUNT, f"{due} workers from step {turn * options.every_steps} on")


@dataclass(frozen=True, slots=True)
class _Look:
    job: ElasticJob
    series: Series
    memory: Memory
    options: MetricOptions
    now_s: float

    @property
    def step(self) -> int:
        """The highest step reported: going back to a checkpoint brings no earlier demand again."""
        return self.series.top_step

    def why_not(self) -> Said | None:
        """Why the demand stays as it is without the metrics being looked at."""
        options, memory = self.options, self.memory
        if self.job.workers != int(self.series.workers[-1]):
            return Said.RESIZING
        if self.now_s - float(self.series.time_s[-1]) > _STALE_S:
            return Said.STALE
        if self.now_s - memory.changed_s < options.min_interval_s:
            return Said.TOO_SOON
        if self.job.wants is not Wants.ITERATIONS:
            begin = self.series.changed_at()
            since = max(memory.looked_at, int(self.series.step[0]) if begin is None else begin)
            if self.step - since < options.every_steps:
                return Said.TOO_SOON
        return None

    def hold(self, reason: Said, detail: str = "") -> WorkerDemand:
        """The same demand as before."""
        job = self.job
        wanted = min(max(self.memory.wanted, job.floor), job.max_workers)
        looked = reason in _AFTER_A_LOOK
        memory = replace(self.memory, wanted=wanted, looked_at=self.step if looked else self.memory.looked_at)
        return WorkerDemand(wanted, reason, detail, memory)

    def change(self, workers: int, reason: Said, detail: str = "") -> WorkerDemand:
        """Another demand, unless it turns too soon after the last turn."""
        memory = self.memory
        workers = min(max(workers, self.job.floor), self.job.max_workers)
        direction = (workers > memory.wanted) - (workers < memory.wanted)
        if not direction:
            return self.hold(Said.AT_BOUND if reason is not Said.NEXT_COUNT else Said.SAME_COUNT, detail)
        turned_at = memory.turned_at
        by_reports = self.job.wants is not Wants.ITERATIONS  # whose steps, and the way back, are given
        if by_reports and memory.direction and direction != memory.direction:
            if turned_at is not None and self.step - turned_at < self.options.reversal_steps:
                return self.hold(Said.TURNED, detail)
            turned_at = self.step
        return WorkerDemand(workers, reason, detail, Memory(workers, self.step, self.now_s, direction, turned_at))

    def more(self) -> int:
        """Workers after the next step up; what was asked for and not granted yet is not asked for twice."""
        return min(max(self.job.workers + self.options.workers_step, self.memory.wanted), self.job.max_workers)

    def fewer(self) -> int:
        """Workers after the next step down."""
        return max(min(self.job.workers, self.memory.wanted) - self.options.workers_step, self.job.floor)


_AFTER_A_LOOK = frozenset({Said.LEVEL, Said.NO_GAIN, Said.POOR_FIT, Said.AT_BOUND, Said.TURNED, Said.SAME_COUNT})
"""Reasons that stand for `every_steps` steps; all others are asked again with the next report."""


def _by_loss(look: _Look) -> WorkerDemand:
    """`loss`, and the part of `curve` that gives workers back."""
    options, series = look.options, look.series
    begin = series.changed_at()
    first = int(series.step[-1]) - options.every_steps
    first = first if begin is None else max(first, begin + options.settle_steps)
    window = series.part((series.step >= first) & np.isfinite(series.loss))
    if len(window) < options.min_points:
        return look.hold(Said.SETTLING, f"{len(window)} of {options.min_points} reports")
    trend = trend_of(window.step.astype(np.float64), window.loss)
    if trend is None:
        return look.hold(Said.SETTLING)
    detail = f"by {trend.change_ratio:+.1%} over {int(window.step[-1] - window.step[0])} steps"
    sure = trend.sure(band_ratio=options.band_ratio, certainty=options.certainty)
    if sure > 0:
        return look.change(look.fewer(), Said.RISES, detail)
    if look.job.wants is Wants.CURVE:
        return _by_curve(look)
    return look.change(look.more(), Said.FALLS, detail) if sure < 0 else look.hold(Said.LEVEL, detail)


def _by_curve(look: _Look) -> WorkerDemand:
    job, options = look.job, look.options
    more = look.more()
    if more <= job.workers:
        return look.hold(Said.AT_BOUND)
    model = model_of(look.series, expected_stall_s=options.stall_s)
    if model is None:
        return look.hold(Said.POOR_FIT, "the loss does not fall, or no speed is reported")
    if model.curve.explained < _MIN_FIT_RATIO:
        return look.hold(Said.POOR_FIT, f"{model.curve.family} explains {model.curve.explained:.0%}")
    found = model.forecast(job.workers, more, horizon_s=options.horizon_s)
    detail = (
        f"loss in {options.horizon_s:.0f} s: {found.stay:.4g} with {job.workers} workers, {found.grow:.4g} with {more} "
        f"after a stall of {model.stall_s:.0f} s; {found.gain_ratio:.3%} a worker"
    )
    if found.gain_ratio >= _MIN_GAIN_RATIO:
        return look.change(more, Said.PAYS, detail)
    return look.hold(Said.NO_GAIN, detail)
