"""/bind is not a back door (docs/safety.md S2): whose pods it binds, and to which nodes."""

import asyncio
from typing import Any

import pytest

from extender.convert.wire import BindArgs
from extender.scheduling.verbs import AT_BIND_S
from scoring import Namespace, NodeName, PodName
from scoring.model.reasons import Reason
from tests.extender.scheduling.world import Object, args_of, node_json, pod_json, running

pytestmark = pytest.mark.looptime

N1, N2 = node_json("n1"), node_json("n2")


@pytest.mark.parametrize("fields", [{}, {"gang": "g", "size": 1}], ids=["pod", "gang"])
@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
async def test_a_pod_of_another_scheduler_is_not_bound(fields: dict[str, Any], known: bool) -> None:
    async with running(N1, N2) as world:
        stranger = pod_json("stranger", uid="uid-stranger", scheduler="default-scheduler", **fields)
        if known:
            world.api.add(stranger)
            await world.settle()
        world.service.verbs.filter(args_of(stranger, nodes=["n1", "n2"]))
        want = Reason.NOT_OURS if known else Reason.NEVER_OFFERED
        assert await world.bind_answer("stranger", "n1", uid="uid-stranger") is want
        assert world.api.calls["bind"] == 0


async def test_a_pod_goes_only_where_it_was_asked_about_and_a_member_where_it_is_planned() -> None:
    async with running(N1, N2) as world:
        await world.planned_pod("plain")
        world.filter("plain", nodes=["n1", "n2"])
        world.filter("plain", nodes=["n1"])
        for elsewhere in ("n2", "n", "unheard-of"):
            assert (await world.bind_answer("plain", elsewhere), world.api.calls["bind"]) == (Reason.NEVER_OFFERED, 0)
        assert (await world.bind_answer("plain", "n1"), world.node_of("plain")) == (None, "n1")
        [member] = await world.planned_gang("g", 1)
        [other] = {"n1", "n2"} - {planned := world.offered(member)}
        assert await world.bind_answer(member, other) is Reason.NEVER_OFFERED
        await world.settle(601.0)
        assert await world.bind_answer(member, planned) is Reason.NEVER_OFFERED, "that was long ago"


async def test_a_pod_is_bound_under_its_own_name() -> None:
    async with running(N1) as world:
        await world.planned_pod("plain")
        world.filter("plain")
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        args = BindArgs(PodName("other"), Namespace("kube-system"), world.uid("plain"), NodeName("n1"))
        assert await world.service.verbs.bind(args, gone) is None
        assert world.node_of("plain") == "n1"


LATE: dict[str, tuple[Object | None, Reason | None]] = {  # case: (what the watch brings, the answer)
    "ours": (pod_json("late", uid="uid-late"), None),
    "another scheduler's": (pod_json("late", uid="uid-late", scheduler="default-scheduler"), Reason.NOT_OURS),
    "never": (None, Reason.UNKNOWN_POD),
}


@pytest.mark.parametrize(("brought", "answer"), LATE.values(), ids=LATE)
async def test_a_pod_that_the_watch_brings_late_is_waited_for(brought: Object | None, answer: Reason | None) -> None:
    """kube-scheduler may be ahead of our watch; the Binding is posted as soon as the pod is known."""
    async with running(N1, N2) as world:
        world.service.verbs.filter(args_of(pod_json("late", uid="uid-late"), nodes=["n1", "n2"]))
        call = world.bind("late", "n2", uid="uid-late")
        await world.settle(AT_BIND_S / 2.0)
        assert (call.waits, world.api.calls["bind"]) == (True, 0)
        if brought is not None:
            world.api.add(brought)
        await world.settle(0.05 if brought is not None else AT_BIND_S)
        assert (call.answer, world.api.calls["bind"]) == (answer, int(answer is None))
        assert answer is not None or world.node_of("late") == "n2"


async def test_many_unknown_pods_wait_for_the_watch_in_bounded_number() -> None:
    async with running(N1) as world:
        for number in range(100):
            world.service.verbs.filter(args_of(pod_json(f"p{number}", uid=f"uid-{number}"), nodes=["n1"]))
        calls = [world.bind(f"p{number}", "n1", uid=f"uid-{number}") for number in range(100)]
        await world.settle(0.01)
        assert sum(call.waits for call in calls) == 64
        assert {call.answer for call in calls if not call.waits} == {Reason.UNKNOWN_POD}


async def test_after_a_restart_a_bind_is_refused_until_it_is_asked_again() -> None:
    """What a process before us offered is not known: kube-scheduler hears a constant reason and asks /filter again."""
    async with running(N1, N2) as world:
        world.pod("plain")
        [member] = await world.planned_gang("g", 1)
        world.filter("plain")
        node, never = world.offered(member), Reason.NEVER_OFFERED
    async with running(N1, N2, api=world.api) as after:
        assert [await after.bind_answer("plain", "n1"), await after.bind_answer(member, node)] == [never, never]
        after.filter("plain")
        node = after.offered(member)
        assert [await after.bind_answer("plain", "n1"), await after.bind_answer(member, node)] == [None, None]


async def test_plain_binds_under_way_are_bounded() -> None:
    """Half of `max_held_binds` for one namespace: each is a connection, and kube-scheduler has no bound of its own."""
    names = [f"p{number}" for number in range(5)]
    async with running(node_json("n1", cpu="16"), max_held_binds=6) as world:
        for name in names:
            await world.planned_pod(name)
        world.api.hold("bind")
        for name in names:
            world.filter(name)
        calls = [world.bind(name, "n1") for name in names]
        await world.settle(0.1)
        assert sum(call.waits for call in calls) == 3
        assert {call.answer for call in calls if not call.waits} == {Reason.TOO_MANY_HELD}
