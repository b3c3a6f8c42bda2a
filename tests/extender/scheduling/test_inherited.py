"""Pods that kube-scheduler has parked for the "no" of a process that is gone: whoever acts next wakes them, once."""

from collections import Counter

import pytest

from scoring.model.reasons import Reason
from tests.extender.leadership.test_lease_loop import cut_off, two, until_leads
from tests.extender.scheduling.world import World, key, node_json, unfinished
from tests.fakes.cluster_api import FakeClusterApi

pytestmark = pytest.mark.looptime

SOON_S = 2.5  # a second, and one more until somebody looks


def woken(world: World) -> Counter[str]:
    return Counter(str(uid) for uid, _ in world.api.patches)


def uids(world: World, *pods: str) -> Counter[str]:
    return Counter(str(world.uid(pod)) for pod in pods)


async def test_a_new_leader_wakes_what_the_old_one_refused() -> None:
    async with two() as (_, a, b):
        a.world.occupy("n1")
        a.world.occupy("n2", name="another")
        names = await a.world.planned_gang("g", 2)
        assert [a.world.refusal(name) for name in names] == [Reason.NO_ROOM] * 2
        came = a.world.gang("came", 1, cpu="2")
        cut_off(a)
        await a.world.settle(2.4)
        a.world.delete("stranger")  # the events of this reach kube-scheduler while nobody can answer it
        await until_leads(b)
        await b.world.settle(0.2)
        b.world.offered(*came)
        assert woken(b.world) == Counter()
        await b.world.settle(SOON_S)
        assert woken(b.world) == uids(b.world, *names)
        await b.world.settle(6.0)
        assert woken(b.world) == uids(b.world, *names)


async def test_a_process_that_starts_again_wakes_what_it_refused_before() -> None:
    api = FakeClusterApi()
    async with unfinished(node_json("n1"), api=api) as world:
        world.occupy("n1")
        names = await world.planned_gang("g", 2)
        assert [world.refusal(name) for name in names] == [Reason.NO_ROOM] * 2
    api.remove("stranger")
    async with unfinished(api=api) as world:
        world.gang("later", 2)
        await world.settle(SOON_S)
        assert {key("g"), key("later")} == set(world.plan.admitted)
        assert woken(world) == uids(world, *names)


async def test_who_has_no_place_and_who_waits_at_a_gate_is_not_woken() -> None:
    """The first would only be refused again, the second is not in kube-scheduler's queue."""
    api = FakeClusterApi()
    async with unfinished(node_json("n1"), api=api) as world:
        world.gang("large", 2, cpu="3")
        await world.planned_gang("gated", 2, cpu="1", schedulingGates=[{"name": "somebody/else"}])
    async with unfinished(api=api) as world:
        await world.settle(9.0)
        assert woken(world) == Counter()
