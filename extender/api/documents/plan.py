"""What netgang shows of its state, as plain JSON values; the CLI prints the same documents as /v1.

Rule: built from values (plan, snapshot, explanation), never from live objects, so a document is of one moment.
"""

from collections.abc import Mapping
from typing import Any

from extender.api.documents.link import UNITS, part_document
from scoring.explain import GangLinks
from scoring.ids import GangKey
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import METRICS
from scoring.plan import Plan
from scoring.verbs.prioritize import Preference

Document = dict[str, Any]


def plan_document(plan: Plan, snapshot: Snapshot) -> Document:
    """Admitted gangs with their nodes, waiting ones with their reasons, both in the order of their rank."""
    started = [snapshot.gangs[key] for key in plan.admitted if key in snapshot.gangs]
    pod_name = {pod.uid: str(pod.name) for gang in started for pod in gang.members}
    return {
        "version": plan.version,
        "admitted": [
            {
                "gang": admission.gang,
                "rank": admission.rank,
                "zone": ",".join(admission.zones),
                "score": None if admission.score is None else round(admission.score, 3),
                "committed": admission.committed,
                "members": {
                    pod_name.get(uid, uid): node
                    for uid, node in sorted(admission.members.items(), key=lambda item: pod_name.get(item[0], item[0]))
                },
            }
            for admission in sorted(plan.admitted.values(), key=lambda admission: admission.rank)
        ],
        "waiting": [
            {
                "gang": waiting.gang,
                "rank": waiting.rank,
                "code": waiting.reason.name,
                "reason": str(waiting.reason),
                "detail": waiting.detail,
            }
            for waiting in sorted(plan.waiting.values(), key=lambda waiting: waiting.rank)
        ],
    }


def preemption_document(snapshot: Snapshot, gang: GangKey, *, blocked: str | None) -> Document:
    """Who leaves for the gang, for whom it leaves, and why somebody who would make room stays."""
    claim = snapshot.claims.get(gang)
    return {
        "makes_room": list(claim.givers) if claim is not None else [],
        "leaves_for": next((key for key, one in sorted(snapshot.claims.items()) if gang in one.givers), None),
        "blocked": blocked,
    }


def links_document(links: GangLinks) -> Document:
    """The links between a gang's nodes: by metric which sources their values are from, and the worst one by one."""
    return {
        "nodes": links.nodes,
        "of_nodes": links.of_nodes,
        "links": links.links,
        "reference_bps": links.reference_bps,
        "metrics": {
            metric.value: {
                "unit": UNITS[metric],
                "worst": one.worst,
                "oldest_s": one.oldest_s,
                "sources": dict(one.origins),
                "from": dict(one.bases),
            }
            for metric, one in links.metrics.items()
        },
        "worst": [
            {
                "source": link.source,
                "target": link.target,
                "pairs": link.pairs,
                "points": round(link.points, 3),
                "stale": link.stale,
                "metrics": {metric.value: part_document(part) for metric, part in link.parts.items()},
            }
            for link in links.worst
        ],
        "left_out": links.links - len(links.worst),
    }


def preference_document(preference: Preference, snapshot: Snapshot, scores: Mapping[str, int]) -> Document:
    """Scores of a pod's nodes with their parts, best first, at most 100 of them."""
    order = sorted(range(len(snapshot.table.names)), key=lambda row: (-preference.total[row], row))[:100]
    return {
        "nodes": [
            {
                "node": snapshot.table.names[row],
                "score": scores.get(snapshot.table.names[row], 0),
                "points": round(float(preference.total[row]), 3),
                "network": round(float(preference.network[row]), 3),
                "packing": float(preference.packing[row]),
                "reservation": float(preference.reservation[row]),
            }
            for row in order
        ],
        "of": len(snapshot.table.names),
    }


def matrix_document(snapshot: Snapshot) -> Document:
    """The network matrix in numbers: versions, pairs known, nodes with an endpoint per metric."""
    network = snapshot.network
    return {
        "version": network.version,
        "evaluated_at_s": network.evaluated_at_s,
        "endpoints": len(network.endpoints),
        "metrics": {
            metric: {
                "known_pairs": network.known_pairs(metric),
                "mapped_nodes": sum(node in network.endpoint_of.get(metric, {}) for node in snapshot.table.names),
                "nodes": len(snapshot.table.names),
            }
            for metric in METRICS
        },
    }
