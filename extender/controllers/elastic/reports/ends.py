"""What is left of a gang's training by its job's reports, when netgang suspends it (`queue.order: srpt-by-report`).

Why then: a suspended job cannot report, and the queue compares gangs that wait. Rule: only in the namespaces of
`queue.report_namespaces`, and only of the one job that the gang is; all else counts as not reported.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from extender.controllers.elastic.records import JobView
from extender.controllers.elastic.reports.series import SeriesBook
from scoring.model import Gang
from scoring.model.policy import QueuePolicy
from scoring.model.snapshot import Snapshot
from scoring.queue.remaining_work import NOT_REPORTED, ReportedWork, believes, cluster_hours
from scoring.scaling.job import JobKey
from scoring.scaling.metrics.remaining import time_left


@dataclass(frozen=True, slots=True)
class ReportedEnds:
    """The reports, read for one gang at a time."""

    jobs: Callable[[], Mapping[JobKey, JobView]]
    book: SeriesBook
    policy: QueuePolicy

    def of(self, gang: Gang, snapshot: Snapshot, attained_h: float, *, now_s: float) -> ReportedWork:
        """What the gang still has to do; `attained_h`: what it has had. Cost: O(jobs + points + members)."""
        if not believes(self.policy, gang.key):
            return NOT_REPORTED
        views = [view for view in self.jobs().values() if view.gang == gang.key]
        views = [view for view in views if not view.owned] or views  # a TrainJob stands for its JobSet
        total = self.book.total(views[0].key, views[0].uid) if len(views) == 1 else None
        if total is None:
            return NOT_REPORTED
        [view] = views
        since_s = [pod.scheduled_s or gang.created_s for pod in gang.placed]
        series = self.book.series(view.key, view.uid)
        left = time_left(total, series, workers=view.workers, runs_since_s=max(since_s, default=now_s), now_s=now_s)
        if left.seconds is None:
            return ReportedWork(None, doubted=left.doubted)
        least_h = attained_h if left.raised else 0.0
        return ReportedWork(cluster_hours(left.seconds, gang, snapshot, least_h=least_h))
