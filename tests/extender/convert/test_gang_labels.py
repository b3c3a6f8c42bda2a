"""Gangs are recognised from labels and annotations: first match wins, contradictions are problems, no guesses."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.convert import pod_from_json
from extender.convert.pod.gang_labels import (
    MIN_AVAILABLE_LABEL,
    MIN_MEMBER_ANNOTATIONS,
    NAME_ANNOTATIONS,
    NAME_LABEL,
    POD_GROUP_LABEL,
    group_of,
)
from scoring.model import GangSource

LABELS = {NAME_LABEL: "g", MIN_AVAILABLE_LABEL: "4"}
RIGHT = {  # case: ((key, source, min_available), labels, annotations, native group)
    "native": (("ns/n", GangSource.NATIVE, None), LABELS, {}, "n"),
    "pod group": (("ns/g", GangSource.POD_GROUP, None), {POD_GROUP_LABEL: "g"}, {}, None),
    "labels": (("ns/g", GangSource.LABELS, 4), LABELS, {NAME_ANNOTATIONS[0]: "other"}, None),
    "pod group before labels": (("ns/g", GangSource.POD_GROUP, None), LABELS | {POD_GROUP_LABEL: "g"}, {}, None),
    "annotation": (("ns/v", GangSource.ANNOTATION, None), {}, {NAME_ANNOTATIONS[0]: "v"}, None),
    "Volcano's": (
        ("ns/v", GangSource.ANNOTATION, 3),
        {},
        {NAME_ANNOTATIONS[1]: "v", MIN_MEMBER_ANNOTATIONS[1]: "3"},
        None,
    ),
}


@pytest.mark.parametrize(("want", "labels", "annotations", "native"), RIGHT.values(), ids=RIGHT)
def test_sources(
    want: tuple[str, GangSource, int | None], labels: dict[str, str], annotations: dict[str, str], native: str | None
) -> None:
    """Each source is recognised, in the documented order, and has no problem; a pod with none is a plain one."""
    ref = group_of("ns", labels, annotations, native)
    assert ref is not None
    assert (*want, None) == (ref.key, ref.source, ref.min_available, ref.problem)
    assert group_of("ns", {"app": "x"}, {"note": "y"}) is None


WRONG = {  # case: (what the problem must name, labels, annotations); bad numbers are below
    "no min": (MIN_AVAILABLE_LABEL, {NAME_LABEL: "g"}, {}),
    "no name": (NAME_LABEL, {MIN_AVAILABLE_LABEL: "4"}, {}),
    "empty name": (NAME_LABEL, {NAME_LABEL: "", MIN_AVAILABLE_LABEL: "4"}, {}),
    "min not a number": ("'four'", {NAME_LABEL: "g", MIN_AVAILABLE_LABEL: "four"}, {}),
    "min in other digits": ("'４'", {NAME_LABEL: "g", MIN_AVAILABLE_LABEL: "４"}, {}),
    "min beyond all": ("'99999999999'", {NAME_LABEL: "g", MIN_AVAILABLE_LABEL: "99999999999"}, {}),
    "empty pod group": (POD_GROUP_LABEL, {POD_GROUP_LABEL: ""}, {}),
    "two groups": ("(h)", {POD_GROUP_LABEL: "g", NAME_LABEL: "h", MIN_AVAILABLE_LABEL: "4"}, {}),
    "empty annotation": (NAME_ANNOTATIONS[0], {}, {NAME_ANNOTATIONS[0]: ""}),
    "bad annotation": (MIN_MEMBER_ANNOTATIONS[0], {}, {NAME_ANNOTATIONS[0]: "g", MIN_MEMBER_ANNOTATIONS[0]: "x"}),
}


@pytest.mark.parametrize(("named", "labels", "annotations"), WRONG.values(), ids=WRONG)
def test_problems(named: str, labels: dict[str, str], annotations: dict[str, str]) -> None:
    """A bad or contradictory group is a group with a problem that names what to change, never a plain pod."""
    ref = group_of("ns", labels, annotations)
    assert ref is not None
    assert named in (ref.problem or "")


@given(st.text(max_size=12) | st.sampled_from(["0", "-1", "1.5"]))
def test_min_available_is_a_positive_number_or_a_problem(text: str) -> None:
    ref = group_of("ns", {NAME_LABEL: "g", MIN_AVAILABLE_LABEL: text}, {})
    assert ref is not None
    assert (ref.min_available is None) != (ref.problem is None)
    if ref.min_available is not None:
        assert ref.min_available == int(text) > 0


def test_pods_carry_their_group() -> None:
    for spec, source in (({}, GangSource.LABELS), ({"schedulingGroup": {"podGroupName": "n"}}, GangSource.NATIVE)):
        metadata = {"name": "p", "namespace": "ns", "labels": LABELS}
        group = pod_from_json(json.dumps({"metadata": metadata, "spec": spec}).encode()).group
        assert group is not None
        assert group.source is source
