"""Measured links between nodes, without estimates: what is said about links is said of nodes and their zones.

Why not the matrix itself: it knows endpoints, and people ask which node, and which zone. Rule: an endpoint that several
nodes share (one host for a site) stands for the first of them by name; links between endpoints of no node are left out.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scoring.ids import NodeName, ZoneName
from scoring.network.matrix import NetworkMatrix
from scoring.network.measurement import METRICS, Floats, Ints, Metric

Bools: TypeAlias = NDArray[np.bool_]


class Rows(NamedTuple):
    """Directed links with a value of one metric; nodes are numbers in `NodeLinks.names`."""

    source: Ints
    target: Ints
    value: Floats
    age_s: Floats

    def where(self, chosen: Bools) -> "Rows":
        """Only these."""
        return Rows(self.source[chosen], self.target[chosen], self.value[chosen], self.age_s[chosen])


class NodeLinks(msgspec.Struct, frozen=True):
    """Per metric the links that have a value."""

    names: tuple[NodeName, ...]  # Sorted
    zones: tuple[ZoneName, ...]  # Sorted
    zone: Ints  # (names,) number of the node's zone
    rows: Mapping[Metric, Rows]

    def within(self, ages_s: Mapping[Metric, float | None]) -> "NodeLinks":
        """Only values younger than the age of their metric; `None`: of any age. Cost: O(links)."""
        found = {}
        for metric, rows in self.rows.items():
            young = rows.age_s < (np.inf if (age_s := ages_s[metric]) is None else age_s)
            found[metric] = rows.where(young)
        return replace(self, rows=found)

    def inside(self, metric: Metric) -> Bools:
        """Which of the metric's links are between two nodes of one zone."""
        rows = self.rows[metric]
        return np.asarray(self.zone[rows.source] == self.zone[rows.target], np.bool_)


def links_of(matrix: NetworkMatrix, zone_of: Mapping[NodeName, ZoneName]) -> NodeLinks:
    """Links of a matrix, of any age, between nodes of these zones. Cost: O(links + nodes)."""
    names, zones = tuple(sorted(zone_of)), tuple(sorted(set(zone_of.values())))
    number = {zone: i for i, zone in enumerate(zones)}
    index = {name: row for row, name in enumerate(names)}
    rows = {}
    for metric in METRICS:
        row_of = rows_of_ends(matrix, index, metric)
        ends_from, ends_to, values, ages_s = matrix.measured_values(metric)
        source, target = row_of[ends_from], row_of[ends_to]
        between_nodes = (source >= 0) & (target >= 0) & (source != target)
        rows[metric] = Rows(source, target, values, ages_s).where(between_nodes)
    return NodeLinks(names, zones, np.array([number[zone_of[name]] for name in names], np.int64), rows)


def rows_of_ends(matrix: NetworkMatrix, index: Mapping[NodeName, int], metric: Metric) -> Ints:
    """(endpoints,) row in `index` of the first node that is measured there, −1 for none. Cost: O(nodes)."""
    number = {end: i for i, end in enumerate(matrix.endpoints)}
    rows = np.full(len(matrix.endpoints), -1, np.int64)
    for node, end in sorted(matrix.endpoint_of.get(metric, {}).items(), reverse=True):
        if node in index and end in number:
            rows[number[end]] = index[node]
    return rows
