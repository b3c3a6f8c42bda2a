"""What explain says would let a gang in does let it in: looked at on random clusters, through what-if."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from scoring.explain.gang import explain
from scoring.explain.unblock import Unblocking, unblock
from scoring.explain.waiting import NEVER
from scoring.ids import GangKey, Namespace
from scoring.model.policy import Policy, QueuePolicy
from scoring.model.reasons import Reason
from scoring.plan import Plan, plan
from scoring.what_if.draft import Situation
from scoring.what_if.suppose import what_if
from tests.example_counts import FEW, THOROUGH
from tests.scoring.plan.planned import POLICY, clusters, crowded

pytestmark = pytest.mark.slow  # seconds each: processes, simulations or many plans

LIMITED = replace(POLICY, queue=QueuePolicy(share_cap_by_namespace=((Namespace("default"), 0.4),)))
PICKY = [HealthCheck.too_slow, HealthCheck.filter_too_much]
"""In many clusters no gang waits, and those are no cases."""


@st.composite
def waits(draw: st.DrawFn, *, never: bool = False) -> tuple[Situation, Plan, GangKey]:
    """A cluster, its plan, and a gang that waits in it; `never`: one that waiting alone cannot help."""
    state = draw(st.one_of(clusters(), crowded(), crowded()))
    assume(all(one.assignment for one in state.commitments.values()))  # the cache ends empty ones
    policy: Policy = draw(st.sampled_from([POLICY, POLICY, LIMITED]))
    now_s = draw(st.sampled_from([4.0, 400.0, 5000.0]))
    made = plan(state, policy, now_s=now_s)
    listed = sorted(key for key, one in made.waiting.items() if one.reason in NEVER or not never)
    assume(listed)
    return Situation(state, policy, now_s), made, draw(st.sampled_from(listed))


def asked(case: tuple[Situation, Plan, GangKey]) -> Unblocking:
    base, made, key = case
    return unblock(base, made, base.snapshot.gangs[key])


@pytest.mark.timeout(300)
@settings(THOROUGH, suppress_health_check=PICKY)
@given(waits())
def test_every_suggestion_lets_the_gang_in(case: tuple[Situation, Plan, GangKey]) -> None:
    """200 random cases: there is a way in; each, applied through what-if, admits the gang and changes nothing else.

    The first one also when every gang is placed again. A gang that would not fit the empty cluster is told so, and so
    is no other.
    """
    base, made, key = case
    used = base.snapshot.used.copy()
    found = asked(case)
    assert found.suggestions, (made.waiting[key], found)
    for number, one in enumerate(found.suggestions):
        supposed = what_if(base, made, one.changes)
        assert key in supposed.plan.admitted
        assert {turned.gang for turned in supposed.difference.admitted} == {key, *one.also}
        assert {turned.gang for turned in supposed.difference.refused} == set(one.instead)
        after = supposed.situation
        assert number or key in plan(after.snapshot, after.policy, now_s=after.now_s).admitted
    assert (base.snapshot.used == used).all()
    assert plan(base.snapshot, base.policy, now_s=base.now_s) == made
    impossible = made.waiting[key].reason in NEVER
    assert (found.impossible, found.text.startswith("Waiting will not help")) == (impossible, impossible)


@settings(FEW, suppress_health_check=PICKY)
@given(waits(never=True))
def test_impossible_gangs_say_so(case: tuple[Situation, Plan, GangKey]) -> None:
    """Not left to chance: 25 gangs that would not fit the empty cluster, or whose zones there are not.

    The end of all others would not let them in: an empty cluster is supposed, and they still wait.
    """
    base, made, key = case
    told = asked(case)
    assert (told.impossible, told.text.startswith("Waiting will not help")) == (True, True)
    snapshot = base.snapshot
    alone = replace(
        snapshot,
        version=snapshot.version + 1,
        gangs={key: snapshot.gangs[key]},
        used=snapshot.used * 0,
        commitments={},
        claims={},
    )
    assert made.waiting[key].reason in NEVER
    assert plan(alone, base.policy, now_s=base.now_s).waiting[key].reason in NEVER


@settings(FEW, suppress_health_check=PICKY)
@given(waits())
def test_the_same_snapshot_is_explained_in_the_same_way(case: tuple[Situation, Plan, GangKey]) -> None:
    base, made, key = case
    gang = base.snapshot.gangs[key]
    first, again = (explain(base.snapshot, made, gang, base.policy, now_s=base.now_s) for _ in range(2))
    assert first == again
    assert asked(case) == asked(case)


@settings(FEW, suppress_health_check=PICKY)
@given(waits())
def test_a_zone_without_anything_short_has_room_for_all(case: tuple[Situation, Plan, GangKey]) -> None:
    """Counting and shortage agree: nothing is short where, kind by kind, all find room, and never elsewhere."""
    base, made, key = case
    assume(made.waiting[key].reason in (Reason.NO_ROOM, Reason.IMPOSSIBLE))
    told = explain(base.snapshot, made, base.snapshot.gangs[key], base.policy, now_s=base.now_s)
    for zone in told.zones:
        if not zone.short and not zone.homeless:
            assert zone.room == zone.wanted
        for short in zone.short:
            assert short.amount == sum(amount for _, amount in short.nodes) > 0
