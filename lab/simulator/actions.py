"""What a policy may ask of the world, and what it must offer to be asked.

Why values: the world checks each one against the room there is before it does it, whatever the policy thinks.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from lab.simulator.model import SimJob
from lab.simulator.state import Slot, State


class Place(msgspec.Struct, frozen=True):
    """Pods of a job get nodes: its start, a part of it, or further workers."""

    job: str
    pods: Mapping[Slot, int]
    """(role, index) → row"""
    wanted: int | None = None
    """Workers that the owner wants from now on; `None`: as before."""


class Remove(msgspec.Struct, frozen=True):
    """Workers of a running job go, at once; their room is free from this moment."""

    job: str
    indexes: Sequence[int]
    for_others: bool = True
    """Whether it is to have them again (else it wished for fewer)."""


class GiveUp(msgspec.Struct, frozen=True):
    """A job that uses room without being whole is removed: it was deadlocked."""

    job: str
    again: bool = False
    """Whether its owner submits it again at once, behind all others; else its story ends here."""


class Suspend(msgspec.Struct, frozen=True):
    """A running job stops as a whole, at once, and waits; it starts again from its last checkpoint."""

    job: str


Action: TypeAlias = Place | Remove | GiveUp | Suspend


class Advice(msgspec.Struct, frozen=True):
    """What a policy wants done now. It is asked again at once if anything is done, else after the next event."""

    actions: Sequence[Action] = ()
    settled: bool = False
    """Asking again before something else happens would bring nothing."""
    wake_s: float | None = None
    """Moment at which it wants to be asked even if nothing happens."""


class Deciding(ABC):
    """Which jobs start where, and which change. A policy may keep what it remembers; the same calls give the same."""

    name = ""
    """As in results."""
    elastic = False
    """Whether jobs train with fewer workers than their owner asked for, down to their minimum."""

    def wanted(self, job: SimJob) -> int:
        """Workers that the job's owner makes at its arrival: all that it asked for."""
        return job.workers

    @abstractmethod
    def decide(self, state: State) -> Advice:
        """Look at the cluster at `state.now_s`."""
