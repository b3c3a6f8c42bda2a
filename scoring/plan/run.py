"""One planner run's working state: the room left, and how to place one wish in one set of nodes.

Commitments are taken out of the room before anything else (S4). Everything that can be reused between runs goes through
the memo; what is mutable lives here and ends with the run.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scoring.feasible import allowed_nodes, ports_conflict
from scoring.ids import NodeName, ZoneName
from scoring.model import HostPort, MemberClass, Role
from scoring.network import Floats, Ints
from scoring.plan.ask import Ask, ByClass
from scoring.plan.memo import Footprint, Memo, remember
from scoring.plan.result import Admission
from scoring.policy import Policy, ScorePolicy, Selection
from scoring.room import Room, fit_counts
from scoring.score import PairScores, pair_scores
from scoring.select import ClassDemand, Demand, Selected, placed_gain, quick_value, select
from scoring.select.fit import fit
from scoring.snapshot import Snapshot


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
        self.table = snapshot.table
        self.zones: tuple[ZoneName, ...] = tuple(self.table.zones)
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
        footprint = self._footprint(ask, before)
        if footprint is None:
            return False
        for member_class, rows, amounts in footprint:
            if not self.mask(member_class)[rows].all() or (amounts > np.maximum(self.room.free[rows], 0)).any():
                return False
        taken: list[tuple[Ints, Ints]] = []
        for member_class, rows, amounts in footprint:
            # Classes may share nodes: each is checked again with the ones before it taken.
            if taken and (amounts > np.maximum(self.room.free[rows], 0)).any():
                for old_rows, old_amounts in taken:
                    self.room.give(old_rows, old_amounts)
                return False
            self.room.take_many(rows, amounts)
            taken.append((rows, amounts))
            self._ports_taken(member_class, rows)
        for zone in before.zones:
            self._takes_of_zone[zone] += 1
        return True

    def _footprint(self, ask: Ask, before: Admission) -> Footprint | None:
        """What the pending members of `before` take, by class; `None` when a node or a resource is gone."""
        index = self.table.index
        known = self.memo.footprints.get(ask.gang.key)
        if known is not None and known[0] is ask and known[1] is before and known[2] is index:
            return known[3]
        parts: list[tuple[MemberClass, Ints, Ints]] = []
        for member_class, pods in (*ask.need, *ask.more):
            nodes = [before.members[pod.uid] for pod in pods if pod.uid in before.members]
            request = self.vector(member_class)
            if request is None or any(node not in index for node in nodes):
                return None
            if nodes:
                rows, counts = np.unique(np.array([index[node] for node in nodes], np.int64), return_counts=True)
                parts.append((member_class, rows, counts[:, None] * request))
        if len(self.memo.footprints) > 20_000:
            self.memo.footprints.clear()
        self.memo.footprints[ask.gang.key] = (ask, before, index, tuple(parts))
        return tuple(parts)

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

    def mask(self, member_class: MemberClass) -> NDArray[np.bool_]:
        """Nodes (nodes,) that the class may go to: modelled filters, learned refusals, host ports."""
        number = self.memo.number(member_class)
        if number in self._masks and not member_class.constraints.host_ports:
            return self._masks[number]
        constraints = member_class.constraints
        mask = remember(
            self.memo.masks, (self.table.version, constraints), lambda: allowed_nodes(self.table, constraints)
        )
        refused = [self.table.index[n] for n in self.snapshot.exclusions.get(member_class, ()) if n in self.table.index]
        if constraints.host_ports:
            refused.extend(self._rows_with_conflict(constraints.host_ports))
        if refused:
            mask = mask.copy()
            mask[refused] = False
        self._masks[number] = mask
        return mask

    def zone_rooms(self, wish: Wish, *, empty: bool = False, at_start: bool = False) -> Ints:
        """Members of the wish that each zone could hold, class by class without regard to each other; shape (zones,).

        The smallest surplus over the classes counts: below `wish.size` for sure no room. `empty`: as if no pod ran.
        """
        best = np.full(len(self.zones), np.iinfo(np.int64).max)
        for member_class, count in wish.classes:
            fits = self._fits(member_class, empty=empty, at_start=at_start)
            per_zone = np.bincount(self._zone_number, weights=fits, minlength=len(self.zones)).astype(np.int64)
            best = np.minimum(best, per_zone - count + wish.size)
        return best

    def _fits(self, member_class: MemberClass, *, empty: bool, at_start: bool) -> Ints:
        request = self.vector(member_class)
        if request is None:
            return np.zeros(len(self.table.nodes), np.int64)
        if empty:
            counts = fit_counts(self.table.allocatable, request)
        elif at_start:
            counts = fit_counts(self.start, request)
        else:
            counts = self.room.counts(request)
        fits = np.where(self.mask(member_class), counts, 0)
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
            (*key, method),
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

    def scores(self, zones: tuple[ZoneName, ...], score: ScorePolicy) -> PairScores:
        """Pair scores among the zones' nodes. Cost: O(nodes² log pairs) when the network data is new, else nothing."""
        names = self.names(zones)
        network = self.snapshot.network
        return remember(
            self.memo.scores,
            (network.version, names, score),
            lambda: pair_scores(network.block(names, names), None, score),
            limit=1024,
        )

    def fits_empty(self, wish: Wish, zones: tuple[ZoneName, ...], *, score: ScorePolicy) -> bool:
        """Whether the wish fits the zones when no pod runs there."""
        demand, _, _ = self._demand(wish, zones, score)
        if demand is None:
            return False
        return fit(demand, self._with_port_column(wish, self.table.allocatable[self.rows(zones)])) is not None

    def _demand(
        self, wish: Wish, zones: tuple[ZoneName, ...], score: ScorePolicy
    ) -> tuple[Demand | None, Ints, tuple[object, ...]]:
        rows = self.rows(zones)
        free = self._with_port_column(wish, self.room.free[rows])
        ported = free.shape[1] > len(self.table.axis)
        classes: list[ClassDemand] = []
        allowed_key: list[bytes] = []
        for member_class, count in wish.classes:
            request = self.vector(member_class)
            if request is None:
                return None, free, ()
            if ported:
                request = np.append(request, 1 if member_class.constraints.host_ports else 0)
            allowed = self.mask(member_class)[rows]
            allowed_key.append(allowed.tobytes())
            classes.append(ClassDemand(member_class.role, request, allowed, count))
        anchors = self._anchors(wish, zones, score)
        version = self.snapshot.network.version
        key = (wish.key, version, score, self.names(zones), self.table.axis, free.tobytes(), tuple(allowed_key))
        return Demand(tuple(classes), wish.all_reduce, anchors), free, key

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

    def towards(self, names: tuple[NodeName, ...], ends: tuple[NodeName, ...], score: ScorePolicy) -> PairScores:
        """Pair scores between `names` and `ends`, shape (names, ends)."""
        network = self.snapshot.network
        return remember(
            self.memo.scores,
            (network.version, names, ends, score),
            lambda: pair_scores(network.block(names, ends), network.block(ends, names), score),
            limit=1024,
        )

    def _with_port_column(self, wish: Wish, free: Ints) -> Ints:
        """Host ports as a resource of which every node has one: conservative when classes use different ports."""
        if not any(member_class.constraints.host_ports for member_class, _ in wish.classes):
            return free
        return np.hstack([free, np.ones((len(free), 1), np.int64)])

    def _rows_with_conflict(self, wanted: tuple[HostPort, ...]) -> list[int]:
        taken: dict[int, set[HostPort]] = {row: set(ports) for row, ports in self._ports.items()}
        for node, ports in self.snapshot.host_ports.items():
            if node in self.table.index:
                taken.setdefault(self.table.index[node], set()).update(ports)
        return [row for row, ports in taken.items() if ports_conflict(wanted, ports)]


def with_ratios(policy: Policy, ask: Ask) -> ScorePolicy:
    """The score policy for one gang: the operator's, with the gang's own ratios if it has any."""
    return replace(policy.score, ratios=ask.options.ratios) if ask.options.ratios else policy.score
