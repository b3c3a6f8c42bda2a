"""Assign to each node the peers that it measures, and leave out what former ones between zones measured.

Why: a full mesh of n nodes costs n² traffic and n² values. Rules:
- A cluster of at most `SMALL` nodes measures all pairs of its zones at once. In a larger one a node has at most
  `ZONE_PEERS` peers in its zone and `GATEWAY_PEERS` outside it, and pairs take turns from epoch to epoch: a zone of at
  most 64 nodes has seen all of its pairs after four epochs, a larger one after (slots / `SLOW_STEP`).
- Nodes have slots, and round r pairs slot i with slot i XOR r: each round is a perfect matching, so both ends measure a
  link, and all rounds together are all pairs. A node that comes or goes changes its own pairs, and those of the few
  that had wanted the same slot. The number of slots is a power of two; when it doubles, all pairs change.
- `wanted` nodes (gangs run there or are about to start) measure each other in every epoch, as up to `WANTED_PEERS`.

Pure: the same nodes, zones, wanted nodes, epoch and seed give the same peers, whatever their order.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from hashlib import blake2b
from itertools import chain, combinations
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scoring import METRICS, EndpointId, Metric, NodeName, ZoneName
from scoring.network.measurement import Floats, Ints, MeasurementTable

ZONE_PEERS: Final = 16
WANTED_PEERS: Final = 8
GATEWAY_PEERS: Final = 4
SMALL: Final = 64  # Nodes of a cluster that measures everything at once, and of a zone whose turns are quick
SLOW_STEP: Final = 4  # Rounds by which a large zone moves on in an epoch: about a quarter of its peers
_PER_ZONE_PAIR: Final = 2  # Gateways of a pair of zones at a time
_ZONE_ROUNDS: Final = 16  # Rounds between zones in one epoch
_FEWEST_SLOTS: Final = 16

_Hashes = NDArray[np.uint64]
Pair = tuple[NodeName, NodeName]


class PeerTurn(NamedTuple):
    """Which turn it is: the epoch grows with time; the seed differs between clusters."""

    epoch: int
    seed: str = ""


def assign_peers(
    zone_of: Mapping[NodeName, ZoneName], turn: PeerTurn, *, wanted: AbstractSet[NodeName] = frozenset()
) -> dict[NodeName, tuple[NodeName, ...]]:
    """The peers of each node, sorted. Cost: O(n · `ZONE_PEERS` + zones · `_ZONE_ROUNDS`)."""
    nodes_of: dict[ZoneName, list[NodeName]] = {}  # zone → its nodes, sorted
    for node in sorted(zone_of):
        nodes_of.setdefault(zone_of[node], []).append(node)
    peers_of: dict[NodeName, list[NodeName]] = {node: [] for node in sorted(zone_of)}
    small = len(zone_of) <= SMALL
    groups: list[Iterable[Pair]] = [_gateway_pairs(nodes_of, turn)]
    for nodes in nodes_of.values():
        groups += [combinations(nodes, 2) if small else _zone_pairs(nodes, turn, wanted=wanted)]
    for node, peer in chain.from_iterable(groups):
        peers_of[node].append(peer)
        peers_of[peer].append(node)
    return {node: tuple(sorted(peers)) for node, peers in peers_of.items()}


def _zone_pairs(nodes: Sequence[NodeName], turn: PeerTurn, *, wanted: AbstractSet[NodeName]) -> Iterator[Pair]:
    """Pairs of one zone: 1. among wanted nodes, the same in each epoch; 2. the rounds of this epoch."""
    count = len(nodes)
    degree = np.zeros(count, np.int64)
    taken: set[int] = set()  # row · count + row of pairs that are there already
    number = {node: row for row, node in enumerate(nodes)}
    chosen = [node for node in nodes if node in wanted] if count > SMALL else []
    plans = []
    if len(chosen) > 1:
        rows = np.array([number[node] for node in chosen], np.int64)
        slots = slots_of(chosen, turn.seed, spare=True)
        plans.append((rows, slots, _rounds(len(slots), f"{turn.seed}/wanted"), WANTED_PEERS))
    slots = slots_of(nodes, turn.seed, spare=count > SMALL)
    order = _rounds(len(slots), turn.seed)
    step, window = (ZONE_PEERS, ZONE_PEERS) if count <= SMALL else (SLOW_STEP, 4 * ZONE_PEERS)
    plans.append((np.arange(count), slots, _turned(order, turn.epoch * step, window), ZONE_PEERS))
    for rows, slots, rounds, limit in plans:
        at, places = np.where(slots >= 0, rows[slots], -1), np.arange(len(slots))  # slot → row
        for round_ in rounds.tolist():
            partner = at[places ^ round_]
            good = (at >= 0) & (at < partner) & (degree[at] < limit) & (degree[partner] < limit)
            degree[at[good]] += 1
            degree[partner[good]] += 1
            for row, peer in zip(at[good].tolist(), partner[good].tolist(), strict=True):
                if (key := row * count + peer) not in taken:
                    taken.add(key)
                    yield nodes[row], nodes[peer]


def slots_of(names: Sequence[str], seed: str, *, spare: bool) -> Ints:
    """Slot → index of its name, −1 where it is free. Cost: O(n) at most three quarters full, which `spare` promises.

    A name tries slots in an order of its own; of two that want one slot the one with the smaller hash has it.
    """
    size, need = _FEWEST_SLOTS, len(names) * 4 // 3 if spare else len(names)
    while size < need:
        size *= 2
    slots = [-1] * size
    for value, row in sorted((_hash(f"{seed}/{name}"), row) for row, name in enumerate(names)):
        at, stride = value % size, (value >> 32) | 1  # an odd stride comes to every slot of a power of two
        while slots[at] >= 0:
            at = (at + stride) % size
        slots[at] = row
    return np.array(slots, np.int64)


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


def _rounds(size: int, label: str) -> Ints:
    """All rounds of so many slots, in an order of this label."""
    return np.random.Generator(np.random.PCG64(_hash(label))).permutation(np.arange(1, size))


def _turned(order: Ints, start: int, count: int) -> Ints:
    """So many rounds of the order, from the start on and around."""
    return np.asarray(order[(start + np.arange(min(count, len(order)))) % len(order)], np.int64)


def _gateway_pairs(nodes_of: Mapping[ZoneName, Sequence[NodeName]], turn: PeerTurn) -> Iterable[Pair]:
    """A few pairs for each pair of zones of this epoch; no node has more than `GATEWAY_PEERS`."""
    zones = sorted(nodes_of)
    if len(zones) < 2:
        return
    hashes = [np.array([_hash(f"{turn.seed}/gateway/{n}") for n in nodes_of[zone]], np.uint64) for zone in zones]
    used = [np.zeros(len(of_zone), np.int64) for of_zone in hashes]
    at = slots_of(zones, turn.seed, spare=False)
    order = _rounds(len(at), f"{turn.seed}/zones")
    places = np.arange(len(at))
    for round_ in _turned(order, turn.epoch * GATEWAY_PEERS, _ZONE_ROUNDS).tolist():
        partner = at[places ^ round_]
        for left, right in zip(at.tolist(), partner.tolist(), strict=True):
            if not 0 <= left < right:
                continue
            chosen: set[tuple[int, int]] = set()
            for number in range(min(_PER_ZONE_PAIR, max(len(hashes[left]), len(hashes[right])))):
                label = f"{turn.seed}/{zones[left]}/{zones[right]}/{number}/{turn.epoch // GATEWAY_PEERS}"
                a = _gateway(hashes[left], used[left], f"{label}/a")
                b = _gateway(hashes[right], used[right], f"{label}/b")
                if a is None or b is None or (a, b) in chosen:
                    continue
                chosen.add((a, b))
                used[left][a] += 1
                used[right][b] += 1
                yield nodes_of[zones[left]][a], nodes_of[zones[right]][b]


def _gateway(hashes: _Hashes, used: Ints, label: str) -> int | None:
    """The place of the node nearest to the label that can take one more peer: it stays when others come and go."""
    able = np.flatnonzero(used < GATEWAY_PEERS)
    return int(able[(hashes[able] ^ np.uint64(_hash(label))).argmin()]) if len(able) else None


def of_gateways(
    table: MeasurementTable, zone_of: Mapping[EndpointId, ZoneName], *, now_s: float, keep_s: float
) -> MeasurementTable:
    """The table without what former gateways measured; rows inside a zone all stay. Cost: O(rows · log rows).

    Why: values of former gateways would show a fault of an uplink as long as they are kept, and would hide the next
    one. Loss and delay between two zones count for `keep_s` after those that were measured last there; what a clock
    that was set back left in the future counts as measured now, and pushes nothing out. Bursts all stay.
    """
    zones = {zone: number for number, zone in enumerate(sorted(set(zone_of.values())))}
    zone = np.array([zones[zone_of[end]] for end in table.ends], np.int64)
    source, target = zone[table.source], zone[table.target]
    groups, group = np.unique(table.keys({end: zones[zone_of[end]] for end in table.ends}), return_inverse=True)
    last_s: Floats = np.full(len(groups), -np.inf)
    np.maximum.at(last_s, group, np.minimum(table.measured_at_s, now_s))
    always = (source == target) | (table.metric == METRICS.index(Metric.THROUGHPUT))
    stays = always | (table.measured_at_s >= last_s[group] - keep_s)
    return table if stays.all() else table.where(stays)
