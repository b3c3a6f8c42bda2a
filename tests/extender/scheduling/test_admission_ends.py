"""Every admission ends (docs/safety.md S5, S25): by Bindings, or by a lapse that says what kube-scheduler says."""

from typing import Any

import pytest
from msgspec.structs import replace

from extender.cache.cluster import ClusterCache
from extender.scheduling.admissions import FIRST_S, Lapses
from scoring.model.gang import gang_key
from scoring.model.reasons import Reason
from tests.builders import pod
from tests.extender.controllers.contexts import context_over
from tests.extender.scheduling.world import ADMIT_S, GATED, HOLD_S, answers, key, node_json, running
from tests.fakes.clock import FakeClock
from tests.fakes.cluster_api import FakeClusterApi

pytestmark = pytest.mark.looptime

NO_CLAIM = (
    '0/2 nodes are available: persistentvolumeclaim "data" not found. '
    "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
)
NO_VOLUME = "0/2 nodes are available: 2 node(s) had volume node affinity conflict. preemption: 0/2 nodes are available."
OURS = "0/2 nodes are available: 2 netgang: the gang waits until min-available of its pods exist and can start."


def nodes() -> list[dict[str, Any]]:
    return [node_json(f"n{i}", cpu="1500m") for i in (1, 2)]


@pytest.mark.parametrize("gates", [{}, GATED], ids=["ungated", "gated"])
async def test_a_gang_that_never_comes_lapses(gates: dict[str, Any]) -> None:
    async with running(*nodes()) as world:
        never = await world.planned_gang("never", 2, **gates)
        assert sorted(world.plan.admitted) == [key("never")]
        names = world.gang("next", 2)
        await world.settle(ADMIT_S / 2)
        assert world.waits_for("next") is Reason.BEHIND
        if not gates:
            world.says(NO_VOLUME, *never)
        await world.settle(ADMIT_S / 2 + 2.0)
        assert (world.waits_for("never"), sorted(world.plan.admitted)) == (Reason.BACKING_OFF, [key("next")])
        await world.starts(*names)
        [note] = world.told("AdmissionLapsed")
        assert ("2 node(s) had volume node affinity conflict" in note) is not bool(gates)
        assert "preemption" not in note


@pytest.mark.parametrize("gated", [True, False], ids=["gated", "ungated"])
async def test_a_gang_whose_claim_does_not_exist_is_incomplete(gated: bool) -> None:
    async with running(*nodes()) as world:
        lacks = await world.planned_gang("lacks", 2, **(GATED if gated else {}))
        world.says(NO_CLAIM, *lacks)
        await world.settle(2.0)
        assert (world.waits_for("lacks"), world.committed) == (Reason.INCOMPLETE, {})
        assert 'persistentvolumeclaim "data" not found' in world.plan.waiting[key("lacks")].detail
        names = await world.planned_gang("next", 2)
        await world.starts(*names)
        world.delete(*names)
        assert [world.refusal(name) for name in lacks] == [Reason.INCOMPLETE] * 2, "the claim is there: it is asked"
        world.says(OURS, *lacks)
        await world.settle()
        assert sorted(world.plan.admitted) == [key("lacks")]
        await world.starts(*lacks)


async def test_members_at_bind_are_let_go_when_another_cannot_come() -> None:
    async with running(*nodes()) as world:
        came, lacks = await world.planned_gang("g", 2)
        [call] = await world.bind_and_settle(came)
        world.says(NO_CLAIM, lacks)
        await world.settle(2.0)
        assert (call.waits, call.answer is None) == (False, False)
        assert (world.waits_for("g"), world.committed) == (Reason.INCOMPLETE, {})
        why = {one.pod: one.why for one in world.explained("g").members}
        assert why[lacks] == 'kube-scheduler places it on no node: persistentvolumeclaim "data" not found'


async def test_a_gang_of_which_only_some_come_lapses_with_the_words_of_the_others() -> None:
    async with running(*nodes()) as world:
        came, stays = await world.planned_gang("g", 2)
        world.says(NO_VOLUME, stays)
        calls = world.bind_offered(came)
        await world.settle(HOLD_S + 1.0)
        assert answers(calls) == [Reason.QUORUM_TIMEOUT]
        assert (world.waits_for("g"), world.committed) == (Reason.BACKING_OFF, {})
        [note] = world.told("AdmissionLapsed")
        assert f"default/{stays}" in note
        assert "volume node affinity conflict" in note


async def test_other_words_of_kube_scheduler_end_the_back_off() -> None:
    """A pod of which kube-scheduler says that we refused it found a node it could use (docs/safety.md S5)."""
    async with running(*nodes()) as world:
        names = await world.planned_gang("g", 2)
        world.says(NO_VOLUME, *names)
        await world.settle(ADMIT_S + 2.0)
        assert world.waits_for("g") is Reason.BACKING_OFF
        world.says(NO_VOLUME.replace("0/2", "0/3"), *names)
        await world.settle(2.0)
        assert world.waits_for("g") is Reason.BACKING_OFF, "the same refusal in other numbers is no news"
        world.says(OURS, *names)
        await world.settle(2.0)
        assert sorted(world.plan.admitted) == [key("g")]
        await world.bind_and_settle(*names)


async def test_kube_scheduler_that_comes_back_ends_the_back_off_of_its_absence() -> None:
    """Nothing was heard of the pods at all: the first question about a member starts the gang, whatever the count."""
    async with running(*nodes()) as world:
        names = world.gang("g", 2)
        await world.settle(2 * ADMIT_S + FIRST_S + 5.0)
        assert world.waits_for("g") is Reason.BACKING_OFF
        await world.starts(*names)


async def test_a_gang_never_starves_while_its_claim_is_missing() -> None:
    async with running(*nodes(), queue={"starve_limit_s": 5.0}) as world:
        world.says(NO_CLAIM, *await world.planned_gang("lacks", 2))
        await world.settle(30.0)
        await world.planned_gang("next", 2)
        assert (sorted(world.plan.admitted), dict(world.plan.reservations)) == ([key("next")], {})


G = gang_key("default", "g")


class Desk:
    def __init__(self) -> None:
        self.cache = ClusterCache()
        self.clock = FakeClock()
        self.lapses = Lapses(context_over(FakeClusterApi(), self.cache, self.clock), timeout_s=60.0)
        self.cache.pods.put(pod("p", gang="g", min_available=2))

    def lapse(self) -> float:
        self.lapses.lapsed(G)
        return self.back_off_s()

    def back_off_s(self) -> float:
        until_s = self.cache.snapshot().backing_off_until_s.get(G)
        return 0.0 if until_s is None else until_s - self.clock.now_s()

    def refuse(self, words: str) -> None:
        self.cache.pods.put(replace(pod("p", gang="g", min_available=2), refusal=words))


def test_each_lapse_backs_off_twice_as_long_up_to_ten_minutes_and_a_start_ends_the_count() -> None:
    desk = Desk()
    assert [desk.lapse() for _ in range(8)] == [10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 600.0, 600.0]
    desk.lapses.started(G)
    assert (desk.back_off_s(), desk.lapse()) == (0.0, FIRST_S)


@pytest.mark.parametrize("looked_meanwhile", [True, False])
def test_other_pods_end_count_and_back_off(looked_meanwhile: bool) -> None:
    desk = Desk()
    desk.lapse()
    desk.cache.pods.put(pod("p", gang="g", min_available=2, options=(("near", "a"),)))  # the same pod still
    desk.lapses.renew()
    assert desk.lapse() == 2 * FIRST_S
    desk.cache.pods.put(pod("q", gang="g", min_available=2))
    if looked_meanwhile:
        desk.lapses.renew()
        assert desk.cache.snapshot().backing_off_until_s == {}
    assert desk.lapse() == FIRST_S


def test_a_refusal_that_comes_and_goes_with_each_try_ends_one_back_off() -> None:
    """Anti-affinity among members: the last is refused while the first are held, and not any more after the lapse."""
    desk, back_offs_s = Desk(), []
    for _ in range(4):
        desk.refuse("0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.")
        back_offs_s.append(desk.lapse())
        desk.refuse("")
        desk.lapses.renew()
        back_offs_s.append(desk.back_off_s())
    assert back_offs_s == [FIRST_S, 0.0, *(2 * [2 * FIRST_S]), *(2 * [4 * FIRST_S]), *(2 * [8 * FIRST_S])]
    desk.cache.pods.put(pod("q", gang="g", min_available=2))
    assert desk.lapse() == FIRST_S


def test_nodes_that_refuse_a_member_and_pass_it_again_make_the_next_such_try_a_lapse() -> None:
    """The first is only planned again: a filter that is not modelled may have closed that node."""
    desk = Desk()
    desk.lapses.abandoned(G)
    assert desk.back_off_s() == 0.0
    for pause_s in (FIRST_S, 2 * FIRST_S):
        desk.refuse("0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.")
        desk.lapses.revoked(G)
        desk.lapses.abandoned(G)
        assert desk.back_off_s() == pause_s
        desk.refuse("")
        desk.lapses.renew()
        assert desk.back_off_s() == pause_s
    desk.cache.pods.put(pod("q", gang="g", min_available=2))
    desk.lapses.abandoned(G)
    assert desk.back_off_s() == 0.0


def test_a_gang_without_pods_has_no_record() -> None:
    desk = Desk()
    desk.lapse()
    desk.cache.pods.remove("default/p")
    desk.lapses.lapsed(G)
    assert desk.cache.snapshot().backing_off_until_s == {}
    desk.cache.pods.put(pod("p", gang="g", min_available=2))
    assert desk.lapse() == FIRST_S
