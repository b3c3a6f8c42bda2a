"""A gang starts at the size that it asked for; below it only in room that no gang that waits can use whole."""

from dataclasses import replace
from typing import Any

import pytest

from scoring.ids import GangKey, Namespace
from scoring.lengths import LengthSource, exact
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


def test_least_attained_service_first() -> None:
    """`order: las`: of a lower service level first, STARVING or not; then by weight."""
    had, new, light = gang("had", 3), gang("new", 2, created_s=900.0), gang("light", 1, created_s=900.0)
    cluster = snapshot([node("n1", cpu="3")], [had, new, light])
    cluster = replace(cluster, attained_h={had.key: 0.5})
    for order, first in ((Order.LAS, "new"), (Order.WEIGHT, "had")):
        made = plan(cluster, Policy(queue=QueuePolicy(order=order)), now_s=1000.0)
        assert [key for key, one in made.admitted.items() if one.rank == 1] == [GangKey(f"default/{first}")]
    assert sorted(members(plan(cluster, Policy(queue=QueuePolicy(order=Order.LAS)), now_s=1000.0))) == ["light", "new"]


@pytest.mark.parametrize("beats", [False, True])
def test_priority_goes_before_the_service_level(beats: bool) -> None:
    queue = QueuePolicy(order=Order.LAS, starving_beats_priority=beats)
    had, new = gang("had", 1, priority=5), gang("new", 1)
    cluster = replace(snapshot([node("n1", cpu="1")], [had, new]), attained_h={had.key: 2.0})
    assert members(plan(cluster, Policy(queue=queue), now_s=10.0)) == {"had": 1}


def first_of(made: Plan) -> GangKey:
    ranks = {key: one.rank for key, one in made.admitted.items()} | {key: one.rank for key, one in made.waiting.items()}
    return min(ranks, key=ranks.__getitem__)


TRUSTED = frozenset({Namespace("default")})
WORK = {  # case: (attained_h, remaining_h, fields of queue, priority of "b", which is first)
    "what is reported": ({"a": 2.0, "b": 1.0}, {"a": 0.5, "b": 0.75}, {}, 0, "a"),
    "what it had, beside a report": ({"a": 2.0, "b": 0.25}, {"a": 0.5}, {}, 0, "b"),
    "nothing had": ({"a": 2.0}, {"a": 0.01}, {}, 0, "b"),
    "a namespace that is not trusted": ({"a": 2.0, "b": 1.0}, {"a": 0.01}, {"report_namespaces": frozenset()}, 0, "b"),
    "priority first": ({"b": 2.0}, {"b": 2.0}, {}, 5, "b"),
    "a gang that starves first": ({"a": 9.0}, {"a": 9.0}, {"starve_limit_s": 500.0}, 0, "a"),
    "priority after a gang that starves": (
        {"a": 9.0}, {}, {"starve_limit_s": 500.0, "starving_beats_priority": True}, 5, "a",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("had", "left", "fields", "priority", "first"), WORK.values(), ids=WORK)
def test_the_least_remaining_work_first(
    had: dict[str, float], left: dict[str, float], fields: dict[str, Any], priority: int, first: str
) -> None:
    """`order: srpt-by-report`; gang a is older and heavier than b."""
    usual: dict[str, Any] = {"order": Order.SRPT_BY_REPORT, "report_namespaces": TRUSTED, "starve_limit_s": 5000.0}
    queue = QueuePolicy(**usual | fields)
    young = pod("b-0", gang="b", created_s=900.0, priority=priority)
    gangs = [gang("a", 2), gang("b", members=[young], created_s=900.0, priority=priority)]
    hours = [{GangKey(f"default/{name}"): number for name, number in some.items()} for some in (had, left)]
    cluster = replace(snapshot([node("n1", cpu="2")], gangs), attained_h=hours[0], remaining_h=hours[1])
    assert first_of(plan(cluster, Policy(queue=queue), now_s=1000.0)) == f"default/{first}"


LENGTHS: dict[str, tuple[dict[str, tuple[LengthSource, float]], dict[str, float], bool, str]] = {
    # case: (lengths of gangs, what they had, whether their namespace is trusted, which is first); both take half
    "the shorter one": ({"a": (LengthSource.LEARNED, 100.0), "b": (LengthSource.LEARNED, 90.0)}, {}, False, "b"),
    "what it had is subtracted": (
        {"a": (LengthSource.LEARNED, 7200.0), "b": (LengthSource.LEARNED, 3600.0)}, {"a": 0.75}, False, "a",
    ),
    "words of tenants that are trusted": (
        {"a": (LengthSource.DECLARED, 100.0), "b": (LengthSource.LIMIT, 90.0)}, {}, True, "b",
    ),
    "and of others, which count as nothing left": (
        {"a": (LengthSource.LEARNED, 100.0), "b": (LengthSource.DECLARED, 1e6)}, {}, False, "b",
    ),
    "one that is not known has had nothing": ({"a": (LengthSource.LEARNED, 1.0)}, {}, False, "b"),
}  # fmt: skip


@pytest.mark.parametrize(("lengths", "had", "trusted", "first"), LENGTHS.values(), ids=LENGTHS)
def test_the_order_by_remaining_work_uses_lengths(
    lengths: dict[str, tuple[LengthSource, float]], had: dict[str, float], trusted: bool, first: str
) -> None:
    queue = QueuePolicy(
        order=Order.SRPT_BY_REPORT, report_namespaces=TRUSTED if trusted else frozenset(), starve_limit_s=5000.0
    )
    gangs = [
        replace(
            gang(name, 1, created_s=at_s), length=exact(lengths[name][1], lengths[name][0]) if name in lengths else None
        )
        for name, at_s in (("a", 0.0), ("b", 900.0))
    ]
    hours = {GangKey(f"default/{name}"): number for name, number in had.items()}
    cluster = replace(snapshot([node("n1", cpu="2")], gangs), attained_h=hours)
    assert first_of(plan(cluster, Policy(queue=queue), now_s=1000.0)) == f"default/{first}"
