"""What past bursts say: when each node was tried, which links are slow, and which nodes have fast ones.

A link is slow below `SLOW_RATIO` of what is usual: the median of the links of its zone, or the upper quartile of all
links between zones, because one slow uplink makes two of the three links between three zones slow; the one between two
zones is compared with what is usual inside them. A burst that failed says nothing of a link, so it is tried again soon,
and then less and less.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from math import ceil
from statistics import median
from typing import Final, NamedTuple

import msgspec

from scoring.ids import NodeName, ZoneName
from scoring.probing.peers import Pair

DAY_S: Final = 86_400.0
KEPT_S: Final = 2.0 * DAY_S  # A pair tried before that counts as never tried; a value is as long of use
REST_S: Final = DAY_S / 2.0
FAILED_REST_S: Final = 15.0  # After a burst that failed; twice as long after each further one …
RETRY_S: Final = 600.0  # … up to this
SLOW_RATIO: Final = 0.5
SLOW_REST_S: Final = 60.0
_JUDGED: Final = 3  # Results of a zone, from which on its median says what is slow
_MOST_DOUBLED: Final = 16


class PastBurst(NamedTuple):
    """One that was started; `pair` is sorted."""

    pair: Pair
    at_s: float
    bps: float | None = None  # Of its slower direction; `None`: nothing was measured


class History(msgspec.Struct):
    """What `KEPT_S` of bursts say of nodes and pairs."""

    used: Counter[NodeName] = msgspec.field(default_factory=Counter)  # Bursts in 24 hours
    last: dict[Pair, PastBurst] = {}
    last_of: dict[NodeName, float] = {}
    tried: defaultdict[NodeName, set[NodeName]] = msgspec.field(
        default_factory=lambda: defaultdict(set)
    )  # In its own zone
    failed: Counter[Pair] = msgspec.field(default_factory=Counter)  # How often in a row, up to now
    failed_between: Counter[tuple[ZoneName, ZoneName]] = msgspec.field(default_factory=Counter)
    slow: dict[Pair, int] = {}  # Pairs that are slow → how often in a row
    slow_of: Counter[NodeName] = msgspec.field(default_factory=Counter)  # Slow links inside the zone …
    fast_of: Counter[NodeName] = msgspec.field(default_factory=Counter)  # … and others
    last_between: dict[tuple[ZoneName, ZoneName], PastBurst] = {}  # By zones, sorted
    doubted: set[Pair] = set()  # Fast links between zones that may have turned slow since

    def rest_s(self, burst: PastBurst) -> float:
        """How long its pair is left alone."""
        if burst.bps is None:
            return _retry_s(self.failed[burst.pair])
        if burst.pair in self.doubted:
            return 0.0
        times = self.slow.get(burst.pair)
        return REST_S if times is None else min(SLOW_REST_S * 2.0 ** min(times - 1, _MOST_DOUBLED), REST_S)

    def rest_between_s(self, two: tuple[ZoneName, ZoneName]) -> float:
        """How long two zones are left alone after their last burst, by whichever nodes."""
        last = self.last_between[two]
        return _retry_s(self.failed_between[two]) if last.bps is None else self.rest_s(last)


def _retry_s(times: int) -> float:
    return min(FAILED_REST_S * 2.0 ** min(times - 1, _MOST_DOUBLED), RETRY_S)


def history(zone_of: Mapping[NodeName, ZoneName], past: Iterable[PastBurst], *, now_s: float) -> History:
    """Of bursts in the order of time. `zone_of`: nodes that count now. Cost: O(past)."""
    known, results = History(), defaultdict[Pair, list[float]](list)
    for one in past:
        if one.at_s <= now_s - KEPT_S:
            continue
        known.last[one.pair] = one
        ends = [zone_of.get(node) for node in one.pair]
        for node, peer in (one.pair, one.pair[::-1]):
            known.used[node] += one.at_s > now_s - DAY_S
            known.last_of[node] = one.at_s
            if None in ends or ends[0] == ends[1]:
                known.tried[node].add(peer)
        if ends[0] is not None and ends[1] is not None:
            if ends[0] != ends[1]:
                two = two_zones(ends[0], ends[1])
                known.last_between[two] = one
                known.failed_between[two] = known.failed_between[two] + 1 if one.bps is None else 0
            if one.bps is not None:
                results[one.pair].append(one.bps)
        known.failed[one.pair] = known.failed[one.pair] + 1 if one.bps is None else 0
    groups = defaultdict[ZoneName | None, list[float]](list)
    group_of = {pair: _group(zone_of, pair) for pair in results}
    for pair, rates in results.items():
        groups[group_of[pair]].append(rates[-1])
    between = groups.pop(None, [])
    usual: dict[ZoneName | None, float] = {
        zone: median(rates) for zone, rates in groups.items() if len(rates) >= _JUDGED
    }
    compared = between if len(between) >= _JUDGED else [*between, *usual.values()]
    if len(compared) >= _JUDGED:
        usual[None] = _upper_quartile(compared)
    for pair, rates in results.items():
        limit = SLOW_RATIO * usual.get(group_of[pair], 0.0)
        times = sum(1 for _ in takewhile(limit.__gt__, reversed(rates)))
        if times:
            known.slow[pair] = times
        if group_of[pair] is not None:
            (known.slow_of if times else known.fast_of).update(pair)
    known.doubted.update(_doubted(known))
    return known


def _doubted(known: History) -> Iterator[Pair]:
    """The newest fast link of each zone with a link that has turned slow since; of two zones, of each that may be why.

    So an uplink that is narrowed between the bursts of its zone is found by one of them. Cost: O(slow · zones²).
    """
    results = {two: burst for two, burst in known.last_between.items() if burst.bps is not None}
    slow = {two: burst for two, burst in results.items() if burst.pair in known.slow}
    slow_of = Counter(zone for two in slow for zone in two)
    for two, burst in slow.items():
        if known.slow[burst.pair] > 1:
            continue
        for zone, other in (two, two[::-1]):
            fast = [one for three, one in results.items() if zone in three and three not in slow]
            newest = max(fast, key=lambda one: one.at_s, default=burst)
            if newest.at_s < burst.at_s and slow_of[other] == 1:
                yield newest.pair


def _upper_quartile(rates: list[float]) -> float:
    """The nearest rank.

    >>> _upper_quartile([1e9, 1e7, 1e7])
    1000000000.0
    """
    return sorted(rates)[ceil(len(rates) * 0.75) - 1]


def _group(zone_of: Mapping[NodeName, ZoneName], pair: Pair) -> ZoneName | None:
    """The zone whose links this one is compared with; `None`: those between zones."""
    one, other = (zone_of[node] for node in pair)
    return one if one == other else None


def two_zones(one: ZoneName, other: ZoneName) -> tuple[ZoneName, ZoneName]:
    """Sorted."""
    return (one, other) if one < other else (other, one)
