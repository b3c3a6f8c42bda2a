"""Events: what they say, that they are few, that nothing depends on them; probable mistakes in labels and names."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import pytest

from extender.cache.cluster import ClusterCache
from extender.controllers.events.mistakes import IgnoredNotes
from extender.controllers.events.waiting import PATIENCE_S
from extender.controllers.recorder import MOST_QUEUED, REPEAT_S, Events, Happening, pod_subject
from extender.errors import ApiError, ApiUnavailableError
from extender.runtime.telemetry import Telemetry
from extender.signed_notes import Bearer, Flaw, NoteKind
from scoring.model import Pod
from tests.builders import gang, pod
from tests.extender.beside import playing
from tests.extender.controllers.contexts import context_over
from tests.extender.scheduling.world import World, group_json, node_json, pod_json, running
from tests.fakes.clock import FakeClock, LoopClock
from tests.fakes.cluster_api import FakeClusterApi

pytestmark = [pytest.mark.looptime, pytest.mark.slow]  # hours of virtual time

N1 = node_json("n1")
SOON_S = 6.0  # within which a mistake is told
LEAST = "pod-group.scheduling.sigs.k8s.io/min-available"
TWO = f"label {LEAST} is 'two': it must be a whole number of at least 1, such as \"4\""


class Desk:
    def __init__(self) -> None:
        self.api = FakeClusterApi()
        self.telemetry = Telemetry()
        self.events = Events(self.api, LoopClock(), self.telemetry, instance="netgang-0")

    def post(self, about: Pod, what: Happening = Happening.NOT_DISRUPTED, note: str = "gone") -> None:
        self.events.post(pod_subject(about), what, note)

    @property
    def dropped(self) -> float | None:
        return self.telemetry.registry.get_sample_value("netgang_events_dropped_total")


@asynccontextmanager
async def at_work() -> AsyncIterator[Desk]:
    desk = Desk()
    async with playing(desk.events.run()):
        yield desk


def told(world: World) -> list[tuple[str, str]]:
    """Reason and object of all Events so far but those that say why a gang waits: these have their own tests."""
    besides = ("GangWaiting", "GangCannotStart", "GangStarted")
    return [(one["reason"], one["regarding"]["name"]) for one in world.api.events if one["reason"] not in besides]


async def test_an_event_has_what_the_api_asks_for() -> None:
    async with at_work() as desk:
        one = pod("p", namespace="team-a")
        desk.post(one, Happening.NETWORK_RECOVERED, "moved")
        await asyncio.sleep(1.0)
        [event] = desk.api.events
        assert event["metadata"].items() >= {"namespace": "team-a", "generateName": "p-"}.items()
        assert event["regarding"] == {
            "apiVersion": "v1", "kind": "Pod", "namespace": "team-a", "name": "p", "uid": one.uid,
        }  # fmt: skip
        assert (event["reason"], event["type"], event["note"]) == ("NetworkRecovered", "Normal", "moved")
        assert event["action"]
        assert (event["reportingController"], event["reportingInstance"]) == ("netgang.io/extender", "netgang-0")
        assert datetime.fromisoformat(event["eventTime"]).timestamp() == 1_700_000_000.0
        assert len(event["eventTime"].partition(".")[2]) == len("000000Z")


async def test_the_same_is_told_once_in_ten_minutes() -> None:
    async with at_work() as desk:
        one, other = pod("p"), pod("q")
        for _ in range(5):
            desk.post(one)
            await asyncio.sleep(REPEAT_S / 6)
        assert len(desk.api.events) == 1
        desk.post(other)
        desk.post(one, Happening.EVICTED)
        await asyncio.sleep(REPEAT_S / 6)
        assert len(desk.api.events) == 3
        desk.post(one)
        await asyncio.sleep(1.0)
        assert len(desk.api.events) == 4


async def test_a_flood_is_paced_and_cut_off() -> None:
    async with at_work() as desk:
        for number in range(MOST_QUEUED + 7):
            desk.post(pod(f"p{number}"))
        assert desk.dropped == 7.0
        await asyncio.sleep(10.0)
        assert 95 <= len(desk.api.events) <= 105
        await asyncio.sleep(MOST_QUEUED / 10.0)
        assert len(desk.api.events) == MOST_QUEUED


@pytest.mark.parametrize("error", [ApiError(403, "namespace is going"), ApiUnavailableError("refused")])
async def test_failures_do_not_matter(error: Exception) -> None:
    async with at_work() as desk:
        desk.api.fail_next("create_event", error)
        desk.post(pod("p"))
        desk.post(pod("q"))
        await asyncio.sleep(1.0)
        assert desk.dropped == 1.0
        assert [one["regarding"]["name"] for one in desk.api.events] == ["q"]


# What the service tells.


async def test_bad_labels_are_told_once() -> None:
    async with running(N1) as world:
        world.pod("good", gang="g", size=2)
        bad = pod_json("bad", gang="g")
        bad["metadata"]["labels"][LEAST] = "two"
        world.api.add(bad)
        await world.settle(SOON_S)
        assert world.told_to("GangInvalid") == {"bad": f"pod default/bad: {TWO}"}
        await world.settle(2 * REPEAT_S)
        assert told(world) == [("GangInvalid", "bad")]


@pytest.mark.parametrize("fields", [{"cpu": "9"}, {"nodeName": "n1"}], ids=["it waits", "it has started"])
async def test_unknown_options_are_told(fields: dict[str, Any]) -> None:
    async with running(N1) as world:
        world.gang("g", 1, annotations={"netgang.io/selection": "best", "netgang.io/zonez": "a"}, **fields)
        await world.settle(SOON_S)
        assert told(world) == [("ProbableMistake", "g-0")]
        assert world.told("ProbableMistake") == [
            "netgang.io/selection: 'best' is not one of subset, paper, pack; subset is used; "
            "netgang.io/zonez: no such annotation; did you mean netgang.io/zones?"
        ]


async def test_what_is_mended_in_time_is_not_told() -> None:
    """Pods come before their PodGroup, and one after the other."""
    async with running(N1) as world:
        world.pod("p", group="late")
        await world.settle(PATIENCE_S - 2.0)
        world.api.add(group_json("late"))
        await world.settle(2 * PATIENCE_S)
        assert told(world) == []


def test_an_ignored_note_of_each_kind_is_told() -> None:
    """Whatever it is for (docs/safety.md S21)."""
    ignored = IgnoredNotes(context_over(FakeClusterApi(), ClusterCache(), FakeClock()))
    one = gang("g", 1)
    for kind in NoteKind:
        ignored.heard(kind, Bearer("v1", "Pod", "default", "g-0", one.members[0].uid), Flaw.FORGED)
    ignored.reconcile()
    assert len(ignored.of_gang(one)) == 5


NAME = "pod-group.scheduling.sigs.k8s.io/name"
LARGE = node_json("n1", cpu="8")
GANG = {NAME: "g", LEAST: "2"}


def owned(name: str, labels: dict[str, str], owner: str = "job", **fields: Any) -> dict[str, Any]:
    made = pod_json(name, **fields)
    controller = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": f"uid-{owner}", "controller": True}
    made["metadata"] |= {"labels": labels, "ownerReferences": [controller]}
    return made


def placed_by(scheduler: str) -> dict[str, Any]:
    return pod_json(f"of-{scheduler}", scheduler=scheduler, nodeName="n1", phase="Running")


NMAE, HAVE = NAME.replace("name", "nmae"), "The gang's pods have schedulerName"
MISTAKES: dict[str, tuple[dict[str, str], str, str]] = {  # case: (labels, schedulerName, what is told; empty: nothing)
    "a misspelt label": ({NMAE: "g"}, "netgang", f"Label {NMAE}: did you mean label {NAME}?"),
    "of whatever scheduler": ({NMAE: "g"}, "other", f"Label {NMAE}: did you mean label {NAME}?"),
    "a misspelt scheduler": (GANG, "net-gang", f"{HAVE} net-gang: did you mean netgang?"),
    "a scheduler that places no pod": (
        GANG, "volcanoo", f"{HAVE} volcanoo, and no pod of the cluster was placed by it: is it netgang?"),
    "no scheduler is named": (GANG, "default-scheduler", "The pods have labels of a gang and schedulerName "
        "default-scheduler, so netgang does not start them together: set schedulerName to netgang, unless a plugin of "
        "that scheduler reads these labels."),
    "another scheduler that is at work": (GANG, "busy", ""),
    "a gang of ours": (GANG, "netgang", ""),
    "a pod of others": ({"app.kubernetes.io/name": "x"}, "default-scheduler", ""),
}  # fmt: skip


@pytest.mark.parametrize(("labels", "scheduler", "note"), MISTAKES.values(), ids=MISTAKES)
async def test_a_mistake_is_told_soon_and_once_for_an_owner(labels: dict[str, str], scheduler: str, note: str) -> None:
    pods = [owned(f"p{i}", labels, scheduler=scheduler) for i in range(3)]
    async with running(LARGE, placed_by("busy"), placed_by("default-scheduler"), *pods) as world:
        await world.settle(SOON_S)
        assert list(world.told_to("ProbableMistake").values()) == ([note, note] if note else [])
        for one in pods[:2]:
            world.api.add(one)
        await world.settle(660.0)
        assert len(world.told("ProbableMistake")) == (2 if note else 0)
        assert "job" in world.told_to("ProbableMistake") or not note
        assert not [patch for patch in world.api.patches if scheduler != "netgang"]


async def test_many_owners_are_told_one_after_the_other() -> None:
    pods = [owned(f"p{i}", {NAME.replace("name", "nmae"): "g"}, f"job-{i}") for i in range(20)]
    async with running(LARGE, *pods) as world:
        await world.settle(2.5)
        assert 0 < len(world.told_to("ProbableMistake")) < 20
        await world.settle(30.0)
        assert len(world.told_to("ProbableMistake")) == 40


async def test_a_tenants_many_keys_are_bounded() -> None:
    """As many keys as an object can hold are not looked through (docs/safety.md S21)."""
    keys = {f"pod-group.scheduling.sigs.k8s.io/name{i}": "g" for i in range(2000)}
    async with running(LARGE, owned("many", keys), owned("few", dict(list(keys.items())[:60]), "other")) as world:
        await world.settle(10.0)
        assert world.told_to("ProbableMistake").keys() == {"few", "other"}
        assert all(len(note) < 1024 for note in world.told_to("ProbableMistake").values())
