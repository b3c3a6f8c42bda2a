"""Take what jobs report, if it can be true, is not too much, and is of a job that there is.

Rules:
- Steps ascend. Only a report that says `restarted` (its process restarted, perhaps from an older checkpoint) may go
  back; the points from its first step on were undone, and are forgotten.
- The number of reports has a bound per job, per namespace and for all, so that reports never keep the scheduler from
  its work, nor one namespace the jobs of others from being heard.
- A report changes nothing but its own job's series; whether anything follows is up to the job's annotations, minimum
  and maximum, and the queue.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus

import msgspec

from extender.controllers.elastic.records import JobView, Records
from extender.controllers.elastic.report_body import read_report
from extender.controllers.elastic.reported import ReportBook
from extender.ports import Clock
from scoring.scaling.job import JobKey


class Answer(msgspec.Struct, frozen=True):
    """What a report is answered; `detail` is a sentence for people, `step` the job's newest."""

    status: HTTPStatus
    detail: str = ""
    points: int = 0
    step: int | None = None
    retry_after_s: float = 0.0


class Rates(msgspec.Struct, frozen=True):
    """Reports a second in the long run, each of up to 256 points; at once `burst` times as many."""

    per_job: float = 2.0
    in_all: float = 100.0
    namespace_share: float = 0.5  # Of `in_all`, for the jobs of one namespace: no namespace can use up what others need
    burst: float = 10.0


class Reports:
    """Takes reports for the jobs that there are; the one writer of `book`."""

    def __init__(self, records: Records, book: ReportBook, clock: Clock, *, rates: Rates = Rates()) -> None:
        self._records, self._book, self._clock, self._rates = records, book, clock, rates
        self._all = self._bucket(rates.in_all)
        self._of: dict[JobKey, _Tokens] = {}  # job that reported → how much more it may
        self._in: dict[str, _Tokens] = {}  # namespace → the same of all its jobs

    def take(self, namespace: str, name: str, body: bytes, *, kind: str | None = None) -> Answer:
        """Keep a report of the job `name`. Errors: BadRequestError for a body that is none, naming the field.

        Cost: O(jobs) to find it, and O(points).
        """
        views = find_jobs(self._records.views, namespace, name, kind=kind)
        if not views:
            return Answer(HTTPStatus.NOT_FOUND, f"no job {namespace}/{name} of a kind that netgang resizes is known")
        if len(views) > 1:
            kinds = ", ".join(view.job.key.kind for view in views)
            return Answer(HTTPStatus.CONFLICT, f"several jobs are named {namespace}/{name}: add ?kind= one of {kinds}")
        job = views[0].job
        wait_s = self._wait_s(job.key)
        if wait_s > 0.0:
            detail = f"at most {self._rates.per_job:g} reports a second of one job: put several points into one"
            return Answer(HTTPStatus.TOO_MANY_REQUESTS, detail, retry_after_s=wait_s)
        report = read_report(body, now_s=self._clock.now_s(), workers=job.workers)
        last = self._book.last(job.key, job.uid)
        first = report.points[0].step
        if last is not None and first <= last.step and not report.restarted:
            detail = (
                f"points[0].step: {first} is not above {last.step}, the last one reported; a process that began again "
                'at an older checkpoint says "restarted": true in its first report'
            )
            return Answer(HTTPStatus.CONFLICT, detail, step=last.step)
        self._book.add(job.key, job.uid, report.points, undo=report.restarted)
        return Answer(HTTPStatus.OK, points=len(report.points), step=report.points[-1].step)

    def tidy(self) -> None:
        """Forget jobs that are gone; due now and then. Cost: O(jobs that reported)."""
        jobs = self._records.views
        self._book.keep_only(jobs.keys())
        for job in [job for job in self._of if job not in jobs]:
            del self._of[job]
        there = {job.namespace for job in self._of}
        for namespace in [namespace for namespace in self._in if namespace not in there]:
            del self._in[namespace]

    def forget(self) -> None:
        """Forget everything: another replica decides now, or we begin to."""
        self._book.forget()
        self._of.clear()
        self._in.clear()

    def _wait_s(self, job: JobKey) -> float:
        """How long the job must wait before its next report; 0: it need not, and this one is counted."""
        rates, now_s = self._rates, self._clock.monotonic_s()
        if job not in self._of:
            self._of[job] = self._bucket(rates.per_job)
        if job.namespace not in self._in:
            self._in[job.namespace] = self._bucket(rates.in_all * rates.namespace_share)
        buckets = (self._of[job], self._in[job.namespace], self._all)
        wait_s = max(one.wait_s(now_s) for one in buckets)
        if wait_s == 0.0:
            for one in buckets:
                one.tokens -= 1.0
        return wait_s

    def _bucket(self, per_s: float) -> "_Tokens":
        most = max(per_s * self._rates.burst, 1.0)
        return _Tokens(per_s, most, most, self._clock.monotonic_s())


class _Tokens(msgspec.Struct):
    per_s: float
    most: float
    tokens: float
    at_s: float

    def wait_s(self, now_s: float) -> float:
        """Time until there is a token; 0: there is one."""
        self.tokens = min(self.most, self.tokens + (now_s - self.at_s) * self.per_s)
        self.at_s = now_s
        return 0.0 if self.tokens >= 1.0 else (1.0 - self.tokens) / self.per_s


def find_jobs(
    jobs: Mapping[JobKey, JobView], namespace: str, name: str, *, kind: str | None = None
) -> Sequence[JobView]:
    """The jobs of this name, by kind; `kind` in any case, with or without its API group. Cost: O(jobs)."""
    wanted = None if kind is None else kind.lower()
    found = [
        view
        for key, view in jobs.items()
        if key.name == name
        and key.namespace == namespace
        and wanted in (None, key.kind.lower(), key.kind.lower().partition(".")[0])
    ]
    return sorted(found, key=lambda view: view.job.key)
