"""How long a gang has waited, and what it is: WAITING, STARVING, RUNNING or COMPLETED (PAPERS K2; docs/safety.md S14).

All is derived from API objects and the moment: a restart changes neither a state nor a clock. Rules:

- The clock starts at the creation of the min-available-th oldest live pod, when the gang could start at the earliest.
  Job controllers recreate a resumed job's pods, so resuming starts the clock again.
- RUNNING once its minimum set had nodes (docs/safety.md S8): shrinking or a lost member never sends it back to WAITING.
- COMPLETED when its workers are done; a ps left over is its operator's to remove.
- STARVING from STARVELIMIT on. A gang that cannot start as it is (incomplete, impossible, backing off) is
  never STARVING, whatever its clock says; `scoring.plan.queue_order` decides that.

What we write about a gang is at the end: the status of its PodGroup, and the condition `netgang.io/Admitted` of its
pods. Both are for people, never an input of a decision. The words are those of scheduling.x-k8s.io; `Finished` and
`Failed` stay while nothing of the gang lives, because pods are cleaned up one by one after the end. The condition says
why a pod waits, and after that, that it has a node, as a pod at its gate has no Event of kube-scheduler. A gang's
members have the same words, written again only when the status or the reason changes; a pod that never waited has none.
"""

from enum import StrEnum
from math import inf
from typing import Final

import msgspec
from msgspec.structs import replace

from scoring.feasibility.quorum import Quorum
from scoring.model import Gang, GangSource, GroupStatus, Phase, Pod, Reason, Role
from scoring.model.policy import QueuePolicy

HOLD_S: Final = 7200.0  # Room is reserved for a STARVING gang for so long; then it goes behind the others for as long


class JobState(StrEnum):
    """State of a gang, as in the paper."""

    WAITING = "WAITING"  # It has not started.
    STARVING = "STARVING"  # It could have started for longer than STARVELIMIT, had there been room: it goes first.
    RUNNING = "RUNNING"  # Its minimum has or had nodes; losing or shrinking members never sends it back.
    COMPLETED = "COMPLETED"  # Its workers are done.


QUEUE_OF = dict(zip(JobState, ("WQ", "WQ", "RQ", "FQ"), strict=True))  # The paper's: waiting, running, finished


def waiting_since_s(gang: Gang) -> float | None:
    """Creation of the min-available-th oldest live pod; `None`: there are too few. Cost: O(n log n).

    >>> from tests.builders import gang, pod
    >>> waiting_since_s(gang("g", members=[pod(f"p{i}", created_s=10.0 * i) for i in range(4)], min_member=3))
    20.0
    """
    born = [pod.created_s for pod in gang.members if not pod.deleting and pod.phase is not Phase.FAILED]
    if len(born) <= gang.min_member:
        return max(born, default=0.0) if len(born) == gang.min_member else None
    return sorted(born)[gang.min_member - 1]


def starving_from(gang: Gang, policy: QueuePolicy) -> tuple[float, float]:
    """From when it starves, and from when room may be reserved for it, Unix seconds; infinite: it has too few pods."""
    if (since_s := waiting_since_s(gang)) is None:
        return inf, inf
    return since_s + policy.starve_limit_s, since_s + max(policy.starve_limit_s, policy.reserve_after_s)


def period(starving_s: float, reserves_s: float, *, now_s: float) -> int:
    """-1: the clock has not reached STARVELIMIT; 0: it has, but nothing may be reserved yet; then 1, 2, …, a hold each.

    A hold is `HOLD_S`. Whenever this changes, time alone may change the order and the reservations.

    >>> [period(60.0, 90.0, now_s=now_s) for now_s in (59.0, 60.0, 90.0, 7289.0, 7290.0)]
    [-1, 0, 1, 1, 2]
    """
    if now_s < reserves_s:
        return 0 if now_s >= starving_s else -1
    return 1 + int((now_s - reserves_s) / HOLD_S)


def held_until_s(gang: Gang, policy: QueuePolicy, *, now_s: float) -> float:
    """When the hold ends that it has now or will have first; Unix seconds."""
    starving_s, reserves_s = starving_from(gang, policy)
    return reserves_s + max(period(starving_s, reserves_s, now_s=now_s), 1) * HOLD_S


def leads(period: int) -> bool:
    """Whether a gang in this period goes before the other STARVING ones, or behind those that lead: in turn."""
    return period == 0 or (period > 0 and period % 2 == 1)


def state_of(gang: Gang, quorum: Quorum, *, starving: bool) -> JobState:
    """What the gang is. `starving`: it would be, if it waits (`scoring.plan.queue_order` knows)."""
    workers = [pod for pod in gang.members if pod.role is Role.WORKER] or gang.members
    if all(pod.terminal for pod in workers) and any(pod.phase is Phase.SUCCEEDED for pod in workers):
        return JobState.COMPLETED
    if quorum.started or quorum.whole:
        return JobState.RUNNING
    return JobState.STARVING if starving else JobState.WAITING


def running_since_s(gang: Gang) -> float | None:
    """When the last of the minimum that is bound now got its node, Unix seconds; `None`: not known. O(n log n)."""
    got_nodes = sorted(p.scheduled_s for p in gang.members if p.scheduled_s is not None and p.node is not None)
    return got_nodes[gang.min_member - 1] if len(got_nodes) >= gang.min_member else None


class GroupPhase(StrEnum):
    """`status.phase` of a PodGroup, as we write it."""

    PENDING = "Pending"  # Fewer pods exist than must run, or what they say of their gang cannot be used.
    PRE_SCHEDULING = "PreScheduling"  # All needed pods exist; the gang waits for its turn and for room.
    SCHEDULING = "Scheduling"  # It has been given its places, or some members have nodes and others not.
    SCHEDULED = "Scheduled"  # minMember members have nodes, fewer run yet.
    RUNNING = "Running"  # minMember members run or have succeeded.
    FINISHED = "Finished"  # minMember members have succeeded.
    FAILED = "Failed"  # Members failed, and the pods that are left are too few.


POD_GROUPED = frozenset({GangSource.POD_GROUP, GangSource.ANNOTATION})  # Their gangs a coscheduling PodGroup may size
_FINAL = frozenset({GroupPhase.FINISHED.value, GroupPhase.FAILED.value})


def wanted_status(gang: Gang | None, before: GroupStatus, *, admitted: bool) -> GroupStatus:
    """The status that describes `gang` now; `None`: none of its pods exist any more.

    `admitted`: the plan has places for it. `before` keeps an end that is still true and the time of the start. Cost:
    O(n log n) in members. Writing the result and asking again gives the same result.
    """
    if gang is None:
        return before if before.phase in _FINAL else GroupStatus(phase=GroupPhase.PENDING.value)
    now = GroupStatus(
        scheduled=len(gang.placed),
        running=sum(p.phase is Phase.RUNNING and not p.deleting for p in gang.members),
        succeeded=sum(p.phase is Phase.SUCCEEDED for p in gang.members),
        failed=sum(p.phase is Phase.FAILED for p in gang.members),
        occupied_by=",".join(sorted({str(p.job) for p in gang.members if p.job is not None})),
    )
    phase = _phase(gang, now, admitted=admitted)
    ended = before.phase in _FINAL and not any(pod.lives for pod in gang.members)
    if ended and (phase.value not in _FINAL or phase.value == before.phase):
        return before
    start_s: int | None = None  # When the min-th oldest pod was created; once written it stays, until the gang restarts
    if phase is not GroupPhase.PENDING:
        begins_anew, start_s = before.phase in _FINAL and phase.value not in _FINAL, before.schedule_start_s
        if start_s is None or begins_anew:
            created_s = sorted(p.created_s for p in gang.members if not begins_anew or p.lives)
            start_s = int(created_s[min(gang.min_member, len(created_s)) - 1])
    return replace(now, phase=phase.value, schedule_start_s=start_s)


def _phase(gang: Gang, now: GroupStatus, *, admitted: bool) -> GroupPhase:
    least, possible = gang.min_member, now.succeeded + sum(pod.lives for pod in gang.members)
    if now.succeeded >= least:
        return GroupPhase.FINISHED
    if now.failed and possible < least:
        return GroupPhase.FAILED
    if now.running + now.succeeded >= least:
        return GroupPhase.RUNNING
    if now.scheduled >= least:
        return GroupPhase.SCHEDULED
    if now.scheduled:
        return GroupPhase.SCHEDULING
    if gang.problem is not None or possible < least:
        return GroupPhase.PENDING
    return GroupPhase.SCHEDULING if admitted else GroupPhase.PRE_SCHEDULING


CONDITION: Final = "netgang.io/Admitted"
MESSAGE_CHARS: Final = 512


class AdmittedCondition(msgspec.Struct, frozen=True):
    """What the condition says; `reason` is in CamelCase, as the API asks."""

    status: str  # `True` or `False`
    reason: str
    message: str = ""

    @property
    def key(self) -> str:
        """What differs when it has to be written again; as `Pod.told`."""
        return f"{self.status}/{self.reason}"


def admitted_condition(pod: Pod, cause: str | None, why: str, *, last: str) -> AdmittedCondition | None:
    """What a member of a gang should say now; `None`: nothing new.

    `cause`: why its gang waits, in CamelCase (`scoring.explain.gang`); `None`: unknown. `why`: a sentence.
    `last`: the `key` of what it said last; empty: nothing yet.
    """
    if not pod.lives:
        return None
    if pod.node is not None and last:
        return AdmittedCondition("True", "Admitted", "The gang was admitted and the pod has its node.")
    if pod.node is not None or cause is None:
        return None
    return AdmittedCondition("False", cause, why if len(why) <= MESSAGE_CHARS else f"{why[: MESSAGE_CHARS - 1]}…")


def camel_case(reason: Reason) -> str:
    """The name of a reason as conditions write it."""
    return "".join(word.capitalize() for word in reason.name.split("_"))
