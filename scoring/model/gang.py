"""PodGroups, gangs as they exist now, and how long they run, as far as anyone says it.

A length is declared by users, or enforced by a deadline; else there is none, never a guess. A gang that runs on beyond
it is expected to run for twice as long, then for four times, and so on.
"""

import re
from contextlib import suppress
from typing import Final

import msgspec
import numpy as np

from scoring import GangKey
from scoring.model.pod import GangSource, Pod, counts
from scoring.model.reasons import Reason
from scoring.network.measurement import Floats

EXPECTED_DURATION: Final = "expected-duration"  # Annotation `netgang.io/expected-duration`, without the prefix
MOST_S: Final = 10 * 365 * 86_400.0  # Ten years: what is declared is never more
MOST_CHARS: Final = 32  # Longest text of a duration
_UNITS_S: Final = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0}  # unit → seconds
_NUMBER: Final = r"\d{1,9}(?:\.\d{1,9})?"
_PART: Final = re.compile(rf"({_NUMBER})([dhms])", re.ASCII)
_WHOLE: Final = re.compile(rf"{_NUMBER}|(?:{_NUMBER}[dhms])+", re.ASCII)


def duration_s(text: str) -> float:
    """Read a duration as Go writes it, with days besides, or a number of seconds. Seconds, at most `MOST_S`.

    Errors: ValueError, to complete "…: TEXT ", if it is none, or not above 0.

    >>> [duration_s(text) for text in ("90m", "1h30m", "1.5h", "2d", "5400", "1h0.5s")]
    [5400.0, 5400.0, 5400.0, 172800.0, 5400.0, 3600.5]
    >>> duration_s("soon")
    Traceback (most recent call last):
    ValueError: is not a duration such as 90m, 1h30m or 5400 (seconds)
    """
    value = text.strip() if len(text) <= MOST_CHARS else ""  # measured before it is parsed
    if not _WHOLE.fullmatch(value):
        raise ValueError("is not a duration such as 90m, 1h30m or 5400 (seconds)")
    parts = _PART.findall(value) or [(value, "s")]
    seconds = sum(float(number) * _UNITS_S[unit] for number, unit in parts)
    if seconds <= 0.0:
        raise ValueError("is not above 0")
    return min(seconds, MOST_S)


def remaining_s(length_s: Floats, ran_s: Floats) -> Floats:
    """How long gangs of these lengths that have run for so long, and still run, go on. All (gangs,), seconds above 0.

    >>> remaining_s(np.full(5, 100.0), np.array([-5.0, 70.0, 99.0, 100.0, 250.0])).tolist()
    [100.0, 30.0, 1.0, 100.0, 150.0]
    """
    ran_s, ends_s = np.maximum(ran_s, 0.0), length_s.copy()
    while (outlived := ends_s <= ran_s).any():
        ends_s[outlived] *= 2.0
    return ends_s - ran_s


class GroupStatus(msgspec.Struct, frozen=True):
    """A PodGroup's status as far as we read and write it; what is absent there has its default here."""

    phase: str = ""  # A `scoring.queue.statuses.GroupPhase`, or whatever another controller wrote
    scheduled: int = 0  # Members on a node and alive, or Succeeded
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    occupied_by: str = ""  # `namespace/job` of the members' jobs, sorted, with commas between
    schedule_start_s: int | None = None  # Since when enough pods exist, Unix seconds


class PodGroup(msgspec.Struct, frozen=True):
    """A PodGroup of any kind: what decides, and beside it what the API server shows of its status."""

    key: GangKey
    min_member: int
    created_s: float = 0.0
    schedule_timeout_s: float | None = None
    uid: str = ""  # This and the following decide nothing
    resource_version: str = ""
    status: GroupStatus = GroupStatus()
    ours: bool = False  # We wrote (part of) its status
    other_writer: str = ""  # Which other client did; empty: none


class Gang(msgspec.Struct, frozen=True):
    """Pods that start together or not at all, as they exist now: those of one run (docs/safety.md S23)."""

    key: GangKey
    source: GangSource
    min_member: int
    members: tuple[Pod, ...]  # All live and finished pods of the run, sorted by (role, index, name)
    priority: int
    created_s: float
    options: tuple[tuple[str, str], ...] = ()
    problem: Reason | None = None  # Why it can never be admitted as it is written
    problem_detail: str = ""  # What to change
    schedule_timeout_s: float | None = None
    own: bool = True  # Its pods name one of our schedulers (docs/safety.md S1); others are load only
    started: bool = False  # It was whole once with members that are still there (docs/safety.md S23)
    earlier: tuple[Pod, ...] = ()  # Pods of former runs under the same name, all ended: they count for nothing
    later: tuple[Pod, ...] = ()  # Pods of another run that is live, too: they wait until this one has ended
    length_s: float | None = None  # How long it runs in all, once its minimum runs (`running_since_s`); `None`: unknown

    @property
    def actionable(self) -> bool:
        """Whether netgang may place, complete, restart or remove it (docs/safety.md S1)."""
        return self.own and self.problem is None and self.source is not GangSource.NATIVE

    @property
    def pending(self) -> tuple[Pod, ...]:
        """Members that still need a node."""
        return tuple(p for p in self.members if p.node is None and not p.deleting and not p.terminal)

    @property
    def placed(self) -> tuple[Pod, ...]:
        """Members that count towards quorum."""
        return tuple(p for p in self.members if counts(p))


class JobSays(msgspec.Struct, frozen=True):
    """What a gang's job itself says; `None`: nothing."""

    expected: str = ""  # Annotation `netgang.io/expected-duration`, bounded; empty: it has none
    limit_s: float | None = None  # `activeDeadlineSeconds` of the job
    created_s: float | None = None  # Unix seconds
    wanted: int | None = None  # How many pods it wants, unless it is one of a series


def length_s(gang: Gang, job: JobSays) -> float | None:
    """How long the gang runs, seconds; `None`: nothing is said. Cost: O(members).

    A deadline cuts what is declared; alone it is taken for the length, as batch systems take the limit of a job.
    """
    lengths_s = [job.limit_s, *(pod.limit_s for pod in gang.members)]
    with suppress(ValueError):  # `scoring.model.policy.gang_options` says so
        lengths_s += [duration_s(text) for name, text in gang.options if name == EXPECTED_DURATION]
    return min((one_s for one_s in lengths_s if one_s is not None), default=None)
