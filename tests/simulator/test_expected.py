"""Expected starts in the simulator: the same each time, and each gang that had an interval is counted."""

import pytest

from lab.simulator.expected import coverage, workload
from scoring.plan.expected import Result


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_same_seed_gives_the_same_starts() -> None:
    """And the same gangs count with both kinds of intervals."""
    one = coverage(1, jobs=90)
    assert one == coverage(1, jobs=90)
    assert one.starts
    assert [start.waited_s for start in one.starts] == [start.waited_s for start in one.plain]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_result_is_where_the_start_is_in_its_interval() -> None:
    """Late, also where the interval was over long before the start."""
    for start in coverage(1, jobs=90).starts:
        early, late = start.waited_s < start.low_s - 1.0, start.waited_s > start.high_s + 1.0
        assert start.result is (Result.EARLY if early else Result.LATE if late else Result.INSIDE)


def test_more_jobs_change_none_before_them() -> None:
    assert workload(3, 200, 0.9).jobs[:50] == workload(3, 50, 0.9).jobs
