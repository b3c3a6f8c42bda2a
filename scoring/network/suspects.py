"""Which nodes explain the bad links inside the zones: the first question when training is slow.

Why not the nodes with most bad links: one bad node makes a bad link of each of its neighbours. So nodes are taken one
after the other, each time the one with most bad links that are left, and its links count for no other node: a greedy
vertex cover. Rules: a link is bad by the grade of its value, or if its delay is three times the median of its zone and
a millisecond above it; links between zones do not count, because distance makes their delay. Pure.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from scoring.ids import NodeName, ZoneName
from scoring.network.link_grades import bounds_of
from scoring.network.measurement import METRICS, Floats, Ints, Metric
from scoring.network.node_links import Bools, NodeLinks

_LEAST_SHARE: Final = 0.25  # Of its links; below that a node is a neighbour of what is bad, not the cause
_TIMES, _ABOVE_MS = 3.0, 1.0  # A delay is bad from so many times the zone's median on, if it is so much above it


@dataclass(frozen=True, slots=True)
class SuspectNode:
    """One node and metric: how many of its links inside the zone are bad, and the worst of them."""

    node: NodeName
    zone: ZoneName
    metric: Metric
    bad: int  # Directed links
    of: int
    worst: float  # In the metric's unit
    link: tuple[NodeName, NodeName]  # From and to, of the worst


def suspects_of(links: NodeLinks, *, most: int) -> list[SuspectNode]:
    """Nodes that explain bad links inside their zones, those with the largest share of bad links first, then by name.

    A node can be there once a metric; `most` bounds each metric, and all. Cost: O(links), and O(bad links) for each.
    """
    found = [one for metric in METRICS for one in _of_metric(links, metric, most)]
    return sorted(found, key=lambda one: (-one.bad / one.of, -one.bad, one.node))[:most]


def bad_inside(links: NodeLinks, metric: Metric) -> tuple[Ints, Ints, Floats, Bools]:
    """From, to and value of the links inside zones, and which of them are bad. Cost: O(m log m) for m links."""
    inside = links.inside(metric)
    rows = links.rows[metric]
    source, target, value = rows.source[inside], rows.target[inside], rows.value[inside]
    if metric is Metric.THROUGHPUT:
        return source, target, value, value < bounds_of(metric, best=float(value.max(initial=0.0))).poor
    bad = value >= bounds_of(metric).poor
    if metric is Metric.DELAY:
        zones, of_zone = group_medians(links.zone[source], value)
        medians = of_zone[np.searchsorted(zones, links.zone[source])]
        bad |= value >= np.maximum(_TIMES * medians, medians + _ABOVE_MS)
    return source, target, value, bad


def group_medians(group: Ints, value: Floats) -> tuple[Ints, Floats]:
    """The groups there are, ascending, and the lower median of each one's values. Cost: O(m log m).

    >>> [column.tolist() for column in group_medians(np.array([0, 2, 0, 0]), np.array([3.0, 5.0, 1.0, 2.0]))]
    [[0, 2], [2.0, 5.0]]
    """
    order = np.lexsort((value, group))
    groups, starts, counts = np.unique(group[order], return_index=True, return_counts=True)
    return groups, value[order][starts + (counts - 1) // 2]


def _of_metric(links: NodeLinks, metric: Metric, most: int) -> list[SuspectNode]:
    a, b, values, bad = bad_inside(links, metric)
    size = len(links.names)
    of = np.bincount(a, minlength=size) + np.bincount(b, minlength=size)
    a, b, values = a[bad], b[bad], values[bad]
    found: list[SuspectNode] = []
    while len(a) and len(found) < most:
        counts = np.bincount(a, minlength=size) + np.bincount(b, minlength=size)
        row = int(counts.argmax())
        if counts[row] < _LEAST_SHARE * of[row]:
            break
        own = (a == row) | (b == row)
        at = int((values[own].argmin if metric is Metric.THROUGHPUT else values[own].argmax)())
        ends = links.names[int(a[own][at])], links.names[int(b[own][at])]
        zone = links.zones[int(links.zone[row])]
        found.append(
            SuspectNode(links.names[row], zone, metric, int(counts[row]), int(of[row]), float(values[own][at]), ends)
        )
        a, b, values = a[~own], b[~own], values[~own]
    return found
