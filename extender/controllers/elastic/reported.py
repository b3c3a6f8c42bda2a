"""What jobs reported, a bounded series of points for each, and the worker counts that they ask for by it.

Why only in memory: a write to etcd per report would be abuse; until a new leader has enough reports the queue alone
decides the jobs' sizes. Rules: of each job as much is kept as `scoring.scaling.series` says; of too many jobs the one
that reported longest ago is forgotten, in the namespace that has the most; a job is looked at again when it reported,
when it changed, or ten seconds after the last look.
"""

from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from extender.ports import Clock
from extender.runtime.slices import Steps
from scoring.scaling.job import ElasticJob, JobKey, MetricOptions
from scoring.scaling.metrics import WorkerDemand, worker_demand
from scoring.scaling.series import MOST_POINTS, NOTHING, Point, ReportHistory, Series

MOST_JOBS: Final = 1000  # Series kept at a time; with as many points of each as may be, 100 MB in all
_AGAIN_S: Final = 10.0


class _Evaluated(msgspec.Struct, frozen=True):
    job: ElasticJob
    series: Series
    at_s: float
    demand: WorkerDemand


class _Reported(msgspec.Struct):
    uid: str
    history: ReportHistory
    look: _Evaluated | None = None  # The last one


class ReportBook:
    """What all jobs reported. One writer: the reports."""

    def __init__(
        self, options: MetricOptions, clock: Clock, *, most_jobs: int = MOST_JOBS, most_points: int = MOST_POINTS
    ) -> None:
        self._options, self._clock = options, clock
        self._most_jobs, self._most_points = most_jobs, most_points
        self._jobs: OrderedDict[JobKey, _Reported] = OrderedDict()  # The one that reported longest ago comes first

    def __len__(self) -> int:
        return len(self._jobs)

    def points(self, job: JobKey, uid: str) -> Sequence[Point]:
        """What this very job reported, by ascending step; empty: nothing."""
        reported = self._reported(job, uid)
        return reported.history.points() if reported is not None else ()

    def last(self, job: JobKey, uid: str) -> Point | None:
        """The newest point of this very job."""
        reported = self._reported(job, uid)
        return reported.history.last() if reported is not None else None

    def add(self, job: JobKey, uid: str, points: Sequence[Point], *, undo: bool = False) -> None:
        """Append points; with `undo` those kept from the first one's step on are dropped before.

        Errors: ValueError if the steps do not ascend. Cost: O(points given), and what `undo` drops.
        """
        if not points:
            return
        if (reported := self._reported(job, uid)) is None:
            self._jobs.pop(job, None)
            while len(self._jobs) >= self._most_jobs:
                jobs_in = Counter(one.namespace for one in self._jobs)
                largest = min(jobs_in, key=lambda namespace: (-jobs_in[namespace], namespace))
                del self._jobs[next(one for one in self._jobs if one.namespace == largest)]
            reported = self._jobs[job] = _Reported(uid, ReportHistory(self._most_points))
        history = reported.history
        if undo:
            history.undo(points[0].step)
        last = history.last()
        steps = [one.step for one in ((last,) if last is not None else ()) + tuple(points)]
        if any(one >= other for one, other in pairwise(steps)):
            raise ValueError(f"{job}: steps do not ascend")
        for point in points:
            history.add(point)
        self._jobs.move_to_end(job)

    def keep_only(self, jobs: Collection[JobKey]) -> None:
        """Forget jobs that are gone. Cost: O(jobs that reported)."""
        for job in [job for job in self._jobs if job not in jobs]:
            del self._jobs[job]

    def forget(self) -> None:
        """Forget everything, as after a restart."""
        self._jobs.clear()

    def demands_in_steps(self, jobs: Sequence[ElasticJob]) -> Steps[Mapping[JobKey, int]]:
        """Job → workers that its metrics ask for now; jobs that say nothing of it are not there.

        Cost: O(jobs); for those that reported as `scoring.scaling.metrics.worker_demand`.
        """
        now_s = self._clock.now_s()
        demands: dict[JobKey, int] = {}
        for job in jobs:
            reported = self._reported(job.key, job.uid)
            if reported is not None and (demand := self._demand(job, reported, now_s)).workers is not None:
                demands[job.key] = demand.workers
            yield
        return demands

    def demand(self, job: ElasticJob) -> WorkerDemand | None:
        """What the job asked for at the last look; `None`: it has not been looked at since it reported."""
        reported = self._reported(job.key, job.uid)
        if reported is None:
            return worker_demand(job, NOTHING, None, self._options, now_s=self._clock.now_s())
        return reported.look.demand if reported.look is not None else None

    def _demand(self, job: ElasticJob, reported: _Reported, now_s: float) -> WorkerDemand:
        series, last = reported.history.series(), reported.look
        if last is not None and last.series is series and last.job == job and 0.0 <= now_s - last.at_s < _AGAIN_S:
            return last.demand
        demand = worker_demand(job, series, last.demand if last is not None else None, self._options, now_s=now_s)
        reported.look = _Evaluated(job, series, now_s, demand)
        return demand

    def _reported(self, job: JobKey, uid: str) -> _Reported | None:
        reported = self._jobs.get(job)
        return reported if reported is not None and reported.uid == uid else None
