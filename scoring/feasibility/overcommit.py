"""Nodes whose bound pods request more than the node has: two schedulers have bound to them at the same moment.

Why it happens: each kube-scheduler counts by its own cache, and a Binding is not checked against the node by the API
server. Rule: only bound pods count (nominated and planned ones hold nothing yet), and only resources that the node
offers: one that comes from elsewhere (DRA), or that a device plugin has withdrawn, is no contradiction of schedulers.
"""

from collections.abc import Collection, Iterable

import msgspec
import numpy as np

from scoring.ids import NodeName, ResourceName
from scoring.model import Node, Pod, Snapshot


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
    found = []
    for node in sorted(nodes, key=lambda one: one.name):
        theirs = sorted(on[node.name], key=lambda pod: pod.key)
        if excess := _excess(node, theirs):
            found.append(Overcommit(node.name, excess, tuple(theirs)))
    return tuple(found)


def _excess(node: Node, pods: Iterable[Pod]) -> tuple[Excess, ...]:
    requested: dict[ResourceName, int] = {}
    for pod in pods:
        for name, amount in pod.requests:
            requested[name] = requested.get(name, 0) + amount
    offered = [(name, amount) for name, amount in node.allocatable if amount > 0]
    return tuple(Excess(name, requested[name], amount) for name, amount in offered if requested.get(name, 0) > amount)
