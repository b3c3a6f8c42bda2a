"""Two replicas over one cluster, in virtual time: who acts, what the other says, and how the role changes hands.

The fence: what a replica may send depends on the lease, and the fence knows every call of the port.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import pytest

from extender.convert.wire import Failed
from extender.errors import ApiUnavailableError, ConflictError
from extender.leadership.election import Election, Lease, LeaseSpec, LeaseTimes
from extender.leadership.lease_loop import READS, Candidacy, FencedApi, Leadership
from extender.ports import Binding, ClusterApi
from scoring import NodeName, PodUid
from scoring.model.reasons import Reason
from tests.extender.scheduling.world import GATED, World, answers, key, node_json, pod_json, unfinished
from tests.fakes.cluster_api import FakeClusterApi
from tests.fakes.leases import FakeLeases, StoredLease

pytestmark = pytest.mark.looptime

N1, N2 = node_json("n1"), node_json("n2")
TAKE_OVER_S = 4.0


class Replica(msgspec.Struct, frozen=True):
    world: World
    leases: FakeLeases

    @property
    def leadership(self) -> Leadership:
        found = self.world.service.leadership
        assert found is not None
        return found

    @property
    def leads(self) -> bool:
        return self.leadership.leading()


class Replicas(AsyncExitStack):
    """Processes that share a cluster and a Lease; `a` is started first, and the last one ends first."""

    def __init__(self) -> None:
        super().__init__()
        self.api = FakeClusterApi()
        self.stored = StoredLease(labels={"a": None, "b": None, "c": None})

    async def start(self, name: str, **settings: Any) -> Replica:
        leases = FakeLeases(self.stored)
        stands = Candidacy(Election(f"{name}_1", LeaseTimes(), rng=random.Random(name)), leases, name)
        world = await self.enter_async_context(unfinished(N1, N2, api=self.api, stands=stands, **settings))
        return Replica(world, leases)


@asynccontextmanager
async def two() -> AsyncIterator[tuple[Replicas, Replica, Replica]]:
    async with Replicas() as group:
        a, b = await group.start("a"), await group.start("b")
        assert (a.leads, b.leads) == (True, False)
        yield group, a, b


async def until_leads(replica: Replica) -> None:
    while not replica.leads:  # noqa: ASYNC110 - a look at a clock is no event
        await asyncio.sleep(0.01)


def cut_off(replica: Replica) -> None:
    replica.leases.cut = True


async def test_a_standby_is_ready_and_says_no_and_nothing_at_its_end() -> None:
    """Filter and bind are errors, prioritize is answered, and /readyz says who leads (docs/safety.md S16)."""
    async with two() as (group, a, b):
        await b.world.planned_pod("p")
        assert b.world.filter("p") == Failed(Reason.NOT_LEADER)
        call = b.world.bind("p", "n1")
        await b.world.settle(0.01)
        assert call.answer is Reason.NOT_LEADER
        assert set(b.world.scores("p")) == {"n1", "n2"}
        found = b.world.service.views.readiness()
        assert (found.ready, found.reasons) == (True, ())
        assert found.detail.leadership
        assert (found.detail.leadership.leading, found.detail.leadership.holder) == (False, "a_1")
        assert group.stored.leaders() == ["a"]
        await b.world.service.shut_down()
        assert (group.stored.holder, a.leads) == ("a_1", True)


async def test_a_standby_s_callers_are_turned_away() -> None:
    """Again and again, because they may come at any time; the leader's are not (docs/safety.md S16)."""
    async with two() as (_, a, b):
        turned_away = Counter[str]()
        for name, one in (("a", a), ("b", b)):
            one.leadership.duties.turn_away = partial(turned_away.update, [name])
        await b.world.settle(5.0)
        assert turned_away["a"] == 0
        assert 8 <= turned_away["b"] <= 10, "not with each look: who has just connected must be able to ask"
        cut_off(a)
        await a.world.settle(TAKE_OVER_S)
        assert turned_away["a"] >= 2


async def test_a_standby_follows_and_does_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="netgang.decisions")
    async with two() as (group, a, b):
        await a.world.planned_gang("of-both", 2)
        assert key("of-both") in b.world.plan.admitted
        assert [one.message for one in caplog.records].count("admit") == 1
        await a.world.service.shut_down()  # nobody leads for a moment
        writes = ("patch", "admit", "bind", "evict", "create_event")
        before = [group.api.calls[verb] for verb in writes]
        b.leases.cut = True
        b.world.gang("g", 2, **GATED)
        await b.world.settle(20.0)
        assert key("g") in b.world.plan.admitted
        assert [group.api.calls[verb] for verb in writes] == before
        assert b.world.committed == {}


async def test_what_is_wrong_with_the_lease_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """A right that is missing would otherwise look like a standby without end."""
    async with Replicas() as group:
        group.stored.forbidden = True
        a = await group.start("a")
        await a.world.settle(20.0)
        said = [one.getMessage() for one in caplog.records if one.name == "netgang.leadership"]
        assert said == ["the lease cannot be read or written: API server answered 403: leases is forbidden"]
        leadership = a.world.service.views.readiness().detail.leadership
        assert leadership
        assert "403" in leadership.last_error
        group.stored.forbidden = False
        await a.world.settle(2.0)
        assert a.leads


@pytest.mark.parametrize("vanished", [[], ["0"]])  # pods, before all others by name
async def test_a_leader_that_is_cut_off_is_followed_within_four_seconds(vanished: list[str]) -> None:
    async with two() as (group, a, b):
        group.stored.ghosts += vanished
        cut_off(a)
        began_s, stood_down_s = a.world.now_s, 0.0
        while not b.leads:
            await asyncio.sleep(0.01)
            assert not (a.leads and b.leads)
            stood_down_s = stood_down_s or (0.0 if a.leads else a.world.now_s)
        assert stood_down_s - began_s <= 2.4
        assert b.world.now_s - began_s <= TAKE_OVER_S
        await b.world.settle()
        assert group.stored.leaders() == ["b"], "the new one takes the label off the old one"
        assert (a.world.counted("leader"), b.world.counted("leader"), group.stored.transitions) == (0.0, 1.0, 1)


async def test_a_binding_under_way_is_over_before_another_leads() -> None:
    async with two() as (group, a, b):
        names = await a.world.planned_gang("g", 2)
        group.api.hold("bind")
        calls = a.world.bind_offered(*names)
        await a.world.settle(0.1)
        cut_off(a)
        while not b.leads:
            await asyncio.sleep(0.01)
            over = not [call for call in calls if call.waits]
        assert over
        assert (answers(calls), a.world.bound()) == ([Reason.COMMIT_FAILED] * 2, {})


async def test_promises_of_the_old_leader_are_kept_and_gates_open_at_once_after_a_take_over() -> None:
    """Pods that were let through the gate get the places that their notes name (docs/safety.md S4)."""
    async with two() as (group, a, b):
        names = a.world.gang("g", 2, **GATED)
        await a.world.settle(2.0)
        promised = a.world.committed[key("g")]
        assert len(promised) == 2
        cut_off(a)
        await a.world.settle(2.4)
        assert (a.leads, b.leads) == (False, False)
        b.world.gang("late", 2, **GATED)
        await until_leads(b)
        await b.world.settle(0.3)
        assert {"late-0", "late-1"} <= set(group.api.admitted)
        assert b.world.committed[key("g")] == promised
        assert answers(await b.world.bind_and_settle(*names)) == [None, None]


async def test_a_new_leader_wakes_what_the_old_one_refused() -> None:
    """Pods that kube-scheduler has parked for the "no" of a process that is gone are woken, once."""
    async with two() as (_, a, b):
        a.world.occupy("n1")
        a.world.occupy("n2", name="another")
        names = await a.world.planned_gang("g", 2)
        assert [a.world.refusal(name) for name in names] == [Reason.NO_ROOM] * 2
        a.world.says("netgang: no room", *names)
        came = a.world.gang("came", 1, cpu="2")
        a.world.gang("queued", 1, cpu="0")  # kube-scheduler has not come to it yet, and it is left alone
        cut_off(a)
        await a.world.settle(2.4)
        a.world.delete("stranger")  # the events of this reach kube-scheduler while nobody can answer it
        await until_leads(b)
        await b.world.settle(0.2)
        b.world.offered(*came)
        assert b.world.api.patches == []
        await b.world.settle(2.5)  # a second, and one more until somebody looks
        assert sorted(uid for uid, _ in b.world.api.patches) == sorted(map(b.world.uid, names))
        await b.world.settle(6.0)
        assert sorted(uid for uid, _ in b.world.api.patches) == sorted(map(b.world.uid, names))


async def test_nothing_is_removed_soon_after_a_take_over() -> None:
    """A gang in part for too long is evicted by the new leader, but not within its first 30 s (docs/safety.md S11)."""
    async with Replicas() as group:
        a, b = [await group.start(name, partial_timeout_s=5.0) for name in ("a", "b")]
        await b.world.settle(40.0)  # the time since its start does not count
        cut_off(a)
        b.world.pod("g-0", gang="g", size=2, nodeName="n1")
        b.world.pod("g-1", gang="g", size=2, cpu="100")
        await until_leads(b)
        led_s = b.world.now_s
        while not group.api.evictions:
            assert b.world.now_s - led_s < 60.0
            await asyncio.sleep(0.1)
        assert b.world.now_s - led_s >= 30.0


async def test_who_lost_the_lease_answers_what_it_holds_and_may_lead_again() -> None:
    """With books as after a restart: what it held and offered in its first term counts no more."""
    async with two() as (_, a, b):
        names = await a.world.planned_gang("g", 2)
        offer, [first] = a.world.offered(names[1]), a.world.bind_offered(names[0])
        cut_off(a)
        await a.world.settle(2.4)
        assert (first.answer, b.leads) == (Reason.NOT_LEADER, False)
        late = a.world.bind(names[1], offer)
        await a.world.settle(0.01)
        assert late.answer is Reason.NOT_LEADER
        assert (a.world.filter(names[0]), a.world.committed) == (Failed(Reason.NOT_LEADER), {})
        await a.world.settle(TAKE_OVER_S)
        a.leases.cut = False
        await a.world.settle(2.0)
        assert (a.leads, b.leads) == (False, True)
        cut_off(b)
        await b.world.settle(TAKE_OVER_S)
        assert (a.leads, b.leads) == (True, False)
        assert a.world.state("g") is None
        assert answers(await a.world.bind_and_settle(*names)) == [None, None]


async def test_who_ends_in_order_is_followed_at_once() -> None:
    async with two() as (group, a, b):
        waiting, _ = a.world.gang("held", 2)
        posting = await a.world.planned_gang("posting", 2)
        [held] = a.world.bind_offered(waiting)
        group.api.latency_s["bind"] = 1.0
        under_way = a.world.bind_offered(*posting)
        await a.world.settle(0.2)
        began_s = a.world.now_s
        await a.world.service.shut_down()
        assert a.world.now_s - began_s == pytest.approx(0.8, abs=0.05)
        assert (answers(under_way), held.answer, group.stored.holder) == ([None, None], Reason.NOT_LEADER, "")
        assert group.stored.leaders() == []
        await until_leads(b)
        assert a.world.now_s - began_s <= 2.0
        assert group.stored.transitions == 1
        await b.world.settle(10.0)
        assert not a.leads


async def test_an_end_without_the_api_server_is_no_longer_than_it_must_be() -> None:
    async with two() as (_, a, b):
        cut_off(a)
        await a.world.settle(0.1)
        async with asyncio.timeout(4.0):
            await a.world.service.shut_down()
        await until_leads(b)


async def test_only_the_leader_has_the_label() -> None:
    async with Replicas() as group:
        a = await group.start("a")
        group.stored.labels["c"] = "leader"  # the container of a killed leader starts again in the same pod
        await group.start("c")
        assert group.stored.leaders() == ["a"]
        assert a.leads
        # Somebody else is in the Lease, one that labels no pod: the old leader sees it at its next renewal
        group.stored.lease = Lease(LeaseSpec("somebody", 4, "then", "then", 5), "another version")
        await a.world.settle(1.0)
        assert not a.leads
        assert group.stored.leaders() == []


class Bench:
    """A fence around a cluster with one pod; `room_s` is what the lease has left."""

    def __init__(self, room_s: float) -> None:
        self.room_s = room_s
        self.api = FakeClusterApi(pod_json("p", uid="u"))
        self.fence = FencedApi(self.api, lambda: self.room_s)

    async def bind(self) -> None:
        await self.fence.bind(Binding("default", "p", PodUid("u"), NodeName("n1")))


@pytest.mark.parametrize("name", sorted(name for name in vars(ClusterApi) if name[0] != "_" and name not in READS))
async def test_every_call_that_writes_needs_the_lease(name: str) -> None:
    bench = Bench(room_s=0.0)
    with pytest.raises(ApiUnavailableError, match="not sent, this replica does not hold the lease"):
        await getattr(bench.fence, name)()
    assert bench.api.calls.total() == 0


async def test_reading_is_free_and_what_only_reads_is_named_by_hand() -> None:
    assert sorted(READS) == ["get_object", "get_pod", "labelled_owners", "list_page", "watch"]
    bench = Bench(room_s=0.0)
    assert await bench.fence.get_pod("default", "p")
    assert len((await bench.fence.list_page("/api/v1/pods", limit=10)).items) == 1
    bench.api.add(pod_json("q"))
    stream = bench.fence.watch("/api/v1/pods", resource_version="1", timeout_s=5)
    assert (await anext(aiter(stream))).type == "ADDED"


async def test_a_write_with_room_goes_through_and_ends_before_the_lease() -> None:
    """A shorter limit of the caller's ends the call as it would without the fence, and so does a time-out inside."""
    bench = Bench(room_s=1.5)
    await bench.bind()
    assert len(bench.api.bindings) == 1
    bench.api.fail_next("bind", ConflictError(409, "no"))
    with pytest.raises(ConflictError):
        await bench.bind()
    bench.api.hold("bind")
    began_s = asyncio.get_running_loop().time()
    with pytest.raises(ApiUnavailableError, match="outcome unknown"):
        await bench.bind()
    assert asyncio.get_running_loop().time() - began_s == pytest.approx(1.5)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await bench.bind()
    bench.api.hold("bind").set()
    bench.api.fail_next("bind", TimeoutError("inside"))
    with pytest.raises(TimeoutError, match="inside"):
        await bench.bind()
