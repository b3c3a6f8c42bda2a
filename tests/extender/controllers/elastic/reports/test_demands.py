"""Wishes between two looks, and counting: what is remembered of a job, for how long, and what is counted once."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from extender.controllers.elastic.intent import Intent, Requester
from extender.controllers.elastic.records import Change, Records, Stage
from extender.controllers.elastic.reports.demands import MetricDemands
from extender.controllers.elastic.reports.series import SeriesBook
from extender.runtime.telemetry import Telemetry
from scoring.ids import GangKey
from scoring.scaling.job import ElasticJob, JobKey, MetricOptions, Wants
from scoring.scaling.metrics.series import Point
from tests.extender.beside import finish
from tests.extender.controllers.elastic.reporting import job_key
from tests.fakes.clock import FakeClock

OPTIONS = MetricOptions(every_steps=50, workers_step=1, min_interval_s=0.0, settle_steps=0, reversal_steps=0)


def elastic(name: str = "resnet", *, workers: int = 2, uid: str = "uid-1", wants: Wants = Wants.LOSS) -> ElasticJob:
    return ElasticJob(
        key=job_key(name),
        uid=uid,
        gang=GangKey(f"team/{name}"),
        workers=workers,
        min_workers=1,
        max_workers=6,
        indexes={},
        refusal=None,
        wants=wants,
        changed_s=None,
    )


class Told:
    def __init__(self, options: MetricOptions = OPTIONS) -> None:
        self.clock, self.book = FakeClock(), SeriesBook()
        self.demands = MetricDemands(self.book, options, self.clock)
        self.step = 0

    def wish(self, *jobs: ElasticJob) -> Mapping[JobKey, int]:
        return finish(self.demands.in_steps(jobs))

    def fall(self, job: ElasticJob, *, steps: int = 60) -> None:
        points = [
            Point(step, self.clock.now_s(), 2.0 / (1.0 + step / 100), workers=job.workers)
            for step in range(self.step, self.step + steps)
        ]
        self.step += steps
        self.book.add(job.key, job.uid, points)


def test_only_jobs_that_report_demand() -> None:
    """A job that says nothing is not among the demands, so that the queue alone decides; nor one that wants none."""
    told, job = Told(), elastic()
    assert told.wish(job) == {}
    told.fall(job)
    assert told.wish(job) == {job.key: 3}
    assert told.wish(replace(job, wants=Wants.OFF)) == {}


def test_a_wish_is_remembered_while_pods_come_and_go() -> None:
    told, job = Told(MetricOptions(every_steps=50, workers_step=1, min_interval_s=300.0, settle_steps=0)), elastic()
    told.fall(job)
    assert told.wish(job) == {job.key: 3}
    assert told.wish() == {}
    told.clock.advance(20.0)
    grown = elastic(workers=3)
    told.fall(grown)
    assert told.wish(grown) == {job.key: 3}, "the least time between two changes goes on"
    told.clock.advance(300.0)
    told.fall(grown)
    assert told.wish(grown) == {job.key: 4}


def test_a_job_of_the_same_name_begins_anew() -> None:
    told, job = Told(), elastic()
    told.fall(job)
    assert told.wish(job) == {job.key: 3}
    assert told.wish(elastic(uid="uid-2")) == {}
    assert told.demands.of(job.key) is not None
    told.demands.forget()
    assert told.demands.of(job.key) is None


def test_a_look_is_not_repeated_without_news() -> None:
    told, job = Told(), elastic()
    told.fall(job)
    told.wish(job)
    first = told.demands.of(job.key)
    told.clock.advance(9.0)
    told.wish(job)
    assert told.demands.of(job.key) is first
    told.clock.advance(1.0)
    told.wish(job)
    assert told.demands.of(job.key) is not first
    second = told.demands.of(job.key)
    told.fall(job, steps=1)
    told.wish(job)
    assert told.demands.of(job.key) is not second


def test_others_have_their_turn_between_two_looks() -> None:
    """A fit takes a while, so there is a pause after each job."""
    told, jobs = Told(), [elastic(f"j{number:02}") for number in range(20)]
    for job in jobs:
        told.fall(job)
    assert sum(1 for _ in told.demands.in_steps(jobs)) == 20
    assert len(told.wish(*jobs)) == 20


def test_a_term_that_ends_between_two_looks_is_forgotten_all_the_same() -> None:
    """What is known at the end of the looks belonged to the term before."""
    told, job = Told(), elastic()
    told.fall(job)
    steps = told.demands.in_steps([job])
    next(steps)
    told.demands.forget()
    assert list(steps) == []
    assert told.demands.of(job.key) is None


class Counted:
    """The counted ends of changes, by direction and outcome."""

    def __init__(self) -> None:
        self.telemetry = Telemetry()
        self.records = Records(self.telemetry)

    def put(self, *, after: int = 2, stage: Stage, ended_s: float | None = None) -> None:
        intent = Intent(3, after, 100.0, Requester.QUEUE, "why", GangKey("team/h"))
        self.records.put(Change(job_key("resnet"), "uid-1", intent, stage, ended_s=ended_s))

    def count(self, direction: str, outcome: Stage) -> float | None:
        labels = {"kind": "TFJob.kubeflow.org", "direction": direction, "outcome": outcome.value}
        return self.telemetry.registry.get_sample_value("netgang_resizes_total", labels)


@pytest.mark.parametrize("stage", [Stage.DONE, Stage.GIVEN_BACK, Stage.OVERRULED])
def test_the_end_of_a_change_is_counted_once(stage: Stage) -> None:
    counted = Counted()
    counted.put(stage=Stage.REMOVING)
    assert counted.count("in", stage) is None
    for _ in range(3):
        counted.put(stage=stage, ended_s=104.0)
        assert counted.count("in", stage) == 1.0


def test_what_a_former_process_did_is_not_counted_again() -> None:
    """Its changes are known from the jobs' notes, without a moment of their end; a dry run's are counted."""
    counted = Counted()
    counted.put(stage=Stage.DONE)
    assert counted.count("in", Stage.DONE) is None
    counted.put(after=5, stage=Stage.DRY_RUN)
    assert counted.count("out", Stage.DRY_RUN) == 1.0
