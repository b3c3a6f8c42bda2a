"""Measured links between nodes; which nodes and zones have bad ones now, and when to announce that.

An endpoint that several nodes share (one host for a site) stands for the first of them by name. Rules:
- A link is bad by the grade of its value (`bounds_of`), or if its delay is three times the median of its zone and a
  millisecond above it. Links between zones do not count, because distance makes their delay.
- A zone is meant where three quarters of its inner links are bad (that is half of its nodes); else the nodes that
  explain the bad links (a greedy vertex cover): one after the other, each time the one with most bad links that are
  left, if these are half of its links, and at least three. Bad links to a node found before count in neither number.
- What is worse than half of that is *uncertain*, and so is a node in a bad zone: it changes nothing.
- Announced is what was bad for `BAD_S`, or good for `GOOD_S`, at all looks that could decide; two announcements of one
  subject are at least `QUIET_S` apart, and only what is still so is announced then. At most `MOST` at one look.
- Good is only what is measured by the metrics that were bad. What is not for `QUIET_S` is bad no more: a mark needs
  evidence, and what keeps pods away must end.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scoring import METRICS, Metric, NodeName, ZoneName
from scoring.network.matrix import NetworkMatrix, group_medians
from scoring.network.measurement import Floats, Ints
from scoring.records import DegradedLinks, Subject, SubjectKind

Bools: TypeAlias = NDArray[np.bool_]


class Rows(NamedTuple):
    """Directed links with a value of one metric; nodes are numbers in the order of their names."""

    source: Ints
    target: Ints
    value: Floats

    def where(self, chosen: Bools) -> "Rows":
        """Only these."""
        return Rows(self.source[chosen], self.target[chosen], self.value[chosen])


def rows_of_ends(matrix: NetworkMatrix, index: Mapping[NodeName, int], metric: Metric) -> Ints:
    """(endpoints,) row in `index` of the node it is named by, else of the first measured there; −1: none. O(nodes)."""
    rows = np.full(len(matrix.endpoints), -1, np.int64)
    ends = sorted(matrix.ends(metric), reverse=True)
    for node, end in sorted(ends, key=lambda named: str(matrix.endpoints[named[1]]) == named[0]):
        if node in index:
            rows[end] = index[node]
    return rows


_ZONE_SHARE, _NODE_SHARE = 0.75, 0.5
_LEAST_LINKS: Final = 3  # Directed; both directions of one link do not say at which end the fault is
_LEAST_SHARE: Final = 0.25  # Of a node's links; below that it is a neighbour of what is bad, not the cause
_MOST: Final = 64  # Nodes of one metric
_SOME: Final = 0.5
_TIMES, _ABOVE_MS = 3.0, 1.0  # A delay is bad from so many times the zone's median on, if it is so much above it


class Grade(StrEnum):
    """How good a value is, in the colours of MaDDash; the letter stands for it where there is no colour.

    Loss is graded as the published view does (PAPERS N6: green up to 0.001 %, pink from 0.1 % on); delay and throughput
    by the share of the points that the published score gives them, so that three quarters of 40 points less one per ms
    end at 10 ms and a quarter at 30 ms; and in proportion to the best rate.
    """

    GOOD = "+"
    FAIR = "o"
    POOR = "#"
    UNKNOWN = "?"
    UNCHECKED = "."


class GradeBounds(msgspec.Struct, frozen=True):
    """Where the grades of one metric end, in its own unit (ratio, ms, bit/s)."""

    good: float
    poor: float
    highest_is_best: bool = False


def bounds_of(metric: Metric, *, best: float = 0.0) -> GradeBounds:
    """Bounds of a metric; `best`: the highest throughput of the mesh, bit/s."""
    if metric is Metric.LOSS:
        return GradeBounds(1e-5, 1e-3)
    if metric is Metric.DELAY:
        return GradeBounds(10.0, 30.0)
    return GradeBounds(0.75 * best, 0.25 * best, highest_is_best=True)


def are_bad(metric: Metric, values: Floats, *, best: float = 0.0) -> Bools:
    """Which values are bad by their grade; an unknown one (NaN) is not. `best` as for `bounds_of`.

    >>> are_bad(Metric.LOSS, np.array([0.0, 0.001, 0.13, np.nan])).tolist()
    [False, True, True, False]
    """
    bounds = bounds_of(metric, best=best)
    return values < bounds.poor if bounds.highest_is_best else values >= bounds.poor


class LinksLook(msgspec.Struct, frozen=True):
    """What is bad, and by which metrics anything is known of whom."""

    degraded: tuple[DegradedLinks, ...] = ()  # Without doubt
    known: Mapping[Subject, frozenset[str]] = {}
    there: frozenset[str] = frozenset()  # Nodes and zones of the cluster
    uncertain: frozenset[Subject] = frozenset()


def degraded(
    matrix: NetworkMatrix, zone_of: Mapping[NodeName, ZoneName], *, ages_s: Mapping[Metric, float | None]
) -> LinksLook:
    """Look at links of nodes of these zones, with values younger than the age of their metric; `None`: of any age.

    Cost: O(m log m) for m links, and O(bad links) for each node found.
    """
    names, zones = sorted(zone_of), sorted(set(zone_of.values()))
    index, number = {name: i for i, name in enumerate(names)}, {zone: i for i, zone in enumerate(zones)}
    zone_of_row = np.array([number[zone_of[name]] for name in names], np.int64)
    findings: list[tuple[DegradedLinks, bool]] = []  # And whether it is certain
    measured: defaultdict[Subject, set[str]] = defaultdict(set)  # By which metrics
    unclear: set[Subject] = set()  # Nodes in bad zones: whose fault their links are nobody can tell
    for metric in METRICS:
        inner = _inner(matrix, rows_of_ends(matrix, index, metric), zone_of_row, metric, ages_s[metric])
        zone = zone_of_row[inner.source]
        bad = _bad(inner.value, zone, metric)
        of, count = (np.bincount(some, minlength=len(zones)) for some in (zone, zone[bad]))
        for at in np.flatnonzero(of).tolist():
            measured[Subject(SubjectKind.ZONE, zones[at])].add(metric)
        for at in np.flatnonzero((count >= _SOME * _ZONE_SHARE * of) & (count > 0)).tolist():
            about = Subject(SubjectKind.ZONE, zones[at])
            described = _described(names, metric, about, inner.where(bad & (zone == at)), of[at])
            findings.append((described, bool(count[at] >= _ZONE_SHARE * of[at])))
        others = (count < _ZONE_SHARE * of)[zone]
        for row in np.union1d(inner.source, inner.target).tolist():
            measured[about := Subject(SubjectKind.NODE, names[row])].add(metric)
            if count[zone_of_row[row]] >= _ZONE_SHARE * of[zone_of_row[row]]:
                unclear.add(about)
        inner, bad = inner.where(others), bad[others]
        findings += _nodes(names, metric, inner, inner.where(bad))
    doubted = unclear.union(links.about for links, certain in findings if not certain)
    certain, there = tuple(links for links, certain in findings if certain), frozenset({*names, *zones})
    return LinksLook(certain, {about: frozenset(of) for about, of in measured.items()}, there, frozenset(doubted))


def _inner(matrix: NetworkMatrix, row_of: Ints, zone_of_row: Ints, metric: Metric, age_s: float | None) -> Rows:
    """Links between two nodes of one zone; `row_of`: endpoint → the node's row."""
    sources, targets, values, ages_s = matrix.measured_values(metric)
    source, target = row_of[sources], row_of[targets]
    chosen = (source >= 0) & (target >= 0) & (source != target) & (ages_s < (np.inf if age_s is None else age_s))
    return Rows(source, target, values).where(chosen & (zone_of_row[source] == zone_of_row[target]))


def _bad(value: Floats, zone: Ints, metric: Metric) -> Bools:
    bad = are_bad(metric, value, best=float(value.max(initial=0.0)))
    if metric is Metric.DELAY:
        zones, of_zone, *_ = group_medians(zone, value)
        medians = of_zone[np.searchsorted(zones, zone)]
        bad |= value >= np.maximum(_TIMES * medians, medians + _ABOVE_MS)
    return bad


def _nodes(names: Sequence[NodeName], metric: Metric, inner: Rows, left: Rows) -> Iterator[tuple[DegradedLinks, bool]]:
    """The nodes that explain the bad links (`left`), those with most first, by name among equals."""
    of = _links(inner, len(names))
    for _ in range(_MOST):
        counts = _links(left, len(names))
        if not len(left.source) or counts[row := int(counts.argmax())] < _LEAST_SHARE * of[row]:
            return
        own, left = (left.where(((left.source == row) | (left.target == row)) == its) for its in (True, False))
        certain = bool(counts[row] >= max(_LEAST_LINKS, _NODE_SHARE * of[row]))
        yield _described(names, metric, Subject(SubjectKind.NODE, names[row]), own, of[row]), certain
        of = of - _links(own, len(names)) * certain


def _links(rows: Rows, size: int) -> Ints:
    return np.bincount(rows.source, minlength=size) + np.bincount(rows.target, minlength=size)


def _described(names: Sequence[NodeName], metric: Metric, about: Subject, bad: Rows, of: int) -> DegradedLinks:
    at = int((bad.value.argmin if metric is Metric.THROUGHPUT else bad.value.argmax)())
    source, target = names[int(bad.source[at])], names[int(bad.target[at])]
    return DegradedLinks(*about, metric.value, len(bad.value), int(of), float(bad.value[at]), source, target)


BAD_S: Final = 60.0
GOOD_S: Final = 120.0
QUIET_S: Final = 3600.0  # Schedulers keep new pods off a marked node: a link that flaps must not change that often
MOST: Final = 10


NETWORK_DEGRADED: Final = "NetworkDegraded"  # Condition of a node, and the taint that may come with it: netgang's own
DEGRADED_TAINT: Final = "netgang.io/network-degraded"


class NodeMark(msgspec.Struct, frozen=True):
    """netgang's condition on a node, as the cluster shows it."""

    degraded: bool
    since_s: float  # When it last changed, Unix seconds


class AlarmState(msgspec.Struct, frozen=True):
    """One subject."""

    bad: bool
    since_s: float
    known_s: float  # When a look last had links of it, by each of the metrics
    announced_bad: bool = False
    announced_s: float | None = None
    metrics: frozenset[str] = frozenset()  # Which were bad; empty: a former leader knew


def mark_words(about: Subject, state: AlarmState, look: LinksLook) -> tuple[str, str] | None:
    """Reason and message of what is announced; `None`: as bad, and by now it is in doubt.

    >>> node, loss = Subject(SubjectKind.NODE, "n1"), DegradedLinks("node", "n1", "loss", 14, 16, 0.012, "n1", "n2")
    >>> mark_words(node, AlarmState(True, 43440.0, 43500.0, True, 43500.0), LinksLook((loss,)))
    ('BadLinks', 'loss up to 1.2 % (n1 → n2) on 14 of 16 links since 1970-01-01 12:04 UTC')
    """
    since = f" since {datetime.fromtimestamp(state.since_s, UTC):%Y-%m-%d %H:%M UTC}"
    if not state.announced_bad:
        measured = look.known.get(about, frozenset())
        if not measured or not state.metrics <= measured:
            return "NotMeasured", "links are not measured any more"
        return "GoodLinks", f"links are good{'' if state.bad else since}"
    bad = [links for links in look.degraded if links.about == about]
    return ("BadLinks", f"{'; '.join(links.words for links in bad)}{since}") if bad else None


def recalled(mark: NodeMark, *, now_s: float) -> AlarmState:
    """The state of a node of which its condition tells what was announced last, for a leader that knows no more."""
    at_s = min(mark.since_s, now_s)  # another machine's clock
    return AlarmState(mark.degraded, at_s, now_s, mark.degraded, at_s)


def step(
    states: Mapping[Subject, AlarmState], look: LinksLook, *, now_s: float
) -> tuple[dict[Subject, AlarmState], list[Subject]]:
    """The states after a look, and what to announce. Cost: O(states + degraded)."""
    bad: defaultdict[Subject, set[str]] = defaultdict(set)
    for links in look.degraded:
        bad[links.about].add(links.metric)
    after: dict[Subject, AlarmState] = {}
    alarms: list[Subject] = []
    for about in sorted({*states, *bad}):
        if about.name not in look.there:
            continue
        state, metrics = states.get(about), look.known.get(about, frozenset())
        if state is None and about not in bad:
            continue
        state = state or AlarmState(bad=True, since_s=now_s, known_s=now_s)
        measured = about in bad or (bool(metrics) and state.metrics <= metrics)
        verdict = True if about in bad else False if measured and about not in look.uncertain else None
        if verdict:
            state = replace(state, metrics=frozenset(bad[about]))
        if measured:
            state = replace(state, known_s=now_s)
        elif now_s - state.known_s >= QUIET_S:
            verdict = False
        if verdict is not None and verdict is not state.bad:
            state = replace(state, bad=verdict, since_s=now_s)
        settled = now_s - state.since_s >= (BAD_S if state.bad else GOOD_S)
        quiet = state.announced_s is None or now_s - state.announced_s >= QUIET_S
        due = settled and quiet and state.bad is not state.announced_bad
        if verdict is not None and due and len(alarms) < MOST:
            alarms.append(about)
            state = replace(state, announced_bad=state.bad, announced_s=now_s)
        if state.bad or state.announced_bad or (state.announced_s is not None and now_s - state.announced_s < QUIET_S):
            after[about] = state
    return after, alarms
