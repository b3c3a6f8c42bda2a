"""The network in numbers: sources, mapping, and the values between a few nodes, for people and `netgang network`.

Why bounded: 5,000 nodes have 25 million pairs, which neither the event loop nor a reader could take. Rule: the nodes of
one zone, or of the whole cluster, in the order of their names, and never more than `MOST_NODES` of them.
"""

from collections.abc import Sequence, Sized
from typing import Final

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from extender.network.mapping import NodeMapping
from extender.network.merge import NetworkStatus, node_counts
from extender.schemas import network as schema
from scoring.ids import ZoneName
from scoring.model.snapshot import Snapshot
from scoring.network.degraded import Degraded
from scoring.network.matrix import METRICS, Floats

USUAL_NODES: Final = 40
MOST_NODES: Final = 100  # 10,000 pairs: about 5 ms of work and 400 kB
_NAMED: Final = 100  # Nodes, endpoints and doubts that are named of each list; the others are counted
_VALUES: Final = ("loss_ratio", "delay_ms", "throughput_bps", "loss_age_s", "delay_age_s", "throughput_age_s")


def network_document(
    snapshot: Snapshot,
    status: NetworkStatus | None,
    *,
    zone: str | None = None,
    limit: int = USUAL_NODES,
    degraded: Sequence[Degraded] = (),
    probe: schema.ProbeAgents | UnsetType = UNSET,
) -> schema.Network:
    """The network as the planner sees it. `status` is `None` without sources. Cost: O(nodes + limit²)."""
    network = snapshot.network
    return schema.Network(
        version=network.version,
        evaluated_at_s=network.evaluated_at_s,
        metrics={
            metric.value: schema.KnownPairs(
                known_pairs=network.known_pairs(metric),
                mapped_nodes=sum(node in network.endpoint_of.get(metric, {}) for node in snapshot.table.names),
                nodes=len(snapshot.table.names),
            )
            for metric in METRICS
        },
        zones={name: len(rows) for name, rows in snapshot.table.zones.items()},
        pairs=_pairs(snapshot, zone=zone, limit=limit),
        status=UNSET if status is None else _status(status),
        degraded=degraded_links(degraded),
        probe=probe,
    )


def degraded_links(found: Sequence[Degraded]) -> tuple[schema.DegradedLinks, ...]:
    """Nodes and zones with bad links, at most `_NAMED`."""
    return tuple(
        schema.DegradedLinks(
            one.about.kind.value, one.about.name, one.metric.value, one.bad, one.of, one.worst, *one.where
        )
        for one in found[:_NAMED]
    )


def mapping_document(mapping: NodeMapping, *, most: int = _NAMED) -> schema.Mapping:
    """Counts of nodes, and of each list its first `most` entries. Cost: O(ambiguous + most)."""

    def beyond(names: Sized) -> int:
        return max(len(names) - most, 0)

    return schema.Mapping(
        nodes={metric.value: counts for metric, counts in node_counts(mapping).items()},
        unmapped={metric.value: mapping.unmapped[metric][:most] for metric in METRICS},
        ambiguous=tuple(schema.AmbiguousNode.copied(one) for one in mapping.ambiguous[:most]),
        unknown=mapping.unknown[:most],
        unused=mapping.unused[:most],
        left_out=schema.LeftOut(
            unmapped={metric.value: beyond(mapping.unmapped[metric]) for metric in METRICS},
            ambiguous=beyond(mapping.ambiguous),
            unknown=beyond(mapping.unknown),
            unused=beyond(mapping.unused),
        ),
    )


def _status(status: NetworkStatus) -> schema.NetworkStatus:
    pairs = msgspec.convert(status.pairs, dict[str, schema.PairsByAge], from_attributes=True)
    mapping = None if status.mapping is None else mapping_document(status.mapping)
    return schema.NetworkStatus.copied(status, pairs=pairs, mapping=mapping)


def _pairs(snapshot: Snapshot, *, zone: str | None, limit: int) -> schema.Pairs:
    """A zone that does not exist has no nodes. The diagonal and nodes that share their endpoint have no values."""
    table = snapshot.table
    rows = () if zone is None else table.zones.get(ZoneName(zone), np.empty(0, np.int64))
    listed = table.names if zone is None else tuple(table.names[row] for row in rows)
    names, of = listed[: min(limit, MOST_NODES)], len(listed)
    block = snapshot.network.block(names, names)
    values = {name: _plain(getattr(block, name)) for name in _VALUES}
    return schema.Pairs.copied(block, zone=zone, nodes=names, of=of, **values)


def _plain(values: Floats) -> list[list[float | None]]:
    return [[None if value != value else value for value in row] for row in values.tolist()]
