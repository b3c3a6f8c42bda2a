"""What the steps of one planner run share: the snapshot, what is left of its room, and where to search.

What later runs can reuse is in the cache. Looks beside a plan take the room of what is given away themselves.
"""

from collections.abc import Iterable, Mapping

import msgspec

from scoring.ids import GangKey, NodeName, PodUid, ZoneName
from scoring.model import MemberClass
from scoring.model.policy import Policy
from scoring.model.snapshot import NodeTable, Snapshot
from scoring.plan.cache import PlannerCache
from scoring.plan.capacity import Capacity, ClusterView
from scoring.plan.demand import MemberSets
from scoring.plan.node_search import NodeSearch, RunScores
from scoring.plan.result import Admission


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
    kinds = cache.kinds_of(view.table, snapshot.network.version, policy)
    return Run(snapshot, policy, cache, view, capacity, search.scores, search, view.table, view.zones, kinds)


def take_commitments(run: Run, *, besides: GangKey | None = None) -> None:
    """Take the room of committed members that are still pending, but for those of the gang `besides`."""
    commitments = sorted(run.snapshot.commitments.items())
    _take_pending(run, {key: commitment.assignment for key, commitment in commitments if key != besides})


def take_admissions(run: Run, admissions: Iterable[Admission]) -> None:
    """Take the room of admitted members, for a look beside a plan; that of committed gangs is taken already."""
    _take_pending(run, {one.gang: one.members for one in admissions if not one.committed})


def _take_pending(run: Run, places: Mapping[GangKey, Mapping[PodUid, NodeName]]) -> None:
    gangs = [(gang, nodes) for key, nodes in places.items() if (gang := run.snapshot.gangs.get(key)) is not None]
    pending = ((pod.member_class, nodes.get(pod.uid)) for gang, nodes in gangs for pod in gang.pending)
    take_members(run, ((member_class, node) for member_class, node in pending if node is not None))


def take_members(run: Run, members: Iterable[tuple[MemberClass, NodeName]]) -> None:
    """Take the room of members on nodes, all of a class together."""
    nodes_of: dict[MemberClass, list[NodeName]] = {}  # class → its members' nodes
    for member_class, node in members:
        nodes_of.setdefault(member_class, []).append(node)
    for member_class, nodes in nodes_of.items():
        run.capacity.take(member_class, nodes)
