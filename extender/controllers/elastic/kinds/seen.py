"""What every kind of job shows in its own way: counts, bounds, state, and whether its size may be changed.

Why one record: the code that decides and patches need not know a TFJob from an Indexed Job. Rules: what is not said is
never guessed, so a job without a minimum is not elastic; whatever makes a change unsafe is one of a closed set of
texts; own annotations on the job win over the same on the pod template, and both over what the framework says.
"""

from collections.abc import Callable, Collection
from enum import StrEnum
from typing import Any

import msgspec
from msgspec.structs import replace

from extender.controllers.elastic.intent import LAST_CHANGE, Intent, encoded, intent_of
from extender.controllers.owners.failure_budget import Json, decoded
from extender.convert.decode import whole_number
from extender.notes import NO_NOTES, Bearer, NoteReader, Notes
from scoring.ids import Namespace
from scoring.scaling.job import JobKey, Wants

MIN_WORKERS = "netgang.io/min-workers"
MAX_WORKERS = "netgang.io/max-workers"
SCALING = "netgang.io/scaling"
_KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
_KUEUE_MINIMUM = "kueue.x-k8s.io/job-min-parallelism"


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


class State(StrEnum):
    """A job's phase."""

    ACTIVE = "active"
    """It runs, or is about to."""
    SUSPENDED = "suspended"
    """Its owner, Kueue or we have suspended it: it has no pods."""
    RESTARTING = "restarting"
    """Its operator is recreating pods."""
    ENDED = "ended"
    """It has finished or failed."""
    DELETED = "deleted"
    """It is being deleted."""


class Bounds(msgspec.Struct, frozen=True):
    """Least and most workers; `source` says where the minimum is from. `None`: not said."""

    least: int | None = None
    most: int | None = None
    source: str = ""
    bad: bool = False  # What is said cannot be understood, or contradicts itself
    asked: int | None = None  # The least of an annotation, also where the pods' own min-available is more


class Seen(msgspec.Struct, frozen=True):
    """One job as its API object says it is."""

    key: JobKey
    uid: str
    resource_version: str
    api_version: str
    workers: int
    others: int  # Pods of other roles: ps, chief, launcher
    bounds: Bounds
    gang_minimum: int | None  # Pods that its gang needs, where the job says so
    steers_gang: bool  # Whether our patches set the gang's minimum; else the gang's minimum limits ours
    unsafe: Unsafe | None
    state: State
    intent: Intent | None = None  # What we last made of it; `read` fills it in
    wants: Wants | None = None  # `None`: it does not say
    bad_wants: bool = False  # What it says is not one of the words

    @property
    def claims(self) -> bool:
        """Whether it says, or our note on it, that it could have fewer or more workers than now."""
        least, most = self.bounds.least, self.bounds.most
        changed = self.intent is not None and self.intent.stands(self.workers)
        return self.bounds.bad or (least is not None and least < self.workers) or (most or 0) > self.workers or changed

    @property
    def asks(self) -> bool:
        """Whether an annotation asks for fewer workers, or for some of a job whose workers are not known."""
        asked = self.bounds.asked
        return asked is not None and (asked < self.workers or self.workers == 0)

    @property
    def limited(self) -> bool:
        """Whether an annotation asks for fewer workers than the pods' own min-available."""
        bounds = self.bounds
        return bounds.asked is not None and bounds.least is not None and bounds.asked < bounds.least


class Kind(msgspec.Struct, frozen=True):
    """How one kind of job is read and resized. Its functions are pure."""

    group: str
    version: str
    kind: str
    plural: str
    look: "Callable[[Kind, Json], Seen]"  # What the object says. ValueError: it cannot be read.
    resized: Callable[[Json, Seen, int], Json]  # Its part of a merge patch for so many workers: `spec`, no metadata
    managers: tuple[str, ...] = ()  # Values of `managedBy` with which it may be changed, besides none
    ends: tuple[str, ...] = ("Complete", "Failed")  # Conditions with which it is over
    one_by_one: bool = False  # Whether workers must leave one after the other, each gone before the next is removed

    @property
    def api_version(self) -> str:
        """As objects name it."""
        return f"{self.group}/{self.version}"

    @property
    def collection(self) -> str:
        """URL path of all of them."""
        return f"/apis/{self.group}/{self.version}/{self.plural}"

    @property
    def name(self) -> str:
        """Kind and group, as `JobKey` has it."""
        return f"{self.kind}.{self.group}"


_COUNT_DIGITS = 6
_MOST = 2**31 - 1  # the API's counts are int32


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = "default"
    uid: str = ""
    resource_version: str = msgspec.field(name="resourceVersion", default="")


def read(kind: Kind, raw: bytes, *, notes: NoteReader = NO_NOTES) -> Seen:
    """Read a job of this kind, and with `notes` what we noted on it. ValueError: it cannot be read."""
    try:
        job = decoded(raw)
        found = kind.look(kind, job)
        return replace(found, intent=intent_of(annotations_of(job), _bearer(kind, found), notes))
    except (TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"not a {kind.kind}: {error!r}") from error


def _bearer(kind: Kind, job: Seen) -> Bearer:
    return Bearer(kind.api_version, kind.kind, job.key.namespace, job.key.name, job.uid)


def resize_patch(kind: Kind, raw: bytes, intent: Intent, *, notes: Notes) -> bytes:
    """A merge patch that makes the very job `raw`, at this version, have `intent.after` workers, and notes it.

    ValueError: it cannot be read, or no note can be written on it.
    """
    job = decoded(raw)
    seen = kind.look(kind, job)
    metadata = {
        "uid": seen.uid,
        "resourceVersion": seen.resource_version,
        "annotations": {LAST_CHANGE: encoded(intent, _bearer(kind, seen), notes)},
    }
    return msgspec.json.encode({"metadata": metadata, **kind.resized(job, seen, intent.after)})


def annotations_of(thing: Json) -> Json:
    """Annotations of an object or of a pod template."""
    return (thing.get("metadata") or {}).get("annotations") or {}


def labels_of(thing: Json) -> Json:
    """Labels of an object or of a pod template."""
    return (thing.get("metadata") or {}).get("labels") or {}


def own_bounds(job: Json, template: Json) -> Bounds:
    """What our annotations say, and Kueue's for the minimum, on the job or else on its workers' template.

    >>> own_bounds({"metadata": {"annotations": {MIN_WORKERS: "2"}}}, {})
    Bounds(least=2, most=None, source='annotation netgang.io/min-workers', bad=False, asked=2)
    >>> own_bounds({"metadata": {"annotations": {MIN_WORKERS: "5", MAX_WORKERS: "4"}}}, {}).bad
    True
    """
    said = {**annotations_of(template), **annotations_of(job)}
    name = MIN_WORKERS if MIN_WORKERS in said else _KUEUE_MINIMUM
    least, most = said.get(name), said.get(MAX_WORKERS)
    least_n, most_n = (whole_number(text, digits=_COUNT_DIGITS) or None for text in (least, most))
    bad = (least is not None and least_n is None) or (most is not None and most_n is None)
    bad = bad or (least_n is not None and most_n is not None and least_n > most_n)
    asked = least_n if name == MIN_WORKERS else None
    return Bounds(least_n, most_n, f"annotation {name}" if least is not None else "", bad, asked)


def seen(
    kind: Kind,
    job: Json,
    template: Json,
    policy: Json,
    *,
    workers: int,
    unsafe: Unsafe | None,
    bounds: Bounds | None = None,
    others: int = 0,
    gang_minimum: int | None = None,
    steers_gang: bool = False,
) -> Seen:
    """Put a kind's findings together with what all objects have. ValueError: metadata are missing.

    `policy` is the part with `managedBy` and `suspend`. By default its bounds are our annotations', all pods are
    workers, and the gang's minimum is nothing that the job says or that we may change.
    """
    bounds = bounds or own_bounds(job, template)
    try:
        metadata = msgspec.convert(job.get("metadata"), _Metadata)
    except msgspec.ValidationError as error:
        raise ValueError(f"{kind.kind}: metadata: {error}") from error
    wants = annotations_of(job).get(SCALING, annotations_of(template).get(SCALING))
    if bounds.bad:
        unsafe = Unsafe.BAD_BOUNDS
    elif policy.get("managedBy") and policy["managedBy"] not in kind.managers:
        unsafe = Unsafe.MANAGED
    elif labels_of(job).get(_KUEUE_QUEUE):
        unsafe = Unsafe.QUEUED
    elif any(one.get("controller") for one in job["metadata"].get("ownerReferences") or ()):
        unsafe = Unsafe.CONTROLLED
    return Seen(
        key=JobKey(Namespace(metadata.namespace), kind.name, metadata.name),
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        api_version=kind.api_version,
        workers=workers,
        others=others,
        bounds=bounds,
        gang_minimum=gang_minimum,
        steers_gang=steers_gang,
        unsafe=unsafe,
        state=_state_of(job, kind.ends, suspended=bool(policy.get("suspend"))),
        wants=Wants(wants) if wants in list(Wants) else None,
        bad_wants=wants is not None and wants not in list(Wants),
    )


def _state_of(job: Json, ends: Collection[str], *, suspended: bool) -> State:
    """The first that applies of deleted, ended, suspended, restarting."""
    held = {one["type"] for one in (job.get("status") or {}).get("conditions") or () if one.get("status") == "True"}
    if job["metadata"].get("deletionTimestamp"):
        return State.DELETED
    if not held.isdisjoint(ends):
        return State.ENDED
    if suspended or "Suspended" in held:
        return State.SUSPENDED
    return State.RESTARTING if "Restarting" in held else State.ACTIVE


def count(value: Any, default: int) -> int:
    """A count of the spec; missing: the API's default. ValueError: it is no whole number."""
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST:
        raise ValueError(f"not a count: {value if isinstance(value, int) else type(value).__name__}")
    return value
