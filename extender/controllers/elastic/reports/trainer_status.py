"""What TrainJobs report in their own status, beside what other jobs send.

Why: a TrainJob's program reports to Kubeflow's trainer (many libraries do it by themselves), which writes the newest
values into the job's status; such a job need not report twice. Rule: a status that was looked at is
not looked at again; whether it is news, and can be true, is up to `reports`.
"""

from extender.controllers.elastic.jobs.objects import Jobs
from extender.controllers.elastic.kinds import Seen
from extender.controllers.elastic.reports.reports import Reports
from scoring.scaling.job import JobKey


class Statuses:
    """Carries statuses into the reports."""

    def __init__(self, jobs: Jobs, reports: Reports) -> None:
        self._jobs = jobs
        self._reports = reports
        self._looked_at: dict[JobKey, Seen] = {}

    def look(self) -> None:
        """Take what is new; due once a second. Cost: O(jobs)."""
        telling = [one for one in self._jobs.all() if one.trainer_status is not None and self._reports.knows(one.key)]
        for seen in telling:
            if self._looked_at.get(seen.key) is not seen:
                self._reports.take_status(seen)
        self._looked_at = {seen.key: seen for seen in telling}

    def forget(self) -> None:
        """Look at all of them again: the reports were forgotten."""
        self._looked_at.clear()
