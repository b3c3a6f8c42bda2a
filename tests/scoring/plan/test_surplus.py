"""Who gets room first: a waiting gang's minimum, or further members of a gang that has its own."""

from dataclasses import replace

import pytest

from scoring.model import Gang
from scoring.model.policy import Order, Policy, QueuePolicy, Surplus
from scoring.plan import plan
from tests.builders import bound, gang, node, pod, snapshot

NODES = [node("n0", cpu="2"), node("n1", cpu="1")]
"""One core is left beside the member that runs, and one on the other node."""


def started(further: int, *, priority: int = 0) -> Gang:
    """A heavy gang that runs with its minimum of one, and asks for further members."""
    members = [bound(pod("heavy-0", gang="heavy", index=0), "n0")]
    members += [pod(f"heavy-{i}", gang="heavy", index=i) for i in range(1, further + 1)]
    weighs = {"netgang.io/weight": "9"}
    return replace(gang("heavy", members=members, min_member=1, options=weighs), priority=priority)


def starts(*gangs: Gang, **fields: object) -> list[str]:
    """Names of the pods that get places."""
    policy = Policy(queue=replace(QueuePolicy(surplus=Surplus.LAST), **fields))  # type: ignore[arg-type]
    made = plan(snapshot(NODES, gangs), policy, now_s=0.0)
    return sorted(str(uid).removeprefix("uid-default-") for uid in made.node_of)


RULES: dict[str, tuple[list[str], dict[str, object], int]] = {
    # case: (who gets the two cores, queue policy, priority of the gang that runs)
    "minimums first": (["light-0", "light-1"], {}, 0),
    "also first come, first served": (["light-0", "light-1"], {"order": Order.FIFO}, 0),
    "in its turn": (["heavy-1", "heavy-2"], {"surplus": Surplus.IN_TURN, "order": Order.FIFO}, 0),
    "a higher priority goes before": (["heavy-1", "heavy-2"], {}, 1),
}


@pytest.mark.parametrize(("want", "fields", "priority"), RULES.values(), ids=RULES)
def test_whose_room_it_is(want: list[str], fields: dict[str, object], priority: int) -> None:
    """With `last` the minimum of a gang that waits comes first within its priority; else the gang ahead does."""
    light = gang("light", 2, created_s=10.0)
    assert want == starts(started(2, priority=priority), light, **fields)


def test_room_that_no_minimum_can_use_is_given_at_once() -> None:
    """A late member does not wait behind a gang that does not fit anyway, nor behind nobody."""
    assert starts(started(2), gang("wide", 3)) == ["heavy-1", "heavy-2"]
    assert starts(started(1)) == ["heavy-1"]
    assert starts(started(2), gang("small", 1)) == ["heavy-1", "small-0"]


def test_a_gang_that_starts_takes_all_its_members() -> None:
    """What comes with the start costs no change later: the first gang in order takes as many as fit."""
    first = gang("first", 3, min_member=1, created_s=1.0)
    assert starts(first, gang("second", 2, created_s=2.0), order=Order.FIFO) == ["first-0", "first-1", "first-2"]


def test_a_lost_member_of_the_minimum_comes_before_everybody() -> None:
    """Only members beyond the minimum stand back: a gang that runs in part is completed first."""
    members = [bound(pod("part-0", gang="part"), "n0"), pod("part-1", gang="part"), pod("part-2", gang="part")]
    part = gang("part", members=members, min_member=3, created_s=50.0)
    assert starts(part, gang("older", 2)) == ["part-1", "part-2"]
