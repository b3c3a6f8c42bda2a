"""Scores between many nodes at the cost of those that are measured.

Why: sites measure between a few nodes of each zone, and pairs of nodes grow with the square of a zone. All nodes that
are measured nowhere look alike: what is true of one of them is true of the others, but for the pair of a node with
itself. Rule: the result is, bit by bit, that of `pair_scores` over all pairs; only the work is done once for all nodes
that look alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring.ids import NodeName
from scoring.network import METRICS, Floats, Ints, NetworkMatrix
from scoring.policy import ScorePolicy
from scoring.score import pair_scores


@dataclass(frozen=True, slots=True)
class LinkPoints:
    """`points`, `rank` and `reference_bps` of `PairScores`, shape (n, m)."""

    points: Floats
    rank: Floats
    reference_bps: float | None


def among(network: NetworkMatrix, names: Sequence[NodeName], score: ScorePolicy) -> LinkPoints:
    """Scores of all pairs of `names`, which are different ones. Cost: O(measured² log pairs), and one copy of O(n²).

    >>> nodes = [NodeName(f"n{i}") for i in range(4)]
    >>> among(NetworkMatrix(), nodes, ScorePolicy()).points.round(1).tolist()[0]
    [100.0, 45.0, 45.0, 45.0]
    """
    measured = _measured(network, names)
    strangers = np.flatnonzero(~measured)
    few = np.concatenate([np.flatnonzero(measured), strangers[:2]])  # one and its distance to another one of its kind
    if len(few) == len(names):
        all_pairs = pair_scores(network.block(names, names), None, score)
        return LinkPoints(all_pairs.points, all_pairs.rank, all_pairs.reference_bps)
    chosen = [names[i] for i in few]
    found = pair_scores(network.block(chosen, chosen), None, score)
    place = np.full(len(names), len(few) - 2)
    place[few[:-2]] = np.arange(len(few) - 2)
    return LinkPoints(
        _spread(found.points, place, strangers), _spread(found.rank, place, strangers), found.reference_bps
    )


def toward(
    network: NetworkMatrix, names: Sequence[NodeName], ends: Sequence[NodeName], score: ScorePolicy
) -> LinkPoints:
    """Scores between each of `names` and each of `ends`. Cost: O(measured · ends · log pairs), and a copy.

    >>> nodes = [NodeName(f"n{i}") for i in range(4)]
    >>> toward(NetworkMatrix(), nodes, nodes[1:2], ScorePolicy()).points.round(1).tolist()
    [[45.0], [100.0], [45.0], [45.0]]
    """
    few, place = _alike(network, names, ends)
    chosen = [names[i] for i in few]
    found = pair_scores(network.block(chosen, ends), network.block(ends, chosen), score)
    return LinkPoints(found.points[place], found.rank[place], found.reference_bps)


def mean_between(
    network: NetworkMatrix, names: Sequence[NodeName], ends: Sequence[NodeName], score: ScorePolicy
) -> float:
    """Mean points between two sets of nodes. Cost: O(measured² log pairs).

    >>> mean_between(NetworkMatrix(), [NodeName("a"), NodeName("b")], [NodeName("c")], ScorePolicy())
    45.0
    """
    rows, row_of = _alike(network, names, ends)
    columns, column_of = _alike(network, ends, names)
    some, others = [names[i] for i in rows], [ends[i] for i in columns]
    found = pair_scores(network.block(some, others), network.block(others, some), score)
    weights = (np.bincount(places, minlength=size) for places, size in ((row_of, len(rows)), (column_of, len(columns))))
    left, right = weights
    return float(left @ found.points @ right / (len(names) * len(ends)))


def _measured(network: NetworkMatrix, names: Sequence[NodeName]) -> NDArray[np.bool_]:
    """Which of `names` have an endpoint for any metric; all, where values are estimated from each node's zone."""
    if network.estimates:
        return np.ones(len(names), np.bool_)
    found = np.zeros(len(names), np.bool_)
    for metric in METRICS:
        of = network.endpoint_of.get(metric)
        if of:
            found |= np.fromiter((name in of for name in names), np.bool_, len(names))
    return found


def _alike(network: NetworkMatrix, names: Sequence[NodeName], ends: Sequence[NodeName]) -> tuple[Ints, Ints]:
    """Indexes of names that stand for all: measured ones, those in `ends`, and one of the others; and who for whom."""
    near = frozenset(ends)
    own = _measured(network, names) | np.fromiter((name in near for name in names), np.bool_, len(names))
    strangers = np.flatnonzero(~own)
    few = np.concatenate([np.flatnonzero(own), strangers[:1]])
    place = np.full(len(names), len(few) - 1)
    place[few] = np.arange(len(few))
    return few, place


def _spread(small: Floats, place: Ints, strangers: Ints) -> Floats:
    """All pairs from those of the chosen nodes: the last two stand for all strangers."""
    large = small.take(place, axis=0).take(place, axis=1)
    large[np.ix_(strangers, strangers)] = small[-2, -1]
    large[strangers, strangers] = small[-2, -2]
    return large
