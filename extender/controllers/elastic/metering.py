"""Count jobs' states and the outcomes of changes for Prometheus; once a second, from the records alone.

Why from the records: a change has many ends (done, given back, overruled by another client, taken over from a former
process), and the records have all of them. Rule: each end is counted once; what a former process did is not counted
again.
"""

from collections import Counter

from extender.controllers.elastic.jobs.views import rough_state
from extender.controllers.elastic.records import OPEN, Change, Records, Stage
from extender.controllers.elastic.reports.reports import Reports
from extender.runtime.telemetry import Telemetry


class Metering:
    """Keeps metrics and the reports' books in step with the records."""

    def __init__(self, records: Records, reports: Reports, telemetry: Telemetry) -> None:
        self._records = records
        self._reports = reports
        self._telemetry = telemetry
        self._counted: set[tuple[str, float]] = set()
        """(uid of the job, decided_s) of changes whose end was counted and that are still kept"""

    def look(self) -> None:
        """Count what ended since the last look. Cost: O(jobs + changes kept)."""
        self._reports.tidy()
        changes = self._records.changes()
        resizing = {one.uid for one in changes if one.stage in OPEN}
        states = Counter(
            "resizing" if view.uid in resizing else rough_state(view).value.lower()
            for view in self._records.views.values()
        )
        self._telemetry.jobs(states)
        over = {(one.uid, one.decided_s): one for one in changes if _ended(one)}
        for key, one in over.items():
            if key not in self._counted:
                self._count(one)
        self._counted = set(over)

    def forget(self) -> None:
        """Show no jobs: another replica does now, or we begin to."""
        self._telemetry.jobs({})

    def _count(self, change: Change) -> None:
        direction = "in" if change.shrinks else "out"
        self._telemetry.resized(change.job.kind, direction, change.stage.value)
        if change.took_s is not None:
            self._telemetry.resize_duration.labels(direction).observe(change.took_s)
        if change.lost_pod_s is not None:
            self._telemetry.pod_seconds_lost(change.lost_pod_s)


def _ended(change: Change) -> bool:
    """Whether nothing follows any more; without a moment of its end it was another process's."""
    return change.stage is Stage.DRY_RUN or (change.stage not in OPEN and change.ended_s is not None)
