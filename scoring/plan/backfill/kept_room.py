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
  if they end before the promised start, or, when that has passed because a gang outlived its length, not at all. So a
  promised gang starts late by no more than the longest time by which a gang ahead outlives its length. With
  `conservative` that holds for the first one; those behind it may be late when one ahead of them starts sooner.
- Ends and lengths are taken at one level, `backfill_quantile`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from scoring.ids import GangKey, NodeName, PodUid, ResourceName
from scoring.model.policy import Backfill
from scoring.model.reasons import Reason
from scoring.network.matrix import Ints
from scoring.plan.backfill.earliest import Promised, amounts_of, demand_over, earliest
from scoring.plan.backfill.endings import ROUNDING_S, Endings, rounded
from scoring.plan.capacity import When
from scoring.plan.demand import GangDemand
from scoring.plan.result import Admission, Promise, Refused, Reservation
from scoring.plan.run import Run
from scoring.plan.starvation_reservations import WANTS_ROOM, resource_class
from scoring.plan.steps import Steps
from scoring.plan.zone_order import kind_of
from scoring.selection import ClassDemand
from scoring.selection.demand import rooms

_MOST: Final = 64
"""Gangs that are promised a start with `conservative`"""
_FAR: Final = np.iinfo(np.int64).max // 4


@dataclass(slots=True)
class _Kept:
    promise: Promise
    at: Promised
    lacks: Ints
    """(rows, resources): what of the promised room does not come free by then; negative: more comes than is needed"""


class KeptRoom:
    """The promises of one run, and the room that is kept for them."""

    def __init__(self, run: Run, before: Mapping[GangKey, Promise], *, now_s: float) -> None:
        self._run, self._before, self._now_s = run, before, now_s
        self._policy = run.policy.queue
        self._kept: dict[GangKey, _Kept] = {}
        self._tried: set[frozenset[ResourceName]] = set()
        self._classes: dict[int, tuple[object, frozenset[ResourceName]]] = {}
        self._endings: Endings | None = None
        self._taken = np.zeros_like(run.capacity.room.free)
        """(nodes, resources): what is kept from the run's room now"""

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
            return len(self._kept) < _MOST
        return self._class(demand) not in self._tried

    def fills(self, demand: GangDemand) -> bool:
        """Whether some room that is kept for others, or for itself, may be given to the gang."""
        return any(self._may_use(demand, kept) for kept in self._kept.values())

    def open(self, demand: GangDemand) -> None:
        """Give the run the room that the gang may use; until `close`."""
        self._keep([kept for kept in self._kept.values() if not self._may_use(demand, kept)])

    def close(self, demand: GangDemand, nodes: Mapping[PodUid, NodeName] | None) -> None:
        """Keep the room again; `nodes`: what the gang was given, `None`: nothing."""
        if nodes is not None:
            self._kept.pop(demand.gang.key, None)
            self.started(demand, nodes)
        self._keep(list(self._kept.values()))

    def started(self, demand: GangDemand, nodes: Mapping[PodUid, NodeName]) -> None:
        """The gang was admitted: it ends, too, and what it takes comes free for promises that are later."""
        if self._endings is None:
            return
        self._endings.add(demand.gang, nodes)
        for kept in self._kept.values():
            kept.lacks = self._lacks(kept)

    def promise(self, demand: GangDemand, admitted: Mapping[GangKey, Admission]) -> Steps[Promise | None]:
        """Promise the gang a start, and keep the room for it; `None`: it is not known when it can start.

        Cost: O(zones · nodes of a zone · log ends), and once a run O(running gangs).
        """
        self._tried.add(self._class(demand))
        if self._endings is None:
            self._endings = Endings(self._run, now_s=self._now_s, level=self._policy.backfill_quantile)
            yield from self._endings.read(admitted)
        found = yield from self._place(demand)
        if found is None:
            return None
        promise, at = found
        kept = _Kept(promise, at, at.amounts)
        self._kept[demand.gang.key] = kept
        for one in self._kept.values():  # a promise to this gang may last into one to another, or the reverse
            one.lacks = self._lacks(one)
        self._keep(list(self._kept.values()))
        return promise

    def held_back(self) -> list[tuple[Ints, Ints, Ints]]:
        """Rows of what is kept, what would be free there otherwise, and its zones' places; as of reservations."""
        rows = np.flatnonzero(self._taken.any(axis=1))
        zones = tuple(sorted({kept.promise.zone for kept in self._kept.values()}))
        run = self._run
        return [(rows, run.capacity.room.free[rows] + self._taken[rows], run.view.columns(zones))] if len(rows) else []

    def rows(self) -> frozenset[int]:
        """Where room is kept."""
        return frozenset(np.flatnonzero(self._taken.any(axis=1)).tolist())

    def explained(self, demand: GangDemand, refused: Refused) -> Refused:
        """The refusal, as `Reason.RESERVED` where the gang would fit if nothing were kept for others. O(nodes)."""
        if refused.reason not in WANTS_ROOM or not self._taken.any() or demand.gang.key in self._kept:
            return refused
        run, kind = self._run, kind_of(self._run, demand)
        free = run.capacity.room.free + self._taken
        for kept in self._kept.values():
            rows = run.table.zones[kept.promise.zone]
            if kept.promise.zone not in kind.allowed or (classes := self._demand(demand)) is None:
                continue
            over = demand_over(classes, rows, demand.all_reduce)
            if all(int(rooms(one, free[rows]).sum()) >= one.count for one in over.classes):
                detail = f"room of zone {kept.promise.zone} is kept for {kept.promise.gang}, which starts next there"
                return Refused(Reason.RESERVED, detail)
        return refused

    def _place(self, demand: GangDemand) -> Steps[tuple[Promise, Promised] | None]:
        """Start, zone and nodes: those of the previous plan, unless another zone is sooner than was promised first."""
        run, key, classes = self._run, demand.gang.key, self._demand(demand)
        if classes is None:
            return None
        free = run.capacity.room.free + self._taken
        best: tuple[float, Ints, Ints] | None = None  # start, rows, amounts
        before, first_s = self._before.get(key), None
        if before is not None and before.zone in kind_of(run, demand).allowed:
            rows = np.array(sorted({run.table.index[name] for name in before.nodes if name in run.table.index}), int)
            if len(rows):
                best = self._earliest(demand, classes, rows, free)
                first_s = before.first_s if best is not None else None
        for zone in kind_of(run, demand).allowed:
            limit_s = float("inf") if best is None else best[0]
            if first_s is not None:
                limit_s = min(limit_s, np.nextafter(first_s, np.inf))
            found = self._earliest(demand, classes, run.table.zones[zone], free, before_s=limit_s)
            best = found or best
            yield
        if best is None:
            return None
        start_s, rows, amounts = best
        used = np.flatnonzero(amounts.any(axis=1))
        if not len(used):
            return None  # it asks for nothing that is counted
        rows, amounts = rows[used], amounts[used]
        zone = run.table.nodes[int(rows[0])].zone
        first_s = start_s if first_s is None else first_s
        bound_s = min(start_s, first_s)
        low_s, high_s = self._interval(demand, classes, run.table.zones[zone], free, start_s)
        promise = Promise(
            gang=key,
            start_s=start_s,
            low_s=low_s,
            high_s=high_s,
            first_s=first_s,
            zone=zone,
            nodes=tuple(run.table.names[row] for row in rows.tolist()),
            after=self._of().last_before(rows, start_s),
        )
        return promise, Promised(rows, amounts, bound_s, start_s + self._runs_s(demand))

    def _interval(
        self, demand: GangDemand, classes: tuple[ClassDemand, ...], rows: Ints, free: Ints, start_s: float
    ) -> tuple[float, float]:
        """The start if all that runs there ends early, or late."""
        found = [self._earliest(demand, classes, rows, free, which=which) for which in (1, 2)]
        low_s, high_s = (start_s if one is None else one[0] for one in found)
        return min(low_s, start_s), max(high_s, start_s)

    def _earliest(
        self,
        demand: GangDemand,
        classes: tuple[ClassDemand, ...],
        rows: Ints,
        free: Ints,
        *,
        before_s: float = float("inf"),
        which: int = 0,
    ) -> tuple[float, Ints, Ints] | None:
        over = demand_over(classes, rows, demand.all_reduce)
        found = earliest(
            over,
            rows,
            free[rows],
            self._of(),
            [kept.at for kept in self._kept.values()],
            now_s=self._now_s,
            runs_s=self._runs_s(demand),
            before_s=before_s,
            which=which,
        )
        return None if found is None else (found[0], rows, amounts_of(over, found[1]))

    def _demand(self, demand: GangDemand) -> tuple[ClassDemand, ...] | None:
        """Classes of the minimum over all nodes; `None`: a resource that no node has."""
        run = self._run
        classes: list[ClassDemand] = []
        for member_class, pods in demand.need:
            request = run.view.vector(member_class)
            if request is None:
                return None
            allowed = run.capacity.mask(member_class, When.AT_START)
            classes.append(ClassDemand(member_class.role, request, allowed, len(pods)))
        return tuple(classes)

    def _lacks(self, kept: _Kept) -> Ints:
        """What of the promised room will not be there by its start without what is free now."""
        late = kept.promise.start_s > kept.promise.first_s + ROUNDING_S
        freed = self._of().freed(kept.at.rows, kept.at.start_s, which=3 if late else 0)
        lacks: Ints = kept.at.amounts - freed
        for other in self._kept.values():
            if other is not kept and other.at.start_s <= kept.at.start_s < other.at.end_s:
                place = np.minimum(np.searchsorted(kept.at.rows, other.at.rows), len(kept.at.rows) - 1)
                some = kept.at.rows[place] == other.at.rows
                lacks[place[some]] += other.at.amounts[some]
        return np.where(kept.at.amounts > 0, lacks, -_FAR)

    def _keep(self, some: list[_Kept]) -> None:
        """Take from the run's room what these promises need of it, and give back the rest."""
        room = self._run.capacity.room
        wanted = np.zeros_like(self._taken)
        for kept in some:
            rows = kept.at.rows
            free = np.maximum(room.free[rows] + self._taken[rows], 0)
            wanted[rows] = np.maximum(wanted[rows], np.clip(kept.lacks, 0, free))
        rows = np.flatnonzero((wanted != self._taken).any(axis=1))
        if len(rows):
            room.take_places(rows, wanted[rows] - self._taken[rows])
            self._taken = wanted

    def _may_use(self, demand: GangDemand, kept: _Kept) -> bool:
        mine = kept.promise.gang == demand.gang.key
        return mine or rounded(self._now_s + self._runs_s(demand)) <= kept.at.start_s

    def _runs_s(self, demand: GangDemand) -> float:
        length = demand.gang.length
        return float("inf") if length is None else length.at_s(self._policy.backfill_quantile)

    def _of(self) -> Endings:
        assert self._endings is not None, "made before the first promise"
        return self._endings

    def _class(self, demand: GangDemand) -> frozenset[ResourceName]:
        known = self._classes.get(id(demand))
        if known is None:
            known = self._classes[id(demand)] = (demand, resource_class(demand))
        return known[1]
