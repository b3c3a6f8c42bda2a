"""Where a pair is measured by the probe and by another source: which value counts, and under which endpoint.

Rules:
- A value of another source (perfSONAR) goes first while it is within the soft TTL; past it the newer value counts.
- A node that other sources measure at an endpoint of its own keeps it, and the probe's values are of that endpoint. A
  node without one is measured at its own name. A node that shares its endpoint with others (one host for a site) is
  measured there, and the probe's values of that metric are left out.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from extender.network.answers import row_keys
from extender.network.mapping import NodeMapping
from scoring.ids import EndpointId, NodeName
from scoring.model.policy import Ttl
from scoring.network.measurement import METRICS, MeasurementTable, Metric

PROBE: Final = "probe"  # Name of the source


def with_probe(
    probed: MeasurementTable,
    others: Sequence[MeasurementTable],
    mapping: NodeMapping,
    *,
    nodes: Sequence[NodeName],
    soft_ttl_s: Ttl,
    now_s: float,
) -> tuple[MeasurementTable, NodeMapping]:
    """The rows of the probe that count, under the nodes' endpoints, and where each node is measured then.

    Cost: O(m log m) for m rows of all tables.
    """
    known = set(nodes)
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
