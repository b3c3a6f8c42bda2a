"""Nodes: raw JSON → `scoring.model.Node`.

Rules: heartbeats and image lists leave no trace in the record. A node without a Ready condition counts as ready, as
kube-scheduler looks at taints only and test beds often have none.
"""

from sys import intern

import msgspec

from extender.convert.decode import Json, Metadata, Quantities, decode, seconds, shared
from scoring.ids import NodeName, ZoneName
from scoring.model import Node, Resources, Taint

ZONE_LABEL = "topology.kubernetes.io/zone"
ENDPOINT_ANNOTATIONS = "netgang.io/endpoint"  # Prefix of annotations such as netgang.io/endpoint-loss
LEAVING_TAINTS = frozenset(  # Taints that say a node is about to go (docs/safety.md S12)
    {
        "node.kubernetes.io/out-of-service",
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",  # its name before Karpenter 1.0
    }
)


class _Taint(Json):
    key: str
    effect: str = ""
    value: str | None = None


class _Spec(Json):
    taints: list[_Taint] | None = None
    unschedulable: bool | None = None


class _Condition(Json):
    type: str
    status: str


class _Address(Json):
    address: str


class _Status(Json):
    allocatable: Quantities | None = None
    capacity: Quantities | None = None
    conditions: list[_Condition] | None = None
    addresses: list[_Address] | None = None


class _Node(Json):
    metadata: Metadata
    spec: _Spec | None = None
    status: _Status | None = None


_node = msgspec.json.Decoder(_Node)


def node_from_json(raw: bytes | msgspec.Raw, *, zone_label: str = ZONE_LABEL) -> Node:
    """Read a v1.Node; without allocatable the capacity counts. ValueError names the field that is wrong."""
    read = decode(_node, raw, what="Node")
    meta, spec, status = read.metadata, read.spec or _Spec(), read.status or _Status()
    labels = meta.labels or {}
    taints = tuple(Taint(intern(t.key), t.value or "", t.effect) for t in spec.taints or ())
    return Node(
        name=NodeName(intern(meta.name)),
        zone=ZoneName(intern(labels.get(zone_label, ""))),
        allocatable=_allocatable(meta.name, status),
        labels=tuple(sorted((intern(key), intern(value)) for key, value in labels.items())),
        taints=taints,
        unschedulable=bool(spec.unschedulable),
        ready=all(one.status == "True" for one in status.conditions or () if one.type == "Ready"),
        leaving=meta.deletion_timestamp is not None or any(taint.key in LEAVING_TAINTS for taint in taints),
        addresses=tuple(dict.fromkeys(one.address for one in status.addresses or ())),
        annotations=tuple(
            sorted((k, v) for k, v in (meta.annotations or {}).items() if k.startswith(ENDPOINT_ANNOTATIONS))
        ),
        created_s=seconds(meta.creation_timestamp),
    )


def _allocatable(name: str, status: _Status) -> Resources:
    field = "capacity" if status.allocatable is None else "allocatable"
    try:
        amounts = Resources.parse((status.capacity if status.allocatable is None else status.allocatable) or {})
    except ValueError as error:
        raise ValueError(f"Node {name}: status.{field}: {error}") from error
    for resource, value in amounts:
        if value < 0:
            raise ValueError(f"Node {name}: status.{field}: {resource}: is negative")
    return shared(amounts)
