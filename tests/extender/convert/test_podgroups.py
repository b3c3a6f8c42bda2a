"""PodGroups with their status: what is read, and the patch that makes it what it should be."""

import json
from typing import Any

import pytest

from extender.convert import seen_pod_group_from_json
from extender.convert.podgroups import STATUS_FIELDS, SeenPodGroup, pod_group_from_json, status_patch
from scoring.queue.podgroup_status import NO_STATUS, GroupStatus

FULL: dict[str, Any] = {
    "metadata": {
        "name": "g",
        "namespace": "team",
        "uid": "u1",
        "resourceVersion": "7",
        "managedFields": [
            {"manager": "kubectl", "operation": "Apply"},
            {"manager": "netgang", "subresource": "status"},
        ],
    },
    "spec": {"minMember": 3},
    "status": {
        "phase": "Running",
        "running": 2,
        "succeeded": 1,
        "occupiedBy": "team/job",
        "scheduleStartTime": "1970-01-01T00:01:40Z",
    },
}


def read(**changes: Any) -> SeenPodGroup:
    """FULL with other parts."""
    return seen_pod_group_from_json(json.dumps({**FULL, **changes}).encode())


def written_by(*managers: str) -> dict[str, Any]:
    """FULL's metadata with these writers of the status."""
    fields = [{"manager": name, "subresource": "status"} for name in managers]
    return {**FULL["metadata"], "managedFields": fields}


def test_what_is_read() -> None:
    """Status, version and writer; what decides is the same as without."""
    seen = read()
    assert seen.status == GroupStatus("Running", 0, 2, 1, 0, "team/job", 100)
    assert (seen.uid, seen.resource_version, seen.ours, seen.other_writer) == ("u1", "7", True, "")
    assert seen.group == pod_group_from_json(json.dumps(FULL).encode())


@pytest.mark.parametrize("status", [None, {}, {"scheduleStartTime": None, "phase": None}])
def test_no_status(status: Any) -> None:
    """Absent, empty, and as a Go client writes zero values."""
    assert read(status=status).status == NO_STATUS


WRITERS: dict[str, tuple[bool, str, tuple[str, ...]]] = {
    # case: (whether we wrote, who else, all writers)
    "nobody": (False, "", ()),
    "we": (True, "", ("netgang",)),
    "another": (False, "controller", ("controller",)),
    "both": (True, "controller", ("netgang", "controller")),
}


@pytest.mark.parametrize(("ours", "other", "writers"), WRITERS.values(), ids=WRITERS)
def test_who_wrote(ours: bool, other: str, writers: tuple[str, ...]) -> None:
    """By field manager, of the status alone."""
    seen = read(metadata=written_by(*writers))
    assert (seen.ours, seen.other_writer) == (ours, other)


def test_a_status_that_cannot_be_read_names_the_field() -> None:
    """It is an error of that PodGroup, in words."""
    with pytest.raises(ValueError, match=r"PodGroup: .*status\.running"):
        read(status={"running": "two"})


def test_a_patch_has_what_differs() -> None:
    """Counts as numbers, what is to go as null, and the version that was seen."""
    patch = status_patch(read(), GroupStatus("Pending", running=2, failed=1), only=STATUS_FIELDS)
    assert patch is not None
    assert json.loads(patch) == {
        "metadata": {"uid": "u1", "resourceVersion": "7"},
        "status": {"phase": "Pending", "succeeded": 0, "failed": 1, "occupiedBy": None, "scheduleStartTime": None},
    }


def test_what_is_read_back_needs_no_patch() -> None:
    """A status in its JSON form and back is the same status."""
    seen = read()
    assert status_patch(seen, seen.status, only=STATUS_FIELDS) is None
