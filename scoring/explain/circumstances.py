"""What is known of a gang besides the snapshot, as the service knows it; what is not known is said, too.

Why an argument and not a look: the explanation is a function of what it is given, so that the same snapshot and the
same circumstances always say the same, in the service, from a file and in a replay.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from scoring.ids import PodUid
from scoring.model import GATE, Gang, Pod, Reason
from scoring.plan.result import Waiting


class Topic(StrEnum):
    """What a note is about."""

    QUOTA = "quota"
    DEADLINE = "active deadline"
    BUDGET = "disruption budget"
    AUTOSCALER = "autoscaler"
    GATE = "gate"
    NODE = "lost node"
    UNREADABLE = "unreadable"
    NOTE = "ignored note"
    DAEMON_SET = "daemon set"
    RUN = "other run"
    LEVEL = "service level"
    SCHEDULER = "kube-scheduler"


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that stands in the gang's way, or that is not known, as a sentence for people."""

    topic: Topic
    text: str


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision of the past."""

    at_s: float  # Unix seconds
    what: str
    reason: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Around:
    """What the service knows besides the snapshot; empty: it was not asked."""

    held: Collection[PodUid] = ()  # Members whose bind is held now, until the minimum has come
    decisions: tuple[Decision, ...] = ()  # The last ones, newest first
    notes: tuple[Note, ...] = ()  # Quotas, deadlines and budgets that were read, and those that could not be
    refusals: Mapping[PodUid, str] = field(default_factory=dict)  # Waiting member → kube-scheduler's words


NOTHING_KNOWN = Around()


def notes_of(gang: Gang, waiting: Waiting | None, lost: Collection[str]) -> tuple[Note, ...]:
    """What the snapshot shows: runs, gates, lost nodes, and what an autoscaler does not see (docs/safety.md S17)."""
    notes: list[Note] = []
    if gang.later:
        notes.append(Note(Topic.RUN, two_runs(gang)))
    if gang.earlier and waiting is not None and waiting.reason is Reason.INCOMPLETE:
        text = f"finished pods of an earlier run do not count: {len(gang.earlier)}"
        notes.append(Note(Topic.RUN, text))
    foreign = sorted({gate for pod in gang.pending for gate in pod.foreign_gates})
    if foreign:
        pods = sum(bool(pod.foreign_gates) for pod in gang.pending)
        notes.append(Note(Topic.GATE, f"{pods} of its pods wait for others to remove {', '.join(foreign)}"))
    if lost:
        text = f"members were on {', '.join(sorted(lost))}, which is no node of the cluster now"
        notes.append(Note(Topic.NODE, text))
    if wants_nodes(waiting):
        gated = sum(GATE in pod.gates for pod in gang.pending)
        how = "wait at a scheduling gate" if gated else "are refused by netgang"
        text = (
            f"a cluster autoscaler adds no nodes for it: its pods {how}, and autoscalers look at pods that "
            "kube-scheduler calls unschedulable"
        )
        notes.append(Note(Topic.AUTOSCALER, text))
    unable = any(pod.obstacle for pod in gang.pending)
    if waiting is not None and waiting.reason is Reason.INCOMPLETE and not foreign and not unable:
        text = (
            "if its owner cannot make the missing pods, a ResourceQuota may forbid it: the owner's events say so "
            "(kubectl describe)"
        )
        notes.append(Note(Topic.QUOTA, text))
    return tuple(notes)


def wants_nodes(waiting: Waiting | None) -> bool:
    """Whether more room would help."""
    return waiting is not None and waiting.reason in _WANTS_NODES


def two_runs(gang: Gang) -> str:
    """Which run the gang is, which one waits, and what to do about it; for gangs with pods of a later run."""
    runs = next((_controller(pod) for pod in gang.members if pod.run is not None), "others")
    waits = _controller(gang.later[0])
    return (
        f"Gang {gang.key} is run by {runs}; the pods of {waits} wait until its pods have ended. To let both run side "
        "by side give each a gang name of its own; if they are parts of one gang give them roles (netgang.io/role)"
    )


def _controller(pod: Pod) -> str:
    if pod.owner is not None:
        return f"{pod.owner.kind} {pod.owner.name}"
    return pod.run.name if pod.run is not None else pod.name


_WANTS_NODES = frozenset(
    {Reason.NO_ROOM, Reason.BEHIND, Reason.FILTERED, Reason.IMPOSSIBLE, Reason.RESERVED, Reason.SPILL_WAIT}
)
