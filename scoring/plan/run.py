"""What the steps of one planner run share: the snapshot, what is left of its room, and where to search.

What can be reused by later runs is in the cache; what changes during a run is here and in `capacity`, and ends with it.
Made by `scoring.plan.planner.begin_run`.
"""

from dataclasses import dataclass

from scoring.ids import ZoneName
from scoring.model.policy import Policy
from scoring.model.snapshot import NodeTable, Snapshot
from scoring.plan.cache import PlannerCache
from scoring.plan.capacity import Capacity, ClusterView
from scoring.plan.demand import Kinds
from scoring.plan.node_search import NodeSearch
from scoring.plan.pair_scores import PairScores


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
    kinds: Kinds
    """What gangs ask for → what they share"""
