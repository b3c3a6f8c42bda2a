"""Elastic jobs as the API server shows them, and their changes: what the parts of the controller share.

Beside the cache, as nothing here is an input of the plan. Rule: `Records` holds a bounded number of changes; a restart
goes by the annotations on the jobs (`intent`). The records have all ends, so metrics are counted from them alone.
"""

import asyncio
import math
import random
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence, Set
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from extender.controllers.context import ControllerContext
from extender.controllers.elastic.kinds import KINDS, Intent, JobKind, NotNow, Seen, read
from extender.controllers.failure_budget import decoded
from extender.controllers.recorder import Happening, Subject
from extender.errors import Backoff
from extender.runtime.decision_lines import Decision
from extender.runtime.telemetry import Telemetry
from extender.signed_notes import NoteReader
from scoring import JobKey as PodsJob
from scoring import Namespace
from scoring.model import Gang, Pod, Role
from scoring.queue.states import JobState
from scoring.scaling.job import ElasticJob, JobKey, Options, Scaling

_RETRY = Backoff(1.0, 300.0)

T = TypeVar("T")


class Followed(Generic[T]):
    """The objects of one kind; an `extender.kube.reflector.Sink` of names with what is kept of each."""

    def __init__(self, changed: asyncio.Event) -> None:
        self._changed = changed
        self.items: dict[str, T] = {}  # By `namespace/name`

    def key(self, item: tuple[str, T]) -> str:
        """See `Sink`."""
        return item[0]

    def list_begun(self, keys: Set[str]) -> None:
        """See `Sink`."""
        for gone in self.items.keys() - keys:
            self.remove(gone)

    def list_ended(self) -> None:
        """See `Sink`."""

    def put(self, item: tuple[str, T]) -> None:
        """See `Sink`."""
        name, value = item
        if self.items.get(name) != value:
            self.items[name] = value
            self._changed.set()

    def remove(self, key: str) -> None:
        """See `Sink`."""
        if self.items.pop(key, None) is not None:
            self._changed.set()


class FollowedJobs:
    """All that is followed; `changed` is set whenever an object is another than before."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.scaled: Followed[JobKey] = Followed(self.changed)  # Autoscaler → its job
        self.of_kind: Mapping[str, Followed[Seen]] = {name: Followed(self.changed) for name in KINDS}

    def get(self, key: JobKey) -> Seen | None:
        """The job as it was seen last."""
        return self.of_kind[key.kind].items.get(f"{key.namespace}/{key.name}")

    def all(self) -> Sequence[Seen]:
        """By kind, then as they were read. Cost: O(n)."""
        return [seen for of_kind in self.of_kind.values() for seen in of_kind.items.values()]


def reduce_by(kind: JobKind, notes: NoteReader) -> Callable[[bytes], tuple[str, Seen] | None]:
    """How a reflector reduces jobs of this kind: those that are over, and of no interest, are not kept."""

    def reduce(raw: bytes) -> tuple[str, Seen] | None:
        seen = read(kind, raw, notes=notes)
        return (pods_job(seen), seen) if seen.rests is not NotNow.ENDED or seen.intent is not None else None

    return reduce


def target_from_json(raw: bytes) -> tuple[str, JobKey]:
    """`namespace/name` of an autoscaling/v2 HorizontalPodAutoscaler, and the job it scales. ValueError: not readable.

    >>> ref = b'"scaleTargetRef":{"apiVersion":"kubeflow.org/v1","kind":"PyTorchJob","name":"j"}'
    >>> str(target_from_json(b'{"metadata":{"name":"h","namespace":"a"},"spec":{' + ref + b"}}")[1])
    'PyTorchJob.kubeflow.org/a/j'
    """
    try:
        content = decoded(raw)
        metadata, ref = content["metadata"], content["spec"]["scaleTargetRef"]
        group = str(ref.get("apiVersion", "")).rpartition("/")[0]
        namespace = str(metadata["namespace"])
        job = JobKey(Namespace(namespace), f"{ref['kind']}.{group}", str(ref["name"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a HorizontalPodAutoscaler: {error!r}") from error
    return f"{namespace}/{metadata['name']}", job


class Stage(StrEnum):
    """How far a change has come."""

    REMOVING = "removing"  # The job is patched; the removed pods are not all gone
    FREED = "freed"  # They are gone; their room is reserved for the beneficiary
    GROWING = "growing"  # The job is patched; the new workers are not all bound
    DONE = "done"  # The beneficiary runs, or the new workers do
    GIVEN_BACK = "given back"  # The beneficiary did not start in time, or is gone: nothing is reserved for it any more
    OVERRULED = "overruled"  # Another client changed the worker count, or the job ended, meanwhile


OPEN = frozenset({Stage.REMOVING, Stage.FREED, Stage.GROWING})  # Stages after which another follows


class Resize(msgspec.Struct, frozen=True):
    """One change of one job's worker count. Times are Unix seconds; `None`: not yet, or never."""

    job: JobKey
    uid: str  # Of the job
    intent: Intent  # What was decided, and how far the job's spec has come with it, as noted on the job
    stage: Stage
    stepped_s: float | None = None  # When the present step was asked for; `None`: with the decision
    gone_s: float | None = None  # When the last removed pod was gone
    ended_s: float | None = None  # When the stage became one after which nothing follows

    @property
    def shrinks(self) -> bool:
        """Whether workers were taken away."""
        return self.intent.goal < self.intent.before

    @property
    def lost_pod_s(self) -> float | None:
        """Removed workers × seconds from decision to end, worked for no job; `None`: nothing removed, or not ended."""
        if not self.shrinks or self.ended_s is None:
            return None
        return (self.intent.before - self.intent.after) * max(self.ended_s - self.intent.at_s, 0.0)

    @property
    def took_s(self) -> float | None:
        """Seconds from decision to start; `None`: it has not come to that."""
        ended_s = self.ended_s if self.stage is Stage.DONE else None
        return max(ended_s - self.intent.at_s, 0.0) if ended_s is not None else None


class JobView(msgspec.Struct):
    """One job of a kind that we know, from its object to the decision; those that are not elastic are here too."""

    seen: Seen
    gang: Gang | None  # That its pods form
    hindrance: str | None  # What else speaks against a change
    job: ElasticJob  # As decisions see it; with the reason for which it is left alone
    elastic: bool  # Whether decisions see it: it asks for that, has not ended, and has a gang of ours
    rough_state: JobState  # What the job and its pods show by themselves; the queue adds whether it is starving
    wish: str = ""  # Its last demand or refusal, and why, for people
    failures: int = 0  # Attempts in a row that could not change it
    again_s: float = -math.inf  # When the next attempt is due (monotonic)

    def failed(self, *, now_s: float, rng: random.Random) -> None:
        """Another attempt failed: the pause before the next one doubles and is spread by chance."""
        self.failures += 1
        self.again_s = now_s + _RETRY.delay_s(self.failures, rng=rng)

    def succeeded(self) -> None:
        """An attempt succeeded, or another process begins: the failures count no more."""
        self.failures, self.again_s = 0, -math.inf


class Records:
    """Changes and views; only the controller writes. Bounded by the arguments; views by the jobs there are."""

    def __init__(self, telemetry: Telemetry, *, most: int = 1000, most_a_job: int = 20) -> None:
        self._telemetry, self._most, self._most_a_job = telemetry, most, most_a_job
        self._changes: OrderedDict[tuple[str, float], Resize] = OrderedDict()  # By uid and moment, the oldest first
        self.views: Mapping[JobKey, JobView] = {}  # Every job of a kind that we know
        self.verdict = Scaling()  # Of the last pass: for which gang jobs shrink, or why none does

    def put(self, change: Resize) -> None:
        """Add a change, or replace that of the same job and moment of decision. Its end is counted once. Cost: O(n)."""
        key = (change.uid, change.intent.at_s)
        before = self._changes.get(key)
        if before is None:
            of_job = [change_key for change_key in self._changes if change_key[0] == change.uid]
            if len(of_job) >= self._most_a_job:
                del self._changes[of_job[0]]
            elif len(self._changes) >= self._most:
                self._changes.popitem(last=False)
        self._changes[key] = change
        ended = change.ended_s is not None  # a former process's has no moment
        if ended and (before is None or before.stage is not change.stage):
            self._telemetry.resized(change.job.kind, "in" if change.shrinks else "out", change.stage.value)

    def changes_of(self, uid: str) -> Sequence[Resize]:
        """Those of one job, the oldest first. Cost: O(n)."""
        return tuple(change for change in self._changes.values() if change.uid == uid)

    def open_changes(self) -> Sequence[Resize]:
        """Those after whose stage another follows. Cost: O(n)."""
        return tuple(change for change in self._changes.values() if change.stage in OPEN)


class ElasticParts(msgspec.Struct, frozen=True):
    """The cluster, the plan and the jobs."""

    context: ControllerContext
    jobs: FollowedJobs
    records: Records
    rng: random.Random
    options: Options

    def may_change(self) -> bool:
        """Whether anything may be changed now: asked before each patch."""
        return self.context.acting() and self.context.quiet.over

    def beneficiary(self, change: Resize) -> Gang | None:
        """The gang that the change is for, if there is one."""
        key = change.intent.beneficiary
        return self.context.cache.gang(key) if key is not None else None

    def surplus(self, seen: Seen, workers: int) -> Sequence[Pod]:
        """Its worker pods, but for those that have ended, that go when it has `workers`: those of the highest index."""
        pods = self.context.cache.pods.of_job(pods_job(seen))
        alive = (pod for pod in pods if pod.role is Role.WORKER and not pod.terminal)
        return [pod for pod in alive if pod.index is not None and pod.index >= workers]

    def subject(self, of: Seen | Resize) -> Subject:
        """The job, as Events are about it."""
        key = of.key if isinstance(of, Seen) else of.job
        return Subject(KINDS[key.kind].api_version, KINDS[key.kind].kind, key.namespace, key.name, of.uid)

    def post_job_event(self, seen: Seen, what: Happening, note: str) -> None:
        """An Event about the job; the same note is repeated only after a while."""
        self.context.events.post(self.subject(seen), what, note, note)

    def record(self, change: Resize) -> None:
        """Keep a change, and write it into the log of decisions."""
        self.records.put(change)
        intent = change.intent
        what = f"{change.stage}: {intent.before} to {intent.goal}, {intent.why}"
        self.context.decided(Decision("resize", str(change.job), intent.beneficiary or "", reason=what))


def pods_job(seen: Seen) -> PodsJob:
    """As pods name their job."""
    return PodsJob(f"{seen.key.namespace}/{seen.key.name}")
