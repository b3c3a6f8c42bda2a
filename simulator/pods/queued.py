"""A pod in kube-scheduler's queue, the places where it can be, and the order of those that are next."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from scoring.ids import PodUid
from scoring.model import Pod
from simulator.pods.events import Happened, Plugin


class Place(Enum):
    """Where a pod is."""

    NEXT = "active queue"
    BACKOFF = "backoff queue"
    ERROR_BACKOFF = "error backoff queue"
    PARKED = "unschedulable pods"
    TRIED = "in a scheduling cycle, or at Permit"
    AWAY = "bound, or not known"


@dataclass(slots=True, eq=False)
class Queued:
    """A pod in the queue. Times are the loop's."""

    pod: Pod
    created: int
    """Number of its arrival"""
    since_s: float
    """When it came into the queue first, or back from its last try"""
    place: Place = Place.AWAY
    refusals: int = 0
    errors: int = 0
    """In a row"""
    tries: int = 0
    refused_by: frozenset[Plugin] = frozenset()
    ready_s: float = 0.0
    """End of its backoff"""
    said: str = ""
    """The last refusal's message"""
    meanwhile: list[Happened] = field(default_factory=list)
    """What happened since it was taken out"""
    turn: int = 0
    """Which entry of the heaps is its own; older ones are void"""

    @property
    def uid(self) -> PodUid:
        """The pod's uid."""
        return self.pod.uid


Order: TypeAlias = Callable[[Queued], tuple[object, ...]]
"""Sorts the active queue; smaller is sooner."""


def by_priority(one: Queued) -> tuple[object, ...]:
    """In-tree PrioritySort: the higher priority, then the one that came into the queue first."""
    return -one.pod.priority, one.since_s
