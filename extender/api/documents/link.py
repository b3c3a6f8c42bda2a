"""One link in full, for people: what each source's value is worth, and what counts of it.

Rule: shows what the scores use and where it is from, and leaves out nothing that was measured, however old. Points are
as among the nodes of the zone (bandwidth is compared with its best rate, what is unknown with its median), of at most
`MOST_NODES` of them: a zone of thousands would delay all other tasks.
"""

from collections.abc import Iterable
from itertools import islice
from math import isnan

from extender.api.documents.network import MOST_NODES
from extender.schemas import link as schema
from scoring.ids import NodeName
from scoring.model.policy import ScorePolicy
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import METRICS, Known, Metric, NetworkMatrix
from scoring.score.pairs import pair_scores

UNITS = {Metric.LOSS: "ratio", Metric.DELAY: "ms", Metric.THROUGHPUT: "bit/s"}


def link_document(snapshot: Snapshot, source: NodeName, target: NodeName, policy: ScorePolicy) -> schema.Link | None:
    """Both directions by metric, with points; `None`: no such node. Cost: O(nodes²) of the zone, 10,000 at most."""
    if not {source, target} <= set(snapshot.table.names):
        return None
    network = snapshot.network
    names = _neighbours(snapshot, source, target)
    scores = pair_scores(network.block(names, names), None, policy)
    at = names.index(source), names.index(target)
    earned = {
        Metric.LOSS: scores.loss_points,
        Metric.DELAY: scores.delay_points,
        Metric.THROUGHPUT: scores.bandwidth_points,
    }
    values = {
        Metric.LOSS: scores.loss_ratio,
        Metric.DELAY: scores.delay_ms,
        Metric.THROUGHPUT: scores.throughput_bps,
    }
    metrics = {}
    for metric, limit in zip(METRICS, scores.limits, strict=True):
        metrics[metric.value] = _metric(
            network,
            (source, target),
            metric,
            counts=float(values[metric][at]),
            limit=float(limit[at]),
            hard_s=policy.hard_ttl_s.of(metric.value),
            points=float(earned[metric][at]),
        )
    return schema.Link(
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


def _metric(
    network: NetworkMatrix,
    ends: tuple[NodeName, NodeName],
    metric: Metric,
    *,
    counts: float,
    limit: float,
    hard_s: float | None,
    points: float,
) -> schema.LinkMetric:
    """`counts`: the value in scores, `limit`: that of the measured ones, from age `hard_s` on only that counts."""
    source, target = ends
    there, back = network.known(source, target, metric), network.known(target, source, metric)
    expired = [one is not None and hard_s is not None and one.age_s >= hard_s for one in (there, back)]
    alive = sum(one is not None and not old for one, old in zip((there, back), expired, strict=True))
    return schema.LinkMetric(
        there=_measured(there),
        back=_measured(back),
        counts=None if isnan(counts) else counts,
        basis="nothing" if isnan(counts) else ("zones", "one direction", "both directions")[alive],
        no_better_than=limit if any(expired) else None,
        unit=UNITS[metric],
        endpoints=(network.endpoint(source, metric), network.endpoint(target, metric)),
        points=round(points, 3),
    )


def _measured(known: Known | None) -> schema.Measured | None:
    return None if known is None else schema.Measured(value=known.value, age_s=known.age_s, origin=known.origin)
