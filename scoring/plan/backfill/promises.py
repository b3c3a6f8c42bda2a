"""EASY back-fill: the first gang that cannot start is promised a start, and what fills the gap never delays it.

Sources: Lifka, The ANL/IBM SP scheduling system (1995); Mu'alem and Feitelson, Utilization, predictability, workloads,
and user runtime estimates in scheduling the IBM SP2 with backfilling (2001).

Rules:

- A gang is promised the earliest start that the ends of what runs allow, in one zone, with the nodes for it: the first
  gang in order of each resource class (`easy`), or every one up to `_MOST` (`conservative`). Without known ends there
  is no promise, and the rules of `scoring.plan.starvation_reservations` hold.
- A promise is kept: the gang goes first within its priority, and stays at its nodes unless it can start elsewhere
  sooner than was promised first.
- Of the promised nodes, others are given what will be left beside the gang. What will not be left they are given only
  if they end before the promised start, or, when that has passed because a gang outlived its length, not at all; then
  all that the gang could use of its nodes is kept. So a promised gang starts late by no more than the longest time by
  which a gang ahead outlives its length. With `conservative` that holds for the first one; those behind it may be late
  when one ahead of them starts sooner.
- Ends and lengths are taken at one level, `backfill_quantile`. With `backfill_wait_ratio` a gang is promised a start
  only once it has waited for so many times its own length.
- With `conservative` the first `_MOVED` gangs may be promised other nodes where they start sooner; those behind keep
  theirs meanwhile, as a search over all zones for each of them is most of the cost.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from scoring.feasibility.room import rows_with, scatter_add
from scoring.ids import GangKey, NodeName, PodUid, ResourceName, ZoneName
from scoring.model.policy import Backfill
from scoring.model.reasons import Reason
from scoring.network.matrix import Ints
from scoring.plan.backfill.earliest import Promised
from scoring.plan.backfill.endings import Endings, rounded
from scoring.plan.backfill.start_search import StartSearch, classes_of, runs_s, zones_with_room
from scoring.plan.demand import GangDemand
from scoring.plan.result import Admission, Promise, Refused, Reservation
from scoring.plan.run import Run
from scoring.plan.starvation_reservations import WANTS_ROOM, resource_class
from scoring.plan.steps import Steps
from scoring.plan.zone_order import kind_of
from scoring.queue.states import waiting_since_s

_MOST: Final = 64
"""Gangs that are promised a start with `conservative`"""
_MOVED: Final = 8
"""The first ones, which may be promised other nodes where they start sooner; those behind keep theirs meanwhile"""
_FAR: Final = np.iinfo(np.int64).max // 4


@dataclass(slots=True, eq=False)
class _Kept:
    promise: Promise
    at: Promised
    lacks: Ints
    """(rows, resources): what of the promised room does not come free by then; negative: more comes than is needed"""

    def meets(self, other: "_Kept") -> Ints | None:
        """What the other one, of the same zone, has of this room when this one starts."""
        return other.at.on(self.at.rows) if other.at.start_s <= self.at.start_s < other.at.end_s else None


class KeptRoom:
    """The promises of one run, and the room that is kept for them."""

    def __init__(self, run: Run, before: Mapping[GangKey, Promise], *, now_s: float) -> None:
        self._run, self._before, self._now_s = run, before, now_s
        self._policy = run.policy.queue
        self._kept: dict[GangKey, _Kept] = {}
        self._in_zone: dict[ZoneName, list[_Kept]] = {}
        """zone → what is kept there, in the order in which it was promised"""
        self._tried: set[frozenset[ResourceName]] = set()
        self._endings: Endings | None = None
        self._taken = np.zeros_like(run.capacity.room.free)
        """(nodes, resources): what is kept from the run's room now"""
        self._last_start_s = -float("inf")
        """The latest of the promised starts"""

    @property
    def promises(self) -> dict[GangKey, Promise]:
        """What is promised, by gang, in the order in which it was."""
        return {key: kept.promise for key, kept in self._kept.items()}

    @property
    def reservations(self) -> dict[GangKey, Reservation]:
        """The same as reservations."""
        return {key: Reservation(key, (kept.promise.zone,), kept.promise.nodes) for key, kept in self._kept.items()}

    def wants(self, demand: GangDemand) -> bool:
        """Whether the gang is to be promised a start, if it finds no room."""
        if not demand.need or demand.siblings or demand.gang.key in self._kept:
            return False
        if self._policy.backfill is Backfill.CONSERVATIVE:
            return len(self._kept) < _MOST and self._waited(demand)
        return self._class(demand) not in self._tried and self._waited(demand)

    def fills(self, demand: GangDemand) -> bool:
        """Whether some room that is kept for others, or for itself, may be given to the gang."""
        return demand.gang.key in self._kept or self._ends_s(demand) <= self._last_start_s

    def open(self, demand: GangDemand) -> None:
        """Give the run the room that the gang may use; until `close`."""
        key, ends_s = demand.gang.key, self._ends_s(demand)
        others = [kept for kept in self._kept.values() if kept.promise.gang != key and kept.at.start_s < ends_s]
        self._keep(self._wanted(others))

    def close(self, demand: GangDemand, nodes: Mapping[PodUid, NodeName] | None) -> None:
        """Keep the room again; `nodes`: what the gang was given, `None`: nothing."""
        if nodes is not None:
            if (over := self._kept.pop(demand.gang.key, None)) is not None:
                self._in_zone[over.promise.zone].remove(over)
                self._last_start_s = max((one.at.start_s for one in self._kept.values()), default=-float("inf"))
                for kept in self._in_zone[over.promise.zone]:
                    kept.lacks = self._lacks(kept)
            self.started(demand, nodes)
        self._keep(self._wanted(self._kept.values()))

    def started(self, demand: GangDemand, nodes: Mapping[PodUid, NodeName]) -> None:
        """The gang was admitted: it ends, too, and what it takes comes free for promises that are later."""
        if self._endings is None:
            return
        rows, amounts, ends_s = self._endings.add(demand.gang, nodes)
        there = np.zeros(len(self._taken), np.bool_)
        there[rows] = True
        for kept in self._kept.values():
            if not there[kept.at.rows].any():
                continue
            place = np.minimum(np.searchsorted(kept.at.rows, rows), len(kept.at.rows) - 1)
            some = (kept.at.rows[place] == rows) & (ends_s[:, 0] <= kept.at.start_s)
            scatter_add(kept.lacks, place[some], -amounts[some])

    def promise(self, demand: GangDemand, admitted: Mapping[GangKey, Admission]) -> Steps[Promise | None]:
        """Promise the gang a start, and keep the room for it; `None`: it is not known when it can start."""
        self._tried.add(self._class(demand))
        if self._endings is None:
            self._endings = Endings(self._run, now_s=self._now_s, level=self._policy.backfill_quantile)
            yield from self._endings.read(admitted)
        promised = {zone: [one.at for one in some] for zone, some in self._in_zone.items()}
        search = StartSearch(self._run, self._endings, demand, self._taken, promised, now_s=self._now_s)
        found = yield from search.find(self._before.get(demand.gang.key), moves=len(self._kept) < _MOVED)
        if found is None:
            return None
        kept = _Kept(*found, found[1].amounts)
        changed = [kept]
        in_zone = self._in_zone.setdefault(kept.promise.zone, [])
        for one in in_zone:  # a promise to this gang may last into one to another
            if (more := one.meets(kept)) is not None:
                one.lacks = one.lacks + more
                changed.append(one)
        self._kept[demand.gang.key] = kept
        in_zone.append(kept)
        kept.lacks = self._lacks(kept)
        self._last_start_s = max(self._last_start_s, kept.at.start_s)
        for one in changed:
            self._keep_more(one)
        return kept.promise

    def held_back(self) -> list[tuple[Ints, Ints, Ints]]:
        """Rows of what is kept, what would be free there otherwise, and its zones' places; as of reservations."""
        rows = rows_with(self._taken)
        zones = tuple(sorted({kept.promise.zone for kept in self._kept.values()}))
        run = self._run
        return [(rows, run.capacity.room.free[rows] + self._taken[rows], run.view.columns(zones))] if len(rows) else []

    def rows(self) -> frozenset[int]:
        """Where room is kept."""
        return frozenset(rows_with(self._taken).tolist())

    def explained(self, demand: GangDemand, refused: Refused) -> Refused:
        """The refusal, as `Reason.RESERVED` where the gang would fit if nothing were kept for others. O(nodes)."""
        if refused.reason not in WANTS_ROOM or not self._kept or demand.gang.key in self._kept:
            return refused
        run = self._run
        if (classes := classes_of(run, demand)) is None:
            return refused
        allowed = kind_of(run, demand).allowed
        able = zones_with_room(run, classes, run.capacity.room.free + self._taken)
        held = set(run.view.zone_number[rows_with(self._taken)].tolist())
        first_of: dict[ZoneName, GangKey] = {}  # zone → the first gang that was promised a start there
        for kept in self._kept.values():
            first_of.setdefault(kept.promise.zone, kept.promise.gang)
        for zone, gang in first_of.items():
            if zone in allowed and (at := run.zones.index(zone)) in held and able[at]:
                detail = f"room of zone {zone} is kept for {gang}, which starts next there"
                return Refused(Reason.RESERVED, detail)
        return refused

    def _lacks(self, kept: _Kept) -> Ints:
        """What of the promised room will not be there by its start without what is free now."""
        assert self._endings is not None, "made before the first promise"
        lacks: Ints = kept.at.amounts - self._endings.freed(kept.at.rows, kept.at.start_s)
        for other in self._in_zone[kept.promise.zone]:
            if other is not kept and (more := kept.meets(other)) is not None:
                lacks = lacks + more
        return np.where(kept.at.amounts > 0, lacks, -_FAR)

    def _wanted(self, some: Collection[_Kept]) -> Ints:
        """(nodes, resources): what these promises need of the room that is there."""
        wanted = np.zeros_like(self._taken)
        if some:
            parts = zip(*((one.at.rows, one.lacks) for one in some), strict=True)
            rows, lacks = (np.concatenate(part) for part in parts)
            columns = np.arange(wanted.shape[1])
            at = (rows[:, None] * len(columns) + columns).reshape(-1)
            np.maximum.at(wanted.reshape(-1), at, self._needs(rows, lacks).reshape(-1))
        return wanted

    def _needs(self, rows: Ints, lacks: Ints) -> Ints:
        """What there is on these rows of what promises lack, (rows, resources)."""
        there = self._run.capacity.room.free[rows] + self._taken[rows]
        return np.asarray(np.minimum(np.maximum(lacks, 0), np.maximum(there, 0)))

    def _keep_more(self, kept: _Kept) -> None:
        """Take from the run's room what this promise needs beside what is kept already."""
        more = self._needs(kept.at.rows, kept.lacks) - self._taken[kept.at.rows]
        some = (more > 0).any(axis=1)
        if some.any():
            rows, amounts = kept.at.rows[some], np.maximum(more[some], 0)
            self._run.capacity.room.take_places(rows, amounts)
            self._taken[rows] += amounts

    def _keep(self, wanted: Ints) -> None:
        """Take this from the run's room, and give back what else was kept."""
        rows = rows_with(wanted != self._taken)
        if len(rows):
            self._run.capacity.room.take_places(rows, wanted[rows] - self._taken[rows])
            self._taken = wanted

    def _waited(self, demand: GangDemand) -> bool:
        """Whether the gang has waited for as long as it must before it is promised a start, or was promised one."""
        ratio, length_s = self._policy.backfill_wait_ratio, runs_s(self._run, demand)
        if not ratio or length_s == float("inf") or demand.gang.key in self._before:
            return True
        latest_s = self._now_s - ratio * length_s
        since_s = waiting_since_s(demand.gang) if demand.gang.created_s <= latest_s else None
        return since_s is not None and since_s <= latest_s

    def _ends_s(self, demand: GangDemand) -> float:
        """When the gang ends if it starts now."""
        return rounded(self._now_s + runs_s(self._run, demand))

    def _class(self, demand: GangDemand) -> frozenset[ResourceName]:
        known = self._run.cache.resource_classes.get(demand.gang.key)
        if known is None or known[0] is not demand:
            known = self._run.cache.resource_classes[demand.gang.key] = (demand, resource_class(demand))
        return known[1]
