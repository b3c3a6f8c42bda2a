"""Scores between many nodes at the cost of those that are measured.

Why: sites measure between a few nodes of each zone, and pairs of nodes grow with the square of a zone. All nodes that
are measured nowhere look alike: what is true of one of them is true of the others, but for the pair of a node with
itself. Rule: the result is, bit by bit, that of `pair_scores` over all pairs; only the work, and the memory, is that of
the measured nodes and one pair of the others, until a caller wants certain rows.
"""

from collections.abc import Collection, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from scoring.ids import NodeName
from scoring.model.policy import ScorePolicy
from scoring.network.matrix import METRICS, Block, Floats, Ints, NetworkMatrix
from scoring.score.pairs import PairScores, pair_scores


class LinkPoints(msgspec.Struct, frozen=True):
    """`points`, `rank` and `reference_bps` of `PairScores`, shape (n, m)."""

    points: Floats
    rank: Floats
    reference_bps: float | None

    @property
    def held(self) -> int:
        """Pairs in memory."""
        return self.points.size


class Links(msgspec.Struct, frozen=True):
    """The same among `n` nodes, held once for all that look alike."""

    kind: Ints  # (n,): each node's row in the tables of kinds
    alike: int  # The kind of the nodes that look alike, the next row another of them; −1: each is its own kind
    kind_points: Floats  # (kinds, kinds)
    kind_rank: Floats  # (kinds, kinds)
    reference_bps: float | None

    @property
    def held(self) -> int:
        """Pairs in memory."""
        return self.kind_points.size

    def rank_among(self, rows: Ints | None) -> Floats:
        """The pairs of `rows`, which are different ones; `None`: of all nodes. Not to be written. Cost: O(rows²)."""
        table = self.kind_rank
        if self.alike < 0:
            return table if rows is None else table.take(rows, axis=0).take(rows, axis=1)
        kind = self.kind if rows is None else self.kind[rows]
        unmeasured = np.flatnonzero(kind == self.alike)
        other = kind.copy()
        other[unmeasured] = self.alike + 1
        pairs = table.take(kind, axis=0).take(other, axis=1)
        pairs[unmeasured, unmeasured] = table[self.alike, self.alike]
        return pairs

    def points_among(self, rows: Ints) -> Floats:
        """The pairs of `rows`, of which some may be the same. Cost: O(rows²)."""
        return self._toward(self.kind_points, rows, rows)

    def rank_toward(self, columns: Ints) -> Floats:
        """From each node to those of `columns`: (n, columns)."""
        return self._toward(self.kind_rank, np.arange(len(self.kind)), columns)

    def mean_points_to_others(self) -> Floats:
        """Mean points of each node towards all others (n,); of a node that is alone, to itself. Cost: O(n + kinds²)."""
        n = len(self.kind)
        own = self.kind_points.diagonal()[self.kind]
        if n < 2:
            return np.array(own)
        members = np.bincount(self.kind, minlength=len(self.kind_points)).astype(np.float64)
        sums = self.kind_points @ members
        if self.alike >= 0:  # to the others of their kind each is what the two that stand for them are to each other
            at = self.alike
            pair = float(self.kind_points[at, at + 1])
            sums[at] += members[at] * (pair - float(self.kind_points[at, at])) + float(self.kind_points[at, at]) - pair
        return np.asarray((sums[self.kind] - own) / (n - 1))

    def _toward(self, table: Floats, rows: Ints, columns: Ints) -> Floats:
        if self.alike < 0:
            return table.take(rows, axis=0).take(columns, axis=1)
        kind, other = self.kind[rows], self.kind[columns]
        pairs = table.take(kind, axis=0).take(np.where(other == self.alike, other + 1, other), axis=1)
        same = (rows[:, None] == columns) & (other == self.alike)
        pairs[same] = table[self.alike, self.alike]
        return pairs


def among(network: NetworkMatrix, names: Sequence[NodeName], score: ScorePolicy) -> Links:
    """Scores of all pairs of `names`, which are different ones. Cost: O(measured² log pairs + n)."""
    own = measured(network, names)
    unmeasured = np.flatnonzero(~own)
    few = np.concatenate([np.flatnonzero(own), unmeasured[:2]])  # one and its distance to another one of its kind
    if len(few) == len(names):
        every = pair_scores(network.block(names, names), None, score)
        return Links(np.arange(len(names)), -1, every.points, every.rank, every.reference_bps)
    chosen = [names[i] for i in few]
    found = pair_scores(network.block(chosen, chosen), None, score)
    kind = np.full(len(names), len(few) - 2)
    kind[few[:-2]] = np.arange(len(few) - 2)
    return Links(kind, len(few) - 2, found.points, found.rank, found.reference_bps)


def among_sets(
    network: NetworkMatrix,
    names: Sequence[NodeName],
    sets: Ints,
    linked: Collection[tuple[int, int]],
    score: ScorePolicy,
) -> Links:
    """`among` for nodes of several sets, of which only those `linked` (both numbers, the lower first) know each other.

    `sets` (n,) numbers each node's set. All that is known lies within sets and between linked ones, so only these pairs
    are scored, in one row with one unknown pair beside them.
    Cost: O(measured² of each set and linked pair + kinds²).
    """
    own = measured(network, names)
    unmeasured = np.flatnonzero(~own)
    if network.estimates or len(unmeasured) < 3 or not own.any():
        return among(network, names, score)
    few = np.concatenate([np.flatnonzero(own), unmeasured[:2]])
    at_of = {number: np.flatnonzero(sets[few[:-2]] == number) for number in np.unique(sets[few[:-2]]).tolist()}
    cells = [(at, at) for at in at_of.values()]
    pairs = (pair for one, two in linked for pair in ((one, two), (two, one)))
    cells += [(at_of[a], at_of[b]) for a, b in pairs if {a, b} <= at_of.keys()]
    found = _scored(network, [names[i] for i in few], cells, score)
    kinds = len(few)
    kind = np.full(len(names), kinds - 2)
    kind[few[:-2]] = np.arange(kinds - 2)
    tables = []
    for values in (found.points[0], found.rank[0]):
        table = np.full((kinds, kinds), values[-1])
        start = 0
        for rows, columns in cells:
            end = start + len(rows) * len(columns)
            table[np.ix_(rows, columns)] = values[start:end].reshape(len(rows), len(columns))
            start = end
        np.fill_diagonal(table, values[0])  # the first pair is of a node with itself, and so equal for all
        tables.append(table)
    return Links(kind, kinds - 2, tables[0], tables[1], found.reference_bps)


def _scored(
    network: NetworkMatrix, names: Sequence[NodeName], cells: Sequence[tuple[Ints, Ints]], score: ScorePolicy
) -> PairScores:
    """Scores (1, pairs) of all pairs of each of `cells`, row by row, and of a pair that nothing is known of."""
    there, back = [], []
    for rows, columns in cells:
        sources, targets = [names[i] for i in rows], [names[i] for i in columns]
        there.append(network.block(sources, targets))
        back.append(there[-1] if rows is columns else network.block(targets, sources))
    forward, backward = {}, {}
    for field in Block.__struct_fields__:
        if field == "measured_bps":
            continue  # there are no estimates here
        unknown = np.array([False if field == "same" else np.nan])
        forward[field] = np.concatenate([*(getattr(block, field).ravel() for block in there), unknown])[None]
        turned = (getattr(block, field).T.ravel() for block in back)
        backward[field] = np.concatenate([*turned, unknown])[:, None]
    return pair_scores(Block(**forward), Block(**backward), score)


def toward(
    network: NetworkMatrix,
    names: Sequence[NodeName],
    ends: Sequence[NodeName],
    score: ScorePolicy,
    *,
    own: NDArray[np.bool_] | None = None,
) -> LinkPoints:
    """Scores of `names` × `ends`; `own`: names measured or among `ends`. Cost: O(measured · ends · log pairs)."""
    if own is None:
        near = frozenset(ends)
        own = measured(network, names) | np.fromiter((name in near for name in names), np.bool_, len(names))
    few, place = representatives(own)
    chosen = [names[i] for i in few]
    found = pair_scores(network.block(chosen, ends), network.block(ends, chosen), score)
    return LinkPoints(found.points[place], found.rank[place], found.reference_bps)


def measured(network: NetworkMatrix, names: Sequence[NodeName]) -> NDArray[np.bool_]:
    """Which of `names` have an endpoint for any metric; all, where values are estimated from each node's zone."""
    if network.estimates:
        return np.ones(len(names), np.bool_)
    found = np.zeros(len(names), np.bool_)
    for metric in METRICS:
        if of := network.endpoint_of.get(metric):
            found |= np.fromiter((name in of for name in names), np.bool_, len(names))
    return found


def representatives(own: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Indexes that stand for all, those that are `own` and one of the others; and for each index its stand-in."""
    others = np.flatnonzero(~own)
    few = np.concatenate([np.flatnonzero(own), others[:1]])
    place = np.full(len(own), len(few) - 1)
    place[few] = np.arange(len(few))
    return few, place
