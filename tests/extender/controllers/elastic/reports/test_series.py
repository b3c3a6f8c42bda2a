"""Series of points: ascending, bounded, the start kept, nobody pushed out by others, nothing of an older namesake."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.controllers.elastic.reports.series import SeriesBook
from scoring.scaling.job import JobKey
from scoring.scaling.metrics.series import Point
from tests.extender.controllers.elastic.reporting import job_key, points

JOB = job_key("resnet")


def steps_of(book: SeriesBook, job: JobKey = JOB, uid: str = "u") -> list[int]:
    return [one.step for one in book.of(job, uid)]


@given(st.lists(st.integers(1, 60), min_size=1, max_size=60), st.integers(4, 40))
def test_a_series_keeps_its_start_and_its_newest_points(sizes: list[int], most: int) -> None:
    book = SeriesBook(most_points=most)
    step = 0
    for size in sizes:
        book.add(JOB, "u", points(range(step, step + size)))
        step += size
    kept = steps_of(book)
    assert len(kept) <= most
    assert kept == sorted(set(kept))
    assert kept[0] == 0
    newest = min(step, most // 2)
    assert kept[-newest:] == list(range(step - newest, step))


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 20)), max_size=80))
def test_restarts_leave_no_step_twice(runs: list[tuple[int, int]]) -> None:
    book, step = SeriesBook(most_points=8), 0
    for size, back in runs:
        step = max(step - back, 0)
        book.add(JOB, "u", points(range(step, step + size)), undo=True)
        step += size
    kept = steps_of(book)
    assert kept == sorted(set(kept))
    assert len(kept) <= 8
    assert kept[-1:] == ([step - 1] if runs else [])


def test_another_job_of_the_same_name_begins_anew() -> None:
    book = SeriesBook()
    book.add(JOB, "old", points([1, 2]))
    assert steps_of(book, uid="new") == []
    assert book.last(JOB, "new") is None
    book.add(JOB, "new", points([1]))
    assert (steps_of(book, uid="new"), steps_of(book, uid="old")) == ([1], [])


def test_what_a_restart_undid_is_dropped() -> None:
    book = SeriesBook()
    book.add(JOB, "u", points([1, 2, 3, 4]))
    book.add(JOB, "u", points([3, 5]), undo=True)
    assert steps_of(book) == [1, 2, 3, 5]
    book.add(JOB, "u", points([0]), undo=True)
    assert steps_of(book) == [0]


@pytest.mark.parametrize("steps", [[4], [3], [6, 6], [7, 6]], ids=["the same", "back", "twice", "falling"])
def test_steps_that_do_not_ascend_are_a_bug_of_ours(steps: list[int]) -> None:
    book = SeriesBook()
    book.add(JOB, "u", points([4]))
    with pytest.raises(ValueError, match="do not ascend"):
        book.add(JOB, "u", points(steps))
    assert steps_of(book) == [4]


def test_decisions_see_the_same_series() -> None:
    book = SeriesBook()
    book.add(JOB, "u", points([1, 2, 30]))
    book.add(JOB, "u", [Point(3, 9.0, 0.25, samples_per_second=8.0, workers=2)], undo=True)
    seen = book.series(JOB, "u")
    assert (seen.step.tolist(), seen.loss.tolist(), seen.workers.tolist()) == ([1, 2, 3], [1.0, 1.0, 0.25], [0, 0, 2])
    assert (seen.time_s.tolist(), seen.samples_per_second.tolist()[-1], seen.top_step) == ([1.0, 2.0, 9.0], 8.0, 30)
    assert len(book.series(JOB, "another")) == 0


def test_a_namespace_cannot_push_out_others() -> None:
    book = SeriesBook(most_jobs=4)
    quiet = job_key("quiet", namespace="small")
    book.add(quiet, "u", points([1]))
    for number in range(20):
        book.add(job_key(f"loud-{number}", namespace="big"), "u", points([1]))
    assert len(book) == 4
    assert steps_of(book, quiet) == [1]
    assert [steps_of(book, job_key(f"loud-{number}", namespace="big")) for number in (16, 17, 19)] == [[], [1], [1]]


def test_who_reports_again_is_not_forgotten_first() -> None:
    book = SeriesBook(most_jobs=2)
    for job, step in (("a", 1), ("b", 1), ("a", 2), ("c", 1)):
        book.add(job_key(job), "u", points([step]))
    assert [len(book.of(job_key(job), "u")) for job in "abc"] == [2, 0, 1]


def test_jobs_that_are_gone_are_forgotten() -> None:
    book = SeriesBook(most_jobs=2)
    for job in "ab":
        book.add(job_key(job), "u", points([1]))
    book.keep_only([job_key("b")])
    assert [len(book.of(job_key(job), "u")) for job in "ab"] == [0, 1]
    book.add(job_key("c"), "u", points([1]))
    assert len(book) == 2
    book.forget()
    assert len(book) == 0
