"""Which pair measures its throughput next: never beside a gang, within each node's day, every node soon."""

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.ids import NodeName, ZoneName
from scoring.probing.bursts import (
    DAY_S,
    KEPT_S,
    REST_S,
    RETRY_S,
    BurstLimits,
    BurstReason,
    BurstView,
    PastBurst,
    next_burst,
)

NODES = [NodeName(f"n{i}") for i in range(7)]
ZONES = st.dictionaries(st.sampled_from(NODES), st.sampled_from([ZoneName("a"), ZoneName("b")]))
SOME = st.frozensets(st.sampled_from(NODES))
PAIR = st.sampled_from(list(combinations(NODES, 2)))
PAST = st.lists(st.builds(PastBurst, PAIR, st.floats(0.0, 3.0 * DAY_S), st.booleans()), max_size=60)
LIMITS = st.builds(BurstLimits, st.integers(1, 6), st.booleans())


def view(*nodes: NodeName, zone: str = "a", **more: frozenset[NodeName]) -> BurstView:
    return BurstView(dict.fromkeys(nodes, ZoneName(zone)), **more)


@given(ZONES, SOME, st.frozensets(st.sampled_from([ZoneName("a"), ZoneName("b")])), PAST, LIMITS)
def test_a_pair_is_allowed(
    zone_of: dict[NodeName, ZoneName],
    busy: frozenset[NodeName],
    first: frozenset[ZoneName],
    past: list[PastBurst],
    limits: BurstLimits,
) -> None:
    """In one zone, able, not beside a gang, within its day, rested; and only one at a time."""
    now_s = 3.0 * DAY_S
    past.sort(key=lambda one: one.at_s)
    seen = BurstView(zone_of, busy, first)
    pair, reason = next_burst(seen, past, limits, running=False, now_s=now_s)
    assert next_burst(seen, past, limits, running=True, now_s=now_s) == (None, BurstReason.RUNNING)
    if pair is None:
        assert reason not in (BurstReason.NEW, BurstReason.OLDEST)
        return
    one, other = pair
    assert one < other
    assert zone_of[one] == zone_of[other]
    assert limits.beside_gangs or busy.isdisjoint(pair)
    today = Counter(node for burst in past if burst.at_s > now_s - DAY_S for node in burst.pair)
    assert max(today[one], today[other]) < limits.a_day
    same = [burst for burst in past if burst.pair == pair and burst.at_s > now_s - KEPT_S]
    assert (reason is BurstReason.NEW) == (not same)
    if same:
        assert now_s - same[-1].at_s >= (REST_S if same[-1].measured else RETRY_S)


def test_each_node_has_one_before_any_has_two_and_all_pairs_are_measured() -> None:
    past: list[PastBurst] = []
    while True:
        pair, reason = next_burst(view(*NODES), past, BurstLimits(), running=False, now_s=float(len(past)))
        if pair is None:
            break
        past.append(PastBurst(pair, float(len(past)), True))
        counts = Counter(node for burst in past for node in burst.pair)
        assert max(counts.values()) - min(counts[node] for node in NODES) <= 2
    assert (reason, {burst.pair for burst in past}) == (BurstReason.RESTING, set(combinations(NODES, 2)))
    assert len(past) == 21
    assert {node for burst in past[:4] for node in burst.pair} == {*NODES}
    again = next_burst(view(*NODES), past, BurstLimits(), running=False, now_s=REST_S + 5.0)
    assert again == (past[0].pair, BurstReason.OLDEST)


def test_zones_of_waiting_gangs_go_first() -> None:
    zone_of = dict(zip(NODES[:4], map(ZoneName, "aabb"), strict=True))
    first = BurstView(zone_of, first=frozenset({ZoneName("b")}))
    assert next_burst(first, [], BurstLimits(), running=False, now_s=0.0).pair == ("n2", "n3")


A, B = NODES[:2]
NONE = {  # case: (reason, view, past)
    "no agents": (BurstReason.ALONE, view(), []),
    "one agent a zone": (BurstReason.ALONE, BurstView({A: ZoneName("a"), B: ZoneName("b")}), []),
    "a gang on one of two": (BurstReason.GANGS, view(A, B, with_gangs=frozenset({B})), []),
    "used up": (BurstReason.SPENT, view(A, B), [PastBurst((A, B), float(at), True) for at in (1, 2)]),
    "just tried": (BurstReason.RESTING, view(A, B), [PastBurst((A, B), 1.0, False)]),
}


@pytest.mark.parametrize(("reason", "seen", "past"), NONE.values(), ids=NONE)
def test_why_none(reason: BurstReason, seen: BurstView, past: list[PastBurst]) -> None:
    found = next_burst(seen, past, BurstLimits(a_day=2), running=False, now_s=RETRY_S)
    assert found == (None, reason)
