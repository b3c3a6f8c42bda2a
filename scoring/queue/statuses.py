"""What we write about a gang: the status of its PodGroup, and the condition `netgang.io/Admitted` of its pods.

Both are for people, never an input of a decision. The words and what they promise are those of scheduling.x-k8s.io
(`Scheduled` and `PreScheduling` of its earlier versions distinguish what its later ones give one name); `Finished` and
`Failed` stay while nothing of the gang lives, because pods are cleaned up one by one after the end.

The condition says why a pod waits, and after that, that it has a node, as a pod at its gate has no Event of
kube-scheduler. Rules: a gang's members have the same words, written again only when the status or the reason changes,
so a message has the numbers of the moment at which its reason began. A pod that never had to wait has none.
"""

from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from scoring.model import Gang, GangSource, GroupStatus, Phase, Pod, Reason


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
