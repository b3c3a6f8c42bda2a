"""GET /v1/jobs and /v1/jobs/{namespace}/{name}: elastic jobs; POST /v1/jobs/{namespace}/{name}/metrics: reports."""

import msgspec
from msgspec import UNSET, UnsetType

from scoring.explain.queue_report import GangWeight
from scoring.scaling.series import Point


class Workers(msgspec.Struct, frozen=True):
    """How many workers a job has, and may have."""

    now: int
    min: int
    max: int
    min_from: str | None  # What says the minimum.


class Placement(msgspec.Struct, frozen=True):
    """Where a job's pods are."""

    zones: tuple[str, ...]
    nodes: dict[str, int]  # node → pods.


class MetricsDemand(msgspec.Struct, frozen=True):
    """What a job's own metrics ask for."""

    policy: str
    workers: int | UnsetType | None = UNSET  # Left out, as `reason` and `detail`: there is no report yet.
    reason: str | UnsetType = UNSET
    detail: str | UnsetType = UNSET


class LastReport(Point, frozen=True, kw_only=True):
    """The last report."""

    age_s: float


class WorkerChange(msgspec.Struct, frozen=True):
    """One change of a job's worker count."""

    before: int
    after: int
    who: str  # What decided it.
    why: str
    beneficiary: str | None = msgspec.field(name="for")  # The gang that it is for.
    stage: str
    decided_s: float  # Unix seconds, as all times of a change.
    gone_s: float | None
    ended_s: float | None
    took_s: float | None  # How long it took.
    lost_pod_s: float | None  # Pod-seconds that were idle because of it.


class Job(msgspec.Struct, frozen=True):
    """An elastic job in short."""

    job: str  # NAMESPACE/NAME.
    kind: str
    state: str  # WAITING, STARVING, RUNNING or COMPLETED.
    gang: str | None
    weight: GangWeight | None
    workers: Workers
    placement: Placement
    network: float | None  # Mean points of the links between its nodes.
    refusal: str | None  # Why it is not resized.
    wish: str  # What the last scaling decision says of it.
    metrics: MetricsDemand | None  # null: it is not elastic.
    reported: LastReport | None
    last_change: WorkerChange | None


class Points(msgspec.Struct, frozen=True):
    """A job's reports."""

    kept: int
    last: tuple[Point, ...]


class JobInFull(Job, frozen=True, kw_only=True):
    """One job, with its pods, reports and the history of its changes."""

    uid: str
    pods: dict[str, str | None]  # pod → node.
    changes: tuple[WorkerChange, ...]
    points: Points


class FirstWaiting(msgspec.Struct, frozen=True):
    """The gang for which jobs may shrink, and why none does."""

    gang: str | None
    reason: str | None
    detail: str


class JobList(msgspec.Struct, frozen=True):
    """All jobs of kinds that netgang resizes, by name."""

    at_s: float  # Unix seconds.
    counts: dict[str, int]  # state → jobs.
    first_waiting: FirstWaiting
    jobs: tuple[Job, ...]
    of: int  # More than are shown: see `limit`.


class Accepted(msgspec.Struct, frozen=True):
    """The outcome of a report."""

    accepted: int  # Points that were taken.
    step: int | None  # The last step.
