"""What the planner answers, as values that can be compared and recorded: where every member goes, or why not."""

from collections.abc import Mapping

import msgspec

from scoring import GangKey, NodeName, PodUid, ZoneName
from scoring.model.reasons import NEVER_STARTS, Reason
from scoring.model.snapshot import Reservation

PROMISE_HOLDS_S = 7200.0  # So long before a promised start it binds others than waiting gangs
WANTS_ROOM = frozenset({Reason.NO_ROOM, Reason.BEHIND})  # Reasons that a reservation can end


class Admission(msgspec.Struct, frozen=True):
    """Gang `gang` may start (or be completed) as `members` say."""

    gang: GangKey
    rank: int  # Place in the order of this run, 1 first
    zones: tuple[ZoneName, ...]  # One zone, or several for a gang that was spread after its wait
    members: Mapping[PodUid, NodeName]  # Pending members that have a place: the minimum first, then as many as fit
    score: float | None  # Mean points (0..100) over the pairs of members that talk; `None`: there is no such pair
    committed: bool = False  # Taken over from a commitment (docs/safety.md S4), not decided in this run


class Waiting(msgspec.Struct, frozen=True):
    """Gang `gang` waits; `detail` is for people and may change, `reason` is one of the closed set."""

    gang: GangKey
    rank: int
    reason: Reason
    detail: str = ""


class Plan(msgspec.Struct, frozen=True):
    """All gangs that have something to decide, at one snapshot version."""

    version: int
    network_version: int = 0
    admitted: Mapping[GangKey, Admission] = {}
    waiting: Mapping[GangKey, Waiting] = {}
    node_of: Mapping[PodUid, NodeName] = {}  # Every admitted member that is not bound yet → its planned node
    partial: frozenset[GangKey] = frozenset()  # Of these some members have a node, and others of the minimum do not
    reservations: Mapping[GangKey, Reservation] = {}  # Waiting gang → nodes that are reserved for it as a whole
    promise: Reservation | None = None  # Places for a later start: other gangs leave these, by when they end
    later: frozenset[GangKey] = frozenset()  # New gangs that are the next run's, as if they were not there yet

    @property
    def held(self) -> Mapping[GangKey, Reservation]:
        """Reservations and promise: for people, and as a preference."""
        return self.reservations if self.promise is None else {**self.reservations, self.promise.gang: self.promise}

    def promise_due(self, *, now_s: float, until_s: float = float("inf")) -> Reservation | None:
        """The promise, if its start is so near that also pods of no gang leave its room if they are there `until_s`."""
        promise = self.promise
        due = promise is not None and promise.start_s - now_s <= PROMISE_HOLDS_S and promise.start_s < until_s
        return promise if due else None

    def ranks(self) -> Mapping[GangKey, int]:
        """Places of gangs from 1, in this order: what never starts has none, and is ahead of nobody. O(n log n)."""
        able = (wait for wait in self.waiting.values() if wait.reason not in NEVER_STARTS)
        turns: list[Admission | Waiting] = [*self.admitted.values(), *able]
        return {fate.gang: rank for rank, fate in enumerate(sorted(turns, key=lambda fate: fate.rank), start=1)}

    def starts_in_s(self, gang: GangKey, *, now_s: float) -> float:
        """Seconds until the gang's promised start; infinity: none is promised."""
        promise = self.promise
        return float("inf") if promise is None or promise.gang != gang else max(promise.start_s - now_s, 0.0)


class Placed(msgspec.Struct, frozen=True):
    """Where members go."""

    zones: tuple[ZoneName, ...]
    nodes: Mapping[PodUid, NodeName]
    score: float | None


class NoPlace(msgspec.Struct, frozen=True):
    """Why there is no place, with particulars for people."""

    reason: Reason
    detail: str = ""
