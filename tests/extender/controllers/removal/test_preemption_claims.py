"""How long the room of gangs that leave is kept, through refusals, restarts and leaders; what its notes are worth."""

from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from extender.controllers.removal.preemptions import NOTE, noted_of, notes_for
from extender.controllers.removals import QUIET_S
from extender.convert import pod_from_json
from extender.errors import ApiUnavailableError
from extender.kube.calls import PODS
from extender.signed_notes import MOST_CHARS, Bearer, NoteKind
from scoring import GangKey, NodeName, PodUid
from scoring.model import Pod
from scoring.model.snapshot import Reservation
from tests.builders import gang, pod
from tests.extender.controllers.removal.test_preemptions import (
    MAKES_ROOM_S,
    ON,
    acting,
    arrives,
    claims,
    full,
    job,
    nodes,
    running_gangs,
)
from tests.extender.leadership.test_lease_loop import Replicas, cut_off, until_leads
from tests.extender.scheduling.world import NO_BUDGET, key, node_json, pod_json, unfinished
from tests.fakes.cluster_api import FakeClusterApi
from tests.fakes.notes import notes_of_a_former_process

pytestmark = pytest.mark.looptime

NOTES = notes_of_a_former_process()
WALL_S = 1_700_000_000.0  # the wall clock at the start of a test


async def test_a_member_that_names_another_gang_meanwhile_drags_none_along() -> None:
    async with full(("two", 2), ("one", 1)) as (world, stack, jobs):
        jobs["two"].ends = False
        await arrives(world, stack, 2)
        assert claims(world) == {"default/high": ["default/two"]}
        kept, pod = jobs["one"].uids(), world.api.pod("two-0")
        labels = {**pod["metadata"]["labels"], **world.api.pod("one-0")["metadata"]["labels"]}
        world.api.store.put(PODS, {**pod, "metadata": {**pod["metadata"], "labels": labels}})
        await world.settle(10.0)
        assert world.counted("internal_errors_total") == 0.0
        world.api.store.put(PODS, pod)
        jobs["two"].ends = True
        await world.settle(MAKES_ROOM_S)
        assert (running_gangs(world), jobs["one"].uids()) == ({"high": 2, "one": 1}, kept)


async def test_one_that_is_refused_in_the_middle_is_asked_again() -> None:
    """A budget appeared after all had been asked: one pod of three is gone, the others follow as soon as they may."""
    async with full(("three", 3), kind="StatefulSet") as (world, stack, _):
        world.api.fail_next("evict", NO_BUDGET, times=2)
        world.api.latency_s["evict"] = 0.0
        released = world.api.hold("evict")
        await arrives(world, stack, 3)
        assert claims(world) == {"default/high": ["default/three"]}
        world.api.heal()
        released.set()
        await world.settle(0.2)
        world.api.fail_next("evict", NO_BUDGET)
        await world.settle(MAKES_ROOM_S + 10.0)
        assert (running_gangs(world), claims(world)) == ({"high": 3}, {})


async def test_one_of_two_gangs_that_refuses_is_asked_again() -> None:
    """The first has left; the second could not be read just then: it leaves a little later, and the room waits."""
    async with full(("a", 1), ("b", 1)) as (world, stack, jobs):
        jobs["a"].ends = jobs["b"].ends = False
        await arrives(world, stack, 2, for_s=0.0)
        released = world.api.hold("patch_object")
        await world.settle(2.0)
        world.api.fail_next("patch_object", ApiUnavailableError("connection refused"))
        released.set()
        await world.settle(2.0)
        jobs["a"].ends = jobs["b"].ends = True
        await world.settle(MAKES_ROOM_S + 8.0)
        assert running_gangs(world) == {"high": 2}
        assert world.counted("preemptions_total", outcome="started") == 1.0


GIVES: dict[str, list[str]] = {"default/high": ["default/low"]}  # room is kept, and low is seen to make it
NOTED = {  # case: (the claims that are made, what is different from a note that counts)
    "it counts": (GIVES, {}),
    "nobody is seen leaving": ({"default/high": []}, {"deleting": False}),
    "who leaves has a higher priority": ({"default/high": []}, {"priority": 20}),
    "it is too old": ({}, {"at_s": WALL_S - 700.0}),
    "it is of the future": ({}, {"at_s": WALL_S + 700.0}),
    "the gang has its nodes": ({}, {"node": "n3"}),
    "switched off": ({}, {"settings": {"preemption": "off"}}),
}


@pytest.mark.parametrize(("want", "other"), NOTED.values(), ids=NOTED)
async def test_what_a_new_process_makes_of_a_note(want: dict[str, list[str]], other: dict[str, Any]) -> None:
    """The room that was claimed is kept again for a note of ours that is young; nobody is made to leave by it."""
    low = pod_json("low-0", gang="low", size=1, nodeName="n0", priority=other.get("priority", 0))
    low["metadata"]["creationTimestamp"] = "2023-11-14T22:00:00Z"
    if other.get("deleting", True):
        low["metadata"]["deletionTimestamp"] = "2023-11-14T22:13:00Z"
    content = msgspec.json.encode({"at_s": other.get("at_s", WALL_S), "nodes": {"u-high": "n0"}}).decode()
    text = NOTES.write(NoteKind.PREEMPTS, Bearer("v1", "Pod", "default", "high-0", "u-high"), content)
    spec = {"nodeName": other["node"]} if "node" in other else {}
    high = pod_json("high-0", gang="high", size=1, uid="u-high", annotations={NOTE: text}, priority=10, **spec)
    objects = [node_json(f"n{i}", cpu="1") for i in (0, 3)]
    async with unfinished(*objects, low, high, **other.get("settings", ON)) as world:
        assert claims(world) == want


async def test_another_leader_keeps_the_room() -> None:
    async with Replicas() as group:
        a, b = await group.start("a", **ON), await group.start("b", **ON)
        two = job(a.world, "two", 2, cpu="3")
        async with acting(a.world, two), AsyncExitStack() as mine:
            await a.world.settle(QUIET_S + 5.0)
            two.ends = False
            high = await arrives(a.world, mine, 2, cpu="3")
            assert (claims(a.world), claims(b.world)) == ({"default/high": ["default/two"]}, {})
        a.world.delete("two-0")
        cut_off(a)
        await until_leads(b)
        assert (claims(a.world), claims(b.world)) == ({}, {"default/high": []})
        await b.world.settle(3.0)  # for a look at suspended owners
        assert claims(b.world) == {"default/high": ["default/two"]}
        two.world = high.world = b.world
        two.ends = True
        async with acting(b.world, two, high):
            await b.world.settle(QUIET_S + 5.0)
            assert (running_gangs(b.world), claims(b.world)) == ({"high": 2}, {})


async def test_a_gang_that_changes_while_all_are_asked_is_left_alone() -> None:
    """Between the first decision and the second a gang for which nobody has to leave gets room: nobody leaves."""
    async with full(("two", 2)) as (world, stack, jobs):
        released = world.api.hold("list")
        await arrives(world, stack, 2, for_s=3.0)
        for one in nodes(4)[2:]:
            world.api.add(one)
        await world.settle(1.0)
        released.set()
        await world.settle(MAKES_ROOM_S)
        assert (running_gangs(world), jobs["two"].created) == ({"high": 2, "two": 2}, 2)


async def test_room_that_somebody_else_makes_meanwhile_is_enough() -> None:
    """Between the questions and the claim an elastic job began to shrink for the same gang: nobody leaves."""
    async with full(("two", 2)) as (world, stack, jobs):
        released = world.api.hold("list")
        await arrives(world, stack, 2)
        world.service.cache.set_claim(key("high"), Reservation(key("high"), {}, ()))
        released.set()
        await world.settle(MAKES_ROOM_S)
        assert (jobs["two"].created, world.counted("preemptions_total", outcome="begun")) == (2, 0.0)
        world.service.cache.set_claim(key("high"), None)
        await world.settle(MAKES_ROOM_S)
        assert running_gangs(world) == {"high": 2}


async def test_a_gang_that_goes_while_its_note_is_written_makes_nobody_leave() -> None:
    async with full(("two", 2)) as (world, _, jobs):
        async with AsyncExitStack() as mine:
            high = await arrives(world, mine, 2, for_s=0.0)
            released = world.api.hold("patch")
            await world.settle(MAKES_ROOM_S)
            assert claims(world) == {"default/high": ["default/two"]}
        world.delete(*high.members())
        await world.settle(2.0)
        assert claims(world) == {}
        released.set()
        await world.settle(MAKES_ROOM_S)
        assert (running_gangs(world), jobs["two"].created) == ({"two": 2}, 2)


@pytest.mark.parametrize("changed", ["nothing", "preemptible", "priority"])
async def test_whoever_takes_over_decides_again(changed: str) -> None:
    api = FakeClusterApi(*nodes(2))
    async with unfinished(api=api, **ON) as world:
        a, b = job(world, "a", 1), job(world, "b", 1)
        async with acting(world, a, b), AsyncExitStack() as stack:
            await world.settle(QUIET_S + 3.0)
            a.ends = b.ends = False
            released = api.hold("patch_object")
            high = await arrives(world, stack, 2)
            api.fail_next("patch_object", ApiUnavailableError("refused"))
            released.set()
            await world.settle(1.0)
    [first, other] = sorted((a, b), key=lambda one: not one.suspended)
    assert (first.suspended, other.suspended) == (True, False)
    member = api.pod(other.members()[0])
    if changed == "preemptible":
        member["metadata"]["annotations"] = {"netgang.io/preemptible": "false"}
    if changed == "priority":
        member["spec"]["priority"] = 20
    api.add(member)
    async with unfinished(api=api, **ON) as world:
        for one in (a, b, high):
            one.world = world
            one.ends = True
        async with acting(world, a, b, high):
            await world.settle(QUIET_S + 30.0)
            assert running_gangs(world) == ({"high": 2} if changed == "nothing" else {other.name: 1})
            assert other.created == (2 if changed == "nothing" else 1)
            assert not first.suspended


ONE, OTHER = pod("g-0", gang="g"), pod("g-1", gang="g")
WAITS = gang("g", members=[ONE, OTHER])
CLAIM = Reservation(WAITS.key, {ONE.uid: NodeName("n1"), OTHER.uid: NodeName("n2")}, (GangKey("default/low"),))


def read(one: Pod, text: str) -> Pod:
    meta = {"name": one.name, "namespace": one.namespace, "uid": one.uid, "annotations": {NOTE: text}}
    raw = msgspec.json.encode({"metadata": meta, "spec": {"containers": []}})
    return replace(one, options=pod_from_json(raw, notes=NOTES).options)


def noted(one: Pod, *, at_s: float = 5.0, on: Pod | None = None) -> Pod:
    written = notes_for(gang("g", members=[on or one]), CLAIM, at_s=at_s, notes=NOTES)
    return read(one, written[0][1][NOTE])


def test_the_notes_give_the_room_back() -> None:
    """And speak of their own gang alone."""
    strange = replace(CLAIM, assignment={**CLAIM.assignment, PodUid("uid-other-p"): NodeName("n2")})
    [(carrier, annotations)] = notes_for(WAITS, strange, at_s=5.0, notes=NOTES)
    noted = read(carrier, annotations[NOTE])
    assert noted_of(gang("g", members=[noted, OTHER])) == (5.0, CLAIM.assignment, (noted,))
    assert "low" not in annotations[NOTE].partition(" ")[0]


def test_the_newest_of_several_counts() -> None:
    """An old one may be left from a claim that could not be wiped."""
    newest = noted(ONE, at_s=7.0)
    assert noted_of(gang("g", members=[newest, noted(OTHER, at_s=6.0)]))[2] == (newest,)


def test_a_large_gang_has_several_notes() -> None:
    pods = [pod(f"g-{number}", gang="g") for number in range(500)]
    claim = Reservation(CLAIM.gang, {one.uid: NodeName(f"ip-10-0-12-{one.name}.example.internal") for one in pods})
    written = notes_for(gang("g", members=pods), claim, at_s=5.0, notes=NOTES)
    assert 1 < len(written) < 20
    assert max(len(note[NOTE]) for _, note in written) <= MOST_CHARS
    texts = {carrier.uid: note[NOTE] for carrier, note in written}
    assert noted_of(gang("g", members=[read(one, texts.get(one.uid, "")) for one in pods]))[1] == claim.assignment


WORTHLESS = {  # case: a member whose note counts for nothing
    "none": ONE,
    "empty": read(ONE, ""),
    "no JSON": read(ONE, "n1"),
    "nested": read(ONE, '{"x":' + "[" * 100_000),
    "without a signature": read(ONE, '{"at_s":5.0,"nodes":{"uid-default-g-0":"n1"}}'),
    "a copy of another pod's": noted(ONE, on=OTHER),
    "of a pod that has its node": replace(noted(ONE), node=NodeName("n1")),
    "of another release": replace(ONE, options=(("preempts", '{"victims": []}'),)),
}


@pytest.mark.parametrize("member", WORTHLESS.values(), ids=WORTHLESS)
def test_what_is_not_read(member: Pod) -> None:
    """Templates, copies, leftovers and what somebody wrote keep no room (docs/safety.md S21, S22)."""
    assert noted_of(gang("g", members=[member])) == (0.0, {}, ())


@pytest.mark.parametrize(("written", "never"), [("", False), ('"preemptionPolicy": "Never",', True)])
def test_a_pods_preemption_policy_is_read(written: str, never: bool) -> None:
    """`PreemptLowerPriority` is the default; `Never` is obeyed."""
    raw = f'{{"metadata": {{"name": "p", "uid": "u"}}, "spec": {{{written} "containers": []}}}}'
    assert pod_from_json(raw.encode()).never_preempts is never
