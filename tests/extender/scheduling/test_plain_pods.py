"""Plain pods beside gangs: refused what is reserved, at /bind too, and woken afterwards (docs/safety.md S13)."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from extender.convert import NUDGE_ANNOTATION
from extender.convert.wire import Passed, Refused
from extender.scheduling import plain_pods
from scoring import NodeName
from scoring.model.reasons import Reason
from scoring.plan import result
from scoring.queue import states
from scoring.verbs.plain_pods import SYSTEM_PRIORITY
from tests.extender.scheduling.kube_scheduler import KubeScheduler
from tests.extender.scheduling.world import GATED, World, group_json, node_json, pinned_to, running

pytestmark = pytest.mark.looptime

OURS = "default-scheduler"


async def promise(world: World) -> tuple[str, ...]:
    """A gang of two that is admitted, with 3 CPUs each, on the two nodes of zone a; nobody of it is bound yet."""
    names = world.gang("g", 2, cpu="3", scheduler=OURS, annotations={"netgang.io/zones": "a"}, **GATED)
    await world.settle(1.0)
    assert set(world.committed["default/g"].values()) == {"a1", "a2"}
    return names


@asynccontextmanager
async def promised(*more: str) -> AsyncIterator[tuple[World, tuple[str, ...]]]:
    async with running(*nodes("a1", "a2", *more), scheduler_names=[OURS]) as world:
        names = await promise(world)
        yield world, names
        await world.starts(*(names if "default/g" in world.plan.admitted else ()))


def nodes(*names: str) -> list[Any]:
    return [node_json(name, zone=name[0]) for name in names]


def passes(world: World, pod: str, **how: Any) -> list[str]:
    return world.passed(pod, unless=Reason.RESERVED, **how)


PLAIN: dict[str, tuple[dict[str, Any], list[str]]] = {  # case: (the pod, where it may go beside 3 of 4 promised CPUs)
    "what is left": ({"cpu": "1"}, ["a1", "a2"]),
    "more than is left": ({"cpu": "2"}, []),
    "a system pod": ({"cpu": "2", "priority": SYSTEM_PRIORITY}, ["a1", "a2"]),
    "almost a system pod": ({"cpu": "2", "priority": SYSTEM_PRIORITY - 1}, []),
    "of another scheduler": ({"cpu": "2", "scheduler": "other"}, ["a1", "a2"]),
    "of a native group": ({"cpu": "2", "schedulingGroup": {"podGroupName": "n"}}, []),
}


@pytest.mark.parametrize(("fields", "want"), PLAIN.values(), ids=PLAIN)
async def test_who_may_have_promised_room(fields: dict[str, Any], want: list[str]) -> None:
    async with promised() as (world, _):
        world.pod("p", **{"scheduler": OURS, **fields})
        await world.settle(0.1)
        assert (passes(world, "p"), passes(world, "p", debug=True)) == (want, want)


async def test_the_rest_of_the_cluster_is_open() -> None:
    async with promised("b1") as (world, _):
        world.pod("p", cpu="2", scheduler=OURS)
        await world.settle(0.1)
        assert world.filter("p") == Passed([NodeName("b1")], others=Reason.RESERVED)
        refused, bound = world.bind("p", "a1"), world.bind("p", "b1")
        await world.settle(0.1)
        assert (refused.answer, bound.answer) == (Reason.RESERVED, None)


async def test_two_plain_pods_in_a_row() -> None:
    """Each leaves the promise alone, both would not: the second one's Binding is not posted."""
    async with promised() as (world, _):
        for one in "pq":
            world.pod(one, cpu="600m", scheduler=OURS)
        await world.settle(0.1)
        assert passes(world, "p") == passes(world, "q") == ["a1", "a2"]
        first, second = world.bind("p", "a1"), world.bind("q", "a1")
        await world.settle(0.1)
        assert (first.answer, second.answer, passes(world, "q")) == (None, Reason.RESERVED, ["a2"])


async def test_a_parked_plain_pod_is_woken_when_the_promise_ends() -> None:
    """The gang goes, and with it what kept the pod: kube-scheduler cannot know, so the pod is nudged, once."""
    async with promised() as (world, names):
        world.pod("p", cpu="2", scheduler=OURS)
        await world.settle(0.1)
        assert passes(world, "p") == []
        await world.settle(2.0)
        assert nudged(world, "p") == ""
        world.delete(*names)
        await world.settle(1.0)
        first = nudged(world, "p")
        assert first != ""
        assert passes(world, "p") == ["a1", "a2"]
        await world.settle(5.0)
        assert nudged(world, "p") == first


async def test_a_daemon_sets_pod_has_its_node() -> None:
    """Its room is kept free there already (docs/safety.md S12), so it takes nothing that is promised to a gang."""
    async with running(*[node_json(name, zone="a", cpu="5") for name in ("a1", "a2")], scheduler_names=[OURS]) as world:
        world.pod("agent", cpu="2", scheduler=OURS, affinity=pinned_to("a1"))
        agent = world.api.pod("agent")
        made = {"name": "agent", "uid": "u", "creationTimestamp": "2023-11-14T22:13:20Z"}  # when the clock begins
        world.api.add({"kind": "DaemonSet", "metadata": made, "spec": {"template": {"spec": agent["spec"]}}})
        await world.settle(2.0)
        names = await promise(world)
        assert passes(world, "agent", nodes=["a1"]) == [], "whoever can pin a pod would have what is held"
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": True}
        agent["metadata"]["ownerReferences"] = [owner]
        world.api.add(agent)
        await world.settle(0.1)
        assert "a1" in passes(world, "agent", nodes=["a1"])
        world.delete("agent", *names)
        await world.settle()


def nudged(world: World, pod: str) -> str:
    return str(world.api.pod(pod)["metadata"].get("annotations", {}).get(NUDGE_ANNOTATION, ""))


@asynccontextmanager
async def broken_gang() -> AsyncIterator[tuple[World, str]]:
    """A gang of two on two nodes for a pod each; n2 is cordoned, and the successor of its member waits, not `p`."""
    async with running(*(node_json(name, cpu="1") for name in ("n1", "n2"))) as world:
        names = await world.planned_gang("g", 2)
        await world.starts(*names)
        [lost] = [name for name in names if world.node_of(name) == "n2"]
        world.node("n2", cpu="1", unschedulable=True)
        world.delete(lost)
        world.pod("p")
        world.gang("one", 1)
        await world.planned_pod(lost, gang="g", size=2)
        assert world.waits_for("g") is Reason.NO_ROOM
        yield world, lost


@pytest.mark.parametrize("behind", [False, True], ids=["seen", "before our watch shows it"])
async def test_what_comes_free_goes_to_the_broken_gang(behind: bool) -> None:
    """kube-scheduler asks about older pods first, at the event that frees the room; no plan knows of it yet."""
    async with broken_gang() as (world, lost):
        world.node("n2", cpu="1")
        await world.settle(0.0 if behind else 0.01)
        if not behind:
            assert await world.ask("p", nodes=["n2"]) == Refused(Reason.RESERVED)
        assert isinstance(await world.ask("one-0", nodes=["n2"]), Refused)
        world.service.verbs.offers.note(world.uid("p"), None, b'["n2"]', now_s=world.now_s)  # a moment before
        late = world.bind("p", "n2")
        await world.settle(0.6)
        assert late.answer is Reason.RESERVED
        world.node("n3", cpu="1")
        await world.settle()
        assert "n3" in passes(world, "p"), "what the plan gives the gang is all that is kept for it"
        assert world.offered(lost) == "n2"
        await world.starts(lost)


async def test_a_group_of_kubernetes_own_gets_one_answer_beside_a_broken_gang() -> None:
    """At /filter and at /bind: were one member refused at bind, the others would run without it."""
    async with broken_gang() as (world, _):
        world.pod("n-0", **NATIVE)
        await world.settle()
        world.node("n2", cpu="1")
        world.service.verbs.offers.note(world.uid("n-0"), None, b'["n2"]', now_s=world.now_s)
        call = world.bind("n-0", "n2")
        await world.settle(0.6)
        assert (call.answer, call.waits) == (None, False)


async def test_what_a_broken_gang_does_not_take_is_open_after_a_minute() -> None:
    """Other filters refuse the successor, say: nobody hears of that, so plain pods are not kept out for ever."""
    async with broken_gang() as (world, _):
        world.node("n2", cpu="1")
        await world.settle(1.0)
        assert passes(world, "p", nodes=["n2"]) == []
        await world.settle(plain_pods.COMPLETES_S - 2.0)
        assert nudged(world, "p") == ""
        await world.settle(4.0)
        assert nudged(world, "p") != ""
        assert passes(world, "p", nodes=["n2"]) == ["n2"]


async def test_a_hold_that_runs_out_lets_plain_pods_in(monkeypatch: pytest.MonkeyPatch) -> None:
    since_s = 1_700_000_000.0
    monkeypatch.setattr(states, "HOLD_S", 20.0)
    queue = {"starve_limit_s": since_s + 10.0, "reserve_after_s": 0.0}
    async with running(*nodes("a1", "a2"), scheduler_names=[OURS], queue=queue) as world:
        world.pod("busy", cpu="2", scheduler=OURS, nodeName="a1")
        gang = world.gang("big", 2, cpu="4", scheduler=OURS, **GATED)
        world.pod("p", cpu="1", scheduler=OURS)
        await world.until(9.5)
        assert not world.plan.reservations
        await world.until(11.5)
        assert list(world.plan.reservations) == ["default/big"], "noticed though nothing happens but time"
        assert passes(world, "p") == []
        version = world.plan.version
        await world.until(29.0)
        assert (world.plan.version, nudged(world, "p")) == (version, "")
        await world.until(32.0)
        assert nudged(world, "p") != ""
        assert passes(world, "p") == ["a1", "a2"]
        await world.until(52.0)
        assert passes(world, "p") == []
        world.delete(*gang)


async def test_a_promised_start_is_kept_once_it_is_near(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noticed though nothing happens but time; a pod whose deadline comes before may have the room."""
    monkeypatch.setattr(result, "PROMISE_HOLDS_S", 20.0)
    async with running(*nodes("a1"), scheduler_names=[OURS]) as world:
        length = {"netgang.io/expected-duration": "40"}
        world.gang("runs", 1, cpu="2", scheduler=OURS, annotations=length, nodeName="a1", phase="Running")
        world.gang("big", 1, cpu="4", scheduler=OURS, **GATED)
        for name, more in {"p": {}, "q": {"activeDeadlineSeconds": 5}}.items():
            world.pod(name, cpu="1", scheduler=OURS, **more)
        for at_s, open_to_p in ((15.0, ["a1"]), (25.0, [])):
            await world.until(at_s)
            assert (passes(world, "p"), passes(world, "q"), world.plan.reservations) == (open_to_p, ["a1"], {})
        world.delete("big-0")


def broken(world: World, promises: dict[str, str]) -> list[str]:
    now = {uid: node for places in world.committed.values() for uid, node in places.items()}
    waiting = {str(pod.uid) for pod in world.service.cache.pods if pod.node is None and not pod.deleting}
    found = [uid for uid, node in promises.items() if uid in waiting and now.get(uid) != node]
    promises.clear()
    promises.update(now)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
async def test_no_promised_place_is_lost(seed: int) -> None:
    rng = random.Random(seed)
    async with running(*(node_json(f"n{i}", cpu="4") for i in range(4))) as world:
        scheduler = KubeScheduler()
        plain: list[str] = []
        promises: dict[str, str] = {}
        gangs: list[tuple[str, ...]] = []
        for turn in range(60):
            if turn % 2 == 0:
                world.pod(f"p{turn:03}", cpu=rng.choice(("500m", "1", "2")))
                plain.append(f"p{turn:03}")
            if turn % 6 == 0:
                gates = GATED if rng.random() < 0.7 else {}
                scheduler.late.clear()
                gangs.append(world.gang(f"g{turn:03}", rng.randint(2, 4), cpu=rng.choice(("1", "2")), **gates))
                scheduler.late.add(gangs[-1][-1])  # its volume is being made, say, for as long as six plain pods take
            if rng.random() < 0.45 and plain:
                world.delete(plain.pop(rng.randrange(len(plain))))
            if gangs and all(world.node_of(name) for name in gangs[0]):
                world.delete(*gangs.pop(0))
            for _ in range(3):
                await world.settle(rng.choice((0.02, 0.1)))
                scheduler.step(world)
                assert broken(world, promises) == []
        world.delete(*plain)
        scheduler.late.clear()
        for _ in range(300):
            await world.settle(0.5)
            scheduler.step(world)
            for names in [one for one in gangs if all(world.node_of(name) for name in one)]:
                gangs.remove(names)
                world.delete(*names)
            if not gangs:
                break
        assert gangs == [], "gangs that never started"


GROUP: dict[str, Any] = {"schedulingGroup": {"podGroupName": "g"}}
NODES = [node_json(f"{zone}{i}", zone=zone, cpu="1") for zone in "ab" for i in range(3)]
BACKOFF_S = 2.0


@asynccontextmanager
async def grouped(**fields: Any) -> AsyncIterator[tuple[World, list[str]]]:
    async with running(*NODES) as world:
        names = [f"p{i}" for i in range(3)]
        for name in names:
            world.pod(name, **GROUP, **fields)
        await world.settle()
        yield world, names


def zones(world: World, pod: str, nodes: list[str] | None = None) -> set[str]:
    return {name[0] for name in world.passed(pod, unless=Reason.OTHER_ZONE, nodes=nodes)}


async def test_a_zone_that_fills_up_in_the_middle_is_not_mixed_with_another() -> None:
    async with grouped() as (world, names):
        [first] = zones(world, names[0])
        [other] = {"a", "b"} - {first}
        zones(world, names[1])
        assert zones(world, names[2], [f"{other}{i}" for i in range(3)]) == set()
        await world.settle(BACKOFF_S)
        assert [zones(world, name) for name in names] == [{other}] * 3


async def test_a_lost_try_ends_though_kube_scheduler_leaves_no_break() -> None:
    """It may try a group of its own again at once, without end: the other zone's turn comes within a second."""
    async with grouped() as (world, names):
        [first] = zones(world, names[0])
        [other] = {"a", "b"} - {first}
        left = [f"{other}{i}" for i in range(3)]  # kube-scheduler knows that the first zone is full
        lost = 0
        while (found := [zones(world, name, left) for name in names]) == [set()] * 3 and lost < 100:
            lost += 1
            await world.settle(0.01)
        assert found == [{other}] * 3
        assert lost > 10, "a group of many members is not torn apart in the middle"


@pytest.mark.parametrize(("policy", "debug"), [("preferred", False), ("required", True)])
async def test_without_a_zone_policy_and_for_a_person_there_is_no_try(policy: str, debug: bool) -> None:
    """docs/safety.md S2: a debugging call changes nothing, and sees all nodes."""
    async with grouped(annotations={"netgang.io/zone-policy": policy}) as (world, names):
        assert len(world.passed(names[0], unless=Reason.OTHER_ZONE, debug=debug)) == 6


NATIVE: dict[str, Any] = {"schedulingGroup": {"podGroupName": "native"}}
N1 = node_json("n1")


async def test_it_is_scored() -> None:
    async with running(N1, node_json("n3")) as world:
        world.pod("a", nodeName="n1", **NATIVE)
        await world.planned_pod("b", **NATIVE)
        scores = world.scores("b")
        assert scores["n1"] > scores["n3"]


async def test_labels_beside_it_do_not_count() -> None:
    """Where the field is kept, kube-scheduler gangs, and has waited for the others already: one of three is bound."""
    async with running(N1) as world:
        await world.planned_gang("both", 3, **NATIVE)
        world.filter("both-0")
        assert (await world.bind_answer("both-0", "n1"), world.bound()) == (None, {"both-0": "n1"})


async def test_nothing_is_written_about_it() -> None:
    async with running(N1) as world:
        world.api.add(group_json("native", least=5))
        for name in ("a", "b"):
            world.pod(name, cpu="99", **NATIVE)
        await world.settle(120.0)
        assert (world.api.calls["group_status"], world.api.events) == (0, [])
        assert not world.service.planner.current.waiting
