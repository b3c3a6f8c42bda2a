"""/filter: the planned node or one constant reason, and what a question changes (docs/safety.md S1, S2, S7)."""

import asyncio
import random
from typing import Any

import msgspec
import pytest

from extender.bootstrap import following
from extender.convert.wire import BindArgs, Failed, FilterAnswer, Passed, Refused, decode_filter
from extender.errors import BadRequestError
from extender.settings.settings import Settings
from scoring import NodeName
from scoring.model.reasons import Reason
from tests.extender.scheduling.world import Object, World, answers, args_of, node_json, pod_json, running
from tests.fakes.clock import LoopClock
from tests.fakes.cluster_api import FakeClusterApi
from tests.fakes.notes import notes_of_a_former_process

pytestmark = pytest.mark.looptime

N1, N2, N3 = node_json("n1"), node_json("n2"), node_json("n3")
B2 = node_json("n2", zone="b")
ALL = ["n1", "n2"]


def unknown(name: str = "late", **fields: Any) -> Object:
    return pod_json(name, uid=f"uid-{name}", **fields)


def ask(world: World, pod: Object, **how: Any) -> FilterAnswer:
    return world.service.verbs.filter(args_of(pod, nodes=world.node_names(), **how))


PASSED: dict[str, dict[str, Any]] = {  # case: a pod that keeps all its nodes
    "plain, ours": {},
    "plain, of another scheduler": {"scheduler": "default-scheduler"},
    "member of another scheduler's gang": {"scheduler": "volcano", "gang": "other"},
    "native gang, ours": {"schedulingGroup": {"podGroupName": "native"}},
}


@pytest.mark.parametrize("fields", PASSED.values(), ids=PASSED)
@pytest.mark.parametrize("known", [True, False], ids=["known", "not known yet"])
async def test_pods_that_are_not_ours_to_gang_keep_all_nodes(fields: dict[str, Any], known: bool) -> None:
    """The request's own list comes back, whether or not the watch has brought the pod (docs/safety.md S1)."""
    async with running(N1, N2) as world:
        pod = unknown(**fields)
        if known:
            world.api.add(pod)
        await world.settle()
        args = args_of(pod, nodes=ALL)
        answer = world.service.verbs.filter(args)
        assert isinstance(answer, Passed)
        assert answer.names is args.node_names


async def test_native_members_follow_their_siblings_into_their_zone() -> None:
    group: dict[str, Any] = {"schedulingGroup": {"podGroupName": "native"}}
    members = [pod_json("m-0", nodeName="n1", **group), pod_json("m-1", **group)]
    async with running(N1, N2, node_json("far", zone="b"), *members) as world:
        assert world.filter("m-1") == Passed([NodeName("n1"), NodeName("n2")], others=Reason.OTHER_ZONE)
        assert (await world.bind_answer("m-1", "far"), world.api.calls["bind"]) == (Reason.NEVER_OFFERED, 0)
        assert world.filter("m-1", nodes=["far"]) == Passed([NodeName("far")])


async def test_a_member_that_vanished_after_its_offer_is_not_bound_alone() -> None:
    async with running(N1) as world:
        first, _ = await world.planned_gang("g", 2)
        node = world.offered(first)
        world.service.cache.pods.remove(f"default/{first}")
        assert (await world.bind_answer(first, node), world.api.calls["bind"]) == (Reason.POD_DELETED, 0)


async def test_a_member_that_the_watch_has_not_brought_is_refused_for_a_moment() -> None:
    async with running(N1, N2) as world:
        await world.planned_pod("g-0", gang="g", size=2)
        late = unknown("g-1", gang="g", size=2)
        assert ask(world, late) == Refused(Reason.UNKNOWN_POD)
        await world.settle(0.8)  # housekeeping looks meanwhile, and must not forget who asked
        world.api.add(late)
        await world.settle()
        assert [uid for uid, _ in world.api.patches] == ["uid-g-1"]
        assert world.offered("g-1") in ALL


async def test_a_successor_of_the_same_name_is_not_taken_for_its_predecessor() -> None:
    async with running(N1) as world:
        await world.planned_gang("g", 1)
        assert ask(world, pod_json("g-0", uid="another", gang="g", size=1)) == Refused(Reason.UNKNOWN_POD)


async def test_a_person_may_leave_the_uid_out() -> None:
    async with running(N1) as world:
        [name] = await world.planned_gang("g", 1)
        for metadata in ({"name": name}, {"name": name, "namespace": "default"}):
            body = msgspec.json.encode({"Pod": {"metadata": metadata}, "NodeNames": ["n1"]})
            assert world.service.verbs.filter(decode_filter(body, debug=True)) == Passed([NodeName("n1")])


async def test_a_pod_that_cannot_be_read_is_the_callers_mistake() -> None:
    async with running(N1) as world:
        with pytest.raises(BadRequestError, match=r"containers\[0\].*cpu"):
            ask(world, unknown(cpu="a lot"))


async def test_before_the_first_plan_there_is_no_decision() -> None:
    """Not synced: `Error`, so that kube-scheduler tries again by timer; bind says the same, prioritize is equal."""
    api = FakeClusterApi(N1, unknown("p", gang="g"))
    service = following(Settings(), api, LoopClock(), random.Random(0), notes_of_a_former_process())
    args = args_of(api.pod("p"), nodes=["n1", "n2"])
    assert service.verbs.caught_up(args) is None
    assert (service.verbs.filter(args), set(service.verbs.prioritize(args))) == (Failed(Reason.NOT_SYNCED), {0})
    bind = BindArgs(args.pod.name, args.pod.namespace, args.pod.uid, NodeName("n1"))
    assert await service.verbs.bind(bind, asyncio.get_running_loop().create_future()) is Reason.NOT_SYNCED


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
async def test_the_first_pod_of_a_new_gang_waits_for_the_others_while_kube_scheduler_is_idle(busy: bool) -> None:
    async with running(N1, N2) as world:
        await world.settle()
        members = [pod_json(name, gang="g", size=2) for name in ("g-0", "g-1")]
        for one in members:
            one["metadata"]["creationTimestamp"] = "2023-11-14T22:13:20Z"  # when the clock begins
        world.pod("plain")
        world.api.add(members[0])
        await world.settle(0.1)
        if busy:
            await world.ask("plain")
        asyncio.get_running_loop().call_later(0.01, world.api.add, members[1])
        assert isinstance(await world.ask("g-0"), Refused if busy else Passed)


async def test_a_bound_member_keeps_its_node() -> None:
    """kube-scheduler is a moment behind: it may have the node where the pod is, and no other."""
    async with running(N1, N2) as world:
        [name] = await world.planned_gang("g", 1)
        [call] = await world.bind_and_settle(name)
        assert world.filter(name) == Passed([NodeName(call.node)])
        assert world.filter(name, nodes={"n1", "n2"} - {call.node}) == Refused(Reason.OTHER_NODE_PLANNED)


async def test_members_beyond_the_minimum_wait_without_holding_it_up() -> None:
    async with running(N1) as world:
        names = await world.planned_gang("g", 5, minimum=4)
        surplus = [name for name in names if isinstance(world.filter(name), Refused)]
        assert [world.refusal(name) for name in surplus] == [Reason.SURPLUS]
        await world.starts(*(name for name in names if name not in surplus))
        assert world.refusal(*surplus) is Reason.SURPLUS
        world.node("n2")
        await world.settle()
        assert world.offered(*surplus) == "n2"


FULL = pod_json("stranger", cpu="4", scheduler="x", nodeName="n1")
MIXED = [pod_json("g-0", gang="g", size=2), pod_json("g-1", gang="g", size=2, scheduler="other")]
REFUSALS: dict[str, tuple[list[Object], Reason]] = {  # case: (pods, reason of g-0)
    "too few pods": ([pod_json("g-0", gang="g", size=2)], Reason.INCOMPLETE),
    "no room": ([FULL, pod_json("g-0", gang="g", cpu="1")], Reason.NO_ROOM),
    "mixed schedulers": (MIXED, Reason.INVALID_GROUP),
}


@pytest.mark.parametrize(("pods", "reason"), REFUSALS.values(), ids=REFUSALS)
async def test_a_refusal_is_constant(pods: list[Object], reason: Reason) -> None:
    """The plan's reason, the same at every repetition: a changing one makes kube-scheduler spin."""
    async with running(N1, *pods) as world:
        for pause_s in (0.0, 0.0, 5.0):
            await world.settle(pause_s)
            assert world.refusal("g-0") is reason


async def test_a_gang_that_lost_too_many_members_waits_for_them() -> None:
    """A further member is not sent to bind, where it could only fail, until the node is back (docs/safety.md S12)."""
    async with running(N1, node_lost_s=60.0) as world:
        first, second, late = await world.planned_gang("g", 3, minimum=2, cpu="2")
        await world.starts(first, second)
        world.node("n1", ready=False)
        world.node("n2")
        await world.settle(59.0)
        assert world.offered(late) == "n2"
        await world.settle(3.0)
        assert world.refusal(late) is Reason.INCOMPLETE
        world.node("n1")
        await world.settle()
        assert world.offered(late) == "n2"


async def test_a_pod_of_an_invalid_gang_is_not_woken_for_nothing() -> None:
    """Its reason stands whatever is planned, so plans do not wake it."""
    async with running(N1, *MIXED) as world:
        world.refusal("g-0")
        for number in range(3):
            world.node(f"more-{number}")
            await world.settle()
        assert world.api.patches == []


async def test_a_pod_that_keeps_coming_back_is_sent_to_the_timer() -> None:
    async with running(N1) as world:
        world.occupy("n1")
        [name] = await world.planned_gang("g", 1)
        answers = []
        for _ in range(5):
            answers.append(world.filter(name))
            await world.settle(2.0)
        assert answers == [Refused(Reason.NO_ROOM)] * 3 + [Failed(Reason.NO_ROOM)] * 2
        assert world.filter(name, debug=True) == Refused(Reason.NO_ROOM)
        world.delete("stranger")
        await world.settle()
        assert world.offered(name) == "n1"
        world.occupy("n1")
        await world.settle()
        assert world.refusal(name) is Reason.NO_ROOM


async def test_a_new_pod_and_room_that_is_just_made_are_answered_at_the_first_question() -> None:
    """It overtakes the watch by a moment and waits that moment; of room it passes a node that is full in our view."""
    async with running(N1) as world:
        world.pod("g-0", gang="g")
        assert await world.ask("g-0") == Passed([NodeName("n1")])
        world.delete("g-0")
        world.occupy("n1")
        [name] = await world.planned_gang("g", 1)
        assert world.refusal(name) is Reason.NO_ROOM
        world.delete("stranger")
        assert await world.ask(name) == Passed([NodeName("n1")])


@pytest.mark.parametrize("debug", [True, False])
async def test_nobody_waits_without_need(debug: bool) -> None:
    async with running(N1) as world:
        world.gang("g", 1)
        world.gang("large", 1, cpu="9")
        await world.planned_pod("plain")
        began_s = world.now_s
        for name in ("g-0", "plain"):
            await world.ask(name, debug=debug)
        if debug:
            await world.ask("large-0", nodes=["n7"], debug=True)
        assert world.now_s == began_s


async def test_people_look_and_nothing_comes_of_it() -> None:
    """Debugging calls get honest answers: nothing is learned, offered, nor woken (docs/safety.md S2)."""
    async with running(N1, N2) as world:
        [name] = world.gang("g", 1)
        world.pod("plain")
        await world.planned_gang("waiting", 1, cpu="9")
        [other] = {"n1", "n2"} - {planned := world.offered(name, debug=True)}
        assert await world.bind_answer(name, planned) is Reason.NEVER_OFFERED
        assert len(world.passed("plain", unless=Reason.NOT_OURS, debug=True)) == 2
        assert await world.bind_answer("plain", "n1") is Reason.NEVER_OFFERED
        assert world.refusal("waiting-0", debug=True) is Reason.IMPOSSIBLE
        for _ in range(3):
            assert world.refusal(name, nodes=[other], debug=True) is Reason.NODE_NOT_OFFERED
            await world.settle(1.5)
        assert world.service.cache.snapshot().exclusions == {}
        world.node("n3", cpu="16")
        await world.settle()
        assert world.api.patches == []


async def test_another_node_of_the_zone_is_answered_at_once() -> None:
    async with running(N1, N2, N3) as world:
        first, second = await world.planned_gang("g", 2, cpu="2")
        [held] = await world.bind_and_settle(first)
        refused = world.offered(second)
        others = [name for name in ("n1", "n2", "n3") if name != refused]
        node = world.offered(second, nodes=others)
        assert node in others
        assert (await world.bind_answer(second, node), held.answer, world.bound()[second]) == (None, None, node)
        assert world.service.cache.snapshot().exclusions == {}


async def test_a_zone_refused_twice_is_left_out_and_another_one_answered() -> None:
    async with running(N1, node_json("n3"), B2) as world:
        [name] = await world.planned_gang("g", 1, annotations={"netgang.io/zones": "a,b"})
        assert world.refusal(name, nodes=["n2"]) is Reason.NODE_NOT_OFFERED
        await world.settle(1.2)
        assert world.offered(name, nodes=["n2"]) == "n2"
        assert list(world.service.cache.snapshot().exclusions.values()) == [{"n1", "n3"}]


async def test_a_node_that_kube_scheduler_asks_about_again_is_used_at_once() -> None:
    async with running(N1) as world:
        [name] = world.gang("g", 1)
        [other] = await world.planned_gang("h", 1)
        for _ in range(2):
            world.filter(name, nodes=["n9"])
            await world.settle(1.5)
        assert world.waits_for("g") is Reason.FILTERED
        world.filter(other)
        world.filter(name, debug=True)
        assert [set(nodes) for nodes in world.service.cache.snapshot().exclusions.values()] == [{"n1"}]
        assert (world.offered(name), world.service.cache.snapshot().exclusions) == ("n1", {})


async def test_what_is_held_fails_when_a_siblings_place_will_not_do() -> None:
    others = ["n3", "n4"]
    async with running(N1, N2, *[node_json(name, zone="b") for name in others]) as world:
        first, second = await world.planned_gang("g", 2, cpu="3")
        [held] = await world.bind_and_settle(first)
        assert world.offered(second) not in others
        world.filter(second, nodes=others)
        await world.settle(1.1)
        node = world.offered(second, nodes=others)
        await world.settle(0.01)
        assert held.answer is Reason.ROOM_TAKEN
        assert answers([world.bind(second, node), *await world.bind_and_settle(first)]) == [None, None]
