"""PodGroups of all three kinds: raw JSON → `scoring.model.PodGroup`.

scheduling.x-k8s.io/v1alpha1 (coscheduling) and scheduling.volcano.sh/v1beta1 have `minMember`; the native
scheduling.k8s.io has `schedulingPolicy.gang.minCount`. A minimum that is missing is 0 here, and the cache refuses the
gang. A status decides nothing: writing it changes no plan.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from extender.convert.decode import Json, Metadata, Quantities, decode, seconds
from scoring.ids import gang_key
from scoring.model import GroupStatus, PodGroup, Resources
from scoring.model.resources import MOST_RESOURCES


class _Gang(Json):
    min_count: int | None = None


class _Policy(Json):
    gang: _Gang | None = None


class _Spec(Json):
    min_member: int | None = None
    schedule_timeout_seconds: float | None = None
    min_resources: Quantities | None = None
    scheduling_policy: _Policy | None = None


class _Managed(Json):
    """One of `metadata.managedFields`: the last writer, and to which subresource."""

    manager: str = ""
    subresource: str = ""


class _WrittenMetadata(Metadata):
    managed_fields: list[_Managed] | None = None


class _Status(Json):
    phase: str | None = None
    scheduled: int | None = None
    running: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    occupied_by: str | None = None
    schedule_start_time: datetime | None = None


class _PodGroup(Json):
    metadata: _WrittenMetadata
    spec: _Spec | None = None
    status: _Status | None = None


_TEXT_CHARS = 253
_MOST_MEMBERS = 2**31 - 1  # What the definition's int32 holds, whichever definition is installed
_LONGEST_S = 2.0**31
_pod_group = msgspec.json.Decoder(_PodGroup)

STATUS_WRITER = "netgang"  # Our name in `metadata.managedFields`, as field manager of statuses


def pod_group_from_json(raw: bytes | msgspec.Raw) -> PodGroup:
    """Read a PodGroup of any kind. ValueError names the field that is wrong.

    A time-out of 0 is none: mpi-operator writes 0 when its user asked for nothing.
    """
    read = decode(_pod_group, raw, what="PodGroup")
    metadata, spec, status = read.metadata, read.spec or _Spec(), read.status or _Status()
    key = gang_key(metadata.namespace or "default", metadata.name)
    try:
        least = Resources.parse(spec.min_resources or {})  # decides nothing, but what is nonsense is said
    except ValueError as error:
        raise ValueError(f"PodGroup {key}: spec.minResources: {error}") from error
    if len(least.items) > MOST_RESOURCES:
        raise ValueError(f"PodGroup {key}: spec.minResources: more than {MOST_RESOURCES} resources")
    timeout_s, start = spec.schedule_timeout_seconds, status.schedule_start_time
    writers = [one.manager for one in metadata.managed_fields or () if one.subresource == "status"]
    return PodGroup(
        key=key,
        min_member=min(_minimum(spec), _MOST_MEMBERS),
        created_s=seconds(metadata.creation_timestamp),
        schedule_timeout_s=min(timeout_s, _LONGEST_S) if timeout_s is not None and timeout_s > 0 else None,
        uid=metadata.uid or "",
        resource_version=metadata.resource_version or "",
        status=GroupStatus(
            phase=(status.phase or "")[:_TEXT_CHARS],
            scheduled=status.scheduled or 0,
            running=status.running or 0,
            succeeded=status.succeeded or 0,
            failed=status.failed or 0,
            occupied_by=(status.occupied_by or "")[:_TEXT_CHARS],
            schedule_start_s=int(seconds(start)) if start is not None else None,
        ),
        ours=STATUS_WRITER in writers,
        other_writer=next((name for name in sorted(writers) if name != STATUS_WRITER), "")[:_TEXT_CHARS],
    )


def _minimum(spec: _Spec) -> int:
    """`minMember`, else the native gang's minCount; a native group with the basic policy needs no more than one."""
    policy = spec.scheduling_policy
    if spec.min_member is not None or policy is None:
        return spec.min_member or 0
    return (policy.gang.min_count or 0) if policy.gang is not None else 1


def status_patch(seen: PodGroup, wanted: GroupStatus, *, only: frozenset[str]) -> bytes | None:
    """A merge patch that makes the fields `only` (names of `GroupStatus`) as wanted; `None`: they are so already.

    It names the uid and the version that were seen: a PodGroup that changed since, or was replaced, is left alone.

    >>> group = PodGroup(gang_key("team", "g"), 2, uid="u1", resource_version="7")
    >>> status_patch(group, GroupStatus(phase="Pending", failed=1), only=frozenset({"phase", "scheduled"}))
    b'{"metadata":{"uid":"u1","resourceVersion":"7"},"status":{"phase":"Pending"}}'
    >>> status_patch(group, GroupStatus(), only=STATUS_FIELDS) is None
    True
    """
    now, then = _written(seen.status), _written(wanted)
    changed = {_JSON_NAMES.get(name, name): then[name] for name in then if name in only and now[name] != then[name]}
    if not changed:
        return None
    metadata = {"uid": seen.uid, "resourceVersion": seen.resource_version}
    return msgspec.json.encode({"metadata": metadata, "status": changed})


STATUS_FIELDS = frozenset(GroupStatus.__struct_fields__)
_JSON_NAMES: Mapping[str, str] = {"occupied_by": "occupiedBy", "schedule_start_s": "scheduleStartTime"}
"""field of GroupStatus → its name in the PodGroup's status, where that is another one"""


def _written(status: GroupStatus) -> dict[str, Any]:
    """Field → its value in JSON; what a merge patch is to remove is None."""
    start_s = status.schedule_start_s
    start = None if start_s is None else f"{datetime.fromtimestamp(start_s, UTC):%Y-%m-%dT%H:%M:%SZ}"
    texts = {"phase": status.phase or None, "occupied_by": status.occupied_by or None, "schedule_start_s": start}
    return msgspec.structs.asdict(status) | texts
