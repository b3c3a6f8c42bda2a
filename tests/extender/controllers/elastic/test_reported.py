"""What jobs reported, bounded and ascending, nobody pushed out by others; and what they ask for between two looks."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from extender.controllers.elastic.reports import ReportBook
from scoring.scaling.job import ElasticJob, JobKey, MetricOptions, Wants
from scoring.scaling.series import Point
from tests.extender.beside import finish
from tests.extender.controllers.elastic.reporting import elastic_job, job_key, points
from tests.fakes.clock import FakeClock

JOB = job_key("resnet")
OPTIONS = MetricOptions(every_steps=50, workers_step=1, min_interval_s=0.0, settle_steps=0, reversal_steps=0)


def book_of(**most: int) -> ReportBook:
    return ReportBook(OPTIONS, FakeClock(), **most)


def steps_of(book: ReportBook, job: JobKey = JOB, uid: str = "u") -> list[int]:
    return [one.step for one in book.points(job, uid)]


def test_another_job_of_the_same_name_begins_anew() -> None:
    book = book_of()
    book.add(JOB, "old", points([1, 2]))
    assert steps_of(book, uid="new") == []
    assert book.last(JOB, "new") is None
    book.add(JOB, "new", points([1]))
    assert (steps_of(book, uid="new"), steps_of(book, uid="old")) == ([1], [])


def test_what_a_restart_undid_is_dropped() -> None:
    book = book_of()
    book.add(JOB, "u", points([1, 2, 3, 4]))
    book.add(JOB, "u", points([3, 5]), undo=True)
    assert steps_of(book) == [1, 2, 3, 5]
    book.add(JOB, "u", points([0]), undo=True)
    assert steps_of(book) == [0]


@pytest.mark.parametrize("steps", [[4], [3], [6, 6], [7, 6]], ids=["the same", "back", "twice", "falling"])
def test_steps_that_do_not_ascend_are_a_bug_of_ours(steps: list[int]) -> None:
    book = book_of()
    book.add(JOB, "u", points([4]))
    with pytest.raises(ValueError, match="do not ascend"):
        book.add(JOB, "u", points(steps))
    assert steps_of(book) == [4]


def test_a_namespace_cannot_push_out_others() -> None:
    book = book_of(most_jobs=4)
    quiet = job_key("quiet", namespace="small")
    book.add(quiet, "u", points([1]))
    for number in range(20):
        book.add(job_key(f"loud-{number}", namespace="big"), "u", points([1]))
    assert len(book) == 4
    assert steps_of(book, quiet) == [1]
    assert [steps_of(book, job_key(f"loud-{number}", namespace="big")) for number in (16, 17, 19)] == [[], [1], [1]]


def test_who_reports_again_is_not_forgotten_first() -> None:
    book = book_of(most_jobs=2)
    for job, step in (("a", 1), ("b", 1), ("a", 2), ("c", 1)):
        book.add(job_key(job), "u", points([step]))
    assert [len(book.points(job_key(job), "u")) for job in "abc"] == [2, 0, 1]


def test_jobs_that_are_gone_are_forgotten() -> None:
    book = book_of(most_jobs=2)
    for job in "ab":
        book.add(job_key(job), "u", points([1]))
    book.keep_only([job_key("b")])
    assert [len(book.points(job_key(job), "u")) for job in "ab"] == [0, 1]
    book.add(job_key("c"), "u", points([1]))
    assert len(book) == 2
    book.forget()
    assert len(book) == 0


# -- demands -----------------------------------------------------------------------------------------------------------


class Told:
    def __init__(self, options: MetricOptions = OPTIONS) -> None:
        self.clock = FakeClock()
        self.book = ReportBook(options, self.clock)
        self.step = 0

    def wish(self, *jobs: ElasticJob) -> Mapping[JobKey, int]:
        return finish(self.book.demands_in_steps(jobs))

    def fall(self, job: ElasticJob, *, steps: int = 60) -> None:
        points = [
            Point(step, self.clock.now_s(), 2.0 / (1.0 + step / 100), workers=job.workers)
            for step in range(self.step, self.step + steps)
        ]
        self.step += steps
        self.book.add(job.key, job.uid, points)


def asked(told: Told, job: ElasticJob) -> int | None:
    demand = told.book.demand(job)
    return demand.workers if demand is not None else None


def test_only_jobs_that_report_demand() -> None:
    """A job that says nothing is not among the demands, so that the queue alone decides; nor one that wants none."""
    told, job = Told(), elastic_job("resnet", workers=2)
    assert told.wish(job) == {}
    told.fall(job)
    assert told.wish(job) == {job.key: 3}
    assert told.wish(replace(job, wants=Wants.OFF)) == {}


def test_a_wish_is_remembered_while_pods_come_and_go() -> None:
    told, job = Told(replace(OPTIONS, min_interval_s=300.0)), elastic_job("resnet", workers=2)
    told.fall(job)
    assert told.wish(job) == {job.key: 3}
    assert told.wish() == {}
    told.clock.advance(20.0)
    grown = elastic_job("resnet")
    told.fall(grown)
    assert told.wish(grown) == {job.key: 3}, "the least time between two changes goes on"
    told.clock.advance(300.0)
    told.fall(grown)
    assert told.wish(grown) == {job.key: 4}


def test_a_job_of_the_same_name_begins_anew() -> None:
    told, job = Told(), elastic_job("resnet", workers=2)
    told.fall(job)
    assert told.wish(job) == {job.key: 3}
    assert told.wish(elastic_job("resnet", uid="uid-2")) == {}
    assert asked(told, job) == 3
    told.book.forget()
    assert asked(told, job) is None


def test_a_look_is_not_repeated_without_news() -> None:
    told, job = Told(), elastic_job("resnet", workers=2)
    told.fall(job)
    told.wish(job)
    first = told.book.demand(job)
    told.clock.advance(9.0)
    told.wish(job)
    assert told.book.demand(job) is first
    told.clock.advance(1.0)
    told.wish(job)
    assert told.book.demand(job) is not first
    second = told.book.demand(job)
    told.fall(job, steps=1)
    told.wish(job)
    assert told.book.demand(job) is not second


def test_others_have_their_turn_between_two_looks() -> None:
    """A fit takes a while, so there is a pause after each job."""
    told, jobs = Told(), [elastic_job(f"j{number:02}") for number in range(20)]
    for job in jobs:
        told.fall(job)
    assert sum(1 for _ in told.book.demands_in_steps(jobs)) == 20
    assert len(told.wish(*jobs)) == 20


def test_a_term_that_ends_between_two_looks_is_forgotten_all_the_same() -> None:
    """What is known at the end of the looks belonged to the term before."""
    told, job = Told(), elastic_job("resnet", workers=2)
    told.fall(job)
    steps = told.book.demands_in_steps([job])
    next(steps)
    told.book.forget()
    assert list(steps) == []
    assert asked(told, job) is None
