"""The cluster in one planner run: its nodes by zone, what is free there, and how many members of a class fit.

Rule: fits are counted without regard to a demand's other classes: too few is a sure "no", and enough is a "perhaps".
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import cached_property, reduce
from operator import or_

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scoring import NO_ZONE, NodeName, ZoneName
from scoring.feasibility.filters import ANY_IP, allowed_nodes, mask_of
from scoring.model import Gang, HostPort, MemberClass, Role
from scoring.model.policy import BadLinks, Policy, ScorePolicy, Selection, ZonePolicy
from scoring.model.snapshot import Room, RowSet, Snapshot, fit_counts, remember, row_set, rows_with
from scoring.network.matrix import Ints
from scoring.plan.cache import Layout, PlannerCache
from scoring.plan.demand import ByClass, GangDemand, MemberSet
from scoring.selection.demand import ClassDemand, Demand


class ClusterView:
    """A snapshot by zones, under a policy, and what gangs ask of it. Nothing here changes during a run."""

    def __init__(self, snapshot: Snapshot, policy: Policy, cache: PlannerCache) -> None:
        self.snapshot, self.policy, self.cache = snapshot, policy, cache
        self.table = table = snapshot.table
        self.of_network = cache.of_network(snapshot.network.version)
        self.layout = Layout(table.names, table.zones)
        self.zones: tuple[ZoneName, ...] = tuple(table.zones)
        self._named = tuple([zone for zone in self.zones if zone != NO_ZONE])
        self.zone_number = np.zeros(len(table.nodes), np.int64)  # (nodes,): index of each node's zone in `zones`
        for number, rows in enumerate(table.zones.values()):
            self.zone_number[rows] = number
        self._names: dict[tuple[ZoneName, ...], tuple[NodeName, ...]] = {}
        self._columns: dict[tuple[ZoneName, ...], Ints] = {}

    def demand(self, gang: Gang) -> GangDemand:
        """What the gang asks of the planner now."""
        return self.cache.demands.of_gang(gang, self.policy, self.table.index)

    def score(self, demand: GangDemand) -> ScorePolicy:
        """The score policy for one gang: the operator's, with the gang's own ratios, or as published, if it asks so."""
        score, options = self.policy.score, demand.options
        score = replace(score, ratios=options.ratios) if options.ratios else score
        return replace(score, bad_pairs_first=False) if options.selection is Selection.PAPER else score

    def member_set(self, members: ByClass, demand: GangDemand, near: Sequence[tuple[Role, NodeName]] = ()) -> MemberSet:
        """`members`, to be placed beside the gang's placed ones and those of `near`.

        A minimum of which some run is completed over bad links, too (docs/safety.md S8).
        """
        allowed, completes = self.candidate_zones(demand), demand.partial and members is demand.need
        return MemberSet(
            classes=tuple([(member_class, len(pods)) for member_class, pods in members]),
            siblings=tuple(sorted((*demand.siblings, *near))),
            all_reduce=demand.all_reduce,
            size=sum([len(pods) for _, pods in members]),
            method=demand.options.selection,
            score=self.score(demand),
            allowed=allowed,
            columns=self.columns(allowed),
            home=frozenset(self.zones_of(node for _, node in demand.siblings)),
            refuses_bad_links=demand.options.bad_links is BadLinks.REFUSE and not completes,
        )

    def candidate_zones(self, demand: GangDemand) -> tuple[ZoneName, ...]:
        """Zones the gang may use: its placed members' (it stays whole), else those it allows, else all with a name."""
        preferred = demand.options.zone_policy is ZonePolicy.PREFERRED
        if not preferred and (at := self.zones_of(node for _, node in demand.siblings)):
            return at
        if demand.options.zones is not None:
            return tuple(zone for zone in self.zones if zone in demand.options.zones)
        return self.zones if preferred else self._named

    def vector(self, member_class: MemberClass) -> Ints:
        """The class's request over the table's axis."""
        return self.table.vector(member_class.requests)

    def rows(self, zones: tuple[ZoneName, ...]) -> Ints:
        """Rows of the zones' nodes, ascending."""
        if len(zones) == 1:
            return self.table.zones[zones[0]]
        return np.sort(np.concatenate([self.table.zones[zone] for zone in zones]))

    def columns(self, zones: tuple[ZoneName, ...]) -> Ints:
        """Where these zones are among all, in their order."""
        return remember(self._columns, zones, lambda: np.array([self.zones.index(zone) for zone in zones], np.int64))

    def names(self, zones: tuple[ZoneName, ...]) -> tuple[NodeName, ...]:
        """Names of the zones' nodes, in the order of `rows`."""
        names = self.table.names
        return remember(self._names, zones, lambda: tuple([names[row] for row in self.rows(zones).tolist()]))

    def by_zone(self, counts: Ints, rows: Ints | None = None) -> Ints:
        """(zones,): the sums of what each node has, or each of `rows`."""
        zone_number = self.zone_number if rows is None else self.zone_number[rows]
        return np.bincount(zone_number, weights=counts, minlength=len(self.zones)).astype(np.int64)

    def zones_of(self, nodes: Iterable[NodeName]) -> tuple[ZoneName, ...]:
        """Zones of those of `nodes` that exist, sorted."""
        index = self.table.index
        return tuple(sorted({self.table.nodes[index[node]].zone for node in nodes if node in index}))


class When(Enum):
    """Of which moment the room is asked."""

    NOW = "with all that this run has given away"
    AT_START = "before this run gave anything away"
    EMPTY = "as if no pod ran and no node had refused anything: what could ever fit"


class Capacity:
    """The room and host ports that are left in one run."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self.start: Ints = view.table.allocatable - view.snapshot.used  # (nodes, resources): free before the run
        self.room = view.cache.room = Room.after(view.cache.room, view.table, self.start)
        self._rows_taken: tuple[object, Ints] = (None, np.zeros(0, np.int64))
        self._now: dict[MemberClass, tuple[object, Ints, Ints]] = {}  # → a moment, members that fit each node and zone

    def take_rows(self, member_class: MemberClass, rows: Sequence[int]) -> set[ZoneName]:
        """Take room for one member of the class on each of these nodes; gives their zones."""
        self.room.take(rows, self._view.vector(member_class))
        self.ports_taken(member_class, rows)
        return {self._view.table.nodes[row].zone for row in rows}

    def take_nodes(self, rows: Sequence[int]) -> None:
        """Take all that is free on these nodes."""
        at = np.array(rows, np.int64)
        self.room.take_places(at, np.maximum(self.room.free[at], 0))

    def ports_taken(self, member_class: MemberClass, rows: Iterable[int]) -> None:
        """Members of the class have these nodes' ports."""
        if ports := member_class.constraints.host_ports:
            _note_ports(self._taken_now, ports, row_set([int(row) for row in rows], len(self._view.table.nodes)))

    def rows_taken(self) -> Ints:
        """Rows of nodes whose room was given away in this run, or is committed, ascending. O(nodes) after a change."""
        moment = self.room.moment
        if self._rows_taken[0] != moment:
            self._rows_taken = (moment, rows_with(self.room.free != self.start))
        return self._rows_taken[1]

    def mask(self, member_class: MemberClass, when: When = When.NOW) -> NDArray[np.bool_]:
        """Nodes (nodes,) that the class may go to: modelled filters, learned refusals, host ports."""
        view, constraints = self._view, member_class.constraints
        mask = allowed_nodes(view.table, constraints)
        if when is When.EMPTY:
            return mask
        refused = [view.table.index[node] for node in view.snapshot.excluded(member_class) if node in view.table.index]
        if constraints.host_ports:
            taken = _rows_with(self._taken_now if when is When.NOW else self._taken, constraints.host_ports)
            mask = mask & ~mask_of(taken, len(mask))
        if refused:
            mask = mask.copy()
            mask[refused] = False
        return mask

    @cached_property
    def _taken(self) -> dict[tuple[str, int, str], RowSet]:
        """Protocol, port and address, or none for any address → nodes where it was taken before the run."""
        book: dict[tuple[str, int, str], RowSet] = {}
        for node, ports in self._view.snapshot.host_ports.items():
            if (row := self._view.table.index.get(node)) is not None:
                _note_ports(book, ports, 1 << row)
        return book

    @cached_property
    def _taken_now(self) -> dict[tuple[str, int, str], RowSet]:
        """The same with what this run has given away."""
        return dict(self._taken)

    def demand(self, members: MemberSet, when: When = When.NOW) -> Demand:
        """The members over all nodes, as selections want them; but for host ports that they want of each other's."""
        asked = [ClassDemand(mc.role, self._view.vector(mc), self.mask(mc, when), n) for mc, n in members.classes]
        return Demand(tuple(asked), members.all_reduce)

    def counts(self, member_class: MemberClass) -> Ints:
        """Members of the class that fit each node now (nodes,). Not to be written."""
        return self._counted(member_class)[0]

    def zone_fits(self, members: MemberSet, when: When = When.NOW) -> Ints:
        """Members of each class that each zone could hold without regard to other classes; shape (classes, zones)."""
        sums = [self.zone_counts(member_class, when) for member_class, _ in members.classes]
        return np.array(sums, np.int64).reshape(len(members.classes), len(self._view.zones))

    def zones_for(self, classes: Iterable[tuple[MemberClass, int]], *, refusals: bool = True) -> NDArray[np.bool_]:
        """Zones (zones,) with room now for each class, whatever the others take; or if no node had refused any."""
        able = np.ones(len(self._view.zones), np.bool_)
        for member_class, count in classes:
            request = self._view.vector(member_class)
            mask = self.mask(member_class, When.NOW if refusals else When.EMPTY)
            able &= self._view.by_zone(np.where(mask, self.room.counts(request), 0)) >= count
        return able

    def zone_rooms(self, members: MemberSet, when: When = When.NOW) -> Ints:
        """By how much each zone could hold the demand: its size plus the smallest surplus over the classes; (zones,).

        Below `members.size` there is no room for sure; else there is, unless classes compete. Not to be written.
        """
        if len(members.classes) == 1:
            return self.zone_counts(members.classes[0][0], when)
        counts = np.array([count for _, count in members.classes], np.int64)
        surplus = self.zone_fits(members, when) - counts[:, None]
        return np.asarray(surplus.min(axis=0, initial=np.iinfo(np.int64).max - members.size) + members.size)

    def zone_members(self, members: MemberSet, when: When = When.NOW) -> Ints:
        """Members of the demand that fit into each zone, each class for itself, at most all of them; (zones,)."""
        counts = np.array([count for _, count in members.classes], np.int64)
        return np.asarray(np.minimum(self.zone_fits(members, when), counts[:, None]).sum(axis=0))

    def _counted(self, member_class: MemberClass) -> tuple[Ints, Ints]:
        """Members that fit each node and each zone now. Cost: O(nodes), only after a change."""
        moment, cached = self.room.moment, self._now.get(member_class)
        if cached is None or cached[0] != moment:
            fits = self._allowed_counts(member_class, self.room.counts(self._view.vector(member_class)), When.NOW)
            self._now[member_class] = cached = (moment, fits, self._view.by_zone(fits))
        return cached[1:]

    def zone_counts(self, member_class: MemberClass, when: When = When.NOW) -> Ints:
        """Members that fit each zone. Cost: O(nodes), NOW only after a change."""
        if when is When.NOW:
            return self._counted(member_class)[1]
        if when is When.AT_START:
            rows = self.rows_taken()
            return self.zone_counts_if(member_class, rows, self.start[rows], when)
        cache, table, request = self._view.cache, self._view.table, self._view.vector(member_class)
        if cache.empty_room is None or cache.empty_room.table is not table:
            cache.empty_room = Room.after(cache.empty_room, table, table.allocatable)
        return self._view.by_zone(self._allowed_counts(member_class, cache.empty_room.counts(request), when))

    def zone_counts_if(self, member_class: MemberClass, rows: Ints, free: Ints, when: When = When.NOW) -> Ints:
        """Members that would fit each zone, if `free` (rows, resources) were free on these rows. Cost: O(rows)."""
        request = self._view.vector(member_class)
        if member_class.constraints.host_ports:  # its nodes are others from moment to moment. Cost: O(nodes)
            counts = self.room.counts(request).copy()
            counts[rows] = fit_counts(free, request)
            return self._view.by_zone(self._allowed_counts(member_class, counts, when))
        fits, sums = self._counted(member_class)
        there = np.where(self.mask(member_class)[rows], fit_counts(free, request), 0)
        return sums + self._view.by_zone(there - fits[rows], rows)

    def _allowed_counts(self, member_class: MemberClass, counts: Ints, when: When) -> Ints:
        fits = np.where(self.mask(member_class, when), counts, 0)
        return np.minimum(fits, 1) if member_class.constraints.host_ports else fits


def _note_ports(book: dict[tuple[str, int, str], RowSet], ports: Iterable[HostPort], rows: RowSet) -> None:
    for port in ports:
        for key in ((port.protocol, port.port, port.ip), (port.protocol, port.port, "")):
            book[key] = book.get(key, 0) | rows


def _rows_with(book: Mapping[tuple[str, int, str], RowSet], wanted: Iterable[HostPort]) -> RowSet:
    """Nodes where `ports_conflict` says so of what is taken there."""
    asked = [(port, ip) for port in wanted for ip in (("",) if port.ip == ANY_IP else (port.ip, ANY_IP))]
    return reduce(or_, [book.get((port.protocol, port.port, ip), 0) for port, ip in asked], 0)
