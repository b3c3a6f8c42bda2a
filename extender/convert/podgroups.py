"""PodGroups of all three kinds: raw JSON → `scoring.model.PodGroup`.

scheduling.x-k8s.io/v1alpha1 (coscheduling) and scheduling.volcano.sh/v1beta1 have `minMember`; the native
scheduling.k8s.io has `schedulingPolicy.gang.minCount`. Rule: a minimum that is missing is 0 here, and the cache refuses
the gang with a sentence for people.
"""

import msgspec

from extender.convert.decode import Json, Metadata, Quantities, decode, seconds
from scoring.ids import gang_key
from scoring.model import PodGroup
from scoring.resources import NO_RESOURCES, Resources


class _Gang(Json):
    min_count: int | None = None


class _Policy(Json):
    gang: _Gang | None = None


class _Spec(Json):
    min_member: int | None = None
    schedule_timeout_seconds: float | None = None
    min_resources: Quantities | None = None
    scheduling_policy: _Policy | None = None


class _PodGroup(Json):
    metadata: Metadata
    spec: _Spec | None = None


_pod_group = msgspec.json.Decoder(_PodGroup)


def pod_group_from_json(raw: bytes | msgspec.Raw) -> PodGroup:
    """Read a PodGroup. ValueError names the field that is wrong.

    A time-out of 0 is none: mpi-operator writes 0 when its user asked for nothing.
    """
    read = decode(_pod_group, raw, what="PodGroup")
    spec = read.spec or _Spec()
    key = gang_key(read.metadata.namespace or "default", read.metadata.name)
    try:
        least = Resources.parse(spec.min_resources) if spec.min_resources else NO_RESOURCES
    except ValueError as error:
        raise ValueError(f"PodGroup {key}: spec.minResources: {error}") from error
    timeout_s = spec.schedule_timeout_seconds
    return PodGroup(
        key=key,
        min_member=_minimum(spec),
        created_s=seconds(read.metadata.creation_timestamp),
        schedule_timeout_s=timeout_s if timeout_s is not None and timeout_s > 0 else None,
        min_resources=least,
    )


def _minimum(spec: _Spec) -> int:
    """`minMember`, else the native gang's minCount; a native group with the basic policy needs no more than one."""
    policy = spec.scheduling_policy
    if spec.min_member is not None or policy is None:
        return spec.min_member or 0
    return (policy.gang.min_count or 0) if policy.gang is not None else 1
