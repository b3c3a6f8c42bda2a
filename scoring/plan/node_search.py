"""Place one demand in one set of zones, or estimate what that would be worth, with the room that is left now.

Why not all nodes are looked at: pairs grow with the square of a zone, in a busy cluster few nodes are open, and of a
thousand nodes that are measured nowhere and hold equally many members only the first few by name can ever be taken.
What has no room changes nothing for a single class, whichever way it is chosen. Rules: up to `_FEW` nodes with room all
of them stay, so that the result is that of a search over all; above, where no search tries every start anyway, of nodes
that are alike as many stay as there are members, and `_SPARE` more. What is found is kept for the run under the whole
content it was found from, because many gangs of a queue are alike.
"""

from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scoring.ids import ZoneName
from scoring.model import Role
from scoring.model.policy import ScorePolicy, Selection
from scoring.network.matrix import Floats, Ints
from scoring.plan.capacity import Capacity, ClusterView, When
from scoring.plan.demand import MemberSet
from scoring.plan.pair_scores import PairScores
from scoring.score.links import Links
from scoring.selection import select_on_grid
from scoring.selection.demand import ClassDemand, Demand, Selected, at_rows, in_places, on_grid, rooms
from scoring.selection.greedy import fit, quick_value

_FEW = 512
_SPARE = 2
_SMALL = 128
"""Up to so many nodes, the ranks of all pairs are at hand anyway."""
_WHOLE_NODES = 1_000
"""Up to so many nodes, demands of several classes are compared over all of a zone's pairs, those without room too."""


class NodeSearch:
    """Finds places; nothing here takes room."""

    def __init__(self, view: ClusterView, capacity: Capacity) -> None:
        self._view, self._capacity, self.scores = view, capacity, PairScores(view)
        self._selections: dict[Hashable, Selected | None] = {}
        """(demand, zones, score policy, room, method) → chosen rows"""
        self._values: dict[Hashable, float | None] = {}
        """(demand, zone, score policy, room) → quick estimate of the best value"""
        self._estimates: dict[Hashable, tuple[ScorePolicy, int, dict[ZoneName, float | None]]] = {}
        """(demand, id of a score policy) → the policy, a moment of the room, and zone → its estimate then"""

    def place(
        self, member_set: MemberSet, zones: tuple[ZoneName, ...], *, method: Selection, score: ScorePolicy
    ) -> Selected | None:
        """Choose a node (as an index into `rows(zones)`) for every member of the demand, or `None`."""
        packed = method is Selection.PACK  # for which more counts than how many members each node can hold
        demand, free, content = self._prepare(member_set, zones, as_places=not packed)
        key = (member_set, self.scores.number(zones, score), content, method)
        if key not in self._selections:
            most = _SMALL if len(demand.classes) == 1 and not packed else _WHOLE_NODES
            demand, free, rank, rows = self._over(demand, free, member_set, zones, score, most=most)
            found = select_on_grid(method, demand, free, rank, exact_size=self._view.policy.exact_zone_size)
            self._selections[key] = found if found is None or rows is None else _at(rows, found)
        return self._selections[key]

    def fits_empty(self, member_set: MemberSet, zones: tuple[ZoneName, ...]) -> bool:
        """Whether the demand fits the zones when no pod runs there; without zones it does not."""
        if not zones:
            return False
        if len(member_set.classes) == 1 and len(zones) == 1:
            return bool(self._capacity.zone_rooms(member_set, When.EMPTY)[self._view.columns(zones)] >= member_set.size)
        rows = self._view.rows(zones)
        classes = self._classes(member_set, rows, When.EMPTY)
        free = _with_ports(member_set, self._view.table.allocatable[rows])
        return fit(Demand(classes, member_set.all_reduce), free) is not None

    def estimates(
        self, member_set: MemberSet, zones: Sequence[ZoneName], *, score: ScorePolicy
    ) -> Mapping[ZoneName, float | None]:
        """`estimate` of each zone; only those whose room changed since the last time are looked at again.

        A full plan of 1,000 gangs with room for 800 takes 1.5 times as long without it
        (`python -m lab.bench.planner`; more than its goal of 300 ms).
        """
        key, room = (member_set, id(score)), self._capacity.room
        known: dict[ZoneName, float | None] = {}
        kept = self._estimates.get(key)
        changed = room.changed_since(kept[1]) if kept is not None and kept[0] is score else None
        if kept is not None and changed is not None:
            known = kept[2]
            for number in set(self._view.zone_number[changed].tolist()):
                known.pop(self._view.zones[number], None)
        self._estimates[key] = (score, room.moment, known)
        for zone in zones:
            if zone not in known:
                known[zone] = self.estimate(member_set, zone, score=score)
        return known

    def estimate(self, member_set: MemberSet, zone: ZoneName, *, score: ScorePolicy) -> float | None:
        """A quick estimate of the best value in the zone, comparable between zones; `None`: there is no room."""
        zones = (zone,)
        demand, free, content = self._prepare(member_set, zones)
        key = (member_set, self.scores.number(zones, score), content)
        if key not in self._values:
            most = _SMALL if len(demand.classes) == 1 else _WHOLE_NODES
            demand, free, rank, _ = self._over(demand, free, member_set, zones, score, most=most)
            self._values[key] = quick_value(demand, free, rank)
        return self._values[key]

    def mean_points(
        self, member_set: MemberSet, zones: tuple[ZoneName, ...], selected: Selected, *, score: ScorePolicy
    ) -> float | None:
        """Mean points over the pairs that talk, placed siblings in the zones included; `None`: there is none."""
        at = [row for rows in selected.rows for row in rows]
        ps = [mc.role is Role.PS for (mc, _), rows in zip(member_set.classes, selected.rows, strict=True) for _ in rows]
        fresh = len(at)
        local = {name: row for row, name in enumerate(self._view.names(zones))} if member_set.siblings else {}
        for role, name in member_set.siblings:
            if name in local:
                at.append(local[name])
                ps.append(role is Role.PS)
        counted, total = _counted_pairs(None if member_set.all_reduce else tuple(ps), len(at), fresh)
        if not total:
            return None
        points = self.scores.links(zones, score).points_among(np.array(at, np.int64))
        return float(points[counted].sum() / total)

    def _prepare(
        self, member_set: MemberSet, zones: tuple[ZoneName, ...], *, as_places: bool = True
    ) -> tuple[Demand, Ints, bytes]:
        """The demand over the zones' nodes, what is free there now, and what stands for the room in keys.

        `as_places`: for a single class without host ports all that counts is how many members each node can hold.
        """
        rows = self._view.rows(zones)
        if as_places and len(member_set.classes) == 1:
            member_class, count = member_set.classes[0]
            if not member_class.constraints.host_ports:
                room = np.minimum(self._capacity.counts(member_class).take(rows), count)
                return *in_places(room, count, all_reduce=member_set.all_reduce), _digest(room.tobytes())
        free = _with_ports(member_set, self._capacity.room.free[rows])
        classes = self._classes(member_set, rows, When.NOW)
        content = _digest(b"".join((free.tobytes(), *(c.allowed.tobytes() for c in classes))))
        return Demand(classes, member_set.all_reduce), free, content

    def _classes(self, member_set: MemberSet, rows: Ints, when: When) -> tuple[ClassDemand, ...]:
        """The demand's classes over `rows` and the columns of `_with_ports`."""
        ports = _ports_of(member_set)
        classes: list[ClassDemand] = []
        for member_class, count in member_set.classes:
            request = self._view.vector(member_class)
            own = {(port.protocol, port.port) for port in member_class.constraints.host_ports}
            request = np.append(request, [int(port in own) for port in ports]) if ports else request
            classes.append(
                ClassDemand(member_class.role, request, self._capacity.mask(member_class, when)[rows], count)
            )
        return tuple(classes)

    def _over(
        self,
        demand: Demand,
        free: Ints,
        member_set: MemberSet,
        zones: tuple[ZoneName, ...],
        score: ScorePolicy,
        *,
        most: int,
    ) -> tuple[Demand, Ints, Floats, Ints | None]:
        """The demand beside placed members and the ranks of nodes; of more than `most` only those with room.

        Then the last is their indexes.
        """
        anchors = self.scores.anchors(member_set, zones, score)
        if anchors is not None:
            demand = replace(demand, placed=on_grid(anchors))
        if len(free) <= most:
            return demand, free, self.scores.whole_rank(zones, score), None
        links = self.scores.links(zones, score)
        rows = thinned(demand, free, links)
        whole = len(rows) == len(free) <= _WHOLE_NODES
        rank = self.scores.whole_rank(zones, score) if whole else links.rank_among(rows)
        return at_rows(demand, rows), free[rows], rank, rows


def _ports_of(members: MemberSet) -> list[tuple[str, int]]:
    """The (protocol, port) that members of the set want on their nodes, sorted."""
    return sorted(
        {(p.protocol, p.port) for member_class, _ in members.classes for p in member_class.constraints.host_ports}
    )


def _with_ports(members: MemberSet, free: Ints) -> Ints:
    """Each wanted port as one more resource, of which every node has one; nodes where it is taken are masked.

    Conservative only for one port on two addresses of a node.
    """
    ports = _ports_of(members)
    return np.hstack([free, np.ones((len(free), len(ports)), np.int64)]) if ports else free


def _at(rows: Ints, found: Selected) -> Selected:
    """The answer in indexes of all nodes."""
    return Selected(tuple(tuple(rows[list(chosen)].tolist()) for chosen in found.rows), found.value)


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


@lru_cache(maxsize=64)
def _counted_pairs(ps: tuple[bool, ...] | None, ends: int, fresh: int) -> tuple[NDArray[np.bool_], int]:
    """Which of the pairs (ends, ends) count, each once, those among siblings not; and how many. `ps`: `None`: all."""
    counted = np.tri(ends, k=-1, dtype=np.bool_).T
    if ps is not None:
        is_ps = np.array(ps, np.bool_)
        counted = counted & (is_ps[:, None] != is_ps)
    counted = np.array(counted)
    counted[fresh:] = False
    return counted, int(counted.sum())


def thinned(demand: Demand, free: Ints, links: Links) -> Ints:
    """Indexes of nodes with room for a class, ascending, without those that others stand for. Cost: O(n log n).

    Nodes are alike that have the same room, allow the same and gain the same, bit by bit, from placed members.
    """
    rows = np.flatnonzero(np.any([rooms(one, free) for one in demand.classes], axis=0))
    if len(rows) <= _FEW:
        return rows
    columns = [free[rows], *(one.allowed[rows][:, None].astype(np.int64) for one in demand.classes)]
    if demand.placed is not None:
        columns.append(np.ascontiguousarray(demand.placed[:, rows].T).view(np.int64))
    return rows[_kept(links.kind[rows] == links.alike, np.hstack(columns), demand.size + _SPARE)]


def _kept(alike: NDArray[np.bool_], features: Ints, most: int) -> Ints:
    """Indexes of those that are not `alike`, and of the others the first `most` with the same features.

    >>> _kept(np.array([True, True, False, True]), np.array([[4], [4], [4], [2]]), 1).tolist()
    [0, 2, 3]
    """
    _, group = np.unique(features, axis=0, return_inverse=True)
    group = np.where(alike, group.reshape(-1), -1)
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    place_in_group = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    return np.array(np.sort(order[(ordered < 0) | (place_in_group < most)]))
