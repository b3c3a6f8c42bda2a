"""What jobs reported: for each job a bounded series of points, by ascending step.

Why only in memory: a write to etcd per report would be abuse, and the policies need the recent past only; a new leader
starts with no reports and changes no job for its metrics until it has enough. Rules:

- Of each job as much is kept as `scoring.scaling.metrics.series` says.
- A job that restarted (another uid, or a step taken back after a restart from a checkpoint) loses what was undone.
- Of too many jobs the one that reported longest ago is forgotten, in the namespace that has the most: no tenant can
  push out other people's jobs.
"""

from collections import Counter, OrderedDict
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Final

from scoring.scaling.job import JobKey
from scoring.scaling.metrics.series import MOST_POINTS, NOTHING, Point, ReportHistory, Series

MOST_JOBS: Final = 1000  # Series kept at a time; with as many points of each as may be, 100 MB in all


class SeriesBook:
    """The series of all jobs. One writer: the reports."""

    def __init__(self, *, most_jobs: int = MOST_JOBS, most_points: int = MOST_POINTS) -> None:
        self._most_jobs = most_jobs
        self._most_points = most_points
        self._series: OrderedDict[JobKey, tuple[str, ReportHistory]] = OrderedDict()
        """job → its uid and series; the one that reported longest ago comes first"""

    def __len__(self) -> int:
        return len(self._series)

    def of(self, job: JobKey, uid: str) -> Sequence[Point]:
        """What this very job reported, by ascending step; empty: nothing."""
        history = self._history(job, uid)
        return history.points() if history is not None else ()

    def series(self, job: JobKey, uid: str) -> Series:
        """The same as decisions read it; accuracy is for people. Cost: O(points) when there are new ones."""
        history = self._history(job, uid)
        return history.series() if history is not None else NOTHING

    def last(self, job: JobKey, uid: str) -> Point | None:
        """The newest point of this very job."""
        history = self._history(job, uid)
        return history.last() if history is not None else None

    def add(self, job: JobKey, uid: str, points: Sequence[Point], *, undo: bool = False) -> None:
        """Append points; with `undo` those kept from the first one's step on are dropped before.

        Errors: ValueError if the steps do not ascend. Cost: O(points given), and what `undo` drops.
        """
        if not points:
            return
        history = self._history(job, uid) or self._new(job, uid)
        if undo:
            history.undo(points[0].step)
        last = history.last()
        steps = [one.step for one in ((last,) if last is not None else ()) + tuple(points)]
        if any(one >= other for one, other in pairwise(steps)):
            raise ValueError(f"{job}: steps do not ascend")
        for point in points:
            history.add(point)
        self._series.move_to_end(job)

    def keep_only(self, jobs: Collection[JobKey]) -> None:
        """Forget jobs that are gone. Cost: O(series)."""
        for job in [job for job in self._series if job not in jobs]:
            del self._series[job]

    def forget(self) -> None:
        """Forget everything."""
        self._series.clear()

    def _history(self, job: JobKey, uid: str) -> ReportHistory | None:
        known = self._series.get(job)
        return known[1] if known is not None and known[0] == uid else None

    def _new(self, job: JobKey, uid: str) -> ReportHistory:
        """Where there is no room, of the namespace with most series the job that is silent for longest is forgotten."""
        self._series.pop(job, None)
        while len(self._series) >= self._most_jobs:
            jobs_in = Counter(one.namespace for one in self._series)
            largest = min(jobs_in, key=lambda namespace: (-jobs_in[namespace], namespace))
            del self._series[next(one for one in self._series if one.namespace == largest)]
        history = ReportHistory(self._most_points)
        self._series[job] = (uid, history)
        return history
