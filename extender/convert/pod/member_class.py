"""The class of a pod: what its template says of requests and of where its pods may go.

It is computed once per template and shared by all its pods, by the raw bytes that they hold alike.
"""

from functools import lru_cache

import msgspec

from extender.convert.decode import decode, given
from extender.convert.pod.conditions import condition
from extender.convert.pod.constraints import ConstraintParts, claim_names, constraints
from extender.convert.pod.fields import Container, ContainerStatus, PodSpec, PodStatus
from extender.convert.pod.requests import ContainerResources, PodResources, pod_requests
from extender.convert.sharing import shared
from scoring.model import MemberClass, Role

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
