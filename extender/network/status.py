"""How the sources do, and how much of the mesh is known: nodes with an endpoint, ages of values, pairs without one.

Rule: only counts and a few names, whatever the size of the cluster. Ages and unknown pairs cost a look at every value,
so they are counted once per publication and shown as of then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from extender.network.mapping import NodeMapping
from extender.schemas.network import Coverage, Source
from scoring.model import Node
from scoring.network.matrix import METRICS, Metric, NetworkMatrix, PairCounts

AGE_EDGES_S: Final = (60.0, 300.0, 900.0, 3600.0, 5400.0, 10_800.0, 21_600.0, 93_600.0, 172_800.0)
"""From a minute to two days, with the default TTLs among them."""


@dataclass(frozen=True, slots=True)
class NetworkStatus:
    """What /readyz and /v1/network show."""

    version: int
    published_at_s: float | None
    sources: tuple[Source, ...]
    known_pairs: Mapping[Metric, int]  # metric → directed pairs of endpoints with a value, of any age
    pairs: Mapping[Metric, PairCounts]  # metric → the same by age, as of now
    coverage: Mapping[Metric, Coverage]  # metric → ages and unknown pairs, as of the last publication; empty before it
    mapping: NodeMapping | None  # Unmapped, ambiguous, unknown, unused; `None` before the first data
    crash: str | None  # An unforeseen error, until the work that met it succeeds again

    @property
    def ready(self) -> bool:
        """Failing sources do not make the service unready (it works on without), only our own errors do."""
        return self.crash is None


def coverage_of(matrix: NetworkMatrix, nodes: Sequence[Node]) -> dict[Metric, Coverage]:
    """Count a published matrix. Cost: O(pairs · edges)."""
    zones = {node.name: node.zone for node in nodes}
    return {
        metric: Coverage(ages=matrix.count_by_age(metric, AGE_EDGES_S), unknown=matrix.count_unknown(metric, zones))
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
