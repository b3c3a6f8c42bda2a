"""Pods: raw JSON → `scoring.model.Pod`.

Pods of one template hold the same bytes for resources, selectors and tolerations, so these raw parts are keys: what is
costly is computed once per template and shared by all its pods. Budget: 20 µs for a pod of 4 KB. Rule: what is
ambiguous in the API object is settled here.
"""

from sys import intern

import msgspec

from extender.convert.decode import Owner, decode, given, seconds, shared, shared_tuple
from extender.convert.pod.conditions import (
    SAYS_NOTHING,
    bound_s,
    condition,
    is_refused,
    refusal_of,
    refused_by_filters,
    told_by,
)
from extender.convert.pod.constraints import unmodelled_constraints
from extender.convert.pod.gang_labels import group_of
from extender.convert.pod.member_class import PodFields, PodSpec, PodStatus, class_of
from extender.convert.pod.misspelt import misspelt
from extender.convert.pod.roles import NAME_CHARS, OWN_PREFIX, membership, own_options, run_of
from extender.notes import NO_NOTES, Bearer, NoteKind, NoteReader
from scoring.ids import Namespace, NodeName, PodName, PodUid
from scoring.lengths import MOST_S
from scoring.model import GATE, Controller, Phase, Pod

NUDGE_ANNOTATION = OWN_PREFIX + "nudge"  # Wakes a parked pod; never an option, so a nudge changes no decision
PREEMPTS_OPTION = NoteKind.PREEMPTS.removeprefix(OWN_PREFIX)
"""The option that has a note's content, for `extender.controllers.preemption.claims`: only if the note is ours."""
_WRITTEN_BY_US = frozenset(
    one.removeprefix(OWN_PREFIX) for one in (NUDGE_ANNOTATION, NoteKind.ADMITTED, NoteKind.PREEMPTS)
)
_PHASES = {phase.value: phase for phase in Phase}  # `status.phase` → phase
_NOTHING: dict[str, str] = {}
_pod = msgspec.json.Decoder(PodFields)


def pod_from_json(raw: bytes | msgspec.Raw, *, notes: NoteReader = NO_NOTES) -> Pod:
    """Read a v1.Pod, as watched, as sent by kube-scheduler or from a file. ValueError names the field that is wrong.

    `notes` reads what we wrote on it. A pod without uid (only files have such) is identified by `namespace/name`; one
    without schedulerName belongs to `default-scheduler`, as the API server would write.
    """
    read = decode(_pod, raw, what="Pod")
    meta, spec, status = read.metadata, read.spec or PodSpec(), read.status or PodStatus()
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
        member_class = class_of(namespace, place.role, spec, status, lineage=lineage)
    except ValueError as error:
        raise ValueError(f"Pod {namespace}/{meta.name}: {error}") from error
    uid = PodUid(meta.uid or f"{namespace}/{meta.name}")
    options = own_options(annotations, written_by_us=_WRITTEN_BY_US)
    kinds = () if spec.node_name else (NoteKind.ADMITTED, NoteKind.PREEMPTS)
    ours = {kind: annotations[kind] for kind in kinds if annotations.get(kind)} if annotations else {}
    noted = {kind: notes.read(kind, Bearer("v1", "Pod", namespace, meta.name, uid), ours[kind]) for kind in ours}
    admitted_to = NodeName(intern(node)) if (node := noted.get(NoteKind.ADMITTED)) else None
    if note := noted.get(NoteKind.PREEMPTS):
        options = tuple(sorted((*options, (PREEMPTS_OPTION, note))))
    scheduled = None
    if (group is not None and (spec.node_name or not gates)) or (admitted_to is not None and not gates):
        scheduled = condition(status.conditions, "PodScheduled")
    waits = group is not None and not spec.node_name and not gates
    owner = next((one for one in meta.owner_references or () if one.controller), None)
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
        scheduled_s=bound_s(scheduled) if group is not None and spec.node_name else None,
        deleting=meta.deletion_timestamp is not None,
        gates=gates,
        unmodelled=unmodelled,
        admitted_to=admitted_to,
        unschedulable=admitted_to is not None and not gates and refused_by_filters(scheduled, native=gated),
        refusal=words.text,
        parked=waits and is_refused(scheduled),
        obstacle=words.obstacle,
        told=told_by(status.conditions) if group is not None else "",
        group=group,
        job=place.job,
        owner=_record_of(owner) if owner is not None and (group or mistakes) else None,
        daemon=_daemon(namespace, owner) if owner is not None else "",
        run=run_of(labels, meta.owner_references or ()) if group is not None else None,
        index=place.index,
        options=shared_tuple(options),
        limit_s=_limit_s(spec) if group is not None else None,
        misspelt=mistakes,
        resource_version=meta.resource_version or "",
    )


def _limit_s(spec: PodSpec) -> float | None:
    """How long it may run; `None`: without end. The API server takes no number below 1."""
    limit_s = spec.active_deadline_seconds
    return float(min(limit_s, MOST_S)) if limit_s is not None and limit_s >= 1 else None


def _record_of(owner: Owner) -> Controller | None:
    """Of a controller; pods of one job share one record of it."""
    texts = owner.api_version, owner.kind, owner.name, owner.uid
    return shared(Controller(*texts)) if max(map(len, texts)) <= NAME_CHARS else None


def _daemon(namespace: str, owner: Owner) -> str:
    """The identity of the controller, if that is a DaemonSet."""
    if owner.kind != "DaemonSet" or owner.api_version.partition("/")[0] != "apps" or len(owner.uid) > NAME_CHARS:
        return ""
    return intern(f"{namespace}/{owner.uid}")
