"""One planner run's working state: the room left, and how to place one wish in one set of nodes.

Commitments are taken out of the room before anything else (S4). Everything that can be reused between runs goes through
the memo; what is mutable lives here and ends with the run.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from scoring.feasible import allowed_nodes, ports_conflict
from scoring.ids import NO_ZONE, NodeName, ZoneName
from scoring.model import Gang, HostPort, MemberClass, Role
from scoring.network import Floats, Ints
from scoring.plan.ask import Ask, ByClass
from scoring.plan.memo import Footprint, Links, Memo, remember
from scoring.plan.result import Admission
from scoring.policy import Policy, ScorePolicy, Selection
from scoring.room import Room, fit_counts
from scoring.score import pair_scores
from scoring.select import ClassDemand, Demand, Selected, placed_gain, quick_value, select
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
        self._estimates: dict[object, float | None] = {}

    def ask(self, gang: Gang) -> Ask:
        """What the gang asks of the planner now."""
        return self.memo.ask(gang, self.policy, self.table.index)

    # -- taking room ------------------------------------------------------------------------------------------------

    def take(self, member_class: MemberClass, nodes: Iterable[NodeName]) -> None:
        """Take room for one member of the class on each node; unknown nodes and resources take nothing."""
        request = self.vector(member_class)
        rows = [self.table.index[node] for node in nodes if node in self.table.index]
        if request is not None:
            self.room.take(rows, request)
        for row in rows:
            self._takes_of_zone[self.table.nodes[row].zone] += 1
        self._ports_taken(member_class, rows)

    def take_again(self, ask: Ask, before: Admission) -> bool:
        """Take the room of a place given earlier, if all of the gang's minimum set still fits there; else nothing."""
        if any(pod.uid not in before.members for _, pods in ask.need for pod in pods):
            return False
        footprint = self.footprint(ask, before)
        if footprint is None:
            return False
        used: set[ZoneName] = set()
        for member_class, rows, amounts in footprint:
            if not self.mask(member_class)[rows].all() or (amounts > np.maximum(self.room.free[rows], 0)).any():
                return False
            used.update(self.zones[number] for number in self._zone_number[rows].tolist())
        if not used <= set(before.zones):
            return False  # a node's zone has changed: the gang would not be together any more
        taken: list[tuple[Ints, Ints]] = []
        for _, rows, amounts in footprint:
            # Classes may share nodes: each is checked again with the ones before it taken.
            if taken and (amounts > np.maximum(self.room.free[rows], 0)).any():
                for old_rows, old_amounts in taken:
                    self.room.give(old_rows, old_amounts)
                return False
            self.room.take_many(rows, amounts)
            taken.append((rows, amounts))
        for member_class, rows, _ in footprint:
            self._ports_taken(member_class, rows)
        for zone in used:
            self._takes_of_zone[zone] += 1
        return True

    def footprint(self, ask: Ask, before: Admission) -> Footprint | None:
        """What the pending members of `before` take, by class; `None` when a node or a resource is gone."""
        index = self.table.index
        known = self.memo.footprints.get(ask.gang.key)
        if known is not None and known[0] is ask and known[1] is before.members and known[2] is index:
            return known[3]
        parts: list[tuple[MemberClass, Ints, Ints]] = []
        for member_class, pods in (*ask.need, *ask.more):
            nodes = [before.members[pod.uid] for pod in pods if pod.uid in before.members]
            if not nodes:
                continue  # members beyond the minimum that had no place, perhaps for want of a resource
            request = self.vector(member_class)
            if request is None or any(node not in index for node in nodes):
                return None
            rows, counts = np.unique(np.array([index[node] for node in nodes], np.int64), return_counts=True)
            parts.append((member_class, rows, counts[:, None] * request))
        if len(self.memo.footprints) > 20_000:
            self.memo.footprints.clear()
        self.memo.footprints[ask.gang.key] = (ask, before.members, index, tuple(parts))
        return tuple(parts)

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
            there = self._fits(member_class, when)
            fits[c] = np.bincount(self._zone_number, weights=there, minlength=len(self.zones)).astype(np.int64)
        return fits

    def zone_rooms(self, wish: Wish, when: When = When.NOW) -> Ints:
        """By how much each zone could hold the wish: its size plus the smallest surplus over the classes; (zones,).

        Below `wish.size` there is for sure no room; from it on there is, unless classes compete for the same nodes.
        """
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
        demand, free, key = self._demand(wish, zones, score)
        if demand is None:
            return None
        scores = self.scores(zones, score)
        return remember(
            self.memo.selections,
            (*key, method, self.policy.exact_zone_size),
            lambda: select(method, demand, free, scores.rank, exact_size=self.policy.exact_zone_size),
            limit=16_384,
        )

    def estimate(self, wish: Wish, zone: ZoneName, *, score: ScorePolicy) -> float | None:
        """A quick estimate of the best value in the zone, comparable between zones under the same `score`."""
        in_run = (wish.key, zone, self._takes_of_zone[zone], score)
        if in_run not in self._estimates:
            self._estimates[in_run] = self._estimate(wish, zone, score)
        return self._estimates[in_run]

    def _estimate(self, wish: Wish, zone: ZoneName, score: ScorePolicy) -> float | None:
        demand, free, key = self._demand(wish, (zone,), score)
        if demand is None:
            return None
        rank = self.scores((zone,), score).rank
        return remember(self.memo.values, key, lambda: quick_value(demand, free, rank), limit=65_536)

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
        names = self.names(zones)
        network = self.snapshot.network
        return self.memo.links(
            (network.version, names, score), lambda: pair_scores(network.block(names, names), None, score)
        )

    def fits_empty(self, wish: Wish, zones: tuple[ZoneName, ...]) -> bool:
        """Whether the wish fits the zones when no pod runs there."""
        rows = self.rows(zones)
        classes = self._classes(wish, rows, When.EMPTY)
        if classes is None:
            return False
        return fit(Demand(classes, wish.all_reduce), _with_ports(wish, self.table.allocatable[rows])) is not None

    def _demand(
        self, wish: Wish, zones: tuple[ZoneName, ...], score: ScorePolicy
    ) -> tuple[Demand | None, Ints, tuple[object, ...]]:
        rows = self.rows(zones)
        free = _with_ports(wish, self.room.free[rows])
        classes = self._classes(wish, rows, When.NOW)
        if classes is None:
            return None, free, ()
        anchors = self._anchors(wish, zones, score)
        version = self.snapshot.network.version
        allowed = tuple(one.allowed.tobytes() for one in classes)
        content = blake2b(b"".join((free.tobytes(), *allowed)), digest_size=16).digest()  # 20 KB at 500 nodes
        key = (wish.key, version, score, self.names(zones), self.table.axis, content)
        return Demand(classes, wish.all_reduce, anchors), free, key

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
            lambda: pair_scores(network.block(names, ends), network.block(ends, names), score),
        )

    def _rows_with_conflict(self, wanted: tuple[HostPort, ...], when: When) -> list[int]:
        given = self._ports if when is When.NOW else {}
        taken: dict[int, set[HostPort]] = {row: set(ports) for row, ports in given.items()}
        for node, ports in self.snapshot.host_ports.items():
            if node in self.table.index:
                taken.setdefault(self.table.index[node], set()).update(ports)
        return [row for row, ports in taken.items() if ports_conflict(wanted, ports)]


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
