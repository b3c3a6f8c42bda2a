"""A gang starts at the size that it asked for; below it only in room that no gang that waits can use whole."""

from dataclasses import replace

import pytest

from scoring.ids import GangKey
from scoring.model import Gang
from scoring.model.policy import Order, Policy, QueuePolicy
from scoring.model.reasons import Reason
from scoring.plan import Plan, PlannerCache, plan
from tests.builders import bound, gang, node, snapshot

FIFO = Policy(queue=QueuePolicy(order=Order.FIFO, starve_limit_s=600.0))
LARGE = gang("large", 4, min_member=1, created_s=1.0)


def planned(cpu: str, *gangs: Gang, now_s: float = 100.0, policy: Policy = FIFO) -> Plan:
    return plan(snapshot([node("n1", cpu=cpu)], gangs), policy, now_s=now_s)


def members(made: Plan) -> dict[str, int]:
    """gang → members with a place."""
    return {key.partition("/")[2]: len(one.members) for key, one in made.admitted.items()}


def later(size: int, *, least: int | None = None) -> Gang:
    return gang("later", size, min_member=least or size, created_s=2.0)


CASES = {  # case: (CPUs, members with a place, gangs)
    "whole": ("5", {"large": 4, "later": 1}, [LARGE, later(1)]),
    "a later one that fits whole goes first, and the rest is used": ("3", {"later": 2, "large": 1}, [LARGE, later(2)]),
    "no gang fits whole": ("3", {"large": 3}, [LARGE, later(4)]),
    "of two that are cut the first in order gets all": ("3", {"large": 3}, [LARGE, later(4, least=1)]),
    "one that no empty cluster holds whole starts at once": ("3", {"large": 3}, [LARGE]),
}


@pytest.mark.parametrize(("cpu", "want", "gangs"), CASES.values(), ids=CASES)
def test_sizes(cpu: str, want: dict[str, int], gangs: list[Gang]) -> None:
    assert members(planned(cpu, *gangs)) == want


def test_a_starving_gang_is_not_passed_by() -> None:
    assert members(planned("3", LARGE, later(2), now_s=600.0)) == {"large": 3}


def test_a_spread_gang_starts_as_it_can() -> None:
    """Its minimum in one zone is worth more to it than all members in several."""
    spread = replace(LARGE, options=(("zone-policy", "preferred"),))
    assert members(planned("3", spread, later(2))) == {"large": 3}


def test_one_that_runs_gets_further_members_in_its_turn() -> None:
    pods = [replace(one, created_s=1.0) for one in LARGE.members]
    runs = replace(LARGE, members=(bound(pods[0], "n1"), *pods[1:]), started=True)
    assert members(planned("3", runs, later(2))) == {"large": 2}


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
