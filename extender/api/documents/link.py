"""One link in full, for people: what each source's value is worth, and what counts of it.

Rule: shows what the scores use and where it is from, and leaves out nothing that was measured, however old. Points are
as among the nodes of the zone (bandwidth is compared with its best rate, what is unknown with its median), of at most
`MOST_NODES` of them: a zone of thousands would delay all other tasks.
"""

from collections.abc import Iterable
from itertools import islice

import msgspec

from extender.api.documents.network import MOST_NODES
from extender.schemas import link as schema
from scoring.explain.links import GangLinks, PartVerdict, counted, hard_ttl_of, part_of
from scoring.ids import NodeName
from scoring.model.policy import ScorePolicy
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import METRICS, Metric
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
    values = counted(scores)
    metrics = {}
    for metric, limit in zip(METRICS, scores.limits, strict=True):
        part = part_of(
            network,
            (source, target),
            metric,
            counts=float(values[metric][at]),
            limit=float(limit[at]),
            hard_s=hard_ttl_of(policy, metric),
        )
        metrics[metric.value] = schema.LinkMetric.copied(
            _part(part),
            unit=UNITS[metric],
            endpoints=(network.endpoint(source, metric), network.endpoint(target, metric)),
            points=round(float(earned[metric][at]), 3),
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


def links_document(links: GangLinks) -> schema.GangLinks:
    """The links between a gang's nodes."""
    return schema.GangLinks.copied(
        links,
        metrics={
            metric.value: schema.GangMetric.copied(
                one, unit=UNITS[metric], sources=dict(one.origins), basis=dict(one.bases)
            )
            for metric, one in links.metrics.items()
        },
        worst=tuple(
            schema.GangLink.copied(
                link,
                points=round(link.points, 3),
                metrics={metric.value: _part(part) for metric, part in link.parts.items()},
            )
            for link in links.worst
        ),
        left_out=links.links - len(links.worst),
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


def _part(part: PartVerdict) -> schema.LinkPart:
    return msgspec.convert(part, schema.LinkPart, from_attributes=True)
