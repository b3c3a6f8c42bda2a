"""Which pair of nodes measures its throughput next, or why none does: one burst at a time in the whole cluster.

Why so few: a burst fills a link for seconds, and no job is to pay for that. Rules:
- Both nodes have an agent with iperf3. No gang runs on them or is about to start there. In 24 hours a node takes part
  in at most `a_day` bursts.
- A link is slow below half the median of its zone, or half the upper quartile between zones, because one slow uplink
  makes two of the three links between three zones slow; that between two zones is compared with those inside them. Its
  ends that have no other result go first, with a peer that is known to be fast: the next two bursts say which end is
  slow. A slow link itself is tried again after `SLOW_REST_S`, twice as long after each further slow burst.
- Then each node has a first burst, in its own zone; then each two zones have one; then nodes with the fewest peers
  tried, of these with the fewest bursts in 24 hours, with a peer never tried, else the one tried longest ago.
- A measured pair rests for `REST_S`, one whose burst failed for `FAILED_REST_S`.

Pure: times are arguments, Unix seconds; ties go by name.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from itertools import chain, combinations, takewhile
from math import ceil
from statistics import median
from typing import Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from scoring import NodeName, ZoneName
from scoring.probing.peers import Pair

DAY_S: Final = 86_400.0
KEPT_S: Final = 2.0 * DAY_S  # A pair tried before that counts as never tried; a value is as long of use
REST_S: Final = DAY_S / 2.0
FAILED_REST_S: Final = 600.0  # A failed burst is one of `a_day`, too: what was in its way may be gone by then
SLOW_RATIO: Final = 0.5
SLOW_REST_S: Final = 60.0
_JUDGED: Final = 3  # Results of a zone, from which on its median says what is slow
_Name = TypeVar("_Name", NodeName, ZoneName)


class PastBurst(NamedTuple):
    """One that was started; `pair` is sorted."""

    pair: Pair
    at_s: float
    bps: float | None = None  # Of its slower direction; `None`: nothing was measured
    forth_bps: float | None = None  # From the first of the pair to the second; `None`: not known
    back_bps: float | None = None


class History(msgspec.Struct):
    """What `KEPT_S` of bursts say of nodes and pairs."""

    used: Counter[NodeName] = msgspec.field(default_factory=Counter)  # Bursts in 24 hours
    last: dict[Pair, PastBurst] = {}
    tried: dict[NodeName, set[NodeName]] = msgspec.field(default_factory=lambda: defaultdict(set))  # In its own zone
    slow: dict[Pair, int] = {}  # Pairs that are slow → how often in a row
    slow_of: Counter[NodeName] = msgspec.field(default_factory=Counter)  # Slow links inside the zone …
    fast_of: Counter[NodeName] = msgspec.field(default_factory=Counter)  # … and others
    last_between: dict[tuple[ZoneName, ZoneName], PastBurst] = {}  # By zones, sorted

    def rest_s(self, burst: PastBurst) -> float:
        """How long its pair is left alone."""
        if burst.bps is None:
            return FAILED_REST_S
        times = self.slow.get(burst.pair)
        return REST_S if times is None else min(SLOW_REST_S * 2.0 ** (times - 1), REST_S)


def history(zone_of: Mapping[NodeName, ZoneName], past: Iterable[PastBurst], *, now_s: float) -> History:
    """Of bursts in the order of time. `zone_of`: nodes that count now. Cost: O(past)."""
    tally, results = History(), defaultdict[Pair, list[float]](list)
    for burst in past:
        if burst.at_s <= now_s - KEPT_S:
            continue
        tally.last[burst.pair] = burst
        ends = [zone_of.get(node) for node in burst.pair]
        for node, peer in (burst.pair, burst.pair[::-1]):
            tally.used[node] += burst.at_s > now_s - DAY_S
            if None in ends or ends[0] == ends[1]:
                tally.tried[node].add(peer)
        if ends[0] is not None and ends[1] is not None:
            if ends[0] != ends[1]:
                tally.last_between[_sorted(ends[0], ends[1])] = burst
            if burst.bps is not None:
                results[burst.pair].append(burst.bps)
    groups = defaultdict[ZoneName | None, list[float]](list)
    group_of = {(a, b): zone_of[a] if zone_of[a] == zone_of[b] else None for a, b in results}  # `None`: between zones
    for pair, rates in results.items():
        groups[group_of[pair]].append(rates[-1])
    between = groups.pop(None, [])
    usual: dict[ZoneName | None, float]
    usual = {zone: median(rates) for zone, rates in groups.items() if len(rates) >= _JUDGED}
    compared = between if len(between) >= _JUDGED else [*between, *usual.values()]
    if len(compared) >= _JUDGED:
        usual[None] = sorted(compared)[ceil(len(compared) * 0.75) - 1]  # the upper quartile, by nearest rank
    for pair, rates in results.items():
        limit = SLOW_RATIO * usual.get(group_of[pair], 0.0)
        times = sum(1 for _ in takewhile(limit.__gt__, reversed(rates)))
        if times:
            tally.slow[pair] = times
        if group_of[pair] is not None:
            (tally.slow_of if times else tally.fast_of).update(pair)
    return tally


class BurstReason(StrEnum):
    """Why a pair is next, or why none is."""

    SUSPECT = "a link is slow, and another one is to say which of its nodes is"
    SLOW = "the pair was slow"
    NEW = "the pair was never measured"
    ZONES = "the two zones were never measured, or longest ago"
    OLDEST = "the pair was measured longest ago"
    ALONE = "no two nodes have an agent with iperf3"
    GANGS = "gangs are on the nodes"
    SPENT = "the nodes had their bursts of a day"
    RESTING = "all pairs were tried recently"


class NextBurst(NamedTuple):
    """A pair, sorted; `None` with the reason why not."""

    pair: Pair | None
    reason: BurstReason


class BurstView(msgspec.Struct, frozen=True):
    """The cluster as bursts need it."""

    zone_of: Mapping[NodeName, ZoneName]  # Nodes whose agent reports and has iperf3 → their zone
    with_gangs: AbstractSet[NodeName] = frozenset()  # Gangs run there or are about to start


_Wishes: TypeAlias = Iterator[tuple[Pair, BurstReason]]  # Pairs in the order in which one rule wants them


def next_bursts(view: BurstView, past: tuple[PastBurst, ...], a_day: int, count: int, now_s: float) -> list[NextBurst]:
    """At most `count`, each as if those before it were tried. The last one is without a pair if there is no other."""
    bursts: list[NextBurst] = []
    while len(bursts) < count and (not bursts or bursts[-1].pair is not None):
        tried = [PastBurst(burst.pair, now_s) for burst in bursts if burst.pair is not None]
        bursts.append(next_burst(view, (*past, *tried), a_day, now_s=now_s))
    return bursts


def next_burst(view: BurstView, past: Iterable[PastBurst], a_day: int, *, now_s: float) -> NextBurst:
    """The next pair; `past`: in the order of time. Cost: O(past + n log n), n nodes; n² once all pairs rest."""
    tally = history(view.zone_of, past, now_s=now_s)
    idle = view.zone_of.keys() - view.with_gangs
    free = {node for node in idle if tally.used[node] < a_day}
    for nodes, reason in ((view.zone_of, BurstReason.ALONE), (idle, BurstReason.GANGS), (free, BurstReason.SPENT)):
        if len(nodes) < 2:
            return NextBurst(None, reason)

    def order(node: NodeName) -> tuple[int, int, NodeName]:
        return len(tally.tried[node]), tally.used[node], node

    zones: defaultdict[ZoneName, list[NodeName]] = defaultdict(list)
    queue = sorted(free, key=order)
    for node in queue:
        zones[view.zone_of[node]].append(node)
    slow = sorted((pair for pair in tally.slow if free >= {*pair}), key=lambda pair: (tally.last[pair].at_s, pair))
    wishes = (
        _suspects(zones, tally),
        ((pair, BurstReason.SLOW) for pair in slow),
        ((_sorted(*nodes[:2]), BurstReason.NEW) for nodes in zones.values() if nodes[1:] and not tally.tried[nodes[0]]),
        _between(zones, tally, now_s=now_s),
        _more([(node, zones[view.zone_of[node]]) for node in queue], tally),
    )
    for pair, reason in chain.from_iterable(wishes):
        before = tally.last.get(pair)
        if before is None or now_s - before.at_s >= tally.rest_s(before):
            return NextBurst(pair, reason)
    return NextBurst(None, BurstReason.RESTING)


def _suspects(zones: Mapping[ZoneName, Sequence[NodeName]], tally: History) -> _Wishes:
    for nodes in zones.values():
        for node in nodes:
            if tally.slow_of[node] != 1 or tally.fast_of[node]:
                continue
            peers = [peer for peer in nodes if not (peer == node or peer in tally.tried[node] or tally.slow_of[peer])]
            if peers:
                yield _sorted(node, max(peers, key=lambda peer: tally.fast_of[peer] > 0)), BurstReason.SUSPECT


def _between(zones: Mapping[ZoneName, Sequence[NodeName]], tally: History, *, now_s: float) -> _Wishes:
    """Each two zones once in `REST_S`, by nodes whose own links are fast."""
    gateways = {
        zone: min(nodes, key=lambda node: (not tally.fast_of[node], tally.slow_of[node], tally.used[node], node))
        for zone, nodes in zones.items()
    }
    last = tally.last_between
    for two in sorted(combinations(sorted(zones), 2), key=lambda two: last[two].at_s if two in last else -KEPT_S):
        if two not in last or now_s - last[two].at_s >= tally.rest_s(last[two]):
            yield _sorted(gateways[two[0]], gateways[two[1]]), BurstReason.ZONES


def _more(queue: Iterable[tuple[NodeName, Sequence[NodeName]]], tally: History) -> _Wishes:
    """`queue`: nodes, and those of the node's zone, in their order."""
    for node, peers in queue:
        new = next((peer for peer in peers if peer != node and peer not in tally.tried[node]), None)
        if new is not None:
            yield _sorted(node, new), BurstReason.NEW
        pairs = [pair for peer in peers if peer != node and (pair := _sorted(node, peer)) in tally.last]
        for pair in sorted(pairs, key=lambda pair: (tally.last[pair].at_s, pair)):
            yield pair, BurstReason.OLDEST


def _sorted(first: _Name, second: _Name) -> tuple[_Name, _Name]:
    return (first, second) if first < second else (second, first)
