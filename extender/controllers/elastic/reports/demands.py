"""What jobs ask for by what they report (`scoring.scaling.metrics.policies`), with the memory between two looks.

Rule: a job is looked at again when it reported, when it changed, or ten seconds after the last look; in between its
demand stands. A new leader has no reports: until there are enough, the queue alone decides the jobs' sizes.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from extender.controllers.elastic.reports.series import SeriesBook
from extender.ports import Clock
from extender.runtime.slices import Steps
from scoring.scaling.job import ElasticJob, JobKey, MetricOptions
from scoring.scaling.metrics.policies import WorkerDemand, worker_demand
from scoring.scaling.metrics.series import Series

_AGAIN_S: Final = 10.0


class _Looked(msgspec.Struct, frozen=True):
    job: ElasticJob
    series: Series
    at_s: float
    demand: WorkerDemand


class MetricDemands:
    """The worker counts that jobs' metrics ask for; an `extender.controllers.elastic.controller.Demands`."""

    def __init__(self, book: SeriesBook, options: MetricOptions, clock: Clock) -> None:
        self._book = book
        self._options = options
        self._clock = clock
        self._looked: dict[JobKey, _Looked] = {}

    def in_steps(self, jobs: Sequence[ElasticJob]) -> Steps[Mapping[JobKey, int]]:
        """Job → workers that its metrics ask for now; jobs that say nothing of it are not there.

        With a moment for others after each job (docs/safety.md S15).
        Cost: O(jobs); for those that reported as `scoring.scaling.metrics.policies.worker_demand`.
        """
        now_s, known = self._clock.now_s(), self._looked
        looked: dict[JobKey, _Looked] = {}
        for job in jobs:
            looked[job.key] = self._look(job, now_s)
            yield
        # a job that is missing for a moment, while its pods come and go, is kept for as long as its reports are
        kept = {key: one for key, one in known.items() if self._book.last(key, one.job.uid) is not None}
        if self._looked is known:  # else a term ended meanwhile
            self._looked = kept | looked
        return {key: one.demand.workers for key, one in looked.items() if one.demand.workers is not None}

    def of(self, job: JobKey) -> WorkerDemand | None:
        """The job's last demand; `None`: it has not been looked at."""
        looked = self._looked.get(job)
        return looked.demand if looked is not None else None

    def forget(self) -> None:
        """Forget all demands, as after a restart."""
        self._looked = {}

    def _look(self, job: ElasticJob, now_s: float) -> _Looked:
        series = self._book.series(job.key, job.uid)
        last = self._looked.get(job.key)
        if last is not None and last.job.uid != job.uid:
            last = None
        if last is not None and last.series is series and last.job == job and 0.0 <= now_s - last.at_s < _AGAIN_S:
            return last
        memory = last.demand.memory if last is not None else None
        found = worker_demand(job, series, memory, self._options, now_s=now_s)
        return _Looked(job, series, now_s, found)
