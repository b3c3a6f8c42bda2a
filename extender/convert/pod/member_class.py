"""The fields of a v1.Pod that are read, and its class: requests, and where pods of its template may go.

All other fields are passed over while it is decoded. Parts that all pods of a template hold alike stay raw bytes: the
class is computed once per template and shared by all its pods, by these bytes.
"""

from functools import lru_cache

import msgspec

from extender.convert.decode import NO_RAW, Json, Metadata, decode, given, shared
from extender.convert.pod.conditions import condition
from extender.convert.pod.constraints import ConstraintParts, claim_names, constraints
from extender.convert.pod.requests import ContainerResources, PodResources, pod_requests
from scoring.model import MemberClass, Role


class Container(Json):
    """Of `spec.containers` and `spec.initContainers`."""

    name: str = ""
    resources: msgspec.Raw = NO_RAW
    ports: msgspec.Raw = NO_RAW
    restart_policy: str | None = None


class Gate(Json):
    """Of `spec.schedulingGates`."""

    name: str


class SchedulingGroup(Json):
    """`spec.schedulingGroup`: Kubernetes' own PodGroup (1.36)."""

    pod_group_name: str | None = None


class PodSpec(Json):
    """`spec`, and `spec.template.spec` of a workload."""

    node_name: str | None = None
    scheduler_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: msgspec.Raw = NO_RAW
    resources: msgspec.Raw = NO_RAW
    node_selector: msgspec.Raw = NO_RAW
    affinity: msgspec.Raw = NO_RAW
    tolerations: msgspec.Raw = NO_RAW
    host_network: bool | None = None
    volumes: msgspec.Raw = NO_RAW
    resource_claims: msgspec.Raw = NO_RAW
    topology_spread_constraints: msgspec.Raw = NO_RAW
    scheduling_gates: list[Gate] | None = None
    scheduling_group: SchedulingGroup | None = None
    active_deadline_seconds: int | float | None = None


class ContainerStatus(Json):
    """Of `status.containerStatuses`: what a container has, which a resize in place changes."""

    name: str = ""
    resources: msgspec.Raw = NO_RAW
    allocated_resources: msgspec.Raw = NO_RAW


class PodStatus(Json):
    """`status`."""

    phase: str | None = None
    nominated_node_name: str | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    conditions: msgspec.Raw = NO_RAW
    resources: msgspec.Raw = NO_RAW
    allocated_resources: msgspec.Raw = NO_RAW


class PodFields(Json):
    """A v1.Pod."""

    metadata: Metadata
    spec: PodSpec | None = None
    status: PodStatus | None = None


_KEY_BYTES = 64 * 1024
_PLACING_BYTES = 256 * 1024  # Of the fields that say where a pod may go: each look at a node costs as much
_NO_STATUS = ContainerStatus()
_spec = msgspec.json.Decoder(PodSpec)


def class_of(namespace: str, role: Role, spec: PodSpec, status: PodStatus, *, lineage: str) -> MemberClass:
    """The class of a pod; `lineage`: with which pods it shares refusals of nodes. ValueError says what is wrong.

    What is too long to be a key is read each time: no cache keeps a tenant's megabytes (docs/safety.md S21).
    """
    resources, limits = _resources(spec, status), _constraints(namespace, spec)
    parts = (limits.node_selector, limits.affinity, limits.tolerations, *limits.ports, *limits.claims)
    asked = (part for one in (*resources.containers, *resources.init_containers) for part in one[:3])
    if sum(map(len, parts)) + sum(map(len, asked)) > _KEY_BYTES:
        return _member_class.__wrapped__(role, resources, limits, lineage)
    return _member_class(role, resources, limits, lineage)


def template_class(namespace: str, raw: bytes | msgspec.Raw) -> tuple[MemberClass, bool]:
    """The class of a template's pods, and whether they use the node's network. ValueError names the wrong field."""
    spec = decode(_spec, raw, what="spec.template.spec") if raw else PodSpec()
    return class_of(namespace, Role.OTHER, spec, PodStatus(), lineage=""), bool(spec.host_network)


@lru_cache(maxsize=64)
def _member_class(role: Role, resources: PodResources, limits: ConstraintParts, lineage: str) -> MemberClass:
    """Runs once per template, as its pods give the same bytes; few are kept, as pods of one job come together."""
    return shared(MemberClass(role, shared(pod_requests(resources)), shared(constraints(limits)), lineage))


def _resources(spec: PodSpec, status: PodStatus) -> PodResources:
    resize = condition(status.conditions, "PodResizePending")
    statuses = {
        one.name: one
        for listed in (status.container_statuses, status.init_container_statuses)
        for one in listed or ()
        if one.resources
    }
    return PodResources(
        containers=tuple([_asked(c, statuses.get(c.name, _NO_STATUS)) for c in spec.containers or ()]),
        init_containers=tuple([_asked_by_init(c, statuses) for c in spec.init_containers or ()]),
        overhead=given(spec.overhead),
        spec=given(spec.resources),
        in_force=given(status.resources),
        allocated=given(status.allocated_resources),
        resize_infeasible=resize is not None and resize.reason == "Infeasible",
    )


def _asked(container: Container, status: ContainerStatus, *, sidecar: bool = False) -> ContainerResources:
    spec = given(container.resources)
    return ContainerResources(spec, given(status.resources), given(status.allocated_resources), sidecar)


def _asked_by_init(container: Container, statuses: dict[str, ContainerStatus]) -> ContainerResources:
    """Only sidecars are resized in place; of other init containers the spec counts."""
    if container.restart_policy == "Always":
        return _asked(container, statuses.get(container.name, _NO_STATUS), sidecar=True)
    return ContainerResources(given(container.resources))


def _constraints(namespace: str, spec: PodSpec) -> ConstraintParts:
    running = [*(spec.containers or ()), *(c for c in spec.init_containers or () if c.restart_policy == "Always")]
    ports = (given(container.ports) for container in running)
    host_network = bool(spec.host_network)
    selector, affinity, tolerations = given(spec.node_selector), given(spec.affinity), given(spec.tolerations)
    if len(selector) + len(affinity) + len(tolerations) > _PLACING_BYTES:
        if not spec.node_name:
            raise ValueError(f"nodeSelector, affinity and tolerations are longer than {_PLACING_BYTES} bytes")
        selector = affinity = tolerations = b""  # it is placed, and load like any other
    return ConstraintParts(
        node_selector=selector,
        affinity=affinity,
        tolerations=tolerations,
        ports=tuple(raw for raw in ports if raw and (host_network or b'"hostPort"' in raw)),
        host_network=host_network,
        claims=claim_names(namespace, given(spec.volumes)),
    )
