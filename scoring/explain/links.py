"""The links between the nodes of a gang: what each is worth, which source says so, and how old that is.

Why both counts and single links: a gang on 64 nodes has 2,016 links, and its owner wants to know whether
they are measured at all, by which source, and which ones are bad. Rule: only links over which members exchange data;
what is shown is what scores use, and beside it what was measured in each direction, however old.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scoring.ids import NodeName, ZoneName
from scoring.model import Gang, Role
from scoring.model.policy import ScorePolicy
from scoring.network.matrix import METRICS, Floats, Known, Metric, NetworkMatrix
from scoring.plan import Plan, Run
from scoring.score.pairs import PairScores, pair_scores

MOST_NODES: Final = 64  # Of a gang on more nodes the first ones by name are looked at: 2,016 links are about 10 ms
WORST_LINKS: Final = 10
BASES: Final = ("both directions", "one direction", "zones", "nothing", "same endpoint")  # Of a value


@dataclass(frozen=True, slots=True)
class PartVerdict:
    """One metric of one link: what was measured in each direction, and what counts of it."""

    there: Known | None
    back: Known | None
    counts: float | None
    basis: str  # One of `BASES`
    no_better_than: float | None = None  # What both say, one of them too old to count: the most points it can have


@dataclass(frozen=True, slots=True)
class LinkVerdict:
    """One link between two of the gang's nodes."""

    source: NodeName
    target: NodeName
    pairs: int  # Pairs of members that exchange data over it
    points: float  # As among the nodes of the zone, if the gang is in one zone, else as among the gang's own nodes
    stale: bool
    parts: Mapping[Metric, PartVerdict]


@dataclass(frozen=True, slots=True)
class MetricVerdict:
    """One metric over all links between the gang's nodes."""

    worst: float | None
    oldest_s: float | None  # Age of the oldest value that counts; so of `origins`
    origins: Mapping[str, int]  # Source → how many directions have their value from it; only values within the hard TTL
    bases: Mapping[str, int]  # One of `BASES` → how many links' value rests on that


@dataclass(frozen=True, slots=True)
class GangLinks:
    """The links between the nodes of a gang's members over which they exchange data."""

    nodes: int
    of_nodes: int  # More than `nodes`: the others were not looked at
    links: int
    reference_bps: float | None
    metrics: Mapping[Metric, MetricVerdict]
    worst: tuple[LinkVerdict, ...]  # Worst first, at most as many as were asked for
    points: float | None  # Mean over all pairs of members that exchange data, on one node too; `None`: there is none
    names: tuple[NodeName, ...]  # Of the nodes that are compared
    zones: tuple[ZoneName, ...]  # Of these nodes


def part_of(
    network: NetworkMatrix,
    pair: tuple[NodeName, NodeName],
    metric: Metric,
    *,
    counts: float,
    limit: float,
    hard_s: float,
) -> PartVerdict:
    """One metric both ways; `counts`: the value in scores, `limit`: theirs, from age `hard_s` only that counts."""
    source, target = pair
    there, back = network.known(source, target, metric), network.known(target, source, metric)
    alive = [one is not None and one.age_s < hard_s for one in (there, back)]
    least = limit if any(one is not None and one.age_s >= hard_s for one in (there, back)) else None
    if np.isnan(counts):
        return PartVerdict(there, back, None, BASES[3], least)
    return PartVerdict(there, back, counts, BASES[0] if all(alive) else BASES[1] if any(alive) else BASES[2], least)


def hard_ttl_of(policy: ScorePolicy, metric: Metric) -> float:
    """The age in seconds from which a value does not count; infinite where it always does."""
    age_s = policy.hard_ttl_s.of(metric.value)
    return float("inf") if age_s is None else age_s


def counted(scores: PairScores) -> dict[Metric, Floats]:
    """Metric → the values that the scores use, both directions as one."""
    return {Metric.LOSS: scores.loss_ratio, Metric.DELAY: scores.delay_ms, Metric.THROUGHPUT: scores.throughput_bps}


def gang_links(
    run: Run,
    plan: Plan,
    gang: Gang,
    score: ScorePolicy,
    *,
    worst_links: int = WORST_LINKS,
    metrics: Sequence[Metric] = METRICS,
) -> GangLinks | None:
    """The links that decided where the gang is or goes. Cost: O(nodes² log pairs), at most those of `MOST_NODES`.

    `metrics`: those of which all links are summed up.
    """
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
    talk = np.outer(others, others) if all_reduce else np.outer(ps, others) + np.outer(others, ps)
    pairs = np.triu(talk, 1)
    alone = others * (others - 1) // 2 if all_reduce else ps * others  # pairs of members on the same node
    # 2. what they are worth
    network = run.snapshot.network
    zones = {run.table.nodes[run.table.index[name]].zone for name in names}
    best = run.scores.links((next(iter(zones)),), score) if len(zones) == 1 else None
    reference = (best.reference_bps or None) if best is not None else None  # 0: every known rate is none
    found = pair_scores(network.block(names, names), None, score, reference_bps=reference)
    points = found.points
    if best is not None:
        at = {name: i for i, name in enumerate(run.view.names(tuple(zones)))}
        rows = [at[name] for name in names]
        points = best.points_among(np.array(rows, np.int64))
    # 3. all in counts, the worst one by one
    froms, tos = np.nonzero(pairs)
    order = np.lexsort((tos, froms, -pairs[froms, tos], points[froms, tos]))[:worst_links]
    look = _Look(network, tuple(names), found, score)
    worst = [
        LinkVerdict(
            names[i], names[j], int(pairs[i, j]), float(points[i, j]), bool(found.stale[i, j]), look.parts(i, j)
        )
        for i, j in zip(froms[order].tolist(), tos[order].tolist(), strict=True)
    ]
    return GangLinks(
        nodes=len(names),
        of_nodes=len(places),
        links=len(froms),
        reference_bps=found.reference_bps,
        metrics={metric: look.metric(metric, pairs > 0) for metric in metrics},
        worst=tuple(worst),
        points=_mean(points, pairs + np.diag(alone)),
        names=tuple(names),
        zones=tuple(sorted(zones)),
    )


def _mean(points: Floats, pairs: NDArray[np.int64]) -> float | None:
    """Of the points of so many pairs; `None`: there are none."""
    count = int(pairs.sum())
    return float((points * pairs).sum() / count) if count else None


@dataclass(frozen=True, slots=True)
class _Look:
    network: NetworkMatrix
    names: tuple[NodeName, ...]
    found: PairScores
    score: ScorePolicy

    def parts(self, i: int, j: int) -> dict[Metric, PartVerdict]:
        values = counted(self.found)
        parts = {
            metric: part_of(
                self.network,
                (self.names[i], self.names[j]),
                metric,
                counts=float(values[metric][i, j]),
                limit=float(limit[i, j]),
                hard_s=hard_ttl_of(self.score, metric),
            )
            for metric, limit in zip(METRICS, self.found.limits, strict=True)
        }
        same = self.found.same[i, j]
        return {metric: replace(part, basis=BASES[4]) if same else part for metric, part in parts.items()}

    def metric(self, metric: Metric, chosen: NDArray[np.bool_]) -> MetricVerdict:
        """One metric of the `chosen` links, true above the diagonal only."""
        raw = self.network.measured(metric, self.names, self.names)
        alive = raw.ages_s < hard_ttl_of(self.score, metric)
        same, value = self.found.same, counted(self.found)[metric]
        used = chosen & ~same
        known = used & ~np.isnan(value)
        both, one = alive & alive.T, alive ^ alive.T
        sums = (known & both, known & one, known & ~alive & ~alive.T, used & ~known, chosen & same)
        directions = alive & (used | used.T)
        names, counts = np.unique(raw.origins[directions], return_counts=True)
        values = value[known]
        worst = values.min if metric is Metric.THROUGHPUT else values.max
        return MetricVerdict(
            worst=float(worst()) if values.size else None,
            oldest_s=float(raw.ages_s[directions].max()) if directions.any() else None,
            origins={self.network.origins[n]: c for n, c in zip(names.tolist(), counts.tolist(), strict=True)},
            bases={basis: int(one.sum()) for basis, one in zip(BASES, sums, strict=True) if one.any()},
        )
