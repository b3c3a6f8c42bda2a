"""Put together what jobs report, the worker counts that follow from it, and what is shown of them.

Why beside the controller: it needs the records and the demands, and neither HTTP nor metrics. Rule: without elastic
jobs there is none of it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import ASGIApp

from extender.api.documents.jobs import JobsView
from extender.api.reports import Reporters, ReportsDoor, create_reports_app
from extender.cache import ClusterCache
from extender.controllers.elastic.jobs.objects import Jobs
from extender.controllers.elastic.metering import Metering
from extender.controllers.elastic.records import Records
from extender.controllers.elastic.reports.reports import Reports
from extender.controllers.elastic.reports.series import SeriesBook
from extender.controllers.elastic.reports.wishes import MetricWishes
from extender.ports import Clock
from extender.ports import Reviews as ReviewsPort
from extender.runtime.telemetry import Telemetry
from extender.scheduling.planning.loop import Planner
from extender.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class Reporting:
    """The records of what jobs reported and what was done about it, and their readers."""

    records: Records
    reports: Reports
    wishes: MetricWishes
    view: JobsView
    metering: Metering
    jobs: Jobs

    def look(self) -> None:
        """Take what statuses report, and count what ended; due once a second."""
        self.reports.take_statuses(self.jobs.all())
        self.metering.look()

    def forget(self) -> None:
        """Forget all reports and demands: a term starts or ends."""
        self.reports.forget()
        self.wishes.forget()
        self.metering.forget()


def reporting_of(
    settings: Settings, cache: ClusterCache, planner: Planner, jobs: Jobs, clock: Clock, telemetry: Telemetry
) -> Reporting:
    """All of it; nothing is served by it yet."""
    records, book = Records(), SeriesBook()
    reports = Reports(lambda: records.views, book, clock)
    wishes = MetricWishes(book, settings.elastic.options().metrics, clock)
    view = JobsView(cache, planner, records, book, clock, wishes=wishes)
    return Reporting(records, reports, wishes, view, Metering(records, reports, telemetry), jobs)


def reports_port(
    settings: Settings,
    reporting: Reporting | None,
    clock: Clock,
    reviews: ReviewsPort | None,
    *,
    acting: Callable[[], bool],
    count: Callable[[str], None],
) -> ASGIApp | None:
    """What is served at the port for reports; `None`: there is none."""
    chosen = settings.reports
    if chosen.port is None or reporting is None:
        return None
    if chosen.service_accounts and reviews is None:
        raise ValueError("reports.service_accounts is set, and no API server is there to review tokens")
    app = create_reports_app(reporting.reports, acting=acting)
    reporters = Reporters(reviews if chosen.service_accounts else None, chosen.secret_file, chosen.audiences)
    return ReportsDoor(app, reporters, clock, count=count)
