"""Bind calls: held until quorum, committed together, every one answered once, nothing left behind (DESIGN §5)."""

from dataclasses import replace

import pytest

from extender.errors import ApiError, ApiUnavailableError, ConflictError, NotFoundError
from scoring.reasons import Reason
from tests.extender.service.world import (
    COMMIT_S,
    HOLD_S,
    Call,
    World,
    answers,
    key,
    node_json,
    running,
    stranger_on,
    unfinished,
)

pytestmark = pytest.mark.looptime

N1, N2, N3 = node_json("n1"), node_json("n2"), node_json("n3")


async def test_calls_are_held_until_quorum_then_all_succeed() -> None:
    """No Binding exists while one member is missing; with it all are posted and every call is answered success."""
    async with running(N1, N2) as world:
        first, second, third = world.gang("g", 3)
        await world.settle()
        early = world.bind_offered(first, second)
        await world.settle(10.0)
        assert [call.waits for call in early] == [True, True]
        assert (world.bound(), world.service.binds.held_count, world.counted("held_binds")) == ({}, 2, 2.0)
        late = world.bind_offered(third)
        await world.settle()
        assert answers([*early, *late]) == [None, None, None]
        assert world.bound() == {call.pod: call.node for call in (*early, *late)}
        assert world.counted("bindings_total", outcome="bound") == 3.0


async def test_members_beyond_the_minimum_do_not_wait() -> None:
    """With min-available of two, the third member of three is bound as soon as it asks."""
    async with running(N1) as world:
        first, second, third = world.gang("g", 3, minimum=2)
        await world.settle()
        calls = world.bind_offered(first, second)
        await world.settle()
        assert answers(calls) == [None, None]
        [surplus] = world.bind_offered(third)
        await world.settle()
        assert surplus.answer is None


async def test_the_places_of_a_gang_at_bind_are_committed() -> None:
    """From the first member at bind the whole gang's places are taken, for those that have not asked yet, too (S4)."""
    async with running(N1) as world:
        names = world.gang("g", 4)
        await world.settle()
        [call] = world.bind_offered(names[0])
        await world.settle()
        assert world.committed == {key("g"): {world.uid(name): "n1" for name in names}}
        assert world.plan.admitted[key("g")].committed
        rival = world.gang("rival", 1, minimum=1)
        await world.settle()
        assert world.refusal(*rival) is Reason.BEHIND
        await world.until(call.began_s + HOLD_S + 0.5)
        assert world.committed == {}
        assert world.offered(*rival) == "n1"


# -- the hold limit ---------------------------------------------------------------------------------------------------


async def test_at_the_hold_limit_all_fail_together() -> None:
    """The first call's limit ends all: each is answered within its own limit, and nobody is bound."""
    async with running(N1, N2) as world:
        first, second, _ = world.gang("g", 3)
        await world.settle()
        [one] = world.bind_offered(first)
        await world.settle(HOLD_S - 5.0)
        [two] = world.bind_offered(second)
        await world.until(one.began_s + HOLD_S - 0.01)
        assert (one.waits, two.waits) == (True, True)
        await world.until(one.began_s + HOLD_S + 0.01)
        assert answers([one, two]) == [Reason.QUORUM_TIMEOUT, Reason.QUORUM_TIMEOUT]
        assert (world.bound(), world.committed, world.api.calls["bind"]) == ({}, {}, 0)


async def lapse(world: World, pod: str) -> float:
    """Let a lonely member be held until its limit; seconds for which its gang then backs off."""
    [call] = world.bind_offered(pod)
    await world.until(call.began_s + HOLD_S + 0.001)
    assert call.answer is Reason.QUORUM_TIMEOUT
    return world.service.cache.snapshot().backing_off_until_s[key("g")] - world.clock.now_s()


async def test_a_lapsed_gang_backs_off_longer_each_time() -> None:
    """10 s × 2ᵏ, at most ten minutes; meanwhile it is refused and reserves nothing, afterwards it is admitted (S5)."""
    async with running(N1) as world:
        first, second = world.gang("g", 2)
        await world.settle()
        for pause_s in (10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 600.0, 600.0):
            assert await lapse(world, first) == pytest.approx(pause_s, abs=0.01)
            await world.settle()
            assert (world.refusal(first), world.plan.node_of) == (Reason.BACKING_OFF, {})
            await world.settle(pause_s - 1.5)
            assert world.refusal(second) is Reason.BACKING_OFF
            await world.settle(3.0)
            assert world.offered(second) == "n1"


async def test_success_ends_the_count_of_lapses() -> None:
    """A gang that started after a lapse begins at 10 s again: its next admission is another story."""
    async with running(N1) as world:
        first, second = world.gang("g", 2)
        await world.settle()
        assert await lapse(world, first) == pytest.approx(10.0, abs=0.01)
        await world.settle(11.0)
        calls = world.bind_offered(first, second)
        await world.settle()
        assert answers(calls) == [None, None]
        world.delete(first, second)
        await world.settle()
        first, second = world.gang("g", 2)
        await world.settle()
        assert await lapse(world, first) == pytest.approx(10.0, abs=0.01)


async def test_other_pods_end_the_back_off() -> None:
    """A gang whose pods changed may reserve again at once, and the count starts anew (S5)."""
    async with running(N1) as world:
        first, second = world.gang("g", 2)
        await world.settle()
        await lapse(world, first)
        await world.settle(11.0)
        assert await lapse(world, first) == pytest.approx(20.0, abs=0.01)
        world.delete(second)
        world.pod(second, gang="g", size=2)
        await world.settle(1.5)
        assert world.offered(first) == "n1"
        assert await lapse(world, first) == pytest.approx(10.0, abs=0.01)


async def test_lapses_of_gangs_that_are_gone_are_forgotten() -> None:
    """A gang of the same name starts with a clean record, and nothing is kept of the old one."""
    async with running(N1) as world:
        first, second = world.gang("g", 2)
        await world.settle()
        await lapse(world, first)
        world.delete(first, second)
        await world.settle(2.0)
        assert world.service.binds.lapsed == frozenset()
        world.gang("g", 2)
        await world.settle()
        assert await lapse(world, first) == pytest.approx(10.0, abs=0.01)


# -- what changes while calls are held --------------------------------------------------------------------------------


async def test_room_taken_before_quorum_fails_all_and_they_go_elsewhere() -> None:
    """A stranger on a planned node: all held calls end with ROOM_TAKEN, and the next plan is another node."""
    async with running(N1) as world:
        first, second = world.gang("g", 2, cpu="2")
        await world.settle()
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
    async with running(N1, N2) as world:
        first, second = world.gang("g", 2, cpu="3")
        await world.settle()
        [one] = world.bind_offered(first)
        await world.settle()
        node = world.offered(second)
        world.service.cache.pods.upsert(stranger_on(one.node))
        two = world.bind(second, node)
        await world.settle(0.01)
        assert answers([one, two]) == [Reason.ROOM_TAKEN, Reason.ROOM_TAKEN]
        assert world.api.calls["bind"] == 0
        world.service.cache.pods.delete("default/stranger")


async def test_a_member_that_has_not_asked_yet_gets_another_node_when_its_own_is_taken() -> None:
    """Those at bind keep waiting, and the gang starts with one member elsewhere."""
    async with running(N1, N2, N3) as world:
        first, second = world.gang("g", 2, cpu="3")
        await world.settle()
        [one] = world.bind_offered(first)
        await world.settle()
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
    async with running(N1, N2) as world:
        first, second = world.gang("g", 2, cpu="3")
        await world.settle()
        [one] = world.bind_offered(first)
        await world.settle()
        world.occupy(world.offered(second))
        await world.settle()
        assert one.answer is Reason.ROOM_TAKEN
        assert (world.committed, world.waits_for("g")) == ({}, Reason.NO_ROOM)
        assert world.service.binds.lapsed == frozenset()


async def test_a_late_bind_of_a_gang_that_backs_off_is_not_held() -> None:
    """Its siblings are refused until the back-off ends, so waiting for them is in vain."""
    async with running(N1) as world:
        first, second = world.gang("g", 2)
        await world.settle()
        offer = world.offered(second)
        await lapse(world, first)
        late = world.bind(second, offer)
        await world.settle()
        assert late.answer is Reason.ROOM_TAKEN


async def test_a_place_that_will_not_do_leaves_what_is_being_posted_alone() -> None:
    """kube-scheduler refuses a surplus member's node twice: those that are being posted keep their committed places."""
    async with running(N1, N2) as world:
        first, second, surplus = world.gang("g", 3, minimum=2, cpu="2")
        await world.settle()
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


async def test_a_deleted_node_fails_all_held_calls() -> None:
    """The planned node is gone: NODE_LOST for all, at once."""
    async with running(N1, N2) as world:
        first, _ = world.gang("g", 2, cpu="3")
        await world.settle()
        [call] = world.bind_offered(first)
        await world.settle()
        world.api.remove(call.node, kind="Node")
        await world.settle()
        assert call.answer is Reason.NODE_LOST


async def test_a_planned_node_that_is_not_ready_fails_all_held_calls() -> None:
    """Nobody waits for a node to recover while another one may do."""
    async with running(N1) as world:
        first, _ = world.gang("g", 2)
        await world.settle()
        [call] = world.bind_offered(first)
        await world.settle()
        world.node("n1", ready=False)
        await world.settle()
        assert call.answer is Reason.ROOM_TAKEN


@pytest.mark.parametrize(("away_s", "answer"), [(50.0, None), (70.0, Reason.INCOMPLETE)])
async def test_a_bound_member_counts_until_its_node_is_lost(away_s: float, answer: Reason | None) -> None:
    """Not ready for less than `node_lost_s` (60 s): the missing member completes the gang; for longer: it cannot."""
    async with running(N1, N2, node_lost_s=60.0) as world:
        first, second = world.gang("g", 2, cpu="3")
        await world.settle()
        calls = await partly_bound(world, first, second)
        world.node(calls[0].node, ready=False)
        await world.settle(away_s)
        call = world.bind(calls[1].pod, calls[1].node)
        await world.settle()
        assert call.answer is answer


async def test_a_pod_deleted_while_held_is_told_so() -> None:
    """Its own call: POD_DELETED; the others, now too few, do not wait for their limit."""
    async with running(N1) as world:
        first, second, _ = world.gang("g", 3)
        await world.settle()
        calls = world.bind_offered(first, second)
        await world.settle()
        world.delete(first)
        await world.settle()
        assert answers(calls) == [Reason.POD_DELETED, Reason.INCOMPLETE]


async def test_a_deleted_spare_member_stops_nobody() -> None:
    """With more pods than min-available the others go on waiting, and start."""
    async with running(N1) as world:
        first, second, third = world.gang("g", 3, minimum=2)
        await world.settle()
        [one] = world.bind_offered(first)
        await world.settle()
        world.delete(third)
        await world.settle()
        assert one.waits
        [two] = world.bind_offered(second)
        await world.settle()
        assert answers([one, two]) == [None, None]


async def test_a_gang_that_becomes_smaller_starts_without_another_call() -> None:
    """The PodGroup's minimum drops to what is held: nobody waits for the limit."""
    group = {"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"minMember": 3}}
    async with running(N1, group) as world:
        for name in ("a", "b", "c"):
            pod = {"labels": {"scheduling.x-k8s.io/pod-group": "g"}, "name": name}
            world.api.add({"kind": "Pod", "metadata": pod, "spec": {"schedulerName": "netgang"}})
        await world.settle()
        calls = world.bind_offered("a", "b")
        await world.settle()
        world.api.add({**group, "spec": {"minMember": 2}})
        await world.settle()
        assert answers(calls) == [None, None]


async def test_a_pod_that_moves_to_another_gang_is_in_one_only() -> None:
    """Its label changed while it was held: the old gang lets it go, the new one takes it, nothing fails inside."""
    async with running(N1) as world:
        first, _ = world.gang("g", 2)
        other, _ = world.gang("h", 2)
        await world.settle()
        [held] = world.bind_offered(first)
        await world.settle()
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
        later = world.bind_offered(first, other)
        await world.settle()
        assert answers(later) == [None, None]


# -- kube-scheduler goes away -----------------------------------------------------------------------------------------


async def test_a_call_whose_client_is_gone_is_dropped() -> None:
    """Nothing is posted for it; the gang's places are free at once; asked again, the gang starts."""
    async with running(N1) as world:
        first, second = world.gang("g", 2)
        await world.settle()
        [call] = world.bind_offered(first)
        await world.settle()
        call.hang_up()
        await world.settle(0.01)
        assert not call.waits
        assert (world.committed, world.service.binds.held_count) == ({}, 0)
        [late] = world.bind_offered(second)
        await world.settle()
        assert late.waits
        [again] = world.bind_offered(first)
        await world.settle()
        assert answers([late, again]) == [None, None]


async def test_a_cancelled_call_is_dropped_like_one_whose_client_is_gone() -> None:
    """The server cancels its handlers at the end of its patience: nothing stays held."""
    async with running(N1) as world:
        first, _ = world.gang("g", 2)
        await world.settle()
        [call] = world.bind_offered(first)
        await world.settle()
        call.task.cancel()
        await world.settle(0.01)
        assert call.task.cancelled()
        assert (world.committed, world.service.binds.held_count) == ({}, 0)


async def test_a_restarted_scheduler_takes_the_place_of_the_old_one() -> None:
    """A second call for a held pod is held; the first, whose client is probably gone, is answered."""
    async with running(N1) as world:
        first, second = world.gang("g", 2)
        await world.settle()
        [old] = world.bind_offered(first)
        await world.settle()
        [new] = world.bind_offered(first)
        await world.settle()
        assert (old.answer, new.waits) == (Reason.POD_CHANGED, True)
        [last] = world.bind_offered(second)
        await world.settle()
        assert answers([new, last]) == [None, None]


# -- the API server ---------------------------------------------------------------------------------------------------

FAILURES = {  # case: (what the API server does, whether it took effect all the same, answer)
    "conflict": (ConflictError(409, "is already assigned"), False, Reason.COMMIT_FAILED),
    "not found": (NotFoundError(404, "pods not found"), False, Reason.COMMIT_FAILED),
    "invalid": (ApiError(422, "is invalid"), False, Reason.COMMIT_FAILED),
    "overloaded": (ApiError(429, "too many requests"), False, Reason.COMMIT_FAILED),
    "internal": (ApiError(500, "etcd is away"), False, Reason.COMMIT_FAILED),
    "unreachable": (ApiUnavailableError("connection refused"), False, Reason.COMMIT_FAILED),
    "answer lost": (ApiUnavailableError("connection reset"), True, Reason.COMMIT_FAILED),
}


async def partly_bound(world: World, first: str, second: str) -> list[Call]:
    """Start a gang of two of which the second member's POST fails: the first is bound, the gang is partial."""
    world.api.latency_s["bind"] = 0.1
    calls = world.bind_offered(first, second)
    await world.settle(0.01)
    world.api.fail_next("bind", ApiUnavailableError("connection refused"))
    # Posts begin in the order of the uids, and the first to begin meets the fault.
    failed = min(calls, key=lambda call: world.uid(call.pod))
    await world.settle()
    assert failed.answer is Reason.COMMIT_FAILED
    world.api.latency_s["bind"] = 0.0
    return sorted(calls, key=lambda call: call is failed)


@pytest.mark.parametrize(("error", "applied", "answer"), FAILURES.values(), ids=FAILURES)
async def test_a_failed_post_rolls_forward(error: Exception, applied: bool, answer: Reason) -> None:
    """The failed member's call says so, the others stay bound; it comes again and completes the gang."""
    async with running(N1) as world:
        names = world.gang("g", 3)
        await world.settle()
        world.api.fail_next("bind", error, applied=applied)
        calls = world.bind_offered(*names)
        await world.settle()
        [failed] = [call for call in calls if call.answer is not None]
        assert failed.answer is answer
        assert len(world.bound()) == (3 if applied else 2)
        assert world.committed == {}
        again = world.bind(failed.pod, failed.node) if applied else world.bind_offered(failed.pod)[0]
        await world.settle()
        assert again.answer is None
        assert set(world.bound()) == set(names)


async def test_an_api_server_that_does_not_answer_ends_at_the_commit_limit() -> None:
    """Each call is answered by hold + commit, as a failure; what the API server never got is not bound."""
    async with running(N1) as world:
        names = world.gang("g", 2)
        await world.settle()
        world.api.hold("bind")
        calls = world.bind_offered(*names)
        await world.until(calls[0].began_s + COMMIT_S - 0.01)
        assert all(call.waits for call in calls)
        await world.until(calls[0].began_s + COMMIT_S + 0.01)
        assert answers(calls) == [Reason.COMMIT_FAILED] * 2
        assert world.bound() == {}


async def test_success_is_not_answered_before_the_api_server_confirmed_it() -> None:
    """Posts take two seconds: nobody hears of success earlier, and each hears of its own."""
    async with running(N1) as world:
        names = world.gang("g", 2)
        await world.settle()
        world.api.latency_s["bind"] = 2.0
        calls = world.bind_offered(*names)
        await world.settle(1.99)
        assert all(call.waits for call in calls)
        assert set(world.committed[key("g")].values()) == {"n1"}
        await world.settle(0.02)
        assert answers(calls) == [None, None]


async def test_the_watch_may_know_before_the_post_answers() -> None:
    """The pod is seen on its node: success at once, though the POST's own answer never comes."""
    async with running(N1) as world:
        first, second = world.gang("g", 2)
        await world.settle()
        world.api.hold("bind")
        calls = world.bind_offered(first, second)
        await world.settle(0.1)
        world.change(first, nodeName="n1")
        await world.settle()
        assert calls[0].answer is None
        assert calls[1].waits


async def test_a_pod_that_somebody_else_put_elsewhere_is_no_success() -> None:
    """The watch shows it on another node than asked: the call fails, because kube-scheduler counts the wrong node."""
    async with running(N1, N2) as world:
        first, second = world.gang("g", 2, cpu="3")
        await world.settle()
        [call] = world.bind_offered(first)
        await world.settle()
        world.change(first, nodeName="n1" if call.node == "n2" else "n2")
        await world.settle()
        assert call.answer is Reason.POD_CHANGED
        assert world.bound().keys() == {first}
        world.delete(first, second)


async def test_repeating_a_bind_is_harmless() -> None:
    """Asked again for a bound pod: success for its node without a POST, a refusal for any other."""
    async with running(N1, N2) as world:
        [name] = world.gang("g", 1)
        await world.settle()
        [call] = world.bind_offered(name)
        await world.settle()
        again, other = world.bind(name, call.node), world.bind(name, "n1" if call.node == "n2" else "n2")
        await world.settle()
        assert answers([call, again, other]) == [None, None, Reason.POD_CHANGED]
        assert world.api.calls["bind"] == 1


async def test_a_call_during_the_post_joins_it() -> None:
    """kube-scheduler asks again while the Binding is under way: one POST, the new call gets its outcome."""
    async with running(N1) as world:
        [name] = world.gang("g", 1)
        await world.settle()
        world.api.latency_s["bind"] = 2.0
        [old] = world.bind_offered(name)
        await world.settle()
        old.hang_up()
        [new] = world.bind_offered(name)
        await world.settle(3.0)
        assert (new.answer, world.api.calls["bind"]) == (None, 1)


async def test_a_pod_deleted_between_commit_and_post_is_not_posted() -> None:
    """The last look before the POST: the pod is gone, the other member is bound."""
    async with running(N1) as world:
        first, second = world.gang("g", 2)
        await world.settle()
        calls = world.bind_offered(first, second)
        world.service.cache.pods.delete(f"default/{second}")
        world.api.remove(second)
        await world.settle()
        assert calls[1].answer in (Reason.COMMIT_FAILED, Reason.POD_DELETED)
        assert world.api.calls["bind"] <= 1


async def test_a_defect_in_posting_still_answers_the_call(caplog: pytest.LogCaptureFixture) -> None:
    """An error that nobody expected: the call fails as if the POST had, the defect is logged and counted."""
    async with running(N1) as world:
        [name] = world.gang("g", 1)
        await world.settle()
        world.api.fail_next("bind", RuntimeError("a defect"))
        [call] = world.bind_offered(name)
        await world.settle()
        assert call.answer is Reason.COMMIT_FAILED
        assert world.counted("internal_errors_total", place="post") == 1.0
        assert "a defect" in caplog.text


async def test_every_answer_leaves_a_line_that_names_pod_and_node(caplog: pytest.LogCaptureFixture) -> None:
    """One line per decision, refusals with their reason."""
    caplog.set_level("INFO", logger="netgang.decisions")
    async with running(N1) as world:
        first, second = world.gang("g", 2)
        await world.settle()
        [held] = world.bind_offered(first)
        await world.until(held.began_s + HOLD_S + 11.0)
        world.bind_offered(first, second)
        await world.settle()
        lines = [record.fields for record in caplog.records if record.getMessage() == "bind"]  # type: ignore[attr-defined]
    told = [(line["pod"], line["node"], line.get("reason")) for line in lines]
    assert told == [
        ("default/g-0", "n1", Reason.QUORUM_TIMEOUT),
        ("default/g-0", "n1", None),
        ("default/g-1", "n1", None),
    ]


# -- whose room -------------------------------------------------------------------------------------------------------


async def test_two_gangs_never_commit_to_the_same_room() -> None:
    """An offer from an older plan, whose room a more important gang has committed meanwhile, is refused."""
    async with running(N1, N2) as world:
        old = world.gang("old", 2, cpu="4")
        await world.settle()
        offers = {name: world.offered(name) for name in old}
        urgent = world.gang("urgent", 2, cpu="4", priority=100)
        await world.settle()
        held = world.bind_offered(urgent[0])
        await world.settle()
        late = [world.bind(name, node) for name, node in offers.items()]
        await world.settle()
        assert answers(late) == [Reason.ROOM_TAKEN, Reason.ROOM_TAKEN]
        held += world.bind_offered(urgent[1])
        await world.settle()
        assert answers(held) == [None, None]
        assert world.waits_for("old") is Reason.NO_ROOM


async def test_an_older_offer_counts_while_its_room_is_there() -> None:
    """First at bind, first served: the plan works around what is committed, whomever it had meant the room for."""
    async with running(N1, N2) as world:
        old = world.gang("old", 2, cpu="4")
        await world.settle()
        offers = {name: world.offered(name) for name in old}
        urgent = world.gang("urgent", 2, cpu="4", priority=100)
        await world.settle()
        promised = {name: world.offered(name) for name in urgent}
        calls = [world.bind(name, node) for name, node in offers.items()]
        refused = [world.bind(name, node) for name, node in promised.items()]
        await world.settle()
        assert answers(calls) == [None, None]
        assert answers(refused) == [Reason.ROOM_TAKEN, Reason.ROOM_TAKEN]


async def test_more_calls_than_may_be_held_fail_at_once() -> None:
    """Each held call is an open connection; the next one is refused, and tried again by kube-scheduler."""
    async with running(N1, max_held_binds=2) as world:
        names = world.gang("g", 4)
        await world.settle()
        held = world.bind_offered(*names[:2])
        await world.settle()
        [refused] = world.bind_offered(names[2])
        await world.settle()
        assert refused.answer is Reason.TOO_MANY_HELD
        assert [call.waits for call in held] == [True, True]


# -- S2 ---------------------------------------------------------------------------------------------------------------


async def test_bind_is_not_a_back_door() -> None:
    """Only a pair that filter offered to kube-scheduler, and not too long ago, is bound (S2)."""
    async with running(N1, N2) as world:
        [name] = world.gang("g", 1)
        world.pod("plain")
        await world.settle()
        never = [world.bind(name, "n1"), world.bind("plain", "n1"), world.bind(name, "n1", uid="unknown")]
        await world.settle()
        assert answers(never) == [Reason.NEVER_OFFERED] * 3
        planned = world.offered(name)
        other = world.bind(name, "n1" if planned == "n2" else "n2")
        await world.settle()
        assert other.answer is Reason.NEVER_OFFERED
        await world.settle(601.0)
        late = world.bind(name, planned)
        await world.settle()
        assert (late.answer, world.api.calls["bind"]) == (Reason.NEVER_OFFERED, 0)


async def test_what_a_person_was_told_is_no_offer() -> None:
    """A debugging call to filter does not open /bind."""
    async with running(N1) as world:
        [name] = world.gang("g", 1)
        await world.settle()
        call = world.bind(name, world.offered(name, debug=True))
        await world.settle()
        assert call.answer is Reason.NEVER_OFFERED


async def test_a_gang_that_became_invalid_after_the_offer_is_refused() -> None:
    """Its members contradict each other now: the reason is answered, nobody is held."""
    async with running(N1) as world:
        first, second = world.gang("g", 2)
        await world.settle()
        node = world.offered(first)
        world.pod(second, gang="g", size=3)
        await world.settle()
        call = world.bind(first, node)
        await world.settle()
        assert call.answer is Reason.INVALID_GROUP


# -- pods that wait for nobody ----------------------------------------------------------------------------------------

ALONE = {  # case: (error, answer)
    "confirmed": (None, None),
    "conflict": (ConflictError(409, "is already assigned"), Reason.POD_CHANGED),
    "gone": (NotFoundError(404, "not found"), Reason.POD_DELETED),
    "invalid": (ApiError(422, "is invalid"), Reason.COMMIT_FAILED),
    "unreachable": (ApiUnavailableError("connection refused"), Reason.COMMIT_FAILED),
}


@pytest.mark.parametrize(("error", "answer"), ALONE.values(), ids=ALONE)
async def test_a_plain_pod_is_bound_where_kube_scheduler_says(error: Exception | None, answer: Reason | None) -> None:
    """No gang, no hold; a failure is told in our words."""
    async with running(N1, N2) as world:
        world.pod("plain")
        await world.settle()
        world.filter("plain")
        if error is not None:
            world.api.fail_next("bind", error)
        call = world.bind("plain", "n2")
        await world.settle()
        assert call.answer is answer
        assert world.node_of("plain") == ("n2" if answer is None else None)


async def test_a_plain_pod_does_not_wait_for_ever_either() -> None:
    """The commit limit holds for it, too."""
    async with running(N1) as world:
        world.pod("plain")
        await world.settle()
        world.filter("plain")
        world.api.hold("bind")
        call = world.bind("plain", "n1")
        await world.settle(COMMIT_S + 0.1)
        assert call.answer is Reason.COMMIT_FAILED


# -- the end of the process -------------------------------------------------------------------------------------------


async def test_shut_down_answers_everybody() -> None:
    """Held calls fail with NOT_LEADER; Bindings under way are waited for; nothing new is held or posted."""
    async with unfinished(N1, N2) as world:
        held_one, late = world.gang("held", 2)
        posting = world.gang("posting", 2)
        fresh = world.gang("fresh", 2)
        world.pod("plain")
        await world.settle()
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
        assert answers(calls) == [Reason.NOT_LEADER] * 4
        assert world.service.binds.held_count == 0
