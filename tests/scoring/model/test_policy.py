"""What owners may ask for by annotation or declare as a length, and what happens to what is not understood."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.model import JobSays
from scoring.model.gang import MOST_CHARS, duration_s, length_of, remaining_s
from scoring.model.policy import KNOWN_OPTIONS, GangOptions, Policy, Ratios, Selection, ZonePolicy, gang_options
from tests.builders import gang

POLICY = Policy()

OPTIONS = {  # case: (annotations, what differs from the default)
    "nothing asked": ({}, GangOptions()),
    "zones in order, spaces are no part of names": ({"zones": " b , a,"}, GangOptions(zones=("b", "a"))),  # type: ignore[arg-type]
    "near": ({"near": " 192.0.2.7 "}, GangOptions(near="192.0.2.7")),  # type: ignore[arg-type]
    "near nobody": ({"near": "  "}, GangOptions()),
    "zone policy": ({"zone-policy": "preferred"}, GangOptions(zone_policy=ZonePolicy.PREFERRED)),
    "selection": ({"selection": "pack"}, GangOptions(selection=Selection.PACK)),
    "ratios": ({"ratios": "1:0:3"}, GangOptions(ratios=Ratios(25.0, 0.0, 75.0))),
    "equal zones, however often": ({"zones": "a,b," * 100}, GangOptions(zones=("a", "b"))),  # type: ignore[arg-type]
    "read elsewhere": (
        {"weight": "2", "min-workers": "1", "admitted": "x", "expected-duration": "90m"}, GangOptions()
    ),
}  # fmt: skip


@pytest.mark.parametrize(("annotations", "want"), OPTIONS.values(), ids=OPTIONS)
def test_options(annotations: dict[str, str], want: GangOptions) -> None:
    assert want == gang_options(annotations, POLICY)


NO_RATIOS = ("1:2", "1e7:1:1", "1:2:3:4", "a:b:c", "nan:1:1", "inf:1:1", "-1:1:1", "0:0:0")
PROBLEMS = {  # case: (annotation, value, the problem)
    "empty list of zones": ("zones", " , ", "no zone is named; all zones are allowed"),
    "zone policy": ("zone-policy", "sometimes", "'sometimes' is not one of required, preferred; required is used"),
    "selection": ("selection", "Subset", "'Subset' is not one of subset, paper, pack; subset is used"),
    **{
        text: ("ratios", text, f"{text!r} is not three numbers such as 20:40:40; the default is used")
        for text in NO_RATIOS
    },
    "a long list of zones": ("zones", "z," * 2049, "longer than 4096 characters; it is ignored"),
    "very many zones": ("zones", ",".join(f"z{n}" for n in range(65)), "more than 64 zones are named; all are allowed"),
    "a long value": ("ratios", "1:1:" + "1" * 300, "longer than 253 characters; it is ignored"),
    "weeks": (
        "expected-duration",
        "2 weeks",
        "'2 weeks' is not a duration such as 90m, 1h30m or 5400 (seconds); it is ignored",
    ),
    "typing mistake in the name": ("zone", "a", "no such annotation; did you mean netgang.io/zones?"),
}


@pytest.mark.parametrize(("name", "value", "want"), PROBLEMS.values(), ids=PROBLEMS)
def test_what_is_not_understood_is_said(name: str, value: str, want: str) -> None:
    """The default is used, and one sentence names the annotation, the value and what is used instead."""
    policy = Policy(selection=Selection.PACK, zone_policy=ZonePolicy.PREFERRED)  # the operator sets the defaults
    for unread in ({}, {name: value}):
        options = gang_options(unread, policy)
        assert (options.selection, options.zone_policy) == (Selection.PACK, ZonePolicy.PREFERRED)
    options = gang_options({name: value}, POLICY)
    assert options.problems == (f"netgang.io/{name}: {want}",)
    assert (options.zones, options.ratios, options.zone_policy) == (None, None, ZonePolicy.REQUIRED)


@given(st.tuples(*[st.floats(0.0, 1e5, allow_nan=False)] * 3).filter(any))
def test_ratios_come_in_steps(parts: tuple[float, float, float]) -> None:
    """No tenant makes every link be scored a thousand times: there are so many different ratios, and each is close."""
    found = gang_options({"ratios": ":".join(f"{part!r}" for part in parts)}, POLICY).ratios
    if found is None:  # 1e-5 and the like are too small to be scaled
        return
    read = (found.loss, found.delay, found.bandwidth)
    assert all(value % 5.0 == 0.0 and 0.0 <= value <= 100.0 for value in read)
    for part, value in zip(parts, read, strict=True):
        assert (part > 0.0) == (value > 0.0)
        assert abs(part / sum(parts) * 100.0 - value) <= 5.0


@given(st.dictionaries(st.sampled_from([*sorted(KNOWN_OPTIONS), "typo"]), st.text(max_size=12), max_size=6))
def test_no_annotation_can_break_the_reading(annotations: dict[str, str]) -> None:
    """Whatever is written, options come out, and every problem names its annotation."""
    options = gang_options(annotations, POLICY)
    assert all(any(f"netgang.io/{name}: " in problem for name in annotations) for problem in options.problems)
    assert len(options.problems) <= len(annotations)
    assert options == gang_options(dict(reversed(annotations.items())), POLICY)


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


def test_the_shortest_of_what_is_declared_and_the_limits_of_job_and_pods_counts() -> None:
    some = gang("g", 2, options={"expected-duration": "1h"}, limit_s=1800.0)
    for limit_s, wanted_s in ((None, 1800.0), (900.0, 900.0), (7200.0, 1800.0)):
        assert length_of(some, JobSays(limit_s=limit_s)) == (wanted_s, True)
    assert length_of(gang("g", 2, options={"expected-duration": "2 weeks"}), JobSays()) == (None, True)


@given(st.floats(0.001, 1e8), st.floats(0.0, 1e9))
def test_what_runs_goes_on_and_ends_no_earlier_the_longer_it_has_run(of_s: float, ran_s: float) -> None:
    left_s, later_s = remaining_s(np.array([of_s, of_s]), np.array([ran_s, ran_s + 1.0])).tolist()
    assert left_s > 0.0
    assert later_s + 1.0 >= left_s * (1.0 - 1e-9)
