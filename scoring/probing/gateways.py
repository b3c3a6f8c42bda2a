"""Which values between zones still count once other nodes are the gateways.

Why: two zones measure each other by a few nodes at a time, others every few minutes. A fault of an uplink is in the
values of all that measured it meanwhile; those of former gateways would show it as long as they are kept, and would
hide the next one. Rules: loss and delay between two zones count for `keep_s` after those that were measured last there;
what a clock that was set back left in the future counts as measured now, and pushes nothing out.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from scoring.ids import EndpointId, ZoneName
from scoring.network.measurement import METRICS, Floats, MeasurementTable, Metric

_BURSTS: Final = METRICS.index(Metric.THROUGHPUT)  # They take turns of their own, hours apart


def of_gateways(
    table: MeasurementTable, zone_of: Mapping[EndpointId, ZoneName], *, now_s: float, keep_s: float
) -> MeasurementTable:
    """The table without what former gateways measured; rows inside a zone all stay. Cost: O(rows · log rows).

    >>> from scoring.network.measurement import Measurement
    >>> table = MeasurementTable.of(
    ...     Measurement(one, "b", Metric.LOSS, loss, at_s) for one, loss, at_s in (("a1", 0.1, 0.0), ("a2", 0.0, 90.0))
    ... )
    >>> [row.source for row in of_gateways(table, {"a1": "a", "a2": "a", "b": "b"}, now_s=90.0, keep_s=60.0)]
    ['a2']
    >>> len(of_gateways(table, {"a1": "a", "a2": "a", "b": "a"}, now_s=90.0, keep_s=60.0))
    2
    """
    zones = {zone: number for number, zone in enumerate(sorted(set(zone_of.values())))}
    zone = np.array([zones[zone_of[end]] for end in table.ends], np.int64)
    one, other = zone[table.source], zone[table.target]
    key = (one * len(zones) + other) * len(METRICS) + table.metric
    groups, group = np.unique(key, return_inverse=True)
    last_s: Floats = np.full(len(groups), -np.inf)
    np.maximum.at(last_s, group, np.minimum(table.measured_at_s, now_s))
    stays = (one == other) | (table.metric == _BURSTS) | (table.measured_at_s >= last_s[group] - keep_s)
    if stays.all():
        return table
    return MeasurementTable(table.ends, *(column[stays] for column in table.columns)).compact()
