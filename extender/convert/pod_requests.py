"""The fields of a v1.Pod that are read, and its class: what it takes from a node, and where it may go.

Parts that all pods of a template hold alike stay raw bytes: the class is computed once per template and shared by all
its pods, by these bytes. Rules:
- What a pod takes is counted exactly as kube-scheduler does. Source: k8s.io/component-helpers resource.PodRequests,
  0.36.3, after the API server's defaults (`SetDefaults_Pod`), which a body sent by hand or a file may lack. Quantities
  are rounded up to thousandths one by one, summed, and the sum is rounded up to the resource's own unit.
- Of where it may go only what `scoring.feasibility.filters` models is read, and `unmodelled_constraints` (S6, S7).
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from sys import intern
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec.structs import astuple

from extender.convert.decode import NO_RAW, Json, Quantities, decode, given, shared
from scoring import ResourceName
from scoring.model import Constraints, HostPort, MemberClass, NodeSelectorTerm, Requirement, Resources, Role, Toleration
from scoring.model.pod import CPU, DEVICE_CLAIMS, MOST_RESOURCES, NAME_CHARS, PODS, parse_quantity

_EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - the API's word for it; nothing is bound here
_LARGEST = 2**52  # A pod asks for no more than this of anything, so that the members of a gang add up within int64
_KEY_BYTES = 64 * 1024
_COUNTED, _HUGE = ("cpu", "memory"), "hugepages-"  # What `spec.resources` may ask for the whole pod
# What a pod may say of where it may go (docs/safety.md S21); Kubernetes itself bounds the object's size alone
_PLACING_BYTES = 128 * 1024
_MOST_TERMS = 64  # Of required node affinity, but those that only name a node: admissions write up to 128 of these
_MOST_LINES = 512 + 256  # Expressions and values, of nodeSelector too: the pod's own, and what its admission adds
_MOST_TOLERATIONS = 64
_MOST_PORTS = 64  # Of its node: each is compared with those taken there
Thousandths: TypeAlias = dict[str, int]  # resource → amount in thousandths of its unit


class _Container(Json):  # Of the spec, or of the status: what it has, which a resize in place changes
    name: str = ""
    resources: msgspec.Raw = NO_RAW
    allocated_resources: msgspec.Raw = NO_RAW
    ports: msgspec.Raw = NO_RAW
    restart_policy: str | None = None


class _Small(Json):  # A gate, a scheduling group, a claim or a spread constraint
    name: str = ""
    pod_group_name: str | None = None  # Kubernetes' own PodGroup (1.36)
    claim_name: str = ""
    when_unsatisfiable: str = "DoNotSchedule"


class _Required(Json):
    required_during_scheduling_ignored_during_execution: list[msgspec.Raw] | None = None  # only whether there is some


class _Affinity(Json):
    node_affinity: msgspec.Raw = NO_RAW
    pod_affinity: _Required | None = None
    pod_anti_affinity: _Required | None = None


class _Volume(Json):
    persistent_volume_claim: _Small | None = None
    ephemeral: _Small | None = None


class PodSpec(Json):
    """`spec`, and `spec.template.spec` of a workload."""

    node_name: str | None = None
    scheduler_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: msgspec.Raw = NO_RAW
    resources: msgspec.Raw = NO_RAW
    node_selector: msgspec.Raw = NO_RAW
    affinity: _Affinity | None = None
    tolerations: msgspec.Raw = NO_RAW
    host_network: bool | None = None
    volumes: list[_Volume] | None = None
    resource_claims: list[msgspec.Raw] | None = None
    topology_spread_constraints: list[_Small] | None = None
    scheduling_gates: list[_Small] | None = None
    scheduling_group: _Small | None = None
    active_deadline_seconds: int | float | None = None


class PodCondition(Json):
    """Of `status.conditions`."""

    type: str
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: datetime | None = None


class PodStatus(Json):
    """`status`."""

    phase: str | None = None
    nominated_node_name: str | None = None
    container_statuses: list[_Container] | None = None
    init_container_statuses: list[_Container] | None = None
    conditions: list[PodCondition] | None = None
    resources: msgspec.Raw = NO_RAW
    allocated_resources: msgspec.Raw = NO_RAW

    def condition(self, kind: str) -> PodCondition | None:
        """The condition of this type."""
        for condition in self.conditions or ():
            if condition.type == kind:
                return condition
        return None


class _Asked(NamedTuple):
    """Raw JSON of what a container or the pod asks, and what its status says is in force while it is resized."""

    spec: bytes  # `resources`
    in_force: bytes = b""  # The status' `resources`; empty when the kubelet says nothing
    allocated: bytes = b""  # The status' `allocatedResources`
    sidecar: bool = False  # An init container with restartPolicy Always


class _Requirements(Json):
    requests: Quantities | None = None
    limits: Quantities | None = None


class _SelectorLine(Json):
    key: str
    operator: str
    values: list[str] | None = None


class _SelectorTerm(Json):
    match_expressions: list[_SelectorLine] | None = None
    match_fields: list[_SelectorLine] | None = None


class _SelectorTerms(Json):
    node_selector_terms: list[_SelectorTerm] | None = None


class _NodeAffinity(Json):
    required_during_scheduling_ignored_during_execution: _SelectorTerms | None = None


class _Toleration(Json):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: msgspec.Raw = NO_RAW


class _Port(Json):
    container_port: int = 0
    host_port: int | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")
    protocol: str | None = None


_requirements = msgspec.json.Decoder(_Requirements)
_quantities = msgspec.json.Decoder(Quantities)
_selector = msgspec.json.Decoder(dict[str, str])
_affinity = msgspec.json.Decoder(_NodeAffinity)
_tolerations = msgspec.json.Decoder(list[_Toleration])
_ports = msgspec.json.Decoder(list[_Port])
_NO_STATUS = _Container()


def class_of(
    namespace: str, role: Role, spec: PodSpec, status: PodStatus, *, lineage: str, size_bytes: int
) -> MemberClass:
    """The class of a pod; `lineage`: with which pods it shares refusals of nodes. ValueError says what is wrong."""
    affinity = given(spec.affinity.node_affinity) if spec.affinity is not None else b""
    placing = given(spec.node_selector), affinity, given(spec.tolerations)
    reported = [*(status.container_statuses or ()), *(status.init_container_statuses or ())]
    statuses = {container.name: container for container in reported if container.resources}
    host_network, containers, initial = bool(spec.host_network), spec.containers or [], spec.init_containers or []
    asked = [_asked(container, statuses) for container in containers]
    # Only sidecars are resized in place; of other init containers the spec counts
    init = [_asked(container, statuses if container.restart_policy == "Always" else {}) for container in initial]
    running = [*containers, *(container for container in initial if container.restart_policy == "Always")]
    listed = [given(container.ports) for container in running]
    ports = tuple([raw for raw in listed if raw and (host_network or b'"hostPort"' in raw)])
    mounted = [claim.claim_name for volume in spec.volumes or () if (claim := volume.persistent_volume_claim)]
    claims = tuple(sorted([f"{namespace}/{name}" for name in mounted]))
    resize = status.condition("PodResizePending")
    infeasible = resize is not None and resize.reason == "Infeasible"  # For good: what is in force counts, not the spec
    pod = _Asked(given(spec.resources), given(status.resources), given(status.allocated_resources))
    overhead = given(spec.overhead)
    # No cache keeps a tenant's megabytes (docs/safety.md S21)
    class_by = _member_class if size_bytes <= _KEY_BYTES else _member_class.__wrapped__
    parts = role, lineage, tuple(asked), tuple(init), pod, overhead, infeasible, ports, host_network, claims
    try:
        return class_by(*parts, placing)
    except ValueError:
        if not spec.node_name:
            raise
        none = b"", b"", b""  # it is placed, and load like any other
        with suppress(ValueError):
            return class_by(*parts, none)
        return class_by(*parts[:7], (), *parts[8:], none)


def _asked(container: _Container, statuses: dict[str, _Container]) -> _Asked:
    status, sidecar = statuses.get(container.name, _NO_STATUS), container.restart_policy == "Always"
    return _Asked(given(container.resources), given(status.resources), given(status.allocated_resources), sidecar)


@lru_cache(maxsize=64)
def _member_class(
    role: Role,
    lineage: str,
    containers: Sequence[_Asked],
    init: Sequence[_Asked],
    pod: _Asked,
    overhead: bytes,
    infeasible: bool,
    ports: Sequence[bytes],
    host_network: bool,
    claims: tuple[str, ...],
    placing: tuple[bytes, bytes, bytes],
) -> MemberClass:
    """Runs once per template, as its pods give the same bytes; few are kept, as pods of one job come together."""
    _at_most(_PLACING_BYTES, sum(map(len, placing)), "bytes of nodeSelector, affinity and tolerations")
    _at_most(_PLACING_BYTES, sum(map(len, ports)), "bytes of ports")
    selector, affinity, tolerated = placing
    labels = decode(_selector, selector, what="spec.nodeSelector") if selector else {}
    near = decode(_affinity, affinity, what="spec.affinity.nodeAffinity") if affinity else _NodeAffinity()
    required = near.required_during_scheduling_ignored_during_execution
    alternatives = [
        NodeSelectorTerm(_lines(term.match_expressions), _lines(term.match_fields))
        for term in (required or _SelectorTerms()).node_selector_terms or ()
    ]
    lines = [1 + len(line.values) for term in alternatives for line in (*term.expressions, *term.fields)]
    _at_most(_MOST_LINES, 2 * len(labels) + sum(lines), "expressions and values of nodeSelector and node affinity")
    terms = sum(bool(term.expressions) or len(term.fields) != 1 for term in alternatives)
    _at_most(_MOST_TERMS, terms, "terms of node affinity")
    listed = decode(_tolerations, tolerated, what="spec.tolerations") if tolerated else []
    _at_most(_MOST_TOLERATIONS, len(listed), "tolerations")
    # Tolerated for a time is not tolerated: the pod would be evicted there, and so would each successor (S12)
    stays = [t for t in listed if not given(t.toleration_seconds)]
    tolerations = {Toleration(t.key or "", t.operator or "Equal", t.value or "", t.effect or "") for t in stays}
    taken = {
        HostPort(port.protocol or "TCP", port.host_ip or _EVERY_ADDRESS, number)
        for raw in ports
        for port in decode(_ports, raw, what="spec.containers[].ports")
        # With hostNetwork a container port is a host port (API defaults)
        if (number := port.host_port or (port.container_port if host_network else 0)) > 0
    }
    _at_most(_MOST_PORTS, len(taken), "host ports")
    limits = Constraints(
        node_selector=tuple(sorted(labels.items())),
        affinity=tuple(alternatives) if required is not None else None,
        tolerations=tuple(sorted(tolerations, key=astuple)),
        host_ports=tuple(sorted(taken, key=astuple)),
        claims=claims,
    )
    requests = _requests(containers, init, pod, overhead, infeasible=infeasible)
    return shared(MemberClass(role, shared(requests), shared(limits), lineage))


def _at_most(most: int, count: int, what: str) -> None:
    if count > most:
        raise ValueError(f"spec: {count} {what}, of which {most} are read")


def unmodelled_constraints(spec: PodSpec) -> tuple[str, ...]:
    """Fields of a spec by which kube-scheduler may refuse a node that we allow (docs/safety.md S6)."""
    around, volumes = spec.affinity or _Affinity(), spec.volumes or ()
    near, apart = around.pod_affinity or _Required(), around.pod_anti_affinity or _Required()
    spreads = spec.topology_spread_constraints or ()
    held = {
        "persistentVolumeClaim": any(volume.persistent_volume_claim for volume in volumes),
        "ephemeral": any(volume.ephemeral for volume in volumes),
        DEVICE_CLAIMS: bool(spec.resource_claims),
        "podAffinity": bool(near.required_during_scheduling_ignored_during_execution),
        "podAntiAffinity": bool(apart.required_during_scheduling_ignored_during_execution),
        "topologySpreadConstraints": any(spread.when_unsatisfiable == "DoNotSchedule" for spread in spreads),
    }
    return tuple([name for name, there in held.items() if there])


def _lines(listed: list[_SelectorLine] | None) -> tuple[Requirement, ...]:
    lines = [(intern(line.key), intern(line.operator), tuple(map(intern, line.values or ()))) for line in listed or ()]
    return tuple([Requirement(*line) for line in lines])


def _requests(
    containers: Sequence[_Asked], init: Sequence[_Asked], pod: _Asked, overhead: bytes, *, infeasible: bool
) -> Resources:
    """Add up a pod's request, `pods: 1` included. ValueError names the field of a bad quantity."""
    fields = [(container, f"containers[{i}]") for i, container in enumerate(containers)]
    fields += [(container, f"initContainers[{i}]") for i, container in enumerate(init)]
    written = [_written(container.spec, f"spec.{at}.resources") for container, at in fields]
    limits = [limited for _, limited in written]
    asked = [limited | requests for requests, limited in written]  # a limit without a request counts as the request
    now = [
        _in_force(amounts, container, f"status of {at}: ", infeasible=infeasible)
        for amounts, (container, at) in zip(asked, fields, strict=True)
    ]
    total = _aggregate(now, init)
    # What `spec.resources` asks for the whole pod, after the API server's defaults for a partly written one: it
    # replaces the containers' for cpu, memory and huge pages.
    whole, whole_limits = _written(pod.spec, "spec.resources")
    if whole or whole_limits:
        for name, limit in _aggregate(limits, init).items():
            if name.startswith(_HUGE) and name not in whole:
                whole_limits.setdefault(name, limit)
    if whole_limits:
        for name, amount in _aggregate(asked, init).items():
            if not name.startswith(_HUGE):
                whole.setdefault(name, amount)
        whole = whole_limits | whole
    whole = {name: amount for name, amount in whole.items() if name in _COUNTED or name.startswith(_HUGE)}
    whole_now = _in_force(whole, pod, "status.", infeasible=infeasible)
    for name in whole:
        total[name] = whole_now.get(name, 0)
    if overhead:
        total.update(_read(decode(_quantities, overhead, what="spec.overhead"), "spec.overhead"))
    amounts = {name: value if name == CPU else -(-value // 1000) for name, value in total.items() if value}
    if len(amounts) > MOST_RESOURCES:
        raise ValueError(f"requests for more than {MOST_RESOURCES} resources")
    return Resources.from_amounts(
        {ResourceName(name): min(value, _LARGEST) for name, value in amounts.items()} | {PODS: 1}
    )


def _aggregate(amounts: Sequence[Thousandths], init: Sequence[_Asked]) -> Counter[str]:
    """Sum of containers and sidecars, or the widest moment of the initialisation if that is more (KEP-753)."""
    begin = len(amounts) - len(init)
    total, started, widest = Counter[str](), Counter[str](), Counter[str]()
    for amount in amounts[:begin]:
        total.update(amount)
    for container, amount in zip(init, amounts[begin:], strict=True):
        moment = Counter(amount)
        moment.update(started)
        _raise(widest, moment)
        if container.sidecar:
            total.update(amount)
            started = moment
    _raise(total, widest)
    return total


def _written(raw: bytes, what: str) -> tuple[Thousandths, Thousandths]:  # Requests and limits
    read = decode(_requirements, raw or b"{}", what=what)
    return _read(read.requests, f"{what}.requests"), _read(read.limits, f"{what}.limits")


def _in_force(asked: Thousandths, raw: _Asked, what: str, *, infeasible: bool) -> Thousandths:
    """The larger of old and new while a resize is under way, so that neither end of it is over-committed."""
    if not raw.in_force:
        return asked
    top = _read(decode(_requirements, raw.in_force, what=f"{what}resources").requests, f"{what}resources.requests")
    if raw.allocated:
        where = f"{what}allocatedResources"
        _raise(top, _read(decode(_quantities, raw.allocated, what=where), where))
    if not infeasible:
        _raise(top, asked)
    return top


def _read(quantities: Quantities | None, field: str) -> Thousandths:
    amounts: Thousandths = {}
    for name, quantity in (quantities or {}).items():
        if len(name) > NAME_CHARS:
            raise ValueError(f"{field}: a resource's name is longer than {NAME_CHARS} characters")
        try:
            amounts[name] = parse_quantity(str(quantity), millis=True)
        except ValueError as error:
            raise ValueError(f"{field}: {name}: {error}") from error
        if amounts[name] < 0:
            raise ValueError(f"{field}: {name}: {quantity!r} is negative")
    return amounts


def _raise(top: Thousandths, other: Thousandths) -> None:
    for name, value in other.items():
        if value > top.get(name, -1):
            top[name] = value
