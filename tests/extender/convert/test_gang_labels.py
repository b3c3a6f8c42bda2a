"""Gangs are recognised from labels and annotations, without guesses; PodGroups' statuses are read and patched."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.convert import pod as groups
from extender.convert import pod_from_json
from extender.convert.patches import STATUS_FIELDS, status_patch
from extender.convert.pod import MIN_MEMBER_ANNOTATIONS, NAME_ANNOTATIONS, group_of
from extender.convert.podgroups import pod_group_from_json
from scoring.model import GangSource, GroupStatus, PodGroup

LABELS = {groups.NAME_LABEL: "g", groups.MIN_AVAILABLE_LABEL: "4"}
VOLCANO = {NAME_ANNOTATIONS[1]: "v", MIN_MEMBER_ANNOTATIONS[1]: "3"}
RIGHT = {  # case: ((key, source, min_available), labels, annotations, native group)
    "native": (("ns/n", GangSource.NATIVE, None), LABELS, {}, "n"),
    "pod group": (("ns/g", GangSource.POD_GROUP, None), {groups.POD_GROUP_LABEL: "g"}, {}, None),
    "labels": (("ns/g", GangSource.LABELS, 4), LABELS, {NAME_ANNOTATIONS[0]: "other"}, None),
    "pod group before labels": (("ns/g", GangSource.POD_GROUP, None), LABELS | {groups.POD_GROUP_LABEL: "g"}, {}, None),
    "annotation": (("ns/v", GangSource.ANNOTATION, None), {}, {NAME_ANNOTATIONS[0]: "v"}, None),
    "Volcano": (("ns/v", GangSource.ANNOTATION, 3), {}, VOLCANO, None),
}


@pytest.mark.parametrize(("want", "labels", "annotations", "native"), RIGHT.values(), ids=RIGHT)
def test_sources(
    want: tuple[str, GangSource, int | None], labels: dict[str, str], annotations: dict[str, str], native: str | None
) -> None:
    """Each source is recognised, in the documented order, and has no problem; a pod with none is a plain one."""
    spec = {"schedulingGroup": {"podGroupName": native}} if native else None
    metadata = {"name": "p", "namespace": "ns", "labels": labels, "annotations": annotations}
    ref = pod_from_json(json.dumps({"metadata": metadata, "spec": spec}).encode()).group
    assert ref is not None
    assert (*want, None) == (ref.key, ref.source, ref.min_available, ref.problem)
    assert group_of("ns", {"app": "x"}, {"note": "y"}) is None


NAME, LEAST = f"label {groups.NAME_LABEL}", f"label {groups.MIN_AVAILABLE_LABEL}"
OLD, OLD_LEAST = NAME_ANNOTATIONS[0], MIN_MEMBER_ANNOTATIONS[0]
OR_REMOVE, WHOLE = "name the group, or remove", "it must be a whole number of at least 1"
WRONG = {  # case: (what is wrong and the way out, labels, annotations)
    "no min": (f"{LEAST} is missing: set it to how many pods must start together", {groups.NAME_LABEL: "g"}, {}),
    "no name": (f"{NAME} is missing: {OR_REMOVE} {LEAST}", {groups.MIN_AVAILABLE_LABEL: "4"}, {}),
    "empty name": (f"{NAME} is empty: {OR_REMOVE} {LEAST}", LABELS | {groups.NAME_LABEL: ""}, {}),
    **{
        f"min {text}": (f"{LEAST} is '{text}': {WHOLE}, such as \"4\"", LABELS | {groups.MIN_AVAILABLE_LABEL: text}, {})
        for text in ("four", "0", "-1", "４", "99999999999")
    },
    "empty pod group": (
        f"label {groups.POD_GROUP_LABEL} is empty: name the PodGroup, or remove the label",
        {groups.POD_GROUP_LABEL: ""}, {}),
    "two groups": (
        f"labels {groups.POD_GROUP_LABEL} (h) and {groups.NAME_LABEL} (g) name different groups: keep one of them",
        LABELS | {groups.POD_GROUP_LABEL: "h"}, {}),
    "empty annotation": (f"annotation {OLD} is empty: {OR_REMOVE} the annotation", {}, {OLD: ""}),
    "bad annotation": (f"annotation {OLD_LEAST} is 'x': {WHOLE}", {}, {OLD: "g", OLD_LEAST: "x"}),
}  # fmt: skip


@pytest.mark.parametrize(("named", "labels", "annotations"), WRONG.values(), ids=WRONG)
def test_problems(named: str, labels: dict[str, str], annotations: dict[str, str]) -> None:
    """A bad or contradictory group is a group with a problem that names what to change, never a plain pod."""
    ref = group_of("ns", labels, annotations)
    assert ref is not None
    assert ref.problem == named


@given(st.text(max_size=12) | st.sampled_from(["0", "-1", "1.5"]))
def test_min_available_is_a_positive_number_or_a_problem(text: str) -> None:
    ref = group_of("ns", {groups.NAME_LABEL: "g", groups.MIN_AVAILABLE_LABEL: text}, {})
    assert ref is not None
    assert (ref.min_available is None) != (ref.problem is None)
    if ref.min_available is not None:
        assert ref.min_available == int(text) > 0


METADATA: dict[str, Any] = {"name": "g", "namespace": "team", "uid": "u1", "resourceVersion": "7"}
WRITERS_SEEN = [{"manager": "kubectl", "operation": "Apply"}, {"manager": "netgang", "subresource": "status"}]
STATUS = {"phase": "Running", "running": 2, "succeeded": 1, "occupiedBy": "team/job"}
FULL: dict[str, Any] = {
    "metadata": METADATA | {"managedFields": WRITERS_SEEN},
    "spec": {"minMember": 3},
    "status": STATUS | {"scheduleStartTime": "1970-01-01T00:01:40Z"},
}


def read(**changes: Any) -> PodGroup:
    return pod_group_from_json(json.dumps({**FULL, **changes}).encode())


SPECS = {  # case: ((min_member, schedule_timeout_s), spec)
    "coscheduling's": ((3, 90.0), {"minMember": 3, "scheduleTimeoutSeconds": 90}),
    "a native gang's minCount": ((5, None), {"schedulingPolicy": {"gang": {"minCount": 5}}}),
    "a native group without a gang": ((1, None), {"schedulingPolicy": {"basic": {}}}),
    "a minimum that is missing, which the cache refuses": ((0, None), {}),
    "no spec": ((0, None), None),
    "a time-out of 0, as mpi-operator writes it": ((1, None), {"minMember": 1, "scheduleTimeoutSeconds": 0}),
}


@pytest.mark.parametrize(("want", "spec"), SPECS.values(), ids=SPECS)
def test_what_decides(want: tuple[int, float | None], spec: dict[str, Any] | None) -> None:
    """Minimum and time-out of all three kinds, and when it was created."""
    raw = {"metadata": {"name": "g", "creationTimestamp": "1970-01-01T00:01:00Z"}, "spec": spec}
    group = pod_group_from_json(json.dumps(raw).encode())
    assert (group.key, group.created_s, group.min_member, group.schedule_timeout_s) == ("default/g", 60.0, *want)


def test_what_is_read() -> None:
    seen = read()
    assert seen.status == GroupStatus("Running", 0, 2, 1, 0, "team/job", 100)
    assert (seen.uid, seen.resource_version, seen.ours, seen.other_writer) == ("u1", "7", True, "")
    for none in (None, {}, {"scheduleStartTime": None, "phase": None}):  # the last: as a Go client writes zero values
        assert read(status=none).status == GroupStatus()


def test_who_wrote() -> None:
    """By field manager, of the status alone."""
    for writers, other in (((), ""), (("netgang",), ""), (("x",), "x"), (("netgang", "x"), "x")):
        fields = [{"manager": name, "subresource": "status"} for name in writers]
        seen = read(metadata=METADATA | {"managedFields": fields})
        assert (seen.ours, seen.other_writer) == ("netgang" in writers, other)


def test_a_status_that_cannot_be_read_names_the_field() -> None:
    with pytest.raises(ValueError, match=r"PodGroup team/g: spec\.minResources: cpu: 'x'"):
        read(spec={"minMember": 1, "minResources": {"cpu": "x"}})
    with pytest.raises(ValueError, match=r"PodGroup: .*status\.running"):
        read(status={"running": "two"})


def test_a_patch_has_what_differs() -> None:
    assert status_patch(read(), read().status, only=STATUS_FIELDS) is None
    patch = status_patch(read(), GroupStatus("Pending", running=2, failed=1), only=STATUS_FIELDS)
    assert patch is not None
    assert json.loads(patch) == {
        "metadata": {"uid": "u1", "resourceVersion": "7"},
        "status": {"phase": "Pending", "succeeded": 0, "failed": 1, "occupiedBy": None, "scheduleStartTime": None},
    }
    only = status_patch(read(), GroupStatus("Pending", failed=1), only=frozenset({"phase", "running"}))
    assert json.loads(only or b"")["status"] == {"phase": "Pending", "running": 0}
