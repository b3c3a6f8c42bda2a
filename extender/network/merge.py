"""Make one matrix of what all sources gave, and do no work again whose input did not change.

Rule: of several values for one link and metric the newest counts (`NetworkMatrix.merged`), whichever source gave it;
the last matrix itself comes back when the content is the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter

from extender.network.batches import merged
from extender.network.mapping import MappingConfig, NodeMapping, map_nodes, measured_ends
from extender.ports import EndpointInfo
from scoring.model import Node
from scoring.model.policy import Ttl
from scoring.network.matrix import METRICS, MeasurementTable, NetworkMatrix, Zones


@dataclass(frozen=True, slots=True)
class Given:
    """Everything a matrix is built from."""

    tables: Mapping[str, MeasurementTable]  # source → what it gave last
    endpoints: tuple[tuple[EndpointInfo, ...], ...]
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Built:
    """A matrix and what it was built from."""

    given: Given
    mapping: NodeMapping
    matrix: NetworkMatrix


def build(given: Given, last: Built | None, config: MappingConfig, *, zone_ttl_s: Ttl | None, now_s: float) -> Built:
    """Merge and map; with `zone_ttl_s` links without a value have the median of those between their zones, as young."""
    same = last is not None and given.tables == last.given.tables
    if last is not None and same and given.endpoints == last.given.endpoints:
        if given.nodes is last.given.nodes:
            return last
        if _mapped_alike(given.nodes, last.given.nodes):
            return replace(last, given=given)
    measured = measured_ends(given.tables.values())
    mapping = map_nodes(given.nodes, merged(chain(*given.endpoints)), config, measured=measured)
    zones = _zones(given.nodes, zone_ttl_s)
    same = same and last is not None and mapping.endpoint_of == last.mapping.endpoint_of
    if last is not None and same and zones == _zones(last.given.nodes, zone_ttl_s):
        return Built(given, mapping, last.matrix)
    version = 1 if last is None else last.matrix.version + 1
    matrix = NetworkMatrix.merged(
        given.tables, endpoint_of=mapping.endpoint_of, now_s=now_s, version=version, zones=zones
    )
    return Built(given, mapping, matrix)


def _zones(nodes: Sequence[Node], ttl_s: Ttl | None) -> Zones | None:
    if ttl_s is None:
        return None
    return Zones({n.name: n.zone for n in nodes if n.zone}, {metric: ttl_s.of(metric.value) for metric in METRICS})


def _mapped_alike(nodes: Sequence[Node], others: Sequence[Node]) -> bool:
    """Whether nothing differs that a mapping looks at: most changes of nodes are of taints, readiness, cordons."""
    looked_at = attrgetter("name", "zone", "addresses", "annotations", "labels")
    return len(nodes) == len(others) and all(
        one is other or looked_at(one) == looked_at(other) for one, other in zip(nodes, others, strict=True)
    )
