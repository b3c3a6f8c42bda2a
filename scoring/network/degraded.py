"""Which nodes, zones and pairs of zones have bad links now.

Why not a list of bad links: one bad node makes as many as it has neighbours, one uplink makes all between two zones.
Rules:
- A zone is meant where three quarters of its inner links are bad (that is half of its nodes); else the nodes that
  explain the bad links (`suspects_of`), if half of a node's links are bad, and at least three.
- Between zones the median counts, without the nodes found before: loss from 0.1 % on. Distance makes delay and
  throughput there, so each pair is compared with its own level: half as much delay again and a millisecond, or half of
  the throughput. A level follows what is better at once, what is worse within hours (`LEVEL_S`).
- An uplink is meant where half of a zone's pairs with other zones are bad, and at least two; else each pair.
- What is worse than half of that is *uncertain*: it keeps the last word (`scoring.network.alarms`).

Pure. The caller leaves out old values; what is not measured is neither good nor bad.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from scoring.ids import NodeName, ZoneName
from scoring.network.link_grades import bounds_of
from scoring.network.measurement import METRICS, Metric
from scoring.network.node_links import NodeLinks, Rows
from scoring.network.suspects import bad_inside, group_medians, suspects_of

LEVEL_S: Final = 6.0 * 3600.0
_ZONE_SHARE, _NODE_SHARE = 0.75, 0.5
_LEAST_LINKS: Final = 3  # Directed; both directions of one link do not say at which end the fault is
_MOST: Final = 64  # Nodes of one metric, and pairs of zones
_SOME: Final = 0.5


class Kind(StrEnum):
    """What is bad."""

    NODE = "node"  # Its links inside its zone
    ZONE = "zone"  # Links inside it
    UPLINK = "uplink"  # A zone's links to others
    BETWEEN = "between"  # Links between two zones


class Subject(NamedTuple):
    """About what: the node, the zone, or the two zones."""

    kind: Kind
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Degraded:
    """One subject and metric."""

    about: Subject
    metric: Metric
    bad: int  # Links of a node or inside a zone, both directions; pairs with other zones
    of: int
    worst: float  # In the metric's unit; between zones a median
    where: tuple[str, str]  # From and to, of the worst
    certain: bool


Levels: TypeAlias = Mapping[tuple[Metric, ZoneName, ZoneName], float]
"""(delay or throughput, from zone, to zone) → its usual ms, or s/Gbit"""


@dataclass(frozen=True, slots=True)
class Look:
    """What is bad, and of what anything is known; `levels` are for the next look."""

    degraded: tuple[Degraded, ...] = ()
    known: frozenset[Subject] = frozenset()
    there: frozenset[str] = frozenset()  # Nodes and zones of the cluster
    levels: Levels = field(default_factory=dict)


def degraded(links: NodeLinks, levels: Levels, *, elapsed_s: float) -> Look:
    """Look at links after `elapsed_s` since the last look's levels. Cost: O(m log m) for m links."""
    found: list[Degraded] = []
    known: set[Subject] = set()
    rows: dict[Metric, Rows] = {}  # Without zones that are bad as a whole
    for metric in METRICS:
        a, b, value, bad = bad_inside(links, metric)
        of = np.bincount(links.zone[a], minlength=len(links.zones))
        count = np.bincount(links.zone[a[bad]], minlength=len(links.zones))
        known.update(Subject(Kind.ZONE, (links.zones[zone],)) for zone in np.flatnonzero(of).tolist())
        for zone in np.flatnonzero((count >= _SOME * _ZONE_SHARE * of) & (count > 0)).tolist():
            own = bad & (links.zone[a] == zone)
            at = int((value[own].argmin if metric is Metric.THROUGHPUT else value[own].argmax)())
            where = links.names[int(a[own][at])], links.names[int(b[own][at])]
            certain = bool(count[zone] >= _ZONE_SHARE * of[zone])
            about = Subject(Kind.ZONE, (links.zones[zone],))
            worst = float(value[own][at])
            found.append(Degraded(about, metric, int(count[zone]), int(of[zone]), worst, where, certain))
        kept = (count < _ZONE_SHARE * of)[links.zone[links.rows[metric].source]]
        rows[metric] = links.rows[metric].where(kept)
        inner = links.inside(metric) & kept
        ends = np.unique(np.concatenate([links.rows[metric].source[inner], links.rows[metric].target[inner]]))
        known.update(Subject(Kind.NODE, (links.names[row],)) for row in ends.tolist())
    bad_nodes: set[tuple[Metric, NodeName]] = set()
    for one in suspects_of(replace(links, rows=rows), most=_MOST):
        certain = one.bad >= max(_LEAST_LINKS, _NODE_SHARE * one.of)
        if certain:
            bad_nodes.add((one.metric, one.node))
        about = Subject(Kind.NODE, (one.node,))
        found.append(Degraded(about, one.metric, one.bad, one.of, one.worst, one.link, certain))
    moved: dict[tuple[Metric, ZoneName, ZoneName], float] = {
        key: level for key, level in levels.items() if {*key[1:]} <= {*links.zones}
    }
    for metric in METRICS:
        without = {name for of_metric, name in bad_nodes if of_metric is metric}
        pairs = dict(_pairs(links, metric, without, moved, share=min(elapsed_s / LEVEL_S, 1.0)))
        for a_zone, b_zone in pairs:
            known.add(Subject(Kind.BETWEEN, (a_zone, b_zone)))
            known.update(Subject(Kind.UPLINK, (zone,)) for zone in (a_zone, b_zone))
        found += _uplinks(pairs, metric)
    return Look(tuple(found), frozenset(known), frozenset({*links.names, *links.zones}), moved)


class _Pair(NamedTuple):
    severity: float  # 1: bad
    median: float
    where: tuple[str, str]


def _pairs(
    links: NodeLinks,
    metric: Metric,
    without: set[NodeName],
    levels: dict[tuple[Metric, ZoneName, ZoneName], float],
    *,
    share: float,
) -> Iterator[tuple[tuple[ZoneName, ZoneName], _Pair]]:
    """Each pair of zones, in the order of names, with its worse direction; moves the levels."""
    size, rows = len(links.zones), links.rows[metric]
    left_out = np.array([name in without for name in links.names], np.bool_)
    use = ~links.inside(metric) & ~left_out[rows.source] & ~left_out[rows.target]
    cell = links.zone[rows.source[use]] * size + links.zone[rows.target[use]]
    worse: dict[tuple[ZoneName, ZoneName], _Pair] = {}
    for at, median in zip(*(column.tolist() for column in group_medians(cell, rows.value[use])), strict=True):
        one, other = links.zones[at // size], links.zones[at % size]
        severity = _severity(metric, median, levels, (metric, one, other), share=share)
        key = (one, other) if one < other else (other, one)
        if key not in worse or severity > worse[key].severity:
            worse[key] = _Pair(severity, median, (one, other))
    yield from worse.items()


def _severity(
    metric: Metric,
    median: float,
    levels: dict[tuple[Metric, ZoneName, ZoneName], float],
    key: tuple[Metric, ZoneName, ZoneName],
    *,
    share: float,
) -> float:
    if metric is Metric.LOSS:
        return median / bounds_of(metric).poor
    slow = median if metric is Metric.DELAY else 1e9 / max(median, 1.0)
    before = levels.get(key, slow)
    level = levels[key] = min(slow, before + (slow - before) * share)
    return (slow - level) / (max(1.0, level / 2.0) if metric is Metric.DELAY else level)


def _uplinks(pairs: Mapping[tuple[ZoneName, ZoneName], _Pair], metric: Metric) -> Iterator[Degraded]:
    """The zones that explain bad pairs, each taken with its pairs; then the pairs that are left."""
    of = Counter(zone for pair in pairs for zone in pair)
    left = {pair: one for pair, one in pairs.items() if one.severity >= _SOME}
    while left:
        counts = Counter(zone for pair in left for zone in pair)
        zone = min(counts, key=lambda name: (-counts[name], name))
        if counts[zone] < max(2.0, of[zone] / 2.0):
            break
        own = {pair: left.pop(pair) for pair in list(left) if zone in pair}
        worst = max(own.values(), key=lambda one: one.severity)
        certain = sum(one.severity >= 1.0 for one in own.values()) >= max(2.0, of[zone] / 2.0)
        yield Degraded(Subject(Kind.UPLINK, (zone,)), metric, len(own), of[zone], worst.median, worst.where, certain)
    for pair in sorted(left, key=lambda pair: (-left[pair].severity, pair))[:_MOST]:
        one = left[pair]
        yield Degraded(Subject(Kind.BETWEEN, pair), metric, 1, 1, one.median, one.where, one.severity >= 1.0)
