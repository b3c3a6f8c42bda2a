"""Pods: raw JSON → `scoring.model.Pod`.

Pods of one template hold the same bytes for resources, selectors and tolerations, so these raw parts are keys: what is
costly is computed once per template and shared by all its pods. Budget: 20 µs for a pod of 4 KB. Rule: what is
ambiguous in the API object is settled here.
"""

from functools import lru_cache
from sys import intern

import msgspec

from extender.convert.decode import NO_RAW, Json, Metadata, Owner, decode, given, seconds
from extender.convert.pod.conditions import (
    COUNTED,
    LACKS,
    OUR_WORDS,
    SAYS_NOTHING,
    Condition,
    condition,
    refusal_of,
    told_by,
)
from extender.convert.pod.constraints import (
    ConstraintParts,
    claim_names,
    constraints,
    device_claims,
    unmodelled_constraints,
)
from extender.convert.pod.gang_labels import group_of
from extender.convert.pod.misspelt import misspelt
from extender.convert.pod.requests import ContainerResources, PodResources, pod_requests
from extender.convert.pod.roles import NAME_CHARS, OWN_PREFIX, membership, own_options, run_of
from extender.convert.pod.template import template_of
from extender.convert.sharing import shared, shared_tuple
from extender.notes import NO_NOTES, Bearer, NoteKind, NoteReader
from scoring.ids import Namespace, NodeName, PodName, PodUid
from scoring.lengths.length import MOST_S
from scoring.model import GATE, Controller, MemberClass, Phase, Pod, Role

NUDGE_ANNOTATION = OWN_PREFIX + "nudge"  # Wakes a parked pod; never an option, so a nudge changes no decision
NETWORK_ANNOTATION = OWN_PREFIX + "network"  # What network its gang got, for people: never read
PREEMPTS_OPTION = NoteKind.PREEMPTS.removeprefix(OWN_PREFIX)
"""The option that has a note's content, for `extender.controllers.preemption.notes`: only if the note is ours."""
_WRITTEN_BY_US = frozenset(
    one.removeprefix(OWN_PREFIX)
    for one in (NUDGE_ANNOTATION, NETWORK_ANNOTATION, NoteKind.ADMITTED, NoteKind.STARTED, NoteKind.PREEMPTS)
)
_PHASES = {phase.value: phase for phase in Phase}  # `status.phase` → phase
_KEY_BYTES = 64 * 1024
_PLACING_BYTES = 256 * 1024  # Of the fields that say where a pod may go: each look at a node costs as much
_NOTHING: dict[str, str] = {}


class _Container(Json):
    name: str = ""
    image: str | None = None
    command: msgspec.Raw = NO_RAW
    args: msgspec.Raw = NO_RAW
    resources: msgspec.Raw = NO_RAW
    ports: msgspec.Raw = NO_RAW
    restart_policy: str | None = None


class _Gate(Json):
    name: str


class _SchedulingGroup(Json):
    pod_group_name: str | None = None


class _Spec(Json):
    node_name: str | None = None
    scheduler_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: msgspec.Raw = NO_RAW
    resources: msgspec.Raw = NO_RAW
    node_selector: msgspec.Raw = NO_RAW
    affinity: msgspec.Raw = NO_RAW
    tolerations: msgspec.Raw = NO_RAW
    host_network: bool | None = None
    volumes: msgspec.Raw = NO_RAW
    resource_claims: msgspec.Raw = NO_RAW
    topology_spread_constraints: msgspec.Raw = NO_RAW
    scheduling_gates: list[_Gate] | None = None
    scheduling_group: _SchedulingGroup | None = None
    active_deadline_seconds: int | float | None = None


class _ContainerStatus(Json):
    name: str = ""
    resources: msgspec.Raw = NO_RAW
    allocated_resources: msgspec.Raw = NO_RAW


class _Status(Json):
    phase: str | None = None
    nominated_node_name: str | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None
    conditions: msgspec.Raw = NO_RAW
    resource_claim_statuses: msgspec.Raw = NO_RAW
    resources: msgspec.Raw = NO_RAW
    allocated_resources: msgspec.Raw = NO_RAW


class _Pod(Json):
    metadata: Metadata
    spec: _Spec | None = None
    status: _Status | None = None


_pod = msgspec.json.Decoder(_Pod)
_spec = msgspec.json.Decoder(_Spec)
_NO_STATUS = _ContainerStatus()


def pod_from_json(raw: bytes | msgspec.Raw, *, notes: NoteReader = NO_NOTES) -> Pod:
    """Read a v1.Pod, as watched, as sent by kube-scheduler or from a file. ValueError names the field that is wrong.

    `notes` reads what we wrote on it. A pod without uid (only files have such) is identified by `namespace/name`; one
    without schedulerName belongs to `default-scheduler`, as the API server would write.
    """
    read = decode(_pod, raw, what="Pod")
    meta, spec, status = read.metadata, read.spec or _Spec(), read.status or _Status()
    namespace = intern(meta.namespace or "default")
    labels, annotations = meta.labels or _NOTHING, meta.annotations or _NOTHING
    native = spec.scheduling_group.pod_group_name if spec.scheduling_group else None
    gates = shared_tuple(tuple(gate.name for gate in spec.scheduling_gates)) if spec.scheduling_gates else ()
    gated = native is not None and (GATE in gates or NoteKind.ADMITTED in annotations)
    group = group_of(namespace, labels, annotations, native, gated=gated)
    mistakes = misspelt(labels, annotations) if labels or annotations else ()
    place = membership(namespace, labels, annotations, meta.owner_references or (), in_gang=group is not None)
    unmodelled: tuple[str, ...] = ()
    if group is not None or GATE in gates:
        others = (spec.affinity, spec.volumes, spec.resource_claims, spec.topology_spread_constraints)
        unmodelled = unmodelled_constraints(*map(given, others))
    lineage = "" if group is None else intern(group.key if unmodelled else namespace)
    try:
        member_class = _class_of(place.role, _resources(spec, status), _constraints(namespace, spec), lineage)
    except ValueError as error:
        raise ValueError(f"Pod {namespace}/{meta.name}: {error}") from error
    uid = PodUid(meta.uid or f"{namespace}/{meta.name}")
    options = own_options(annotations, written_by_us=_WRITTEN_BY_US)
    kinds = (NoteKind.STARTED,) if spec.node_name else (NoteKind.ADMITTED, NoteKind.PREEMPTS)
    ours = {kind: annotations[kind] for kind in kinds if annotations.get(kind)} if annotations else {}
    noted = {kind: notes.read(kind, Bearer("v1", "Pod", namespace, meta.name, uid), ours[kind]) for kind in ours}
    admitted_to = NodeName(intern(node)) if (node := noted.get(NoteKind.ADMITTED)) else None
    if note := noted.get(NoteKind.PREEMPTS):
        options = tuple(sorted((*options, (PREEMPTS_OPTION, note))))
    scheduled = None
    if (group is not None and (spec.node_name or not gates)) or (admitted_to is not None and not gates):
        scheduled = condition(status.conditions, "PodScheduled")
    waits = group is not None and not spec.node_name and not gates
    words = refusal_of(scheduled) if scheduled is not None and waits else SAYS_NOTHING
    return Pod(
        uid=uid,
        namespace=Namespace(namespace),
        name=PodName(meta.name),
        member_class=member_class,
        scheduler_name=intern((spec.scheduler_name or "default-scheduler")[:NAME_CHARS]),
        node=NodeName(intern(spec.node_name)) if spec.node_name else None,
        nominated_node=NodeName(intern(status.nominated_node_name)) if status.nominated_node_name else None,
        phase=_PHASES.get(status.phase or "Pending", Phase.UNKNOWN),
        priority=spec.priority or 0,
        never_preempts=spec.preemption_policy == "Never",
        created_s=seconds(meta.creation_timestamp),
        scheduled_s=_bound_s(scheduled) if group is not None and spec.node_name else None,
        deleting=meta.deletion_timestamp is not None,
        gates=gates,
        unmodelled=unmodelled,
        claims=device_claims(namespace, given(spec.resource_claims), given(status.resource_claim_statuses)),
        admitted_to=admitted_to,
        unschedulable=admitted_to is not None and not gates and _unschedulable(scheduled, native=gated),
        refusal=words.text,
        parked=waits and _refused(scheduled),
        obstacle=words.obstacle,
        told=told_by(status.conditions) if group is not None else "",
        group=group,
        job=place.job,
        owner=_controller(meta.owner_references) if (group or mistakes) and meta.owner_references else None,
        daemon=_daemon(namespace, meta.owner_references) if meta.owner_references else "",
        run=run_of(labels, meta.owner_references or ()) if group is not None else None,
        started=noted.get(NoteKind.STARTED) is not None,
        index=place.index,
        options=shared_tuple(options),
        limit_s=_limit_s(spec) if group is not None else None,
        template=_template(spec, member_class, labels) if group is not None else "",
        misspelt=mistakes,
        resource_version=meta.resource_version or "",
    )


def _limit_s(spec: _Spec) -> float | None:
    """How long it may run; `None`: without end. The API server takes no number below 1."""
    limit_s = spec.active_deadline_seconds
    return float(min(limit_s, MOST_S)) if limit_s is not None and limit_s >= 1 else None


def _template(spec: _Spec, member_class: MemberClass, labels: dict[str, str]) -> str:
    containers = tuple([(one.image or "", given(one.command), given(one.args)) for one in spec.containers or ()])
    return template_of(containers, member_class, labels)


def _controller(owners: list[Owner]) -> Controller | None:
    """The controller among the owners; pods of one job share one record of it."""
    for one in owners:
        if one.controller and max(map(len, (one.api_version, one.kind, one.name, one.uid))) <= NAME_CHARS:
            return shared(Controller(one.api_version, one.kind, one.name, one.uid))
    return None


def template_class(namespace: str, raw: bytes | msgspec.Raw) -> tuple[MemberClass, bool]:
    """The class of a template's pods, and whether they use the node's network. ValueError names the wrong field."""
    spec = decode(_spec, raw, what="spec.template.spec") if raw else _Spec()
    resources = _resources(spec, _Status())
    return _class_of(Role.OTHER, resources, _constraints(namespace, spec), ""), bool(spec.host_network)


def _daemon(namespace: str, owners: list[Owner]) -> str:
    """The identity of the DaemonSet among the owners that controls the pod."""
    for one in owners:
        if one.controller:
            if one.kind != "DaemonSet" or one.api_version.partition("/")[0] != "apps" or len(one.uid) > NAME_CHARS:
                return ""
            return intern(f"{namespace}/{one.uid}")
    return ""


def _class_of(role: Role, resources: PodResources, limits: ConstraintParts, lineage: str) -> MemberClass:
    """What is too long to be a key is read each time: no cache keeps a tenant's megabytes (docs/safety.md S21)."""
    parts = (limits.node_selector, limits.affinity, limits.tolerations, *limits.ports, *limits.claims)
    asked = (part for one in (*resources.containers, *resources.init_containers) for part in one[:3])
    if sum(map(len, parts)) + sum(map(len, asked)) > _KEY_BYTES:
        return _member_class.__wrapped__(role, resources, limits, lineage)
    return _member_class(role, resources, limits, lineage)


@lru_cache(maxsize=64)
def _member_class(role: Role, resources: PodResources, limits: ConstraintParts, lineage: str) -> MemberClass:
    """Runs once per template, as its pods give the same bytes; few are kept, as pods of one job come together."""
    return shared(MemberClass(role, shared(pod_requests(resources)), shared(constraints(limits)), lineage))


def _resources(spec: _Spec, status: _Status) -> PodResources:
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


def _asked(container: _Container, status: _ContainerStatus, *, sidecar: bool = False) -> ContainerResources:
    spec = given(container.resources)
    return ContainerResources(spec, given(status.resources), given(status.allocated_resources), sidecar)


def _asked_by_init(container: _Container, statuses: dict[str, _ContainerStatus]) -> ContainerResources:
    """Only sidecars are resized in place; of other init containers the spec counts."""
    if container.restart_policy == "Always":
        return _asked(container, statuses.get(container.name, _NO_STATUS), sidecar=True)
    return ContainerResources(given(container.resources))


def _bound_s(scheduled: Condition | None) -> float | None:
    """When a pod got its node; only gangs ask for it, so only their members' conditions are read."""
    if scheduled is None or scheduled.status != "True" or scheduled.last_transition_time is None:
        return None
    return seconds(scheduled.last_transition_time)


def _refused(scheduled: Condition | None) -> bool:
    """Whether kube-scheduler tried the pod and found no node; after SchedulerError it tries again by itself."""
    return scheduled is not None and (scheduled.status, scheduled.reason) == ("False", "Unschedulable")


def _unschedulable(scheduled: Condition | None, *, native: bool) -> bool:
    """Whether kube-scheduler's own filters refused all nodes. A message with our reason says that we were asked.

    Of a native gang one that speaks of no nodes says that it failed as a whole, for want of a place for another member;
    and room that is lacking was taken a moment before: the watch shows it, and the node is as good as ever.
    """
    if scheduled is None or not _refused(scheduled):
        return False
    message = scheduled.message or ""
    return OUR_WORDS not in message and (not native or (COUNTED in message and LACKS not in message))


def _constraints(namespace: str, spec: _Spec) -> ConstraintParts:
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
