"""EASY back-fill: the first gang that cannot start is promised a start, and what fills the gap never delays it.

Sources: Lifka, The ANL/IBM SP scheduling system (1995); Mu'alem and Feitelson, Utilization, predictability, workloads,
and user runtime estimates in scheduling the IBM SP2 with backfilling (2001).

Rules:

- The promise is the earliest start that the ends of what runs allow, in one zone, with the nodes for it. Where ends are
  not known there is none for this gang: then the first of another resource class may have it, and the rules of
  `scoring.plan.starvation_reservations` hold.
- A promise is kept: the gang goes first within its priority, and stays at its nodes unless it can start elsewhere
  sooner than was promised first.
- Of the promised nodes, others are given what will be left beside the gang. What will not be left they are given only
  if they end before the promised start, or, when that has passed because a gang outlived its length, not at all; then
  all that the gang could use of its nodes is kept. So a promised gang starts late by no more than the longest time by
  which a gang ahead outlives its length.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
import numpy as np

from scoring.feasibility.room import rows_with, scatter_add
from scoring.ids import NodeName, PodUid, ResourceName
from scoring.model.reasons import Reason
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import Ints
from scoring.plan.backfill.earliest import Promised
from scoring.plan.backfill.endings import Endings, rounded
from scoring.plan.backfill.start_search import StartSearch
from scoring.plan.capacity import When
from scoring.plan.demand import GangDemand
from scoring.plan.placement import kind_of
from scoring.plan.result import Admission, Promise, Refused, Reservation
from scoring.plan.run import Run
from scoring.plan.starvation_reservations import resource_class

_FAR: Final = np.iinfo(np.int64).max // 4


def promised_first(demands: list[GangDemand], promise: Promise | None, snapshot: Snapshot) -> list[GangDemand]:
    """The same order, but the promised gang is first within its priority: else a later arrival would overtake it.

    Behind what is committed, what has a claim, and gangs that run in part.
    """
    first = next((one for one in demands if promise is not None and one.gang.key == promise.gang), None)
    if first is None or not first.need or first.siblings:
        return demands
    rest, ahead = [one for one in demands if one is not first], {*snapshot.commitments, *snapshot.claims}
    behind = (
        at
        for at, one in enumerate(rest)
        if one.gang.priority <= first.gang.priority and one.gang.key not in ahead and not one.partial
    )
    rest.insert(next(behind, len(rest)), first)
    return rest


class _Kept(msgspec.Struct, eq=False):
    promise: Promise
    at: Promised
    lacks: Ints
    """(rows, resources): what of the promised room does not come free by then; negative: more comes than is needed"""


class KeptRoom:
    """The promise of one run, and the room that is kept for it."""

    def __init__(self, run: Run, before: Promise | None, *, now_s: float) -> None:
        self._run, self._before, self._now_s = run, before, now_s
        self._kept: _Kept | None = None
        self._tried: set[frozenset[ResourceName]] = set()
        self._endings: Endings | None = None
        self._taken = np.zeros_like(run.capacity.room.free)
        """(nodes, resources): what is kept from the run's room now"""

    @property
    def promise(self) -> Promise | None:
        """What is promised, if anything is."""
        return self._kept.promise if self._kept is not None else None

    @property
    def reservation(self) -> Reservation | None:
        """The same as a reservation."""
        one = self.promise
        return None if one is None else Reservation(one.gang, (one.zone,), one.nodes)

    def wants(self, demand: GangDemand) -> bool:
        """Whether the gang is to be promised a start, if it finds no room."""
        if self._kept is not None or not demand.need or demand.siblings:
            return False
        return resource_class(demand) not in self._tried

    def fills(self, demand: GangDemand) -> bool:
        """Whether the room that is kept may be given to the gang: it is kept for it, or the gang ends in time."""
        kept = self._kept
        return kept is not None and (demand.gang.key == kept.promise.gang or self._ends_s(demand) <= kept.at.start_s)

    def open(self) -> None:
        """Give the run the room that is kept; until `close`."""
        self._run.capacity.room.take_places((rows := rows_with(self._taken)), -self._taken[rows])
        self._taken[rows] = 0

    def close(self, demand: GangDemand, nodes: Mapping[PodUid, NodeName] | None) -> None:
        """Keep the room again; `nodes`: what the gang was given, `None`: nothing."""
        if nodes is not None:
            if self._kept is not None and demand.gang.key == self._kept.promise.gang:
                self.open()
                self._kept = None
            self.started(demand, nodes)
        self._keep()

    def started(self, demand: GangDemand, nodes: Mapping[PodUid, NodeName]) -> None:
        """The gang was admitted: it ends, too, and what it takes comes free for a start that is later."""
        if self._endings is None:
            return
        rows, amounts, ends_s = self._endings.add(demand.gang, nodes)
        if (kept := self._kept) is None or not len(rows):
            return
        place = np.minimum(np.searchsorted(kept.at.rows, rows), len(kept.at.rows) - 1)
        some = (kept.at.rows[place] == rows) & (ends_s <= kept.at.start_s)
        scatter_add(kept.lacks, place[some], -amounts[some])

    def try_to_promise(self, demand: GangDemand, admitted: Iterable[Admission]) -> Promise | None:
        """Promise the gang a start, and keep the room for it; `None`: it is not known when it can start."""
        self._tried.add(resource_class(demand))
        if self._endings is None:
            self._endings = Endings(self._run, now_s=self._now_s)
            self._endings.read(admitted)
        before = self._before if self._before is not None and self._before.gang == demand.gang.key else None
        found = StartSearch(self._run, self._endings, demand, now_s=self._now_s).find(before)
        if found is None:
            return None
        promise, at = found
        lacks = at.amounts - self._endings.freed(at.rows, at.start_s)
        self._kept = _Kept(promise, at, np.where(at.amounts > 0, lacks, -_FAR))
        self._keep()
        return promise

    def would_help(self, demand: GangDemand) -> bool:
        """Whether the zone of the promise would have room for each class of the gang's minimum if nothing were kept."""
        kept, run = self._kept, self._run
        if kept is None or kept.promise.zone not in kind_of(run, demand).allowed:
            return False
        rows, zone = kept.at.rows, run.zones.index(kept.promise.zone)
        if not self._taken[rows].any():
            return False
        free = run.capacity.room.free[rows] + self._taken[rows]
        return all(
            run.capacity.zone_counts_if(member_class, rows, free, When.AT_START)[zone] >= len(pods)
            for member_class, pods in demand.need
        )

    def explained(self, demand: GangDemand, refused: Refused) -> Refused:
        """The refusal, as `Reason.RESERVED` where the gang would fit if nothing were kept for another."""
        kept = self._kept
        if kept is None or demand.gang.key == kept.promise.gang or not self.would_help(demand):
            return refused
        zone = kept.promise.zone
        return Refused(Reason.RESERVED, f"room of zone {zone} is kept for {kept.promise.gang}, which starts next there")

    def _keep(self) -> None:
        """Take from the run's room what there is of what the promise lacks, and give back what else was kept."""
        if (kept := self._kept) is None:
            return
        rows, room = kept.at.rows, self._run.capacity.room
        there = room.free[rows] + self._taken[rows]
        wanted = np.minimum(np.maximum(kept.lacks, 0), np.maximum(there, 0))
        if (more := wanted - self._taken[rows]).any():
            some = rows_with(more)
            room.take_places(rows[some], more[some])
            self._taken[rows] = wanted

    def _ends_s(self, demand: GangDemand) -> float:
        """When the gang ends if it starts now."""
        length_s = demand.gang.length_s
        return float("inf") if length_s is None else rounded(self._now_s + length_s)
