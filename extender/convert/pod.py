"""Pods: raw JSON → `scoring.model.Pod`, and what their condition PodScheduled says of those that have no node.

Budget: 20 µs for a pod of 4 KB. An in-tree filter may refuse every node before /filter is asked, and then that
condition's message is the only trace. After "nodes are available:" (FitError, 1.36) come numbers of nodes and what each
kind lacks, or, when a PreFilter plugin refused the pod itself (a claim is missing or not bound), that plugin's words
alone: no other node helps then.
"""

from sys import intern
from typing import Final

import msgspec

from extender.convert.decode import Json, Metadata, OwnerReference, decode, seconds, shared, shared_tuple
from extender.convert.labels import NAME_CHARS, OWN_PREFIX, group_of, membership, misspelt, own_options, run_of
from extender.convert.member_class import PodCondition, PodSpec, PodStatus, class_of, unmodelled_constraints
from extender.notes import NO_NOTES, Bearer, NoteKind, NoteReader
from scoring import Namespace, NodeName, PodName, PodUid
from scoring.model import GATE, Controller, Phase, Pod
from scoring.model.gang import MOST_S
from scoring.queue.statuses import CONDITION, AdmittedCondition

PREEMPTS_OPTION = NoteKind.PREEMPTS.removeprefix(OWN_PREFIX)  # Has a note's content, only if the note is ours
_PHASES = {phase.value: phase for phase in Phase}  # `status.phase` → phase
_NOTHING: dict[str, str] = {}
_OUR_WORDS: Final = "netgang:"  # Every reason for which we refuse begins so
_MOST_CHARACTERS: Final = 300
_REASON_CHARS: Final = 64
_COUNTED: Final = "nodes are available: "


class _PodFields(Json):
    metadata: Metadata
    spec: PodSpec | None = None
    status: PodStatus | None = None


_pod = msgspec.json.Decoder(_PodFields)
_NOT_TRIED = PodCondition("PodScheduled")
_NO_OWNER = OwnerReference()


def pod_from_json(raw: bytes | msgspec.Raw, *, notes: NoteReader = NO_NOTES) -> Pod:
    """Read a v1.Pod, as watched, as sent by kube-scheduler or from a file. ValueError names the field that is wrong.

    `notes` reads what we wrote on it. A pod without uid (only files have such) is identified by `namespace/name`.
    """
    read = decode(_pod, raw, what="Pod")
    meta, spec, status = read.metadata, read.spec or PodSpec(), read.status or PodStatus()
    namespace = intern(meta.namespace or "default")
    labels, annotations = meta.labels or _NOTHING, meta.annotations or _NOTHING
    owners = meta.owner_references or ()
    native = spec.scheduling_group.pod_group_name if spec.scheduling_group else None
    gates = shared_tuple(tuple(gate.name for gate in spec.scheduling_gates)) if spec.scheduling_gates else ()
    gated = native is not None and (GATE in gates or NoteKind.ADMITTED in annotations)
    group = group_of(namespace, labels, annotations, native, gated=gated)
    mistakes = misspelt(labels, annotations) if labels or annotations else ()
    role, job, index = membership(namespace, labels, annotations, owners, in_gang=group is not None)
    unmodelled = unmodelled_constraints(spec) if group is not None or GATE in gates else ()
    lineage = "" if group is None else intern(group.key if unmodelled else namespace)
    try:
        member_class = class_of(namespace, role, spec, status, lineage=lineage, size_bytes=len(raw))
    except ValueError as error:
        raise ValueError(f"Pod {namespace}/{meta.name}: {error}") from error
    uid = PodUid(meta.uid or f"{namespace}/{meta.name}")
    options = own_options(annotations)
    kinds = () if spec.node_name or not annotations else (NoteKind.ADMITTED, NoteKind.PREEMPTS)
    ours = {kind: annotations[kind] for kind in kinds if annotations.get(kind)}
    noted = {kind: notes.read(kind, Bearer("v1", "Pod", namespace, meta.name, uid), ours[kind]) for kind in ours}
    admitted_to = NodeName(intern(node)) if (node := noted.get(NoteKind.ADMITTED)) else None
    if note := noted.get(NoteKind.PREEMPTS):
        options = tuple(sorted((*options, (PREEMPTS_OPTION, note))))
    owner = next((one for one in owners if one.controller), _NO_OWNER)
    texts = owner.api_version, owner.kind, owner.name, owner.uid
    daemon = owner.kind == "DaemonSet" and owner.api_version.partition("/")[0] == "apps"
    scheduled, waits, bound, limit_s = _NOT_TRIED, False, None, None
    if (group is not None or admitted_to is not None) and (spec.node_name or not gates):
        scheduled = status.condition("PodScheduled") or _NOT_TRIED
    # After SchedulerError kube-scheduler tries again by itself
    refused = (scheduled.status, scheduled.reason) == ("False", "Unschedulable")
    if group is not None:
        waits = not spec.node_name and not gates
        bound = scheduled.last_transition_time if spec.node_name and scheduled.status == "True" else None
        limit_s = spec.active_deadline_seconds  # The API server takes none below 1
    refusal, obstacle = _refusal_of(scheduled) if waits else ("", "")
    told = status.condition(CONDITION) if group is not None else None
    of_our_making = told is not None and told.status in ("True", "False") and len(told.reason or "") <= _REASON_CHARS
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
        scheduled_s=seconds(bound) if bound is not None else None,
        deleting=meta.deletion_timestamp is not None,
        gates=gates,
        unmodelled=unmodelled,
        admitted_to=admitted_to,
        unschedulable=refused and admitted_to is not None and not gates and _by_filters(scheduled, native=gated),
        refusal=refusal,
        parked=waits and refused,
        obstacle=obstacle,
        told=intern(AdmittedCondition(told.status, told.reason or "").key) if told and of_our_making else "",
        group=group,
        job=job,
        owner=shared(Controller(*texts)) if (group or mistakes) and 0 < max(map(len, texts)) <= NAME_CHARS else None,
        daemon=intern(f"{namespace}/{texts[3]}") if daemon and len(texts[3]) <= NAME_CHARS else "",
        run=run_of(labels, owners) if group is not None else None,
        index=index,
        options=shared_tuple(options),
        limit_s=float(min(limit_s, MOST_S)) if limit_s is not None and limit_s >= 1 else None,
        misspelt=mistakes,
        resource_version=meta.resource_version or "",
    )


def _refusal_of(scheduled: PodCondition) -> tuple[str, str]:
    """Why kube-scheduler did not place a pod, bounded: its words (none if we refused it), and what no node changes."""
    message = scheduled.message or ""
    if scheduled.status != "False" or scheduled.reason == "SchedulingGated" or not message or _OUR_WORDS in message:
        return "", ""
    text = message.partition(" preemption: ")[0]
    _, counted, rest = text.partition(_COUNTED)
    whatever_the_node = counted and not rest[:1].isdigit() and not rest.startswith("node(s) ")
    return _bounded(text), _bounded(rest.rstrip(".") if whatever_the_node else "")


def _by_filters(refusal: PodCondition, *, native: bool) -> bool:
    """Whether kube-scheduler's own filters refused all nodes. A message with our reason says that we were asked.

    Of a native gang one that speaks of no nodes says that it failed as a whole, for want of a place for another member;
    and room that is lacking was taken a moment before: the watch shows it, and the node is as good as ever.
    """
    message = refusal.message or ""
    return _OUR_WORDS not in message and (not native or (_COUNTED in message and " Insufficient " not in message))


def _bounded(text: str) -> str:
    return intern(text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…")
