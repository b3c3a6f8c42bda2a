"""What changes of nodes, room and links do to a situation."""

from dataclasses import replace
from itertools import count
from typing import Final

from scoring.ids import EndpointId, NodeName
from scoring.model import Node, Resources
from scoring.model.constraints import Taint
from scoring.model.resources import PODS
from scoring.network.measurement import Measurement
from scoring.what_if.changes import (
    AddCapacity,
    AddNodes,
    CordonNodes,
    MisfitError,
    RemoveNodes,
    SetLink,
    TaintNodes,
    UncordonNodes,
    UntaintNodes,
    amount_of,
    resources_of,
)
from scoring.what_if.draft import Draft

LARGEST: Final = 2**53  # Of one resource on one node: sums over all nodes must stay exact
_USUAL_PODS: Final = 110  # kubelet's default for how many pods a node takes
_HOSTNAME: Final = "kubernetes.io/hostname"
_ORIGIN: Final = "what-if"  # Source that supposed values of links are said to be from


def add_capacity(draft: Draft, change: AddCapacity) -> None:
    """Enlarge nodes of the zone."""
    nodes = draft.nodes
    there = sorted(name for name, node in nodes.items() if node.zone == change.zone)
    if not there:
        raise MisfitError(f"zone: there is no node in zone {change.zone!r}")
    amount = amount_of("amount", change.resource, change.amount)
    if not 1 <= amount <= LARGEST:
        raise MisfitError(f"amount: {change.amount} is not between 1 and {LARGEST}")
    shares = {name: amount_of(f"nodes.{name}", change.resource, part) for name, part in change.nodes.items()}
    if not shares:
        shares = {max(there, key=lambda name: nodes[name].allocatable.get(change.resource)): amount}
    if sum(shares.values()) != amount:
        raise MisfitError(f"nodes: the amounts of the nodes are not {change.amount} together")
    for name, more in shares.items():
        node = draft.nodes.get(name)
        if node is None or node.zone != change.zone:
            raise MisfitError(f"nodes: {name} is no node of zone {change.zone!r}")
        if node.allocatable.get(change.resource) + more > LARGEST:
            raise MisfitError(f"nodes: {name} cannot have {more} more")
        draft.put_node(replace(node, allocatable=node.allocatable + Resources.of({change.resource: more})))


def add_nodes(draft: Draft, change: AddNodes) -> None:
    """Add empty nodes."""
    like = None
    if change.like is not None:
        like = draft.nodes.get(change.like)
        if like is None:
            raise MisfitError(f"like: there is no node {change.like}")
    asked = resources_of("allocatable", change.allocatable)
    allocatable = asked if asked.items or like is None else like.allocatable
    if not allocatable.items:
        raise MisfitError("allocatable: say what each node has, or which node they are like")
    if not allocatable.get(PODS):
        allocatable = allocatable + Resources.of({PODS: _USUAL_PODS})
    if any(not 0 <= amount <= LARGEST for _, amount in allocatable):
        raise MisfitError(f"allocatable: an amount is not between 0 and {LARGEST}")
    taken = {*draft.nodes, *draft.base.snapshot.table.names}
    numbered = (NodeName(f"what-if-{change.zone or 'nowhere'}-{i}") for i in count())
    names = (name for name in numbered if name not in taken)
    for _ in range(change.count):
        draft.put_node(_new_node(draft, next(names), change, like, allocatable))


def remove_nodes(draft: Draft, change: RemoveNodes) -> None:
    """Take nodes away, with all that runs there; members of gangs stay known, as the API server would show them."""
    for name in change.nodes:
        if name not in draft.nodes:
            raise MisfitError(f"nodes: there is no node {name}")
        draft.drop_node(name)


def change_nodes(draft: Draft, change: CordonNodes | UncordonNodes | TaintNodes | UntaintNodes) -> None:
    """Cordon or taint nodes, or take that back; what runs on them stays."""
    for name in change.nodes:
        node = draft.nodes.get(name)
        if node is None:
            raise MisfitError(f"nodes: there is no node {name}")
        match change:
            case CordonNodes() | UncordonNodes():
                draft.put_node(replace(node, unschedulable=isinstance(change, CordonNodes)))
            case TaintNodes(_, key, effect, value):
                others = (one for one in node.taints if (one.key, one.effect) != (key, effect))
                draft.put_node(replace(node, taints=(*others, Taint(key, value, effect))))
            case UntaintNodes(_, key, effect):
                left = tuple(one for one in node.taints if one.key != key or effect not in (None, one.effect))
                if left == node.taints:
                    raise MisfitError(f"key: node {name} has no taint {key}{f':{effect}' if effect else ''}")
                draft.put_node(replace(node, taints=left))


def set_link(draft: Draft, change: SetLink) -> None:
    """Measure a link again."""
    network = draft.network
    known = set(network.endpoints)
    ends: list[EndpointId] = []
    for field, name in (("source", change.source), ("target", change.target)):
        end = network.endpoint(NodeName(name), change.metric) or EndpointId(name)
        if end not in known:
            raise MisfitError(f"{field}: {name} is neither a node that is measured nor an endpoint")
        ends.append(end)
    if ends[0] == ends[1]:
        raise MisfitError("target: both ends are measured at the same place, so their link is not looked at")
    try:
        found = Measurement(ends[0], ends[1], change.metric, change.value, network.evaluated_at_s)
    except ValueError as error:
        raise MisfitError(f"value: {error}") from error
    draft.network = network.with_measurements([found], origin=_ORIGIN)


def _new_node(draft: Draft, name: NodeName, change: AddNodes, like: Node | None, allocatable: Resources) -> Node:
    labels = dict(like.labels) if like is not None else {}
    labels |= {**change.labels, _HOSTNAME: name}
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
