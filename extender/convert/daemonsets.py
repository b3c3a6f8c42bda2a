"""DaemonSets: raw JSON → `scoring.model.DaemonSet`.

The template is read as a pod, with the tolerations of the controller (AddOrUpdateDaemonPodTolerations).
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from extender.convert.decode import NO_RAW, Json, Metadata, decode, seconds
from extender.convert.pod.member_class import template_class
from scoring.ids import Namespace
from scoring.model import DaemonSet, Toleration

_NODE: Final = "node.kubernetes.io/"
_ADDED: Final = (
    *(Toleration(f"{_NODE}{key}", "Exists", "", "NoExecute") for key in ("not-ready", "unreachable")),
    *(
        Toleration(f"{_NODE}{key}", "Exists", "", "NoSchedule")
        for key in ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
    ),
)
_ADDED_ON_HOST: Final = Toleration(f"{_NODE}network-unavailable", "Exists", "", "NoSchedule")


class _Template(Json):
    spec: msgspec.Raw = NO_RAW


class _Spec(Json):
    template: _Template | None = None


class _DaemonSet(Json):
    metadata: Metadata
    spec: _Spec | None = None


_daemon_set = msgspec.json.Decoder(_DaemonSet)


def daemon_set_from_json(raw: bytes | msgspec.Raw) -> DaemonSet:
    """Read an apps/v1 DaemonSet. ValueError names the field that is wrong."""
    read = decode(_daemon_set, raw, what="DaemonSet")
    meta, namespace = read.metadata, read.metadata.namespace or "default"
    template = read.spec.template.spec if read.spec is not None and read.spec.template is not None else NO_RAW
    try:
        member_class, on_host = template_class(namespace, template)
    except ValueError as error:
        raise ValueError(f"DaemonSet {namespace}/{meta.name}: {error}") from error
    limits = member_class.constraints
    tolerations = {*limits.tolerations, *_ADDED, *((_ADDED_ON_HOST,) if on_host else ())}
    ordered = tuple(sorted(tolerations, key=lambda one: (one.key, one.operator, one.value, one.effect)))
    return DaemonSet(
        namespace=Namespace(namespace),
        name=meta.name,
        identity=f"{namespace}/{meta.uid or meta.name}",
        member_class=replace(member_class, constraints=replace(limits, tolerations=ordered)),
        created_s=seconds(meta.creation_timestamp),
        deleting=meta.deletion_timestamp is not None,
    )
