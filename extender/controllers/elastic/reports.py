"""Take what jobs report, if it can be true and is of a job that there is; and what the jobs ask for by it.

Why so strict: a NaN, a step that goes back or a clock in milliseconds would be a wrong curve that no person notices.
Why only in memory: a write to etcd per report would be abuse; until a new leader has enough reports the queue alone
decides the jobs' sizes. Rules:

- A report is taken whole or not at all; steps ascend, and only a report that says `restarted` may go back: the points
  from its first step on are forgotten; reports are bounded per job, per namespace and for all.
- Of each job as much is kept as `scoring.scaling.job` says; of too many jobs the one that reported longest ago is
  forgotten, in the namespace that has the most.
- A job is looked at again when it reported, when it changed, or ten seconds after the last look.
"""

import json
from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping, Sequence
from http import HTTPStatus
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final

import msgspec

from extender.controllers.elastic.records import JobView, Records
from extender.errors import BadRequestError
from extender.ports import Clock
from extender.runtime.slices import Steps
from scoring.scaling.job import NOTHING, ElasticJob, JobKey, MetricOptions, Point, ReportHistory, Series
from scoring.scaling.metrics import WorkerDemand, worker_demand

MOST_JOBS: Final = 1000  # Series kept at a time; with as many points of each as may be, 100 MB in all
_AGAIN_S: Final = 10.0
MOST_POINTS: Final = 256  # Points of one report
AHEAD_S: Final = 60.0  # How much a job's clock may be ahead of ours
BEHIND_S: Final = 7 * 86400.0  # How old a point may be
LIMITS: Final[Mapping[str, tuple[float, float]]] = {
    # field of a point → the smallest and the largest number it may be
    "step": (0, 2**53),
    "loss": (-1e30, 1e30),
    "samples_per_second": (0, 1e15),
    "accuracy": (0, 1),
    "workers": (0, 100_000),
}
_FIELDS: Final = (*LIMITS, "time")
_WHOLE: Final = frozenset({"step", "workers"})


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

    def __init__(self, options: MetricOptions, clock: Clock, *, most_jobs: int = MOST_JOBS) -> None:
        self._options, self._clock, self._most_jobs = options, clock, most_jobs
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
        """Append points, which ascend, also beyond the last; `undo`: drop those from the first one's step on before."""
        if (reported := self._reported(job, uid)) is None:
            self._jobs.pop(job, None)
            while len(self._jobs) >= self._most_jobs:
                jobs_in = Counter(one.namespace for one in self._jobs)
                largest = min(jobs_in, key=lambda namespace: (-jobs_in[namespace], namespace))
                del self._jobs[next(one for one in self._jobs if one.namespace == largest)]
            reported = self._jobs[job] = _Reported(uid, ReportHistory())
        if undo:
            reported.history.undo(points[0].step)
        for point in points:
            reported.history.add(point)
        self._jobs.move_to_end(job)

    def keep_only(self, jobs: Collection[JobKey]) -> None:
        """Forget jobs that are gone. Cost: O(jobs that reported)."""
        for job in [job for job in self._jobs if job not in jobs]:
            del self._jobs[job]

    def forget(self) -> None:
        """Forget everything, as after a restart."""
        self._jobs.clear()

    def demands_in_steps(self, jobs: Sequence[ElasticJob]) -> Steps[Mapping[JobKey, int]]:
        """Job → workers that its metrics ask for now, if any. O(jobs); for those that reported as `worker_demand`."""
        now_s = self._clock.now_s()
        demands: dict[JobKey, int] = {}
        for job in jobs:
            if (reported := self._reported(job.key, job.uid)) is not None:
                series, last = reported.history.series(), reported.look
                same = last is not None and last.series is series and last.job == job
                if last is None or not same or not 0.0 <= now_s - last.at_s < _AGAIN_S:
                    former = last.demand if last is not None else None
                    demand = worker_demand(job, series, former, self._options, now_s=now_s)
                    reported.look = last = _Evaluated(job, series, now_s, demand)
                if last.demand.workers is not None:
                    demands[job.key] = last.demand.workers
            yield
        return demands

    def demand(self, job: ElasticJob) -> WorkerDemand | None:
        """What the job asked for at the last look; `None`: it has not been looked at since it reported."""
        reported = self._reported(job.key, job.uid)
        if reported is None:
            return worker_demand(job, NOTHING, None, self._options, now_s=self._clock.now_s())
        return reported.look.demand if reported.look is not None else None

    def _reported(self, job: JobKey, uid: str) -> _Reported | None:
        reported = self._jobs.get(job)
        return reported if reported is not None and reported.uid == uid else None


class ReportAnswer(msgspec.Struct, frozen=True):
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

    def take(self, namespace: str, name: str, body: bytes, *, kind: str | None = None) -> ReportAnswer:
        """Keep a report of the job `name`. Errors: BadRequestError, naming the field. Cost: O(jobs + points)."""
        views = find_jobs(self._records.views, namespace, name, kind=kind)
        if not views:
            detail = f"no job {namespace}/{name} of a kind that netgang resizes is known"
            return ReportAnswer(HTTPStatus.NOT_FOUND, detail)
        if len(views) > 1:
            kinds = ", ".join(view.job.key.kind for view in views)
            detail = f"several jobs are named {namespace}/{name}: add ?kind= one of {kinds}"
            return ReportAnswer(HTTPStatus.CONFLICT, detail)
        job = views[0].job
        wait_s = self._wait_s(job.key)
        if wait_s > 0.0:
            detail = f"at most {self._rates.per_job:g} reports a second of one job: put several points into one"
            return ReportAnswer(HTTPStatus.TOO_MANY_REQUESTS, detail, retry_after_s=wait_s)
        report = read_report(body, now_s=self._clock.now_s(), workers=job.workers)
        last = self._book.last(job.key, job.uid)
        first = report.points[0].step
        if last is not None and first <= last.step and not report.restarted:
            detail = (
                f"points[0].step: {first} is not above {last.step}, the last one reported; a process that began again "
                'at an older checkpoint says "restarted": true in its first report'
            )
            return ReportAnswer(HTTPStatus.CONFLICT, detail, step=last.step)
        self._book.add(job.key, job.uid, report.points, undo=report.restarted)
        return ReportAnswer(HTTPStatus.OK, points=len(report.points), step=report.points[-1].step)

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
    named = [(key, view) for key, view in jobs.items() if (key.namespace, key.name) == (namespace, name)]
    kinds = [(key.kind.lower(), view) for key, view in sorted(named, key=itemgetter(0))]
    return [view for its, view in kinds if wanted in (None, its, its.partition(".")[0])]


class Report(msgspec.Struct, frozen=True):
    """Points by ascending step, and whether the process restarted: its reports from their first step on are void."""

    points: tuple[Point, ...]
    restarted: bool = False


def read_report(body: bytes, *, now_s: float, workers: int | None = None) -> Report:
    """Read a point, a list of points, `{"points": […], "restarted": …}`.

    `workers` counts where a point says none. Errors: BadRequestError, whose text begins with the field.

    >>> read_report(b'{"step": 7, "loss": 0.5}', now_s=100.0).points[0].time_s
    100.0
    >>> read_report(b'[{"step": 7, "loss": NaN}]', now_s=100.0)
    Traceback (most recent call last):
    extender.errors.BadRequestError: points[0].loss: must be a number from -1e+30 to 1e+30, not nan
    """
    try:
        document = json.loads(body)  # NaN and infinities, which many programs write, become numbers to refuse
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"body: no JSON: {error}") from error
    given, restarted = document, False
    if isinstance(document, dict):
        given, restarted = document.get("points"), document.pop("restarted", False)
        if "points" not in document:
            given = [document]
        elif unknown := document.keys() - {"points"}:
            raise BadRequestError(f"{min(unknown)}: no such field beside points; there is restarted")
    if not isinstance(restarted, bool):
        raise BadRequestError("restarted: must be true or false")
    if not isinstance(given, list) or not 0 < len(given) <= MOST_POINTS:
        count = len(given) if isinstance(given, list) else "something else"
        raise BadRequestError(f"points: must be a list of 1 to {MOST_POINTS} points, not {count}")
    points = tuple(_read_point(one, f"points[{i}]", now_s=now_s, workers=workers) for i, one in enumerate(given))
    for i, (one, other) in enumerate(pairwise(points), start=1):
        if other.step <= one.step:
            raise BadRequestError(f"points[{i}].step: {other.step} is not above {one.step}, the one before")
        if "time" not in given[i]:
            raise BadRequestError(f"points[{i}].time: must be given where there are several points")
    return Report(points, restarted)


def _read_point(given: Any, where: str, *, now_s: float, workers: int | None) -> Point:
    if not isinstance(given, dict):
        raise BadRequestError(f"{where}: must be an object with step, time and loss")
    if unknown := given.keys() - set(_FIELDS):
        raise BadRequestError(f"{where}.{min(unknown)}: no such field; there are {', '.join(_FIELDS)}")
    step = _number(given, "step", where)
    loss = _number(given, "loss", where)
    if step is None or loss is None:
        raise BadRequestError(f"{where}.{'step' if step is None else 'loss'}: must be given")
    speed, accuracy = (_number(given, field, where) for field in ("samples_per_second", "accuracy"))
    reported = _number(given, "workers", where)
    time = now_s if given.get("time") is None else given["time"]
    number = isinstance(time, int | float) and not isinstance(time, bool)
    if not number or not now_s - BEHIND_S <= time <= now_s + AHEAD_S:
        raise BadRequestError(
            f"{where}.time: must be Unix seconds, at most {BEHIND_S / 86400.0:g} days ago and {AHEAD_S:g} s ahead of "
            f"netgang's clock ({now_s:.0f}), not {repr(time)[:40]}"
        )
    return Point(
        step=int(step),
        time_s=float(time),
        loss=float(loss),
        samples_per_second=float(speed) if speed is not None else None,
        accuracy=float(accuracy) if accuracy is not None else None,
        workers=workers if reported is None else int(reported),
    )


def _number(given: Mapping[str, Any], field: str, where: str) -> float | None:
    value = given.get(field)
    if value is None:
        return None
    low, high = LIMITS[field]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    whole = field not in _WHOLE or isinstance(value, int) or (number and value.is_integer())
    if not number or not low <= value <= high or not whole:
        kind = "whole number" if field in _WHOLE else "number"
        raise BadRequestError(f"{where}.{field}: must be a {kind} from {low:g} to {high:g}, not {repr(value)[:40]}")
    return value  # type: ignore[no-any-return]
