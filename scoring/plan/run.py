"""One planner run's working state: the room left, and how to place one wish in one set of nodes.

Commitments are taken out of the room before anything else (S4). Everything that can be reused between runs goes through
the memo; what is mutable lives here and ends with the run.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from scoring.feasible import allowed_nodes, ports_conflict
from scoring.ids import NO_ZONE, NodeName, ZoneName
from scoring.links import among, toward
from scoring.model import Gang, HostPort, MemberClass, Role
from scoring.network import Floats, Ints
from scoring.plan.ask import Ask, ByClass
from scoring.plan.memo import Footprint, Links, Memo, remember
from scoring.plan.result import Admission
from scoring.policy import Policy, ScorePolicy, Selection, ZonePolicy
from scoring.room import Room, ZoneFits, fit_counts
from scoring.select import (
    ClassDemand,
    Demand,
    Selected,
    Single,
    on_grid,
    placed_gain,
    quick_single,
    quick_value,
    select_on_grid,
    select_single,
)
from scoring.select.demand import pairs_count
from scoring.select.fit import fit
from scoring.snapshot import Snapshot


class When(Enum):
    """Of which moment the room is asked."""

    NOW = "with all that this run has given away"
    AT_START = "before this run gave anything away"
    EMPTY = "as if no pod ran and no node had refused anything: what could ever fit"


@dataclass(frozen=True, slots=True)
class Wish:
    """Members to place together: classes with their counts, and the siblings they want to be near."""

    classes: tuple[tuple[MemberClass, int], ...]
    siblings: tuple[tuple[Role, NodeName], ...]
    all_reduce: bool
    key: tuple[object, ...]
    """Stands for all of the above in memo keys."""

    @property
    def size(self) -> int:
        """Number of members."""
        return sum(count for _, count in self.classes)


class Run:
    """The room of one run and what fits into it."""

    def __init__(self, snapshot: Snapshot, policy: Policy, memo: Memo) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.memo = memo
        memo.renew(snapshot.network.version)
        self.table = snapshot.table
        self.zones: tuple[ZoneName, ...] = tuple(self.table.zones)
        self.named_zones = tuple(zone for zone in self.zones if zone != NO_ZONE)
        self._zone_number = np.zeros(len(self.table.nodes), np.int64)
        for number, rows in enumerate(self.table.zones.values()):
            self._zone_number[rows] = number
        self.start = self.table.allocatable - snapshot.used
        self.room = Room(self.start)
        self._ports: dict[int, set[HostPort]] = {}
        self._masks: dict[int, NDArray[np.bool_]] = {}
        self._names: dict[tuple[ZoneName, ...], tuple[NodeName, ...]] = {}
        self._takes_of_zone = dict.fromkeys(self.zones, 0)
        """zone → times that room was taken in it: what was computed for the same number still holds in this run"""
        self.common_scores: dict[object, ScorePolicy] = {}
        """(zones, score policy) → the same policy with one reference rate for all of them"""
        self.kinds: dict[object, object] = {}
        """What gangs that ask for the same share: `scoring.plan.place.Kind`"""
        self._estimates: dict[object, dict[ZoneName, tuple[int, ScorePolicy, float | None]]] = {}
        """(wish, id of the score policy) → zone → its takes when the estimate was made, the policy, the estimate"""
        self._fits_of: dict[int, ZoneFits] = {}
        """class number → how many of its members fit; not for classes with host ports"""
        self._prepared: dict[tuple[ZoneName, ...], tuple[object, int, _Prepared]] = {}
        """one zone → the wish it was prepared for last, the zone's takes then"""
        self._surroundings: dict[object, tuple[ScorePolicy, Links, int]] = {}
        """(zones, id of a score policy) → the policy, its pair scores there, the number that stands for both"""

    def ask(self, gang: Gang) -> Ask:
        """What the gang asks of the planner now."""
        return self.memo.ask(gang, self.policy, self.table.index)

    def candidate_zones(self, ask: Ask) -> tuple[ZoneName, ...]:
        """Zones the gang may use: its placed members' (it stays whole), else those it allows, else all with a name."""
        table = self.table
        at = {table.nodes[table.index[node]].zone for _, node in ask.siblings if node in table.index}
        preferred = ask.options.zone_policy is ZonePolicy.PREFERRED
        if at and not preferred:
            return tuple(sorted(at))
        if ask.options.zones is not None:
            return tuple(zone for zone in self.zones if zone in ask.options.zones)
        return self.zones if preferred else self.named_zones

    # -- taking room ------------------------------------------------------------------------------------------------

    def take(self, member_class: MemberClass, nodes: Iterable[NodeName]) -> None:
        """Take room for one member of the class on each node; unknown nodes and resources take nothing."""
        self.take_rows(member_class, [self.table.index[node] for node in nodes if node in self.table.index])

    def take_rows(self, member_class: MemberClass, rows: Sequence[int]) -> set[ZoneName]:
        """The same for rows of the node table; gives their zones."""
        request = self.vector(member_class)
        if request is not None:
            self.room.take(rows, request)
        zones = {self.table.nodes[row].zone for row in set(rows)}
        for zone in zones:
            self._takes_of_zone[zone] += 1
        self._ports_taken(member_class, rows)
        return zones

    def take_again(self, ask: Ask, before: Admission) -> bool:
        """Take the room of a place given earlier, if all of the gang's minimum set still fits there; else nothing."""
        if any(pod.uid not in before.members for _, pods in ask.need for pod in pods):
            return False
        footprint = self.footprint(ask, before)
        if footprint is None or not footprint.used.issubset(before.zones):
            return False  # where a node's zone has changed the gang would not be together any more
        for member_class, rows, amounts in footprint.parts:
            if not self.mask(member_class)[rows].all() or (amounts > np.maximum(self.room.free[rows], 0)).any():
                return False
        taken: list[tuple[Ints, Ints]] = []
        for _, rows, amounts in footprint.parts:
            # Classes may share nodes: each is checked again with the ones before it taken.
            if taken and (amounts > np.maximum(self.room.free[rows], 0)).any():
                for old_rows, old_amounts in taken:
                    self.room.give(old_rows, old_amounts)
                return False
            self.room.take_many(rows, amounts)
            taken.append((rows, amounts))
        for member_class, rows, _ in footprint.parts:
            self._ports_taken(member_class, rows)
        for zone in footprint.used:
            self._takes_of_zone[zone] += 1
        return True

    def take_places(self, places: Sequence[Footprint]) -> None:
        """Take the room of places that are known to stand; none has host ports."""
        rows, amounts = (np.concatenate([getattr(one, what) for one in places]) for what in ("rows", "amounts"))
        self.room.take_places(rows, amounts)
        for zone in frozenset[ZoneName]().union(*(one.used for one in places)):
            self._takes_of_zone[zone] += 1

    def footprint(self, ask: Ask, before: Admission) -> Footprint | None:
        """What the pending members of `before` take; `None` when a node or a resource is gone."""
        index = self.table.index
        known = self.memo.footprints.get(ask.gang.key)
        same = known is not None and known.ask is ask and known.members is before.members and known.index is index
        if known is not None and same and known.zones == before.zones:
            return known
        made = self._footprint(ask, before)
        if made is not None:
            if len(self.memo.footprints) > 20_000:
                self.memo.footprints.clear()
            self.memo.footprints[ask.gang.key] = made
        return made

    def _footprint(self, ask: Ask, before: Admission) -> Footprint | None:
        index, members = self.table.index, before.members
        parts: list[tuple[MemberClass, Ints, Ints]] = []
        pending, placed = 0, 0
        for member_class, pods in (*ask.need, *ask.more):
            nodes = [members[pod.uid] for pod in pods if pod.uid in members]
            pending, placed = pending + len(pods), placed + len(nodes)
            if not nodes:
                continue  # members beyond the minimum that had no place, perhaps for want of a resource
            request = self.vector(member_class)
            if request is None or any(node not in index for node in nodes):
                return None
            count = Counter(index[node] for node in nodes)
            rows = np.array(sorted(count), np.int64)
            parts.append((member_class, rows, np.array([count[row] for row in sorted(count)])[:, None] * request))
        every = [rows for _, rows, _ in parts]
        row_set = frozenset(row for rows in every for row in rows.tolist())
        ported = any(member_class.constraints.host_ports for member_class, _, _ in parts)
        whole = pending == placed == len(members) and not ported
        used = frozenset(self.zones[self._zone_number[row]] for row in row_set)
        return Footprint(
            ask,
            members,
            before.zones,
            index,
            tuple(parts),
            np.concatenate(every) if every else np.zeros(0, np.int64),
            np.concatenate([amounts for _, _, amounts in parts])
            if parts
            else np.zeros((0, len(self.table.axis)), np.int64),
            row_set,
            used,
            whole and used <= set(before.zones) <= set(self.candidate_zones(ask)),
        )

    def shift(self, amounts: Ints) -> None:
        """Take (negative: give back) amounts (nodes, resources) everywhere at once."""
        self.room.shift(amounts)
        for zone in self._takes_of_zone:
            self._takes_of_zone[zone] += 1

    def _ports_taken(self, member_class: MemberClass, rows: Iterable[int]) -> None:
        for row in rows if member_class.constraints.host_ports else ():
            self._ports.setdefault(int(row), set()).update(member_class.constraints.host_ports)

    # -- what fits --------------------------------------------------------------------------------------------------

    def wish(self, members: ByClass, ask: Ask, extra_siblings: Sequence[tuple[Role, NodeName]] = ()) -> Wish:
        """The wish to place `members` beside the gang's placed ones."""
        classes = tuple((member_class, len(pods)) for member_class, pods in members)
        siblings = tuple(sorted((*ask.siblings, *extra_siblings)))
        numbers = tuple((self.memo.number(member_class), count) for member_class, count in classes)
        return Wish(classes, siblings, ask.all_reduce, (numbers, siblings, ask.all_reduce))

    def vector(self, member_class: MemberClass) -> Ints | None:
        """The class's request over the table's axis; `None` when no node has one of its resources."""
        key = (self.table.version, self.memo.number(member_class))
        return remember(self.memo.vectors, key, lambda: self.table.vector(member_class.requests), limit=50_000)

    def mask(self, member_class: MemberClass, when: When = When.NOW) -> NDArray[np.bool_]:
        """Nodes (nodes,) that the class may go to: modelled filters, learned refusals, host ports."""
        number = self.memo.number(member_class)
        constraints = member_class.constraints
        if when is not When.EMPTY and number in self._masks and not constraints.host_ports:
            return self._masks[number]
        mask = remember(
            self.memo.masks, (self.table.version, constraints), lambda: allowed_nodes(self.table, constraints)
        )
        if when is When.EMPTY:
            return mask
        refused = [self.table.index[n] for n in self.snapshot.exclusions.get(member_class, ()) if n in self.table.index]
        if constraints.host_ports:
            refused.extend(self._rows_with_conflict(constraints.host_ports, when))
        if refused:
            mask = mask.copy()
            mask[refused] = False
        self._masks[number] = mask
        return mask

    def zone_fits(self, wish: Wish, when: When = When.NOW) -> Ints:
        """Members of each class that each zone could hold without regard to other classes; shape (classes, zones)."""
        fits = np.zeros((len(wish.classes), len(self.zones)), np.int64)
        for c, (member_class, _) in enumerate(wish.classes):
            kept = self._kept_fits(member_class) if when is When.NOW else None
            if kept is not None:
                fits[c] = kept.sums
                continue
            there = self._fits(member_class, when)
            fits[c] = np.bincount(self._zone_number, weights=there, minlength=len(self.zones)).astype(np.int64)
        return fits

    def _kept_fits(self, member_class: MemberClass) -> ZoneFits | None:
        """Fits of the class now; `None`: it has host ports, so that its nodes change during a run, or no node fits."""
        number = self.memo.number(member_class)
        known = self._fits_of.get(number)
        if known is not None:
            known.refresh()
            return known
        request = self.vector(member_class)
        if member_class.constraints.host_ports or request is None:
            return None
        made = ZoneFits(self.room, request, self.mask(member_class), self._zone_number, len(self.zones))
        self._fits_of[number] = made
        return made

    def zone_rooms(self, wish: Wish, when: When = When.NOW) -> Ints:
        """By how much each zone could hold the wish: its size plus the smallest surplus over the classes; (zones,).

        Below `wish.size` there is for sure no room; from it on there is, unless classes compete for the same nodes.
        """
        if len(wish.classes) == 1:
            return np.array(self.zone_fits(wish, when)[0])
        counts = np.array([count for _, count in wish.classes], np.int64)
        surplus = self.zone_fits(wish, when) - counts[:, None]
        return np.asarray(surplus.min(axis=0, initial=np.iinfo(np.int64).max - wish.size) + wish.size)

    def zone_members(self, wish: Wish, when: When = When.NOW) -> Ints:
        """Members of the wish that fit into each zone, each class for itself, at most all of them; (zones,)."""
        counts = np.array([count for _, count in wish.classes], np.int64)
        return np.asarray(np.minimum(self.zone_fits(wish, when), counts[:, None]).sum(axis=0))

    def taken_in(self, zone: ZoneName) -> bool:
        """Whether room was given away in the zone during this run, or is committed there."""
        rows = self.table.zones[zone]
        return bool((self.room.free[rows] != self.start[rows]).any())

    def _fits(self, member_class: MemberClass, when: When) -> Ints:
        request = self.vector(member_class)
        if request is None:
            return np.zeros(len(self.table.nodes), np.int64)
        if when is When.NOW:
            counts = self.room.counts(request)
        else:
            counts = fit_counts(self.start if when is When.AT_START else self.table.allocatable, request)
        fits = np.where(self.mask(member_class, when), counts, 0)
        return np.minimum(fits, 1) if member_class.constraints.host_ports else fits

    # -- placing ----------------------------------------------------------------------------------------------------

    def place(
        self, wish: Wish, zones: tuple[ZoneName, ...], *, method: Selection, score: ScorePolicy
    ) -> Selected | None:
        """Choose a node (as an index into `rows(zones)`) for every member of the wish, or `None`."""
        packed = method is Selection.PACK  # for which more counts than how many members each node can hold
        made = self._whole(wish, zones) if packed else self._prepare(wish, zones)
        if made is None:
            return None
        links, number = self._links(zones, score)
        exact_size = self.policy.exact_zone_size

        def search() -> Selected | None:
            if made.single is not None:
                one = self._single(made.single, wish, zones, score)
                return select_single(method, one, links.rank, exact_size=exact_size)
            demand = Demand(made.classes, wish.all_reduce, self._anchors(wish, zones, score))
            return select_on_grid(method, demand, made.free, links.rank, exact_size=exact_size)

        key = (wish.key, number, made.content, method, exact_size)
        return remember(self.memo.selections, key, search, limit=16_384)

    def estimates(self, wish: Wish, zones: Sequence[ZoneName], *, score: ScorePolicy) -> list[float | None]:
        """Quick estimates of the best value in each zone, comparable between zones under the same `score`.

        Only zones in which room was taken since the last time are looked at again.
        """
        known = self._estimates.setdefault((wish.key, id(score)), {})
        found: list[float | None] = []
        for zone in zones:
            takes, seen = self._takes_of_zone[zone], known.get(zone)
            if seen is None or seen[0] != takes or seen[1] is not score:
                seen = known[zone] = (takes, score, self.estimate(wish, zone, score=score))
            found.append(seen[2])
        return found

    def estimate(self, wish: Wish, zone: ZoneName, *, score: ScorePolicy) -> float | None:
        """A quick estimate of the best value in the zone; `None`: there is no room."""
        zones = (zone,)
        made = self._prepare(wish, zones)
        if made is None:
            return None
        links, number = self._links(zones, score)

        def look() -> float | None:
            if made.single is not None:
                return quick_single(self._single(made.single, wish, zones, score), links.rank)
            demand = Demand(made.classes, wish.all_reduce, self._anchors(wish, zones, score))
            return quick_value(demand, made.free, links.rank)

        return remember(self.memo.values, (wish.key, number, made.content), look, limit=65_536)

    def rows(self, zones: tuple[ZoneName, ...]) -> Ints:
        """Rows of the zones' nodes, ascending."""
        if len(zones) == 1:
            return self.table.zones[zones[0]]
        return np.sort(np.concatenate([self.table.zones[zone] for zone in zones]))

    def names(self, zones: tuple[ZoneName, ...]) -> tuple[NodeName, ...]:
        """Names of the zones' nodes, in the order of `rows`."""
        known = self._names.get(zones)
        if known is None:
            known = self._names[zones] = tuple(self.table.names[row] for row in self.rows(zones))
        return known

    def zones_of(self, nodes: Iterable[NodeName]) -> tuple[ZoneName, ...]:
        """Zones of those of `nodes` that exist, sorted."""
        index = self.table.index
        return tuple(sorted({self.table.nodes[index[node]].zone for node in nodes if node in index}))

    def scores(self, zones: tuple[ZoneName, ...], score: ScorePolicy) -> Links:
        """Pair scores among the zones' nodes. Cost: O(nodes² log pairs) when the network data is new, else nothing."""
        return self._links(zones, score)[0]

    def _links(self, zones: tuple[ZoneName, ...], score: ScorePolicy) -> tuple[Links, int]:
        """Pair scores, and a number that stands for them, the nodes' names and their resources in keys."""
        known = self._surroundings.get((zones, id(score)))
        if known is not None and known[0] is score:
            return known[1], known[2]
        names = self.names(zones)
        network = self.snapshot.network
        links = self.memo.links((network.version, names, score), lambda: among(network, names, score))
        number = self.memo.surroundings_number((network.version, names, score, self.table.axis))
        if len(zones) == 1:
            self._surroundings[(zones, id(score))] = (score, links, number)
        return links, number

    def fits_empty(self, wish: Wish, zones: tuple[ZoneName, ...]) -> bool:
        """Whether the wish fits the zones when no pod runs there."""
        rows = self.rows(zones)
        classes = self._classes(wish, rows, When.EMPTY)
        if classes is None:
            return False
        return fit(Demand(classes, wish.all_reduce), _with_ports(wish, self.table.allocatable[rows])) is not None

    def _prepare(self, wish: Wish, zones: tuple[ZoneName, ...]) -> "_Prepared | None":
        """The wish with the room that the zones have now; `None`: a resource that no node has."""
        takes = self._takes_of_zone[zones[0]]
        known = self._prepared.get(zones)
        if known is not None and known[0] is wish and known[1] == takes:
            return known[2]
        made = self._prepare_anew(wish, zones)
        if made is not None and len(zones) == 1:
            self._prepared[zones] = (wish, takes, made)
        return made

    def _prepare_anew(self, wish: Wish, zones: tuple[ZoneName, ...]) -> "_Prepared | None":
        if len(wish.classes) == 1:
            member_class, count = wish.classes[0]
            fits = self._kept_fits(member_class)
            if fits is not None:
                room = np.minimum(fits.counts.take(self.rows(zones)), count)
                paired = pairs_count(member_class.role, member_class.role, all_reduce=wish.all_reduce)
                return _Prepared(Single(room, count, paired), (), room, _digest(room.tobytes()))
        return self._whole(wish, zones)

    def _whole(self, wish: Wish, zones: tuple[ZoneName, ...]) -> "_Prepared | None":
        """The same with all that is free on each node."""
        rows = self.rows(zones)
        free = _with_ports(wish, self.room.free[rows])
        classes = self._classes(wish, rows, When.NOW)
        if classes is None:
            return None
        return _Prepared(
            None, classes, free, _digest(b"".join((free.tobytes(), *(c.allowed.tobytes() for c in classes))))
        )

    def _single(self, one: Single, wish: Wish, zones: tuple[ZoneName, ...], score: ScorePolicy) -> Single:
        anchors = self._anchors(wish, zones, score)
        return one if anchors is None else replace(one, placed=on_grid(anchors[0]))

    def _classes(self, wish: Wish, rows: Ints, when: When) -> tuple[ClassDemand, ...] | None:
        """The wish's classes over `rows` and the columns of `_with_ports`; `None`: a resource that no node has."""
        ports = _ports_of(wish)
        classes: list[ClassDemand] = []
        for member_class, count in wish.classes:
            request = self.vector(member_class)
            if request is None:
                return None
            own = {(port.protocol, port.port) for port in member_class.constraints.host_ports}
            request = np.append(request, [int(port in own) for port in ports]) if ports else request
            classes.append(ClassDemand(member_class.role, request, self.mask(member_class, when)[rows], count))
        return tuple(classes)

    def _anchors(self, wish: Wish, zones: tuple[ZoneName, ...], score: ScorePolicy) -> Floats | None:
        """Gain (classes, rows) towards the placed siblings, as `select` wants it."""
        if not wish.siblings:
            return None
        rank = self.towards(self.names(zones), tuple(node for _, node in wish.siblings), score).rank
        return placed_gain(
            [member_class.role for member_class, _ in wish.classes],
            all_reduce=wish.all_reduce,
            placed=[role for role, _ in wish.siblings],
            rank=rank,
        )

    def towards(self, names: tuple[NodeName, ...], ends: tuple[NodeName, ...], score: ScorePolicy) -> Links:
        """Pair scores between `names` and `ends`, shape (names, ends)."""
        network = self.snapshot.network
        return self.memo.links(
            (network.version, names, ends, score),
            lambda: toward(network, names, ends, score),
        )

    def _rows_with_conflict(self, wanted: tuple[HostPort, ...], when: When) -> list[int]:
        given = self._ports if when is When.NOW else {}
        taken: dict[int, set[HostPort]] = {row: set(ports) for row, ports in given.items()}
        for node, ports in self.snapshot.host_ports.items():
            if node in self.table.index:
                taken.setdefault(self.table.index[node], set()).update(ports)
        return [row for row, ports in taken.items() if ports_conflict(wanted, ports)]


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A wish over the nodes of some zones, as it stands after what has been taken there."""

    single: Single | None
    """Set for a single class without host ports; its `placed` is left to whoever knows the score policy."""
    classes: tuple[ClassDemand, ...]
    """Empty when `single` is set: how many members each node can hold is all that counts then."""
    free: Ints
    content: bytes
    """Stands for the room in memo keys."""


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


def _ports_of(wish: Wish) -> tuple[tuple[str, int], ...]:
    """The (protocol, port) that members of the wish want on their nodes, sorted."""
    wanted = {(p.protocol, p.port) for member_class, _ in wish.classes for p in member_class.constraints.host_ports}
    return tuple(sorted(wanted))


def _with_ports(wish: Wish, free: Ints) -> Ints:
    """Each wanted port as one more resource, of which every node has one.

    Who may not have it there is masked. Conservative only for one port on two addresses of a node.
    """
    ports = _ports_of(wish)
    return np.hstack([free, np.ones((len(free), len(ports)), np.int64)]) if ports else free


def with_ratios(policy: Policy, ask: Ask) -> ScorePolicy:
    """The score policy for one gang: the operator's, with the gang's own ratios if it has any."""
    return replace(policy.score, ratios=ask.options.ratios) if ask.options.ratios else policy.score
