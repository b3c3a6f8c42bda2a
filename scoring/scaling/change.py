"""What the scaling decisions answer: each job's worker count and beneficiary, and the jobs left alone and why.

Why values: the controller, /v1/jobs, `netgang plan` and the simulator all read the same answer, and it can be compared.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scoring.ids import GangKey, NodeName, PodUid, ZoneName
from scoring.scaling.job import JobKey
from scoring.scaling.reasons import No


@dataclass(frozen=True, slots=True)
class Change:
    """Job `job` should have `after` workers instead of `before`."""

    job: JobKey
    uid: str
    before: int
    after: int
    leaving: tuple[PodUid, ...] = ()
    """Pods with a node that go, highest index first."""
    nodes: tuple[NodeName, ...] = ()
    """Nodes of `leaving`, or those on which added workers have room, best first; several may be the same."""

    @property
    def removed(self) -> int:
        """Workers fewer than before; negative: more."""
        return self.before - self.after


@dataclass(frozen=True, slots=True)
class Refusal:
    """Job `job` stays as it is. `reason` is constant, `detail` is for people and may change."""

    job: JobKey
    reason: No
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ScaleIn:
    """The jobs that give up workers so that `beneficiary` can start: all of `changes`, or nothing."""

    beneficiary: GangKey | None
    changes: tuple[Change, ...] = ()
    """In the order in which they cost least; empty: nothing is to be changed."""
    places: Mapping[PodUid, NodeName] = field(default_factory=dict)
    """Members of the beneficiary's minimum set that have no node yet → the node they fit on then."""
    zones: tuple[ZoneName, ...] = ()
    reason: No | None = None
    """Why there is no plan; `None`: there is one."""
    detail: str = ""
    refusals: tuple[Refusal, ...] = ()
    """Jobs that give up nothing, by name."""

    @property
    def leaving(self) -> tuple[PodUid, ...]:
        """All pods with a node that go."""
        return tuple(uid for change in self.changes for uid in change.leaving)


@dataclass(frozen=True, slots=True)
class ScaleOut:
    """The jobs that get further workers; each change stands for itself."""

    changes: tuple[Change, ...] = ()
    """In the order in which room was given."""
    reason: No | None = None
    """Why no job was looked at; `None`: all were."""
    refusals: tuple[Refusal, ...] = ()
    """Jobs that do not grow, by name."""
