"""What changes in the cluster while bind calls are held: room, nodes, members."""

from dataclasses import replace

import pytest

from scoring.model.reasons import Reason
from tests.extender.scheduling.bind.test_held_binds import N1, N2, N3, half_at_bind
from tests.extender.scheduling.bind.test_posts import partly_bound
from tests.extender.scheduling.world import answers, key, running, stranger_on

pytestmark = pytest.mark.looptime


async def test_room_taken_before_quorum_fails_all_and_they_go_elsewhere() -> None:
    """A stranger on a planned node: all held calls end with ROOM_TAKEN, and the next plan is another node."""
    async with running(N1) as world:
        first, second = await world.planned_gang("g", 2, cpu="2")
        [call] = world.bind_offered(first)
        world.node("n2")
        await world.settle()
        world.occupy("n1")
        await world.settle()
        assert call.answer is Reason.ROOM_TAKEN
        assert world.committed == {}
        calls = world.bind_offered(first, second)
        assert {one.node for one in calls} == {"n2"}
        await world.settle()
        assert answers(calls) == [None, None]


async def test_the_room_is_looked_at_once_more_at_quorum() -> None:
    """A stranger that the watch shows in the same moment as the last member asks: nobody is posted."""
    async with half_at_bind(N1, N2, cpu="3") as (world, one, second):
        node = world.offered(second)
        world.service.cache.pods.upsert(stranger_on(one.node))
        two = world.bind(second, node)
        await world.settle(0.01)
        assert answers([one, two]) == [Reason.ROOM_TAKEN, Reason.ROOM_TAKEN]
        assert world.api.calls["bind"] == 0
        world.service.cache.pods.delete("default/stranger")


async def test_a_member_that_has_not_asked_yet_gets_another_node_when_its_own_is_taken() -> None:
    """Those at bind keep waiting, and the gang starts with one member elsewhere."""
    async with half_at_bind(N1, N2, N3, cpu="3") as (world, one, second):
        planned = world.offered(second)
        world.occupy(planned)
        await world.settle()
        assert one.waits
        [two] = world.bind_offered(second)
        assert two.node not in (one.node, planned)
        await world.settle()
        assert answers([one, two]) == [None, None]


async def test_nobody_waits_for_a_member_that_cannot_come() -> None:
    """A planned place is taken and there is no other: those held fail at once and reserve nothing."""
    async with half_at_bind(N1, N2, cpu="3") as (world, one, second):
        world.occupy(world.offered(second))
        await world.settle()
        assert one.answer is Reason.ROOM_TAKEN
        assert (world.committed, world.waits_for("g")) == ({}, Reason.NO_ROOM)
        assert world.service.binds.lapses.gangs == frozenset()


async def test_a_place_that_will_not_do_leaves_what_is_being_posted_alone() -> None:
    """kube-scheduler refuses a surplus member's node twice: those that are being posted keep their committed places."""
    async with running(N1, N2) as world:
        first, second, surplus = await world.planned_gang("g", 3, minimum=2, cpu="2")
        refused_node = world.offered(surplus)
        elsewhere = [name for name in ("n1", "n2") if name != refused_node]
        assert world.refusal(surplus, nodes=elsewhere) is Reason.NODE_NOT_OFFERED
        world.api.latency_s["bind"] = 5.0
        calls = world.bind_offered(first, second)
        await world.settle(1.5)
        world.filter(surplus, nodes=elsewhere)
        assert world.committed[key("g")] == {world.uid(call.pod): call.node for call in calls}
        await world.settle(5.0)
        assert answers(calls) == [None, None]


@pytest.mark.parametrize(("gone", "answer"), [(True, Reason.NODE_LOST), (False, Reason.ROOM_TAKEN)])
async def test_a_planned_node_that_is_deleted_or_not_ready_fails_all_held_calls(gone: bool, answer: Reason) -> None:
    """At once: another node may do."""
    async with half_at_bind(N1, N2, cpu="3") as (world, call, _):
        if gone:
            world.api.remove(call.node, kind="Node")
        else:
            world.node(call.node, ready=False)
        await world.settle()
        assert call.answer is answer


@pytest.mark.parametrize(("away_s", "answer"), [(50.0, None), (70.0, Reason.INCOMPLETE)])
async def test_a_bound_member_counts_until_its_node_is_lost(away_s: float, answer: Reason | None) -> None:
    """Not ready for less than `node_lost_s` (60 s): the missing member completes the gang; for longer: it cannot."""
    async with running(N1, N2, node_lost_s=60.0) as world:
        first, second = await world.planned_gang("g", 2, cpu="3")
        calls = await partly_bound(world, first, second)
        world.node(calls[0].node, ready=False)
        await world.settle(away_s)
        assert await world.bind_answer(calls[1].pod, calls[1].node) is answer


async def test_a_pod_deleted_while_held_is_told_so() -> None:
    """Its own call: POD_DELETED; the others, now too few, do not wait for their limit."""
    async with running(N1) as world:
        first, second, _ = await world.planned_gang("g", 3)
        calls = await world.bind_and_settle(first, second)
        world.delete(first)
        await world.settle()
        assert answers(calls) == [Reason.POD_DELETED, Reason.INCOMPLETE]


async def test_a_pod_that_moves_to_another_gang_is_in_one_only() -> None:
    """Its label changed while it was held: the old gang lets it go, the new one takes it, nothing fails inside."""
    async with running(N1) as world:
        first, _ = world.gang("g", 2)
        other, _ = await world.planned_gang("h", 2)
        [held] = await world.bind_and_settle(first)
        pod = world.service.cache.pod(world.uid(first))
        member = world.service.cache.pod(world.uid(other))
        assert pod is not None
        assert member is not None
        world.node("n2")
        await world.settle(0.01)  # a plan was made just now: the next one comes after the bind below
        world.service.cache.pods.upsert(replace(pod, group=member.group))
        again = world.bind(first, held.node)
        await world.settle(0.01)
        assert again.answer is Reason.ROOM_TAKEN
        await world.settle()
        assert held.answer is Reason.POD_DELETED
        later = await world.bind_and_settle(first, other)
        assert answers(later) == [None, None]
