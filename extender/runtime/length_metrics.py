"""Metrics of how long gangs run: what lengths are known from, and whether former runs are kept."""

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from scoring.plan.expected import Result

SOURCES: Final = ("declared", "limit", "learned", "reported", "unknown")


class LengthMetrics:
    """The gauges, in the registry of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._gangs = Gauge(
            "netgang_gangs_by_length_source",
            "Gangs by what their length is known from; source: declared, limit, learned, reported, unknown",
            ("source",),
            registry=registry,
        )
        self._jobs = Gauge(
            "netgang_former_run_jobs", "Jobs, by name and template, of which former runs are known", registry=registry
        )
        self.learned = Counter(
            "netgang_former_runs", "Runs of gangs that ended well and were learned from", registry=registry
        ).inc
        self._kept = Gauge(
            "netgang_former_runs_kept",
            "1: former runs of jobs are kept in netgang's ConfigMap; 0: they are not (see the log), or lengths are off",
            registry=registry,
        )

        self._starts = Counter(
            "netgang_expected_starts",
            "Gangs with an expected start by where they started, seen from the 80 % interval that they were given "
            "first; result: early, inside, late",
            ("result",),
            registry=registry,
        )
        for result in Result:
            self._starts.labels(result.value)

    def started(self, result: Result) -> None:
        """It is known whether an interval was right."""
        self._starts.labels(result.value).inc()

    def gangs(self, by_source: Mapping[str, int]) -> None:
        """So many gangs now, by source."""
        for source in SOURCES:
            self._gangs.labels(source).set(by_source.get(source, 0))

    def kept(self, kept: bool, jobs: int) -> None:
        """Whether former runs outlive this process, and of how many jobs there are any."""
        self._kept.set(kept)
        self._jobs.set(jobs)
