"""PodGroups of all three kinds: raw JSON → `scoring.model.PodGroup`.

scheduling.x-k8s.io/v1alpha1 (coscheduling) and scheduling.volcano.sh/v1beta1 have `minMember`; the native
scheduling.k8s.io has `schedulingPolicy.gang.minCount`. A status decides nothing: writing it changes no plan.
"""

from datetime import datetime

import msgspec

from extender.convert.decode import Json, Metadata, Quantities, decode, seconds
from scoring.model import GroupStatus, PodGroup, Resources
from scoring.model.gang import gang_key
from scoring.model.pod import MOST_RESOURCES


class _Gang(Json):
    min_count: int | None = None


class _Policy(Json):
    gang: _Gang | None = None


class _GroupSpec(Json):
    min_member: int | None = None
    schedule_timeout_seconds: float | None = None
    min_resources: Quantities | None = None
    scheduling_policy: _Policy | None = None


class _Managed(Json):  # Of `metadata.managedFields`: the last writer, and to which subresource
    manager: str = ""
    subresource: str = ""


class _WrittenMetadata(Metadata):
    managed_fields: list[_Managed] | None = None


class _GroupStatus(Json):
    phase: str | None = None
    scheduled: int | None = None
    running: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    occupied_by: str | None = None
    schedule_start_time: datetime | None = None


class _PodGroup(Json):
    metadata: _WrittenMetadata
    spec: _GroupSpec | None = None
    status: _GroupStatus | None = None


STATUS_WRITER = "netgang"  # Our name in `metadata.managedFields`, as field manager of statuses
_TEXT_CHARS = 253
_MOST_MEMBERS = 2**31 - 1  # What the definition's int32 holds, whichever definition is installed
_LONGEST_S = 2.0**31
_pod_group = msgspec.json.Decoder(_PodGroup)


def pod_group_from_json(raw: bytes | msgspec.Raw) -> PodGroup:
    """Read a PodGroup of any kind. ValueError names the field that is wrong.

    A time-out of 0 is none: mpi-operator writes 0 when its user asked for nothing.
    """
    read = decode(_pod_group, raw, what="PodGroup")
    metadata, spec, status = read.metadata, read.spec or _GroupSpec(), read.status or _GroupStatus()
    key = gang_key(metadata.namespace or "default", metadata.name)
    try:
        least = Resources.parse(spec.min_resources or {})  # decides nothing, but what is nonsense is said
    except ValueError as error:
        raise ValueError(f"PodGroup {key}: spec.minResources: {error}") from error
    if len(least.items) > MOST_RESOURCES:
        raise ValueError(f"PodGroup {key}: spec.minResources: more than {MOST_RESOURCES} resources")
    # `minMember`, else the native gang's minCount; missing it is 0, and the cache refuses the gang
    minimum, policy = spec.min_member, spec.scheduling_policy
    if minimum is None and policy is not None:  # the basic policy needs no more than one
        minimum = policy.gang.min_count if policy.gang is not None else 1
    timeout_s, start = spec.schedule_timeout_seconds, status.schedule_start_time
    writers = [entry.manager for entry in metadata.managed_fields or () if entry.subresource == "status"]
    return PodGroup(
        key=key,
        min_member=min(minimum or 0, _MOST_MEMBERS),
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
