"""How the wait of a gang ends, and how long it was: from API objects alone, so that every leader says the same.

The clock is that of the queue (`scoring.queue.states`): it starts when the gang could start at the earliest.
"""

from enum import StrEnum
from typing import Final

from scoring.feasibility.quorum import quorum_of
from scoring.model import Gang, Reason
from scoring.queue.states import waiting_since_s


class WaitOutcome(StrEnum):
    """How a gang's wait ended."""

    STARTED = "started"
    """Its minimum has nodes."""
    DELETED = "deleted"
    """It is gone, and could have started, had there been room."""
    UNFIT = "unfit"
    """It is gone, and could not have started as it was: incomplete, impossible, invalid, over its namespace's share."""


_UNFIT: Final = frozenset(
    {
        *(Reason.INCOMPLETE, Reason.IMPOSSIBLE, Reason.NO_ALLOWED_ZONE, Reason.OVER_SHARE),
        *(Reason.INVALID_GROUP, Reason.MIXED_SCHEDULERS, Reason.MIXED_PRIORITIES),
    }
)


def has_started(gang: Gang) -> bool:
    """Whether its wait is over: all of its minimum has nodes, or had. Cost: O(n log n).

    >>> from tests.builders import bound, gang, pod
    >>> [has_started(gang("g", members=[bound(pod("a"), "n"), one])) for one in (pod("b"), bound(pod("b"), "n"))]
    [False, True]
    """
    return gang.started or quorum_of(gang).whole


def is_running(gang: Gang) -> bool:
    """Whether it has started and has a pod on a node that has not ended."""
    return any(pod.node is not None and not pod.terminal for pod in gang.members) and has_started(gang)


def outcome_of(gang: Gang, last_reason: Reason | None) -> WaitOutcome:
    """How the wait of a gang that is gone, or has started, ended; `last_reason`: for which it waited last.

    >>> from tests.builders import gang
    >>> [str(outcome_of(gang("g", 2), reason)) for reason in (None, Reason.NO_ROOM, Reason.IMPOSSIBLE)]
    ['deleted', 'deleted', 'unfit']
    """
    if has_started(gang):
        return WaitOutcome.STARTED
    unfit = gang.problem is not None or last_reason in _UNFIT or waiting_since_s(gang) is None
    return WaitOutcome.UNFIT if unfit else WaitOutcome.DELETED


def waited_s(gang: Gang, *, until_s: float) -> float:
    """How long the gang waited until `until_s`, in seconds; of one that never had all its pods, since its creation.

    >>> from tests.builders import gang, pod
    >>> waited_s(gang("g", members=[pod("a", created_s=10.0), pod("b", created_s=30.0)]), until_s=45.0)
    15.0
    """
    since_s = waiting_since_s(gang)
    return max(until_s - (gang.created_s if since_s is None else since_s), 0.0)
