"""The kinds of jobs whose worker count may be changed: a table, how a job is read, and the patch that resizes it.

Rules: a kind is here or it is left alone; what is not said is never guessed, so a job without a minimum is not elastic;
own annotations on the job win over the same on the pod template, and both over what the framework says. What the table
relies on:

- Indexed Job (Kubernetes 1.31 and later): `completions` may change only together with `parallelism` and to the same
  value (alone, the Job controller would choose): then the pods with the highest indexes go and count as no failure. The
  gang's minimum in the pods (label `min-available`) or in a PodGroup is a limit for us: how many start together says
  nothing of how many may leave later, so without an annotation of ours such a job keeps its size.
- JobSet (0.12 with its gate ElasticJobSet): elastic by our annotation alone, and with exactly one replicated Job of one
  replica that is not named in `netgang.io/fixed`; without the gate the patch is refused, which is then said.
- Kubeflow's jobs (training-operator 1.8 and 1.9, mpi-operator 0.8): defaults and the spelling of roles are only in the
  operator's memory, so roles are compared without regard to case, and the patch uses the key as it is stored. The
  operators write the PodGroup's minMember at each sync, schedulingPolicy.minAvailable or else all replicas: so a job
  that is resized gets its minimum there, in the same patch.
- TFJob: a worker that is stopped while it runs counts as failed, and the job with it, unless enableDynamicWorker is
  set; a chief gets no cluster in that mode. Worker 0 decides success. Workers must leave one by one: while a higher
  index still ends, the operator takes a lower one that is gone for missing, then asks for the address of a worker that
  the job does not have, and crashes (1.8.1, seen).
- PyTorchJob: failed pods count only when fewer run than are wanted. Without elasticPolicy torchrun's nodes are fixed.
- MPIJob: only a launcher that reads its hosts again survives; the object does not say, so our annotation must.

The last change is an annotation in the same patch as the worker count: a reader, and a process after us, finds both or
neither. It counts with our signature for this very job (docs/safety.md S22), while the job has the count it names.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from extender.controllers.failure_budget import Json, decoded, managed_by_queue, true_condition
from extender.convert.decode import note_from_json, whole_number
from extender.signed_notes import NO_NOTES, Bearer, NoteKind, NoteReader, Notes
from scoring import GangKey, Namespace
from scoring.scaling.job import JobKey, Wants

LAST_CHANGE = NoteKind.LAST_CHANGE.value


class Requester(StrEnum):
    """What asked for a change."""

    QUEUE = "queue"  # The queue: room for a waiting gang, or growth into idle room
    METRICS = "metrics"  # The job's own policy, by what it reports


class ResizeCause(msgspec.Struct, frozen=True):
    """What wants a change, why (a sentence), and for which gang."""

    requester: Requester
    why: str
    beneficiary: GangKey | None = None


class Intent(msgspec.Struct, frozen=True):
    """What we last made of a job's worker count, and the annotation's JSON. Times are Unix seconds.

    >>> msgspec.json.encode(Intent(6, 2, 9.5, Requester.QUEUE, "room for a/h", GangKey("a/h"), 6, 6, (9.5,)))[:60]
    b'{"from":6,"to":2,"at":9.5,"who":"queue","why":"room for a/h"'
    """

    before: int = msgspec.field(name="from")
    after: int = msgspec.field(name="to")
    at_s: float = msgspec.field(name="at")
    requester: Requester = msgspec.field(name="who")
    why: str = ""
    beneficiary: GangKey | None = msgspec.field(name="for", default=None)  # The gang that workers were taken away for
    grow_back_to: int | None = msgspec.field(name="growBackTo", default=None)  # Workers before we took any
    most: int | None = None  # Workers it was submitted with: its maximum where it names none
    changes_s: tuple[float, ...] = msgspec.field(name="changes", default=())  # Ours within an hour, to `at_s`
    target: int | None = None  # Where `after` is a step on the way: to how many; `None`: it is the end

    @property
    def goal(self) -> int:
        """Workers when all is done."""
        return self.after if self.target is None else self.target

    def one_further(self) -> "Intent":
        """The next step of the same change.

        >>> first = Intent(6, 5, 9.0, Requester.QUEUE, "", target=3)
        >>> (first.one_further().after, first.one_further().one_further().target)
        (4, None)
        """
        after = self.after - 1
        return replace(self, after=after, target=self.target if self.target != after else None)

    def stands(self, workers: int) -> bool:
        """Whether the worker count is still the one that we set."""
        return self.after == workers


_INTENT = msgspec.json.Decoder(Intent)


def next_intent(
    last: Intent | None, *, cause: ResizeCause, before: int, after: int, at_s: float, one_by_one: bool = False
) -> Intent:
    """The intent of one more change, or `one_by_one` of its first step; `last` counts if it stood at `before`.

    >>> room, idle = ResizeCause(Requester.QUEUE, "", GangKey("a/h")), ResizeCause(Requester.QUEUE, "")
    >>> shrink = next_intent(None, cause=room, before=6, after=2, at_s=9.0)
    >>> shrink.grow_back_to, shrink.most, shrink.changes_s
    (6, 6, (9.0,))
    >>> grown = next_intent(shrink, cause=idle, before=2, after=6, at_s=11.0)
    >>> grown.grow_back_to, grown.most, grown.changes_s
    (None, 6, (9.0, 11.0))
    """
    prior = last if last is not None and last.stands(before) else Intent(before, before, at_s, cause.requester)
    back, most = prior.grow_back_to or 0, max(before, prior.most or 0)
    if after < before and cause.beneficiary is not None:
        back = max(before, back)
    first = before - 1 if one_by_one and after < before else after
    changes_s = (*(at for at in prior.changes_s if at > at_s - 3600.0), at_s)[-32:]
    intent = Intent(before, first, at_s, cause.requester, cause.why, cause.beneficiary, most=most, changes_s=changes_s)
    return replace(intent, grow_back_to=back if back > after else None, target=after if first != after else None)


def intent_of(annotations: Mapping[str, Any], bearer: Bearer, notes: NoteReader) -> Intent | None:
    """Read a job's annotation; `None`: it has none, or one that is not ours (people may edit it, or write one)."""
    text = annotations.get(LAST_CHANGE)
    content = notes.read(NoteKind.LAST_CHANGE, bearer, text) if isinstance(text, str) else None
    return note_from_json(_INTENT, content)


MIN_WORKERS: Final = "netgang.io/min-workers"
MAX_WORKERS: Final = "netgang.io/max-workers"
SCALING: Final = "netgang.io/scaling"
FIXED: Final = "netgang.io/fixed"  # On a JobSet: replicated Jobs that are no workers, separated by commas
_WORKER: Final = "worker"


class Unsafe(StrEnum):
    """Why a job's worker count must be left alone; the value completes "it is not resized, because …"."""

    BAD_BOUNDS = "its minimum and maximum are not whole numbers with 1 <= minimum <= maximum"
    STATIC_WORKERS = "spec.enableDynamicWorker is not true, so the operator would fail the job"
    CHIEF = "it has a chief, which does not learn of workers that come later"
    NEVER_RESTARTS = "the restartPolicy of its workers is Never"
    NO_ELASTIC_POLICY = "spec.elasticPolicy is missing, so torchrun would wait for the removed workers"
    MASTER = "it has a Master, with which elastic training miscounts its nodes"
    LAUNCHER_WORKS = "spec.runLauncherAsWorker is true, so the operator would also remove a worker that stays"
    NOT_INDEXED = "its completionMode is not Indexed"
    UNEQUAL = "its parallelism and completions differ"
    SEVERAL_WORKER_JOBS = "it has not exactly one replicated Job of workers with one replica"
    MANAGED = "another controller manages it (managedBy)"
    QUEUED = "Kueue manages it, and would stop it"
    AUTOSCALED = "a HorizontalPodAutoscaler changes its worker count"
    CONTROLLED = "it belongs to another controller, which would undo the change"


class NotNow(StrEnum):
    """Why a job is left alone at the moment; completes "it is not resized, because …"."""

    NO_GANG = "its pods form no gang that netgang starts"
    NAMESAKE = "a job of another kind in its namespace has its name"
    SUSPENDED = "it is suspended"
    RESTARTING = "its operator is restarting pods"
    DELETED = "it is being deleted"
    ENDED = "it has ended"
    UNSETTLED = "its worker pods are not those that its spec asks for"
    UNDER_WAY = "its last change is under way"
    ATTEMPT_FAILED = "the last attempt to change it failed"


class WorkerBounds(msgspec.Struct, frozen=True):
    """Least and most workers, and where the minimum is from. `None`: not said."""

    least: int | None = None
    most: int | None = None
    source: str = ""
    bad: bool = False  # What is said cannot be understood, or contradicts itself
    asked: int | None = None  # The least of an annotation, also where the pods' own min-available is more


class Seen(msgspec.Struct, frozen=True):
    """One job as its API object says it is."""

    key: JobKey
    uid: str
    workers: int
    bounds: WorkerBounds
    unsafe: Unsafe | None
    rests: NotNow | None  # `None`: it runs, or is about to
    intent: Intent | None = None  # What we last made of it
    wants: Wants | None = None  # `None`: it does not say
    bad_wants: bool = False  # What it says is not one of the words

    def with_newest_note(self, former: "Seen") -> "Seen":
        """The same, with `former`'s note on this very job if that is newer (docs/safety.md S22)."""
        last = former.intent if former.uid == self.uid else None
        newer = last is not None and (self.intent is None or self.intent.at_s < last.at_s)
        return replace(self, intent=last) if newer else self

    @property
    def claims(self) -> bool:
        """Whether it says, or our note on it, that it could have fewer or more workers than now."""
        least, most = self.bounds.least, self.bounds.most
        changed = self.intent is not None and self.intent.stands(self.workers)
        return self.bounds.bad or (least is not None and least < self.workers) or (most or 0) > self.workers or changed


Rule = Callable[[Json, Mapping[str, Json]], bool]  # Spec, roles → whether this makes a change unsafe


class JobKind(msgspec.Struct, frozen=True):
    """What tells one kind of job from others."""

    group: str
    version: str
    kind: str
    plural: str
    managers: tuple[str, ...]  # Values of `managedBy` with which it may be changed, besides none
    ends: tuple[str, ...]  # Conditions with which it is over
    roles: str = ""  # Field of the spec with the replicas by role, and then our patches set the gang's minimum
    rules: tuple[tuple[Unsafe, Rule], ...] = ()
    infers: bool = False  # minAvailable and elasticPolicy suffice to make it elastic: it shows that it may be
    one_by_one: bool = False  # Whether workers must leave one after the other, each gone before the next is removed

    @property
    def api_version(self) -> str:
        """As objects name it."""
        return f"{self.group}/{self.version}"

    @property
    def collection(self) -> str:
        """URL path of all of them."""
        return f"/apis/{self.api_version}/{self.plural}"

    @property
    def name(self) -> str:
        """Kind and group, as `JobKey` has it."""
        return f"{self.kind}.{self.group}"


_KUBEFLOW = ("kubeflow.org/training-operator", "kubeflow.org/mpi-operator"), ("Succeeded", "Failed")
_TF_RULES: tuple[tuple[Unsafe, Rule], ...] = (
    (Unsafe.STATIC_WORKERS, lambda spec, _: spec.get("enableDynamicWorker") is not True),
    (Unsafe.CHIEF, lambda _, roles: "chief" in roles or "master" in roles),
    (Unsafe.NEVER_RESTARTS, lambda _, roles: roles.get(_WORKER, {}).get("restartPolicy", "Never") == "Never"),
)
_PYTORCH_RULES: tuple[tuple[Unsafe, Rule], ...] = (
    (Unsafe.NO_ELASTIC_POLICY, lambda spec, _: spec.get("elasticPolicy") is None),
    (Unsafe.MASTER, lambda _, roles: "master" in roles),
    (Unsafe.AUTOSCALED, lambda spec, _: bool(spec["elasticPolicy"].get("metrics"))),
)
_MPI_RULES: tuple[tuple[Unsafe, Rule], ...] = (
    (Unsafe.LAUNCHER_WORKS, lambda spec, _: bool(spec.get("runLauncherAsWorker"))),
)
_JOB_ENDS = ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet")
JOB = JobKind("batch", "v1", "Job", "jobs", ("kubernetes.io/job-controller",), _JOB_ENDS)
TF_JOB = JobKind(
    "kubeflow.org", "v1", "TFJob", "tfjobs", *_KUBEFLOW, "tfReplicaSpecs", _TF_RULES, infers=True, one_by_one=True
)
PYTORCH_JOB = JobKind(
    "kubeflow.org", "v1", "PyTorchJob", "pytorchjobs", *_KUBEFLOW, "pytorchReplicaSpecs", _PYTORCH_RULES, infers=True
)
MPI_JOB = JobKind("kubeflow.org", "v2beta1", "MPIJob", "mpijobs", *_KUBEFLOW, "mpiReplicaSpecs", _MPI_RULES)
_JOB_SET_BY = "jobset.sigs.k8s.io/jobset-controller"
JOB_SET = JobKind("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", (_JOB_SET_BY,), ("Completed", "Failed"))
KINDS: Mapping[str, JobKind] = {kind.name: kind for kind in (JOB, TF_JOB, PYTORCH_JOB, MPI_JOB, JOB_SET)}


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = "default"
    uid: str = ""


class _Workers(msgspec.Struct, frozen=True):
    """What a job's spec says of its workers, wherever its kind writes it."""

    count: int
    template: Json
    policy: Json  # The part with `managedBy` and `suspend`
    bounds: WorkerBounds
    unsafe: Unsafe | None
    others: int = 0  # Kubeflow's: pods of other roles
    gang_minimum: int | None = None  # Kubeflow's: pods that its gang needs, where the job says so


def read(kind: JobKind, raw: bytes, *, notes: NoteReader = NO_NOTES) -> Seen:
    """Read a job of this kind, and with `notes` what we noted on it. ValueError: it cannot be read."""
    try:
        job = decoded(raw)
        workers = _workers_of(kind, job)
        own, bearer = annotations_of(job), _bearer(kind, job)
        wants = own.get(SCALING, annotations_of(workers.template).get(SCALING))
        status = job.get("status") or {}
        rests = {
            NotNow.DELETED: job["metadata"].get("deletionTimestamp"),
            NotNow.ENDED: true_condition(status, *kind.ends),
            NotNow.SUSPENDED: workers.policy.get("suspend") or true_condition(status, "Suspended"),
            NotNow.RESTARTING: true_condition(status, "Restarting"),
        }
        return Seen(
            key=JobKey(Namespace(bearer.namespace), kind.name, bearer.name),
            uid=bearer.uid,
            workers=workers.count,
            bounds=workers.bounds,
            unsafe=_unsafe(kind, job, workers),
            rests=next((why for why, holds in rests.items() if holds), None),
            intent=intent_of(own, bearer, notes),
            wants=Wants(wants) if wants in list(Wants) else None,
            bad_wants=wants is not None and wants not in list(Wants),
        )
    except (TypeError, AttributeError, KeyError, msgspec.ValidationError) as error:
        raise ValueError(f"not a {kind.kind}: {error!r}") from error


def resize_patch(kind: JobKind, raw: bytes, intent: Intent, *, notes: Notes) -> bytes:
    """A merge patch of this version of the job: `intent.after` workers, and the note. ValueError: none can be made."""
    job = decoded(raw)
    bearer, content = _bearer(kind, job), msgspec.json.encode(replace(intent, why=intent.why[:500])).decode()
    metadata = {
        "uid": bearer.uid,
        "resourceVersion": job["metadata"].get("resourceVersion", ""),
        "annotations": {LAST_CHANGE: notes.write(NoteKind.LAST_CHANGE, bearer, content)},
    }
    return msgspec.json.encode({"metadata": metadata, "spec": resized(kind, job, intent.after)})


def resized(kind: JobKind, job: Json, workers: int) -> Json:
    """The spec of a merge patch for so many workers of a job that is not unsafe."""
    counts = {"parallelism": workers, "completions": workers}
    if kind.roles:
        now = _workers_of(kind, job)
        stored = next(name for name in job["spec"][kind.roles] if name.lower() == _WORKER)
        spec: dict[str, Any] = {kind.roles: {stored: {"replicas": workers}}}
        least = now.others + min(now.bounds.least or workers, workers)
        if now.gang_minimum is None or now.gang_minimum > least:
            spec["runPolicy"] = {"schedulingPolicy": {"minAvailable": least}}
        return spec
    if kind is not JOB_SET:
        return counts
    jobs = list(job["spec"]["replicatedJobs"])  # A merge patch replaces lists whole: all are in it, as they were read
    number = _worker_job(job, jobs)
    assert number is not None, "an unsafe job is not resized"
    template = jobs[number]["template"]
    jobs[number] = {**jobs[number], "template": {**template, "spec": {**template["spec"], **counts}}}
    return {"replicatedJobs": jobs}


def _bearer(kind: JobKind, job: Json) -> Bearer:
    metadata = msgspec.convert(job.get("metadata"), _Metadata)
    return Bearer(kind.api_version, kind.kind, metadata.namespace, metadata.name, metadata.uid)


def annotations_of(thing: Json, name: str = "annotations") -> Json:
    """Annotations, or labels, of an object or of a pod template."""
    return (thing.get("metadata") or {}).get(name) or {}


def _workers_of(kind: JobKind, job: Json) -> _Workers:
    spec = job.get("spec") or {}
    if kind.roles:
        return _by_roles(kind, job, spec)
    inner = spec
    if kind is JOB_SET:
        jobs: Sequence[Json] = spec.get("replicatedJobs") or ()
        if (number := _worker_job(job, jobs)) is None:
            return _Workers(0, {}, spec, own_bounds(job, {}), Unsafe.SEVERAL_WORKER_JOBS)
        inner = (jobs[number].get("template") or {}).get("spec") or {}
    unsafe = Unsafe.UNEQUAL if inner.get("completions") != inner.get("parallelism", 1) else None
    unsafe = unsafe if inner.get("completionMode") == "Indexed" else Unsafe.NOT_INDEXED
    template = inner.get("template") or {}
    bounds = own_bounds(job, template)
    least = annotations_of(template, "labels").get("pod-group.scheduling.sigs.k8s.io/min-available")
    label = whole_number(least, digits=63) if (bounds.least or bounds.most) is not None else None
    if label is not None and (bounds.least is None or label > bounds.least):  # the least of all minimums
        bounds = replace(bounds, least=label, source="label min-available")
    return _Workers(count(inner.get("parallelism"), 1), template, spec, bounds, unsafe)


def _worker_job(job: Json, jobs: Sequence[Json]) -> int | None:
    """Which of a JobSet's replicated Jobs are the workers; `None`: not exactly one of one replica."""
    fixed = {name.strip() for name in str(annotations_of(job).get(FIXED, "")).split(",")}
    resizable = [at for at, replicated in enumerate(jobs) if replicated.get("name") not in fixed]
    return resizable[0] if len(resizable) == 1 and count(jobs[resizable[0]].get("replicas"), 1) == 1 else None


def _by_roles(kind: JobKind, job: Json, spec: Json) -> _Workers:
    roles = {name.lower(): role or {} for name, role in (spec.get(kind.roles) or {}).items()}
    others = sum(count(role.get("replicas"), 1) for name, role in roles.items() if name != _WORKER)
    template = roles.get(_WORKER, {}).get("template") or {}
    run = spec.get("runPolicy") or {}
    minimum = (run.get("schedulingPolicy") or {}).get("minAvailable")
    bounds = own_bounds(job, template)
    if kind.infers:
        policy, (least, most, source) = spec.get("elasticPolicy") or {}, (bounds.least, bounds.most, bounds.source)
        if least is None and policy.get("minReplicas") is not None:
            least, source = count(policy["minReplicas"], 1), "spec.elasticPolicy"
        if most is None and policy.get("maxReplicas") is not None:
            most = count(policy["maxReplicas"], 1)
        if least is None and minimum is not None and count(minimum, 0) > others:
            least, source = count(minimum, 0) - others, "schedulingPolicy.minAvailable"
        bad = bounds.bad or (least is not None and most is not None and least > most)
        bounds = replace(bounds, least=least, most=most, source=source, bad=bad)
    workers = count(roles[_WORKER].get("replicas"), 1) if _WORKER in roles else 0
    unsafe = next((why for why, holds in kind.rules if holds(spec, roles)), None)
    return _Workers(workers, template, run, bounds, unsafe, others, gang_minimum=count(minimum, 0) or None)


def own_bounds(job: Json, template: Json) -> WorkerBounds:
    """What our annotations say, on the job or else on its workers' template."""
    annotations = {**annotations_of(template), **annotations_of(job)}
    least, most = annotations.get(MIN_WORKERS), annotations.get(MAX_WORKERS)
    least_n, most_n = (whole_number(text, digits=6) or None for text in (least, most))
    bad = (least is not None and least_n is None) or (most is not None and most_n is None)
    bad = bad or (least_n is not None and most_n is not None and least_n > most_n)
    return WorkerBounds(least_n, most_n, f"annotation {MIN_WORKERS}" if least is not None else "", bad, least_n)


def _unsafe(kind: JobKind, job: Json, workers: _Workers) -> Unsafe | None:
    manager = workers.policy.get("managedBy")
    against = {
        Unsafe.BAD_BOUNDS: workers.bounds.bad,
        Unsafe.MANAGED: manager and manager not in kind.managers,
        Unsafe.QUEUED: managed_by_queue((job, workers.template)),
        Unsafe.CONTROLLED: any(ref.get("controller") for ref in job["metadata"].get("ownerReferences") or ()),
    }
    return next((why for why, holds in against.items() if holds), workers.unsafe)


def count(value: Any, default: int) -> int:
    """A count of the spec; missing: the API's default. ValueError: it is no whole number."""
    value = default if value is None else value
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:  # int32 in the API
        raise ValueError(f"not a count: {value if isinstance(value, int) else type(value).__name__}")
    return value
