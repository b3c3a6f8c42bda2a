"""Gangs that are refused many at once: in the same words as one by one."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.ids import NodeName
from scoring.model.policy import Policy, QueuePolicy
from scoring.model.reasons import Reason
from scoring.plan import Memo, counted, plan
from scoring.plan.counted import Counted
from tests.builders import bound, gang, node, pod, snapshot
from tests.scoring.plan.changing import world

NODES = [node(f"{zone}{i}", zone=zone, cpu="4") for zone in "ab" for i in range(3)]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1e9, 300.0]))
def test_all_at_once_is_as_one_by_one(seed: int, starve_limit_s: float) -> None:
    """Plans of a changing cluster, with and without looking ahead: the same places, reasons and words."""
    policy = Policy(queue=QueuePolicy(starve_limit_s=starve_limit_s))
    memo, alone, before = Memo(), Memo(), None
    for number, state in enumerate(world(random.Random(seed))):
        now_s = 1000.0 + number
        ahead = plan(state, policy, now_s=now_s, previous=before, memo=memo)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Counted, "looked_at", lambda _self, _place: False)
            assert ahead == plan(state, policy, now_s=now_s, previous=before, memo=alone)
        before = ahead


WORDS = {  # case: (gang, the answer, who runs)
    "no zone has room": (gang("g", 4, cpu="4"), (Reason.IMPOSSIBLE, "4 members at once fit in no allowed zone, even")),
    "pods are in the way": (gang("g", 3, cpu="3"), (Reason.NO_ROOM, "most room in zone b: 2 of 3 members")),
    "only zones it names count": (
        gang("g", 3, cpu="3", options={"zones": "a"}),
        (Reason.NO_ROOM, "most room in zone a: 1 of 3 members"),
    ),
    "two kinds of members": (
        gang("g", members=[pod("ps", gang="g", cpu="1"), *(pod(f"w{i}", gang="g", cpu="3") for i in range(3))]),
        (Reason.NO_ROOM, "most room in zone b: 3 of 4 members"),
    ),
}


@pytest.mark.parametrize(("waits", "want"), WORDS.values(), ids=WORDS)
def test_what_a_refused_gang_is_told(waits, want) -> None:  # type: ignore[no-untyped-def]
    """The zone with most room, the last by name among equals, and what fits there; or that it never will."""
    busy = [bound(pod(f"x{node}", cpu="2", gang=None), node) for node in ("a0", "a1", "b0")]
    found = plan(snapshot(NODES, [waits], pods=busy), Policy(), now_s=0.0).waiting[waits.key]
    assert want[0] is found.reason
    assert found.detail.startswith(want[1])


def test_who_is_behind_others_is_told_so() -> None:
    """Room that those ahead were given in the same run was there: whoever would have had it is behind them."""
    gangs = [gang(f"g{i:02}", 3, cpu="3", created_s=float(i)) for i in range(6)]
    found = plan(snapshot(NODES, gangs), Policy(), now_s=0.0)
    assert {"default/g00", "default/g01"} == set(found.admitted)
    assert {Reason.BEHIND} == {one.reason for one in found.waiting.values()}


def test_a_refused_class_of_members_is_counted_by_itself() -> None:
    """Nodes that refused one class are closed to it alone, and open again when that is forgotten."""
    one, other = gang("g", 3, cpu="3"), gang("h", 3, cpu="3", memory="1Gi", created_s=1.0)
    kinds = {one.members[0].member_class: frozenset({NodeName(f"{zone}0") for zone in "ab"})}
    memo = Memo()
    state = snapshot(NODES, [one, other])
    found = plan(replace(state, exclusions=kinds), Policy(), now_s=0.0, memo=memo)
    assert list(found.admitted) == [other.key]
    assert found.waiting[one.key].reason is Reason.FILTERED
    assert list(plan(state, Policy(), now_s=0.0, memo=memo).admitted) == [one.key, other.key]


def test_a_thousand_gangs_are_looked_at_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few gangs that were not there before are looked at between two moments for others."""
    seen: list[int] = []
    look = Counted._look

    def noted(self: Counted, begin: int, end: int) -> None:
        look(self, begin, end)
        seen.append(self.end - self.begin)

    monkeypatch.setattr(Counted, "_look", noted)
    state = snapshot(NODES, [gang(f"g{i:03}", 3, cpu="4", memory=f"{i + 1}Mi") for i in range(300)])
    full = replace(state, used=state.table.allocatable)
    memo, policy = Memo(), Policy()
    first = plan(full, policy, now_s=0.0, memo=memo)
    assert max(seen) <= counted._NEW
    seen.clear()
    again = plan(replace(full, version=2), policy, now_s=0.0, memo=memo, previous=first)
    assert len(again.waiting) == 300
    assert len(seen) <= 5, "known ones are looked at by the hundred"
    assert all(again.waiting[key] is first.waiting[key] for key in first.waiting)
