"""How much of the mesh is known: which nodes have an endpoint, how old values are, which pairs have none.

Why apart from the status: ages and unknown pairs cost a look at every value, so they are counted once per publication
and shown as of then. Rule: only counts and a few names, whatever the size of the cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from extender.network.mapping import NodeMapping
from scoring.model import Node
from scoring.network.matrix import METRICS, Metric, NetworkMatrix

AGE_EDGES_S: Final = (60.0, 300.0, 900.0, 3600.0, 5400.0, 10_800.0, 21_600.0, 93_600.0, 172_800.0)
"""From a minute to two days, with the default TTLs among them."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """One metric at the last publication."""

    ages: tuple[int, ...]
    """Directed pairs with a value of at most each age of `AGE_EDGES_S`, and of any."""
    unknown: int
    """Directed pairs of different endpoints of one zone's nodes that have no value."""


def coverage_of(matrix: NetworkMatrix, nodes: Sequence[Node]) -> dict[Metric, Coverage]:
    """Count a published matrix. Cost: O(pairs · edges)."""
    zones = {node.name: node.zone for node in nodes}
    return {
        metric: Coverage(matrix.count_by_age(metric, AGE_EDGES_S), matrix.count_unknown(metric, zones))
        for metric in METRICS
    }


def node_counts(mapping: NodeMapping) -> dict[Metric, dict[str, int]]:
    """Nodes by metric and state: `mapped`, `unmapped`, `ambiguous`."""
    return {
        metric: {
            "mapped": len(mapping.endpoint_of[metric]),
            "unmapped": len(mapping.unmapped[metric]),
            "ambiguous": sum(one.metric is metric for one in mapping.ambiguous),
        }
        for metric in METRICS
    }
