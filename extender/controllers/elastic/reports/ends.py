"""What is left of a gang's training by its job's reports: while it runs its length, once it is suspended its work left.

Why noted at suspension: a suspended job cannot report, and `queue.order: srpt-by-report` compares gangs that wait.
Rule: only in the namespaces of `queue.report_namespaces`, and only of the one job that the gang is; all else counts as
not reported.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from extender.controllers.elastic.records import JobView
from extender.controllers.elastic.reports.series import SeriesBook
from scoring.ids import GangKey
from scoring.model import Gang
from scoring.model.policy import QueuePolicy
from scoring.model.snapshot import Snapshot
from scoring.queue.remaining_work import NOT_REPORTED, ReportedWork, believes, cluster_hours
from scoring.scaling.job import JobKey
from scoring.scaling.metrics.remaining import TimeLeft, time_left


@dataclass(frozen=True, slots=True)
class ReportedEnds:
    """The reports, read for one gang at a time."""

    jobs: Callable[[], Mapping[JobKey, JobView]]
    book: SeriesBook
    policy: QueuePolicy

    def of(self, gang: Gang, snapshot: Snapshot, attained_h: float, *, now_s: float) -> ReportedWork:
        """What the gang still has to do; `attained_h`: what it has had. Cost: O(jobs + points + members)."""
        views = [view for view in self.jobs().values() if view.gang == gang.key]
        left = self.left(gang, views, now_s=now_s)
        if left is None:
            return NOT_REPORTED
        if left.seconds is None:
            return ReportedWork(None, doubted=left.doubted)
        least_h = attained_h if left.raised else 0.0
        return ReportedWork(cluster_hours(left.seconds, gang, snapshot, least_h=least_h))

    def by_gang(self) -> Mapping[GangKey, Sequence[JobView]]:
        """The jobs of each gang, if any of them has said how many steps it trains. Cost: O(jobs)."""
        found: dict[GangKey, list[JobView]] = {}
        for view in self.jobs().values():
            if view.gang is not None:
                found.setdefault(view.gang, []).append(view)
        say = self.book.total
        return {key: views for key, views in found.items() if any(say(one.key, one.uid) is not None for one in views)}

    def left(self, gang: Gang, views: Sequence[JobView], *, now_s: float) -> TimeLeft | None:
        """How long the gang still trains, by the reports of its jobs; `None`: not reported, or not believed here."""
        if not believes(self.policy, gang.key):
            return None
        views = [view for view in views if not view.owned] or views  # a TrainJob stands for its JobSet
        total = self.book.total(views[0].key, views[0].uid) if len(views) == 1 else None
        if total is None:
            return None
        [view] = views
        since_s = [pod.scheduled_s or gang.created_s for pod in gang.placed]
        series = self.book.series(view.key, view.uid)
        return time_left(total, series, workers=view.workers, runs_since_s=max(since_s, default=now_s), now_s=now_s)
