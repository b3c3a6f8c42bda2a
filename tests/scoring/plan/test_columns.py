"""What is kept of the gangs that wait from run to run: by the wish, whatever its place in the order."""

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from scoring.ids import GangKey, NodeName, ZoneName
from scoring.model import Gang
from scoring.model.policy import Policy
from scoring.model.reasons import Reason
from scoring.plan import Memo, plan, plan_in_steps
from scoring.plan.ask import Ask
from scoring.plan.columns import COUNTABLE, NOBODY, NOTHING, UNKNOWN, Columns
from scoring.plan.steps import finish
from scoring.plan.wishes import Wishes
from tests.builders import bound, gang, node, pod, snapshot
from tests.scoring.plan.changing import world

POLICY = Policy()


def asks(number: int) -> list[Ask]:
    """Wishes of so many gangs."""
    wishes = Wishes()
    return [wishes.of(gang(f"g{i:02}", 2), POLICY, {}) for i in range(number)]


def test_lines_come_along_with_their_wish() -> None:
    """Sorted anew, with one gone and one come: each line is where its wish is, and a new one is empty."""
    some = asks(6)
    lines = Columns.none().arranged(some[:5])
    lines.state[:], lines.codes[:] = COUNTABLE, [10, 11, 12, 13, 14]
    lines.numbers[:, 0] = range(5)
    order = [some[4], some[5], some[0], some[2], some[3]]
    moved = lines.arranged(order)
    assert moved.codes.tolist() == [14, NOTHING, 10, 12, 13]
    assert moved.state.tolist() == [COUNTABLE, UNKNOWN, COUNTABLE, COUNTABLE, COUNTABLE]
    assert moved.numbers[:, 0].tolist() == [4, NOBODY, 0, 2, 3]
    moved.codes[0] = 99
    assert lines.codes[4] == 14, "the run before keeps its own"


def test_what_belongs_to_other_nodes_or_zones_is_forgotten() -> None:
    """Words name zones by their number among all; whether a gang could ever fit is of one table of nodes."""
    lines = Columns.none().arranged(asks(2))
    table, zones = object(), (ZoneName("a"), ZoneName("b"))
    lines.renew(table, zones)
    lines.could[:], lines.codes[:] = 1, 7
    lines.renew(table, zones)
    assert (lines.could.tolist(), lines.codes.tolist()) == ([1, 1], [7, 7])
    lines.renew(object(), zones)
    assert (lines.could.tolist(), lines.codes.tolist()) == ([-1, -1], [7, 7])
    lines.renew(lines.table, zones[:1])
    assert lines.codes.tolist() == [NOTHING, NOTHING]


def test_sets_of_zones_that_gangs_named_once_are_not_kept_for_ever() -> None:
    """Each gang names other zones than those before it: what is kept is bounded by the gangs that are there."""
    lines, some = Columns.none(), asks(3)
    for number in range(500):
        lines = lines.arranged(some)
        lines.set_number((ZoneName(f"z{number}"),))
        assert len(lines.sets) <= 2 * len(some) + 64 + 2


def test_a_wish_is_read_again_when_something_about_it_changed() -> None:
    """The same gang objects give the same wishes; another object, policy or lost node gives another one."""
    waits = gang("waits", 2)
    partly = gang("partly", members=[bound(pod("p0", gang="partly"), "n0"), pod("p1", gang="partly")])
    gangs: dict[GangKey, Gang] = {one.key: one for one in (waits, partly)}
    wishes, nodes = Wishes(), {NodeName("n0"): 0}

    def pending(policy: Policy = POLICY) -> list[Ask]:
        return finish(wishes.pending(gangs, policy, nodes, pause=lambda: iter(())))

    first = pending()
    assert [ask.gang.key for ask in first] == [waits.key, partly.key]
    assert all(one is other for one, other in zip(first, pending(), strict=True))
    nodes = {}
    without = pending()
    assert without[0] is first[0]
    assert without[1].lost == {"n0"}
    gangs[waits.key] = gang("waits", 2, priority=5)
    assert pending()[0].gang is gangs[waits.key]
    other = replace(POLICY, spares=POLICY.spares + 1)
    assert pending(other)[0] is not without[0]


def test_wishes_of_gangs_that_are_gone_are_forgotten() -> None:
    """A gang that is another object after each event leaves nothing behind but a few."""
    wishes = Wishes()
    for number in range(400):
        gangs = {one.key: one for one in (gang(f"g{i}", 2) for i in range(number % 7))}
        finish(wishes.pending(gangs, POLICY, {}, pause=lambda: iter(())))
        assert len(wishes._waits) + len(wishes._rests) <= 2 * 7 + 32


def test_of_two_plans_in_turns_each_says_what_it_says_alone() -> None:
    """Two planners share a memo and take turns after every step: neither tells gangs what the other found."""
    states = list(world(random.Random(11)))
    memo = Memo()
    for one, other in pairwise(states):
        both = [plan_in_steps(state, POLICY, now_s=2000.0, memo=memo) for state in (one, other)]
        found: dict[int, object] = {}
        while len(found) < len(both):
            for number, steps in enumerate(both):
                if number in found:
                    continue
                try:
                    next(steps)
                except StopIteration as done:
                    found[number] = done.value
        assert [found[0], found[1]] == [plan(state, POLICY, now_s=2000.0) for state in (one, other)]


def test_gangs_of_many_kinds_are_looked_at_one_by_one() -> None:
    """More classes of members than there are columns for: the answer is that of `scoring.plan.place`."""
    nodes = [node(f"n{i}", zone="a", cpu="4") for i in range(3)]
    members = [pod(f"w{i}", gang="g", cpu=f"{i + 1}") for i in range(6)]
    many = gang("g", members=members)
    full = [bound(pod(f"x{i}", cpu="3", gang=None), f"n{i}") for i in range(3)]
    memo = Memo()
    found = plan(snapshot(nodes, [many], pods=full), POLICY, now_s=0.0, memo=memo)
    assert found.waiting[many.key].reason is Reason.IMPOSSIBLE
    assert not np.any(memo.columns.state == COUNTABLE)


def test_lines_do_not_outlive_the_numbers_of_their_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """When numbers of classes are given anew, lines that name old ones go: a node's refusal is known by the new."""
    nodes = [node(f"n{i}", zone="a", cpu="4") for i in range(3)]
    busy = [bound(pod("x", cpu="2", gang=None), "n2")]
    waits = [gang(f"g{i}", 3, cpu="3", memory=f"{i + 1}Mi", created_s=float(i)) for i in range(6)]
    late = gang("late", 3, cpu="3", memory="9Mi", created_s=9.0)
    memo = Memo()
    before = plan(snapshot(nodes, waits, pods=busy), POLICY, now_s=0.0, memo=memo)
    assert before.waiting[waits[0].key].detail == "most room in zone a: 2 of 3 members"
    monkeypatch.setattr("scoring.plan.memo._CLASSES", len(memo.numbers))
    more = snapshot(nodes, [*waits, late], pods=busy, version=2)
    before = plan(more, POLICY, now_s=1.0, previous=before, memo=memo)
    monkeypatch.undo()
    refused = replace(more, version=3, exclusions={waits[0].members[0].member_class: frozenset({NodeName("n0")})})
    found = plan(refused, POLICY, now_s=2.0, previous=before, memo=memo)
    assert found.waiting[waits[0].key].detail == "most room in zone a: 1 of 3 members"
    assert found == plan(refused, POLICY, now_s=2.0, previous=before)
