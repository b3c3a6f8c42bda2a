"""Which nodes measure each other, what the windows of both ends say about a link, and which of them blame it."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring import EndpointId, Metric, NodeName, ZoneName
from scoring.network.measurement import Measurement, MeasurementTable
from scoring.probing import peers as rules
from scoring.probing.links import Attendance, LinkState, LinkValue, LinkWindow, link_value
from scoring.probing.peers import PeerTurn, assign_peers, of_gateways, slots_of

COUNT = st.integers(0, 500)


def state(*windows: Mapping[str, object]) -> LinkState:
    found = LinkState(0.0)
    for number, more in enumerate(windows):
        fields: Any = {"sent": 100, "lost": 0, "rtt_ms": 1.0, **more}
        found = found.with_window(LinkWindow(10.0 * number, 10.0 * number + 10.0, **fields))
    return found


def value(near: LinkState | None, far: LinkState | None) -> LinkValue:
    found = link_value(near, far)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("window", "there", "back"),
    {
        "nothing lost": ({}, (0.0, 0.5), (0.0, 0.5)),
        "lost, and not known where": ({"lost": 4}, (0.04, 0.5), (0.04, 0.5)),
        "lost on the way there": ({"lost": 4, "lost_out": 4, "lost_back": 0}, (0.04, 0.5), (0.0, 0.5)),
        "lost on the way back": ({"lost": 48, "lost_out": 4, "lost_back": 48}, (0.04, 0.5), (0.5, 0.5)),
        "a one-way delay": ({"rtt_ms": 3.0, "one_way_ms": 1.0}, (0.0, 1.0), (0.0, 2.0)),
        "clocks that differ": ({"rtt_ms": 3.0, "one_way_ms": 4.0}, (0.0, 4.0), (0.0, 0.0)),
        "no answer at all": ({"lost": 100, "rtt_ms": None}, (1.0, None), (1.0, None)),
    }.values(),
)
def test_one_window(window: dict[str, object], there: tuple[float, float], back: tuple[float, float]) -> None:
    found = state(window)
    assert value(found, None) == LinkValue(10.0, *there)
    assert value(None, found) == LinkValue(10.0, *back)


def test_packets_of_both_ends_are_counted_together() -> None:
    near = state({"lost": 4, "lost_out": 4, "lost_back": 0, "rtt_ms": 1.0})
    far = state({"lost": 0, "lost_out": 0, "lost_back": 0, "rtt_ms": 3.0})
    found = value(near, far)
    assert found.loss_ratio == pytest.approx(0.02)
    assert found.delay_ms == pytest.approx((96 * 0.5 + 100 * 1.5) / 196)
    assert link_value(None, None) is None


def test_packets_count_by_the_time_between_them() -> None:
    often, seldom = ([fields] * 6 for fields in ({}, {"sent": 10, "packet_weight": 10.0}))
    assert value(state({"lost": 10}, *often), None) == value(state({"lost": 10}, *seldom), None)


@given(COUNT, COUNT, COUNT, st.floats(0.0, 1e4), st.none() | st.floats(0.0, 1e4))
def test_no_report_gives_a_value_that_cannot_be(
    sent: int, lost_out: int, lost_back: int, rtt_ms: float, one_way_ms: float | None
) -> None:
    lost_out = min(lost_out, sent)
    lost_back = min(lost_back, sent - lost_out)
    window = LinkWindow(0.0, 10.0, sent, lost_out + lost_back, lost_out, lost_back, rtt_ms, one_way_ms)
    state = LinkState(0.0).with_window(window)
    for found in (value(state, None), value(None, state), value(state, state)):
        assert found.loss_ratio is None or 0.0 <= found.loss_ratio <= 1.0
        assert found.delay_ms is None or 0.0 <= found.delay_ms <= 2e4


REPORTS: dict[str, tuple[list[tuple[float, float]], bool]] = {
    # case: reports of the peer's agent as (time, suspect ratio); whether they cover the window from 20 to 30
    "on time": ([(10.0, 0.0), (20.0, 0.0), (30.0, 0.0)], True),
    "one report missed": ([(12.0, 0.0), (32.0, 0.05)], True),
    "not there yet": ([(25.0, 0.0), (35.0, 0.0)], False),
    "stopped for half a minute": ([(15.0, 0.0), (45.0, 0.0)], False),
    "late itself": ([(15.0, 0.0), (25.0, 0.5), (35.0, 0.0)], False),
    "gone": ([(10.0, 0.0), (20.0, 0.0)], False),
}


@pytest.mark.parametrize(("reports", "covered"), REPORTS.values(), ids=REPORTS)
def test_a_link_is_blamed_only_while_the_agent_at_its_other_end_was_there(
    reports: list[tuple[float, float]], covered: bool
) -> None:
    (first_s, _), *others = reports
    found = Attendance(first_s, first_s)
    for at_s, suspect_ratio in others:
        found = found.after(at_s, interval_s=10.0, suspect_ratio=suspect_ratio)
    assert found.covers(LinkWindow(20.0, 30.0, sent=100, lost=100)) is covered


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
        assert len({*peers} - {node}) == len(peers)
        assert all(node in found[peer] for peer in peers)
        if len(zones) > rules.SMALL:
            assert sum(zones[peer] == zones[node] for peer in peers) <= rules.ZONE_PEERS
        assert sum(zones[peer] != zones[node] for peer in peers) <= rules.GATEWAY_PEERS
    turned = {name: zones[name] for name in sorted(zones, key=hash)}  # another order of the same nodes
    assert assign_peers(turned, PeerTurn(epoch, "seed"), wanted=wanted) == found


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
    assert sum(changes) / len(changes) < 5 * (rules.ZONE_PEERS + rules.GATEWAY_PEERS)


def test_nodes_of_gangs_measure_each_other_in_every_epoch() -> None:
    zones = cluster(400)
    gang = set(sorted(zones)[:9])
    every = set.intersection(*(links(zones, epoch, wanted=gang) for epoch in range(0, 200, 10)))
    assert every == {pair for pair in every if set(pair) <= gang}
    assert len(every) >= 9 * rules.WANTED_PEERS / 2 * 0.8


def test_another_seed_is_another_assignment() -> None:
    zones = cluster(200)
    assert assign_peers(zones, PeerTurn(0, "one")) != assign_peers(zones, PeerTurn(0, "two"))


@given(st.sets(st.text(max_size=8), max_size=70), st.booleans())
def test_every_name_has_one_slot(names: set[str], spare: bool) -> None:
    slots = slots_of(sorted(names), "seed", spare=spare)
    assert sorted(slots[slots >= 0].tolist()) == list(range(len(names)))


ZONE_OF = {EndpointId(end): ZoneName(end[0]) for end in ("a1", "a2", "b1", "b2")}
Row = tuple[str, str, Metric, float]
LOSS, DELAY, BURST = Metric.LOSS, Metric.DELAY, Metric.THROUGHPUT
NEW = [("a2", "b1", LOSS, 61.0), ("a2", "b2", LOSS, 100.0)]
CASES = {  # sentence: (rows (from, to, metric, time) that go, rows that stay) with 40 s, at 100 s
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
    rows = [Measurement(EndpointId(a), EndpointId(b), metric, 0.01, at_s) for a, b, metric, at_s in old + new]
    found = of_gateways(MeasurementTable.from_measurements(rows), ZONE_OF, now_s=100.0, keep_s=40.0)
    assert [(row.source, row.target) for row in found] == [row[:2] for row in new]
