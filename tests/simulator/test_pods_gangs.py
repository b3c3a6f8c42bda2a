"""The gang plugin that netgang is compared with does what the papers say (G2 to G5)."""

import asyncio

import pytest

from lab.simulator.pods.kube_scheduler.coscheduling import Gangs
from lab.simulator.pods.kube_scheduler.queue import Queued
from scoring.model import Pod
from tests.builders import pod

pytestmark = pytest.mark.looptime


def member(gang: str, index: int, minimum: int = 3, **more: object) -> Pod:
    return pod(f"{gang}-{index}", gang=gang, min_available=minimum, **more)  # type: ignore[arg-type]


def seen(count: int) -> tuple[Gangs, list[Pod]]:
    gangs, pods = Gangs(permit_s=60.0), [member("g", index) for index in range(count)]
    for one in pods:
        gangs.seen(one, now_s=0.0)
    return gangs, pods


def test_a_group_that_is_not_complete_is_denied() -> None:
    """G2: pods that exist count, running ones included; plain pods are ignored."""
    gangs = Gangs(permit_s=60.0)
    gangs.seen(member("g", 0, node="n1"), now_s=0.0)
    gangs.seen(member("g", 1), now_s=0.0)
    assert not gangs.complete(member("g", 1))
    gangs.seen(member("g", 2), now_s=0.0)
    assert gangs.complete(member("g", 1))
    gangs.gone(member("g", 2).uid)
    assert not gangs.complete(member("g", 1))
    assert gangs.complete(pod("plain"))


async def test_members_wait_until_the_minimum_has_found_nodes() -> None:
    """G3: two wait, the third lets all go on, and the fourth waits for none."""
    gangs, pods = seen(4)
    waiting = [gangs.permit(one) for one in pods]
    assert waiting[2] is None
    assert waiting[3] is None
    assert [one.result() if one is not None else None for one in waiting] == [True, True, None, None]


async def test_one_that_waits_too_long_takes_all_with_it() -> None:
    """G4: 60 s after the first began to wait, all members that wait are rejected."""
    gangs, pods = seen(3)
    first = gangs.permit(pods[0])
    await asyncio.sleep(20.0)
    second = gangs.permit(pods[1])
    assert first is not None
    assert second is not None
    assert list(gangs.siblings(pods[1])) == [pods[2].uid]
    answers = list(await asyncio.gather(first, second))
    assert (asyncio.get_running_loop().time(), answers) == (60.0, [False, False])


async def test_a_member_that_is_deleted_while_it_waits_takes_all_with_it() -> None:
    """G4 again; one that is deleted before it has found a node takes nobody with it."""
    gangs, pods = seen(3)
    first, second = gangs.permit(pods[0]), gangs.permit(pods[1])
    assert first is not None
    assert second is not None
    gangs.gone(pods[2].uid)
    assert not first.done()
    gangs.gone(pods[1].uid)
    assert [first.result(), second.result()] == [False, False]


@pytest.mark.parametrize(("minimum", "placed", "may_wait"), [(4, 2, False), (10, 9, True), (10, 8, False)])
async def test_a_member_that_fits_nowhere_has_those_that_wait_rejected(
    minimum: int, placed: int, may_wait: bool
) -> None:
    """PostFilter: at once, unless at most a tenth of the minimum is missing."""
    gangs, pods = Gangs(permit_s=60.0), [member("g", index, minimum) for index in range(minimum)]
    for one in pods:
        gangs.seen(one, now_s=0.0)
    waiting = [gangs.permit(one) for one in pods[:placed]]
    gangs.refused(pods[-1])
    assert [one is not None and not one.done() for one in waiting] == [may_wait] * placed


def test_members_stand_side_by_side() -> None:
    """G5: by priority, then by the age of the group, not of the pod, then by the group's name."""
    gangs = Gangs(permit_s=60.0)
    listed = [(member("b", 0), 0.0), (member("a", 0), 1.0), (member("b", 1), 2.0), (member("c", 0, priority=9), 3.0)]
    for one, at_s in listed:
        gangs.seen(one, now_s=at_s)
    queued = [Queued(one, number, at_s) for number, (one, at_s) in enumerate(listed)]
    assert [str(one.pod.name) for one in sorted(queued, key=gangs.order)] == ["c-0", "b-0", "b-1", "a-0"]
