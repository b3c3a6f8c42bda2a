"""A gang starts below the size it asked for only in room that no waiting gang can use whole; what the others hear."""

import pytest
from msgspec.structs import replace

from scoring.ids import GangKey
from scoring.model import Gang
from scoring.model.policy import Order, Policy, QueuePolicy
from scoring.model.reasons import Reason
from scoring.plan import Plan, PlannerCache, plan
from tests.builders import bound, gang, node, pod, snapshot

FIFO = Policy(queue=QueuePolicy(order=Order.FIFO, starve_limit_s=600.0))
LARGE = gang("large", 4, min_member=1, created_s=1.0)


def planned(cpu: str, *gangs: Gang, now_s: float = 100.0, policy: Policy = FIFO) -> Plan:
    return plan(snapshot([node("n1", cpu=cpu)], gangs), policy, now_s=now_s)


def members(made: Plan) -> dict[str, int]:
    """gang → members with a place."""
    return {key.partition("/")[2]: len(one.members) for key, one in made.admitted.items()}


def later(size: int, *, least: int | None = None) -> Gang:
    return gang("later", size, min_member=least or size, created_s=2.0)


SPREAD = replace(LARGE, options=(("zone-policy", "preferred"),))
RUNS = replace(LARGE, members=(bound(LARGE.members[0], "n1"), *LARGE.members[1:]), started=True)
CASES = {  # case: (CPUs, members with a place, gangs, moment)
    "whole": ("5", {"large": 4, "later": 1}, [LARGE, later(1)], 100.0),
    "a later one that fits whole goes first, and the rest is used": (
        "3", {"later": 2, "large": 1}, [LARGE, later(2)], 100.0,
    ),
    "no gang fits whole": ("3", {"large": 3}, [LARGE, later(4)], 100.0),
    "of two that are cut the first in order gets all": ("3", {"large": 3}, [LARGE, later(4, least=1)], 100.0),
    "one that no empty cluster holds whole starts at once": ("3", {"large": 3}, [LARGE], 100.0),
    "a STARVING gang is not passed by": ("3", {"large": 3}, [LARGE, later(2)], 600.0),
    "a minimum in one zone is worth more to a spread gang than all": ("3", {"large": 3}, [SPREAD, later(2)], 100.0),
    "one that runs gets further members in its turn": ("3", {"large": 2}, [RUNS, later(2)], 100.0),
}  # fmt: skip


@pytest.mark.parametrize(("cpu", "want", "gangs", "now_s"), CASES.values(), ids=CASES)
def test_sizes(cpu: str, want: dict[str, int], gangs: list[Gang], now_s: float) -> None:
    assert members(planned(cpu, *gangs, now_s=now_s)) == want


def test_its_reason_is_that_of_its_minimum() -> None:
    made = planned("2", gang("large", 4, min_member=2, created_s=1.0), later(1))
    waits = made.waiting[GangKey("default/large")]
    assert (waits.rank, waits.reason, waits.detail) == (1, Reason.BEHIND, "most room in zone a: 1 of 2 members")


def test_a_place_that_was_given_is_kept() -> None:
    """The plan after a start below its size does not take the gang's place away for one that would fit whole."""
    cache = PlannerCache()
    first = plan(snapshot([node("n1", cpu="3")], [LARGE]), FIFO, now_s=100.0, cache=cache)
    again = snapshot([node("n1", cpu="3")], [LARGE, later(2)])
    assert members(plan(again, FIFO, now_s=101.0, previous=first, cache=cache)) == {"large": 3}


NODES = [node(f"{zone}{i}", zone=zone, cpu="4") for zone in "ab" for i in range(3)]


def test_a_long_queue_is_told_the_same_objects_again() -> None:
    """Whoever waits as before is not told again."""
    state = snapshot(NODES, [gang(f"g{i:03}", 3, cpu="4", memory=f"{i + 1}Mi") for i in range(300)])
    full = replace(state, used=state.table.allocatable)
    cache, policy = PlannerCache(), Policy()
    first = plan(full, policy, now_s=0.0, cache=cache)
    again = plan(replace(full, version=2), policy, now_s=0.0, cache=cache, previous=first)
    assert len(again.waiting) == 300
    assert all(again.waiting[key] is first.waiting[key] for key in first.waiting)


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
