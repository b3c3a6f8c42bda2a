"""What the steps of one planner run share: the snapshot, what is left of its room, and where to search.

What can be reused by later runs is in the cache; what changes during a run is here and in `capacity`, and ends with it.
Begun by `begin_run`; looks beside a plan take the room of what is given away themselves.
"""

from collections.abc import Iterable

import msgspec

from scoring.ids import GangKey, NodeName, ZoneName
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
    members: list[tuple[MemberClass, NodeName]] = []
    for key, commitment in sorted(run.snapshot.commitments.items()):
        gang = run.snapshot.gangs.get(key) if key != besides else None
        pending = gang.pending if gang is not None else ()
        found = [(pod.member_class, commitment.assignment.get(pod.uid)) for pod in pending]
        members.extend((member_class, node) for member_class, node in found if node is not None)
    take_members(run, members)


def take_admissions(run: Run, admissions: Iterable[Admission]) -> None:
    """Take the room of admitted members, for a look beside a plan; that of committed gangs is taken already."""
    members: list[tuple[MemberClass, NodeName]] = []
    for admission in admissions:
        gang = run.snapshot.gangs.get(admission.gang)
        for pod in gang.pending if gang is not None and not admission.committed else ():
            node = admission.members.get(pod.uid)
            if node is not None:
                members.append((pod.member_class, node))
    take_members(run, members)


def take_members(run: Run, members: Iterable[tuple[MemberClass, NodeName]]) -> None:
    """Take the room of members on nodes, all of a class together."""
    nodes_of: dict[MemberClass, list[NodeName]] = {}  # class → its members' nodes
    for member_class, node in members:
        nodes_of.setdefault(member_class, []).append(node)
    for member_class, nodes in nodes_of.items():
        run.capacity.take(member_class, nodes)
