"""What the steps of one planner run share: the snapshot, what is left of its room, and where to search.

What can be reused by later runs is in the cache; what changes during a run is here and in `capacity`, and ends with it.
Made by `scoring.plan.planner.begin_run`.
"""

from dataclasses import dataclass, field

from scoring.feasibility.fit_counts import Nodes
from scoring.ids import ZoneName
from scoring.model.policy import Policy
from scoring.model.snapshot import NodeTable, Snapshot
from scoring.plan.cache import PlannerCache
from scoring.plan.capacity import Capacity, ClusterView
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
    nodes: Nodes
    token: object = field(default_factory=object)
    """Stands for the snapshot's room and filters in what is kept from run to run"""
    kinds: dict[object, object] = field(default_factory=dict)
    """What gangs that ask for the same share: `scoring.plan.zone_order.Kind`; also under the id of a demand, with it"""
