"""What the scaling decisions answer: each job's worker count and beneficiary, and the jobs left alone and why.

Whether a job may be changed at all now is the same for every decision, and is settled here as well (`resizable`).

Why values: the controller, /v1/jobs, `netgang plan` and the simulator all read the same answer, and it can be compared.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from scoring.feasibility.quorum import quorum_of
from scoring.ids import GangKey, NodeName, PodUid, ZoneName
from scoring.model import Gang, Pod
from scoring.queue.states import JobState, state_of
from scoring.scaling.job import ElasticJob, JobKey, Options, workers_of

_HOUR_S = 3600.0


class Change(msgspec.Struct, frozen=True):
    """Job `job` should have `after` workers instead of `before`."""

    job: JobKey
    uid: str
    before: int
    after: int
    leaving: tuple[PodUid, ...] = ()  # Pods with a node that go, highest index first
    nodes: tuple[NodeName, ...] = ()  # Of `leaving`, or with room for added workers, best first, also twice

    @classmethod
    def down(cls, job: ElasticJob, after: int, leaving: Sequence[Pod]) -> "Change":
        """The job has fewer workers; `leaving`: those with a node."""
        nodes = tuple(pod.node for pod in leaving if pod.node is not None)
        return cls(job.key, job.uid, job.workers, after, tuple(pod.uid for pod in leaving), nodes)

    @property
    def removed(self) -> int:
        """Workers fewer than before; negative: more."""
        return self.before - self.after


class No(StrEnum):
    """Why no job is shrunk, or why this one is not, or does not grow.

    Constant texts: they stand in Events, metric labels and log fields, where a text that differs from the last one
    makes a new entry; numbers and names go into the detail beside them.
    """

    # There is nothing to do.
    DISABLED = "elastic scaling is switched off"
    NOBODY_WAITS = "no gang waits for room"
    ROOM_IS_COMING = "the gang fits as soon as pods that are being removed are gone"
    STARTS_SOON = "the gang is promised a start before a job that shrinks for it would go on"
    # The plan as a whole is not made.
    NO_JOB = "no elastic job may give up workers for the gang"
    NOT_ENOUGH = "the gang would not fit even if all of them gave up what they may"
    GIVEN_TO_OTHERS = "a gang ahead in the queue would take the room"
    TOO_WIDE = "the gang asks for so much of the cluster that it gets no workers by service level before it is STARVING"
    # This job keeps its workers, or its size.
    UNSAFE = "the job must not be resized"
    NOT_RUNNING = "the job does not run"
    RESIZING = "the job's last change is not carried out yet"
    COOL_DOWN = "the job was changed a short time ago"
    OVER_BUDGET = "the job was changed too often within the hour"
    HIGHER_PRIORITY = "the job has a higher priority than the gang"
    NOT_ABOVE = "the job's service level is not higher than the gang's"
    NOT_LIGHTER = "the job is heavier than the gang, or as heavy and earlier"
    AT_MINIMUM = "the job has its minimum of workers"
    ELSEWHERE = "the job's highest workers are on no node that the gang may use"
    NOT_NEEDED = "others give up enough"
    # This job does not grow.
    AT_MAXIMUM = "the job has as many workers as it may or wants to have"
    STILL_STARTING = "workers that the job wants already have no nodes yet"
    NO_ROOM = "no node of the job's zone has room for another worker"
    ROOM_IS_WANTED = "the room is reserved, or about to be free, for a gang that waits"
    GANGS_WAIT = "jobs grow while no gang waits for room"
    TOO_LITTLE = "there is room for less than a quarter more workers"
    OVER_SHARE = "the job's namespace would have more than its share of the cluster"


class JobRefusal(msgspec.Struct, frozen=True):
    """Job `job` stays as it is. `reason` is constant, `detail` is for people and may change."""

    job: JobKey
    reason: No
    detail: str = ""


def by_job(refusals: Iterable[JobRefusal]) -> tuple[JobRefusal, ...]:
    """As decisions name them."""
    return tuple(sorted(refusals, key=lambda one: one.job))


class ScaleIn(msgspec.Struct, frozen=True):
    """The jobs that give up workers so that `beneficiary` can start: all of `changes`, or nothing."""

    beneficiary: GangKey | None
    changes: tuple[Change, ...] = ()  # In the order in which they cost least; empty: nothing is to be changed
    places: Mapping[PodUid, NodeName] = {}  # Missing members of its minimum → node
    zones: tuple[ZoneName, ...] = ()
    reason: No | None = None  # Why there is no plan; `None`: there is one
    detail: str = ""
    refusals: tuple[JobRefusal, ...] = ()  # Jobs that give up nothing, by name


def resizable(job: ElasticJob, gang: Gang | None, options: Options, *, now_s: float) -> JobRefusal | None:
    """Why the job must not get another worker count now, for any gang; `None`: it may."""
    if job.refusal is not None:
        return JobRefusal(job.key, No.UNSAFE, job.refusal)
    if gang is None or not gang.own or gang.problem is not None:
        return JobRefusal(job.key, No.NOT_RUNNING)
    if state_of(gang, quorum_of(gang), starving=False) is not JobState.RUNNING:
        return JobRefusal(job.key, No.NOT_RUNNING)
    leaving = [uid for uid, index in job.indexes.items() if index >= job.workers]
    present = {pod.uid for pod in gang.members if pod.node is not None and not pod.terminal}
    if not present.isdisjoint(leaving):
        return JobRefusal(job.key, No.RESIZING, f"{len(present.intersection(leaving))} pods are still there")
    if job.changed_s is not None and now_s < job.changed_s + options.cool_down_s:
        return JobRefusal(job.key, No.COOL_DOWN, f"for another {job.changed_s + options.cool_down_s - now_s:.0f} s")
    recent = sum(1 for at_s in job.changes_s if at_s > now_s - _HOUR_S)
    if options.changes_per_hour is not None and recent >= options.changes_per_hour:
        return JobRefusal(job.key, No.OVER_BUDGET, f"{recent} changes within the hour")
    return None


def all_placed(job: ElasticJob, gang: Gang) -> bool:
    """Whether every worker that is wanted has a node: only then does the job want, and measure, more."""
    there = [pod for pod in workers_of(job, gang) if pod.terminal or (pod.node is not None and not pod.deleting)]
    return {job.indexes[pod.uid] for pod in there}.issuperset(range(job.workers))
