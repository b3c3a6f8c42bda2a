"""An elastic job as the scaling decisions see it, its workers, what an operator may choose, and what is decided of it.

Why not the API object: kinds write the same four numbers in different places, and whether a job may be resized safely
depends on its kind's traps: the reader of the object settles both. docs/explanation/elastic.md says why of the options.

Workers (docs/safety.md S18): frameworks remove the highest index first, so a job gives up a prefix of its workers by
descending index, which ends with one that has a node: the others cost and free nothing. New workers are made after
those that exist: all of one job are alike, and only its kind knows the template.

Reports of its training: steps only rise; what was not reported is NaN, infinite values are refused where reports come
in. The newest points are all kept; of older ones every second, fourth, … as they become too many: the start of a curve
shows its shape. A job that goes back to a checkpoint trains the steps from there again: what was reported of them is
undone, and the highest step ever reported is remembered.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, ClassVar, Final, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace

from scoring import GangKey, Namespace, NodeName, PodName, PodUid
from scoring.feasibility.filters import as_written
from scoring.feasibility.quorum import quorum_of
from scoring.model import Gang, Phase, Pod, Role
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import Floats, Ints
from scoring.queue.states import JobState, state_of
from scoring.records import Point

_HOUR_S = 3600.0


class Wants(StrEnum):
    """What decides a job's demand for workers (annotation `netgang.io/scaling`; PAPERS E2)."""

    ITERATIONS = "iterations"  # Another count every so many steps
    LOSS = "loss"  # More while the loss falls, fewer when it rises
    CURVE = "curve"  # More if the extrapolated loss says that they pay for the stall of a change
    USAGE = "usage"  # One fewer while workers mostly wait for the ps or the network, one more while they mostly compute
    OFF = "off"  # By nothing it reports; the queue still shrinks and grows it between its minimum and its maximum


class JobKey(msgspec.Struct, frozen=True, order=True):
    """Names one job; sorted by namespace, kind, name."""

    namespace: Namespace
    kind: str  # Kind and API group, such as `TFJob.kubeflow.org`; `Job.batch` for Kubernetes' own
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"


class ElasticJob(msgspec.Struct, frozen=True):
    """A job whose worker count may lie between a minimum and a maximum; 0 <= minimum <= maximum: its reader says so."""

    key: JobKey
    uid: str
    gang: GangKey  # The gang that its pods form
    workers: int  # Wanted now, by the job's spec
    min_workers: int
    max_workers: int
    indexes: Mapping[PodUid, int]  # Worker's pod → its index; others (ps, chief, evaluator) are never removed
    refusal: str | None  # Why it must not be resized now, in a constant text; `None`: it may be
    wants: Wants
    changed_s: float | None  # When we last changed its worker count, Unix seconds; `None`: never
    changes_s: tuple[float, ...] = ()  # Our changes within the last hour, Unix seconds, oldest first: for the budget
    grow_back_to: int | None = None  # Workers before we took the first away; `None`: it has them all

    @property
    def floor(self) -> int:
        """Fewest workers it is ever left with: its minimum, and worker 0 in any case."""
        return max(self.min_workers, 1)

    def target(self, demand: int | None) -> int:
        """Workers it grows to if there is room: what its metrics ask for, else its maximum; within its bounds."""
        return self.max_workers if demand is None else min(max(demand, self.floor), self.max_workers)


Jobs: TypeAlias = Sequence[ElasticJob]


class ElasticCondition(StrEnum):
    """Which waiting gangs running jobs are shrunk for (PAPERS K3)."""

    LIGHTER = "lighter"  # For the first gang that waits, from jobs lighter than it, or as heavy and later
    LEVELS = "levels"  # For the first that can then start at its full size, from jobs of a higher service level


class MetricOptions(msgspec.Struct, frozen=True):
    """How metrics that jobs report become a wanted worker count (PAPERS E2, E3)."""

    fixed: ClassVar = frozenset({
        "every_steps", "workers_step", "min_interval_s", "min_points", "settle_steps", "band_ratio", "certainty",
        "reversal_steps", "horizon_s", "stall_s",
    })  # fmt: skip

    default: Wants = Wants.CURVE
    """For jobs without annotation `netgang.io/scaling`: `iterations`, `loss`, `curve`, `usage`, or `off`: the queue."""
    every_steps: int = 500  # Between two looks at a job's metrics; each change costs about 40 s of training
    workers_step: int = 3  # Added or removed at once
    min_interval_s: float = 300.0
    min_points: int = 10
    settle_steps: int = 20
    band_ratio: float = 0.02
    certainty: float = 3.5
    reversal_steps: int = 1000
    horizon_s: float = 1800.0  # This and the last are for `curve` alone
    stall_s: float = 41.0


class Options(msgspec.Struct, frozen=True):
    """Jobs with a minimum and a maximum of workers (docs/explanation/elastic.md)."""

    fixed: ClassVar = frozenset({"cool_down_s", "changes_per_hour"})

    enabled: bool = True
    """Change worker counts of jobs that declare a minimum and a maximum."""
    cool_down_s: float = 60.0  # Least time between two changes of one job
    decrement: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Most workers that one job gives up at once (l_dw); `null`: down to its minimum."""
    increment: Annotated[int, msgspec.Meta(ge=0)] | None = 0
    """Most workers that one job gets at once (l_iw), beside those it gave up or asks for; `null`: up to its maximum;
    0: none."""
    changes_per_hour: int | None = 12
    condition: ElasticCondition = ElasticCondition.LEVELS
    """`lighter`: jobs shrink for the first waiting gang if they are lighter; `levels`: jobs of a higher service level,
    for the first that can then start at the size it asked for, and jobs grow only while no gang waits for room."""
    metrics: MetricOptions = MetricOptions()
    """How reported metrics become a wanted worker count."""


def workers_of(job: ElasticJob, gang: Gang) -> list[Pod]:
    """The job's workers; pods of other roles never count, even if the index map names them."""
    return [pod for pod in gang.members if pod.uid in job.indexes and pod.role not in (Role.PS, Role.CHIEF)]


def steps_down(job: ElasticJob, gang: Gang, *, most: int | None) -> list[Pod]:
    """What the job can give up, one worker with a node after the other; at most `most` workers, never the minimum.

    As many workers as the index of the last that leaves are wanted then.

    >>> from tests.scoring.scaling.cases import elastic, workers
    >>> gang = workers("g", ["n1", "n1", "n2", None, "n3", None], ps="n1")  # workers 3 and 5 have no node
    >>> [(pod.index, pod.node) for pod in steps_down(elastic(gang, least=1), gang, most=None)]
    [(4, 'n3'), (2, 'n2'), (1, 'n1')]
    """
    workers = {job.indexes[pod.uid]: pod for pod in workers_of(job, gang) if pod.lives}
    removable = (workers.get(index) for index in range(job.workers - 1, job.floor - 1, -1))
    return [pod for pod in removable if pod is not None and pod.node is not None][:most]


def going(snapshot: Snapshot, jobs: Iterable[ElasticJob]) -> tuple[Pod, ...]:
    """Pods with a node that go without more ado: they are being deleted, or their index is not wanted."""
    unwanted = {uid for job in jobs for uid, index in job.indexes.items() if index >= job.workers}
    return tuple(
        pod
        for _, gang in sorted(snapshot.gangs.items())
        for pod in gang.members
        if (pod.deleting or pod.uid in unwanted) and pod.node is not None and not pod.terminal
    )


def newcomers(job: ElasticJob, gang: Gang, *, first: int, number: int, zone_label: str) -> tuple[Pod, ...]:
    """Workers with the indexes from `first` on, made after the worker with the highest index; none if there is none.

    What our own admission wrote into that worker (nodes or zone, docs/safety.md S6) is taken out again.
    """
    if not (workers := workers_of(job, gang)):
        return ()
    model = max(workers, key=lambda pod: (not pod.terminal, job.indexes[pod.uid], pod.name))
    written = as_written(model, zone_label=zone_label)
    # A volume claim is of one worker: where the next one's will be is unknown.
    member_class = replace(written, constraints=replace(written.constraints, claims=()))
    nowhere = dict.fromkeys(("node", "nominated_node", "scheduled_s", "admitted_to"))
    new = replace(model, member_class=member_class, phase=Phase.PENDING, deleting=False, gates=(), **nowhere)
    return tuple(
        replace(new, uid=PodUid(f"{job.uid}/{index}"), name=PodName(f"{job.key.name}-{index}"), index=index)
        for index in range(first, first + number)
    )


class Change(msgspec.Struct, frozen=True):
    """Job `job` should have `after` workers instead of `before`."""

    job: JobKey
    uid: str
    before: int
    after: int
    nodes: tuple[NodeName, ...] = ()  # With room for added workers, best first, also twice

    @property
    def removed(self) -> int:
        """Workers fewer than before; negative: more."""
        return self.before - self.after


class No(StrEnum):
    """Why no job is shrunk, or this one is not, or does not grow: constant, as Events and metrics count each text."""

    # There is nothing to do.
    NOBODY_WAITS = "no gang waits for room"
    ROOM_IS_COMING = "the gang fits as soon as pods that are being removed are gone"
    STARTS_SOON = "the gang is promised a start before a job that shrinks for it would go on"
    # The plan as a whole is not made.
    NO_JOB = "no elastic job may give up workers for the gang"
    NOT_ENOUGH = "the gang would not fit even if all of them gave up what they may"
    GIVEN_TO_OTHERS = "a gang ahead in the queue would take the room"
    TOO_WIDE = "the gang asks for so much of the cluster that it gets no workers before it has been STARVING for a day"
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
    AT_MAXIMUM = "the job is at its maximum, or does not ask for more workers"
    STILL_STARTING = "workers that the job wants already have no nodes yet"
    NO_ROOM = "no node of the job's zone has room for another worker"
    ROOM_IS_WANTED = "the room is reserved, or about to be free, for a gang that waits"
    GANGS_WAIT = "jobs grow while no gang waits for room"
    TOO_LITTLE = "there is room for less than a quarter more workers"


class JobRefusal(msgspec.Struct, frozen=True, order=True):
    """Job `job` stays as it is. `reason` is constant, `detail` is for people and may change."""

    job: JobKey
    reason: No
    detail: str = ""


class Scaling(msgspec.Struct, frozen=True):
    """Jobs that get another worker count: so that `beneficiary` can start, all or none; or each for its own sake."""

    beneficiary: GangKey | None = None  # Also where no job shrinks for it
    changes: tuple[Change, ...] = ()  # In the order in which they cost least, or room was given
    places: Mapping[PodUid, NodeName] = {}  # Missing members of the beneficiary's minimum → node
    reason: No | None = None  # Why there is no plan, or none grows; `None`: there is one, or some may
    detail: str = ""
    refusals: tuple[JobRefusal, ...] = ()  # Jobs that keep their size, by name


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


class Series(msgspec.Struct, frozen=True, eq=False):
    """Reports in the order of their steps; six arrays of one length."""

    step: Ints
    time_s: Floats
    loss: Floats
    samples_per_second: Floats
    compute_ratio: Floats
    workers: Ints
    top_step: int = 0  # The highest step ever reported, forgotten reports included

    def __len__(self) -> int:
        return len(self.step)

    def part(self, chosen: slice | np.ndarray[tuple[int], np.dtype[np.bool_]]) -> "Series":
        """Those reports alone."""
        names = [name for name in self.__struct_fields__ if name != "top_step"]
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})

    def changed_at(self) -> int | None:
        """Step of the first report with the present worker count; `None`: it has not changed within the series."""
        other = np.flatnonzero(self.workers != self.workers[-1:])
        return int(self.step[other[-1] + 1]) if len(other) else None


_NO_STEPS, _NONE = np.zeros(0, np.int64), np.zeros(0)
NOTHING: Final = Series(_NO_STEPS, _NONE, _NONE, _NONE, _NONE, _NO_STEPS)


class ReportHistory:
    """One job's points: the newest, and behind them every `stride`-th older one.

    >>> history = ReportHistory(most=4)
    >>> for step in range(10):
    ...     history.add(Point(step, time_s=float(step), loss=1.0))
    >>> history.series().step.tolist()
    [0, 4, 8, 9]
    >>> history.undo(9)
    >>> history.last().step, history.series().top_step
    (8, 9)
    """

    def __init__(self, most: int = 500) -> None:
        """`most`: at least four, so that thinning leaves some."""
        self._most = most // 2  # Of each part
        self._newest: deque[Point] = deque()
        self._older: list[Point] = []
        self._stride = 1
        self._passed = 0  # Points that have left the newest; each multiple of `stride` is among the older ones
        self.top_step = 0  # The highest step ever reported, undone ones included
        self._series: Series | None = NOTHING  # The same for decisions; `None`: to be made

    def points(self) -> tuple[Point, ...]:
        """All, by ascending step."""
        return (*self._older, *self._newest)

    def series(self) -> Series:
        """As decisions read it, NaN and 0 workers where not reported; the same object until news come, O(points)."""
        if self._series is None:
            points = self.points()
            self._series = Series(
                step=np.array([point.step for point in points], np.int64),
                time_s=np.array([point.time_s for point in points], np.float64),
                loss=np.array([point.loss for point in points], np.float64),  # None becomes NaN
                samples_per_second=np.array([point.samples_per_second for point in points], np.float64),
                compute_ratio=np.array([point.compute_ratio for point in points], np.float64),
                workers=np.array([point.workers or 0 for point in points], np.int64),
                top_step=self.top_step,
            )
        return self._series

    def last(self) -> Point | None:
        """The newest one."""
        return self._newest[-1] if self._newest else self._older[-1] if self._older else None

    def undo(self, step: int) -> None:
        """Forget what was reported from this step on."""
        self._series = None
        while self._newest and self._newest[-1].step >= step:
            self._newest.pop()
        while self._older and self._older[-1].step >= step:
            self._older.pop()
        if not self._newest:
            self._passed = len(self._older) * self._stride

    def add(self, point: Point) -> None:
        """Append a point whose step is above the last one's: the receiver of reports has made sure of it."""
        self._series = None
        self.top_step = max(self.top_step, point.step)
        self._newest.append(point)
        if len(self._newest) <= self._most:
            return
        passed = self._newest.popleft()
        if self._passed % self._stride == 0:
            self._older.append(passed)
            if len(self._older) > self._most:
                del self._older[1::2]
                self._stride *= 2
        self._passed += 1
