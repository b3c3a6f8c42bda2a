"""Nodes, and the DaemonSets that have a pod on each: raw JSON → `scoring.model`.

Rules: heartbeats and image lists leave no trace in the record. A node without a Ready condition counts as ready, as
kube-scheduler looks at taints only and test beds often have none. A DaemonSet's template is read as a pod, with the
tolerations of the controller (AddOrUpdateDaemonPodTolerations).
"""

from datetime import datetime
from sys import intern
from typing import Final

import msgspec
from msgspec.structs import astuple, replace

from extender.convert.decode import Json, Metadata, Quantities, decode, seconds, shared
from extender.convert.pod_requests import PodSpec, PodStatus, class_of
from scoring import Namespace, NodeName, ZoneName
from scoring.model import DaemonSet, Node, Resources, Role, Taint, Toleration
from scoring.network.node_links import NETWORK_DEGRADED, NodeMark

ZONE_LABEL = "topology.kubernetes.io/zone"
ENDPOINT_ANNOTATIONS = "netgang.io/endpoint"  # Prefix of annotations such as netgang.io/endpoint-loss
_LEAVING_TAINTS = (  # Taints that say a node is about to go (docs/safety.md S12); the last: before Karpenter 1.0
    "node.kubernetes.io/out-of-service", "ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
)  # fmt: skip


class _Taint(Json):
    key: str
    effect: str = ""
    value: str | None = None


class _NodeSpec(Json):
    taints: list[_Taint] | None = None
    unschedulable: bool | None = None


class _Entry(Json):  # A condition, or an address
    type: str = ""
    status: str = ""
    address: str = ""
    last_transition_time: datetime | None = None


class _NodeStatus(Json):
    allocatable: Quantities | None = None
    capacity: Quantities | None = None
    conditions: list[_Entry] | None = None
    addresses: list[_Entry] | None = None


class _Node(Json):
    metadata: Metadata
    spec: _NodeSpec | None = None
    status: _NodeStatus | None = None


_node = msgspec.json.Decoder(_Node)


def node_from_json(raw: bytes | msgspec.Raw, *, zone_label: str = ZONE_LABEL) -> Node:
    """Read a v1.Node; without allocatable the capacity counts. ValueError names the field that is wrong."""
    read = decode(_node, raw, what="Node")
    meta, spec, status = read.metadata, read.spec or _NodeSpec(), read.status or _NodeStatus()
    labels, annotations = meta.labels or {}, meta.annotations or {}
    field = "capacity" if status.allocatable is None else "allocatable"
    try:
        allocatable = Resources.parse(getattr(status, field) or {})
        if negative := [resource for resource, value in allocatable if value < 0]:
            raise ValueError(f"{negative[0]}: is negative")
    except ValueError as error:
        raise ValueError(f"Node {meta.name}: status.{field}: {error}") from error
    taints = tuple(Taint(intern(t.key), t.value or "", t.effect) for t in spec.taints or ())
    ours = [condition for condition in status.conditions or () if condition.type == NETWORK_DEGRADED]
    return Node(
        name=NodeName(intern(meta.name)),
        zone=ZoneName(intern(labels.get(zone_label, ""))),
        allocatable=shared(allocatable),
        labels=tuple(sorted((intern(key), intern(value)) for key, value in labels.items())),
        taints=taints,
        unschedulable=bool(spec.unschedulable),
        ready=all(condition.status == "True" for condition in status.conditions or () if condition.type == "Ready"),
        leaving=meta.deletion_timestamp is not None or any(taint.key in _LEAVING_TAINTS for taint in taints),
        addresses=tuple(dict.fromkeys(address.address for address in status.addresses or () if address.address)),
        annotations=tuple(sorted(pair for pair in annotations.items() if pair[0].startswith(ENDPOINT_ANNOTATIONS))),
        created_s=seconds(meta.creation_timestamp),
        mark=NodeMark(ours[0].status == "True", seconds(ours[0].last_transition_time)) if ours else None,
    )


_NO_SCHEDULE: Final = ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable", "network-unavailable")
_ADDED: Final = tuple(
    Toleration(f"node.kubernetes.io/{key}", "Exists", "", effect)
    for effect, keys in (("NoExecute", ("not-ready", "unreachable")), ("NoSchedule", _NO_SCHEDULE))
    for key in keys
)  # The last one only for pods in the host's network


class _Template(Json):
    spec: PodSpec | None = None


class _DaemonSetSpec(Json):
    template: _Template | None = None


class _DaemonSet(Json):
    metadata: Metadata
    spec: _DaemonSetSpec | None = None


_daemon_set = msgspec.json.Decoder(_DaemonSet)


def daemon_set_from_json(raw: bytes | msgspec.Raw) -> DaemonSet:
    """Read an apps/v1 DaemonSet. ValueError names the field that is wrong."""
    read = decode(_daemon_set, raw, what="DaemonSet")
    meta, namespace = read.metadata, read.metadata.namespace or "default"
    template = read.spec.template if read.spec is not None else None
    pod = (template and template.spec) or PodSpec()
    try:
        member_class = class_of(namespace, Role.OTHER, pod, PodStatus(), lineage="", size_bytes=len(raw))
    except ValueError as error:
        raise ValueError(f"DaemonSet {namespace}/{meta.name}: spec.template: {error}") from error
    limits = member_class.constraints
    tolerations = {*limits.tolerations, *(_ADDED if pod.host_network else _ADDED[:-1])}
    limits = replace(limits, tolerations=tuple(sorted(tolerations, key=astuple)))
    return DaemonSet(
        namespace=Namespace(namespace),
        name=meta.name,
        identity=f"{namespace}/{meta.uid or meta.name}",
        member_class=replace(member_class, constraints=limits),
        created_s=seconds(meta.creation_timestamp),
        deleting=meta.deletion_timestamp is not None,
    )
