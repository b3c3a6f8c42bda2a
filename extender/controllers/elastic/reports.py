"""Take what jobs report, if it can be true and is of a job that there is; and what the jobs ask for by it.

Why so strict: a NaN, a step that goes back or a clock in milliseconds would be a wrong curve that no person notices.
Why only in memory: a write to etcd per report would be abuse; until a new leader has enough reports the queue alone
decides the jobs' sizes. Rules:

- A report is taken whole or not at all; steps ascend, and only a report that says `restarted` may go back: the points
  from its first step on are forgotten; reports are bounded per job, per namespace and for all.
- Of too many jobs the one that reported longest ago is forgotten, in the namespace that has the most.
- A job is looked at again when it reported, when it changed, or ten seconds after the last look.
"""

import json
import math
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final

import msgspec

from extender.controllers.elastic.records import JobView, Records
from extender.errors import BadRequestError
from extender.ports import Clock
from extender.runtime.slices import Steps
from scoring.records import Point
from scoring.scaling.job import NOTHING, ElasticJob, JobKey, MetricOptions, ReportHistory, Series
from scoring.scaling.metrics import WorkerDemand, worker_demand

_AGAIN_S: Final = 10.0
MOST_POINTS: Final = 256  # Points of one report
AHEAD_S: Final = 60.0  # How much a job's clock may be ahead of ours
BEHIND_S: Final = 7 * 86400.0  # How old a point may be
LIMITS: Final[Mapping[str, tuple[float, float]]] = {
    # field of a point → the smallest and the largest number it may be
    "step": (0, 2**53),
    "loss": (-1e30, 1e30),
    "samples_per_second": (0, 1e15),
    "compute_ratio": (0, 1),
    "workers": (0, 100_000),
}
_FIELDS: Final = (*LIMITS, "time")
_WHOLE: Final = frozenset({"step", "workers"})


class _Reported(msgspec.Struct):
    """What one job reported, and the last look at it: the job and the series of then, and what they came to."""

    uid: str
    history: ReportHistory = msgspec.field(default_factory=ReportHistory)
    looked_at: tuple[ElasticJob, Series] | None = None
    at_s: float = -math.inf
    demand: WorkerDemand | None = None


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
    """What the jobs that there are reported, and ask for by it."""

    def __init__(
        self,
        records: Records,
        options: MetricOptions,
        clock: Clock,
        *,
        rates: Rates = Rates(),
        most_jobs: int = 1000,  # Kept at a time; with as many points of each as may be, 100 MB in all
    ) -> None:
        self._records, self._options, self._clock = records, options, clock
        self._rates, self._most_jobs = rates, most_jobs
        self._jobs: OrderedDict[JobKey, _Reported] = OrderedDict()  # The one that reported longest ago comes first
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
        points, restarted = read_report(body, now_s=self._clock.now_s(), workers=job.workers)
        last, first = self.last(job.key, job.uid), points[0].step
        if last is not None and first <= last.step and not restarted:
            detail = (
                f"points[0].step: {first} is not above {last.step}, the last one reported; a process that began again "
                'at an older checkpoint says "restarted": true in its first report'
            )
            return ReportAnswer(HTTPStatus.CONFLICT, detail, step=last.step)
        self.add(job.key, job.uid, points, undo=restarted)
        return ReportAnswer(HTTPStatus.OK, points=len(points), step=points[-1].step)

    def add(self, job: JobKey, uid: str, points: Sequence[Point], *, undo: bool = False) -> None:
        """Append points, which ascend, also beyond the last; `undo`: drop those from the first one's step on before."""
        if (reported := self._reported(job, uid)) is None:
            self._jobs.pop(job, None)
            while len(self._jobs) >= self._most_jobs:
                jobs_in = Counter(key.namespace for key in self._jobs)
                largest = min(jobs_in, key=lambda namespace: (-jobs_in[namespace], namespace))
                del self._jobs[next(key for key in self._jobs if key.namespace == largest)]
            reported = self._jobs[job] = _Reported(uid)
        if undo:
            reported.history.undo(points[0].step)
        for point in points:
            reported.history.add(point)
        self._jobs.move_to_end(job)

    def points(self, job: JobKey, uid: str) -> Sequence[Point]:
        """What this very job reported, by ascending step; empty: nothing."""
        reported = self._reported(job, uid)
        return reported.history.points() if reported is not None else ()

    def last(self, job: JobKey, uid: str) -> Point | None:
        """The newest point of this very job."""
        reported = self._reported(job, uid)
        return reported.history.last() if reported is not None else None

    def demands_in_steps(self, jobs: Sequence[ElasticJob]) -> Steps[Mapping[JobKey, int]]:
        """Job → workers that its metrics ask for now, if any. O(jobs); for those that reported as `worker_demand`."""
        now_s = self._clock.now_s()
        demands: dict[JobKey, int] = {}
        for job in jobs:
            if (report := self._reported(job.key, job.uid)) is not None:
                series = report.history.series()
                same = report.looked_at is not None and report.looked_at[1] is series and report.looked_at[0] == job
                if report.demand is None or not same or not 0.0 <= now_s - report.at_s < _AGAIN_S:
                    report.demand = worker_demand(job, series, report.demand, self._options, now_s=now_s)
                    report.looked_at, report.at_s = (job, series), now_s
                if report.demand.workers is not None:
                    demands[job.key] = report.demand.workers
            yield
        return demands

    def demand(self, job: ElasticJob) -> WorkerDemand | None:
        """What the job asked for at the last look; `None`: it has not been looked at since it reported."""
        if (reported := self._reported(job.key, job.uid)) is not None:
            return reported.demand
        return worker_demand(job, NOTHING, None, self._options, now_s=self._clock.now_s())

    def tidy(self) -> None:
        """Forget jobs that are gone; due now and then. Cost: O(jobs that reported)."""
        for of_jobs in (self._jobs, self._of):
            for job in of_jobs.keys() - self._records.views.keys():
                del of_jobs[job]
        for namespace in self._in.keys() - {job.namespace for job in self._of}:
            del self._in[namespace]

    def reset(self) -> None:
        """Forget everything: another replica decides now, or we begin to."""
        self._jobs.clear()
        self._of.clear()
        self._in.clear()

    def _reported(self, job: JobKey, uid: str) -> _Reported | None:
        reported = self._jobs.get(job)
        return reported if reported is not None and reported.uid == uid else None

    def _wait_s(self, job: JobKey) -> float:
        """How long the job must wait before its next report; 0: it need not, and this one is counted."""
        rates, now_s = self._rates, self._clock.monotonic_s()
        own = self._of.setdefault(job, self._bucket(rates.per_job))
        shared = self._in.setdefault(job.namespace, self._bucket(rates.in_all * rates.namespace_share))
        buckets = (own, shared, self._all)
        wait_s = max(bucket.wait_s(now_s) for bucket in buckets)
        if wait_s == 0.0:
            for bucket in buckets:
                bucket.tokens -= 1.0
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


def find_jobs(jobs: Mapping[JobKey, JobView], namespace: str, name: str, *, kind: str | None = None) -> list[JobView]:
    """The jobs of this name, by kind; `kind` in any case, with or without its API group. Cost: O(jobs)."""
    wanted = None if kind is None else kind.lower()
    named = [(key, view) for key, view in jobs.items() if (key.namespace, key.name) == (namespace, name)]
    kinds = [(key.kind.lower(), view) for key, view in sorted(named, key=itemgetter(0))]
    return [view for its, view in kinds if wanted in (None, its, its.partition(".")[0])]


def read_report(body: bytes, *, now_s: float, workers: int | None = None) -> tuple[tuple[Point, ...], bool]:
    """Read a point, a list of points, `{"points": […], "restarted": …}`: ascending points, and whether it restarted.

    `workers` counts where a point says none. Errors: BadRequestError, whose text begins with the field.

    >>> read_report(b'{"step": 7, "loss": 0.5}', now_s=100.0)[0][0].time_s
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
            raise BadRequestError(f"{min(unknown)}: no such field; accepted: points, restarted")
    if not isinstance(restarted, bool):
        raise BadRequestError("restarted: must be true or false")
    if not isinstance(given, list) or not 0 < len(given) <= MOST_POINTS:
        count = len(given) if isinstance(given, list) else "something else"
        raise BadRequestError(f"points: must be a list of 1 to {MOST_POINTS} points, not {count}")
    points = tuple(_read_point(point, f"points[{i}]", now_s=now_s, workers=workers) for i, point in enumerate(given))
    for i, (before, point) in enumerate(pairwise(points), start=1):
        if point.step <= before.step:
            raise BadRequestError(f"points[{i}].step: {point.step} is not above {before.step}, the one before")
        if "time" not in given[i]:
            raise BadRequestError(f"points[{i}].time: must be given where there are several points")
    return points, restarted


def _read_point(given: Any, where: str, *, now_s: float, workers: int | None) -> Point:
    if not isinstance(given, dict):
        raise BadRequestError(f"{where}: must be an object with step, time and loss")
    if unknown := given.keys() - set(_FIELDS):
        raise BadRequestError(f"{where}.{min(unknown)}: no such field; there are {', '.join(_FIELDS)}")
    for field in ("step", "loss"):
        if given.get(field) is None:
            raise BadRequestError(f"{where}.{field}: must be given")
    limits = {**LIMITS, "time": (now_s - BEHIND_S, now_s + AHEAD_S)}
    numbers: dict[str, Any] = {"time": now_s, "workers": workers}
    for field, value in given.items():
        if value is not None:
            numbers[field] = _number(value, field, limits[field], f"{where}.{field}", now_s=now_s)
    return msgspec.convert(numbers, Point)


def _number(value: Any, field: str, limits: tuple[float, float], where: str, *, now_s: float) -> float:
    (low, high), whole = limits, field in _WHOLE
    if isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high:
        if not whole:
            return float(value)
        if value == int(value):
            return int(value)
    must = f"must be a {'whole number' if whole else 'number'} from {low:g} to {high:g}"
    if field == "time":
        ahead = f"{AHEAD_S:g} s ahead of netgang's clock ({now_s:.0f})"
        must = f"must be Unix seconds, at most {BEHIND_S / 86400.0:g} days ago and {ahead}"
    raise BadRequestError(f"{where}: {must}, not {repr(value)[:40]}")
