"""Gangs that are refused many at once: in the same words as one by one."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.feasibility import fit_counts
from scoring.model.policy import Policy, QueuePolicy
from scoring.model.reasons import Reason
from scoring.plan import PlannerCache, plan
from scoring.plan.bulk_refusal import BulkRefusals
from scoring.plan.result import Refused
from tests.builders import bound, gang, node, pod, snapshot
from tests.example_counts import FEW
from tests.scoring.plan.changing import world

NODES = [node(f"{zone}{i}", zone=zone, cpu="4") for zone in "ab" for i in range(3)]


def none_at_once(*_: object) -> list[Refused]:
    """Counting is never enough."""
    return []


@pytest.mark.slow
@FEW
@given(st.integers(0, 2**32), st.sampled_from([1e9, 300.0]))
def test_all_at_once_is_as_one_by_one(seed: int, starve_limit_s: float) -> None:
    """Plans of a changing cluster, looking ahead and with a cache, or neither: the same places, reasons and words."""
    policy = Policy(queue=QueuePolicy(starve_limit_s=starve_limit_s))
    cache, before = PlannerCache(), None
    for number, state in enumerate(world(random.Random(seed))):
        now_s = 1000.0 + number
        ahead = plan(state, policy, now_s=now_s, previous=before, cache=cache)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(BulkRefusals, "refused_from", none_at_once)
            patch.setattr(BulkRefusals, "refusal", none_at_once)
            assert ahead == plan(state, policy, now_s=now_s, previous=before)
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


def test_a_long_queue_is_told_the_same_objects_again() -> None:
    """Whoever waits as before is not told again."""
    state = snapshot(NODES, [gang(f"g{i:03}", 3, cpu="4", memory=f"{i + 1}Mi") for i in range(300)])
    full = replace(state, used=state.table.allocatable)
    cache, policy = PlannerCache(), Policy()
    first = plan(full, policy, now_s=0.0, cache=cache)
    again = plan(replace(full, version=2), policy, now_s=0.0, cache=cache, previous=first)
    assert len(again.waiting) == 300
    assert all(again.waiting[key] is first.waiting[key] for key in first.waiting)


@pytest.mark.parametrize("place", [1, 40], ids=["no place for all classes", "classes of before leave"])
def test_where_memory_ends_gangs_are_told_the_same(monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    """Classes that find no place among the counts are looked at one by one."""
    monkeypatch.setattr(fit_counts, "MOST_CLASSES", place)
    monkeypatch.setattr(fit_counts, "_FORGOTTEN_AFTER", 1)
    cache = PlannerCache()
    for begin in range(0, 120, 30):
        gangs = [gang(f"g{i:03}", 3, cpu="3", memory=f"{i + 1}Mi") for i in range(begin, begin + 30)]
        state = snapshot(NODES, gangs, version=begin)
        assert plan(state, Policy(), now_s=0.0, cache=cache) == plan(state, Policy(), now_s=0.0)


def test_gangs_of_many_kinds_are_told_the_same() -> None:
    """A gang of more classes than are counted together."""
    nodes = [node(f"n{i}", zone="a", cpu="4") for i in range(3)]
    many = gang("g", members=[pod(f"w{i}", gang="g", cpu=f"{i + 1}") for i in range(6)])
    full = [bound(pod(f"x{i}", cpu="3", gang=None), f"n{i}") for i in range(3)]
    found = plan(snapshot(nodes, [many], pods=full), Policy(), now_s=0.0)
    assert found.waiting[many.key].reason is Reason.IMPOSSIBLE
