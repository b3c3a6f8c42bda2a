"""Changes of elastic jobs, each with its cause and beneficiary, and each job's state: what people and metrics read.

Rule: records are values; `Records` holds a bounded number of them in memory, and only the controller adds to it. The
last change of each job is also an annotation on the job (`intent`), which is what a restart goes by. A change has many
ends, and the records have all of them, so metrics are counted from them alone.
"""

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from extender.runtime.telemetry import Telemetry
from scoring.ids import GangKey, PodUid
from scoring.queue.states import JobState
from scoring.scaling.change import ScaleIn
from scoring.scaling.job import ElasticJob, JobKey

MOST_CHANGES = 1000  # Changes kept of all jobs together
MOST_CHANGES_A_JOB = 20


class Requester(StrEnum):
    """What asked for a change."""

    QUEUE = "queue"  # The queue: room for a heavier gang, or growth into idle room
    METRICS = "metrics"  # The job's own policy, by what it reports


class Stage(StrEnum):
    """How far a change has come."""

    DRY_RUN = "dry-run"
    """It would have been made."""
    REMOVING = "removing"
    """The job is patched; the removed pods are not all gone."""
    FREED = "freed"
    """They are gone; their room is reserved for the beneficiary."""
    GROWING = "growing"
    """The job is patched; the new workers are not all bound."""
    DONE = "done"
    """The beneficiary runs, or the new workers do."""
    GIVEN_BACK = "given back"
    """The beneficiary did not start in time, or is gone: nothing is reserved for it any more."""
    OVERRULED = "overruled"
    """Another client changed the worker count, or the job ended, meanwhile."""


OPEN = frozenset({Stage.REMOVING, Stage.FREED, Stage.GROWING})  # Stages after which another follows


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one job's worker count. Times are Unix seconds; `None`: not yet, or never."""

    job: JobKey
    uid: str  # Of the job
    before: int
    after: int
    requester: Requester
    why: str  # A sentence for people
    beneficiary: GangKey | None  # The gang for which workers were taken away; `None`: they were not, or for no gang
    decided_s: float
    stage: Stage
    removed: tuple[PodUid, ...] = ()  # Pods that the change removes
    step: int | None = None  # Workers that the job is to have now, on the way to `after`; `None`: `after`
    stepped_s: float | None = None  # When that was asked for; `None`: with the decision
    gone_s: float | None = None  # When the last removed pod was gone
    ended_s: float | None = None  # When the stage became one after which nothing follows

    @property
    def wanted(self) -> int:
        """Workers that the job's spec should ask for now."""
        return self.after if self.step is None else self.step

    @property
    def shrinks(self) -> bool:
        """Whether workers were taken away."""
        return self.after < self.before

    @property
    def lost_pod_s(self) -> float | None:
        """Removed workers times the seconds from decision to start: room that worked for neither job.

        `None`: nothing was removed, or the change has not ended.
        """
        if not self.shrinks or self.ended_s is None:
            return None
        return (self.before - self.wanted) * max(self.ended_s - self.decided_s, 0.0)

    @property
    def took_s(self) -> float | None:
        """Seconds from decision to start; `None`: it has not come to that."""
        if self.stage is not Stage.DONE or self.ended_s is None:
            return None
        return max(self.ended_s - self.decided_s, 0.0)


@dataclass(frozen=True, slots=True)
class JobView:
    """How one job of a kind that we know stands now; jobs that are not elastic are here too, with the reason."""

    key: JobKey
    uid: str
    gang: GangKey | None
    workers: int
    min_workers: int
    max_workers: int
    min_source: str  # Where the minimum comes from, such as `annotation netgang.io/min-workers`; empty: there is none
    refusal: str | None  # Why its worker count is left alone, a constant text; `None`: it may be changed
    job: ElasticJob | None  # The same as decisions see it; `None`: it is not elastic, finished, or has no gang of ours
    rough_state: JobState  # What the job and its pods show by themselves; the queue adds whether it is starving
    wish: str = ""  # Its last demand or refusal, and why, for people


class Records:
    """Changes and views; only the controller writes. Bounded: see MOST_CHANGES; views by the jobs there are."""

    def __init__(self, *, most: int = MOST_CHANGES, most_a_job: int = MOST_CHANGES_A_JOB) -> None:
        self._most = most
        self._most_a_job = most_a_job
        self._changes: OrderedDict[tuple[str, float], Change] = OrderedDict()
        """(uid of the job, decided_s) → its change, the oldest first"""
        self._of_job: dict[str, deque[tuple[str, float]]] = {}
        self.views: Mapping[JobKey, JobView] = {}  # Every job of a kind that we know
        self.verdict = ScaleIn(None)  # Of the last pass: for which gang jobs shrink, or why none does

    def put(self, change: Change) -> None:
        """Add a change, or replace it: a change is known by its job and the moment of its decision."""
        key = (change.uid, change.decided_s)
        if key not in self._changes:
            of_job = self._of_job.setdefault(change.uid, deque())
            of_job.append(key)
            if len(of_job) > self._most_a_job:
                self._changes.pop(of_job.popleft(), None)
        self._changes[key] = change
        while len(self._changes) > self._most:
            (uid, _), _ = self._changes.popitem(last=False)
            of_job = self._of_job[uid]
            of_job.popleft()
            if not of_job:
                del self._of_job[uid]

    def demand(self, job: JobKey, words: str) -> None:
        """Record a job's last demand or refusal; a job that is not known is skipped."""
        if job in self.views:
            self.views = {**self.views, job: replace(self.views[job], wish=words)}

    def changes(self) -> Sequence[Change]:
        """All that are kept, in the order in which they were first recorded. Cost: O(n)."""
        return tuple(self._changes.values())

    def changes_of(self, uid: str) -> Sequence[Change]:
        """Those of one job, the oldest first."""
        return tuple(self._changes[key] for key in self._of_job.get(uid, ()))

    def open_changes(self) -> Sequence[Change]:
        """Those that something still follows after. Cost: O(n)."""
        return tuple(change for change in self._changes.values() if change.stage in OPEN)


@dataclass(eq=False, repr=False)
class Metering:
    """Counts the ends of changes for Prometheus, each once; none of a former process."""

    records: Records
    telemetry: Telemetry
    _counted: frozenset[tuple[str, float]] = field(default=frozenset(), init=False)  # Still kept, by (uid, decided_s)

    def look(self) -> None:
        """Count what ended since the last look; due once a second. Cost: O(changes kept)."""
        changes = self.records.changes()
        over = {
            (one.uid, one.decided_s): one
            for one in changes
            if one.stage is Stage.DRY_RUN or (one.stage not in OPEN and one.ended_s is not None)
        }
        for key, one in over.items():
            if key not in self._counted:
                self._count(one)
        self._counted = frozenset(over)

    def _count(self, change: Change) -> None:
        direction = "in" if change.shrinks else "out"
        self.telemetry.resized(change.job.kind, direction, change.stage.value)
