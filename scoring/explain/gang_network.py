"""What network a gang has where its members are or are planned: zones, nodes, score, and the worst of its links.

Each link in full is /v1/network/NODE/NODE. It is computed with the data of now;
the score is that of a plan, the mean points of its pairs of members. Rule: only links over which members exchange data.
"""

from typing import Final

import msgspec
import numpy as np

from scoring.ids import NodeName, ZoneName
from scoring.model import Gang, Role
from scoring.network.matrix import METRICS, Floats
from scoring.plan import Run
from scoring.plan.result import Plan
from scoring.score.pairs import pair_scores

MOST_NODES: Final = 64  # Of a gang on more nodes the first ones by name are looked at: 2,016 links are about 10 ms


class WorstLink(msgspec.Struct, frozen=True):
    """The link with the fewest points; each value is the one that counts, null where none is known."""

    source: NodeName
    target: NodeName
    points: float  # 0 to 100; as among the nodes of the zone, if the gang is in one, else as among the gang's own nodes
    loss_ratio: float | None
    delay_ms: float | None  # One way
    throughput_bps: float | None
    oldest_s: float | None  # Age of the oldest value that was measured on it, in either direction


class GangNetwork(msgspec.Struct, frozen=True):
    """The network between the nodes of a gang's members."""

    zones: tuple[ZoneName, ...]
    nodes: tuple[NodeName, ...]  # By name, the first 64
    of_nodes: int  # More than `nodes`: the others are not looked at
    score: float | None  # Mean points (0 to 100) of the pairs of members that exchange data; null: there is none
    worst: WorstLink | None  # Null: all members are on one node, or exchange no data


def gang_network(run: Run, plan: Plan, gang: Gang) -> GangNetwork | None:
    """The network that the gang has, or has by `plan`; `None`: no member has a known node. Cost: O(nodes²)."""
    places: dict[NodeName, list[int]] = {}  # node → how many of its members are a ps, and how many are not
    for pod in gang.members:
        node = pod.node or plan.node_of.get(pod.uid)
        if node is not None and node in run.table.index and not pod.terminal:
            places.setdefault(node, [0, 0])[pod.member_class.role is not Role.PS] += 1
    if not places:
        return None
    # 1. which pairs of nodes count: those over which members talk
    names = sorted(places)[:MOST_NODES]
    ps, others = np.array([places[name] for name in names], np.int64).T
    all_reduce = not any(pod.member_class.role is Role.PS for pod in gang.members)
    pairs = np.triu(np.outer(others, others) if all_reduce else np.outer(ps, others) + np.outer(others, ps), 1)
    alone = others * (others - 1) // 2 if all_reduce else ps * others  # pairs of members on the same node
    # 2. what they are worth
    network, score = run.snapshot.network, run.view.score(run.view.demand(gang))
    zones = {run.table.nodes[run.table.index[name]].zone for name in names}
    best = run.scores.links((next(iter(zones)),), score) if len(zones) == 1 else None
    reference = (best.reference_bps or None) if best is not None else None  # 0: every known rate is none
    found = pair_scores(network.block(names, names), None, score, reference_bps=reference)
    points = found.points
    if best is not None:
        at = {name: i for i, name in enumerate(run.view.names(tuple(zones)))}
        points = best.points_among(np.array([at[name] for name in names], np.int64))
    weights = pairs + np.diag(alone)
    mean = round(float((points * weights).sum() / weights.sum()), 3) if weights.any() else None
    worst = None
    # 3. the worst link: of equals the one over which most pairs of members talk, then the first by name
    froms, tos = np.nonzero(pairs)
    if len(froms):
        first = np.lexsort((tos, froms, -pairs[froms, tos], points[froms, tos]))[0]
        i, j = int(froms[first]), int(tos[first])
        both = ((names[i], names[j]), (names[j], names[i]))
        known = [network.known(*ends, metric) for metric in METRICS for ends in both]
        ages = [one.age_s for one in known if one is not None]
        worst = WorstLink(
            source=names[i],
            target=names[j],
            points=round(float(points[i, j]), 3),
            loss_ratio=_known(found.loss_ratio, i, j),
            delay_ms=_known(found.delay_ms, i, j),
            throughput_bps=_known(found.throughput_bps, i, j),
            oldest_s=round(max(ages), 1) if ages else None,
        )
    return GangNetwork(tuple(sorted(zones)), tuple(names), len(places), mean, worst)


def _known(values: Floats, i: int, j: int) -> float | None:
    return None if np.isnan(values[i, j]) else float(values[i, j])
