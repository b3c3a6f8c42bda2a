"""Which nodes a pod may go to, as far as we model kube-scheduler's in-tree filters.

Modelled: unschedulable, taints and tolerations, node selector, required node affinity, host ports; room is
`scoring.model.snapshot`. Everything else (volumes, topology spread, inter-pod affinity) is learned from the NodeNames
that kube-scheduler sends (docs/safety.md S7). Rule: where we differ from kube-scheduler we must err towards "no" only
for nodes that cannot run pods at all (docs/safety.md S12): one wrongly allowed costs a plan, one refused is lost.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scoring import NodeName
from scoring.model import Constraints, HostPort, Node, NodeSelectorTerm, NodeTable, Requirement, Taint, Toleration
from scoring.model.pod import MemberClass, Pod

HOSTNAME_LABEL = "kubernetes.io/hostname"
_UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")  # As which `spec.unschedulable` acts
_KEEPS_OUT = ("NoSchedule", "NoExecute")  # Effects of taints that keep a pod out; the third only asks it to stay away
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_ANY_IP = "0.0.0.0"  # noqa: S104 - the API's word for "every address", nothing is bound here


def allowed_nodes(table: NodeTable, constraints: Constraints) -> NDArray[np.bool_]:
    """Mask (nodes,) of what `constraints` allow, apart from room and host ports. Cost: O(nodes), or of those named."""
    if (named := named_only(constraints)) is not None:
        mask = np.zeros(len(table.nodes), np.bool_)
        for row in (table.index[name] for name in named if name in table.index):
            mask[row] = node_allows(table.nodes[row], constraints)
        return mask
    if constraints.node_selector or constraints.affinity is not None:
        return np.array([node_allows(node, constraints) for node in table.nodes], np.bool_)
    # Most pods name no labels, and nodes of one kind have equal taints: each kind is looked at once.
    kinds = [(node.ready, node.leaving, node.unschedulable, node.taints) for node in table.nodes]
    allows = {kind: node_allows(node, constraints) for kind, node in dict(zip(kinds, table.nodes, strict=True)).items()}
    return np.array([allows[kind] for kind in kinds], np.bool_)


def node_allows(node: Node, constraints: Constraints) -> bool:
    """Whether a pod with `constraints` may run on `node`, leaving aside room and host ports."""
    taints = (*node.taints, _UNSCHEDULABLE) if node.unschedulable else node.taints
    tolerations = constraints.tolerations
    for taint in taints:
        if taint.effect in _KEEPS_OUT and not any(_tolerates(toleration, taint) for toleration in tolerations):
            return False
    if not node.ready or node.leaving:
        return False
    if not constraints.node_selector and constraints.affinity is None:
        return True
    labels = dict(node.labels)
    if any(labels.get(key) != value for key, value in constraints.node_selector):
        return False
    return constraints.affinity is None or any(_term_matches(term, labels, node.name) for term in constraints.affinity)


def named_only(constraints: Constraints) -> set[NodeName] | None:
    """The only nodes that the constraints, as an admission or a DaemonSet writes them, can allow; `None`: any."""
    if constraints.affinity is None:
        return None
    names: set[NodeName] = set()
    for term in constraints.affinity:
        fields = [r.values for r in term.fields if r.key == "metadata.name" and r.operator == "In"]
        if not fields:
            return None
        names.update([NodeName(name) for name in fields[0]])
    return names


def widened(terms: Sequence[NodeSelectorTerm], *, zone_label: str) -> tuple[NodeSelectorTerm, ...] | None:
    """The required node affinity of an admitted pod without what the admission added; `None`: there was none before.

    Added were whole terms by name, or the last line of each term.

    >>> by_name = NodeSelectorTerm(fields=(Requirement("metadata.name", "In", ("n1",)),))
    >>> ssd, zone = Requirement("ssd", "Exists"), Requirement("zone", "In", ("a",))
    >>> widened((by_name,), zone_label="zone"), widened((NodeSelectorTerm((zone,)),), zone_label="zone")
    (None, None)
    >>> widened((NodeSelectorTerm((ssd, zone)),), zone_label="zone") == (NodeSelectorTerm((ssd,)),)
    True
    """
    if terms and all(not term.expressions and [r.key for r in term.fields] == ["metadata.name"] for term in terms):
        return None
    wide: list[NodeSelectorTerm] = []
    for term in terms:
        lines = term.expressions
        if lines and lines[-1].operator == "In" and lines[-1].key in (HOSTNAME_LABEL, zone_label):
            lines = lines[:-1]
        if not lines and not term.fields and term.expressions:
            return None  # only the zone was asked for, and by us
        wide.append(NodeSelectorTerm(lines, term.fields))
    return tuple(wide)


def as_written(pod: Pod, *, zone_label: str) -> MemberClass:
    """The class of the pod as its owner wrote it, before its admission."""
    constraints = pod.member_class.constraints
    if pod.admitted_to is None or constraints.affinity is None:
        return pod.member_class
    wide = replace(constraints, affinity=widened(constraints.affinity, zone_label=zone_label))
    return replace(pod.member_class, constraints=wide)


def ports_conflict(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> bool:
    """Whether a wanted host port is taken: same protocol and port, and equal addresses or one of them all addresses."""
    pairs = ((a, b) for a, b in product(wanted, taken) if a.port == b.port and a.protocol == b.protocol)
    return any(port.ip == other.ip or _ANY_IP in (port.ip, other.ip) for port, other in pairs)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    """As k8s.io/api ToleratesTaint: an empty effect, or empty key with Exists, means all; Gt, Lt: KEP-5471."""
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    if toleration.operator in ("Gt", "Lt"):
        return bool(toleration.key) and _compares(toleration.operator, taint.value, toleration.value)
    return bool(toleration.key) and toleration.operator in ("Equal", "") and toleration.value == taint.value


def _term_matches(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    """As k8s.io/component-helpers nodeaffinity: no requirements match no node; a field is one node's name."""
    if not term.expressions and not term.fields:
        return False
    return all(_matches(r, labels.get(r.key)) for r in term.expressions) and all(
        r.key == "metadata.name" and r.operator in ("In", "NotIn") and len(r.values) == 1 and _matches(r, name)
        for r in term.fields
    )


def _matches(requirement: Requirement, value: str | None) -> bool:
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return len(requirement.values) == 1 and _compares(requirement.operator, value, requirement.values[0])
        case _:
            return False


def _compares(operator: str, value: str | None, asked: str) -> bool:
    """Whether the whole number `value` is above (Gt) or below (Lt) `asked`; what is no int64 compares as neither."""
    mine, limit = _whole(value), _whole(asked)
    return mine is not None and limit is not None and (mine > limit if operator == "Gt" else mine < limit)


def _whole(text: str | None) -> int | None:
    """Read a number as Go's ParseInt does: ASCII digits with a sign, no spaces and no underscores, within int64."""
    if text is None or _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
