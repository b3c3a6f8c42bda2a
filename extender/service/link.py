"""One link in full, for people: what each source's value is worth, and what counts of it.

Rule: shows what the scores use and where it is from, and leaves out nothing that was measured, however old.
"""

from dataclasses import asdict
from typing import Any

from scoring.ids import NodeName
from scoring.network import METRICS, Known, Metric
from scoring.policy import ScorePolicy
from scoring.score import pair_scores
from scoring.snapshot import Snapshot

_UNITS = {Metric.LOSS: "ratio", Metric.DELAY: "ms", Metric.THROUGHPUT: "bit/s"}


def link_document(snapshot: Snapshot, source: NodeName, target: NodeName, policy: ScorePolicy) -> dict[str, Any] | None:
    """Both directions of a link between two nodes, by metric, with source, value and age; `None`: no such node.

    `from` says what `counts` rests on: both directions, one of them, the median between the nodes' zones, or nothing.
    """
    if not {source, target} <= set(snapshot.table.names):
        return None
    network = snapshot.network
    scores = pair_scores(network.block([source], [target]), network.block([target], [source]), policy)
    counted = {Metric.LOSS: scores.loss_ratio, Metric.DELAY: scores.delay_ms, Metric.THROUGHPUT: scores.throughput_bps}
    metrics = {}
    for metric in METRICS:
        value = counted[metric].item()
        there, back = network.known(source, target, metric), network.known(target, source, metric)
        alive = [_counts(one, policy.hard_ttl_s.of(metric.value)) for one in (there, back)]
        basis = "both directions" if all(alive) else "one direction" if any(alive) else "zones"
        metrics[metric.value] = {
            "unit": _UNITS[metric],
            "endpoints": [network.endpoint(source, metric), network.endpoint(target, metric)],
            "there": _shown(there),
            "back": _shown(back),
            "counts": None if value != value else value,
            "from": "nothing" if value != value else basis,
        }
    return {
        "source": source,
        "target": target,
        "version": network.version,
        "same_endpoint": bool(scores.same.item()),
        "stale": bool(scores.stale.item()),
        "metrics": metrics,
    }


def _counts(one: Known | None, hard_ttl_s: float | None) -> bool:
    return one is not None and (hard_ttl_s is None or one.age_s < hard_ttl_s)


def _shown(one: Known | None) -> dict[str, Any] | None:
    return None if one is None else asdict(one)
