"""Which pair of nodes measures its throughput next, or why none does: one burst at a time in the whole cluster.

Why so few: a burst fills a link for seconds, and no job is to pay for that. Rules:
- Both nodes have an agent with iperf3. No gang runs on them or is about to start there. In 24 hours a node takes part
  in at most `a_day` bursts.
- A link is slow below half the median of its zone, or half the upper quartile between zones. Its ends that have no
  other result go first, with a peer that is known to be fast: so the next two bursts say which end is slow. Of two
  zones whose link has turned slow, the newest fast link of each is measured again: that shows which uplink is slow. A
  slow link itself is tried again after `SLOW_REST_S`, twice as long after each further slow burst.
- Then each node has a first burst, in its own zone; then each two zones have one; then nodes with the fewest peers
  tried and those that waited longest. Nodes of zones that a waiting gang may use go before others. A node's peer is one
  that it never tried, in the same order, else the one tried longest ago.
- A measured pair rests for `REST_S`, one whose burst failed for `FAILED_REST_S`, then twice as long up to `RETRY_S`.

Pure: times are arguments, Unix seconds; ties go by name.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from itertools import chain, combinations
from typing import NamedTuple, TypeAlias

import msgspec

from scoring.ids import NodeName, ZoneName
from scoring.probing.burst_history import KEPT_S, History, PastBurst, history
from scoring.probing.peers import Pair


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
    first: AbstractSet[ZoneName] = frozenset()  # Zones that waiting gangs may use


_Wishes: TypeAlias = Iterator[tuple[Pair, BurstReason]]  # Pairs in the order in which one rule wants them


class BurstQuestion(msgspec.Struct, frozen=True):
    """Which bursts come next: what they depend on, taken at one moment, so that a thread can work on it."""

    view: BurstView
    past: tuple[PastBurst, ...]  # In the order of time, with those that were chosen already
    a_day: int  # Most bursts of one node in 24 hours
    count: int  # Most that are wanted
    now_s: float

    @property
    def size(self) -> int:
        """Nodes and bursts that are gone through."""
        return self.count * (len(self.view.zone_of) + len(self.past))

    def chosen(self) -> list[NextBurst]:
        """The next ones, each as if those before it were tried. The last one is without a pair if there is no other."""
        found: list[NextBurst] = []
        while len(found) < self.count and (not found or found[-1].pair is not None):
            tried = [PastBurst(one.pair, self.now_s) for one in found if one.pair is not None]
            past = (*self.past, *tried)
            found.append(next_burst(self.view, past, self.a_day, now_s=self.now_s))
        return found


def next_burst(view: BurstView, past: Iterable[PastBurst], a_day: int, *, now_s: float) -> NextBurst:
    """The next pair. `past` is in the order of time. Cost: O(past + n log n), n nodes; n² once all pairs rest.

    >>> nodes = {"a": "z", "b": "z", "c": "z"}
    >>> next_burst(BurstView(nodes), [], 24, now_s=0.0)
    NextBurst(pair=('a', 'b'), reason=<BurstReason.NEW: 'the pair was never measured'>)
    >>> next_burst(BurstView(nodes), [PastBurst(("a", "b"), 0.0, 1e9)], 24, now_s=9.0).pair
    ('a', 'c')
    >>> next_burst(BurstView(nodes, with_gangs={"a", "b"}), [], 24, now_s=0.0).reason
    <BurstReason.GANGS: 'gangs are on the nodes'>
    """
    known = history(view.zone_of, past, now_s=now_s)
    idle = view.zone_of.keys() - view.with_gangs
    free = {node for node in idle if known.used[node] < a_day}
    for nodes, reason in ((view.zone_of, BurstReason.ALONE), (idle, BurstReason.GANGS), (free, BurstReason.SPENT)):
        if len(nodes) < 2:
            return NextBurst(None, reason)

    def order(node: NodeName) -> tuple[bool, int, float, NodeName]:
        return view.zone_of[node] not in view.first, len(known.tried[node]), known.last_of.get(node, -KEPT_S), node

    zones: defaultdict[ZoneName, list[NodeName]] = defaultdict(list)
    queue = sorted(free, key=order)
    for node in queue:
        zones[view.zone_of[node]].append(node)
    wishes = (
        _suspects(zones, known),
        ((pair, BurstReason.SUSPECT) for pair in sorted(known.doubted) if free >= {*pair}),
        _slow(free, known),
        _first(zones, known),
        _between(zones, known, now_s=now_s),
        _more([(node, zones[view.zone_of[node]]) for node in queue], known),
    )
    for pair, reason in chain.from_iterable(wishes):
        before = known.last.get(pair)
        if before is None or now_s - before.at_s >= known.rest_s(before):
            return NextBurst(pair, reason)
    return NextBurst(None, BurstReason.RESTING)


def _suspects(zones: Mapping[ZoneName, Sequence[NodeName]], known: History) -> _Wishes:
    for nodes in zones.values():
        for node in nodes:
            if known.slow_of[node] != 1 or known.fast_of[node]:
                continue
            peers = [one for one in nodes if one != node and one not in known.tried[node] and not known.slow_of[one]]
            if peers:
                yield _pair(node, max(peers, key=lambda peer: known.fast_of[peer] > 0)), BurstReason.SUSPECT


def _slow(free: AbstractSet[NodeName], known: History) -> _Wishes:
    slow = [pair for pair in known.slow if free >= {*pair}]
    return ((pair, BurstReason.SLOW) for pair in sorted(slow, key=lambda pair: (known.last[pair].at_s, pair)))


def _first(zones: Mapping[ZoneName, Sequence[NodeName]], known: History) -> _Wishes:
    for nodes in zones.values():
        if len(nodes) > 1 and not known.tried[nodes[0]]:
            yield _pair(nodes[0], nodes[1]), BurstReason.NEW


def _between(zones: Mapping[ZoneName, Sequence[NodeName]], known: History, *, now_s: float) -> _Wishes:
    """Each two zones once in `REST_S`, by nodes whose own links are fast."""
    gateways = {
        zone: min(nodes, key=lambda node: (not known.fast_of[node], known.slow_of[node], known.used[node], node))
        for zone, nodes in zones.items()
    }

    def last_s(two: tuple[ZoneName, ZoneName]) -> float:
        before = known.last_between.get(two)
        return before.at_s if before is not None else -KEPT_S

    for two in sorted(combinations(sorted(zones), 2), key=last_s):
        before = known.last_between.get(two)
        if before is None or now_s - before.at_s >= known.rest_between_s(two):
            yield _pair(gateways[two[0]], gateways[two[1]]), BurstReason.ZONES


def _more(queue: Iterable[tuple[NodeName, Sequence[NodeName]]], known: History) -> _Wishes:
    """`queue`: nodes, and those of the node's zone, in their order."""
    for node, peers in queue:
        new = next((peer for peer in peers if peer != node and peer not in known.tried[node]), None)
        if new is not None:
            yield _pair(node, new), BurstReason.NEW
        pairs = [pair for peer in peers if peer != node and (pair := _pair(node, peer)) in known.last]
        for pair in sorted(pairs, key=lambda pair: (known.last[pair].at_s, pair)):
            yield pair, BurstReason.OLDEST


def _pair(one: NodeName, other: NodeName) -> Pair:
    return (one, other) if one < other else (other, one)
