"""What is learned of former runs: when, from which, and within what bounds."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.lengths.fingerprint import Fingerprint, fingerprint
from scoring.lengths.former_runs import JOB_BYTES, KEPT, LEAST, FormerRuns, Run, cost

RUNS = st.lists(st.builds(Run, st.integers(1, 10**6), st.integers(1, 10**9)), min_size=LEAST, max_size=40)
JOB = fingerprint("a", "Job.batch", "train-1", "t1")


def median_s(former: FormerRuns, job: Fingerprint) -> float | None:
    length = former.length(job)
    return length.at_s(0.5) if length is not None else None


def learned(*runs: tuple[Fingerprint, Sequence[Run]], most_bytes: int = 10**6) -> FormerRuns:
    return FormerRuns(runs, most_bytes=most_bytes)


def test_two_runs_teach_nothing_three_do() -> None:
    runs = [Run(100, number) for number in range(LEAST)]
    assert median_s(learned((JOB, runs[:-1])), JOB) is None
    assert median_s(learned((JOB, runs)), JOB) == 100.0


def test_the_newest_runs_count_most() -> None:
    """Twenty old runs of an hour, then seven of a minute: the median is a minute's."""
    runs = [Run(3600, number) for number in range(20)] + [Run(60, 100 + number) for number in range(8)]
    assert median_s(learned((JOB, runs)), JOB) == 60.0


@given(RUNS)
def test_what_is_learned_was_seen(runs: list[Run]) -> None:
    length = learned((JOB, runs)).length(JOB)
    newest = sorted(runs, key=lambda run: -run.ended_s)[:KEPT]
    assert length is not None
    assert min(run.length_s for run in newest) <= length.quantiles_s[0]
    assert length.quantiles_s[-1] <= max(run.length_s for run in runs)


@given(RUNS)
def test_what_is_stored_teaches_the_same(runs: list[Run]) -> None:
    before = learned((JOB, runs))
    assert FormerRuns(before.jobs()).length(JOB) == before.length(JOB)


def test_a_renewed_image_is_found_by_its_name_and_a_new_name_by_its_template() -> None:
    former = learned((JOB, [Run(100, number) for number in range(3)]))
    assert median_s(former, fingerprint("a", "Job.batch", "train-2", "t2")) == 100.0
    assert median_s(former, fingerprint("a", "Job.batch", "other", "t1")) == 100.0
    assert median_s(former, fingerprint("a", "Job.batch", "other", "t2")) is None


def test_nothing_is_learned_of_another_namespace() -> None:
    former = learned((JOB, [Run(100, number) for number in range(3)]))
    assert median_s(former, Fingerprint("b", JOB.name, JOB.template)) is None


def test_a_namespace_with_many_jobs_forgets_its_own_first() -> None:
    """No tenant pushes out what was learned of others' jobs."""
    former = learned((JOB, [Run(100, number) for number in range(3)]), most_bytes=20 * cost(1))
    for number in range(500):
        former.record(fingerprint("noisy", "Job.batch", f"job-{number}x", f"t{number}"), Run(5, 1000 + number))
    assert median_s(former, JOB) == 100.0
    kept = [job for job, _ in former.jobs() if job.namespace == "noisy"]
    assert 10 <= len(kept) < 20
    assert fingerprint("noisy", "Job.batch", "job-499x", "t499") in kept  # the newest stay


def test_a_forgotten_job_is_not_looked_at_by_name_or_template() -> None:
    former = learned((JOB, [Run(100, 1)]), most_bytes=cost(1))
    other = fingerprint("a", "Job.batch", "train-7", "t2")
    former.record(other, Run(50, 2))
    assert [job for job, _ in former.jobs()] == [other]
    assert former.length(JOB) is None


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 5), st.integers(1, 99)), max_size=80))
def test_it_is_bounded_whatever_comes(some: list[tuple[int, int, int, int]]) -> None:
    most_bytes = 6 * JOB_BYTES
    former = learned(most_bytes=most_bytes)
    for number, (namespace, name, template, length_s) in enumerate(some):
        former.record(fingerprint(f"n{namespace}", "Job", f"j{name}x", f"t{template}"), Run(length_s, number))
        assert sum(cost(len(runs)) for _, runs in former.jobs()) <= most_bytes


@pytest.mark.parametrize("count", [1, 5, KEPT])
def test_no_job_is_stored_in_more_bytes_than_its_cost(count: int) -> None:
    """Also the longest: 63 letters of namespace, lengths of years."""
    former = FormerRuns([(Fingerprint("n" * 63, JOB.name, JOB.template), [Run(10**12, 10**12) for _ in range(count)])])
    assert len(msgspec.json.encode(list(former.jobs()))) - 2 <= cost(count)
