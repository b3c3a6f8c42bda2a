"""The network matrix of a few nodes in numbers, for people and `netgang network show`.

Why bounded: 5,000 nodes have 25 million pairs, which neither the event loop nor a reader could take. Rule: the nodes of
one zone, or of the whole cluster, in the order of their names, and never more than `MOST_NODES` of them.
"""

from itertools import islice
from typing import Any, Final

import numpy as np

from scoring.ids import ZoneName
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import Floats

USUAL_NODES: Final = 40
MOST_NODES: Final = 100
"""10,000 pairs: about 5 ms of work and 400 kB."""


def pairs_document(snapshot: Snapshot, *, zone: str | None = None, limit: int = USUAL_NODES) -> dict[str, Any]:
    """Values and ages of all directed pairs of some nodes, as matrices indexed [from][to]; `None` is unknown.

    `zone`: only its nodes; a zone that does not exist has none. The diagonal and nodes that share their endpoint are
    `None`: no source measures them. Units: ratio, ms, bit/s, seconds. Cost: O(limit²).
    """
    table = snapshot.table
    if zone is None:
        names, of = list(islice(table.names, min(limit, MOST_NODES))), len(table.names)
    else:
        rows = table.zones.get(ZoneName(zone), np.empty(0, np.int64))
        names, of = [table.names[row] for row in rows[: min(limit, MOST_NODES)]], len(rows)
    block = snapshot.network.block(names, names)
    return {
        "zone": zone,
        "nodes": names,
        "of": of,
        "loss_ratio": _plain(block.loss_ratio),
        "delay_ms": _plain(block.delay_ms),
        "throughput_bps": _plain(block.throughput_bps),
        "loss_age_s": _plain(block.loss_age_s),
        "delay_age_s": _plain(block.delay_age_s),
        "throughput_age_s": _plain(block.throughput_age_s),
    }


def zones_document(snapshot: Snapshot) -> dict[str, int]:
    """Each zone with the number of its nodes."""
    return {zone: len(rows) for zone, rows in snapshot.table.zones.items()}


def _plain(values: Floats) -> list[list[float | None]]:
    return [[None if value != value else value for value in row] for row in values.tolist()]
