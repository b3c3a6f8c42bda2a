"""What keeps a gang's pods off each node, room apart: cordon, taint, label, host port, kube-scheduler's own filters.

Why per node and not per filter: people ask which nodes, and how many of them. The first thing found counts. Labels come
first: a node that the pods do not select is not meant, whatever its state; then in the order in which its removal would
have to happen. Cost: O(nodes).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from scoring.explain.words import shown
from scoring.feasibility.filters import node_allows
from scoring.ids import NodeName, ZoneName
from scoring.model import Constraints, MemberClass, Node, Resources, Taint
from scoring.plan import Run

_KEEPS_OUT: Final = ("NoSchedule", "NoExecute")


class Kind(StrEnum):
    """What keeps pods off a node."""

    NOT_READY = "NodesNotReady"
    LEAVING = "NodesLeaving"
    CORDONED = "NodesCordoned"
    TAINT = "TaintNotTolerated"
    LABEL = "NodeLabelMissing"
    REFUSED = "NodesRefused"
    PORT = "HostPortTaken"


@dataclass(frozen=True, slots=True)
class Barrier:
    """One thing that keeps pods off nodes; `what`: which taint or port."""

    kind: Kind
    what: str = ""


def barriers(run: Run, member_class: MemberClass, rows: Sequence[int]) -> Mapping[Barrier, tuple[int, ...]]:
    """Of `rows` those that members of the class may not use, by the first thing that keeps them off."""
    constraints = member_class.constraints
    open_to_all = Constraints(tolerations=constraints.tolerations)
    mask = run.capacity.mask(member_class)
    refused = run.snapshot.excluded(member_class)
    found: dict[Barrier, list[int]] = {}
    for row in rows:
        if not mask[row]:
            node = run.table.nodes[row]
            found.setdefault(_barrier(node, constraints, open_to_all, node.name in refused), []).append(row)
    return {barrier: tuple(at) for barrier, at in found.items()}


def _barrier(node: Node, constraints: Constraints, open_to_all: Constraints, refused: bool) -> Barrier:
    if not node_allows(without_state(node), Constraints(constraints.node_selector, constraints.affinity)):
        return Barrier(Kind.LABEL)
    if not node.ready:
        return Barrier(Kind.NOT_READY)
    if node.leaving:
        return Barrier(Kind.LEAVING)
    if not node_allows(node, open_to_all):
        taints = untolerated(node, constraints)
        return Barrier(Kind.TAINT, ", ".join(taints)) if taints else Barrier(Kind.CORDONED)
    if refused or not constraints.host_ports:
        return Barrier(Kind.REFUSED)
    ports = sorted({str(one.port) for one in constraints.host_ports})
    return Barrier(Kind.PORT, shown(", ".join(ports)))


def without_state(node: Node) -> Node:
    """The node as its labels alone describe it: ready, not cordoned, without taints."""
    return replace(node, ready=True, leaving=False, unschedulable=False, taints=())


def untolerated(node: Node, constraints: Constraints) -> list[str]:
    """The node's taints that keep the pods off, as kubectl writes them.

    >>> from tests.builders import node
    >>> untolerated(node("n", taints=[Taint("dedicated", "ml", "NoSchedule")]), Constraints())
    ['dedicated=ml:NoSchedule']
    """
    tolerant = Constraints(tolerations=constraints.tolerations)
    return [
        f"{one.key}{f'={one.value}' if one.value else ''}:{one.effect}"
        for one in sorted(node.taints, key=lambda taint: (taint.key, taint.value, taint.effect))
        if one.effect in _KEEPS_OUT and not node_allows(_tainted(one), tolerant)
    ]


def _tainted(taint: Taint) -> Node:
    return Node(NodeName("any"), ZoneName(""), Resources(), (), (taint,))
