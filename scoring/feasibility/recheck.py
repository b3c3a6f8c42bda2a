"""Check again, as others schedule too: before commit the places of members at bind; later what is bound to nodes.

Why: between plan and commit other schedulers' pods may have taken room, and nodes may have gone (PAPERS G7). Rule: all
that is known is counted — pods on the node, other gangs' commitments, and every member of the gang that is to go there
— so two gangs never commit to the same room, whatever planned it for them. Plain integers and no matrices: it runs for
every bind call, and a gang's few nodes are looked up faster than added up.

Nodes are overcommitted as each kube-scheduler counts by its own cache, and the API server checks no Binding. Rule:
only bound pods count, and only resources that the node offers: one from elsewhere (DRA), or that a device plugin has
withdrawn, is no contradiction of schedulers.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec
import numpy as np

from scoring import NodeName, PodUid, ResourceName
from scoring.feasibility.filters import allowed_nodes, ports_conflict
from scoring.model import Gang, HostPort, Node, Pod, Snapshot


def members_without_room(snapshot: Snapshot, gang: Gang, assignment: Mapping[PodUid, NodeName]) -> frozenset[PodUid]:
    """Members whose node is gone, unsuitable, or too full for all. Cost: O(assignment + other commitments)."""
    members = {pod.uid: pod for pod in gang.members}
    here: dict[NodeName, list[Pod]] = {}
    lost: set[PodUid] = set()
    for uid, node in assignment.items():
        pod = members.get(uid)
        if pod is None or pod.node is not None:
            continue  # gone or bound: neither takes room that is not counted already
        row = snapshot.table.index.get(node)
        if row is None or not allowed_nodes(snapshot.table, pod.member_class.constraints)[row]:
            lost.add(uid)
        else:
            here.setdefault(node, []).append(pod)
    if not here:
        return frozenset(lost)
    committed: dict[NodeName, list[Pod]] = {}  # Members of other gangs that are to go there
    for key, commitment in snapshot.commitments.items():
        if key == gang.key or here.keys().isdisjoint(commitment.nodes):
            continue
        other = snapshot.gangs.get(key)
        for pod in other.members if other is not None else ():
            to = commitment.assignment.get(pod.uid)
            if to is not None and to in here and pod.node is None and pod.lives:
                committed.setdefault(to, []).append(pod)
    for node, pods in here.items():
        others = committed.get(node, [])
        if not _fits(snapshot, snapshot.table.index[node], pods, others) or _ports_taken(snapshot, node, pods, others):
            lost.update([pod.uid for pod in pods])
    return frozenset(lost)


def _sums(pods: Iterable[Pod]) -> dict[ResourceName, int]:
    total: dict[ResourceName, int] = {}
    for pod in pods:
        for name, amount in pod.member_class.requests.items:
            total[name] = total.get(name, 0) + amount
    return total


def _fits(snapshot: Snapshot, row: int, pods: Iterable[Pod], others: Iterable[Pod]) -> bool:
    axis, taken = snapshot.table.axis, _sums(others)
    for name, amount in _sums(pods).items():
        if name not in axis:
            continue  # uncounted: kube-scheduler knows
        column = axis.index(name)
        has, used = snapshot.table.allocatable.item(row, column), snapshot.used.item(row, column)
        if amount > max(has - used - taken.get(name, 0), 0):  # an over-full node has room for what asks for nothing
            return False
    return True


def in_another_zone(snapshot: Snapshot, gang: Gang, assignment: Mapping[PodUid, NodeName], node: NodeName) -> bool:
    """Whether the node is known to be in no zone of the placed members and of `assignment`. Cost: O(members)."""
    table = snapshot.table
    others = {*assignment.values(), *(pod.node for pod in gang.placed if pod.node is not None)}
    zones = {table.nodes[table.index[name]].zone for name in others if name in table.index}
    return bool(zones) and node in table.index and table.nodes[table.index[node]].zone not in zones


def _ports_taken(snapshot: Snapshot, node: NodeName, pods: Iterable[Pod], others: Iterable[Pod]) -> bool:
    """Whether a host port of `pods` is taken on the node, will be by `others`, or is asked for twice."""
    taken: list[HostPort] = [*snapshot.host_ports.get(node, ())]
    taken += [port for pod in others for port in pod.member_class.constraints.host_ports]
    for pod in pods:
        if ports_conflict(pod.member_class.constraints.host_ports, taken):
            return True
        taken.extend(pod.member_class.constraints.host_ports)
    return False


class Excess(msgspec.Struct, frozen=True):
    """More of a resource than there is, in its own unit."""

    resource: ResourceName
    requested: int
    allocatable: int


class Overcommit(msgspec.Struct, frozen=True):
    """A node, what is too much on it, and its pods by name."""

    node: NodeName
    excess: tuple[Excess, ...]
    pods: tuple[Pod, ...]


def suspects(snapshot: Snapshot) -> frozenset[NodeName]:
    """Nodes on which more is counted than they have, by whatever claims it. Cost: O(nodes × resources) in numpy."""
    table = snapshot.table
    over = (snapshot.used > table.allocatable) & (table.allocatable > 0)
    return frozenset(table.names[row] for row in np.flatnonzero(over.any(axis=1)).tolist())


def overcommits(nodes: Collection[Node], pods: Iterable[Pod]) -> tuple[Overcommit, ...]:
    """Which of `nodes` are over-committed by those of `pods` that are bound to them, by name. Cost: O(pods)."""
    on: dict[NodeName, list[Pod]] = {node.name: [] for node in nodes}
    for pod in pods:
        if pod.node in on and not pod.terminal:
            on[pod.node].append(pod)
    overcommitted = []
    for node in sorted(nodes, key=lambda node: node.name):
        requested = _sums(on[node.name])
        offered = [(name, amount, requested.get(name, 0)) for name, amount in node.allocatable if amount > 0]
        excess = tuple(Excess(name, asked, amount) for name, amount, asked in offered if asked > amount)
        if excess:
            overcommitted.append(Overcommit(node.name, excess, tuple(sorted(on[node.name], key=lambda pod: pod.key))))
    return tuple(overcommitted)
