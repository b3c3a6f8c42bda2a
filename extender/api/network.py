"""The network in numbers: sources, mapping, and the values between a few nodes, for people and `netgang network`.

Why bounded: 5,000 nodes have 25 million pairs, which neither the event loop nor a reader could take. Of one link it
leaves out nothing that was measured, however old. Points are as among the nodes of the zone.
"""

from itertools import islice
from math import isnan
from typing import Final

import numpy as np
from msgspec import UNSET, UnsetType

from extender import schemas
from scoring import NodeName, ZoneName
from scoring.model.policy import ScorePolicy
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import METRICS
from scoring.records import DegradedLinks
from scoring.score.pairs import pair_scores

USUAL_NODES: Final = 40
MOST_NODES: Final = 100  # 10,000 pairs: about 5 ms of work and 400 kB


def network_document(
    snapshot: Snapshot,
    status: schemas.SourcesStatus | None,
    *,
    zone: str | None = None,
    limit: int = USUAL_NODES,
    degraded: tuple[DegradedLinks, ...] = (),
    probe: schemas.ProbeAgents | UnsetType = UNSET,
) -> schemas.Network:
    """The network as the planner sees it; nodes that share their endpoint have no values. Cost: O(nodes + limit²)."""
    network, table = snapshot.network, snapshot.table
    rows = () if zone is None else table.zones.get(ZoneName(zone), np.empty(0, np.int64))
    listed = table.names if zone is None else tuple(table.names[row] for row in rows)
    shown = listed[: min(limit, MOST_NODES)]
    block = network.block(shown, shown)
    arrays = [of[metric] for of in (block.values, block.ages_s) for metric in METRICS]
    values = [[[None if value != value else value for value in row] for row in array.tolist()] for array in arrays]
    return schemas.Network(
        version=network.version,
        evaluated_at_s=network.evaluated_at_s,
        metrics={
            metric.value: schemas.KnownPairs(
                known_pairs=network.known_pairs(metric),
                mapped_nodes=sum(node in network.endpoint_of.get(metric, {}) for node in table.names),
                nodes=len(table.names),
            )
            for metric in METRICS
        },
        zones={name: len(rows) for name, rows in table.zones.items()},
        pairs=schemas.Pairs(zone, shown, len(listed), *values),
        endpoints={node: tuple(network.endpoint(node, metric) for metric in METRICS) for node in shown},
        status=UNSET if status is None else status,
        degraded=degraded,
        probe=probe,
    )


def link_document(snapshot: Snapshot, source: NodeName, target: NodeName, policy: ScorePolicy) -> schemas.LinkInFull:
    """Both directions by metric, with points. Cost: O(nodes²) of the zone, 10,000 at most."""
    network = snapshot.network
    names = _neighbours(snapshot, source, target)
    scores = pair_scores(network.block(names, names), None, policy)
    at = names.index(source), names.index(target)
    metrics = {}
    for metric, unit in zip(METRICS, ("ratio", "ms", "bit/s"), strict=True):
        ends, counts = [network.endpoint(end, metric) for end in (source, target)], float(scores.values[metric][at])
        there, back = network.known(source, target, metric), network.known(target, source, metric)
        hard_s = policy.hard_ttl_s.for_metric(metric.value)  # from that age on only the limit counts
        expired = [value is not None and hard_s is not None and value.age_s >= hard_s for value in (there, back)]
        alive = sum(value is not None and not old for value, old in zip((there, back), expired, strict=True))
        metrics[metric.value] = schemas.LinkMetric(
            there=there,
            back=back,
            counts=None if isnan(counts) else counts,
            basis="nothing" if isnan(counts) else ("zones", "one direction", "both directions")[alive],
            no_better_than=float(scores.limits[metric][at]) if any(expired) else None,
            unit=unit,
            endpoints=tuple(ends),
            points=round(float(scores.terms[metric][at]), 3),
        )
    return schemas.LinkInFull(
        source=source,
        target=target,
        version=network.version,
        stale=bool(scores.stale[at]),
        points=round(float(scores.points[at]), 3),
        reference_bps=scores.reference_bps,
        compared_with=len(names),
        metrics=metrics,
    )


def _neighbours(snapshot: Snapshot, *ends: NodeName) -> list[NodeName]:
    """The two nodes, and others of their zones in the order of their names, `MOST_NODES` in all."""
    table = snapshot.table
    names = dict.fromkeys(ends)
    zones = sorted({table.nodes[table.index[end]].zone for end in ends})
    for number, zone in enumerate(zones):
        others = (name for row in table.zones[zone] if (name := table.names[row]) not in names)
        most = MOST_NODES * (number + 1) // len(zones)
        names.update(dict.fromkeys(islice(others, most - len(names))))
    return list(names)
