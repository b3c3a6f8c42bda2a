"""What users write as a duration, how their words and limits become a length, and what remains of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.model import JobSays, Policy, length_s
from scoring.model.gang import MOST_CHARS, duration_s, remaining_s
from scoring.model.policy import gang_options
from tests.builders import gang

BAD = ["", "soon", "-5m", "0s", "1e3", "5w", "1h-3m", "9" * 40, "1" * (MOST_CHARS + 1), "٥m", "1h 30m", "nan", "inf"]


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        duration_s(text)


@given(st.text(max_size=60))
def test_whatever_is_written_is_a_duration_or_an_error(text: str) -> None:
    try:
        seconds = duration_s(text)
    except ValueError:
        return
    assert 0.0 < seconds <= 10 * 365 * 86_400.0


@given(st.integers(0, 99), st.integers(0, 59), st.integers(1, 59))
def test_hours_minutes_and_seconds_add_up(hours: int, minutes: int, seconds: int) -> None:
    assert duration_s(f"{hours}h{minutes}m{seconds}s") == hours * 3600 + minutes * 60 + seconds


def test_a_bad_annotation_is_said_and_names_its_field() -> None:
    assert gang_options({"expected-duration": "2 weeks"}, Policy()).problems == (
        "netgang.io/expected-duration: '2 weeks' is not a duration such as 90m, 1h30m or 5400 (seconds); it is ignored",
    )
    assert gang_options({"expected-duration": "90m"}, Policy()).problems == ()
    assert length_s(gang("g", 2, options={"expected-duration": "2 weeks"}), None) is None


def test_the_shortest_of_what_is_declared_and_the_limits_of_job_and_pods_counts() -> None:
    some = gang("g", 2, options={"expected-duration": "1h"}, limit_s=1800.0)
    for limit_s, wanted_s in ((None, 1800.0), (900.0, 900.0), (7200.0, 1800.0)):
        assert length_s(some, JobSays(limit_s=limit_s)) == wanted_s


@given(st.floats(0.001, 1e8), st.floats(0.0, 1e9))
def test_what_runs_goes_on_and_ends_no_earlier_the_longer_it_has_run(of_s: float, ran_s: float) -> None:
    left_s, later_s = remaining_s(np.array([of_s, of_s]), np.array([ran_s, ran_s + 1.0])).tolist()
    assert left_s > 0.0
    assert later_s + 1.0 >= left_s * (1.0 - 1e-9)
