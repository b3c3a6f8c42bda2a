"""Which pair of nodes measures its throughput next, or why none does: one burst at a time in the whole cluster.

Why so few: a burst fills a link for seconds, and no job is to pay for that. Rules:
- Both nodes are in one zone and have an agent with iperf3. No gang runs on them or is about to start there, unless
  `beside_gangs`. In 24 hours a node takes part in at most `a_day` bursts.
- Nodes of zones that a waiting gang may use go first; then nodes with the fewest peers tried, so that each node has a
  first burst before any has two; then those that waited longest. A node's peer is one that it never tried, in the same
  order, else the one tried longest ago.
- A measured pair rests for `REST_S`, one whose burst failed for `RETRY_S`.

Pure: times are arguments, Unix seconds; ties go by name.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from scoring.ids import NodeName, ZoneName
from scoring.probing.peers import Pair

DAY_S: Final = 86_400.0
KEPT_S: Final = 2.0 * DAY_S  # A pair tried before that counts as never tried; a value is as long of use
REST_S: Final = DAY_S / 2.0
RETRY_S: Final = 600.0


class BurstReason(StrEnum):
    """Why a pair is next, or why none is."""

    NEW = "the pair was never measured"
    OLDEST = "the pair was measured longest ago"
    RUNNING = "a burst is running"
    ALONE = "no two nodes of one zone have an agent with iperf3"
    GANGS = "gangs are on the nodes"
    SPENT = "the nodes had their bursts of a day"
    RESTING = "all pairs were tried recently"


class PastBurst(NamedTuple):
    """One that was started; `pair` is sorted."""

    pair: Pair
    at_s: float
    measured: bool


class NextBurst(NamedTuple):
    """A pair, sorted; `None` with the reason why not."""

    pair: Pair | None
    reason: BurstReason


@dataclass(frozen=True, slots=True)
class BurstLimits:
    """What is allowed."""

    a_day: int = 24  # Bursts of one node in 24 hours
    beside_gangs: bool = False


@dataclass(frozen=True, slots=True)
class BurstView:
    """The cluster as bursts need it."""

    zone_of: Mapping[NodeName, ZoneName]  # Nodes whose agent reports and has iperf3 → their zone
    with_gangs: AbstractSet[NodeName] = frozenset()  # Gangs run there or are about to start
    first: AbstractSet[ZoneName] = frozenset()  # Zones that waiting gangs may use


def next_burst(
    view: BurstView, past: Iterable[PastBurst], limits: BurstLimits, *, running: bool, now_s: float
) -> NextBurst:
    """The next pair. `past` is in the order of time. Cost: O(past + n log n), n nodes; n² once all pairs rest.

    >>> nodes = {"a": "z", "b": "z", "c": "z"}
    >>> next_burst(BurstView(nodes), [], BurstLimits(), running=False, now_s=0.0)
    NextBurst(pair=('a', 'b'), reason=<BurstReason.NEW: 'the pair was never measured'>)
    >>> next_burst(BurstView(nodes), [PastBurst(("a", "b"), 0.0, True)], BurstLimits(), running=False, now_s=9.0).pair
    ('a', 'c')
    >>> next_burst(BurstView(nodes, with_gangs={"a", "b"}), [], BurstLimits(), running=False, now_s=0.0).reason
    <BurstReason.GANGS: 'gangs are on the nodes'>
    """
    if running:
        return NextBurst(None, BurstReason.RUNNING)
    used = Counter[NodeName]()
    last: dict[Pair, PastBurst] = {}
    last_of: dict[NodeName, float] = {}
    tried: defaultdict[NodeName, set[NodeName]] = defaultdict(set)
    for one in past:
        if one.at_s <= now_s - KEPT_S:
            continue
        last[one.pair] = one
        for node, peer in (one.pair, one.pair[::-1]):
            used[node] += one.at_s > now_s - DAY_S
            last_of[node] = one.at_s
            tried[node].add(peer)
    idle = view.zone_of.keys() if limits.beside_gangs else view.zone_of.keys() - view.with_gangs
    free = {node for node in idle if used[node] < limits.a_day}
    for nodes, reason in ((view.zone_of, BurstReason.ALONE), (idle, BurstReason.GANGS), (free, BurstReason.SPENT)):
        if max(Counter(view.zone_of[node] for node in nodes).values(), default=0) < 2:
            return NextBurst(None, reason)

    def order(node: NodeName) -> tuple[bool, int, float, NodeName]:
        return view.zone_of[node] not in view.first, len(tried[node]), last_of.get(node, -KEPT_S), node

    def ready(pair: Pair) -> bool:
        before = last.get(pair)
        return before is None or now_s - before.at_s >= (REST_S if before.measured else RETRY_S)

    queue = sorted(free, key=order)
    zones: defaultdict[ZoneName, list[NodeName]] = defaultdict(list)
    for node in queue:
        zones[view.zone_of[node]].append(node)
    for node in queue:
        peers = zones[view.zone_of[node]]
        new = next((peer for peer in peers if peer != node and peer not in tried[node]), None)
        if new is not None:
            return NextBurst(_pair(node, new), BurstReason.NEW)
        pairs = [pair for peer in peers if peer != node and ready(pair := _pair(node, peer))]
        if pairs:
            return NextBurst(min(pairs, key=lambda pair: (last[pair].at_s, pair)), BurstReason.OLDEST)
    return NextBurst(None, BurstReason.RESTING)


def _pair(one: NodeName, other: NodeName) -> Pair:
    return (one, other) if one < other else (other, one)
