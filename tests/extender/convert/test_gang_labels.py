"""Gangs are recognised from labels and annotations: first match wins, contradictions are told, nothing is guessed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.convert import pod_from_json, pod_group_from_json
from extender.convert.pod.gang_labels import (
    MIN_AVAILABLE_LABEL,
    MIN_MEMBER_ANNOTATIONS,
    NAME_ANNOTATIONS,
    NAME_LABEL,
    POD_GROUP_LABEL,
    group_of,
)
from scoring.model import GangSource
from scoring.model.resources import Resources

LABELS = {NAME_LABEL: "g", MIN_AVAILABLE_LABEL: "4"}
RIGHT: dict[str, tuple[tuple[str, GangSource, int | None], dict[str, Any]]] = {
    # case: ((key, source, min_available), arguments)
    "native": (("ns/n", GangSource.NATIVE, None), {"labels": LABELS, "annotations": {}, "native_group": "n"}),
    "pod group": (("ns/g", GangSource.POD_GROUP, None), {"labels": {POD_GROUP_LABEL: "g"}, "annotations": {}}),
    "labels": (("ns/g", GangSource.LABELS, 4), {"labels": LABELS, "annotations": {NAME_ANNOTATIONS[0]: "other"}}),
    "pod group before labels": (
        ("ns/g", GangSource.POD_GROUP, None),
        {"labels": LABELS | {POD_GROUP_LABEL: "g"}, "annotations": {}},
    ),
    "annotation": (("ns/v", GangSource.ANNOTATION, None), {"labels": {}, "annotations": {NAME_ANNOTATIONS[0]: "v"}}),
    "Volcano's annotations": (
        ("ns/v", GangSource.ANNOTATION, 3),
        {"labels": {}, "annotations": {NAME_ANNOTATIONS[1]: "v", MIN_MEMBER_ANNOTATIONS[1]: "3"}},
    ),
}


@pytest.mark.parametrize(("want", "arguments"), RIGHT.values(), ids=RIGHT)
def test_sources(want: tuple[str, GangSource, int | None], arguments: dict[str, Any]) -> None:
    """Each source is recognised, in the documented order, and has no problem."""
    ref = group_of("ns", **arguments)
    assert ref is not None
    assert (*want, None) == (ref.key, ref.source, ref.min_available, ref.problem)


def test_no_group() -> None:
    """A pod with none of the labels is a plain pod."""
    assert None is group_of("ns", {"app": "x"}, {"note": "y"})


WRONG: dict[str, tuple[str, dict[str, str], dict[str, str]]] = {
    # case: (what the problem must name, labels, annotations)
    "no min": (MIN_AVAILABLE_LABEL, {NAME_LABEL: "g"}, {}),
    "no name": (NAME_LABEL, {MIN_AVAILABLE_LABEL: "4"}, {}),
    "empty name": (NAME_LABEL, {NAME_LABEL: "", MIN_AVAILABLE_LABEL: "4"}, {}),
    "min not a number": ("'four'", {NAME_LABEL: "g", MIN_AVAILABLE_LABEL: "four"}, {}),
    "min zero": ("'0'", {NAME_LABEL: "g", MIN_AVAILABLE_LABEL: "0"}, {}),
    "min negative": ("'-1'", {NAME_LABEL: "g", MIN_AVAILABLE_LABEL: "-1"}, {}),
    "min a fraction": ("'1.5'", {NAME_LABEL: "g", MIN_AVAILABLE_LABEL: "1.5"}, {}),
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


@given(st.text(max_size=12))
def test_min_available_is_a_positive_number_or_a_problem(text: str) -> None:
    """Whatever stands in the label: either the number is taken as it is, or the pod says what is wrong."""
    ref = group_of("ns", {NAME_LABEL: "g", MIN_AVAILABLE_LABEL: text}, {})
    assert ref is not None
    assert (ref.min_available is None) != (ref.problem is None)
    if ref.min_available is not None:
        assert ref.min_available == int(text) > 0


def test_pods_carry_their_group() -> None:
    """The group is read from labels or from spec.schedulingGroup; equal references are one object."""
    labelled = {"metadata": {"name": "p", "namespace": "ns", "labels": LABELS}}
    pods = [pod_from_json(json.dumps(labelled).encode()) for _ in range(2)]
    assert pods[0].group is pods[1].group
    assert pods[0].group is not None
    assert pods[0].group.key == "ns/g"
    native = labelled | {"spec": {"schedulingGroup": {"podGroupName": "n"}}}
    group = pod_from_json(json.dumps(native).encode()).group
    assert group is not None
    assert GangSource.NATIVE is group.source


def test_pod_group() -> None:
    """A coscheduling PodGroup: minimum, time-out, resources, creation."""
    raw = {
        "metadata": {"name": "g", "namespace": "ns", "creationTimestamp": "1970-01-01T00:01:00Z"},
        "spec": {"minMember": 3, "scheduleTimeoutSeconds": 90, "minResources": {"cpu": "6"}},
        "status": {"phase": "Pending"},
    }
    group = pod_group_from_json(json.dumps(raw).encode())
    assert (group.key, group.min_member, group.created_s, group.schedule_timeout_s) == ("ns/g", 3, 60.0, 90.0)
    assert Resources.parse({"cpu": 6}) == group.min_resources


MINIMUMS: dict[str, tuple[int, dict[str, Any] | None]] = {
    # case: (min_member, spec)
    "gang": (5, {"schedulingPolicy": {"gang": {"minCount": 5}}}),
    "basic": (1, {"schedulingPolicy": {"basic": {}}}),
    "missing": (0, {}),
    "no spec": (0, None),
}


@pytest.mark.parametrize(("want", "spec"), MINIMUMS.values(), ids=MINIMUMS)
def test_minimum_of_pod_groups(want: int, spec: dict[str, Any] | None) -> None:
    """Native PodGroups have minCount; a missing minimum is 0, which the cache refuses."""
    assert want == pod_group_from_json(json.dumps({"metadata": {"name": "g"}, "spec": spec}).encode()).min_member


def test_timeout_of_zero_is_none() -> None:
    """mpi-operator writes 0 when its user asked for nothing."""
    raw = b'{"metadata": {"name": "g"}, "spec": {"minMember": 1, "scheduleTimeoutSeconds": 0}}'
    assert None is pod_group_from_json(raw).schedule_timeout_s


def test_bad_pod_group() -> None:
    """A bad quantity names the PodGroup and the field."""
    with pytest.raises(ValueError, match=r"PodGroup default/g: spec\.minResources: cpu: 'x'"):
        pod_group_from_json(b'{"metadata": {"name": "g"}, "spec": {"minMember": 1, "minResources": {"cpu": "x"}}}')
