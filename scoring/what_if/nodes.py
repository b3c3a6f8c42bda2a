"""What changes of nodes, room and links do to a situation."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from scoring.ids import EndpointId, NodeName, ZoneName
from scoring.model import Node
from scoring.model.resources import PODS, Resources
from scoring.network.measurement import Measurement
from scoring.what_if.changes import AddCapacity, AddNodes, Misfit, RemoveNodes, SetLink
from scoring.what_if.draft import Draft

MOST_NODES: Final = 1000
"""That one change may add."""
LARGEST: Final = 2**53
"""Of one resource on one node: sums over all nodes must stay exact."""
_USUAL_PODS: Final = 110
"""kubelet's default for how many pods a node takes."""
_HOSTNAME: Final = "kubernetes.io/hostname"
_ORIGIN: Final = "what-if"
"""Source that supposed values of links are said to be from."""


def add_capacity(draft: Draft, change: AddCapacity, number: int) -> Misfit | None:
    """Enlarge nodes of the zone."""
    nodes = draft.nodes
    there = sorted(name for name, node in nodes.items() if node.zone == change.zone)
    if not there:
        return Misfit(number, "zone", f"there is no node in zone {change.zone!r}")
    if change.amount < 1 or change.amount > LARGEST:
        return Misfit(number, "amount", f"{change.amount} is not between 1 and {LARGEST}")
    shares = change.nodes
    if not shares:
        most = max(there, key=lambda name: nodes[name].allocatable.get(change.resource))
        shares = ((most, change.amount),)
    if sum(amount for _, amount in shares) != change.amount:
        return Misfit(number, "nodes", f"the amounts of the nodes are not {change.amount} together")
    for name, amount in shares:
        node = draft.nodes.get(name)
        if node is None or node.zone != change.zone:
            return Misfit(number, "nodes", f"{name} is no node of zone {change.zone!r}")
        if amount < 0 or node.allocatable.get(change.resource) + amount > LARGEST:
            return Misfit(number, "nodes", f"{name} cannot have {amount} more")
        draft.put_node(replace(node, allocatable=node.allocatable + Resources.of({change.resource: amount})))
    return None


def add_nodes(draft: Draft, change: AddNodes, number: int) -> Misfit | None:
    """Add empty nodes."""
    if not 1 <= change.count <= MOST_NODES:
        return Misfit(number, "count", f"{change.count} is not between 1 and {MOST_NODES}")
    like = None
    if change.like is not None:
        like = draft.nodes.get(change.like)
        if like is None:
            return Misfit(number, "like", f"there is no node {change.like}")
    allocatable = change.allocatable if change.allocatable.items or like is None else like.allocatable
    if not allocatable.items:
        return Misfit(number, "allocatable", "say what each node has, or which node they are like")
    if not allocatable.get(PODS):
        allocatable = allocatable + Resources.of({PODS: _USUAL_PODS})
    if any(not 0 <= amount <= LARGEST for _, amount in allocatable):
        return Misfit(number, "allocatable", f"an amount is not between 0 and {LARGEST}")
    names = _free_names(draft, change.zone)
    for _ in range(change.count):
        draft.put_node(_new_node(draft, next(names), change, like, allocatable))
    return None


def remove_nodes(draft: Draft, change: RemoveNodes, number: int) -> Misfit | None:
    """Take nodes away, with all that runs there; members of gangs stay known, as the API server would show them."""
    for name in change.nodes:
        if name not in draft.nodes:
            return Misfit(number, "nodes", f"there is no node {name}")
        draft.drop_node(name)
    return None


def set_link(draft: Draft, change: SetLink, number: int) -> Misfit | None:
    """Measure a link again."""
    network = draft.network
    known = set(network.endpoints)
    ends: list[EndpointId] = []
    for field, name in (("source", change.source), ("target", change.target)):
        end = network.endpoint(NodeName(name), change.metric) or EndpointId(name)
        if end not in known:
            return Misfit(number, field, f"{name} is neither a node that is measured nor an endpoint")
        ends.append(end)
    if ends[0] == ends[1]:
        return Misfit(number, "target", "both ends are measured at the same place, so their link is not looked at")
    try:
        found = Measurement(ends[0], ends[1], change.metric, change.value, network.evaluated_at_s)
    except ValueError as error:
        return Misfit(number, "value", str(error))
    draft.network = network.with_measurements([found], origin=_ORIGIN)
    return None


def _free_names(draft: Draft, zone: ZoneName) -> Iterator[NodeName]:
    """Names that no node has or had."""
    taken = {*draft.nodes, *draft.base.snapshot.table.names}
    number = 0
    while True:
        name = NodeName(f"what-if-{zone or 'nowhere'}-{number}")
        number += 1
        if name not in taken:
            yield name


def _new_node(draft: Draft, name: NodeName, change: AddNodes, like: Node | None, allocatable: Resources) -> Node:
    labels = dict(like.labels) if like is not None else {}
    labels |= dict(change.labels) | {_HOSTNAME: name}
    if change.zone:
        labels[draft.policy.zone_label] = change.zone
    else:
        labels.pop(draft.policy.zone_label, None)
    return Node(
        name=name,
        zone=change.zone,
        allocatable=allocatable,
        labels=tuple(sorted(labels.items())),
        taints=like.taints if like is not None else (),
        created_s=draft.now_s,
    )
