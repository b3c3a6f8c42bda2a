"""What users write as a duration, and how their words and limits become a length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.lengths import Length, LengthSource, declared_length, duration_s, from_samples
from scoring.lengths.declared import MOST_CHARS
from scoring.lengths.fingerprint import fingerprint
from scoring.lengths.former_runs import FormerRuns, Run
from scoring.model import Policy
from scoring.model.policy import gang_options
from scoring.queue.gang_length import fingerprint_of, length_of
from tests.builders import gang, pod

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
    found = gang_options({"expected-duration": "2 weeks"}, Policy())
    assert found.expected_s is None
    assert found.problems == (
        "netgang.io/expected-duration: '2 weeks' is not a duration such as 90m, 1h30m or 5400 (seconds); it is ignored",
    )
    assert gang_options({"expected-duration": "90m"}, Policy()).expected_s == 5400.0


def test_a_deadline_cuts_what_is_declared() -> None:
    said = declared_length(7200.0, 3600.0)
    assert said is not None
    assert (said.source, said.at_s(0.9)) == (LengthSource.LIMIT, 3600.0)


def test_the_shortest_limit_of_job_and_pods_counts() -> None:
    some = gang("g", 2, options={"expected-duration": "1h"}, limit_s=1800.0)
    for owner_limit_s, wanted_s in ((None, 1800.0), (900.0, 900.0), (7200.0, 1800.0)):
        length = length_of(some, FormerRuns(), owner_limit_s=owner_limit_s)
        assert length is not None
        assert (length.source, length.at_s(0.5)) == (LengthSource.LIMIT, wanted_s)


def test_reports_win_over_words_and_words_over_former_runs() -> None:
    declared, bare = gang("g", 2, options={"expected-duration": "1h"}), gang("g", 2)
    former = FormerRuns([(fingerprint_of(bare), [Run(100, at) for at in range(3)])])
    reported = Length(LengthSource.REPORTED, (50.0,) * 5)

    def source(*arguments: object, **more: object) -> str | None:
        length = length_of(*arguments, **more)  # type: ignore[arg-type]
        return length.source.value if length is not None else None

    assert source(declared, former, reported=reported) == "reported"
    assert source(declared, former) == "declared"
    assert source(bare, former) == "learned"
    assert source(bare, former, owner_limit_s=60.0) == "limit"  # no run may last as long as the former ones did
    assert source(bare, FormerRuns()) is None


def test_an_annotation_that_cannot_be_read_is_as_none() -> None:
    assert length_of(gang("g", 2, options={"expected-duration": "soon"}), FormerRuns()) is None


def test_members_of_all_roles_make_the_fingerprint() -> None:
    """Another image of any role is another template; their order is irrelevant."""
    one, two = pod("a", template="t1"), pod("b", template="t2")
    assert fingerprint_of(gang("g", members=[one, two])) == fingerprint_of(gang("g", members=[two, one]))
    assert fingerprint_of(gang("g", members=[one])) != fingerprint_of(gang("g", members=[one, two]))


def test_the_same_name_of_another_kind_is_another_job() -> None:
    assert fingerprint("a", "Job.batch", "n", "t").name != fingerprint("a", "TFJob.kubeflow.org", "n", "t").name


def test_a_learned_length_of_one_run_three_times_is_exact() -> None:
    assert from_samples([60.0] * 3, [1.0, 0.9, 0.81], LengthSource.LEARNED).quantiles_s == (60.0,) * 5
