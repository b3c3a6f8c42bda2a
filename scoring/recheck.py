"""Check before commit whether the members at bind still have their places.

Why: between plan and commit other schedulers' pods may have taken room, and nodes may have gone (PAPERS G7). Rule: all
that is known is counted — pods on the node, other gangs' commitments, and every member of the gang that is to go there
— so two gangs never commit to the same room, whoever planned it for them.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from scoring.feasible import node_allows, ports_conflict
from scoring.ids import NodeName, PodUid
from scoring.model import Gang, HostPort, Pod
from scoring.network import Ints
from scoring.snapshot import Snapshot


def members_without_room(snapshot: Snapshot, gang: Gang, assignment: Mapping[PodUid, NodeName]) -> frozenset[PodUid]:
    """Members of `assignment` whose node is gone, does not suit them, or has no room for all that are to go there.

    The snapshot must not hold the gang's own commitment. Cost: O(assignment + other commitments).
    """
    members = {pod.uid: pod for pod in gang.members}
    here: dict[NodeName, list[Pod]] = {}
    lost: set[PodUid] = set()
    for uid, node in assignment.items():
        pod = members.get(uid)
        if pod is None or pod.node is not None:
            continue  # gone or bound: neither takes room that is not counted already
        row = snapshot.table.index.get(node)
        if row is None or not node_allows(snapshot.table.nodes[row], pod.member_class.constraints):
            lost.add(uid)
        else:
            here.setdefault(node, []).append(pod)
    committed, ports = _committed_elsewhere(snapshot, frozenset(here))
    for node, pods in here.items():
        free = _free(snapshot, node) - committed.get(node, 0)
        requests = [snapshot.table.vector(pod.requests) for pod in pods]
        short = any(request is None for request in requests) or bool(
            (np.sum([r for r in requests if r is not None], axis=0) > np.maximum(free, 0)).any()
        )
        if short or _ports_taken((*snapshot.host_ports.get(node, ()), *ports.get(node, ())), pods):
            lost.update(pod.uid for pod in pods)
    return frozenset(lost)


def _free(snapshot: Snapshot, node: NodeName) -> Ints:
    row = snapshot.table.index[node]
    free: Ints = snapshot.table.allocatable[row] - snapshot.used[row]
    return free


def _committed_elsewhere(
    snapshot: Snapshot, nodes: frozenset[NodeName]
) -> tuple[dict[NodeName, Ints], dict[NodeName, tuple[HostPort, ...]]]:
    """What other gangs' members that are not bound yet will take on `nodes`: amounts and host ports."""
    taken: dict[NodeName, Ints] = {}
    ports: dict[NodeName, tuple[HostPort, ...]] = {}
    for key, commitment in snapshot.commitments.items():
        gang = snapshot.gangs.get(key)
        if gang is None or nodes.isdisjoint(commitment.assignment.values()):
            continue
        for pod in gang.pending:
            node = commitment.assignment.get(pod.uid)
            if node in nodes and node is not None:
                request = snapshot.table.vector(pod.requests)
                if request is not None:
                    taken[node] = taken.get(node, np.zeros_like(request)) + request
                ports[node] = (*ports.get(node, ()), *pod.member_class.constraints.host_ports)
    return taken, ports


def _ports_taken(before: Iterable[HostPort], pods: list[Pod]) -> bool:
    taken = list(before)
    for pod in pods:
        if ports_conflict(pod.member_class.constraints.host_ports, taken):
            return True
        taken.extend(pod.member_class.constraints.host_ports)
    return False
