"""One planner run: what its steps share, and the search for places of one demand in one set of zones.

Why not all nodes are looked at: pairs grow with the square of a zone, in a busy cluster few nodes are open, and of a
thousand nodes that are measured nowhere and hold equally many members only the first few by name can ever be taken.
Rules: up to `_FEW` nodes with room all of them stay where some is measured, so that the result is that of a search over
all; else of nodes that are alike as many stay as there are members, and `_SPARE` more. What later runs can reuse is in
the cache.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scoring import GangKey, NodeName, PodUid, ZoneName
from scoring.model import MemberClass, Role
from scoring.model.policy import Policy, ScorePolicy, Selection
from scoring.model.snapshot import NodeTable, Snapshot, remember
from scoring.network.matrix import METRICS, Floats, Ints, NetworkMatrix
from scoring.network.node_links import are_bad
from scoring.plan.cache import OfNetwork, PlannerCache
from scoring.plan.capacity import Capacity, ClusterView, When
from scoring.plan.demand import MemberSet, MemberSets
from scoring.plan.result import Admission
from scoring.score.pairs import LinkPoints, Links, among, among_sets, pair_scores, toward
from scoring.score.zone_distance import Crossings, crossings
from scoring.selection.demand import Demand, at_rows, in_places, on_grid, pairing, rooms
from scoring.selection.greedy import fit, quick_value
from scoring.selection.methods import select_on_grid

T = TypeVar("T")
_MOST_DEMANDS = 8192
_FEW = 512
_SPARE = 2
_MOST_ROOMS = 1024  # Of all of a zone's nodes, 4 bytes each, for which is kept what came of them
_SMALL = 128  # Up to so many nodes, the ranks of all pairs are at hand anyway
_WHOLE_NODES = 1_000
"""Up to so many nodes, demands of several classes are compared over all of a zone's pairs, those without room too."""


class RunScores:
    """The pair scores of one run's network data."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._links: dict[object, Links] = {}  # (zones, score policy) → pair scores; names are slow to hash
        self._ranks: dict[object, Floats] = {}  # The same → rank of all pairs
        self._common: dict[object, ScorePolicy] = {}  # The same → the policy with one reference rate for all

    def links(self, zones: tuple[ZoneName, ...], score: ScorePolicy) -> Links:
        """Pair scores among the zones' nodes, ranks on the grid. Cost: when it is new as `among`, or `among_sets`."""
        if (links := self._links.get((zones, score))) is None:
            view, names, network = self._view, self._view.names(zones), self._view.snapshot.network
            make = partial(among, network, names, score)
            if len(zones) > 1 and not network.estimates:
                make = partial(among_sets, network, names, view.zone_number[view.rows(zones)], self.crossings(), score)
            links = view.of_network.links(view.of_network.scores, (names, score), make)
            self._links[zones, score] = links
        return links

    def common_reference(self, zones: Sequence[ZoneName], score: ScorePolicy) -> ScorePolicy:
        """One reference rate for all zones compared: by its own best, a slow zone would look as good as a fast one."""
        if score.reference_bps is not None:
            return score
        key = (tuple(zones), score)
        if key not in self._common:
            rates = [self.links((zone,), score).reference_bps for zone in zones]
            positive = [rate for rate in rates if rate]  # 0 where all tests failed: nothing compares with that
            self._common[key] = replace(score, reference_bps=max(positive)) if positive else score
        return self._common[key]

    def crossings(self) -> Crossings:
        """What leads from zone to zone, by their places in the run's `zones`; looked for when it is new."""
        view = self._view
        look = partial(crossings, view.snapshot.network, view.table.index, view.zone_number)
        return remember(view.of_network.crossings, view.layout, look, limit=2)

    def connected(self, ends: Collection[NodeName]) -> NDArray[np.bool_]:
        """(nodes,): nodes that may be linked to some of `ends` otherwise than one that is measured nowhere."""
        view, network = self._view, self._view.snapshot.network
        index, number = view.table.index, view.zone_number

        def measured() -> NDArray[np.bool_]:
            anywhere = np.full(len(number), network.estimates)
            for own in network.endpoint_of.values():
                anywhere[[index[node] for node in own if node in index]] = True
            return anywhere

        at = [index[node] for node in ends]
        connected = remember(view.of_network.measured, view.layout, measured, limit=2).copy()
        if not network.estimates:
            near = set(number[at].tolist())
            linked = {zone for pair in self.crossings() if not near.isdisjoint(pair) for zone in pair}
            connected &= np.isin(number, list(near | linked))
        connected[at] = True
        return connected

    def nodes_with_bad_links(self) -> frozenset[NodeName]:
        """Nodes from or to which some value is bad, however old. Cost: O(measured pairs) when they are new."""
        of, network = self._view.of_network, self._view.snapshot.network
        if of.bad_ends is None:
            nodes: set[NodeName] = set()
            for metric in METRICS:
                sources, targets, values, _ = network.measured_values(metric)
                bad = are_bad(metric, values, best=network.best_bps)
                ends = set(np.union1d(sources[bad], targets[bad]).tolist())
                nodes.update(node for node, end in network.ends(metric) if end in ends)
            of.bad_ends = frozenset(nodes)
        return of.bad_ends

    def whole_rank(self, zones: tuple[ZoneName, ...], score: ScorePolicy) -> Floats:
        """The rank of all pairs (n, n) of the zones' nodes. Not to be written. Cost: O(n²) the first time."""
        return remember(self._ranks, (zones, score), lambda: self.links(zones, score).rank_among(None))

    def toward(self, names: tuple[NodeName, ...], ends: tuple[NodeName, ...], score: ScorePolicy) -> LinkPoints:
        """Pair scores between `names` and `ends`, shape (names, ends)."""
        of, make = self._view.of_network, partial(toward, self._view.snapshot.network, names, ends, score)
        return of.links(of.toward, (names, ends, score), make)

    def anchors(self, members: MemberSet, zones: tuple[ZoneName, ...], score: ScorePolicy) -> Floats | None:
        """`Demand.placed` of the placed siblings; `None`: there are none."""
        if not members.siblings:
            return None
        rank = self.toward(self._view.names(zones), tuple(node for _, node in members.siblings), score).rank
        roles, others = [mc.role for mc, _ in members.classes], [role for role, _ in members.siblings]
        return pairing(roles, others, all_reduce=members.all_reduce) @ rank.T


class NodeSearch:
    """Finds places; nothing here takes room."""

    def __init__(self, view: ClusterView, capacity: Capacity) -> None:
        self._view, self._capacity, self.scores = view, capacity, RunScores(view)
        self._estimates: dict[object, tuple[int, dict[ZoneName, float | None]]] = {}
        """(demand, score policy) → a moment of the room, and zone → its estimate then"""
        self._seen: dict[object, Any] = {}  # As `_once` keeps it

    def place(self, member_set: MemberSet, zones: tuple[ZoneName, ...]) -> list[list[int]] | None:
        """Choose a node (as an index into `rows(zones)`) for every member of the demand, class by class, or `None`."""
        method, exact_size = member_set.method, self._view.policy.exact_zone_size
        packs = method is Selection.PACK  # for which more counts than how many members each node can hold

        def search() -> list[list[int]] | None:
            demand, free, rank, rows = self._prepare(member_set, zones, member_set.score, as_places=not packs)
            counts = select_on_grid(method, demand, free, rank, exact_size=exact_size)
            rows = np.arange(len(free)) if rows is None else rows
            return None if counts is None else [rows.repeat(line).tolist() for line in counts]

        return search() if packs else self._once(method, member_set, zones, member_set.score, search)

    def fits(self, member_set: MemberSet, zones: tuple[ZoneName, ...], when: When = When.EMPTY) -> bool:
        """Whether the demand fits the zones when no pod runs there, or NOW; without zones it does not."""
        if not zones:
            return False
        if len(member_set.classes) == 1 and len(zones) == 1:
            return bool(self._capacity.zone_rooms(member_set, when)[self._view.columns(zones)] >= member_set.size)
        rows = self._view.rows(zones)
        free = self._view.table.allocatable if when is When.EMPTY else self._capacity.room.free
        return fit(*self._demand(member_set, rows, free[rows], when)) is not None

    def estimates(
        self, member_set: MemberSet, zones: Sequence[ZoneName], *, score: ScorePolicy
    ) -> Mapping[ZoneName, float | None]:
        """`estimate` of each zone; only those whose room changed are looked at again.

        A full plan of 1,000 gangs with room for 800 takes 1.5 times as long without (`python -m lab.bench.planner`).
        """
        key, room = (member_set, score), self._capacity.room
        moment, estimates = self._estimates.get(key, (room.moment, {}))
        changed = room.changed_since(moment) if moment != room.moment else np.zeros(0, np.int64)
        for number in set(self._view.zone_number[changed].tolist()):
            estimates.pop(self._view.zones[number], None)
        self._estimates[key] = (room.moment, estimates)
        for zone in zones:
            if zone not in estimates:
                estimates[zone] = self.estimate(member_set, zone, score=score)
        return estimates

    def estimate(self, member_set: MemberSet, zone: ZoneName, *, score: ScorePolicy) -> float | None:
        """A quick estimate of the best value in the zone, comparable between zones; `None`: there is no room."""
        look = partial(self._prepare, member_set, (zone,), score)
        return self._once(None, member_set, (zone,), score, lambda: quick_value(*look()[:3]))

    def network_of(
        self, member_set: MemberSet, zones: tuple[ZoneName, ...], selected: Sequence[Sequence[int]]
    ) -> tuple[float | None, str]:
        """Mean points over the pairs that talk, placed siblings in the zones included; `None`: there is none.

        And, if the members refuse it, the worst link that is bad, in words.
        """
        chosen = zip(member_set.classes, selected, strict=True)
        ends = [(member_class.role, row) for (member_class, _), rows in chosen for row in rows]
        fresh, names, score = len(ends), self._view.names(zones), replace(member_set.score, bad_pairs_first=True)
        local = {name: row for row, name in enumerate(names)} if member_set.siblings else {}
        ends += [(role, local[name]) for role, name in member_set.siblings if name in local]
        ps = None if member_set.all_reduce else tuple([role is Role.PS for role, _ in ends])
        counted, total = _counted_pairs(ps, len(ends), fresh)
        if not total:
            return None, ""
        rows = np.array([row for _, row in ends], np.int64)
        points = float(self.scores.links(zones, member_set.score).points_among(rows)[counted].sum() / total)
        if not member_set.refuses_bad_links:
            return points, ""
        pairs = self.scores.links(zones, score).pairs_among(rows)
        worst = np.unravel_index(np.where(counted & pairs.bad, pairs.rank, np.inf).argmin(), counted.shape)
        if not (counted & pairs.bad)[worst]:
            return points, ""
        pair = sorted(names[rows[at]] for at in worst)
        text = pair_scores(self._view.snapshot.network.block(pair, pair), None, score).bad_text(0, 1)
        return points, f"{text} between {pair[0]} and {pair[1]}"

    def _once(
        self, what: object, members: MemberSet, zones: tuple[ZoneName, ...], score: ScorePolicy, look: Callable[[], T]
    ) -> T:
        """What `look` finds; the same for all gangs of as many members of one class that the nodes hold alike."""
        [(member_class, count), *others] = members.classes
        if others or members.siblings:
            return look()
        room = np.minimum(self._capacity.counts(member_class).take(self._view.rows(zones)), count).astype(np.int32)
        key = what, zones, score, count, members.all_reduce, room.tobytes()
        result: T = remember(self._seen, key, look, limit=_MOST_ROOMS)
        return result

    def _prepare(
        self, member_set: MemberSet, zones: tuple[ZoneName, ...], score: ScorePolicy, *, as_places: bool = True
    ) -> tuple[Demand, Ints, Floats, Ints | None]:
        """The demand beside placed members over the zones' nodes, what is free there now, and their ranks.

        Of many nodes only those with room; then the last is their indexes. `as_places`: for a single class all that
        counts is how many members each node can hold.
        """
        rows, most = self._view.rows(zones), _WHOLE_NODES
        [(member_class, count), *others] = member_set.classes
        anchors = self.scores.anchors(member_set, zones, score)
        placed = None if anchors is None else on_grid(anchors)
        if as_places and not others:
            room, most = np.minimum(self._capacity.counts(member_class).take(rows), count), _SMALL
            demand, free = in_places(room, count, all_reduce=member_set.all_reduce, placed=placed)
        else:
            demand, free = self._demand(member_set, rows, self._capacity.room.free[rows], When.NOW)
            demand = replace(demand, placed=placed)
        if len(free) <= most:
            return demand, free, self.scores.whole_rank(zones, score), None
        links = self.scores.links(zones, score)
        thin = partial(thinned, demand, free, links)
        same = (zones, count, free.tobytes()) if most == _SMALL and placed is None else None  # for estimate and search
        open_rows = thin() if same is None else remember(self._seen, same, thin, limit=_MOST_ROOMS)
        whole = len(open_rows) == len(free) <= _WHOLE_NODES
        rank = self.scores.whole_rank(zones, score) if whole else links.rank_among(open_rows)
        return at_rows(demand, open_rows), free[open_rows], rank, open_rows

    def _demand(self, members: MemberSet, rows: Ints, free: Ints, when: When) -> tuple[Demand, Ints]:
        """The demand over `rows`, and what is free there, with each host port as one more resource.

        Nodes where it is taken are masked. Conservative only for one port on two addresses of a node.
        """
        demand = at_rows(self._capacity.demand(members, when), rows)
        wanted = [{(port.protocol, port.port) for port in mc.constraints.host_ports} for mc, _ in members.classes]
        ports = sorted(set[tuple[str, int]]().union(*wanted))
        if not ports:
            return demand, free
        classes = tuple(
            replace(part, request=np.append(part.request, [int(port in own) for port in ports]))
            for part, own in zip(demand.classes, wanted, strict=True)
        )
        return replace(demand, classes=classes), np.hstack([free, np.ones((len(free), len(ports)), np.int64)])


@lru_cache(maxsize=64)
def _counted_pairs(ps: tuple[bool, ...] | None, ends: int, fresh: int) -> tuple[NDArray[np.bool_], int]:
    """Which of the pairs (ends, ends) count, each once, those among siblings not; and how many. `ps`: `None`: all."""
    counted = np.tri(ends, k=-1, dtype=np.bool_).T.copy()
    if ps is not None:
        is_ps = np.array(ps, np.bool_)
        counted &= is_ps[:, None] != is_ps
    counted[fresh:] = False
    return counted, int(counted.sum())


def thinned(demand: Demand, free: Ints, links: Links) -> Ints:
    """Indexes of nodes with room for a class, ascending, without those that others stand for. Cost: O(n log n).

    Nodes are alike that have the same room, allow the same and gain the same, bit by bit, from placed members.
    """
    rows = np.flatnonzero(np.logical_or.reduce([rooms(part, free) > 0 for part in demand.classes]))
    measured, most = links.kind[rows] != links.alike, demand.size + _SPARE
    if len(rows) <= _FEW and (demand.placed is not None or measured.any()):
        return rows
    columns = [measured, *free[rows].T, *(part.allowed[rows] for part in demand.classes)]
    if demand.placed is not None:
        columns.extend(np.ascontiguousarray(demand.placed[:, rows]).view(np.int64))
    unlike = [column for column in columns if (column[1:] != column[:-1]).any()]
    order = np.lexsort(unlike) if unlike else np.arange(len(rows))
    stays = measured[order]
    stays[:most] = True
    for column in unlike:  # where the node so many places before is of another group
        stays[most:] |= (ordered := column[order])[most:] != ordered[:-most]
    return np.asarray(rows[np.sort(order[stays])])


class Run(msgspec.Struct):
    """The parts of one run, each over the ones before."""

    snapshot: Snapshot
    policy: Policy
    cache: PlannerCache
    view: ClusterView
    capacity: Capacity
    scores: RunScores
    search: NodeSearch
    table: NodeTable
    zones: tuple[ZoneName, ...]  # All, in the order in which results are indexed
    kinds: MemberSets  # What gangs ask for → what they share


def begin_run(snapshot: Snapshot, policy: Policy, cache: PlannerCache) -> Run:
    """The parts of a run over a snapshot of which nothing is given away yet."""
    view = ClusterView(snapshot, policy, cache)
    capacity = Capacity(view)
    search = NodeSearch(view, capacity)
    stamp = (view.table.version, snapshot.network.version, policy)
    if stamp != cache.kinds.stamp or len(cache.kinds.by_demand) > _MOST_DEMANDS:
        cache.kinds = MemberSets(stamp)
    return Run(snapshot, policy, cache, view, capacity, search.scores, search, view.table, view.zones, cache.kinds)


def take_commitments(run: Run, *, besides: GangKey | None = None) -> None:
    """Take the room of committed members that are still pending, but for those of the gang `besides`."""
    commitments = sorted(run.snapshot.commitments.items())
    _take_pending(run, {key: commitment.assignment for key, commitment in commitments if key != besides})


def take_admissions(run: Run, admissions: Iterable[Admission]) -> None:
    """Take the room of admitted members, for a look beside a plan; that of committed gangs is taken already."""
    _take_pending(run, {admission.gang: admission.members for admission in admissions if not admission.committed})


def _take_pending(run: Run, places: Mapping[GangKey, Mapping[PodUid, NodeName]]) -> None:
    gangs = [(gang, nodes) for key, nodes in places.items() if (gang := run.snapshot.gangs.get(key)) is not None]
    pending = ((pod.member_class, nodes.get(pod.uid)) for gang, nodes in gangs for pod in gang.pending)
    take_members(run, ((member_class, node) for member_class, node in pending if node is not None))


def take_members(run: Run, members: Iterable[tuple[MemberClass, NodeName]]) -> None:
    """Take the room of members on nodes, all of a class together; unknown nodes and resources take nothing."""
    rows_of: dict[MemberClass, list[int]] = {}  # class → its members' nodes
    for member_class, node in members:
        if node in run.table.index:
            rows_of.setdefault(member_class, []).append(run.table.index[node])
    for member_class, rows in rows_of.items():
        run.capacity.take_rows(member_class, rows)


def warmed(snapshot: Snapshot, network: NetworkMatrix, policy: Policy) -> OfNetwork:
    """The pair scores inside every zone, as plans will ask for them, and what is measured between zones.

    Made in a thread while the old data answers, as 5,000 nodes take 0.2 s. Cost: O(measured² of each zone + pairs).
    """
    view = ClusterView(replace(snapshot, network=network), policy, PlannerCache())
    scores = RunScores(view)
    for score in {policy.score, scores.common_reference(view.zones, policy.score)}:
        for zone in view.zones:
            scores.links((zone,), score)
    if not network.estimates:
        scores.crossings()
    return view.of_network
