"""How good the network is between whole zones, for gangs that are spread over several.

Why: there are as many pairs of zones as half their number squared, and most of them have no measurement. Rule: two
zones between which nothing is measured, and that share no endpoint, are worth what any unknown link is worth; only
between the others are links looked at, and there only those of nodes that have one across. Means are rounded to
`_GRID`, so that equal links give equal means however many nodes the zones have, and a tie is decided by name.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from scoring.ids import NodeName
from scoring.model.policy import ScorePolicy
from scoring.network.matrix import METRICS, Ints, Metric, NetworkMatrix
from scoring.score.links import measured, representatives
from scoring.score.pairs import pair_scores

Ends: TypeAlias = Mapping[Metric, frozenset[int]]  # metric → indexes of endpoints
Names: TypeAlias = Sequence[NodeName]
Crossings: TypeAlias = Mapping[tuple[int, int], Ends]
"""Which endpoints lead from one set of nodes to another, by measured pairs or because nodes of both share them.

(number of a set, number of a later one) → endpoints, where there are any."""
_GRID = 2.0**34
_NO_SET, _SEVERAL = -1, -2  # In place of the one set that an endpoint serves


def crossings(network: NetworkMatrix, index: Mapping[NodeName, int], group: Ints) -> Crossings:
    """What leads from set to set; `index`: node → row, `group`: row → set. Cost: O(p log p) for p such pairs."""
    found: dict[tuple[int, int], dict[Metric, frozenset[int]]] = defaultdict(dict)
    for metric in METRICS:
        for pair, ends in _crossing(network, index, group, metric).items():
            found[pair][metric] = ends
    return dict(found)


def _crossing(
    network: NetworkMatrix, index: Mapping[NodeName, int], group: Ints, metric: Metric
) -> dict[tuple[int, int], frozenset[int]]:
    """Pair of sets → the endpoints of one metric that lead across."""
    only, served = _served(network, index, group, metric)
    sources, targets = network.measured_pairs(metric)
    left, right = only[sources], only[targets]
    apart = (left != right) | (left == _SEVERAL)
    left, right, sources, targets = (of[apart] for of in (left, right, sources, targets))
    plain = (left >= 0) & (right >= 0)
    low, high = np.minimum(left, right)[plain], np.maximum(left, right)[plain]
    both = np.concatenate([np.column_stack((low, high, ends[plain])) for ends in (sources, targets)])
    found: dict[tuple[int, int], set[int]] = defaultdict(set)
    for a, b, end in np.unique(both, axis=0).tolist() if len(both) else ():
        found[a, b].add(end)
    mixed = (left != _NO_SET) & (right != _NO_SET) & ~plain  # an endpoint that stands for nodes of several sets
    for source, target in zip(sources[mixed].tolist(), targets[mixed].tolist(), strict=True):
        for a, b in product(served.get(source) or [int(only[source])], served.get(target) or [int(only[target])]):
            if a != b:
                found[min(a, b), max(a, b)].update((source, target))
    for end, by in served.items():
        for a, b in combinations(by, 2):
            found[a, b].add(end)
    return {pair: frozenset(ends) for pair, ends in found.items()}


def mean_between(
    network: NetworkMatrix, names: Names, ends: Names, score: ScorePolicy, *, across: Ends | None = None
) -> float:
    """Mean points between two sets of nodes. `across`: endpoints that lead from one to the other; `None`: any may.

    Cost: O(m² log pairs) for m measured nodes, or those at endpoints `across`.
    """
    rows, row_of = representatives(_own(network, names, ends, across))
    columns, column_of = representatives(_own(network, ends, names, across))
    some, others = [names[i] for i in rows], [ends[i] for i in columns]
    found = pair_scores(network.block(some, others), network.block(others, some), score)
    left, right = np.bincount(row_of, minlength=len(rows)), np.bincount(column_of, minlength=len(columns))
    return round(float(left @ found.points @ right / (len(names) * len(ends))) * _GRID) / _GRID


def _own(network: NetworkMatrix, names: Names, ends: Names, across: Ends | None) -> NDArray[np.bool_]:
    """Which of `names` may be connected with `ends` otherwise than any node that is measured nowhere."""
    near = frozenset(ends)
    own = np.fromiter((name in near for name in names), np.bool_, len(names))
    if across is None or network.estimates:
        return own | measured(network, names)
    for metric, indexes in across.items():
        own |= np.isin(network.endpoint_indexes(names, metric), list(indexes))
    return own


def _served(
    network: NetworkMatrix, index: Mapping[NodeName, int], group: Ints, metric: Metric
) -> tuple[Ints, dict[int, list[int]]]:
    """The one set that each endpoint serves (endpoints,), and for those of several sets which, ascending."""
    nodes = [node for node in network.endpoint_of.get(metric, {}) if node in index]
    ends = network.endpoint_indexes(nodes, metric)
    sets = group[np.array([index[node] for node in nodes], np.int64)]
    pairs = np.unique(ends[ends >= 0] * (int(sets.max(initial=0)) + 1) + sets[ends >= 0])
    at, of = np.divmod(pairs, int(sets.max(initial=0)) + 1)
    only = np.full(len(network.endpoints), _NO_SET, np.int64)
    only[at] = of
    several: dict[int, list[int]] = {}
    for end in at[1:][at[1:] == at[:-1]].tolist():
        several[end] = of[at == end].tolist()
    only[list(several)] = _SEVERAL
    return only, several
