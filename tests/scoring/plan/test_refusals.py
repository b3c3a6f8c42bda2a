"""What a gang that finds no room is told."""

from dataclasses import replace

import pytest

from scoring.model.policy import Order, Policy, QueuePolicy
from scoring.model.reasons import Reason
from scoring.plan import PlannerCache, plan
from tests.builders import bound, gang, node, pod, snapshot

NODES = [node(f"{zone}{i}", zone=zone, cpu="4") for zone in "ab" for i in range(3)]

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


def test_gangs_of_many_kinds_are_told_the_same() -> None:
    """A gang of more classes than are counted together."""
    nodes = [node(f"n{i}", zone="a", cpu="4") for i in range(3)]
    many = gang("g", members=[pod(f"w{i}", gang="g", cpu=f"{i + 1}") for i in range(6)])
    full = [bound(pod(f"x{i}", cpu="3", gang=None), f"n{i}") for i in range(3)]
    found = plan(snapshot(nodes, [many], pods=full), Policy(), now_s=0.0)
    assert found.waiting[many.key].reason is Reason.IMPOSSIBLE


def test_a_gang_that_asks_for_more_than_its_minimum_is_told_in_its_turn() -> None:
    """Not what is left once those behind it have had their room."""
    nodes = [node("n", cpu="3")]
    large, later = gang("large", 6, min_member=4, created_s=1.0), gang("later", 3, created_s=2.0)
    found = plan(snapshot(nodes, [large, later]), Policy(queue=QueuePolicy(order=Order.FIFO)), now_s=3.0)
    assert later.key in found.admitted
    assert found.waiting[large.key].reason is Reason.IMPOSSIBLE
    roomy = snapshot([*nodes, node("m", cpu="4")], [large, later], pods=[bound(pod("x", cpu="4", gang=None), "m")])
    found = plan(roomy, Policy(queue=QueuePolicy(order=Order.FIFO)), now_s=3.0)
    assert (found.waiting[large.key].reason, found.waiting[large.key].detail) == (
        Reason.NO_ROOM,
        "most room in zone a: 3 of 4 members",
    )
