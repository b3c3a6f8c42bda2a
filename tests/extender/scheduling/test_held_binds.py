"""Bind calls: held until quorum, committed together, answered once, whatever becomes of their Bindings."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from extender.convert import NUDGE_ANNOTATION
from extender.errors import ApiError, ApiUnavailableError, ConflictError, NotFoundError
from scoring.model.reasons import Reason
from tests.extender.scheduling.world import HOLD_S, Call, World, answers, key, node_json, running, unfinished

pytestmark = pytest.mark.looptime

N1, N2, N3 = node_json("n1"), node_json("n2"), node_json("n3")


@asynccontextmanager
async def half_at_bind(*nodes: Any, cpu: str = "1") -> AsyncIterator[tuple[World, Call, str]]:
    async with running(*nodes) as world:
        first, second = await world.planned_gang("g", 2, cpu=cpu)
        [call] = await world.bind_and_settle(first)
        yield world, call, second


async def test_calls_are_held_until_quorum_then_all_succeed() -> None:
    async with running(N1, N2) as world:
        first, second, third = await world.planned_gang("g", 3)
        early = world.bind_offered(first, second)
        await world.settle(10.0)
        assert [call.waits for call in early] == [True, True]
        assert (world.bound(), world.service.binds.held_count, world.counted("held_binds")) == ({}, 2, 2.0)
        late = await world.starts(third, beside=early)
        assert world.bound() == {call.pod: call.node for call in (*early, *late)}
        assert world.counted("bindings_total", outcome="bound") == 3.0


async def test_the_places_of_a_gang_at_bind_are_committed() -> None:
    """From the first member at bind, also those of members that have not asked yet (docs/safety.md S4)."""
    async with running(N1) as world:
        names = await world.planned_gang("g", 4)
        [call] = await world.bind_and_settle(names[0])
        assert world.committed == {key("g"): {world.uid(name): "n1" for name in names}}
        assert world.plan.admitted[key("g")].committed
        rival = await world.planned_gang("rival", 1, minimum=1)
        assert world.refusal(*rival) is Reason.BEHIND
        await world.until(call.began_s + HOLD_S + 0.5)
        assert (world.committed, world.offered(*rival)) == ({}, "n1")


NEAR = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}
NONE_NEAR = "0/2 nodes are available: 2 node(s) didn't match pod affinity rules."


def labelled(world: World, *pods: str) -> list[bool]:
    """Which have the label that makes kube-scheduler's filter for affinity between pods look again."""
    return [NUDGE_ANNOTATION in world.api.pod(pod)["metadata"]["labels"] for pod in pods]


async def test_members_that_need_another_near_them_are_woken_when_it_is_held() -> None:
    """They were refused before it had a place, and kube-scheduler counts a held pod; who needs nobody has no label."""
    async with running(N1, N2) as world:
        for name, near in (("leader", {}), ("w-0", NEAR), ("w-1", NEAR)):
            world.pod(name, gang="g", size=3, affinity=near)
        world.says(NONE_NEAR, "w-0", "w-1")
        await world.settle()
        assert labelled(world, "leader", "w-0", "w-1") == [False, False, False]
        [held] = await world.bind_and_settle("leader")
        assert labelled(world, "leader", "w-0", "w-1") == [False, True, True]
        await world.starts("w-0", "w-1", beside=[held])


async def test_members_that_need_later_ones_are_woken_again() -> None:
    """A second after the plan, then after pauses that double, each time with another value: ten in all."""
    async with running(N1, N2) as world:
        for name in ("w-0", "w-1"):
            world.pod(name, gang="g", size=2, affinity=NEAR)
        world.says(NONE_NEAR, "w-0")
        values: list[str] = []
        for _ in range(12):
            await world.settle(1.0)
            value = world.api.pod("w-0")["metadata"]["labels"].get(NUDGE_ANNOTATION)
            values += [value] if value is not None and value not in values[-1:] else []
        assert len(values) == 3
        assert all(len(value) == 1 for value in values)
        await world.starts("w-0", "w-1")


@pytest.mark.parametrize("leave", [Call.hang_up, lambda call: call.task.cancel()], ids=["gone", "cancelled"])
async def test_a_call_whose_client_is_gone_is_dropped(leave: Callable[[Call], object]) -> None:
    async with half_at_bind(N1) as (world, call, second):
        leave(call)
        await world.settle(0.01)
        assert not call.waits
        assert (world.committed, world.service.binds.held_count) == ({}, 0)
        [late] = await world.bind_and_settle(second)
        assert late.waits
        [again] = await world.bind_and_settle(call.pod)
        assert answers([late, again]) == [None, None]


async def test_an_older_offer_counts_while_its_room_is_there() -> None:
    """First at bind, first served: the plan works around what is committed, whomever it had meant the room for."""
    async with running(N1, N2) as world:
        offers = {name: world.offered(name) for name in await world.planned_gang("old", 2, cpu="4")}
        urgent = await world.planned_gang("urgent", 2, cpu="4", priority=100)
        promised = {name: world.offered(name) for name in urgent}
        calls = [world.bind(name, node) for name, node in offers.items()]
        refused = [world.bind(name, node) for name, node in promised.items()]
        await world.settle()
        assert (answers(calls), answers(refused)) == ([None, None], [Reason.ROOM_TAKEN, Reason.ROOM_TAKEN])


@pytest.mark.parametrize("late_first", [True, False], ids=["late offer first", "newer offer first"])
async def test_a_gang_that_the_plan_moved_between_two_offers_starts_in_one_zone(late_first: bool) -> None:
    """The room in both zones is still free, so nothing but the refusal is in the way of a gang over two zones."""
    a, b = node_json("a1", zone="a"), node_json("b1", zone="b")
    async with running(a, b) as world:
        names = await world.planned_gang("g", 2)
        before = world.offered(names[0])
        moves = {"netgang.io/zones": "a" if before == "a1" else "b"}
        await world.planned_gang("urgent", 2, cpu="2", priority=100, annotations=moves)
        after = world.offered(names[1])
        assert {before, after} == {"a1", "b1"}
        asked = [(names[0], before), (names[1], after)]
        calls = {name: world.bind(name, node) for name, node in (asked if late_first else asked[::-1])}
        await world.settle()
        assert calls[names[0]].answer is Reason.OTHER_ZONE
        again = world.bind(names[0], world.offered(names[0]))
        await world.settle()
        assert (answers([calls[names[1]], again]), set(world.bound().values())) == ([None, None], {after})


async def test_a_namespace_holds_as_many_calls_as_it_leaves_free() -> None:
    """One tenant's gang that never completes keeps no other tenant's from starting; its next call fails at once."""
    async with running(N1, max_held_binds=8) as world:
        greedy = replace(world, namespace="greedy")
        held = await greedy.bind_and_settle(*(await greedy.planned_gang("g", 6, cpu="100m"))[:5])
        assert ([call.waits for call in held], held[4].answer) == ([True] * 4 + [False], Reason.TOO_MANY_HELD)
        await world.starts(*await world.planned_gang("honest", 2))


ALONE = {  # case: (error, answer)
    "confirmed": (None, None),
    "conflict": (ConflictError(409, "is already assigned"), Reason.POD_CHANGED),
    "gone": (NotFoundError(404, "not found"), Reason.POD_DELETED),
    "invalid": (ApiError(422, "is invalid"), Reason.COMMIT_FAILED),
    "unreachable": (ApiUnavailableError("connection refused"), Reason.COMMIT_FAILED),
}


@pytest.mark.parametrize(("error", "answer"), ALONE.values(), ids=ALONE)
async def test_a_plain_pod_is_bound_where_kube_scheduler_says(error: Exception | None, answer: Reason | None) -> None:
    async with running(N1, N2) as world:
        await world.planned_pod("plain")
        world.filter("plain")
        if error is not None:
            world.api.fail_next("bind", error)
        assert await world.bind_answer("plain", "n2") is answer
        assert world.node_of("plain") == ("n2" if answer is None else None)


async def test_shut_down_answers_everybody() -> None:
    async with unfinished(N1, N2) as world:
        held_one, late = world.gang("held", 2)
        posting = world.gang("posting", 2)
        fresh = world.gang("fresh", 2)
        await world.planned_pod("plain")
        world.filter("plain")
        offers = {name: world.offered(name) for name in (late, *fresh)}
        [held] = world.bind_offered(held_one)
        world.api.latency_s["bind"] = 2.0
        under_way = world.bind_offered(*posting)
        await world.settle(1.0)
        await world.service.shut_down()
        await world.settle(0.01)
        assert held.answer is Reason.NOT_LEADER
        assert answers(under_way) == [None, None]
        calls = [world.bind(name, node) for name, node in offers.items()] + [world.bind("plain", "n1")]
        await world.settle(0.01)
        assert (answers(calls), world.service.binds.held_count) == ([Reason.NOT_LEADER] * 4, 0)


async def test_the_room_is_looked_at_once_more_at_quorum() -> None:
    async with half_at_bind(N1, N2, cpu="3") as (world, one, second):
        node = world.offered(second)
        world.occupy_unseen(one.node)
        two = world.bind(second, node)
        await world.settle(0.01)
        assert (answers([one, two]), world.api.calls["bind"]) == ([Reason.ROOM_TAKEN, Reason.ROOM_TAKEN], 0)
        world.service.cache.pods.remove("default/stranger")


async def test_a_member_that_has_not_asked_yet_gets_another_node_when_its_own_is_taken() -> None:
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
    async with half_at_bind(N1, N2, cpu="3") as (world, one, second):
        world.occupy(world.offered(second))
        await world.settle()
        assert one.answer is Reason.ROOM_TAKEN
        assert (world.committed, world.waits_for("g"), world.service.cache.back_offs) == ({}, Reason.NO_ROOM, {})


async def test_a_place_that_will_not_do_leaves_what_is_being_posted_alone() -> None:
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
    async with half_at_bind(N1, N2, cpu="3") as (world, call, _):
        if gone:
            world.api.remove(call.node, kind="Node")
        else:
            world.node(call.node, ready=False)
        await world.settle()
        assert call.answer is answer


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
        world.service.cache.pods.put(replace(pod, group=member.group))
        again = world.bind(first, held.node)
        await world.settle(0.01)
        assert again.answer is Reason.ROOM_TAKEN
        await world.settle()
        assert held.answer is Reason.POD_DELETED
        await world.starts(first, other)


FAILURES = {  # case: (what the API server does, whether it took effect all the same)
    "conflict": (ConflictError(409, "is already assigned"), False),
    "not found": (NotFoundError(404, "pods not found"), False),
    "invalid": (ApiError(422, "is invalid"), False),
    "overloaded": (ApiError(429, "too many requests"), False),
    "internal": (ApiError(500, "etcd is away"), False),
    "unreachable": (ApiUnavailableError("connection refused"), False),
    "answer lost": (ApiUnavailableError("connection reset"), True),
}


@pytest.mark.parametrize(("error", "applied"), FAILURES.values(), ids=FAILURES)
async def test_a_failed_post_rolls_forward(error: Exception, applied: bool) -> None:
    async with running(N1) as world:
        names = await world.planned_gang("g", 3)
        world.api.fail_next("bind", error, applied=applied)
        [failed] = [call for call in await world.bind_and_settle(*names) if call.answer is not None]
        assert failed.answer is Reason.COMMIT_FAILED
        assert (len(world.bound()), world.committed) == (3 if applied else 2, {})
        again = world.bind(failed.pod, failed.node) if applied else world.bind_offered(failed.pod)[0]
        await world.settle()
        assert again.answer is None
        assert set(world.bound()) == set(names)


async def test_a_defect_in_posting_still_answers_the_call(caplog: pytest.LogCaptureFixture) -> None:
    async with running(N1) as world:
        [name] = await world.planned_gang("g", 1)
        world.api.fail_next("bind", RuntimeError("a defect"))
        [call] = await world.bind_and_settle(name)
        assert call.answer is Reason.COMMIT_FAILED
        assert world.counted("internal_errors_total", place="post") == 1.0
        assert "a defect" in caplog.text


async def test_every_answer_leaves_a_line_that_names_pod_and_node(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="netgang.decisions")
    async with running(N1) as world:
        first, second = await world.planned_gang("g", 2)
        [held] = world.bind_offered(first)
        await world.until(held.began_s + HOLD_S + 11.0)
        await world.bind_and_settle(first, second)
        lines = [record.fields for record in caplog.records if record.getMessage() == "bind"]  # type: ignore[attr-defined]
    told = [(line["pod"], line["node"], line.get("reason")) for line in lines]
    assert told == [("default/g-0", "n1", Reason.QUORUM_TIMEOUT), *((f"default/g-{i}", "n1", None) for i in (0, 1))]
