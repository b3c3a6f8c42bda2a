"""What the steps of one planner run share: the snapshot, what is left of its room, and where to search.

What can be reused by later runs is in the cache; what changes during a run is here and in `capacity`, and ends with it.
Made by `scoring.plan.planner.begin_run`.
"""

from dataclasses import dataclass, field

from scoring.ids import ZoneName
from scoring.model.policy import Policy, ScorePolicy
from scoring.model.snapshot import NodeTable, Snapshot
from scoring.network.matrix import Ints
from scoring.plan.cache import PlannerCache
from scoring.plan.capacity import Capacity, ClusterView
from scoring.plan.demand import MemberSet
from scoring.plan.node_search import NodeSearch
from scoring.plan.pair_scores import PairScores
from scoring.plan.result import Refused


@dataclass(frozen=True, slots=True)
class Tiers:
    """Feasible zones, as far as their order does not depend on the room."""

    common: ScorePolicy
    """What the best are compared by."""
    best: list[ZoneName]
    """Those that only the network decides between."""
    others: list[ZoneName]
    """Those that come after them in any case."""


@dataclass(slots=True)
class Kind:
    """What gangs that ask for the same share in one run. Not shared between runs."""

    members: MemberSet
    score: ScorePolicy
    allowed: tuple[ZoneName, ...]
    columns: Ints
    """Of the allowed zones, among all of the run's, ascending"""
    home: frozenset[ZoneName]
    """Zones of members that have a node."""
    refused: tuple[object, Refused] | None = None
    """The answer to the first of them that was refused, and a moment of the room that it is about; `None`: room only
    shrinks during a run, so it holds for all of them in the same words"""
    could_fit: bool | None = None
    """Whether it would fit the empty cluster, once that was looked at"""
    tiers: dict[tuple[ZoneName, ...], Tiers] = field(default_factory=dict)
    """feasible zones → their order"""


@dataclass(slots=True)
class Run:
    """The parts of one run, each over the ones before."""

    snapshot: Snapshot
    policy: Policy
    cache: PlannerCache
    view: ClusterView
    capacity: Capacity
    scores: PairScores
    search: NodeSearch
    table: NodeTable
    zones: tuple[ZoneName, ...]
    """All, in the order in which results are indexed"""
    kinds: dict[object, Kind] = field(default_factory=dict)
    """What gangs ask for → what they share"""
    kind_of: dict[int, tuple[object, Kind]] = field(default_factory=dict)
    """id of a demand → the demand, kept alive, and its kind"""
