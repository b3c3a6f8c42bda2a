"""The network in numbers: sources, mapping, and the values between a few nodes, for people and `netgang network`.

Why bounded: 5,000 nodes have 25 million pairs, which neither the event loop nor a reader could take. Rule: the nodes of
one zone, or of the whole cluster, in the order of their names, and never more than `MOST_NODES` of them.

Of one link it shows what the scores use and where it is from, and leaves out nothing that was measured, however old.
Points are as among the nodes of the zone: bandwidth is compared with its best rate, what is unknown with its median.
"""

from collections.abc import Iterable, Sequence, Sized
from itertools import islice
from math import isnan
from typing import Final

import numpy as np
from msgspec import UNSET, UnsetType

from extender import schemas as schema
from extender.network.mapping import NodeMapping
from extender.network.merge import RefreshStatus, node_counts
from extender.schemas import LinkInFull
from scoring.ids import NodeName, ZoneName
from scoring.model.policy import ScorePolicy
from scoring.model.snapshot import Snapshot
from scoring.network.degraded import Degraded
from scoring.network.matrix import METRICS, Floats
from scoring.score.pairs import pair_scores

USUAL_NODES: Final = 40
MOST_NODES: Final = 100  # 10,000 pairs: about 5 ms of work and 400 kB
_NAMED: Final = 100  # Nodes, endpoints and doubts that are named of each list; the others are counted
_VALUES: Final = ("loss_ratio", "delay_ms", "throughput_bps", "loss_age_s", "delay_age_s", "throughput_age_s")


def network_document(
    snapshot: Snapshot,
    status: RefreshStatus | None,
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


def mapping_document(mapping: NodeMapping, *, most: int = _NAMED) -> schema.MappedNodes:
    """Counts of nodes, and of each list its first `most` entries. Cost: O(ambiguous + most)."""

    def beyond(names: Sized) -> int:
        return max(len(names) - most, 0)

    return schema.MappedNodes(
        nodes={metric.value: counts for metric, counts in node_counts(mapping).items()},
        unmapped={metric.value: mapping.unmapped[metric][:most] for metric in METRICS},
        ambiguous=mapping.ambiguous[:most],
        unknown=mapping.unknown[:most],
        unused=mapping.unused[:most],
        left_out=schema.LeftOut(
            unmapped={metric.value: beyond(mapping.unmapped[metric]) for metric in METRICS},
            ambiguous=beyond(mapping.ambiguous),
            unknown=beyond(mapping.unknown),
            unused=beyond(mapping.unused),
        ),
    )


def _status(status: RefreshStatus) -> schema.SourcesStatus:
    mapping = None if status.mapping is None else mapping_document(status.mapping)
    return schema.SourcesStatus(
        version=status.version,
        published_at_s=status.published_at_s,
        sources=status.sources,
        known_pairs={metric.value: count for metric, count in status.known_pairs.items()},
        pairs={metric.value: counts for metric, counts in status.pairs.items()},
        mapping=mapping,
        crash=status.crash,
    )


def _pairs(snapshot: Snapshot, *, zone: str | None, limit: int) -> schema.Pairs:
    """A zone that does not exist has no nodes. The diagonal and nodes that share their endpoint have no values."""
    table = snapshot.table
    rows = () if zone is None else table.zones.get(ZoneName(zone), np.empty(0, np.int64))
    listed = table.names if zone is None else tuple(table.names[row] for row in rows)
    names, of = listed[: min(limit, MOST_NODES)], len(listed)
    block = snapshot.network.block(names, names)
    values = [_plain(getattr(block, name)) for name in _VALUES]
    return schema.Pairs(zone, names, of, *values)


def _plain(values: Floats) -> list[list[float | None]]:
    return [[None if value != value else value for value in row] for row in values.tolist()]


def link_document(snapshot: Snapshot, source: NodeName, target: NodeName, policy: ScorePolicy) -> LinkInFull | None:
    """Both directions by metric, with points; `None`: no such node. Cost: O(nodes²) of the zone, 10,000 at most."""
    if not {source, target} <= set(snapshot.table.names):
        return None
    network = snapshot.network
    names = _neighbours(snapshot, source, target)
    scores = pair_scores(network.block(names, names), None, policy)
    at = names.index(source), names.index(target)
    metrics = {}
    for metric, unit, limit, values, points in zip(
        METRICS,
        ("ratio", "ms", "bit/s"),
        scores.limits,
        (scores.loss_ratio, scores.delay_ms, scores.throughput_bps),
        (scores.loss_points, scores.delay_points, scores.bandwidth_points),
        strict=True,
    ):
        ends, counts = [network.endpoint(end, metric) for end in (source, target)], float(values[at])
        there, back = network.known(source, target, metric), network.known(target, source, metric)
        hard_s = policy.hard_ttl_s.of(metric.value)  # from that age on only the limit counts
        expired = [one is not None and hard_s is not None and one.age_s >= hard_s for one in (there, back)]
        alive = sum(one is not None and not old for one, old in zip((there, back), expired, strict=True))
        metrics[metric.value] = schema.LinkMetric(
            there=there,
            back=back,
            counts=None if isnan(counts) else counts,
            basis="nothing" if isnan(counts) else ("zones", "one direction", "both directions")[alive],
            no_better_than=float(limit[at]) if any(expired) else None,
            unit=unit,
            endpoints=tuple(ends),
            points=round(float(points[at]), 3),
        )
    return LinkInFull(
        source=source,
        target=target,
        version=network.version,
        same_endpoint=bool(scores.same[at]),
        stale=bool(scores.stale[at]),
        points=round(float(scores.points[at]), 3),
        reference_bps=scores.reference_bps,
        compared_with=len(names),
        metrics=metrics,
    )


def _neighbours(snapshot: Snapshot, *ends: NodeName) -> list[NodeName]:
    """The two nodes, and others of their zones in the order of their names, `MOST_NODES` in all."""
    table = snapshot.table
    found = dict.fromkeys(ends)
    zones = sorted({table.nodes[table.index[end]].zone for end in ends})
    for number, zone in enumerate(zones):
        others: Iterable[NodeName] = (table.names[row] for row in table.zones[zone])
        most = MOST_NODES * (number + 1) // len(zones)
        found.update(dict.fromkeys(islice((name for name in others if name not in found), most - len(found))))
    return list(found)
