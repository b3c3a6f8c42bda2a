"""Which pair measures its throughput next: never beside a gang, within each node's day, every node soon."""

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring import NodeName, ZoneName
from scoring.probing import bursts as rules
from scoring.probing.bursts import BurstReason, BurstView, PastBurst, next_burst
from scoring.probing.peers import Pair

NODES = [NodeName(f"n{i}") for i in range(7)]
ZONES = st.dictionaries(st.sampled_from(NODES), st.sampled_from([ZoneName("a"), ZoneName("b")]))
SOME = st.frozensets(st.sampled_from(NODES))
PAIR = st.sampled_from(list(combinations(NODES, 2)))
RATE = st.sampled_from([None, 1e7, 9e8, 1e9])
PAST = st.lists(st.builds(PastBurst, PAIR, st.floats(0.0, 3.0 * rules.DAY_S), RATE), max_size=60)
A_DAY = 24
LIMITS = st.integers(1, 6)
Zoned = Mapping[NodeName, ZoneName]


def view(*nodes: NodeName, with_gangs: frozenset[NodeName] = frozenset()) -> BurstView:
    return BurstView(dict.fromkeys(nodes, ZoneName("a")), with_gangs=with_gangs)


@given(ZONES, SOME, PAST, LIMITS)
def test_a_pair_is_allowed(zone_of: Zoned, busy: frozenset[NodeName], past: list[PastBurst], a_day: int) -> None:
    now_s = 3.0 * rules.DAY_S
    past.sort(key=lambda one: one.at_s)
    pair, reason = next_burst(BurstView(zone_of, busy), past, a_day, now_s=now_s)
    if pair is None:
        assert reason in (BurstReason.ALONE, BurstReason.GANGS, BurstReason.SPENT, BurstReason.RESTING)
        return
    one, other = pair
    assert one < other
    assert zone_of[one] == zone_of[other] or reason in (BurstReason.ZONES, BurstReason.SLOW, BurstReason.SUSPECT)
    assert busy.isdisjoint(pair)
    today = Counter(node for burst in past if burst.at_s > now_s - rules.DAY_S for node in burst.pair)
    assert max(today[one], today[other]) < a_day
    same = [burst for burst in past if burst.pair == pair and burst.at_s > now_s - rules.KEPT_S]
    if zone_of[one] == zone_of[other] and reason in (BurstReason.NEW, BurstReason.SUSPECT):
        assert not same
    elif same and reason is not BurstReason.SUSPECT:
        rest_s = rules.SLOW_REST_S if reason is BurstReason.SLOW else rules.REST_S
        assert now_s - same[-1].at_s >= (rules.FAILED_REST_S if same[-1].bps is None else rest_s)


def test_each_node_has_one_before_any_has_two_and_all_pairs_are_measured() -> None:
    past: list[PastBurst] = []
    while True:
        pair, reason = next_burst(view(*NODES), past, A_DAY, now_s=float(len(past)))
        if pair is None:
            break
        past.append(PastBurst(pair, float(len(past)), 1e9))
        counts = Counter(node for burst in past for node in burst.pair)
        assert max(counts.values()) - min(counts[node] for node in NODES) <= 2
    assert (reason, sorted(burst.pair for burst in past)) == (BurstReason.RESTING, [*combinations(NODES, 2)])
    assert {node for burst in past[:4] for node in burst.pair} == {*NODES}
    assert next_burst(view(*NODES), past, A_DAY, now_s=rules.REST_S + 5.0) == (past[0].pair, BurstReason.OLDEST)


A, B = NODES[:2]
NONE = {  # case: (reason, view, past)
    "no agents": (BurstReason.ALONE, view(), []),
    "one agent": (BurstReason.ALONE, view(A), []),
    "a gang on one of two": (BurstReason.GANGS, view(A, B, with_gangs=frozenset({B})), []),
    "used up": (BurstReason.SPENT, view(A, B), [PastBurst((A, B), float(at), 1e9) for at in (1, 2)]),
    "just tried": (BurstReason.RESTING, view(A, B), [PastBurst((A, B), 1.0)]),
}


@pytest.mark.parametrize(("reason", "seen", "past"), NONE.values(), ids=NONE)
def test_why_none(reason: BurstReason, seen: BurstView, past: list[PastBurst]) -> None:
    assert next_burst(seen, past, 2, now_s=rules.FAILED_REST_S) == (None, reason)


def simulated(zone_of: Zoned, bps: Callable[[Pair, float], float | None], seconds: float) -> list[PastBurst]:
    """All bursts of so long, one every five seconds, each with what the links carry then."""
    past: list[PastBurst] = []
    for turn in range(int(seconds / 5.0)):
        at_s = 5.0 * turn
        pair, _ = next_burst(BurstView(zone_of), past, A_DAY, now_s=at_s)
        if pair is not None:
            past.append(PastBurst(pair, at_s, bps(pair, at_s)))
    return past


def slow(bad: NodeName) -> Callable[[Pair, float], float]:
    return lambda pair, _: 1e7 if bad in pair else 1e9


def pauses_s(past: list[PastBurst], bad: NodeName) -> list[float]:
    """Between the bursts of the first pair that the node is in."""
    pair = next(burst.pair for burst in past if bad in burst.pair)
    return [then_s - at_s for at_s, then_s in pairwise(burst.at_s for burst in past if burst.pair == pair)]


FOUR_ZONES = {NodeName(f"n{i:02}"): ZoneName("abcd"[i // 9]) for i in range(36)}


@pytest.mark.parametrize("bad", sorted(FOUR_ZONES))
def test_a_slow_node_of_36_has_two_slow_links_within_three_minutes_and_no_other_is_blamed(bad: NodeName) -> None:
    past = simulated(FOUR_ZONES, slow(bad), 140.0)
    best: dict[NodeName, float] = {}
    count = Counter[NodeName]()
    for burst in past:
        for node in burst.pair:
            best[node] = max(best.get(node, 0.0), burst.bps or 0.0)
            count[node] += 1
    assert {node for node, bps in best.items() if bps < 1e9} == {bad}
    assert best.keys() == FOUR_ZONES.keys()
    assert count[bad] >= 2


def test_each_two_zones_are_measured_within_three_minutes() -> None:
    past = simulated(FOUR_ZONES, lambda *_: 1e9, 140.0)
    between = {tuple(sorted({FOUR_ZONES[node] for node in burst.pair})) for burst in past}
    assert {two for two in between if len(two) == 2} == {*combinations("abcd", 2)}


def test_a_link_that_was_slow_is_tried_again_soon_then_less_and_less() -> None:
    past = simulated(FOUR_ZONES, slow(NodeName("n00")), 1000.0)
    assert [round(pause_s / rules.SLOW_REST_S) for pause_s in pauses_s(past, NodeName("n00"))] == [1, 2, 4]


@pytest.mark.parametrize("zones", [2, 3, 4])
def test_a_slow_uplink_that_is_mended_is_fast_again_within_three_minutes(zones: int) -> None:
    zone_of = {node: zone for node, zone in FOUR_ZONES.items() if zone in "abcd"[:zones]}
    past: list[PastBurst] = []
    mended_s = 0.0
    for at_s in range(0, 600, 5):
        pair, _ = next_burst(BurstView(zone_of), past, A_DAY, now_s=float(at_s))
        if pair is not None:
            is_uplink = {zone_of[node] == "b" for node in pair} == {True, False}
            past.append(PastBurst(pair, float(at_s), 1e7 if is_uplink and not mended_s else 1e9))
        slow = {burst.pair for burst in past if burst.bps == 1e7}
        mended_s = mended_s or (float(at_s) if len(slow) == zones - 1 else 0.0)
    last = {burst.pair: burst for burst in past}
    fast_s = max(min(burst.at_s for burst in past if burst.pair == pair and burst.bps == 1e9) for pair in slow)
    assert {burst.bps for burst in last.values()} == {1e9}
    assert 0.0 < fast_s - mended_s <= 180.0


def test_where_all_links_are_slow_none_is_suspected() -> None:
    past = simulated(FOUR_ZONES, lambda *_: 1e7, 400.0)
    assert max(Counter(burst.pair for burst in past).values()) == 1
