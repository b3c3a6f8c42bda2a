"""kube-scheduler's in-tree filters and scores, for one pod over all nodes at once.

Modelled: NodeResourcesFit, NodePorts and what `scoring.feasibility.filters` knows, as filters; LeastAllocated and
BalancedAllocation over CPU and memory, as scores. Not modelled: volumes, spread, inter-pod affinity, preferred
affinity, preemption. Rules: nodes are looked at in the order of kube-scheduler's node tree, beginning where the last
cycle ended, until as many were found as `percentage` asks for; all together where that is all of them.
"""

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.simulator.pods.kube_scheduler.nodes import SCORED, Nodes
from lab.simulator.pods.kube_scheduler.queueing_hints import Plugin
from scoring.feasibility.filters import allowed_nodes
from scoring.ids import NodeName
from scoring.model import Constraints, MemberClass, Pod
from scoring.model.resources import PODS
from scoring.network.matrix import Ints

_LEAST_NODES = 100
"""minFeasibleNodesToFind"""
_LEAST_PERCENT = 5
_KEPT = 4096
_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
_PORTS = "node(s) didn't have free ports for the requested pod ports"


@dataclass(frozen=True, slots=True)
class Found:
    """What the filters left, in the order in which it was found."""

    names: list[NodeName]
    """Shared where all nodes pass: not to be written to."""
    looked_at: int
    refused_by: frozenset[Plugin]
    said: Mapping[str, int]
    """reason → nodes, where none is left"""


class Filters:
    """The filters of one scheduler, which remember where the last search ended."""

    def __init__(self, nodes: Nodes, *, percentage: int | None = None) -> None:
        self._nodes = nodes
        self._percentage = percentage
        """percentageOfNodesToScore; `None`: kube-scheduler's own sampling"""
        self._start = 0
        self._masks: OrderedDict[Constraints, tuple[int, NDArray[np.bool_]]] = OrderedDict()
        """constraints → version of the node table, nodes that they allow"""
        self._nowhere: OrderedDict[MemberClass, tuple[int, Found]] = OrderedDict()
        """pods that fitted nowhere → at which moment; many alike are tried one after the other"""

    def find(self, pod: Pod) -> Found:
        """Nodes for one pod. Cost: O(nodes · resources), vectorised."""
        nodes, limits = self._nodes, pod.member_class.constraints
        known = self._nowhere.get(pod.member_class)
        if known is not None and known[0] == nodes.moment:
            self._start = (self._start + known[1].looked_at) % max(nodes.count, 1)
            return known[1]
        allowed = self._mask(limits)  # which brings the arrays up to date
        named = _names_nodes(limits)
        tree = np.flatnonzero(allowed) if named else nodes.tree
        passes = allowed & self._has_room(pod)
        if limits.host_ports:
            taken = [row for row in np.flatnonzero(passes).tolist() if nodes.ports_taken(row, limits)]
            passes[taken] = False
        wanted = len(tree) if named else to_find(len(tree), self._percentage)
        if wanted < len(tree):
            tree = np.concatenate([tree[self._start :], tree[: self._start]])
        ranks = np.flatnonzero(passes[tree])
        looked_at = len(tree)
        if len(ranks) >= wanted > 0:
            ranks = ranks[:wanted]
            looked_at = int(ranks[-1]) + 1 if wanted < len(tree) else looked_at
        self._start = (self._start + looked_at) % max(nodes.count, 1)
        by_name = frozenset({Plugin.CONSTRAINTS}) if named else frozenset()
        if len(ranks):
            everywhere = tree is nodes.tree and len(ranks) == len(tree)
            names = nodes.tree_names if everywhere else [nodes.table.names[row] for row in tree[ranks].tolist()]
            return Found(names, looked_at, by_name, {})
        refused_by, said = self._why(pod, tree, allowed)
        found = Found([], looked_at, refused_by | by_name, said)
        self._nowhere[pod.member_class] = nodes.moment, found
        if len(self._nowhere) > _KEPT:
            self._nowhere.popitem(last=False)
        return found

    def score(self, pod: Pod, names: Sequence[NodeName]) -> Ints:
        """In-tree scores of nodes that exist: LeastAllocated and BalancedAllocation, each 0–100."""
        nodes, index = self._nodes, self._nodes.table.index
        rows = np.array([index[name] for name in names], np.int64)
        exact, weighed = nodes.scored(pod.requests)
        room = np.maximum(nodes.room[rows], 1)
        left = np.maximum(room - nodes.weighed[rows] - weighed, 0)
        least = (left * 100 // room).sum(axis=1) // len(SCORED)
        if not exact.any():
            return np.asarray(least, np.int64)  # pods that request nothing are not balanced
        with_it, without = balance((nodes.used[rows] + exact) / room), balance(nodes.used[rows] / room)
        return np.asarray(least + 50 + (50 + with_it - without) // 2, np.int64)

    def _has_room(self, pod: Pod) -> NDArray[np.bool_]:
        table = self._nodes.table
        asked = self._nodes.asked(pod.requests)
        if asked is None:
            return np.zeros(len(table.nodes), np.bool_)
        free, passes = self._nodes.free, np.ones(len(table.nodes), np.bool_)
        for column, amount in asked:
            passes &= free[column] >= amount
        return passes

    def _mask(self, limits: Constraints) -> NDArray[np.bool_]:
        table = self._nodes.table
        known = self._masks.get(limits)
        if known is None or known[0] != table.version:
            known = self._masks[limits] = table.version, allowed_nodes(table, limits)
            if len(self._masks) > _KEPT:
                self._masks.popitem(last=False)
        return known[1]

    def _why(self, pod: Pod, tree: Ints, allowed: NDArray[np.bool_]) -> tuple[frozenset[Plugin], Mapping[str, int]]:
        """Which filters refused at least one node, and in which words for how many."""
        nodes, refused_by, said = self._nodes, set[Plugin](), Counter[str]()
        open_to = tree[allowed[tree]]
        if others := nodes.count - len(open_to):
            refused_by.add(Plugin.CONSTRAINTS)
            said[_AFFINITY] = others
        asked = nodes.asked(pod.requests)
        if asked is None:
            refused_by.add(Plugin.FIT)
            said["Insufficient resources that no node has"] = len(open_to)
            return frozenset(refused_by), said
        axis = nodes.table.axis
        left = np.ones(len(open_to), np.bool_)
        for column, amount in asked:
            short = nodes.free[column, open_to] < amount
            left &= ~short
            if lacking := int(short.sum()):
                refused_by.add(Plugin.FIT)
                said["Too many pods" if axis[column] == PODS else f"Insufficient {axis[column]}"] = lacking
        if blocked := int(left.sum()):
            refused_by.add(Plugin.PORTS)
            said[_PORTS] = blocked
        return frozenset(refused_by), said


def to_find(nodes: int, percentage: int | None) -> int:
    """How many feasible nodes end the search (numFeasibleNodesToFind).

    >>> [to_find(n, None) for n in (99, 100, 250, 1000, 5000, 15000)]
    [99, 100, 120, 420, 500, 750]
    >>> to_find(5000, 100)
    5000
    """
    if nodes < _LEAST_NODES:
        return nodes
    percent = percentage if percentage else max(50 - nodes // 125, _LEAST_PERCENT)
    return max(nodes * percent // 100, _LEAST_NODES)


def balance(fractions: NDArray[np.float64]) -> Ints:
    """How evenly two resources are used, 50–100: 100 less half the distance of their fractions, in percent.

    >>> balance(np.array([[0.5, 0.5], [1.0, 0.0], [2.0, 1.0]])).tolist()
    [100, 50, 100]
    """
    capped = np.minimum(fractions, 1.0)
    return np.asarray((1.0 - np.abs(capped[:, 0] - capped[:, 1]) / 2.0) * 100.0, np.int64)


def _names_nodes(limits: Constraints) -> bool:
    """Whether each term of the required affinity names nodes: the PreFilter then hands on those alone."""
    return bool(limits.affinity) and all(
        any(line.key == "metadata.name" and line.operator == "In" for line in term.fields)
        for term in limits.affinity or ()
    )
