"""Starvation reservations: room kept for STARVING gangs, so that small late ones cannot keep a large one waiting.

docs/safety.md S14.

Why: back-fill uses what a large gang cannot use yet, and each small gang that comes in moves the moment at which a zone
has room for the large one. Rules:

- A gang that is STARVING, has waited for `reserve_after_s` and was refused for want of room reserves one zone: nothing
  new is admitted there. What runs there ends, and the room adds up.
- One reservation for each resource class (the set of extended resources asked for: GPU jobs and CPU jobs do not wait
  for each other's zones), for the first gang in order.
- At most a quarter of the cluster's nodes are reserved. Of a larger zone only that many nodes are, those with
  most room for the gang; a gang whose minimum alone needs more gets as many as that takes, but then no other gang does.
- A reservation stays where it was in the previous plan as long as it can serve: moving it would waste what was
  gathered.
- Room that others leave for a gang (`scoring.model.snapshot.Claim`) is kept for it in the same way, node by node as it
  becomes free, as much as the gang needs there; neither the class nor the share matters.

What it promises: with its whole zone reserved, the gang starts there no later than if no gang had come after it. It
may start later than without the others when another zone, not reserved, would have become free first.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np

from scoring.feasibility.room import fit_counts
from scoring.ids import GangKey, NodeName, ResourceName, ZoneName
from scoring.model.policy import ZonePolicy
from scoring.model.reasons import Reason
from scoring.model.snapshot import Claim
from scoring.network.matrix import Ints
from scoring.plan.capacity import When
from scoring.plan.demand import GangDemand, MemberSet
from scoring.plan.placement import kind_of
from scoring.plan.result import Refused, Reservation
from scoring.plan.run import Run
from scoring.selection.demand import ClassDemand, Demand
from scoring.selection.greedy import fit

SHARE: Final = 0.25  # Most of the cluster's nodes that are reserved for STARVING gangs
WANTS_ROOM = frozenset({Reason.NO_ROOM, Reason.BEHIND})
"""Reasons that a reservation can end."""


def resource_class(demand: GangDemand) -> frozenset[ResourceName]:
    """Extended resources that the gang's missing minimum asks for."""
    return frozenset({name for mc, _ in demand.need for name, _ in mc.requests if "/" in name})


class _Kept(msgspec.Struct, frozen=True):
    reserved: Reservation
    rows: Ints
    room: Ints
    """(rows, resources) that was free there when it was held."""
    claims: bool = False
    """Others leave for the gang."""


class StarvationReservations:
    """The reservations of one run."""

    def __init__(self, run: Run, before: Mapping[GangKey, Reservation]) -> None:
        self._run = run
        self._before = before
        self._kept: dict[frozenset[ResourceName], _Kept] = {}
        self._claimed: dict[GangKey, _Kept] = {}

    @property
    def made(self) -> dict[GangKey, Reservation]:
        """What is held, by gang."""
        return {kept.reserved.gang: kept.reserved for kept in self._all()}

    def reserve(self, demand: GangDemand, refused: Refused, claim: Claim | None, *, starving: bool) -> Refused:
        """Keep room for a refused gang: what others leave for it (`claim`), or, if it is `starving`, a zone.

        Gives the refusal in its final words.
        """
        if claim is not None:
            self._claim(demand, claim)
            givers = ", ".join(claim.givers) or "others"
            return Refused(refused.reason, f"{refused.detail}; {givers} made room for it, or are about to")
        nodes = self._starving(demand) if starving else 0
        if not nodes:
            return self.explained(demand, refused)
        zones = ", ".join(self.made[demand.gang.key].zones)
        return Refused(refused.reason, f"{refused.detail}; {nodes} nodes of zone {zones} are held for it")

    def _starving(self, demand: GangDemand) -> int:
        """Reserve room for a STARVING gang that was refused, if the rules allow it; gives the number of nodes.

        All that is free there is taken from the run. Cost: O(nodes · classes · log nodes).
        """
        kind = resource_class(demand)
        if kind in self._kept:
            return 0
        member_set = kind_of(self._run, demand)
        rows = self._former(demand, member_set)
        if rows is None:
            rows = self._best(demand, member_set)
        if rows is None:
            return 0
        self._kept[kind] = self._keep(demand, rows, np.maximum(self._run.capacity.room.free[rows], 0))
        return len(rows)

    def _keep(self, demand: GangDemand, rows: Ints, room: Ints, *, claims: bool = False) -> _Kept:
        """Take this room of these rows from the run."""
        run = self._run
        run.capacity.room.take_places(rows, room)
        names = tuple(run.table.names[row] for row in rows.tolist())
        return _Kept(Reservation(demand.gang.key, run.view.zones_of(names), names), rows, room, claims)

    def _claim(self, demand: GangDemand, claim: Claim) -> None:
        """Keep for the gang what is free by now of the room that others leave for it. Cost: O(nodes)."""
        run = self._run
        needed = np.zeros_like(run.capacity.room.free)
        rows: set[int] = set()
        for member_class, pods in demand.need:
            request = run.view.vector(member_class)
            for pod in pods:
                row = run.table.index.get(claim.assignment.get(pod.uid, NodeName("")))
                if row is not None:
                    needed[row] += request
                    rows.add(row)
        at = np.array(sorted(rows), np.int64)
        room = np.minimum(needed[at], np.maximum(run.capacity.room.free[at], 0))
        self._claimed[demand.gang.key] = self._keep(demand, at, room, claims=True)

    def explained(self, demand: GangDemand, refused: Refused) -> Refused:
        """The refusal, as `Reason.RESERVED` where the gang would fit if nothing were held."""
        if not self or refused.reason not in WANTS_ROOM:
            return refused
        return self._explain(demand) or refused

    def _explain(self, demand: GangDemand) -> Refused | None:
        """The refusal of a gang that would have room if nothing were held; `None`: it would not."""
        run, kind = self._run, kind_of(self._run, demand)
        for kept in self._all():
            free = np.array(run.capacity.room.free)
            free[kept.rows] += kept.room
            for zone in sorted(set(kept.reserved.zones) & set(kind.allowed)):
                if _fits(run, kind, run.table.zones[zone], free, When.NOW):
                    why = "for which others leave" if kept.claims else "which is STARVING"
                    detail = f"{len(kept.rows)} nodes of zone {zone} are held for {kept.reserved.gang}, {why}"
                    return Refused(Reason.RESERVED, detail)
        return None

    def __bool__(self) -> bool:
        """Whether anything is held."""
        return bool(self._kept or self._claimed)

    def _all(self) -> tuple[_Kept, ...]:
        return (*self._kept.values(), *self._claimed.values())

    def _former(self, demand: GangDemand, member_set: MemberSet) -> Ints | None:
        """Rows of the gang's reservation in the previous plan, if it can still serve."""
        reserved = self._before.get(demand.gang.key)
        if reserved is None:
            return None
        index = self._run.table.index
        rows = np.array(sorted(index[name] for name in reserved.nodes if name in index), np.int64)
        allowed = set(self._run.view.candidate_zones(demand))
        if not allowed.issuperset(self._run.table.nodes[row].zone for row in rows.tolist()):
            return None
        return rows if self._within_share(len(rows), member_set, rows) and self._could_fit(member_set, rows) else None

    def _best(self, demand: GangDemand, member_set: MemberSet) -> Ints | None:
        """Rows to reserve: in the zone that has most room for the gang already, by name among equals."""
        run = self._run
        allowed = kind_of(run, demand).allowed
        room = dict(zip(run.zones, run.capacity.zone_members(member_set).tolist(), strict=True))
        sets: list[tuple[ZoneName, ...]] = [(zone,) for zone in sorted(allowed, key=lambda zone: (-room[zone], zone))]
        if demand.options.zone_policy is ZonePolicy.PREFERRED and allowed:
            sets.append(tuple(allowed))  # no single zone can ever hold it: all together
        for zones in sets:
            rows = self._usable(member_set, zones)
            if self._could_fit(member_set, rows):
                return self._part(member_set, rows)
        return None

    def _usable(self, member_set: MemberSet, zones: tuple[ZoneName, ...]) -> Ints:
        """Rows of the zones' nodes that some member may go to."""
        rows = self._run.view.rows(zones)
        allowed = np.zeros(len(rows), np.bool_)
        for member_class, _ in member_set.classes:
            allowed |= self._run.capacity.mask(member_class, When.EMPTY)[rows]
        return rows[allowed]

    def _part(self, member_set: MemberSet, rows: Ints) -> Ints | None:
        """As many of `rows` as may be held, those with most room for the gang first; `None`: none may."""
        budget = self._budget()
        if len(rows) <= budget:
            return rows
        members = np.zeros(len(self._run.table.nodes), np.int64)
        for member_class, count in member_set.classes:
            request = self._run.view.vector(member_class)
            members += np.minimum(fit_counts(self._run.capacity.room.free, request), count)
        ordered = np.array(sorted(rows.tolist(), key=lambda row: (-int(members[row]), row)), np.int64)
        if budget > 0 and self._could_fit(member_set, ordered[:budget]):
            return np.sort(ordered[:budget])
        if self._kept or budget <= 0:
            return None
        enough, too_few = len(ordered), 0
        while enough - too_few > 1:
            middle = (enough + too_few) // 2
            fits = self._could_fit(member_set, ordered[:middle])
            enough, too_few = (middle, too_few) if fits else (enough, middle)
        return np.sort(ordered[: enough + self._run.policy.spares])

    def _within_share(self, nodes: int, member_set: MemberSet, rows: Ints) -> bool:
        budget = self._budget()
        return nodes <= budget or (budget > 0 and not self._kept and not self._could_fit(member_set, rows[:budget]))

    def _budget(self) -> int:
        """How many more nodes may be reserved; at least one while none is."""
        return max(int(SHARE * len(self._run.table.nodes)), 1) - sum(len(kept.rows) for kept in self._kept.values())

    def _could_fit(self, member_set: MemberSet, rows: Ints) -> bool:
        """Whether the demand would fit these nodes if no pod ran there."""
        return _fits(self._run, member_set, rows, self._run.table.allocatable, When.EMPTY)


def _fits(run: Run, member_set: MemberSet, rows: Ints, free: Ints, when: When) -> bool:
    """Whether the demand fits `rows` with the room `free` (nodes, resources); host ports are not looked at."""
    classes: list[ClassDemand] = []
    for member_class, count in member_set.classes:
        request = run.view.vector(member_class)
        classes.append(ClassDemand(member_class.role, request, run.capacity.mask(member_class, when)[rows], count))
    return fit(Demand(tuple(classes), member_set.all_reduce), free[rows]) is not None


def reserved_nodes(reservations: Mapping[GangKey, Reservation], *, besides: GangKey | None = None) -> set[NodeName]:
    """Nodes that are held for gangs other than `besides`."""
    return {node for key, reserved in reservations.items() if key != besides for node in reserved.nodes}
