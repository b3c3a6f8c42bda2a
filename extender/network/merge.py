"""Make one matrix of what all sources gave, the newest value of each; the same content is the same matrix.

Rules for pairs that netgang's own probe measures too:
- A value of another source (perfSONAR) goes first while it is within the soft TTL; past it the newer value counts.
- A node that other sources measure at an endpoint of its own keeps it, for the probe's values too. A node without one
  is measured at its own name. A node that shares its endpoint with others (one host for a site) is measured there, and
  the probe's values of that metric are left out.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from extender.network.answers import merged, row_keys
from extender.network.mapping import NodeMapping, map_nodes, measured_ends
from extender.ports import EndpointInfo
from extender.settings.network import NetworkSettings
from scoring.ids import EndpointId, NodeName
from scoring.model import Node
from scoring.model.policy import Ttl
from scoring.network.matrix import METRICS, MeasurementTable, Metric, NetworkMatrix, Zones

PROBE: Final = "probe"  # Name of the source
_LOOKED_AT: Final = attrgetter("name", "zone", "addresses", "annotations", "labels")
"""What a mapping looks at: most changes of nodes are of taints, readiness, cordons."""


class Given(msgspec.Struct, frozen=True):
    """Everything a matrix is built from."""

    tables: Mapping[str, MeasurementTable]  # source → what it gave last
    endpoints: tuple[tuple[EndpointInfo, ...], ...]
    nodes: tuple[Node, ...]


def with_probe(
    given: Given, mapping: NodeMapping, *, soft_ttl_s: Ttl, now_s: float
) -> tuple[MeasurementTable, NodeMapping]:
    """The probe's rows that count, under the nodes' endpoints, and where nodes are measured then. Cost: O(m log m)."""
    probed, others = given.tables[PROBE], [table for name, table in given.tables.items() if name != PROBE]
    known = {node.name for node in given.nodes}
    endpoint_of = dict(mapping.endpoint_of)
    number: dict[EndpointId, int] = {}  # endpoint → its number in the new table
    keep = np.zeros(len(probed), np.bool_)
    source, target = probed.source.copy(), probed.target.copy()
    for metric in METRICS:
        rows = probed.metric == METRICS.index(metric)
        if metric is Metric.THROUGHPUT and not rows.any():
            continue  # off by default: nodes are not to look measured
        of = dict(mapping.endpoint_of.get(metric, {}))
        nodes_at = Counter(of.values())
        place = np.full(len(probed.ends), -1, np.int32)
        for i, end in enumerate(probed.ends):
            node = NodeName(end)
            alone = nodes_at[of[node]] == 1 if node in of else not nodes_at[end]
            if node in known and alone:
                place[i] = number.setdefault(of.setdefault(node, end), len(number))
        endpoint_of[metric] = of
        source[rows], target[rows] = place[probed.source[rows]], place[probed.target[rows]]
        keep |= rows & (source >= 0) & (target >= 0)
    for table in others:
        for end in table.ends:
            number.setdefault(end, len(number))
    soft_s = np.array([np.inf if (age_s := soft_ttl_s.of(m.value)) is None else age_s for m in METRICS])
    fresh = []
    for table in others:
        ends = np.array([number[end] for end in table.ends], np.int64)
        rows = now_s - table.measured_at_s < soft_s[table.metric]
        fresh.append(row_keys(table.metric[rows], ends[table.source[rows]], ends[table.target[rows]], of=len(number)))
    if fresh:
        keep &= ~np.isin(row_keys(probed.metric, source, target, of=len(number)), np.concatenate(fresh))
    columns: tuple[NDArray[Any], ...] = (probed.metric, source, target, probed.value, probed.measured_at_s)
    table = MeasurementTable(tuple(number), *(column[keep] for column in columns)).compact()
    unmapped = {
        metric: tuple(node for node in names if node not in endpoint_of.get(metric, {}))
        for metric, names in mapping.unmapped.items()
    }
    return table, replace(mapping, endpoint_of=endpoint_of, unmapped=unmapped)


class Built(msgspec.Struct, frozen=True):
    """A matrix and what it was built from."""

    given: Given
    mapping: NodeMapping
    matrix: NetworkMatrix


def build(given: Given, last: Built | None, config: NetworkSettings, *, zone_fallback: bool, now_s: float) -> Built:
    """Merge and map; with `zone_fallback` links without a value have the median of those between their zones."""
    same = last is not None and given.tables == last.given.tables
    if last is not None and same and given.endpoints == last.given.endpoints:
        if given.nodes is last.given.nodes:
            return last
        both = zip(given.nodes, last.given.nodes, strict=False)
        alike = (one is other or _LOOKED_AT(one) == _LOOKED_AT(other) for one, other in both)
        if len(given.nodes) == len(last.given.nodes) and all(alike):
            return replace(last, given=given)
    tables = {name: table for name, table in given.tables.items() if name != PROBE}
    measured = measured_ends(tables.values())
    mapping = map_nodes(given.nodes, merged(chain(*given.endpoints)), config, measured=measured)
    if PROBE in given.tables:
        tables[PROBE], mapping = with_probe(given, mapping, soft_ttl_s=config.soft_ttl_s, now_s=now_s)
    zone_ttl_s = config.hard_ttl_s if zone_fallback else None
    zones = _zones(given.nodes, zone_ttl_s)
    same = same and last is not None and mapping.endpoint_of == last.mapping.endpoint_of
    if last is not None and same and zones == _zones(last.given.nodes, zone_ttl_s):
        return Built(given, mapping, last.matrix)
    version = 1 if last is None else last.matrix.version + 1
    matrix = NetworkMatrix.merged(tables, endpoint_of=mapping.endpoint_of, now_s=now_s, version=version, zones=zones)
    return Built(given, mapping, matrix)


def _zones(nodes: Sequence[Node], ttl_s: Ttl | None) -> Zones | None:
    if ttl_s is None:
        return None
    return Zones({n.name: n.zone for n in nodes if n.zone}, {metric: ttl_s.of(metric.value) for metric in METRICS})
