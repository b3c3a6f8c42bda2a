"""What one planner run may reuse of earlier ones: the planner's only cache.

What each part buys is measured in docs/developers/decisions.md. Rule: every entry holds the whole content it was
computed from, as its key or beside it, so a run with a cache and one without give the same plan. Bounded: tables are
emptied at their limit, pair scores count by pairs, what is of older network data goes when newer comes, and what is of
gangs goes with them (`keep_only`).
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from operator import is_
from typing import TypeVar

import msgspec
import numpy as np
from msgspec.structs import asdict, replace
from numpy.typing import NDArray

from scoring import GangKey, NodeName, ZoneName
from scoring.model import Gang
from scoring.model.policy import Policy
from scoring.model.snapshot import NodeTable, Room
from scoring.network.matrix import Floats, Ints
from scoring.plan.demand import GangDemand, KnownDemands, MemberSets
from scoring.queue.states import running_since_s
from scoring.queue.weights import Scale, Weight
from scoring.score.pairs import LinkPoints, Links
from scoring.score.zone_distance import Crossings
from scoring.selection.demand import on_grid

MOST_PAIRS = 32_000_000  # Pairs whose scores are kept: half a gigabyte. A single larger zone is kept alone.
_GONE = 32  # Gangs that may be gone before anything is forgotten
S = TypeVar("S", Links, LinkPoints)


class RunningEntries(msgspec.Struct, frozen=True):
    """Gangs, and entry by entry what they have: `amounts` on `rows`, of the gang at the same place in `owner`."""

    gangs: tuple[GangKey, ...]
    since_s: Floats  # (gangs,): when they started, Unix seconds; NaN: not known
    length_s: Floats  # (gangs,)
    rows: Ints  # (entries,), ascending
    amounts: Ints  # (entries, resources)
    owner: Ints  # (entries,): places in `gangs`


class RunningGangs(msgspec.Struct, eq=False):
    """Those of the snapshot that was read last: reading two thousand takes 40 ms, and an event changes one of them."""

    _stamp: object = None
    _known: dict[GangKey, tuple[Gang, Ints, Ints, float]] = {}  # With its rows, what it has there, and since when
    _running: RunningEntries | None = None

    def read(self, gangs: Iterable[Gang], table: NodeTable, stamp: object) -> RunningEntries:
        """What they have on nodes; `stamp` stands for the nodes and resources. Cost: O(gangs), O(pods) of new ones."""
        measured = [gang for gang in gangs if gang.length_s is not None]
        before = self._known if stamp == self._stamp else {}
        same = stamp == self._stamp and len(measured) == len(before)
        if same and self._running is not None and all(map(is_, measured, [gang for gang, *_ in before.values()])):
            return self._running
        current: dict[GangKey, tuple[Gang, Ints, Ints, float]] = {}
        for gang in measured:
            record = before.get(gang.key)
            if record is None or record[0] is not gang:
                on_nodes = [pod for pod in gang.members if pod.node is not None and not pod.terminal]
                since_s = running_since_s(gang)
                record = gang, *table.footprint(on_nodes), np.nan if since_s is None else since_s
            current[gang.key] = record
        there = [record for record in current.values() if len(record[1])]
        rows = np.concatenate([np.zeros(0, np.int64), *(record[1] for record in there)])
        by_row = np.argsort(rows, kind="stable")
        amounts = np.concatenate([np.zeros((0, len(table.axis)), np.int64), *(record[2] for record in there)])
        self._stamp, self._known = stamp, current
        self._running = RunningEntries(
            gangs=tuple(record[0].key for record in there),
            since_s=np.array([record[3] for record in there], np.float64),
            length_s=np.array([record[0].length_s for record in there], np.float64),
            rows=rows[by_row],
            amounts=amounts[by_row],
            owner=np.repeat(np.arange(len(there)), [len(record[1]) for record in there]).astype(np.int64)[by_row],
        )
        return self._running


class Urgency(msgspec.Struct, frozen=True):
    """What decides a gang's place in the queue, apart from the moment: of a demand, a policy, the cluster's totals."""

    demand: GangDemand
    policy: Policy
    scale: Scale
    weight: Weight
    starving_s: float  # When its clock reaches STARVELIMIT; infinite: it has none
    reserves_s: float  # From when room may be reserved for it
    tail: tuple[object, ...]  # End of its sort key: weight, creation, name, as the policy's order has them


class Layout(msgspec.Struct, frozen=True, eq=False):
    """Which nodes there are, in which zones: most events change neither, and leave the same objects."""

    names: tuple[NodeName, ...]
    zones: Mapping[ZoneName, Ints]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.names is other.names and self.zones is other.zones

    def __hash__(self) -> int:
        return id(self.names)


class OfNetwork(msgspec.Struct):
    """What follows from one version of the network data. A run keeps its own: runs of two versions may take turns."""

    version: int = 0
    scores: dict[Hashable, Links] = {}  # Node names, score policy → pair scores, ranks on the grid (`on_grid`)
    toward: dict[Hashable, LinkPoints] = {}  # Node names, ends, score policy → the same from nodes to a few others
    pairs: int = 0  # In `scores` and `toward`
    distances: dict[Hashable, dict[ZoneName, float]] = {}  # Node table version, near, configured ones → of each zone
    outlooks: dict[Hashable, Floats] = {}  # Layout, score policy → mean points of each node towards its zone's others
    means: dict[Hashable, float] = {}  # Names of two zones' nodes, score policy → mean points between them
    crossings: dict[Layout, Crossings] = {}  # Layout → which endpoints lead from zone to zone
    measured: dict[Layout, NDArray[np.bool_]] = {}  # Layout → which nodes are measured anywhere
    bad_ends: frozenset[NodeName] | None = None  # Nodes from or to which some value is bad, however old

    def links(self, table: dict[Hashable, S], key: Hashable, make: Callable[[], S]) -> S:
        """Look pair scores up in `scores` or `toward`, or make and keep them."""
        if key not in table:
            scores = make()
            if self.pairs + scores.points.size > MOST_PAIRS:
                self.scores.clear()
                self.toward.clear()
                self.pairs = 0
            self.pairs += scores.points.size
            table[key] = replace(scores, rank=on_grid(scores.rank))
        return table[key]


class PlannerCache(msgspec.Struct, weakref=True):
    """Tables of reusable results. Not shared between threads."""

    demands: KnownDemands = msgspec.field(default_factory=KnownDemands)
    urgencies: dict[GangKey, Urgency] = {}
    scale: tuple[NodeTable | None, Scale] = (None, Scale({}))  # A node table, and the totals of it
    kinds: MemberSets = msgspec.field(default_factory=MemberSets)
    running: RunningGangs = msgspec.field(default_factory=RunningGangs)  # What gangs of known length have on nodes
    room: Room | None = None  # That of the last run, for what it counted
    empty_room: Room | None = None  # And the room of its nodes if no pod ran there
    network: OfNetwork = msgspec.field(default_factory=OfNetwork)

    def keep_only(self, gangs: Collection[GangKey]) -> None:
        """Forget gangs that are gone, once these are many. Cost: O(known gangs), then."""
        demands = self.demands.known
        if len(demands) > len(gangs) + _GONE:
            self.demands.known = {key: entry for key, entry in demands.items() if key in gangs}
            self.urgencies = {key: urgency for key, urgency in self.urgencies.items() if key in gangs}

    def borrowed(self) -> "PlannerCache":
        """A cache that begins with what is known here of nodes, demands and network. Cost: copying references."""
        network = {name: dict(table) for name, table in asdict(self.network).items() if isinstance(table, dict)}
        return PlannerCache(
            demands=replace(self.demands, known=dict(self.demands.known)), network=replace(self.network, **network)
        )

    def of_network(self, version: int) -> OfNetwork:
        """What follows from this network data; that of other data is dropped."""
        if version != self.network.version:
            self.network = OfNetwork(version)
        return self.network
