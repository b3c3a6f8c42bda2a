"""Pods: raw JSON → `scoring.model.Pod`: gang, job, role and options by labels, annotations and owners; slips; refusals.

Budget: 20 µs for a pod of 4 KB. Rules:
- A gang: first match wins. What is missing, bad or contradictory becomes `GroupRef.problem`, a sentence that says what
  to change, and the gang is refused: nothing is guessed, and no pod with half a gang's labels runs as a plain pod.
- A job: one framework after the other, most explicit first (facts of the job kinds). Only labels that the framework
  itself puts on pods count; a role name that is not known means worker, because every framework's nameless majority are
  its workers. A TFJob's worker 0 stays a worker even when it acts as chief: it is scaled as one.
- Slips: with a misspelt label a gang would start pod by pod, without a word. A key counts as misspelt when it has one
  of our prefixes, or one like it, and a name that is none of ours but like one; or when it is a label that belongs
  among the annotations, or the other way round. Other tools' keys are never reported.
- Refusals: an in-tree filter may refuse every node before /filter is asked, and then the message of the condition
  PodScheduled is the only trace. After "nodes are available:" (FitError, 1.36) come numbers of nodes and what each kind
  lacks, or, when a PreFilter plugin refused the pod itself (a claim is missing or not bound), that plugin's words: no
  other node helps then.
- Whatever a tenant wrote is kept in bounded length and number (docs/safety.md S21).
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from sys import intern
from typing import Any, Final, TypeAlias

import msgspec

from extender.convert.decode import Json, Metadata, OwnerReference, decode, seconds, shared, shared_tuple, whole_number
from extender.convert.pod_requests import PodCondition, PodSpec, PodStatus, class_of, unmodelled_constraints
from extender.signed_notes import NO_NOTES, Bearer, NoteKind, NoteReader
from scoring import GangKey, JobKey, Namespace, NodeName, PodName, PodUid
from scoring.model import GATE, Controller, GangSource, GroupRef, Phase, Pod, Role, RunRef
from scoring.model.gang import MOST_S, gang_key
from scoring.model.policy import KNOWN_OPTIONS, nearest, option_chars
from scoring.queue.states import CONDITION, AdmittedCondition

OWN_PREFIX = "netgang.io/"
ROLE_ANNOTATION = OWN_PREFIX + "role"
INDEX_ANNOTATION = OWN_PREFIX + "index"
NUDGE_ANNOTATION = OWN_PREFIX + "nudge"  # Wakes a parked pod; never an option, so a nudge changes no decision
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
NAME_LABEL = "pod-group.scheduling.sigs.k8s.io/name"
MIN_AVAILABLE_LABEL = "pod-group.scheduling.sigs.k8s.io/min-available"
NAME_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
MIN_MEMBER_ANNOTATIONS = ("scheduling.k8s.io/group-min-member", "scheduling.volcano.sh/group-min-member")
NAME_CHARS = 253  # Longest name of anything that the API server names
_SHOWN_CHARS = 60
_PROBLEM_CHARS = 1000
_MOST_OPTIONS = 64
Texts: TypeAlias = Mapping[str, str]  # Labels or annotations


def group_of(
    namespace: str, labels: Texts, annotations: Texts, native_group: str | None = None, *, gated: bool = False
) -> GroupRef | None:
    """Recognise the pod's gang; `None`: it belongs to none. `native_group` is `spec.schedulingGroup.podGroupName`.

    `gated`: the pod has our gate, or the note of its removal: by that netgang queues and places Kubernetes' own gangs.
    """
    count: int | None = None
    problem: str | None = None
    if native_group:
        name, source = native_group, GangSource.GATED_NATIVE if gated else GangSource.NATIVE
    elif POD_GROUP_LABEL in labels:
        name, source = labels[POD_GROUP_LABEL], GangSource.POD_GROUP
        other = labels.get(NAME_LABEL, name)
        if not name:
            problem = f"label {POD_GROUP_LABEL} is empty: name the PodGroup, or remove the label"
        elif other != name:
            both = f"labels {POD_GROUP_LABEL} ({name}) and {NAME_LABEL} ({other})"
            problem = f"{both} name different groups: keep one of them"[:_PROBLEM_CHARS]
    elif NAME_LABEL in labels or MIN_AVAILABLE_LABEL in labels:
        name, source, minimum = labels.get(NAME_LABEL, ""), GangSource.LABELS, labels.get(MIN_AVAILABLE_LABEL)
        if not name:
            fault = "is empty" if NAME_LABEL in labels else "is missing"
            problem = f"label {NAME_LABEL} {fault}: name the group, or remove label {MIN_AVAILABLE_LABEL}"
        elif minimum is None:
            problem = f"label {MIN_AVAILABLE_LABEL} is missing: set it to how many pods must start together"
        elif (count := whole_number(minimum) or None) is None:
            written = f"label {MIN_AVAILABLE_LABEL} is {minimum[:_SHOWN_CHARS]!r}"
            problem = f'{written}: it must be a whole number of at least 1, such as "4"'
    elif key := _first(NAME_ANNOTATIONS, annotations):
        name, source, asked = annotations[key], GangSource.ANNOTATION, _first(MIN_MEMBER_ANNOTATIONS, annotations)
        count = whole_number(annotations[asked]) or None if asked else None
        if not name:
            problem = f"annotation {key} is empty: name the group, or remove the annotation"
        elif asked and count is None:
            written = repr(annotations[asked][:_SHOWN_CHARS])
            problem = f"annotation {asked} is {written}: it must be a whole number of at least 1"
    else:
        return None
    if len(name) > NAME_CHARS:  # cut, so that nothing keeps a tenant's megabytes (docs/safety.md S21)
        name, problem = name[:NAME_CHARS], f"the group's name is longer than {NAME_CHARS} characters: shorten it"
    return _shared_ref(namespace, name, source, count, problem)


@lru_cache(maxsize=64)  # Pods of one gang come together: 3 µs less for each
def _shared_ref(namespace: str, name: str, source: GangSource, minimum: int | None, problem: str | None) -> GroupRef:
    return shared(GroupRef(GangKey(intern(gang_key(namespace, name))), source, minimum, problem))


def _first(keys: tuple[str, str], annotations: Texts) -> str | None:
    return next((key for key in keys if key in annotations), None)


_BATCH = "batch.kubernetes.io/"
COMPLETION_INDEX = _BATCH + "job-completion-index"
_TRAINING = "training.kubeflow.org/"
_JOBSET = "jobset.sigs.k8s.io/"
_LWS = "leaderworkerset.sigs.k8s.io/"
_VOLCANO = "volcano.sh/"
_NO_RUNS = frozenset({"apps/v1", "v1/ReplicationController"})  # API versions, or kinds, that replace pods without end
_SPAN = 100_000  # Members that an index leaves room for in one Job or group of which the size is not known
_ROLES: Mapping[str, Role] = {  # role as the framework names it, in lower case → role class
    **dict.fromkeys(("ps", "server", "parameter-server"), Role.PS),
    **dict.fromkeys(("chief", "master", "launcher", "leader", "head", "coordinator", "driver"), Role.CHIEF),
    **dict.fromkeys(("mpimaster", "scheduler"), Role.CHIEF),
    **dict.fromkeys(("evaluator", "dataset-initializer", "model-initializer", "initializer"), Role.OTHER),
}
Place: TypeAlias = tuple[Role, JobKey | None, int | None]  # A pod's role, its job, if one is recognised, its index
NO_PLACE: Final[Place] = (Role.OTHER, None, None)


def membership(
    namespace: str, labels: Texts, annotations: Texts, owners: Sequence[OwnerReference] = (), *, in_gang: bool = False
) -> Place:
    """Recognise job, role and index. Own annotations `netgang.io/role` and `/index` override what labels say.

    A controller of unknown kind makes its pods workers of a job only when they form a gang: a Deployment is no job.
    """
    role, name, index = _by_labels(labels, annotations)
    if in_gang and (name is None or len(name) > NAME_CHARS):
        role, name, index = NO_PLACE
        named = (ref.name for ref in owners if ref.controller and ref.kind != "Node" and len(ref.name) <= NAME_CHARS)
        if (name := next(named, None)) is not None:
            role, index = Role.WORKER, whole_number(labels.get("apps.kubernetes.io/pod-index"))
    given = whole_number(annotations.get(INDEX_ANNOTATION))
    job = JobKey(intern(f"{namespace}/{name}")) if name is not None and len(name) <= NAME_CHARS else None
    return _OWN_ROLES.get(annotations.get(ROLE_ANNOTATION, ""), role), job, index if given is None else given


def run_of(labels: Texts, owners: Sequence[OwnerReference]) -> RunRef | None:
    """The object whose pods are the pod's run, also if orphaned by it; `None`: not said, or its controller has none."""
    owner = next((ref for ref in owners if ref.controller), None)
    if owner is None:
        uid = labels.get(_BATCH + "controller-uid") or labels.get("controller-uid")
        if uid is None:
            return None
        kind, name = "Job.batch", labels.get(_BATCH + "job-name") or labels.get("job-name") or ""
    elif owner.api_version in _NO_RUNS or f"{owner.api_version}/{owner.kind}" in _NO_RUNS:
        return None
    else:
        uid, name = owner.uid, owner.name
        kind = f"{owner.kind}.{owner.api_version.partition('/')[0]}" if "/" in owner.api_version else owner.kind
        if _TRAINING + "job-name" in labels:
            kind = _TRAINING + labels.get(_TRAINING + "operator-name", "")
    whole = labels.get(_JOBSET + "jobset-uid", "")
    return shared(RunRef(*(text[:NAME_CHARS] for text in (uid, kind, name, whole))))


def _by_labels(labels: Texts, annotations: Texts) -> tuple[Role, str | None, int | None]:
    completion = whole_number(labels.get(COMPLETION_INDEX) or annotations.get(COMPLETION_INDEX))
    if (name := labels.get(_TRAINING + "job-name")) is not None:
        role = labels.get(_TRAINING + "replica-type") or labels.get(_TRAINING + "job-role")
        return _role(role), name, whole_number(labels.get(_TRAINING + "replica-index"))
    if (name := labels.get(_VOLCANO + "job-name")) is not None:
        role = labels.get(_VOLCANO + "task-spec") or annotations.get(_VOLCANO + "task-spec")
        task = labels.get(_VOLCANO + "task-index") or annotations.get(_VOLCANO + "task-index")
        return _role(role), name, whole_number(task)
    if (name := labels.get(_JOBSET + "jobset-name")) is not None:
        # Completion index inside the only Job of its role; else counted through all Jobs of the set
        if labels.get(_JOBSET + "replicatedjob-replicas") != "1":
            number = whole_number(labels.get(_JOBSET + "job-global-index") or labels.get(_JOBSET + "job-index"))
            completion = None if number is None else number * _SPAN + (completion or 0)
        return _role(labels.get(_JOBSET + "replicatedjob-name")), name, completion
    if (name := labels.get(_LWS + "name")) is not None:
        group = whole_number(labels.get(_LWS + "group-index")) or 0
        inside = whole_number(labels.get(_LWS + "worker-index"))
        if inside is None:
            return Role.WORKER, name, None
        size = whole_number(annotations.get(_LWS + "size")) or _SPAN
        return Role.CHIEF if inside == 0 else Role.WORKER, name, group * size + inside
    if (name := labels.get("ray.io/cluster")) is not None:
        return _role(labels.get("ray.io/node-type")), name, None
    if (name := labels.get(_BATCH + "job-name") or labels.get("job-name")) is not None:
        return Role.WORKER, name, completion
    return NO_PLACE


def _role(text: str | None) -> Role:
    return _ROLES.get((text or "")[:NAME_CHARS].lower(), Role.WORKER)


_MOST_KEYS: Final = 64
_MOST_NAMED: Final = 3
_KEY_CHARS: Final = 320  # What the API server accepts: a prefix of 253, a slash, a name of 63
_LABELS: Final = frozenset({POD_GROUP_LABEL, NAME_LABEL, MIN_AVAILABLE_LABEL})
_OPTIONS: Final = (*(OWN_PREFIX + name for name in KNOWN_OPTIONS), ROLE_ANNOTATION, INDEX_ANNOTATION)
_ANNOTATIONS: Final = frozenset({*NAME_ANNOTATIONS, *MIN_MEMBER_ANNOTATIONS, *_OPTIONS})
_OUR_LABELS: Final = frozenset(OWN_PREFIX + name for name in ("nudge", "role", "restart", "testpoint"))  # Labels
_NOTES: Final = frozenset({NUDGE_ANNOTATION, NoteKind.ADMITTED, NoteKind.PREEMPTS})  # Annotations
_OWN_ROLES: Final[Mapping[str, Role]] = {role.value: role for role in Role}
_NAMES: Final[dict[str, dict[str, str]]] = {}  # prefix → name after it → whether it is a label or an annotation
for _key in (*_ANNOTATIONS, *_LABELS):
    _NAMES.setdefault(_key.partition("/")[0], {})[_key.partition("/")[2]] = "label" if _key in _LABELS else "annotation"


def own_options(annotations: Texts) -> tuple[tuple[str, str], ...]:
    """The `netgang.io/…` annotations without the prefix, sorted, but our notes, and role and index once understood.

    Of a name that does not exist only the name is kept, of a value that is too long as much as shows that it is.
    """
    ours = ((key, value) for key, value in annotations.items() if key.startswith(OWN_PREFIX))
    options = {key[len(OWN_PREFIX) :]: value for key, value in ours if key not in _NOTES}
    if not options:
        return ()
    if annotations.get(ROLE_ANNOTATION) in _OWN_ROLES:
        del options["role"]
    if whole_number(annotations.get(INDEX_ANNOTATION)) is not None:
        del options["index"]
    return tuple(
        (name[:NAME_CHARS], value[: option_chars(name) + 1] if name in KNOWN_OPTIONS else "")
        for name, value in sorted(options.items())[:_MOST_OPTIONS]
    )


def misspelt(labels: Texts, annotations: Texts) -> tuple[str, ...]:
    """A sentence for each key that is probably misspelt. Cost: a look-up for pods of a known template.

    >>> misspelt({"pod-group.scheduling.sigs.k8s.io/nmae": "g"}, {})
    ('label pod-group.scheduling.sigs.k8s.io/nmae: did you mean label pod-group.scheduling.sigs.k8s.io/name?',)
    >>> misspelt({"netgang.io/zones": "D"}, {})
    ('label netgang.io/zones: did you mean annotation netgang.io/zones?',)
    >>> misspelt({"app": "x", "pod-group.scheduling.sigs.k8s.io/name": "g"}, {"netgang.io/zones": "D"})
    ()
    """
    if len(labels) > _MOST_KEYS or len(annotations) > _MOST_KEYS:
        return ()
    return _slips(tuple(labels), tuple(annotations))


@lru_cache(maxsize=64)
def _slips(labels: tuple[str, ...], annotations: tuple[str, ...]) -> tuple[str, ...]:
    texts = [_slip("label", key, _LABELS | _OUR_LABELS) for key in labels]
    texts += [_slip("annotation", key, _ANNOTATIONS) for key in annotations]
    return tuple([text for text in texts if text][:_MOST_NAMED])


def _slip(form: str, key: str, keys: frozenset[str]) -> str:
    """What is wrong with the key; empty: nothing, or it is reported by the reader of options."""
    prefix, slash, name = key.partition("/")
    if not slash or key in keys or len(key) > _KEY_CHARS:
        return ""
    if form == "annotation" and prefix + slash == OWN_PREFIX:
        return ""  # `gang_options` reports these, and netgang writes some itself
    meant = prefix if prefix in _NAMES else nearest(prefix, _NAMES)
    if meant is None:
        return ""
    names = _NAMES[meant]
    like = name if name in names else nearest(name, names)
    return f"{form} {key}: did you mean {names[like]} {meant}/{like}?" if like is not None else ""


_OF_OWNERS: Final = {OWN_PREFIX + name for name in ("min-workers", "max-workers", "scaling", "expected-duration")}
_GROUPS: Final = {*_LABELS, *NAME_ANNOTATIONS, *MIN_MEMBER_ANNOTATIONS}
_OF_PODS: Final = {"labels": _LABELS, "annotations": _ANNOTATIONS - _OF_OWNERS - _NOTES}


def misplaced(owner: Controller, content: Mapping[str, Any]) -> GroupRef | None:
    """What is on the object instead of in its pod templates, as `problem`; and the gang, if no template names one."""
    meta, spec = content.get("metadata") or {}, content.get("spec") or {}
    roles: Mapping[str, Any] = next((spec[name] or {} for name in spec if name.endswith("ReplicaSpecs")), {})
    jobs = [(job.get("template") or {}).get("spec") or {} for job in spec.get("replicatedJobs") or ()]
    pods = [(maker.get("template") or {}).get("metadata") or {} for maker in (spec, *roles.values(), *jobs)]
    have = {key for of_pod in pods for part in _OF_PODS for key in of_pod.get(part) or ()}
    where = f"spec.{'' if 'template' in spec else '….'}template.metadata"
    words = "; ".join(
        f"{owner.kind} {owner.name} has {part} {', '.join(keys[:_MOST_NAMED])}, which netgang reads of pods: move the "
        f"{part} to {where}.{part}{'' if owner.group_kind[0] == 'apps' else f', and create the {owner.kind} again'}"
        for part, ours in _OF_PODS.items()
        if (keys := sorted(ours.intersection(meta.get(part) or ()) - have))
    )
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    group = group_of(meta["namespace"], labels, annotations) if words and have.isdisjoint(_GROUPS) else None
    ref = group or GroupRef(GangKey(""), GangSource.LABELS)
    least = ref.min_available or (whole_number(labels.get(MIN_AVAILABLE_LABEL)) if group else None)
    return GroupRef(ref.key, ref.source, least, words) if words else None


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
    owner = next((ref for ref in owners if ref.controller), _NO_OWNER)
    texts, of_use = (owner.api_version, owner.kind, owner.name, owner.uid), group or mistakes or not spec.node_name
    daemon = owner.kind == "DaemonSet" and owner.api_version.partition("/")[0] == "apps"
    scheduled, waits, bound = _NOT_TRIED, False, None
    limit_s = spec.active_deadline_seconds  # The API server takes none below 1
    if (group is not None or admitted_to is not None) and (spec.node_name or not gates):
        scheduled = status.condition("PodScheduled") or _NOT_TRIED
    # After SchedulerError kube-scheduler tries again by itself
    refused = (scheduled.status, scheduled.reason) == ("False", "Unschedulable")
    if group is not None:
        waits = not spec.node_name and not gates
        bound = scheduled.last_transition_time if spec.node_name and scheduled.status == "True" else None
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
        owner=shared(Controller(*texts)) if of_use and 0 < max(map(len, texts)) <= NAME_CHARS else None,
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
    text = message[: message.find(". ", message.find(_COUNTED) + 1) + 1 or None]  # PostFilter plugins' words are behind
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
