"""Room that is kept for gangs that wait: for STARVING ones, and for one that is promised a start.

**STARVING** (docs/safety.md S14): each small gang that comes late moves the moment of room for a large one. So:

- A gang that is STARVING, has waited for `reserve_after_s` and was refused for want of room reserves one zone: nothing
  new is admitted there, and the room of what ends adds up.
- One reservation for each resource class (the extended resources asked for: GPU jobs and CPU jobs do not wait for each
  other's zones), for the first gang in order.
- At most a quarter of the cluster's nodes are reserved. Of a larger zone only that many nodes are, those with
  most room for the gang; a gang whose minimum alone needs more gets as many as that takes, but then no other gang does.
- A reservation stays where it was in the previous plan as long as it can serve, not to waste what was gathered.
- Room that others leave for a gang (`Snapshot.claims`) is kept for it node by node as it becomes free, as much as the
  gang needs there, whatever its class and the share.

With its whole zone reserved, the gang starts there no later than if no gang had come after it.

**EASY back-fill**: the first gang that cannot start is promised a start, and what fills the gap never delays it.
Sources: Lifka, The ANL/IBM SP scheduling system (1995); Mu'alem and Feitelson, Utilization, predictability, workloads,
and user runtime estimates in scheduling the IBM SP2 with backfilling (2001).

- The promise is the earliest start that the ends of what runs allow, in one zone, with the nodes for it; where ends are
  not known there is none, and the first gang of another resource class may have it.
- A promise is kept: the gang goes first within its priority, and stays at its nodes unless it can start elsewhere
  sooner than was promised first.
- Of the promised nodes, others are given what will be left beside the gang; the rest only if they end before the
  promised start, by a length that is believed (`scoring.model.gang`), or, when that has passed because a gang outlived
  its length, not at all; then all that the gang could use of its nodes is kept. So it is late by no more than the
  longest time by which a gang ahead outlives its length. Plain pods and growing jobs leave it the same for some hours.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
import numpy as np

from scoring import GangKey, NodeName, PodUid, ResourceName, ZoneName
from scoring.model.policy import ZonePolicy
from scoring.model.reasons import Reason
from scoring.model.snapshot import Reservation, Snapshot, rows_with, scatter_add
from scoring.network.matrix import Ints
from scoring.plan.capacity import When
from scoring.plan.demand import GangDemand, MemberSet
from scoring.plan.expected_starts import Endings, Promised, promised_start, rounded
from scoring.plan.placement import kind_of
from scoring.plan.result import Admission, NoPlace
from scoring.plan.run import Run
from scoring.selection.demand import at_rows
from scoring.selection.greedy import fit

_NEVER: Final = np.iinfo(np.int64).min // 4  # So little is lacking of what is not promised
SHARE: Final = 0.25  # Most of the cluster's nodes that are reserved for STARVING gangs


def resource_class(demand: GangDemand) -> frozenset[ResourceName]:
    """Extended resources that the gang's missing minimum asks for."""
    return frozenset({name for mc, _ in demand.need for name, _ in mc.requests if "/" in name})


class _ReservedRoom(msgspec.Struct, frozen=True):
    reserved: Reservation
    rows: Ints
    room: Ints  # (rows, resources) that was free there when it was held
    claims: bool = False  # Others leave for the gang


class StarvationReservations:
    """The reservations of one run."""

    def __init__(self, run: Run, before: Mapping[GangKey, Reservation]) -> None:
        self._run, self._before = run, before
        self._kept: dict[frozenset[ResourceName], _ReservedRoom] = {}
        self._claimed: dict[GangKey, _ReservedRoom] = {}

    @property
    def made(self) -> dict[GangKey, Reservation]:
        """What is held, by gang."""
        return {room.reserved.gang: room.reserved for room in (*self._kept.values(), *self._claimed.values())}

    def reserve(self, demand: GangDemand, refused: NoPlace, claim: Reservation | None, *, starving: bool) -> NoPlace:
        """Keep room for a refused gang: what others leave for it (`claim`), or, if it is `starving`, a zone.

        Gives the refusal in its final words. Cost: O(nodes · classes · log nodes).
        """
        run, kind, free = self._run, kind_of(self._run, demand), self._run.capacity.room.free
        if claim is not None:  # what is free by now of the room that others leave for it
            rows, needed = run.table.footprint((pod for _, pods in demand.need for pod in pods), claim.assignment)
            room = np.minimum(needed, np.maximum(free[rows], 0))
            self._claimed[demand.gang.key] = self._keep(demand, rows, room, claims=True)
            givers = ", ".join(claim.givers) or "others"
            return NoPlace(refused.reason, f"{refused.detail}; {givers} made room for it, or are about to")
        if starving and (resources := resource_class(demand)) not in self._kept:
            held = self._former(demand, kind)
            held = self._best(demand, kind) if held is None else held
            if held is not None and len(held):
                self._kept[resources] = own = self._keep(demand, held, np.maximum(free[held], 0))
                zones = ", ".join(own.reserved.zones)
                return NoPlace(refused.reason, f"{refused.detail}; {len(held)} nodes of zone {zones} are held for it")
        for other in (*self._kept.values(), *self._claimed.values()):  # would it have room if this were not held?
            then = np.array(free)
            then[other.rows] += other.room
            for zone in sorted(set(other.reserved.zones) & set(kind.allowed)):
                if _fits(run, kind, run.table.zones[zone], then, When.NOW):
                    why = "for which others leave" if other.claims else "which is STARVING"
                    detail = f"{len(other.rows)} nodes of zone {zone} are held for {other.reserved.gang}, {why}"
                    return NoPlace(Reason.RESERVED, detail)
        return refused

    def _keep(self, demand: GangDemand, rows: Ints, room: Ints, *, claims: bool = False) -> _ReservedRoom:
        run = self._run
        run.capacity.room.take_places(rows, room)
        names = tuple(run.table.names[row] for row in rows.tolist())
        reserved = Reservation(demand.gang.key, zones=run.view.zones_of(names), nodes=frozenset(names))
        return _ReservedRoom(reserved, rows, room, claims)

    def _former(self, demand: GangDemand, kind: MemberSet) -> Ints | None:
        """Rows of the gang's reservation in the previous plan, if it can still serve."""
        reserved, table = self._before.get(demand.gang.key), self._run.table
        if reserved is None:
            return None
        rows = np.array(sorted(table.index[name] for name in reserved.nodes if name in table.index), np.int64)
        if not set(kind.allowed).issuperset(table.nodes[row].zone for row in rows.tolist()):
            return None
        budget = self._budget()
        if len(rows) > budget and (budget <= 0 or self._kept or self._could_fit(kind, rows[:budget])):
            return None
        return rows if self._could_fit(kind, rows) else None

    def _best(self, demand: GangDemand, kind: MemberSet) -> Ints | None:
        """Rows to reserve: in the zone that has most room for the gang already, by name among equals."""
        run = self._run
        room = dict(zip(run.zones, run.capacity.zone_members(kind).tolist(), strict=True))
        sets: list[tuple[ZoneName, ...]] = [(z,) for z in sorted(kind.allowed, key=lambda zone: (-room[zone], zone))]
        if demand.options.zone_policy is ZonePolicy.PREFERRED and kind.allowed:
            sets.append(kind.allowed)  # no single zone can ever hold it: all together
        # Nodes that some member may go to
        usable = np.logical_or.reduce([run.capacity.mask(member_class, When.EMPTY) for member_class, _ in kind.classes])
        for zones in sets:
            rows = run.view.rows(zones)
            rows = rows[usable[rows]]
            if self._could_fit(kind, rows):
                return self._part(kind, rows)
        return None

    def _part(self, kind: MemberSet, rows: Ints) -> Ints | None:
        """As many of `rows` as may be held, those with most room for the gang first; `None`: none may."""
        budget = self._budget()
        if len(rows) <= budget:
            return rows
        room, view = self._run.capacity.room, self._run.view
        members = np.sum([np.minimum(room.counts(view.vector(mc)), count) for mc, count in kind.classes], axis=0)
        ordered = np.array(sorted(rows.tolist(), key=lambda row: (-int(members[row]), row)), np.int64)
        if budget > 0 and self._could_fit(kind, ordered[:budget]):
            return np.sort(ordered[:budget])
        if self._kept or budget <= 0:
            return None
        enough = 1 + bisect_left(range(1, len(rows)), True, key=lambda some: self._could_fit(kind, ordered[:some]))
        return np.sort(ordered[: enough + self._run.policy.spares])

    def _budget(self) -> int:
        """How many more nodes may be reserved; at least one while none is."""
        return max(int(SHARE * len(self._run.table.nodes)), 1) - sum(len(room.rows) for room in self._kept.values())

    def _could_fit(self, kind: MemberSet, rows: Ints) -> bool:
        return _fits(self._run, kind, rows, self._run.table.allocatable, When.EMPTY)


def _fits(run: Run, kind: MemberSet, rows: Ints, free: Ints, when: When) -> bool:
    """Whether the demand fits `rows` with the room `free` (nodes, resources); host ports are not looked at."""
    return fit(at_rows(run.capacity.demand(kind, when), rows), free[rows]) is not None


def reserved_nodes(reservations: Mapping[GangKey, Reservation], *, besides: GangKey | None = None) -> set[NodeName]:
    """Nodes that are held for gangs other than `besides`."""
    return {node for key, reserved in reservations.items() if key != besides for node in reserved.nodes}


# -- back-fill ---------------------------------------------------------------------------------------------------------


def lacking(snapshot: Snapshot, promise: Reservation) -> tuple[Ints, Ints]:
    """Rows (k,) of a promise, and what does not come free there by its start: (k, resources). Cost: O(nodes + members).

    It is of this snapshot, not of the plan's: of what has ended since, the promise lacks as much more; and nothing once
    the gang is committed, or others leave for it.
    """
    table, gangs = snapshot.table, snapshot.gangs
    waits = promise.gang in gangs and promise.gang not in {*snapshot.claims, *snapshot.commitments}
    rows, amounts = table.footprint(gangs[promise.gang].pending if waits else (), promise.assignment)
    ending = (pod for key in promise.ending if key in gangs for pod in gangs[key].members if not pod.terminal)
    at, freed = table.footprint(ending)
    total = np.zeros_like(table.allocatable)
    total[rows] = amounts
    total[at] -= freed
    return rows, np.maximum(total[rows], 0)


def promised_first(demands: list[GangDemand], promise: Reservation | None, snapshot: Snapshot) -> list[GangDemand]:
    """The same order, but the promised gang is first within its priority: else a later arrival would overtake it."""
    first = next((demand for demand in demands if promise is not None and demand.gang.key == promise.gang), None)
    if first is None or not first.need or first.siblings:
        return demands
    rest, ahead = [demand for demand in demands if demand is not first], {*snapshot.commitments, *snapshot.claims}
    behind = (
        at
        for at, demand in enumerate(rest)
        if demand.gang.priority <= first.gang.priority and demand.gang.key not in ahead and not demand.partial
    )
    rest.insert(next(behind, len(rest)), first)
    return rest


class _PromisedRoom(msgspec.Struct, eq=False):
    promise: Reservation
    at: Promised
    lacks: Ints  # (rows, resources): what does not come free by then; negative: more comes than is needed


class BackfillRoom:
    """The promise of one run, and the room that is kept for it."""

    def __init__(self, run: Run, before: Reservation | None, *, backfills: bool, now_s: float) -> None:
        self._run, self._before, self._backfills, self._now_s = run, before, backfills, now_s
        self._kept: _PromisedRoom | None = None
        self._tried: set[frozenset[ResourceName]] = set()
        self._endings: Endings | None = None
        self._taken = np.zeros_like(run.capacity.room.free)  # (nodes, resources): what is kept from the run's room now

    @property
    def promise(self) -> Reservation | None:
        """What is promised, if anything is."""
        return self._kept.promise if self._kept is not None else None

    def wants(self, demand: GangDemand) -> bool:
        """Whether the gang is to be promised a start, if it finds no room."""
        could = self._backfills and self._kept is None and bool(demand.need) and not demand.siblings
        return could and resource_class(demand) not in self._tried

    def fills(self, demand: GangDemand) -> bool:
        """Whether the room that is kept may be given to the gang: it is kept for it, or the gang ends in time."""
        promised, gang = self._kept, demand.gang
        if promised is None or gang.key == promised.promise.gang:
            return promised is not None
        length_s = gang.length_s if gang.believed else None
        return length_s is not None and rounded(self._now_s + length_s) <= promised.at.start_s

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
            if self._endings is not None:  # it ends, too, and what it takes comes free for a start that is later
                rows, amounts, ends_s = self._endings.add(demand.gang, nodes)
                if (promised := self._kept) is not None and len(rows) and demand.gang.believed:
                    place = np.minimum(np.searchsorted(promised.at.rows, rows), len(promised.at.rows) - 1)
                    some = (promised.at.rows[place] == rows) & (ends_s <= promised.at.start_s)
                    scatter_add(promised.lacks, place[some], -amounts[some])
        self._keep()

    def try_to_promise(self, demand: GangDemand, admitted: Iterable[Admission]) -> Reservation | None:
        """Promise the gang a start, and keep the room for it; `None`: it is not known when it can start."""
        self._tried.add(resource_class(demand))
        if self._endings is None:
            self._endings = Endings(self._run, admitted, now_s=self._now_s)
        before = self._before if self._before is not None and self._before.gang == demand.gang.key else None
        start = promised_start(self._run, demand, self._endings, before)
        if start is None:
            return None
        promise, at = start
        freed = self._endings.freed_before(np.nextafter(at.start_s, np.inf), believed=True)
        self._kept = _PromisedRoom(promise, at, np.where(at.amounts > 0, at.amounts - freed[at.rows], _NEVER))
        self._keep()
        return promise

    def would_help(self, demand: GangDemand) -> bool:
        """Whether the zone of the promise would have room for each class of the gang's minimum if nothing were kept."""
        promised, run = self._kept, self._run
        if promised is None or promised.promise.zones[0] not in kind_of(run, demand).allowed:
            return False
        rows, zone = promised.at.rows, run.zones.index(promised.promise.zones[0])
        if not self._taken[rows].any():
            return False
        free = run.capacity.room.free[rows] + self._taken[rows]
        sums = ((run.capacity.zone_counts_if(mc, rows, free, When.AT_START), pods) for mc, pods in demand.need)
        return all(fits[zone] >= len(pods) for fits, pods in sums)

    def explained(self, demand: GangDemand, refused: NoPlace) -> NoPlace:
        """The refusal, as `Reason.RESERVED` where the gang would fit if nothing were kept for another."""
        promised = self._kept
        if promised is None or demand.gang.key == promised.promise.gang or not self.would_help(demand):
            return refused
        zone, gang = promised.promise.zones[0], promised.promise.gang
        return NoPlace(Reason.RESERVED, f"room of zone {zone} is kept for {gang}, which starts next there")

    def _keep(self) -> None:
        """Take from the run's room what there is of what the promise lacks, and give back what else was kept."""
        if (promised := self._kept) is None:
            return
        rows, room = promised.at.rows, self._run.capacity.room
        there = room.free[rows] + self._taken[rows]
        wanted = np.minimum(np.maximum(promised.lacks, 0), np.maximum(there, 0))
        if (more := wanted - self._taken[rows]).any():
            some = rows_with(more)
            room.take_places(rows[some], more[some])
            self._taken[rows] = wanted
