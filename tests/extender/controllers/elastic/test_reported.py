"""The body of a report, read or refused by its field; what jobs reported, bounded; what they ask for by it."""

import json
from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from extender.controllers.elastic.records import Records
from extender.controllers.elastic.reports import MOST_POINTS, Reports, read_report
from extender.errors import BadRequestError
from extender.runtime.telemetry import Telemetry
from scoring.records import Point
from scoring.scaling.job import ElasticJob, JobKey, MetricOptions, Wants
from scoring.scaling.metrics import DemandReason, WorkerDemand
from tests.extender.beside import finish
from tests.extender.controllers.elastic.reporting import elastic_job, job_key, points
from tests.fakes.clock import FakeClock

JOB = job_key("resnet")
OPTIONS = MetricOptions(every_steps=50, workers_step=1, min_interval_s=0.0, settle_steps=0, reversal_steps=0)


def book_of(most_jobs: int = 1000) -> Reports:
    return Reports(Records(Telemetry()), OPTIONS, FakeClock(), most_jobs=most_jobs)


def steps_of(book: Reports, job: JobKey = JOB, uid: str = "u") -> list[int]:
    return [one.step for one in book.points(job, uid)]


def test_another_job_of_the_same_name_begins_anew() -> None:
    book = book_of()
    book.add(JOB, "old", points([1, 2]))
    assert steps_of(book, uid="new") == []
    assert book.last(JOB, "new") is None
    book.add(JOB, "new", points([1]))
    assert (steps_of(book, uid="new"), steps_of(book, uid="old")) == ([1], [])


def test_a_namespace_cannot_push_out_others() -> None:
    book = book_of(most_jobs=4)
    quiet = job_key("quiet", namespace="small")
    book.add(quiet, "u", points([1]))
    loud = [job_key(f"loud-{number}", namespace="big") for number in range(20)]
    for job in loud:
        book.add(job, "u", points([1]))
    assert [steps_of(book, job) for job in (quiet, *loud)] == [[1], *[[]] * 17, *[[1]] * 3]


def test_who_reports_again_is_not_forgotten_first() -> None:
    book = book_of(most_jobs=2)
    for job, step in (("a", 1), ("b", 1), ("a", 2), ("c", 1)):
        book.add(job_key(job), "u", points([step]))
    assert [len(book.points(job_key(job), "u")) for job in "abc"] == [2, 0, 1]


class Told:
    def __init__(self, options: MetricOptions = OPTIONS) -> None:
        self.clock = FakeClock()
        self.book = Reports(Records(Telemetry()), options, self.clock)
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


def test_only_jobs_that_report_demand() -> None:
    """A job that says nothing is not among the demands, so that the queue alone decides; nor one that wants none."""
    told, job = Told(), elastic_job("resnet", workers=2)
    assert told.wish(job) == {}
    told.fall(job)
    assert told.wish(job) == {job.key: 3}
    assert told.wish(elastic_job("resnet", uid="uid-2")) == {}, "another job of its name"
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


def test_a_look_is_not_repeated_without_news() -> None:
    told, job = Told(), elastic_job("resnet", workers=2)
    looks = []
    for steps, later_s in ((60, 0.0), (0, 9.0), (0, 1.0), (1, 0.0)):
        told.clock.advance(later_s)
        told.fall(job, steps=steps)
        told.wish(job)
        looks.append(told.book.demand(job))
    assert [one is other for one, other in pairwise(looks)] == [True, False, False]


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
    told.book.reset()
    assert list(steps) == []
    assert told.book.demand(job) == WorkerDemand(None, DemandReason.NO_SIGNAL)


NOW_S = 1_700_000_000.0
GOOD = {"step": 7, "time": NOW_S - 1.0, "loss": 0.5}


def read(document: Any, **more: Any) -> tuple[tuple[Point, ...], bool]:
    """The points of a document and whether it restarted, with NaN and infinities as many programs write them."""
    return read_report(json.dumps(document).encode(), now_s=NOW_S, **more)


FORMS = {  # case: (document, steps, restarted)
    "one point": (GOOD, [7], False),
    "one point of a process that began": ({**GOOD, "restarted": True}, [7], True),
    "a list": ([GOOD, {**GOOD, "step": 8}], [7, 8], False),
    "points": ({"points": [GOOD]}, [7], False),
    "points of a process that began": ({"points": [GOOD, {**GOOD, "step": 9}], "restarted": True}, [7, 9], True),
    "a whole number with a point": ({**GOOD, "step": 7.0}, [7], False),
}


@pytest.mark.parametrize(("document", "steps", "restarted"), FORMS.values(), ids=FORMS)
def test_the_forms_of_a_report(document: Any, steps: list[int], restarted: bool) -> None:
    points, began_again = read(document)
    assert ([point.step for point in points], began_again) == (steps, restarted)


def test_all_that_a_point_may_tell() -> None:
    more = {"samples_per_second": 800, "compute_ratio": 0.75, "workers": 4}
    told, _ = read({**GOOD, **more}, workers=3)
    assert told == (Point(7, NOW_S - 1.0, 0.5, 800.0, 0.75, 4),)
    assert read({"step": 7, "loss": -1, "compute_ratio": None}, workers=3)[0] == (Point(7, NOW_S, -1.0, workers=3),)


BAD: dict[str, tuple[Any, str]] = {  # case: (document, how the sentence begins)
    "a text": ("step 7", "points: must be a list"),
    "nothing": (None, "points: must be a list"),
    "no points": ([], "points: must be a list of 1 to 256 points, not 0"),
    "too many points": ([GOOD] * (MOST_POINTS + 1), "points: must be a list of 1 to 256 points, not 257"),
    "points that are no list": ({"points": GOOD}, "points: must be a list"),
    "a point that is none": ([GOOD, 3], "points[1]: must be an object"),
    "no step": ({"loss": 1.0}, "points[0].step: must be given"),
    "no loss": ({"step": 1}, "points[0].loss: must be given"),
    "a negative step": ({**GOOD, "step": -1}, "points[0].step: must be a whole number from 0"),
    "half a step": ({**GOOD, "step": 1.5}, "points[0].step: must be a whole number"),
    "a step as text": ({**GOOD, "step": "7"}, "points[0].step: must be a whole number"),
    "a step that is true": ({**GOOD, "step": True}, "points[0].step: must be a whole number"),
    "a step beyond all": ({**GOOD, "step": 10**300}, "points[0].step: must be a whole number"),
    "NaN": ({**GOOD, "loss": float("nan")}, "points[0].loss: must be a number from -1e+30 to 1e+30, not nan"),
    "infinite": ({**GOOD, "loss": float("inf")}, "points[0].loss: must be a number"),
    "minus infinite": ({**GOOD, "loss": float("-inf")}, "points[0].loss: must be a number"),
    "a negative speed": ({**GOOD, "samples_per_second": -1}, "points[0].samples_per_second: must be a number from 0"),
    "a ratio in percent": ({**GOOD, "compute_ratio": 97.5}, "points[0].compute_ratio: must be a number from 0 to 1"),
    "half a worker": ({**GOOD, "workers": 0.5}, "points[0].workers: must be a whole number"),
    "the far future": ({**GOOD, "time": NOW_S + 61.0}, "points[0].time: must be Unix seconds"),
    "milliseconds": ({**GOOD, "time": NOW_S * 1e3}, "points[0].time: must be Unix seconds"),
    "long ago": ({**GOOD, "time": NOW_S - 8 * 86400.0}, "points[0].time: must be Unix seconds"),
    "a time that is none": ({**GOOD, "time": float("nan")}, "points[0].time: must be Unix seconds"),
    "a time as text": ({**GOOD, "time": "now"}, "points[0].time: must be Unix seconds"),
    "a step that goes back": ([{**GOOD, "step": 9}, GOOD], "points[1].step: 7 is not above 9"),
    "a step twice": ([GOOD, GOOD], "points[1].step: 7 is not above 7"),
    "several without time": ([GOOD, {"step": 8, "loss": 1.0}], "points[1].time: must be given"),
    "a slip of the pen": ({**GOOD, "samples_per_sec": 1}, "points[0].samples_per_sec: no such field"),
    "another field beside points": ({"points": [GOOD], "job": "x"}, "job: no such field"),
    "restarted as text": ({"points": [GOOD], "restarted": "yes"}, "restarted: must be true or false"),
}


@pytest.mark.parametrize(("document", "begins"), BAD.values(), ids=BAD)
def test_a_mistake_is_named_by_its_field(document: Any, begins: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        read(document)
    assert str(caught.value).startswith(begins)


NO_JSON = {
    "empty": b"",
    "half": b'{"step": 1',
    "no UTF-8": b'{"step": "\xff"}',
    "nested beyond all": b"[" * 60_000,
    "a number of 5,000 digits": b'{"step": ' + b"9" * 5_000 + b"}",
}


@pytest.mark.parametrize("body", NO_JSON.values(), ids=NO_JSON)
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequestError, match=r"^body: no JSON"):
        read_report(body, now_s=NOW_S)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["step", "loss", "time", "points", "restarted", "x"]), inner)
    ),
    max_leaves=12,
)


@given(anything | anything.map(lambda value: {**GOOD, "workers": value}) | st.lists(anything.map(lambda v: [GOOD, v])))
def test_any_document_is_read_or_refused(document: Any) -> None:
    with suppress(BadRequestError):
        for point in read(document)[0]:
            assert point.step >= 0
            assert point.loss is not None
            assert abs(point.loss) <= 1e30
            assert abs(point.time_s - NOW_S) <= 7 * 86400.0
