"""What jobs reported: for each job a bounded series of points, by ascending step.

Why only in memory: a write to etcd per report would be abuse, and the policies need the recent past only; a new leader
starts with no reports and changes no job for its metrics until it has enough. Rules:

- Of each job as much is kept as `scoring.scaling.metrics.series` says.
- A job that restarted (another uid, or a step taken back after a restart from a checkpoint) loses what was undone.
- Of too many jobs the one that reported longest ago is forgotten, in the namespace that has the most: no tenant can
  push out other people's jobs.
"""

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from scoring.ids import Namespace
from scoring.scaling.job import JobKey
from scoring.scaling.metrics.series import MOST_POINTS, NOTHING, Point, ReportHistory, Series

MOST_JOBS: Final = 1000
"""Series kept at a time; with as many points of each as may be, 100 MB in all."""


@dataclass(frozen=True, slots=True)
class _Kept:
    uid: str
    history: ReportHistory


class SeriesBook:
    """The series of all jobs. One writer: the reports."""

    def __init__(self, *, most_jobs: int = MOST_JOBS, most_points: int = MOST_POINTS) -> None:
        if most_jobs < 1:
            raise ValueError("room for a job at least")
        ReportHistory(most_points)  # refuses too few
        self._most_jobs = most_jobs
        self._most_points = most_points
        self._series: OrderedDict[JobKey, _Kept] = OrderedDict()
        """job → its series; the one that reported longest ago comes first"""
        self._jobs_in: dict[Namespace, int] = {}
        """namespace → how many series it has"""

    def __len__(self) -> int:
        return len(self._series)

    def of(self, job: JobKey, uid: str) -> Sequence[Point]:
        """What this very job reported, by ascending step; empty: nothing."""
        series = self._series.get(job)
        return series.history.points() if series is not None and series.uid == uid else ()

    def series(self, job: JobKey, uid: str) -> Series:
        """The same as decisions read it; accuracy is for people. Cost: O(points) when there are new ones."""
        kept = self._series.get(job)
        return kept.history.series() if kept is not None and kept.uid == uid else NOTHING

    def last(self, job: JobKey, uid: str) -> Point | None:
        """The newest point of this very job."""
        series = self._series.get(job)
        return series.history.last() if series is not None and series.uid == uid else None

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
            series.history.undo(points[0].step)
        last = series.history.last()
        steps = [one.step for one in ((last,) if last is not None else ()) + tuple(points)]
        if any(one >= other for one, other in pairwise(steps)):
            raise ValueError(f"{job}: steps do not ascend")
        for point in points:
            series.history.add(point)
        self._series.move_to_end(job)

    def keep_only(self, jobs: Collection[JobKey]) -> None:
        """Forget jobs that are gone. Cost: O(series)."""
        for job in [job for job in self._series if job not in jobs]:
            self._drop(job)

    def forget(self) -> None:
        """Forget everything."""
        self._series.clear()
        self._jobs_in.clear()

    def _begin(self, job: JobKey, uid: str) -> _Kept:
        if job in self._series:
            self._drop(job)
        while len(self._series) >= self._most_jobs:
            self._drop(self._least())
        series = self._series[job] = _Kept(uid, ReportHistory(self._most_points))
        self._jobs_in[job.namespace] = self._jobs_in.get(job.namespace, 0) + 1
        return series

    def _least(self) -> JobKey:
        """The job to forget: in the namespace with most series (by name, if several), the one silent for longest."""
        crowded = min(self._jobs_in, key=lambda namespace: (-self._jobs_in[namespace], namespace))
        return next(job for job in self._series if job.namespace == crowded)

    def _drop(self, job: JobKey) -> None:
        del self._series[job]
        self._jobs_in[job.namespace] -= 1
        if not self._jobs_in[job.namespace]:
            del self._jobs_in[job.namespace]
