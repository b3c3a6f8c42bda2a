"""Which nodes a pod may go to, as far as we model kube-scheduler's in-tree filters.

Modelled: unschedulable, taints and tolerations, node selector, required node affinity, host ports; room is
`scoring.model.snapshot`. Everything else (volumes, topology spread, inter-pod affinity) is learned from the NodeNames
that kube-scheduler sends (docs/safety.md S7). Rule: where we differ from kube-scheduler we must err towards "no" only
for nodes on which pods cannot run or stay (docs/safety.md S12): one wrongly allowed costs a plan, one refused is lost.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import product
from operator import or_

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scoring.model import Constraints, HostPort, Node, NodeSelectorTerm, NodeTable, Requirement, Taint, Toleration
from scoring.model.pod import MemberClass, Pod
from scoring.model.snapshot import LabelIndex, RowSet, int64, remember

HOSTNAME_LABEL = "kubernetes.io/hostname"
ANY_IP = "0.0.0.0"  # noqa: S104 - the API's word for "every address", nothing is bound here


def allowed_nodes(table: NodeTable, constraints: Constraints) -> NDArray[np.bool_]:
    """Mask (nodes,) of what `constraints` allow, apart from room and ports, not to be written. Cost: O(lines) once."""
    return remember(table.masks, constraints, lambda: _mask(table, constraints))


def _mask(table: NodeTable, constraints: Constraints) -> NDArray[np.bool_]:
    tolerations, size, labels = constraints.tolerations, len(table.nodes), table.labels
    allowed = reduce(or_, (rows for taints, rows in table.barriers.items() if tolerated(taints, tolerations)), 0)
    if constraints.node_selector or constraints.affinity is not None:
        allowed &= remember(labels.selected, constraints, lambda: _selection(labels, constraints), limit=1024)[1]
    mask = mask_of(allowed, size)
    mask.flags.writeable = False
    return mask


def _selection(labels: LabelIndex, constraints: Constraints) -> tuple[frozenset[str], RowSet]:
    of_terms = [line.key for term in constraints.affinity or () for line in term.expressions]
    keys = frozenset([*of_terms, *(key for key, _ in constraints.node_selector)])
    return keys, selected_rows(labels, constraints)


def mask_of(rows: RowSet, size: int) -> NDArray[np.bool_]:
    """The set of rows as a mask (size,)."""
    packed = np.frombuffer(rows.to_bytes(size // 8 + 1, "little"), np.uint8)
    return np.unpackbits(packed, count=size, bitorder="little").view(np.bool_)


def node_allows(node: Node, constraints: Constraints) -> bool:
    """Whether a pod with `constraints` may run on `node`, leaving aside room and host ports."""
    if not node.ready or node.leaving or not tolerated(node.barriers, constraints.tolerations):
        return False
    selects = constraints.node_selector or constraints.affinity is not None
    return not selects or bool(selected_rows(LabelIndex((node,)), constraints))


def selected_rows(labels: LabelIndex, constraints: Constraints) -> RowSet:
    """Nodes whose labels and names the constraints ask for, whatever their state."""
    rows = labels.all
    for key, value in constraints.node_selector:
        rows &= labels.rows(key)[1].get(value, 0)
    if constraints.affinity is None:
        return rows
    return rows & reduce(or_, [_term_rows(labels, term) for term in constraints.affinity], 0)


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
    return any(port.ip == other.ip or ANY_IP in (port.ip, other.ip) for port, other in pairs)


def tolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> bool:
    """Whether a pod with these tolerations may go where these taints keep pods out."""
    return all(any(_tolerates(line, taint) for line in tolerations if line.key in ("", taint.key)) for taint in taints)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    """As k8s.io/api ToleratesTaint: an empty effect, or empty key with Exists, means all; Gt, Lt: KEP-5471."""
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.operator == "Exists":
        return True
    if toleration.operator in ("Gt", "Lt"):
        mine, limit = int64(taint.value), int64(toleration.value)
        if not toleration.key or mine is None or limit is None:
            return False  # what is no number compares as neither
        return mine > limit if toleration.operator == "Gt" else mine < limit
    return bool(toleration.key) and toleration.operator in ("Equal", "") and toleration.value == taint.value


def _term_rows(labels: LabelIndex, term: NodeSelectorTerm) -> RowSet:
    """As k8s.io/component-helpers nodeaffinity: no requirements match no node; a field is one node's name."""
    rows = labels.all if term.expressions or term.fields else 0
    for line in term.expressions:
        rows &= line_rows(labels, line)
    for line in term.fields:
        named = line.key == "metadata.name" and line.operator in ("In", "NotIn") and len(line.values) == 1
        rows &= _listed(labels.names, line, labels.all) if named else 0
    return rows


def line_rows(labels: LabelIndex, line: Requirement) -> RowSet:
    """Nodes that have what one line asks for. Cost: O(1), or its values."""
    match line.operator:
        case "In" | "NotIn":
            return _listed(labels.rows(line.key)[1], line, labels.all)
        case "Exists":
            return labels.rows(line.key)[0]
        case "DoesNotExist":
            return labels.all ^ labels.rows(line.key)[0]
        case "Gt" | "Lt" if len(line.values) == 1 and (limit := int64(line.values[0])) is not None:
            return labels.beyond(line.key, line.operator, limit)
        case _:
            return 0


def _listed(rows_of: Mapping[str, RowSet], line: Requirement, every: RowSet) -> RowSet:
    rows = 0
    for value in line.values:
        if value in rows_of:
            rows |= rows_of[value]
    return rows if line.operator == "In" else every ^ rows
