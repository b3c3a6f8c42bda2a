"""Peers: mutual, bounded, stable; which values between zones stay once other nodes are the gateways."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.ids import EndpointId, NodeName, ZoneName
from scoring.network.measurement import Measurement, MeasurementTable, Metric
from scoring.probing.peers import (
    GATEWAY_PEERS,
    SMALL,
    WANTED_PEERS,
    ZONE_PEERS,
    PeerTurn,
    assign_peers,
    of_gateways,
    slots_of,
)

Zones = dict[NodeName, ZoneName]


def cluster(*sizes: int) -> Zones:
    return {NodeName(f"n{i}-{j}"): ZoneName(f"z{i}") for i, size in enumerate(sizes) for j in range(size)}


def links(zones: Zones, epoch: int = 0, **more: object) -> set[tuple[NodeName, NodeName]]:
    found = assign_peers(zones, PeerTurn(epoch, "seed"), **more)  # type: ignore[arg-type]
    return {(one, other) for one, peers in found.items() for other in peers if one < other}


ZONES = st.lists(st.integers(1, 90), min_size=1, max_size=8).map(lambda sizes: cluster(*sizes))


@given(ZONES, st.integers(0, 10_000), st.sets(st.integers(0, 700)))
def test_peers_are_mutual_bounded_and_of_the_cluster(zones: Zones, epoch: int, picks: set[int]) -> None:
    names = sorted(zones)
    wanted = {names[i] for i in picks if i < len(names)}
    found = assign_peers(zones, PeerTurn(epoch, "seed"), wanted=wanted)
    assert list(found) == names
    for node, peers in found.items():
        assert len(set(peers)) == len(peers)
        assert node not in peers
        assert all(node in found[peer] for peer in peers)
        if len(zones) > SMALL:
            assert sum(zones[peer] == zones[node] for peer in peers) <= ZONE_PEERS
        assert sum(zones[peer] != zones[node] for peer in peers) <= GATEWAY_PEERS
    names.sort(key=hash)  # another order of the same nodes
    again = assign_peers({name: zones[name] for name in names}, PeerTurn(epoch, "seed"), wanted=wanted)
    assert again == found


@pytest.mark.parametrize("sizes", [(36,), (64,), (12, 12, 12), (1, 1, 1, 1), (30, 2)])
def test_a_small_cluster_measures_all_pairs_of_its_zones_at_once(sizes: tuple[int, ...]) -> None:
    zones = cluster(*sizes)
    inside = {(a, b) for a, b in combinations(sorted(zones), 2) if zones[a] == zones[b]}
    found = links(zones)
    assert inside <= found
    assert {(zones[a], zones[b]) for a, b in found - inside} == set(combinations(sorted(set(zones.values())), 2))


@pytest.mark.parametrize(
    ("sizes", "epochs"),
    {"zones of 64": ((64, 50, 17), 4), "100 nodes": ((100,), 64), "20 zones": ((4,) * 20, 16)}.values(),
)
def test_all_pairs_of_a_zone_and_all_pairs_of_zones_have_their_turn(sizes: tuple[int, ...], epochs: int) -> None:
    zones, seen = cluster(*sizes), set[tuple[NodeName, NodeName]]()
    for epoch in range(7, 7 + max(epochs, 8)):
        seen |= links(zones, epoch)
    inside = {(a, b) for a, b in combinations(sorted(zones), 2) if zones[a] == zones[b]}
    assert inside <= seen
    between = {frozenset((zones[a], zones[b])) for a, b in seen} - {frozenset((zone,)) for zone in zones.values()}
    assert len(between) == len(sizes) * (len(sizes) - 1) // 2


def test_a_large_zone_changes_slowly() -> None:
    zones = cluster(500)
    kept = len(links(zones, 3) & links(zones, 4)) / len(links(zones, 3))
    assert 0.6 < kept < 1.0


@pytest.mark.parametrize("sizes", [(300,), (100,) * 5, (30,) * 20], ids=str)
def test_a_node_that_goes_or_comes_changes_few_pairs(sizes: tuple[int, ...]) -> None:
    """On average over ten nodes: what it had itself, and what a few others lose or win by it."""
    zones, changes = cluster(*sizes), []
    for gone in sorted(zones)[:: len(zones) // 10]:
        left = {node: zone for node, zone in zones.items() if node != gone}
        changes.append(len(links(zones) ^ links(left)))
    assert sum(changes) / len(changes) < 5 * (ZONE_PEERS + GATEWAY_PEERS)


def test_nodes_of_gangs_measure_each_other_in_every_epoch() -> None:
    zones = cluster(400)
    gang = set(sorted(zones)[:9])
    every = set.intersection(*(links(zones, epoch, wanted=gang) for epoch in range(0, 200, 10)))
    assert every == {pair for pair in every if set(pair) <= gang}
    assert len(every) >= 9 * WANTED_PEERS / 2 * 0.8


def test_another_seed_is_another_assignment_and_fewer_peers_can_be_asked_for() -> None:
    zones = cluster(200)
    assert assign_peers(zones, PeerTurn(0, "one")) != assign_peers(zones, PeerTurn(0, "two"))
    assert max(map(len, assign_peers(zones, PeerTurn(0), most=6).values())) == 6


@given(st.sets(st.text(max_size=8), max_size=70), st.booleans())
def test_every_name_has_one_slot(names: set[str], spare: bool) -> None:
    slots = slots_of(sorted(names), "seed", spare=spare)
    assert sorted(slots[slots >= 0].tolist()) == list(range(len(names)))


ZONE_OF = {EndpointId(end): ZoneName(end[0]) for end in ("a1", "a2", "b1", "b2")}


Row = tuple[str, str, Metric, float]


def kept(*rows: Row) -> list[tuple[str, str]]:
    """The ends of those rows (from, to, metric, time) that stay with 40 s, at 100 s."""
    table = MeasurementTable.of(
        Measurement(EndpointId(one), EndpointId(other), metric, 0.01, at_s) for one, other, metric, at_s in rows
    )
    found = of_gateways(table, ZONE_OF, now_s=100.0, keep_s=40.0)
    return [(row.source, row.target) for row in found]


LOSS, DELAY, BURST = Metric.LOSS, Metric.DELAY, Metric.THROUGHPUT
NEW = [("a2", "b1", LOSS, 61.0), ("a2", "b2", LOSS, 100.0)]
CASES = {  # sentence: (rows that go, rows that stay)
    "former gateways go after a while": ([("a1", "b1", LOSS, 59.0)], NEW),
    "each direction and metric is judged by itself": ([], [("b1", "a1", LOSS, 0.0), ("a1", "b1", DELAY, 0.0), *NEW]),
    "links inside a zone stay": ([], [("a1", "a2", LOSS, 0.0), ("a2", "a1", LOSS, 100.0)]),
    "throughput stays": ([], [("a1", "b1", BURST, 0.0), ("a2", "b2", BURST, 100.0)]),
    "what a clock that was set back left in the future pushes nothing out": (
        [("a1", "b1", LOSS, 59.0)], [NEW[0], ("a2", "b2", LOSS, 3700.0)]),
    "nothing is nothing": ([], []),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new"), CASES.values(), ids=CASES)
def test_which_values_stay(old: list[Row], new: list[Row]) -> None:
    assert kept(*old, *new) == [row[:2] for row in new]
