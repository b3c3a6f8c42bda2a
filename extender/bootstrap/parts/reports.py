"""Put together what jobs report, the worker counts that follow from it, and what is shown of them.

Why beside the controller: it needs the records and the demands, and neither HTTP nor metrics. Rule: without elastic
jobs there is none of it.
"""

from starlette.types import ASGIApp

from extender.api.documents.jobs import JobsView
from extender.api.reports import Reporters, ReportsDoor, create_reports_app
from extender.bootstrap.common import Common
from extender.controllers.elastic.jobs.objects import Jobs
from extender.controllers.elastic.metering import Metering
from extender.controllers.elastic.records import Records
from extender.controllers.elastic.reports.reports import Reports
from extender.controllers.elastic.reports.series import SeriesBook
from extender.controllers.elastic.reports.wishes import MetricWishes
from extender.ports import Reviews


class Reporting:
    """The records of what jobs reported and what was done about it, and their readers; nothing is served yet."""

    def __init__(self, common: Common, jobs: Jobs) -> None:
        clock, book = common.clock, SeriesBook()
        self.records = Records()
        self.reports = Reports(lambda: self.records.views, book, clock)
        self.wishes = MetricWishes(book, common.settings.elastic.options().metrics, clock)
        self.view = JobsView(common.cache, common.planner, self.records, book, clock, wishes=self.wishes)
        self.metering = Metering(self.records, self.reports, common.telemetry)
        self.jobs = jobs

    def look(self) -> None:
        """Take what statuses report, and count what ended; due once a second."""
        self.reports.take_statuses(self.jobs.all())
        self.metering.look()

    def forget(self) -> None:
        """Forget all reports and demands: a term starts or ends."""
        self.reports.forget()
        self.wishes.forget()
        self.metering.forget()


def reports_port(common: Common, reporting: Reporting | None, reviews: Reviews | None) -> ASGIApp | None:
    """What is served at the port for reports; `None`: there is none."""
    chosen = common.settings.reports
    if chosen.port is None or reporting is None:
        return None
    if chosen.service_accounts and reviews is None:
        raise ValueError("reports.service_accounts is set, and no API server is there to review tokens")
    app = create_reports_app(reporting.reports, acting=common.acting)
    reporters = Reporters(reviews if chosen.service_accounts else None, chosen.secret_file, chosen.audiences)
    return ReportsDoor(app, reporters, common.clock, count=common.telemetry.reported)
