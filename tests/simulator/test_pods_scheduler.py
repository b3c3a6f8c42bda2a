"""One cycle of the simulated kube-scheduler: what it asks, what it assumes, and what it does when things go wrong."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from extender.convert.wire import BindArgs, Failed, FilterAnswer, FilterArgs, Passed, Refused
from extender.kube.calls import NODES, PODS
from lab.simulator.apiserver.api import StoreApi
from lab.simulator.pods.cluster import simulated_api
from lab.simulator.pods.kube_scheduler.extender import Extender
from lab.simulator.pods.kube_scheduler.scheduler import KubeScheduler, SchedulerProfile
from lab.simulator.pods.objects import node_object
from lab.simulator.pods.record import Record
from lab.simulator.pods.virtual_time import Latencies
from scoring.model import Node
from scoring.model.reasons import Reason
from tests.builders import node
from tests.fakes.verbs import FakeVerbs, everything
from tests.simulator.pods_world import nodes, pod

pytestmark = pytest.mark.looptime
OURS = SchedulerProfile("netgang", percentage=100)
ASKING = SchedulerProfile("netgang", extender=True, percentage=100, http_timeout_s=5.0)


class Desk:
    """A scheduler, an API server, nodes; the extender, if there is one, answers as the test says."""

    def __init__(
        self, api: StoreApi, on: Sequence[Node], profile: SchedulerProfile, verbs: FakeVerbs, seed: int
    ) -> None:
        self.api = api
        self.record = Record()
        rng = random.Random(seed)
        extender = None
        if profile.extender:
            extender = Extender(verbs, Latencies(), rng, self.record, http_timeout_s=profile.http_timeout_s)
        for one in on:
            api.store.create(NODES, node_object(one))
        self.scheduler = KubeScheduler(api, profile, Latencies(), rng, self.record, extender=extender)
        self.scheduler.start()

    def create(self, *names: str, **spec: Any) -> None:
        for name in names:
            self.api.store.create(PODS, pod(name, **spec))

    def where(self) -> dict[str, str | None]:
        return {one.new["metadata"]["name"]: one.new["spec"].get("nodeName") for one in self.api.store.all(PODS)}

    def said(self, name: str) -> tuple[str, str]:
        [one] = self.api.store.get(PODS, "default", name)["status"]["conditions"]
        return one["reason"], one["message"]


@asynccontextmanager
async def desk_with(
    on: Sequence[Node], *, profile: SchedulerProfile = OURS, verbs: FakeVerbs | None = None, seed: int = 0
) -> AsyncIterator[Desk]:
    desk = Desk(simulated_api(Latencies(), random.Random(0)), on, profile, verbs or FakeVerbs(), seed)
    running = asyncio.create_task(desk.scheduler.run())
    await asyncio.sleep(0.1)
    yield desk
    running.cancel()


async def placed(on: Sequence[Node], *, seed: int = 0) -> tuple[str | None, ...]:
    async with desk_with(on, seed=seed) as desk:
        desk.create("a", "b", "c")
        await asyncio.sleep(1.0)
        return tuple(desk.where().values())


async def test_assumed_pods_take_room() -> None:
    """Three pods on three nodes for one each, though no Binding was confirmed when the next one was tried."""
    assert set(await placed(nodes(3))) == {"n1", "n2", "n3"}


async def test_equal_nodes_are_chosen_by_the_seed() -> None:
    many = nodes(20, cpu="8")
    choices = [await placed(many, seed=seed) for seed in (1, 1, 2, 3, 4)]
    assert choices[0] == choices[1]
    assert len(set(choices)) > 1


async def test_the_extenders_scores_decide_by_their_weight() -> None:
    """Ten points with weight 12 are worth more than any in-tree score; one node that is left is not scored at all."""

    def prefer_n2(args: FilterArgs) -> Sequence[int]:
        return [10 if name == "n2" else 0 for name in args.node_names]

    verbs = FakeVerbs(on_filter=everything, on_prioritize=prefer_n2, on_bind=never_bound)
    small = [node("n1", cpu="64"), node("n2", cpu="2")]
    await one_placed(small, verbs)
    assert [str(one.node) for one in verbs.bound] == ["n2"]
    alone = FakeVerbs(on_filter=everything, on_bind=never_bound)
    await one_placed(small[:1], alone)
    assert (len(alone.filtered), alone.prioritized) == (1, [])


async def never_bound(args: BindArgs, gone: asyncio.Future[None]) -> Reason | str | None:
    await gone
    return None


async def one_placed(on: Sequence[Node], verbs: FakeVerbs) -> tuple[str, str]:
    async with desk_with(on, profile=ASKING, verbs=verbs) as desk:
        desk.create("p")
        await asyncio.sleep(2.0)
        return desk.said("p") if not verbs.bound else ("", "")


REFUSED, FAILED = Refused(Reason.NO_ROOM), Failed(Reason.NO_ROOM)


def answering(answer: FilterAnswer) -> FakeVerbs:
    return FakeVerbs(on_filter=lambda _: answer)


async def test_what_a_refusal_and_an_error_say() -> None:
    """The condition counts nodes by reason; in-tree filters that refused some stand beside the extender's words."""
    some = [*nodes(2), node("n3", cpu="500m")]
    refused = await one_placed(some, answering(REFUSED))
    assert refused == ("Unschedulable", f"0/3 nodes are available: 2 {Reason.NO_ROOM}.")
    assert await one_placed(some, answering(FAILED)) == ("SchedulerError", str(Reason.NO_ROOM))
    assert (await one_placed(some[2:], FakeVerbs()))[1] == "0/1 nodes are available: 1 Insufficient cpu."


ASKS = {"a refusal": (REFUSED, 2), "an error": (FAILED, 3)}


@pytest.mark.parametrize(("answer", "expected"), ASKS.values(), ids=ASKS)
async def test_how_often_it_asks(answer: FilterAnswer, expected: int) -> None:
    """In ten quiet seconds: twice for a refusal (its own condition wakes it), at 0, 2 and 5 s for an error."""
    verbs = answering(answer)
    async with desk_with(nodes(1), profile=ASKING, verbs=verbs) as desk:
        desk.create("p")
        await asyncio.sleep(9.9)
    assert len(verbs.filtered) == expected


async def test_a_held_bind_keeps_its_room_until_it_fails_or_its_pod_is_deleted() -> None:
    """Given up after `httpTimeout` the room is the next pod's; a deleted pod's is free at once."""
    verbs = FakeVerbs(on_filter=everything, on_bind=never_bound)
    async with desk_with(nodes(1), profile=ASKING, verbs=verbs) as desk:

        def at_bind() -> list[str]:
            return [str(one.name) for one in verbs.bound]

        desk.create("first")
        await asyncio.sleep(0.5)
        desk.create("second", priority=9)
        await asyncio.sleep(4.0)
        assert at_bind() == ["first"]
        await asyncio.sleep(3.0)
        assert at_bind() == ["first", "second"]
        desk.api.store.delete_pod("default", "first")
        desk.create("third", priority=10)
        await asyncio.sleep(0.5)
        desk.api.store.delete_pod("default", "second")
        await asyncio.sleep(1.5)
        assert at_bind() == ["first", "second", "third"]


async def test_pods_of_others_are_load() -> None:
    """Pods that another client bound take room until they end; unbound ones of another scheduler are left alone."""
    async with desk_with(nodes(1)) as desk:
        desk.create("other", schedulerName="another", nodeName="n1")
        desk.create("foreign", schedulerName="another")
        await asyncio.sleep(0.1)
        desk.create("p")
        await asyncio.sleep(2.0)
        before = desk.where()["p"]
        other = desk.api.store.get(PODS, "default", "other")
        desk.api.store.replace(PODS, {**other, "status": {"phase": "Succeeded"}})
        await asyncio.sleep(2.0)
        assert [before, desk.where()["p"], desk.where()["other"], desk.where()["foreign"]] == [None, "n1", "n1", None]


async def test_nodes_that_come_change_and_go() -> None:
    """A node that is ready and large enough wakes whom it can hold; a node that is gone holds nobody."""
    async with desk_with([], profile=OURS) as desk:
        store, found = desk.api.store, []
        desk.create("p")
        await asyncio.sleep(0.5)
        for change in (node("n1", cpu="500m"), node("n1", cpu="2", ready=False), node("n1", cpu="2")):
            made = node_object(change)
            old = store.find(NODES, "", "n1")
            if old is None:
                store.create(NODES, made)
            else:
                store.replace(NODES, {**made, "metadata": {**made["metadata"], "uid": old["metadata"]["uid"]}})
            await asyncio.sleep(3.0)
            found.append(desk.where()["p"])
        store.remove(NODES, "", "n1")
        await asyncio.sleep(0.1)
        desk.create("q")
        await asyncio.sleep(1.0)
        assert [*found, desk.where()["q"]] == [None, None, "n1", None]


async def test_names_are_those_that_passed() -> None:
    """The extender is asked about the nodes that in-tree filters left, in the order of the node tree."""
    verbs = FakeVerbs(on_filter=lambda args: Passed(args.node_names[:1]), on_bind=never_bound)
    some = [*nodes(2, zones="ab"), node("full", cpu="100m")]
    await one_placed(some, verbs)
    assert [list(map(str, one.node_names)) for one in verbs.filtered] == [["n1", "n2"]]


GANGING = SchedulerProfile("netgang", percentage=100, gangs=True, permit_s=5.0)


def labelled(name: str, minimum: int) -> dict[str, Any]:
    prefix = "pod-group.scheduling.sigs.k8s.io"
    made = pod(name)
    made["metadata"]["labels"] = {f"{prefix}/name": "g", f"{prefix}/min-available": str(minimum)}
    return made


async def test_a_gang_that_waits_at_permit_in_vain_gives_its_room_back() -> None:
    """Two of three find nodes and hold them for 5 s; then both are refused, and an urgent pod goes first."""
    async with desk_with(nodes(2), profile=GANGING) as desk:
        for index in range(3):
            desk.api.store.create(PODS, labelled(f"g-{index}", 3))
        await asyncio.sleep(0.5)
        desk.create("plain", priority=9)
        await asyncio.sleep(3.5)
        held = desk.where()["plain"]
        await asyncio.sleep(3.0)
        where = desk.where()
    assert held is None
    assert where.pop("plain") in ("n1", "n2")
    assert set(where.values()) == {None}


async def test_a_gang_with_too_few_pods_is_not_tried() -> None:
    """It holds nothing, however much room there is, until its minimum exists."""
    async with desk_with(nodes(2), profile=GANGING) as desk:
        desk.api.store.create(PODS, labelled("g-0", 2))
        await asyncio.sleep(1.0)
        before = (desk.where()["g-0"], desk.said("g-0")[0])
        desk.api.store.create(PODS, labelled("g-1", 2))
        await asyncio.sleep(1.0)
        after = set(desk.where().values())
    assert before == (None, "Unschedulable")
    assert after == {"n1", "n2"}
