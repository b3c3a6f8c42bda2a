"""What jobs reported: for each job a bounded series of points, by ascending step.

Why in memory and nowhere else: a write to etcd per report would be abuse, and wishes need the recent past only; a new
leader begins with nothing and wishes nothing until it has seen enough. Rules:

- The newest points are all kept; of the older ones every second, fourth, eighth, … as they become too many. The start
  of a curve tells its shape, so it is thinned out and never cut off.
- A job that began anew (another uid, or a step taken back after a restart from a checkpoint) loses what was undone.
- Of too many jobs the one that reported longest ago is forgotten, in the namespace that has the most: nobody can push
  out other people's jobs.
"""

from collections import OrderedDict, deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from scoring.ids import Namespace
from scoring.scaling.job import JobKey
from scoring.scaling.series import NOTHING, Series

MOST_JOBS: Final = 1000
"""Series kept at a time."""
MOST_POINTS: Final = 500
"""Points kept of one job; with as many of each job 100 MB in all."""


@dataclass(frozen=True, slots=True)
class Point:
    """One report of one job: how far it is, and how well it goes."""

    step: int
    time_s: float
    """When, by the job's clock; Unix seconds."""
    loss: float
    samples_per_second: float | None = None
    """Of all workers together; `None`: not told."""
    accuracy: float | None = None
    """A ratio; `None`: not told."""
    workers: int | None = None
    """Workers in force, as the job says, else as its spec says; `None`: nobody said."""


class _Series:
    """One job's points: the newest, and behind them every `stride`-th older one."""

    def __init__(self, uid: str, most: int) -> None:
        self.uid = uid
        self._most = most // 2
        """Of each part"""
        self._newest: deque[Point] = deque()
        self._older: list[Point] = []
        self._stride = 1
        self._passed = 0
        """Points that have left the newest; each multiple of `stride` is among the older ones"""
        self._top_step = 0
        """The highest step ever reported, undone ones included"""
        self._arrays: Series | None = None
        """The same for decisions; `None`: to be made"""

    def points(self) -> tuple[Point, ...]:
        """All, by ascending step."""
        return (*self._older, *self._newest)

    def arrays(self) -> Series:
        """As decisions read it: the same object until something is reported."""
        if self._arrays is None:
            self._arrays = series_of(self.points(), self._top_step)
        return self._arrays

    def last(self) -> Point | None:
        """The newest one."""
        return self._newest[-1] if self._newest else self._older[-1] if self._older else None

    def undo(self, step: int) -> None:
        """Forget what was reported from this step on."""
        self._arrays = None
        while self._newest and self._newest[-1].step >= step:
            self._newest.pop()
        while self._older and self._older[-1].step >= step:
            self._older.pop()
        if not self._newest:
            self._passed = len(self._older) * self._stride

    def add(self, point: Point) -> None:
        """Append a point."""
        self._arrays = None
        self._top_step = max(self._top_step, point.step)
        self._newest.append(point)
        if len(self._newest) <= self._most:
            return
        passed = self._newest.popleft()
        if self._passed % self._stride == 0:
            self._older.append(passed)
            if len(self._older) > self._most:
                del self._older[1::2]
                self._stride *= 2
        self._passed += 1


class SeriesBook:
    """The series of all jobs. One writer: the reports."""

    def __init__(self, *, most_jobs: int = MOST_JOBS, most_points: int = MOST_POINTS) -> None:
        if most_jobs < 1 or most_points < 4:
            raise ValueError("room for a job and four points at least")
        self._most_jobs = most_jobs
        self._most_points = most_points
        self._series: OrderedDict[JobKey, _Series] = OrderedDict()
        """job → its series; who reported longest ago comes first"""
        self._jobs_in: dict[Namespace, int] = {}
        """namespace → how many series it has"""

    def __len__(self) -> int:
        return len(self._series)

    def of(self, job: JobKey, uid: str) -> Sequence[Point]:
        """What this very job reported, by ascending step; empty: nothing."""
        series = self._series.get(job)
        return series.points() if series is not None and series.uid == uid else ()

    def series(self, job: JobKey, uid: str) -> Series:
        """The same as decisions read it; accuracy is for people. Cost: O(points) when there are new ones."""
        kept = self._series.get(job)
        return kept.arrays() if kept is not None and kept.uid == uid else NOTHING

    def last(self, job: JobKey, uid: str) -> Point | None:
        """The newest point of this very job."""
        series = self._series.get(job)
        return series.last() if series is not None and series.uid == uid else None

    def add(self, job: JobKey, uid: str, points: Sequence[Point], *, undo: bool = False) -> None:
        """Append points; with `undo` those kept from the first one's step on are dropped before.

        Errors: ValueError if the steps do not ascend. Cost: O(points given), and what `undo` drops.
        """
        if not points:
            return
        series = self._series.get(job)
        if series is None or series.uid != uid:
            series = self._begin(job, uid)
        if undo:
            series.undo(points[0].step)
        last = series.last()
        steps = [one.step for one in ((last,) if last is not None else ()) + tuple(points)]
        if any(one >= other for one, other in pairwise(steps)):
            raise ValueError(f"{job}: steps do not ascend")
        for point in points:
            series.add(point)
        self._series.move_to_end(job)

    def keep_only(self, jobs: Collection[JobKey]) -> None:
        """Forget jobs that are gone. Cost: O(series)."""
        for job in [job for job in self._series if job not in jobs]:
            self._drop(job)

    def forget(self) -> None:
        """Forget everything."""
        self._series.clear()
        self._jobs_in.clear()

    def _begin(self, job: JobKey, uid: str) -> _Series:
        if job in self._series:
            self._drop(job)
        while len(self._series) >= self._most_jobs:
            self._drop(self._least())
        series = self._series[job] = _Series(uid, self._most_points)
        self._jobs_in[job.namespace] = self._jobs_in.get(job.namespace, 0) + 1
        return series

    def _least(self) -> JobKey:
        """Whom to forget: of the namespace with most series (by name, if several) who reported longest ago."""
        crowded = min(self._jobs_in, key=lambda namespace: (-self._jobs_in[namespace], namespace))
        return next(job for job in self._series if job.namespace == crowded)

    def _drop(self, job: JobKey) -> None:
        del self._series[job]
        self._jobs_in[job.namespace] -= 1
        if not self._jobs_in[job.namespace]:
            del self._jobs_in[job.namespace]


def series_of(points: Sequence[Point], top_step: int) -> Series:
    """Points as arrays; what was not told is NaN, and no workers.

    >>> found = series_of([Point(1, 10.0, 0.5), Point(2, 11.0, 0.4, samples_per_second=8.0, workers=3)], 9)
    >>> found.step.tolist(), found.samples_per_second.tolist(), found.workers.tolist(), found.top_step
    ([1, 2], [nan, 8.0], [0, 3], 9)
    """
    speeds = [np.nan if one.samples_per_second is None else one.samples_per_second for one in points]
    return Series(
        step=np.array([one.step for one in points], np.int64),
        time_s=np.array([one.time_s for one in points], np.float64),
        loss=np.array([one.loss for one in points], np.float64),
        samples_per_second=np.array(speeds, np.float64),
        workers=np.array([one.workers or 0 for one in points], np.int64),
        top_step=top_step,
    )
