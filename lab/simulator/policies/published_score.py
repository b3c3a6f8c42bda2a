"""The published score of a pair of nodes (PAPERS N2), in the units and weights of a public prototype, uncapped.

Why: the paper fixes neither units nor weights, and does not cap the bandwidth term. Rule: nothing is mended here. From
2 % of loss or 40 ms on all links tie in that term; a missing value is 2 %, 40 ms or no rate at all.
"""

from collections.abc import Callable, Hashable
from typing import Any, cast

import numpy as np

from scoring.network.matrix import Block, Floats, Metric, NetworkMatrix
from scoring.plan.cache import OfNetwork, S
from scoring.score.pairs import LinkPoints, Links


def published_points(forward: Block, backward: Block) -> Floats:
    """max(0, 20 − 10·loss%) + max(0, 40 − ms) + 40·Gbit/s, of the worse of the two directions; (n, m) and (m, n) in.

    >>> from tests.builders import mesh
    >>> names = ["a", "b"]
    >>> block = mesh(names, loss_ratio=0.01, delay_ms=10.0, throughput_bps=5e7).block(names, names)
    >>> published_points(block, block)[0, 1].tolist()
    42.0
    """
    there, back = forward.values, backward.turned.values
    loss = np.nan_to_num(np.fmax(there[Metric.LOSS], back[Metric.LOSS]), nan=0.02)
    delay = np.nan_to_num(np.fmax(there[Metric.DELAY], back[Metric.DELAY]), nan=40.0)
    rate = np.nan_to_num(np.fmin(there[Metric.THROUGHPUT], back[Metric.THROUGHPUT]), nan=0.0)
    points = np.maximum(0.0, 20.0 - 1000.0 * loss) + np.maximum(0.0, 40.0 - delay) + 40.0 * rate / 1e9
    best = max(100.0, float(points.max(initial=0.0)))  # a node is no worse to itself than to any other
    return np.where(forward.same | backward.same.T, best, points)


class PublishedScores(OfNetwork, kw_only=True):
    """A planner's cache of network data that has these scores in place of netgang's."""

    data: NetworkMatrix

    def links(self, table: dict[Hashable, S], key: Hashable, make: Callable[[], S]) -> S:
        """Of the pairs that the key names. Cost: O(nodes²) the first time."""
        del make
        names, *ends, _ = cast(tuple[Any, ...], key)
        if not ends:
            block = self.data.block(names, names)
            points = published_points(block, block)
            made: LinkPoints | Links = Links(np.arange(len(names)), -1, points, points, None)
        else:
            points = published_points(self.data.block(names, ends[0]), self.data.block(ends[0], names))
            made = LinkPoints(points, points)
        return super().links(table, key, lambda: cast(S, made))
