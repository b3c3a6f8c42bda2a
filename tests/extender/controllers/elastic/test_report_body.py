"""The body of a report: what is read, and what is refused in words that name the field."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.controllers.elastic.reports import MOST_POINTS, Report, read_report
from extender.errors import BadRequestError
from scoring.scaling.series import Point

NOW_S = 1_700_000_000.0
GOOD = {"step": 7, "time": NOW_S - 1.0, "loss": 0.5}


def read(document: Any, **more: Any) -> Report:
    """The report of a document, with NaN and infinities as many programs write them."""
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
    report = read(document)
    assert ([point.step for point in report.points], report.restarted) == (steps, restarted)


def test_all_that_a_point_may_tell() -> None:
    told = read({**GOOD, "samples_per_second": 800, "accuracy": 0.25, "workers": 4}, workers=3)
    assert told.points == (Point(7, NOW_S - 1.0, 0.5, 800.0, 0.25, 4),)
    assert read({"step": 7, "loss": -1, "accuracy": None}, workers=3).points == (Point(7, NOW_S, -1.0, workers=3),)


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
    "accuracy in percent": ({**GOOD, "accuracy": 97.5}, "points[0].accuracy: must be a number from 0 to 1"),
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
        for point in read(document).points:
            assert point.step >= 0
            assert point.loss is not None
            assert abs(point.loss) <= 1e30
            assert abs(point.time_s - NOW_S) <= 7 * 86400.0
