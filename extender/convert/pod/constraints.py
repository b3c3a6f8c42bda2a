"""Where a pod may go: node selector, required node affinity, tolerations, host ports.

Rule: only what `scoring.feasibility.filters` models is read; `unmodelled_constraints` names the other required ones
(docs/safety.md S6, S7). The inputs are raw JSON parts, so that pods of one template share the result.
"""

from sys import intern
from typing import NamedTuple

import msgspec

from extender.convert.decode import NO_RAW, Json, decode, given
from scoring.feasibility.filters import named_only
from scoring.model import Constraints, HostPort, NodeSelectorTerm, Requirement, Toleration
from scoring.model.pod import DEVICE_CLAIMS

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - the API's word for "every address"; nothing is bound here


class ConstraintParts(NamedTuple):
    """Raw JSON of the parts of a pod's spec that limit where it may go."""

    node_selector: bytes = b""
    affinity: bytes = b""
    tolerations: bytes = b""
    ports: tuple[bytes, ...] = ()  # `ports` of each container and sidecar that has any
    host_network: bool = False
    claims: tuple[str, ...] = ()  # `namespace/name` of the volume claims it mounts


class _Requirement(Json):
    key: str
    operator: str
    values: list[str] | None = None


class _Term(Json):
    match_expressions: list[_Requirement] | None = None
    match_fields: list[_Requirement] | None = None


class _Required(Json):
    node_selector_terms: list[_Term] | None = None


class _NodeAffinity(Json):
    required_during_scheduling_ignored_during_execution: _Required | None = None


class _Among(Json):
    required_during_scheduling_ignored_during_execution: list[msgspec.Raw] | None = None


class _Affinity(Json):
    node_affinity: _NodeAffinity | None = None
    pod_affinity: _Among | None = None
    pod_anti_affinity: _Among | None = None


class _Toleration(Json):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class _Port(Json):
    container_port: int = 0
    host_port: int | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")
    protocol: str | None = None


class _Claim(Json):
    claim_name: str = ""


class _Volume(Json):
    persistent_volume_claim: _Claim | None = None
    ephemeral: msgspec.Raw = NO_RAW


class _Spread(Json):
    when_unsatisfiable: str = "DoNotSchedule"


_selector = msgspec.json.Decoder(dict[str, str])
_affinity = msgspec.json.Decoder(_Affinity)
_tolerations = msgspec.json.Decoder(list[_Toleration])
_ports = msgspec.json.Decoder(list[_Port])
_volumes = msgspec.json.Decoder(list[_Volume])
_spreads = msgspec.json.Decoder(list[_Spread])
_raws = msgspec.json.Decoder(list[msgspec.Raw])


def constraints(parts: ConstraintParts) -> Constraints:
    """Build the constraints. ValueError names the field that cannot be read.

    >>> constraints(ConstraintParts(node_selector=b'{"disk": "ssd"}')).node_selector
    (('disk', 'ssd'),)
    """
    selector = decode(_selector, parts.node_selector, what="spec.nodeSelector") if parts.node_selector else {}
    return Constraints(
        node_selector=tuple(sorted(selector.items())),
        affinity=_required_terms(parts.affinity),
        tolerations=_tolerated(parts.tolerations),
        host_ports=_host_ports(parts),
        claims=parts.claims,
    )


def pinned_node(limits: Constraints) -> str | None:
    """The one node that required affinity by matchFields metadata.name leaves, as DaemonSet pods have it."""
    named = named_only(limits)
    return named.pop() if named is not None and len(named) == 1 else None


def _required_terms(raw: bytes) -> tuple[NodeSelectorTerm, ...] | None:
    node_affinity = decode(_affinity, raw, what="spec.affinity").node_affinity if raw else None
    required = node_affinity and node_affinity.required_during_scheduling_ignored_during_execution
    if not required:
        return None
    return tuple(
        NodeSelectorTerm(_requirements(term.match_expressions), _requirements(term.match_fields))
        for term in required.node_selector_terms or ()
    )


def _requirements(listed: list[_Requirement] | None) -> tuple[Requirement, ...]:
    """The names of nodes among them are the nodes' own."""
    return tuple(
        Requirement(intern(one.key), intern(one.operator), tuple([intern(value) for value in one.values or ()]))
        for one in listed or ()
    )


def _tolerated(raw: bytes) -> tuple[Toleration, ...]:
    listed = decode(_tolerations, raw, what="spec.tolerations") if raw else []
    read = {Toleration(t.key or "", t.operator or "Equal", t.value or "", t.effect or "") for t in listed}
    return tuple(sorted(read, key=lambda t: (t.key, t.operator, t.value, t.effect)))


def _host_ports(parts: ConstraintParts) -> tuple[HostPort, ...]:
    """Host ports as kube-scheduler counts them; with hostNetwork a container port is a host port (API defaults)."""
    found: set[HostPort] = set()
    for raw in parts.ports:
        for port in decode(_ports, raw, what="spec.containers[].ports"):
            number = port.host_port or (port.container_port if parts.host_network else 0)
            if number > 0:
                found.add(HostPort(port.protocol or "TCP", port.host_ip or EVERY_ADDRESS, number))
    return tuple(sorted(found, key=lambda p: (p.protocol, p.ip, p.port)))


def claim_names(namespace: str, volumes: bytes) -> tuple[str, ...]:
    """`namespace/name` of the claims among `spec.volumes`, sorted; most pods have none, and are not decoded.

    >>> claim_names("team", b'[{"name": "x", "emptyDir": {}}, {"persistentVolumeClaim": {"claimName": "data"}}]')
    ('team/data',)
    """
    if b"persistentVolumeClaim" not in volumes:
        return ()
    listed = decode(_volumes, volumes, what="spec.volumes")
    return tuple(
        sorted(f"{namespace}/{v.persistent_volume_claim.claim_name}" for v in listed if v.persistent_volume_claim)
    )


def unmodelled_constraints(affinity: bytes, volumes: bytes, resource_claims: bytes, spreads: bytes) -> tuple[str, ...]:
    """Fields of these parts of a spec by which kube-scheduler may refuse a node that we allow (docs/safety.md S6)."""
    around = decode(_affinity, affinity, what="spec.affinity") if b'"podA' in affinity else _Affinity()
    mounted = any(mark in volumes for mark in (b'"persistentVolumeClaim"', b'"ephemeral"'))  # most pods have neither
    listed = decode(_volumes, volumes, what="spec.volumes") if mounted else []
    spread = decode(_spreads, spreads, what="spec.topologySpreadConstraints") if spreads else []
    held = {
        "persistentVolumeClaim": any(one.persistent_volume_claim for one in listed),
        "ephemeral": any(given(one.ephemeral) for one in listed),
        DEVICE_CLAIMS: bool(resource_claims) and bool(decode(_raws, resource_claims, what="spec.resourceClaims")),
        "podAffinity": bool(
            around.pod_affinity and around.pod_affinity.required_during_scheduling_ignored_during_execution
        ),
        "podAntiAffinity": bool(
            around.pod_anti_affinity and around.pod_anti_affinity.required_during_scheduling_ignored_during_execution
        ),
        "topologySpreadConstraints": any(one.when_unsatisfiable == "DoNotSchedule" for one in spread),
    }
    return tuple(name for name, there in held.items() if there)
