"""How long a gang has waited, and what it is: WAITING, STARVING, RUNNING or COMPLETED (PAPERS K2; docs/safety.md S14).

All is derived from API objects and the moment: a restart changes neither a state nor a clock. Rules:

- The clock starts at the creation of the min-available-th oldest live pod, when the gang could start at the earliest.
  Job controllers recreate a resumed job's pods, so resuming starts the clock again.
- RUNNING once its minimum set had nodes (docs/safety.md S8): shrinking or a lost member never sends it back to WAITING.
- COMPLETED when its workers are done; a ps left over is its operator's to remove.
- STARVING from STARVELIMIT on. A gang that cannot start as it is (incomplete, impossible, backing off) is
  never STARVING, whatever its clock says; `scoring.plan.queue_order` decides that.
"""

from enum import StrEnum
from math import inf
from typing import Final

from scoring.feasibility.quorum import Quorum
from scoring.model import Gang, Phase, Role
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
