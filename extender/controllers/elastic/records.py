"""Changes of elastic jobs, each with its cause and beneficiary, and each job's state: what people and metrics read.

Rule: records are values; `Records` holds a bounded number of them in memory, and only the controller adds to it. The
last change of each job is also an annotation on the job (`intent`), which is what a restart goes by. A change has many
ends, and the records have all of them, so metrics are counted from them alone.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from extender.controllers.elastic.intent import Intent
from extender.runtime.telemetry import Telemetry
from scoring.ids import GangKey, PodUid
from scoring.queue.states import JobState
from scoring.scaling.change import ScaleIn
from scoring.scaling.job import ElasticJob, JobKey

MOST_CHANGES = 1000  # Changes kept of all jobs together
MOST_CHANGES_A_JOB = 20


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


class Change(msgspec.Struct, frozen=True):
    """One change of one job's worker count. Times are Unix seconds; `None`: not yet, or never."""

    job: JobKey
    uid: str  # Of the job
    intent: Intent  # What was decided, and how far the job's spec has come with it, as noted on the job
    stage: Stage
    removed: tuple[PodUid, ...] = ()  # Pods that the change removes
    stepped_s: float | None = None  # When the present step was asked for; `None`: with the decision
    gone_s: float | None = None  # When the last removed pod was gone
    ended_s: float | None = None  # When the stage became one after which nothing follows

    @property
    def shrinks(self) -> bool:
        """Whether workers were taken away."""
        return self.intent.goal < self.intent.before

    @property
    def lost_pod_s(self) -> float | None:
        """Removed workers times the seconds from decision to start: room that worked for neither job.

        `None`: nothing was removed, or the change has not ended.
        """
        if not self.shrinks or self.ended_s is None:
            return None
        return (self.intent.before - self.intent.after) * max(self.ended_s - self.intent.at_s, 0.0)

    @property
    def took_s(self) -> float | None:
        """Seconds from decision to start; `None`: it has not come to that."""
        if self.stage is not Stage.DONE or self.ended_s is None:
            return None
        return max(self.ended_s - self.intent.at_s, 0.0)


class JobView(msgspec.Struct, frozen=True):
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

    def __init__(self, telemetry: Telemetry, *, most: int = MOST_CHANGES, most_a_job: int = MOST_CHANGES_A_JOB) -> None:
        self._telemetry = telemetry
        self._most = most
        self._most_a_job = most_a_job
        self._changes: OrderedDict[tuple[str, float], Change] = OrderedDict()
        """(uid of the job, moment of the decision) → its change, the oldest first"""
        self.views: Mapping[JobKey, JobView] = {}  # Every job of a kind that we know
        self.verdict = ScaleIn(None)  # Of the last pass: for which gang jobs shrink, or why none does

    def put(self, change: Change) -> None:
        """Add a change, or replace it: a change is known by its job and the moment of its decision.

        Its end is counted, once; that of one of a former process, which has no moment, is not. Cost: O(n).
        """
        key = (change.uid, change.intent.at_s)
        before = self._changes.get(key)
        if before is None:
            of_job = [known for known in self._changes if known[0] == change.uid]
            if len(of_job) >= self._most_a_job:
                del self._changes[of_job[0]]
            elif len(self._changes) >= self._most:
                self._changes.popitem(last=False)
        self._changes[key] = change
        ended = change.stage is Stage.DRY_RUN or change.ended_s is not None
        if ended and (before is None or before.stage is not change.stage):
            self._telemetry.resized(change.job.kind, "in" if change.shrinks else "out", change.stage.value)

    def demand(self, job: JobKey, words: str) -> None:
        """Record a job's last demand or refusal; a job that is not known is skipped."""
        if job in self.views:
            self.views = {**self.views, job: replace(self.views[job], wish=words)}

    def changes_of(self, uid: str) -> Sequence[Change]:
        """Those of one job, the oldest first. Cost: O(n)."""
        return tuple(change for change in self._changes.values() if change.uid == uid)

    def open_changes(self) -> Sequence[Change]:
        """Those after whose stage another follows. Cost: O(n)."""
        return tuple(change for change in self._changes.values() if change.stage in OPEN)
