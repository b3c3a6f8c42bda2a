"""What one planner run may reuse of earlier ones: the planner's only cache.

What each part buys is measured in docs/adr/0006-planner-caches.md. Rule: every entry holds the whole content it was
computed from, as its key or beside it, so a run with a cache and one without give the same plan. Bounded: tables are
emptied at their limit, pair scores count by pairs, what is of older network data goes when newer comes, and what is of
gangs goes with them (`keep_only`).
"""

from collections.abc import Callable, Collection, Hashable, Iterable
from operator import is_
from typing import TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scoring.feasibility.room import Room
from scoring.ids import GangKey, ZoneName
from scoring.model import Constraints, Gang, MemberClass
from scoring.model.policy import Policy
from scoring.model.snapshot import NodeTable
from scoring.network.matrix import Floats, Ints
from scoring.plan.demand import GangDemand, KnownDemands, MemberSets
from scoring.queue.states import running_since_s
from scoring.queue.weights import Scale, Weight
from scoring.score.pairs import LinkPoints, Links
from scoring.score.zone_distance import Crossings
from scoring.selection.demand import on_grid

MOST_PAIRS = 32_000_000  # Pairs whose scores are kept: half a gigabyte. A single larger zone is kept alone.
_GONE = 32  # Gangs that may be gone before anything is forgotten
_TABLES = 4
_LAYOUTS = 4  # Layouts remembered: plans of two snapshots may take turns
_OF_NETWORK = ("scores", "toward", "distances", "outlooks", "means", "crossings", "measured")
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
S = TypeVar("S", Links, LinkPoints)


def remember(table: dict[K, T], key: K, make: Callable[[], T], *, limit: int = 4096) -> T:
    """Look `key` up, or make and keep its value; the table is emptied when it holds `limit` entries."""
    if key not in table:
        value = make()
        if len(table) >= limit:
            table.clear()
        table[key] = value
    return table[key]


class RunningEntries(msgspec.Struct, frozen=True):
    """Gangs, and entry by entry what they have: `amounts` on `rows`, of the gang at the same place in `owner`."""

    gangs: tuple[GangKey, ...]
    since_s: Floats  # (gangs,): when they started, Unix seconds; NaN: not known
    length_s: Floats  # (gangs,)
    rows: Ints  # (entries,), ascending
    amounts: Ints  # (entries, resources)
    owner: Ints  # (entries,): places in `gangs`


class _RunningFootprint(msgspec.Struct, frozen=True):
    gang: Gang
    rows: Ints
    amounts: Ints
    since_s: float | None


class RunningGangs(msgspec.Struct, eq=False):
    """Those of the snapshot that was read last: reading two thousand takes 40 ms, and an event changes one of them."""

    _stamp: object = None
    _known: dict[GangKey, _RunningFootprint] = {}
    _gangs: list[Gang] = []
    _running: RunningEntries | None = None

    def read(self, gangs: Iterable[Gang], table: NodeTable, stamp: object) -> RunningEntries:
        """What they have on nodes; `stamp` stands for the nodes and resources. Cost: O(gangs), O(pods) of new ones."""
        measured = [gang for gang in gangs if gang.length_s is not None]
        same = stamp == self._stamp and len(measured) == len(self._gangs)
        if same and self._running is not None and all(map(is_, measured, self._gangs)):
            return self._running
        known = self._known if stamp == self._stamp else {}
        found: dict[GangKey, _RunningFootprint] = {}
        for gang in measured:
            one = known.get(gang.key)
            if one is None or one.gang is not gang:
                on_nodes = [pod for pod in gang.members if pod.node is not None and not pod.terminal]
                one = _RunningFootprint(gang, *table.footprint(on_nodes), running_since_s(gang))
            found[gang.key] = one
        there = [one for one in found.values() if len(one.rows)]
        rows = np.concatenate([np.zeros(0, np.int64), *(one.rows for one in there)])
        by_row = np.argsort(rows, kind="stable")
        amounts = np.concatenate([np.zeros((0, len(table.axis)), np.int64), *(one.amounts for one in there)])
        running = RunningEntries(
            gangs=tuple(one.gang.key for one in there),
            since_s=np.array([np.nan if one.since_s is None else one.since_s for one in there], np.float64),
            length_s=np.array([one.gang.length_s for one in there], np.float64),
            rows=rows[by_row],
            amounts=amounts[by_row],
            owner=np.repeat(np.arange(len(there)), [len(one.rows) for one in there]).astype(np.int64)[by_row],
        )
        self._stamp, self._known, self._gangs, self._running = stamp, found, measured, running
        return running


class Urgency(msgspec.Struct, frozen=True):
    """What decides a gang's place in the queue, apart from the moment: of a demand, a policy, the cluster's totals."""

    demand: GangDemand
    policy: Policy
    scale: Scale
    weight: Weight
    starving_s: float  # When its clock reaches STARVELIMIT; infinite: it has none
    reserves_s: float  # From when room may be reserved for it
    tail: tuple[object, ...]  # End of its sort key: weight, creation, name, as the policy's order has them


class OfTable(msgspec.Struct, frozen=True):
    """What follows from a node table alone."""

    allowed: dict[Constraints, NDArray[np.bool_]]  # Constraints → nodes that they let through
    ever: dict[MemberClass, Ints]  # Class → how many of its members could ever fit each zone
    vectors: dict[MemberClass, Ints]  # Class → its request over the table's axis


class PlannerCache(msgspec.Struct, weakref=True):
    """Tables of reusable results. Not shared between threads."""

    # -- of gangs, by their keys; all hold the demand they belong to -------------------------------------------------
    demands: KnownDemands = msgspec.field(default_factory=KnownDemands)
    urgencies: dict[GangKey, Urgency] = {}
    scale: tuple[NodeTable | None, Scale] = (None, Scale({}))  # A node table, and the totals of it
    kinds: MemberSets = msgspec.field(default_factory=MemberSets)
    running: RunningGangs = msgspec.field(default_factory=RunningGangs)  # What gangs of known length have on nodes

    # -- of nodes -----------------------------------------------------------------------------------------------------
    tables: dict[int, OfTable] = {}  # By the node table's version
    room: Room | None = None  # That of the last run, for what it counted
    empty_room: tuple[NodeTable | None, Room | None] = (None, None)  # And the room of its nodes if no pod ran there
    layouts: dict[int, tuple[object, object]] = {}  # layout → the names and zones that it stands for, kept alive
    next_layout: int = 0

    # -- of network data: their version begins each key beside what is named, as runs of two versions may take turns --
    network_version: int = 0
    scores: dict[Hashable, Links] = {}  # node names, score policy → pair scores, ranks on the grid (`on_grid`)
    toward: dict[Hashable, LinkPoints] = {}  # node names, ends, score policy → the same from nodes to a few others
    pairs: int = 0  # Pairs in `scores` and `toward`
    distances: dict[Hashable, dict[ZoneName, float]] = {}  # node table version, near, configured ones → of each zone
    outlooks: dict[Hashable, Floats] = {}  # layout, score policy → mean points of each node towards its zone's others
    means: dict[Hashable, float] = {}  # names of two zones' nodes, score policy → mean points between them
    crossings: dict[Hashable, Crossings] = {}  # layout → which endpoints lead from zone to zone
    measured: dict[Hashable, NDArray[np.bool_]] = {}  # layout → which nodes are measured anywhere

    def renew(self, network_version: int) -> None:
        """Drop what was computed from other network data."""
        if network_version != self.network_version:
            self.network_version, self.pairs = network_version, 0
            for name in _OF_NETWORK:
                getattr(self, name).clear()

    def keep_only(self, gangs: Collection[GangKey]) -> None:
        """Forget gangs that are gone, once these are many. Cost: O(known gangs), then."""
        known = self.demands.known
        if len(known) > len(gangs) + _GONE:
            self.demands.known = {key: one for key, one in known.items() if key in gangs}
            self.urgencies = {key: one for key, one in self.urgencies.items() if key in gangs}

    def take_over(self, warmed: "PlannerCache") -> None:
        """Use the pair scores of `warmed`, and drop what was computed from other network data."""
        self.renew(warmed.network_version)
        self.scores, self.toward, self.pairs = warmed.scores, warmed.toward, warmed.pairs
        for layout, (names, zones) in warmed.layouts.items():
            found = warmed.crossings.get((warmed.network_version, layout))
            if found is not None:
                self.crossings[warmed.network_version, self.layout(names, zones)] = found

    def borrowed(self) -> "PlannerCache":
        """A cache that begins with what is known here of nodes, demands and network. Cost: copying references."""
        known = self.tables.items()
        made = PlannerCache(
            demands=replace(self.demands, known=dict(self.demands.known)),
            tables={version: OfTable(dict(of.allowed), dict(of.ever), dict(of.vectors)) for version, of in known},
            layouts=dict(self.layouts),
            next_layout=self.next_layout,
            network_version=self.network_version,
            pairs=self.pairs,
        )
        for name in _OF_NETWORK:
            setattr(made, name, dict(getattr(self, name)))
        return made

    def links(self, key: Hashable, make: Callable[[], Links]) -> Links:
        """Look pair scores up, or make and keep them."""
        return self._scored(self.scores, key, lambda: replace(made := make(), rank=on_grid(made.rank)))

    def links_toward(self, key: Hashable, make: Callable[[], LinkPoints]) -> LinkPoints:
        """The same towards a few nodes."""
        return self._scored(self.toward, key, lambda: replace(made := make(), rank=on_grid(made.rank)))

    def _scored(self, table: dict[Hashable, S], key: Hashable, make: Callable[[], S]) -> S:
        if key not in table:
            made = make()
            if self.pairs + made.points.size > MOST_PAIRS:
                self.scores.clear()
                self.toward.clear()
                self.pairs = 0
            self.pairs += made.points.size
            table[key] = made
        return table[key]

    def layout(self, names: object, zones: object) -> int:
        """A number for which nodes there are, in which zones; most events change neither."""
        for number, known in self.layouts.items():
            if known[0] is names and known[1] is zones:
                return number
        if len(self.layouts) >= _LAYOUTS:
            self.layouts.pop(next(iter(self.layouts)))
        self.next_layout += 1
        self.layouts[self.next_layout] = (names, zones)
        return self.next_layout

    def of_table(self, table: NodeTable) -> OfTable:
        """What follows from a node table alone."""
        if table.version not in self.tables and len(self.tables) >= _TABLES:
            self.tables.pop(next(iter(self.tables)))
        return self.tables.setdefault(table.version, OfTable({}, {}, {}))
